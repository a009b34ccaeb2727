//! The command line, tested through the binary: its output, the calls that it rejects, its exit
//! codes.

mod advise;
mod bench;
#[path = "../browser/mod.rs"]
mod browser;
mod careless;
mod come_true;
mod compare;
mod database;
mod explain;
mod keyspaces;
mod page;
mod picture;
#[path = "../../../../tests/rocksdb_dirs/mod.rs"]
mod rocksdb_dirs;
#[path = "../../../../tests/rocksdb_tools/mod.rs"]
mod rocksdb_tools;
// These tests send Unix signals and examine the free space of file systems.
#[cfg(unix)]
mod signals;
mod size;
mod stats;
// These tests close streams by a Unix shell.
#[cfg(unix)]
mod streams;
mod structures;
mod tables;
mod tools;
mod usage;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit code and the output of a call.
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: std::process::Output) -> Done {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Done {
            code: output.status.code().expect("it was not killed"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Asserts that the call succeeded and printed nothing on standard error. Returns standard
    /// output.
    fn well(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// As [`Done::well`], for a command whose standard error begins with a note of the disk space
    /// that it takes, and has nothing but notes.
    fn noted(self) -> String {
        assert!(self.err.starts_with("note: up to about "), "{}", self.err);
        let err = self.err.lines().filter(|line| !line.starts_with("note: ")).collect();
        Done { err, ..self }.well()
    }

    /// Asserts that the call failed with `code`, that standard output is empty, and that standard
    /// error has one line apart from notes. Returns this line.
    fn badly(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        let mut lines = self.err.lines().filter(|line| !line.starts_with("note: "));
        let error = lines.next().expect("a reason").to_string();
        assert!(error.starts_with("error: ") && self.err.ends_with('\n'), "{}", self.err);
        assert_eq!(lines.next(), None, "{}", self.err);
        error
    }
}

/// The tables of RocksDB among the fixtures of the repository.
fn rocksdb_tables() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/rocksdb")
}

fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Done {
    run_with(arguments, b"")
}

/// As [`run`], on a screen of this many columns.
fn run_at<S: AsRef<OsStr>>(columns: usize, arguments: &[S]) -> Done {
    let output = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(arguments)
        .env("COLUMNS", columns.to_string())
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Done::of(output)
}

/// As [`run`], with these bytes on standard input.
fn run_with<S: AsRef<OsStr>>(arguments: &[S], input: &[u8]) -> Done {
    let mut child = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built with the tests");
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // An error of the write is ignored, because a command may end before it has read all input.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    Done::of(output)
}

/// As [`run`], for arguments of different string types: `maypole!("get", dir.path(), "key")`.
macro_rules! maypole {
    ($($argument:expr),* $(,)?) => {
        $crate::run(&[$(std::ffi::OsString::from($argument)),*])
    };
}
use maypole;

//! Standard output and standard error that are closed, full, or not read to the end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, pipe};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{maypole, run_with};

/// A call of every command that prints something, and one of each kind of failure.
struct Calls {
    _dir: tempfile::TempDir,
    /// Each call, with its expected exit code.
    calls: Vec<(Vec<String>, i32)>,
}

fn calls() -> Calls {
    let dir = tempfile::tempdir().unwrap();
    let text = |path: PathBuf| path.to_str().unwrap().to_string();
    let (db, keys) = (text(dir.path().join("db")), text(dir.path().join("keys")));
    let lines: String = (0..20_000).map(|i| format!("a key with the number {i}\n")).collect();
    fs::write(&keys, lines).unwrap();
    maypole!("load", &db, "--key-file", &keys).well();
    let table = fs::read_dir(&db).unwrap().map(|entry| text(entry.unwrap().path()));
    let listed = table.into_iter().find(|path| path.ends_with(".sst")).unwrap();
    // The calls get a copy of the table, because later openings of the database may compact the
    // table away.
    let table = text(dir.path().join("table.sst"));
    fs::copy(listed, &table).unwrap();
    let (missing, another) = (text(dir.path().join("missing")), text(dir.path().join("another")));
    let lone = text(dir.path().join("lone.sst"));
    run_with(&["write-table", "--out", &lone], b"key\tvalue\n").well();
    let calls: &[(&[&str], i32)] = &[
        (&["--help"], 0),
        (&["--version"], 0),
        (&["scan", "--help"], 0),
        (&["get", &db, "a key with the number 1"], 0),
        (&["scan", &db], 0),
        (&["explain", &db, "a key with the number 1"], 0),
        (&["explain", &table, "another key", "--json"], 0),
        (&["load", &db, "--key-file", &keys], 0),
        (&["ingest", &another, &lone], 0),
        (&["write-table", "--out", &lone], 1),
        (&["stats", &db], 0),
        (&["verify", &db], 0),
        (&["count", &db], 0),
        (&["completions", "bash"], 0),
        (&["man"], 0),
        (&["inspect", &table], 0),
        (&["inspect", "--entries", &table], 0),
        (&["inspect", "--annotate", &table], 0),
        (&["inspect", "--filter", &table], 0),
        (&["compare", "--keys", "2000", "--absent", "9", "--policies", "none", "--json"], 0),
        (&["bench", "--entries", "2000", "--workloads", "fillseq"], 0),
        (&["get", &db, "another key"], 1),
        (&["scan", &missing], 1),
        (&["inspect", &missing], 1),
        (&["inspect"], 2),
        (&["compare", "--policies", "bloom(0)"], 2),
    ];
    let owned = |call: &[&str]| call.iter().map(ToString::to_string).collect();
    Calls { _dir: dir, calls: calls.iter().map(|&(call, code)| (owned(call), code)).collect() }
}

fn command(call: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maypole"));
    command.args(call).stdin(Stdio::null());
    command
}

/// Regression: `inspect` panicked if standard error was a pipe without a reader, because
/// `eprintln!` panics then.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_closed_standard_error_changes_no_result() {
    for (call, code) in calls().calls {
        let expected = command(&call).output().unwrap().stdout;
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let output = command(&call).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{call:?}");
        let through_shell = shell(&call, "2>&-");
        assert_eq!(through_shell.status.code(), Some(code), "{call:?} 2>&-");
        // The output of these commands differs from call to call: they print times, or tables that
        // a compaction may have replaced.
        if !["compare", "bench", "stats", "verify", "explain"].contains(&call[0].as_str()) {
            assert!(output.stdout == expected && through_shell.stdout == expected, "{call:?}");
        }
    }
}

/// `maypole scan db | head -1` is no failure, and prints no message.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_closed_standard_output_ends_a_command_quietly() {
    for (call, code) in calls().calls {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut child = command(&call).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(code), None), "{call:?}");
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        let err: Vec<String> = err.map(|line| line.unwrap()).collect();
        let errors = err.iter().filter(|line| !line.starts_with("note: ")).count();
        assert_eq!(errors, usize::from(code != 0), "{call:?}: {err:?}");
        let through_shell = shell(&call, ">&-");
        assert_eq!(through_shell.status.code(), Some(code), "{call:?} >&-");
    }
}

#[test]
fn a_reader_that_leaves_after_a_line_ends_a_long_scan() {
    let calls = calls();
    let (scan, _) =
        calls.calls.iter().find(|(call, _)| call[0] == "scan" && call[1] != "--help").unwrap();
    let mut child = command(scan).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("a key with the number 0\t"), "{line}");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// Output that could not be written is a failure, also that of `--help`.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_full_device_as_standard_output_is_a_failure() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    for (call, code) in calls().calls.iter().filter(|(_, code)| *code != 2) {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(call).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{call:?}: {err}");
        if *code == 0 {
            assert!(err.contains("error: standard output: No space left"), "{call:?}: {err}");
        }
    }
}

/// Runs a call with a redirection that only a shell can make.
fn shell(call: &[String], redirection: &str) -> std::process::Output {
    Command::new("sh")
        .arg("-c")
        .arg(format!("\"$0\" \"$@\" {redirection}"))
        .arg(env!("CARGO_BIN_EXE_maypole"))
        .args(call)
        .output()
        .unwrap()
}

//! The limit on the length of files, beyond which the system ends a process by a signal. Each case
//! runs in a process of its own, because the limit applies to the whole process.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use maypole::fs::{Fs, RealFs, WritableFile};
use maypole::{Db, Error};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const DIRECTORY: &str = "MAYPOLE_LIMITS_TEST_DIRECTORY";
const MAX_FILE_BYTES: u64 = 300_000;

fn run(name: &str, dir: &Path) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("limits::{name}"), "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn key(n: u32) -> String {
    format!("key{n:06}")
}

/// Regression: under `ulimit -f` the system sends SIGXFSZ for a write beyond the limit, which ended
/// the process. Now such a write is rejected before it is made, like one to a full disk.
#[test]
fn a_limit_on_the_length_of_files_is_an_error_not_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    std::fs::create_dir(&files).unwrap();
    run("a_file_that_may_not_grow", &files);
    for (name, memtable_bytes) in [("log", 16 << 20), ("table", 200 << 10)] {
        run("a_database_whose_files_may_not_grow", &dir.path().join(name));
        let db = Db::builder(dir.path().join(name)).memtable_bytes(memtable_bytes).open().unwrap();
        let acknowledged = std::fs::read_to_string(dir.path().join(name).with_extension("txt"));
        let acknowledged: u32 = acknowledged.unwrap().parse().unwrap();
        assert!(acknowledged > 100, "{acknowledged}");
        for n in 0..acknowledged {
            assert!(db.get(key(n)).unwrap().is_some(), "{name}: {n} of {acknowledged}");
        }
    }
}

/// Lowers the soft limit on the length of files. The drop of this value restores the limit.
struct Limited(Rlimit);

impl Limited {
    fn new() -> Limited {
        let limit = getrlimit(Resource::Fsize);
        let lower = Rlimit { current: Some(MAX_FILE_BYTES), ..limit };
        setrlimit(Resource::Fsize, lower).unwrap();
        Limited(limit)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        setrlimit(Resource::Fsize, self.0).unwrap();
    }
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn a_database_whose_files_may_not_grow() {
    let Some(dir) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let limited = Limited::new();
    let memtable_bytes = if dir.ends_with("log") { 16 << 20 } else { 200 << 10 };
    let builder = Db::builder(&dir).memtable_bytes(memtable_bytes).table_bytes(1 << 20);
    let db = builder.compression(maypole::Compression::None).open().unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match db.put(key(acknowledged), [b'v'; 500]) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        // Small memtables make small logs and tables, so that only the table that compaction makes
        // is too long.
        if dir.ends_with("table") && acknowledged % 300 == 0 {
            match db.compact_range(..) {
                Ok(()) => {}
                Err(error) => break error,
            }
        }
        assert!(acknowledged < 20_000, "the limit had no effect");
    };
    assert!(error.is_out_of_space(), "{error}");
    assert!(error.to_string().contains("File too large"), "{error}");
    drop(db);
    drop(limited);
    std::fs::write(dir.with_extension("txt"), acknowledged.to_string()).unwrap();
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn a_file_that_may_not_grow() {
    let Some(dir) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let _limited = Limited::new();
    let fill = |mut file: Box<dyn WritableFile>| {
        let path = file.path().to_owned();
        loop {
            let before = file.len();
            let appended = file.append(&[7; 1000]).and_then(|()| file.flush());
            let Err(error) = appended else { continue };
            let Error::Io { source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge);
            assert_eq!(before, MAX_FILE_BYTES, "{error}");
            break;
        }
        // A second attempt is rejected as well, and neither attempt leaves a byte in the file.
        assert!(file.flush().is_err() || file.append(&[7; 1000]).is_err());
        drop(file);
        assert!(std::fs::read(path).unwrap() == [7; MAX_FILE_BYTES as usize]);
    };
    fill(RealFs.create(&dir.join("plain")).unwrap());
    fill(RealFs.create_log(&dir.join("log")).unwrap());
}

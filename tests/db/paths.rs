//! The paths of a database: relative ones while the process changes its directory, and empty ones.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use maypole::fs::{Fs, MemFs, RealFs, create_dir_durably};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Error};

const DIRECTORY: &str = "MAYPOLE_PATHS_TEST_DIRECTORY";

/// Regression: a database was opened by a relative path, and the process changed its directory. The
/// next flush wrote its table into the database of the same relative name in the new directory, and
/// removed the WALs and tables of that database as unlisted. Both databases failed to open. Now
/// every path is made absolute first, also that of a checkpoint, of an ingested file and of a table
/// being written.
#[test]
fn a_relative_path_stays_what_it_was_when_the_process_changes_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    // The current directory is that of the whole process, and so of all tests. So this test runs in
    // a process of its own.
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "paths::child", "--ignored", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    for name in ["one", "two"] {
        let db = Db::open(dir.path().join(name).join("db")).unwrap();
        for n in 0..400 {
            let value = db.get(format!("key{n:04}")).unwrap();
            assert_eq!(value.as_deref(), Some(name.as_bytes()), "{name}, {n}");
        }
        db.verify().unwrap();
    }
    let db = Db::open(dir.path().join("one/copy")).unwrap();
    assert_eq!(db.iter().count(), 401);
    assert!(!dir.path().join("two/copy").exists());
    assert!(!dir.path().join("two/outside.sst").exists());
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn child() {
    let Some(dir) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let enter = |name: &str| {
        std::fs::create_dir_all(dir.join(name)).unwrap();
        env::set_current_dir(dir.join(name)).unwrap();
    };
    let fill = |db: &Db, value: &str, keys: std::ops::Range<u32>| {
        keys.for_each(|n| db.put(format!("key{n:04}"), value).unwrap());
    };
    let open = || Db::builder("db").memtable_bytes(4096).open().unwrap();
    enter("two");
    let two = open();
    fill(&two, "two", 0..200);
    two.flush().unwrap();

    enter("one");
    let one = open();
    fill(&one, "one", 0..200);
    let mut writer = SstWriter::create("outside.sst", TableOptions::default()).unwrap();
    writer.put(b"ingested", b"").unwrap();

    enter("two");
    writer.finish().unwrap();
    fill(&one, "one", 200..400);
    fill(&two, "two", 200..400);
    one.compact_range(..).unwrap();
    two.compact_range(..).unwrap();
    assert!(one.ingest(&["outside.sst"]).is_err(), "that file is in the other directory");
    enter("one");
    one.ingest(&["outside.sst"]).unwrap();
    one.checkpoint("copy").unwrap();
    enter("two");
    one.close().unwrap();
    two.close().unwrap();
}

/// Regression: the creation of a directory goes from parent to parent until one exists. For an
/// empty path this never ended, because the parent of the empty path is empty. Now an empty path is
/// an error.
#[test]
fn an_empty_path_is_refused() {
    let says_so = |result: maypole::Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.to_string().contains("path is empty"), "{error}");
    };
    says_so(Db::open("").map(drop));
    says_so(Db::builder("").create_if_missing(false).open().map(drop));
    says_so(Db::builder("").fs(Arc::new(MemFs::new())).open().map(drop));
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    says_so(db.checkpoint(""));
    says_so(db.ingest(&[""]));
    assert!(create_dir_durably(&RealFs, Path::new("")).is_err());
}

/// A file system in memory has one root, and is independent of the directory of the process.
#[test]
fn a_file_system_in_memory_knows_no_directory_of_the_process() {
    let fs = Arc::new(MemFs::new());
    let shared: Arc<dyn Fs> = fs.clone();
    let open = |path: &str| Db::builder(path).fs(shared.clone()).open().unwrap();
    open("db").put("k", "v").unwrap();
    assert_eq!(fs.list(Path::new("/")).unwrap(), ["db"]);
    assert_eq!(open("/db").get("k").unwrap().unwrap(), b"v");
}

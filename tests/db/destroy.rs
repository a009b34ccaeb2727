//! The removal of a database: all of its own files, and nothing else.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Target};
use maypole::{Db, Error};

use super::files;

#[test]
fn destroy_removes_what_is_the_databases_own_and_names_what_it_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path()).publish_stats(Duration::from_secs(1)).open().unwrap();
    for n in 0..3u32 {
        db.put(n.to_be_bytes(), "value").unwrap();
        db.flush().unwrap();
    }
    db.put("in the log", "").unwrap();
    db.close().unwrap();
    let strangers = ["7.wal", "999999999999.sst", "lost", "notes.txt"];
    for name in strangers {
        match name {
            "lost" => fs::create_dir(dir.path().join(name)).unwrap(),
            _ => fs::write(dir.path().join(name), "mine").unwrap(),
        }
    }
    let report = Db::destroy(dir.path()).unwrap();
    assert_eq!(report.left, strangers);
    assert!(report.removed >= 6, "3 tables, a log, a MANIFEST, CURRENT, LOCK: {report:?}");
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, strangers);
    assert!(matches!(Db::destroy(dir.path()), Err(Error::NoDatabase { .. })));
    assert!(Db::open(dir.path()).unwrap().is_empty().unwrap());
}

#[test]
fn destroy_touches_nothing_while_the_database_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert!(matches!(Db::destroy(dir.path()), Err(Error::Locked { .. })));
    db.close().unwrap();
    assert_eq!(Db::open(dir.path()).unwrap().verify().unwrap().tables, 1);
}

/// RocksDB's files have names like Maypole's. `destroy` leaves all files alone that cannot be read
/// as Maypole's.
#[test]
fn destroy_leaves_the_files_of_another_program_and_creates_none_there() {
    for foreign in [
        &[("CURRENT", "MANIFEST-000004\n"), ("MANIFEST-000004", "\x01\x02foreign")][..],
        &[("CURRENT", "what else is current")],
        &[("000012.sst", "foreign")],
    ] {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in foreign {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let outcome = Db::destroy(dir.path());
        assert!(
            matches!(outcome, Err(Error::Corruption { .. } | Error::Unsupported { .. })),
            "{outcome:?}"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), foreign.len());
    }
}

/// A log without `CURRENT` is what is left of a database if it has a record, and of an interrupted
/// creation if it has none.
#[test]
fn destroy_removes_a_log_alone_only_if_it_has_no_records() {
    for has_record in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        if has_record {
            db.put("key", "value").unwrap();
        }
        db.close().unwrap();
        let (logs, others): (Vec<_>, Vec<_>) =
            files(dir.path(), "").into_iter().partition(|path| path.extension().is_some());
        assert_eq!(logs.len(), 1, "{logs:?}");
        others.iter().for_each(|path| fs::remove_file(path).unwrap());
        let before = fs::read(&logs[0]).unwrap();
        let outcome = Db::destroy(dir.path());
        if has_record {
            assert!(matches!(outcome, Err(Error::Corruption { .. })), "{outcome:?}");
            assert_eq!(files(dir.path(), ""), logs);
            assert_eq!(fs::read(&logs[0]).unwrap(), before);
        } else {
            assert_eq!(outcome.unwrap().removed, 2, "the log and LOCK");
            assert!(files(dir.path(), "").is_empty());
        }
    }
}

/// If a call to the file system and all later ones fail during `destroy`, the remaining files open
/// with all entries or not at all, and the next `destroy` removes them.
#[test]
fn an_interrupted_removal_is_taken_up_again() {
    for nth in 0.. {
        let mem = MemFs::new();
        let db = Db::builder("/db").fs(Arc::new(mem.clone())).open().unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, "").unwrap();
            db.flush().unwrap();
        }
        db.put("d", "").unwrap();
        db.close().unwrap();
        let faulty = FaultFs::new(Arc::new(mem.clone()));
        faulty.fail_from(Target::Any, nth, Fault::Io);
        let interrupted = Db::builder("/db").fs(Arc::new(faulty)).destroy();
        let builder = || Db::builder("/db").fs(Arc::new(mem.clone()));
        match builder().open_read_only() {
            Ok(db) => assert_eq!(db.len().unwrap(), 4, "call {nth}"),
            Err(error) => assert!(!matches!(error, Error::Locked { .. }), "call {nth}: {error}"),
        }
        match builder().destroy() {
            Ok(_) => assert!(interrupted.is_err(), "call {nth}"),
            Err(error) => assert!(matches!(error, Error::NoDatabase { .. }), "call {nth}: {error}"),
        }
        let names = mem.list(Path::new("/db")).unwrap();
        assert!(names.is_empty() || names == ["LOCK"], "call {nth}: {names:?}");
        if interrupted.is_ok() {
            assert!(nth > 15, "a removal makes {nth} calls");
            return;
        }
    }
}

//! Careless uses of the library: handles that are kept too long, options that change, calls in the
//! wrong place. Each test makes a few such mistakes.

use std::cell::RefCell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use maypole::fs::{Fs, MemFs};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Compression, Db, Error, WriteBatch};

fn table(path: &Path, key: &str, value: &str) -> PathBuf {
    let mut writer = SstWriter::create(path, TableOptions::default()).unwrap();
    writer.put(key.as_bytes(), value.as_bytes()).unwrap();
    writer.finish().unwrap();
    path.to_owned()
}

fn in_memory() -> (Db, Arc<dyn Fs>) {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    (Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap(), fs)
}

/// A snapshot and an iterator are kept while their database is closed and opened again, and are
/// dropped later. Reads of the snapshot fail, and the iterator continues with its old entries.
/// Neither of them, nor their drop, disturbs the new opening.
#[test]
fn a_snapshot_that_is_held_over_a_reopening_disturbs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("key", "old").unwrap();
    db.flush().unwrap();
    let (snapshot, mut iterator) = (db.snapshot(), db.iter());
    db.put("key", "new").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.compact_all().unwrap();
    assert!(matches!(snapshot.get("key"), Err(Error::Closed)));
    assert_eq!(iterator.next().unwrap().unwrap().1, b"old");
    drop((snapshot, iterator));
    db.put("later", "").unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"new");
    db.close().unwrap();
    assert_eq!(Db::open(dir.path()).unwrap().len().unwrap(), 2);
}

/// One handle is dropped while a panic unwinds. Another one is in a thread-local and is dropped
/// when the thread ends. A callback of `get_with` panics. The written data is found afterwards, and
/// the directory can be opened at once.
#[test]
fn panics_and_thread_locals_close_a_database_as_any_other_drop() {
    thread_local! {
        static KEPT: RefCell<Option<Db>> = const { RefCell::new(None) };
    }
    let dir = tempfile::tempdir().unwrap();
    let unwound = catch_unwind(|| {
        let db = Db::open(dir.path()).unwrap();
        db.put("1", "").unwrap();
        panic!("of the caller");
    });
    assert!(unwound.is_err());
    let path = dir.path().to_owned();
    let kept = thread::spawn(move || {
        let db = Db::open(path).unwrap();
        db.put("2", "").unwrap();
        KEPT.set(Some(db));
    });
    kept.join().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let called = catch_unwind(AssertUnwindSafe(|| db.get_with("1", |_| panic!("of the callback"))));
    assert!(called.is_err());
    // A callback may write to the database that called it, flush it and compact it.
    let called = db.get_with("1", |_| {
        db.put("3", "")?;
        db.flush()?;
        db.compact_all()
    });
    called.unwrap().unwrap().unwrap();
    assert_eq!(db.len().unwrap(), 3);
    db.close().unwrap();
}

/// A loop over a database may change the entries over which it iterates. Calls with empty ranges,
/// batches and lists succeed.
#[test]
fn a_loop_may_delete_what_it_iterates_over() {
    let (db, _) = in_memory();
    (0..2000).for_each(|n| db.put(format!("{n:04}"), "value").unwrap());
    for item in db.iter() {
        let (key, _) = item.unwrap();
        db.delete(&key).unwrap();
        db.put([&b"z"[..], &key].concat(), "").unwrap();
    }
    assert_eq!(db.len().unwrap(), 2000);
    assert_eq!(db.first_key_value().unwrap().unwrap().0, b"z0000");
    // A range whose start is above its end is empty. `delete_range` rejects such a range and writes
    // nothing.
    assert_eq!(db.range("z1".as_bytes()..b"a".as_slice()).count(), 0);
    let before = db.snapshot().sequence();
    assert!(matches!(db.delete_range("z".."a"), Err(Error::InvalidArgument(_))));
    db.delete_range("a".."a").unwrap();
    assert!(db.snapshot().sequence() <= before + 1);
    assert_eq!(db.len().unwrap(), 2000);
    db.write(WriteBatch::new()).unwrap();
    db.write_opt(WriteBatch::new(), maypole::Durability::Sync).unwrap();
    db.ingest::<&Path>(&[]).unwrap();
    assert!(db.multi_get::<&str>(&[]).unwrap().is_empty());
}

/// Thousands of snapshots are made, and released in another order.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn thousands_of_snapshots_each_see_their_own_moment() {
    let (db, _) = in_memory();
    let mut snapshots: Vec<_> = (0..5000)
        .map(|n| {
            db.put("key", format!("{n}")).unwrap();
            (n, db.snapshot())
        })
        .collect();
    db.flush().unwrap();
    db.compact_all().unwrap();
    // Every second snapshot is released first.
    for round in 0..2 {
        for (n, snapshot) in &snapshots {
            assert_eq!(snapshot.get("key").unwrap().unwrap(), format!("{n}").as_bytes());
        }
        snapshots.retain(|(n, _)| round == 0 && n % 2 == 1);
        db.compact_all().unwrap();
    }
    db.wait_for_compaction().unwrap();
    let stats = db.stats();
    assert_eq!(stats.files.iter().map(|file| file.entries).sum::<u64>(), 1, "{stats}");
}

/// A thousand databases are open in one process, each with writes, and all are dropped at one time.
#[test]
fn a_thousand_databases_live_in_one_process() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let open = |n: usize| {
        let builder = Db::builder(format!("/db{n}")).fs(Arc::clone(&fs)).block_cache_bytes(0);
        builder.memtable_bytes(4096).open().unwrap()
    };
    let databases: Vec<Db> = (0..1000).map(open).collect();
    for (n, db) in databases.iter().enumerate() {
        (0..20).for_each(|key| db.put(format!("{key}"), format!("{n}")).unwrap());
    }
    databases.iter().for_each(|db| db.flush().unwrap());
    drop(databases);
    for n in [0, 499, 999] {
        assert_eq!(open(n).get("7").unwrap().unwrap(), format!("{n}").as_bytes());
    }
}

/// Each opening has other options, and reads what earlier openings with other options have written.
#[test]
fn options_may_differ_at_each_opening() {
    let dir = tempfile::tempdir().unwrap();
    let filters = ["bloom(10)", "none", "ribbon(8)", "burr(7)"];
    let compressions = [Compression::None, Compression::Lz4];
    for round in 0..12usize {
        let db = Db::builder(dir.path())
            .memtable_bytes([4 << 10, 1 << 20, 64 << 10][round % 3])
            .block_bytes([256, 4096, 64 << 10][round / 2 % 3])
            .table_bytes([8 << 10, 1 << 20][round % 2])
            .level_base_bytes([16 << 10, 1 << 20][round / 3 % 2])
            .block_cache_bytes([0, 1, 1 << 20][round % 3])
            .compression(compressions[round / 2 % 2])
            .compaction_threads(1 + round % 3)
            .manifest_roll_bytes(1000)
            .filter(filters[round % 4])
            .open()
            .unwrap();
        for n in 0..300 {
            db.put(format!("{:05}", n * 7 + round), format!("{round}").repeat(30)).unwrap();
        }
        let count = db.len().unwrap();
        assert_eq!(db.iter().count() as u64, count);
        assert_eq!(
            db.get(format!("{:05}", round)).unwrap().unwrap(),
            format!("{round}").repeat(30).as_bytes()
        );
        if round % 4 == 3 {
            db.compact_all().unwrap();
        }
        assert_eq!(db.len().unwrap(), count);
        db.verify().unwrap();
        db.close().unwrap();
    }
}

/// One file is ingested again and again. A read-only handle rejects the ingestion.
#[test]
fn a_file_may_be_ingested_twice_and_is_refused_where_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let file = table(&path("in.sst"), "key", "ingested");
    let db = Db::open(path("db")).unwrap();
    db.ingest(&[&file]).unwrap();
    db.put("key", "newer").unwrap();
    db.ingest(&[&file]).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"ingested");
    let both = db.ingest(&[&file, &file]).unwrap_err();
    assert!(matches!(both, Error::InvalidArgument(_)), "{both}");
    // The database has a copy, so the caller may remove the file.
    fs::remove_file(&file).unwrap();
    assert!(matches!(db.ingest(&[&file]), Err(Error::Io { .. })));
    db.compact_all().unwrap();
    // `ingest` rejects a table of the database's own tree if the table's entries have sequence
    // numbers. If a compaction has set these to 0, `ingest` accepts the table as one more write.
    let own = db.stats().files[0].path.clone();
    let _ = db.ingest(&[&own]);
    assert_eq!(db.get("key").unwrap().unwrap(), b"ingested");
    assert!(own.exists() || db.stats().files.iter().all(|file| file.path != own));
    let reader = Db::open_read_only(path("db")).unwrap();
    let file = table(&path("in.sst"), "key", "again");
    assert!(matches!(reader.ingest(&[&file]), Err(Error::OpenedReadOnly)));
    assert!(matches!(reader.put("key", ""), Err(Error::OpenedReadOnly)));
    assert!(matches!(reader.compact_all(), Err(Error::OpenedReadOnly)));
    db.verify().unwrap();
    // The database is locked under each name of its directory, also under a symbolic link.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(path("db"), path("link")).unwrap();
        assert!(matches!(Db::open(path("link")), Err(Error::Locked { .. })));
        assert!(matches!(Db::destroy(path("link")), Err(Error::Locked { .. })));
        assert!(matches!(Db::repair(path("link")), Err(Error::Locked { .. })));
    }
}

/// A read-only handle reads while another handle ingests, compacts, closes and destroys. The reader
/// returns the state at its opening, and never anything else.
#[test]
fn a_reader_beside_a_writer_that_ingests_compacts_and_destroys_keeps_its_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db")).unwrap();
    (0..500).for_each(|n| db.put(format!("{n:03}"), "old").unwrap());
    db.flush().unwrap();
    let reader = Db::open_read_only(path("db")).unwrap();
    let whole = |story: &str| {
        let values: Vec<_> = reader.iter().map(|item| item.unwrap().1).collect();
        assert!(values.len() == 500 && values.iter().all(|value| *value == b"old"), "{story}");
    };
    db.ingest(&[table(&path("in.sst"), "000", "ingested")]).unwrap();
    whole("ingested");
    (0..500).for_each(|n| db.put(format!("{n:03}"), "new").unwrap());
    db.compact_all().unwrap();
    whole("compacted");
    db.delete_range("0".."9").unwrap();
    db.compact_all().unwrap();
    whole("emptied");
    db.close().unwrap();
    Db::destroy(path("db")).unwrap();
    // The reader keeps its tables open.
    #[cfg(unix)]
    whole("destroyed");
    assert!(matches!(Db::open_read_only(path("db")), Err(Error::NoDatabase { .. })));
}

/// Calls in a loop, and openings in a loop, add no files, even if deletions count as old at once
/// (`max_deletion_age` of zero).
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn calls_in_a_loop_leave_no_files_behind() {
    let dir = tempfile::tempdir().unwrap();
    let files = || fs::read_dir(dir.path()).unwrap().count();
    let db = Db::builder(dir.path()).max_deletion_age(Duration::ZERO).open();
    let db = db.unwrap_or_else(|_| Db::open(dir.path()).unwrap());
    for _ in 0..50 {
        db.compact_all().unwrap();
        db.flush().unwrap();
        db.persist().unwrap();
    }
    assert!(files() < 8, "{}", files());
    for n in 0..100 {
        db.put("key", format!("{n}")).unwrap();
        db.compact_all().unwrap();
    }
    db.wait_for_compaction().unwrap();
    assert!(files() < 8, "{}", files());
    drop(db);
    for _ in 0..50 {
        drop(Db::open(dir.path()).unwrap());
    }
    assert!(files() < 8, "{}", files());
}

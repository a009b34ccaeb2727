//! The edges: odd keys, damaged and missing files, two openings, full disks.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, RealFs, Target, write_atomic};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, DbIterator, Durability, Error, WriteBatch};

use super::device::eventually;
use super::files;
use super::ingest::{PATIENCE, faults, spawn};

fn open(dir: &Path) -> maypole::Result<Db> {
    Db::builder(dir).memtable_bytes(64 << 10).open()
}

#[test]
fn empty_and_binary_and_huge_keys_and_values_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let huge = vec![0xab; 1 << 20];
    let entries: [(&[u8], &[u8]); 6] = [
        (b"", b"the empty key"),
        (b"\0", b""),
        (b"\0\0", b"\0\xff"),
        (b"\xff\xff\xff", b"last"),
        (b"a\0b", b"zero inside"),
        (&huge, &huge),
    ];
    let db = open(dir.path()).unwrap();
    for (key, value) in entries {
        db.put(key, value).unwrap();
    }
    for round in 0..3 {
        let db = match round {
            0 => db.clone(),
            1 => {
                db.flush().unwrap();
                db.clone()
            }
            _ => {
                db.clone().close().unwrap();
                open(dir.path()).unwrap()
            }
        };
        for (key, value) in entries {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(value), "round {round}");
        }
        assert_eq!(db.get(b"\0\0\0").unwrap(), None);
        assert_eq!(db.iter().count(), entries.len());
        assert_eq!(db.iter().next().unwrap().unwrap().0, b"");
        assert_eq!(db.iter().next_back().unwrap().unwrap().0, b"\xff\xff\xff");
    }
}

#[test]
fn a_second_opening_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    db.put("k", "v").unwrap();
    let list = || files(dir.path(), "");
    let before = list();
    assert!(matches!(open(dir.path()), Err(Error::Locked { .. })));
    assert_eq!(list(), before);
    db.close().unwrap();
    assert_eq!(open(dir.path()).unwrap().get("k").unwrap().unwrap(), b"v");
}

/// Regression: for a path that is a file, the error was "file/CURRENT: cannot look up", or that
/// there is no database. Now the error names the path and says that it is a file.
#[test]
fn a_file_in_the_place_of_the_directory_is_named_by_every_call() {
    let dir = tempfile::tempdir().unwrap();
    let memory: Arc<dyn Fs> = Arc::new(MemFs::new());
    for (fs, file) in [(Arc::new(RealFs) as _, dir.path().join("file")), (memory, "/file".into())] {
        write_atomic(&*fs, &file, b"mine").unwrap();
        let builder = || Db::builder(&file).fs(Arc::clone(&fs));
        let outcomes = [
            builder().open().map(drop),
            builder().create_if_missing(false).open().map(drop),
            builder().open_read_only().map(drop),
            builder().repair().map(drop),
            builder().destroy().map(drop),
            builder().published_stats().map(drop),
        ];
        for (n, outcome) in outcomes.into_iter().enumerate() {
            let error = outcome.unwrap_err();
            let text = error.to_string();
            let named = format!("{}: cannot open the database: this is a file", file.display());
            assert!(text.starts_with(&named), "{n}: {text}");
            let Error::Io { source, .. } = error else { panic!("{n}: {text}") };
            assert_eq!(source.kind(), ErrorKind::NotADirectory, "{n}");
        }
        assert_eq!(fs.read(&file).unwrap(), b"mine");
    }
}

#[test]
fn a_missing_database_is_named_and_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = Db::builder(&missing).create_if_missing(false).open().unwrap_err();
    assert!(matches!(error, Error::NoDatabase { .. }), "{error}");
    assert!(!missing.exists());
}

#[test]
fn an_option_out_of_its_range_is_refused_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for builder in [
        Db::builder(&path).block_bytes(1),
        Db::builder(&path).memtable_bytes(0),
        Db::builder(&path).compaction_threads(0),
    ] {
        let error = builder.open().unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn a_lost_current_file_is_not_taken_for_a_new_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.path().join("CURRENT")).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(
        matches!(&error, Error::Corruption { file, .. } if file.ends_with("CURRENT")),
        "{error}"
    );
}

/// Flips a bit in each byte of CURRENT, MANIFEST and WAL in turn. The database opens with all
/// entries, or without the last one, or the opening fails with an error that names the damaged file
/// or the MANIFEST.
#[test]
fn a_flipped_byte_in_a_log_is_named_or_harmless() {
    let fs = MemFs::new();
    {
        let db = Db::builder("/db").fs(Arc::new(fs.clone())).open().unwrap();
        for n in 0..20 {
            let mut batch = WriteBatch::new();
            batch.put(format!("key{n:02}"), format!("value{n}"));
            db.write_opt(batch, Durability::Sync).unwrap();
            if n == 10 {
                db.flush().unwrap();
            }
        }
        db.close().unwrap();
    }
    let dir = Path::new("/db");
    for name in fs.list(dir).unwrap() {
        if name.ends_with(".sst") || name == "LOCK" {
            continue;
        }
        let bytes = fs.read(&dir.join(&name)).unwrap();
        for position in 0..bytes.len() {
            let image = fs.kill();
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x40;
            let mut file = image.create(&dir.join(&name)).unwrap();
            file.append(&damaged).unwrap();
            file.sync().unwrap();
            match Db::builder("/db").fs(Arc::new(image)).open() {
                Ok(db) => {
                    let found: Vec<_> = db.iter().map(|item| item.unwrap()).collect();
                    for (n, (key, value)) in found.iter().enumerate() {
                        assert_eq!(*key, format!("key{n:02}").as_bytes(), "{name} {position}");
                        assert_eq!(*value, format!("value{n}").as_bytes(), "{name} {position}");
                    }
                    // At most the last record may be lost. Every other record is followed by one
                    // that proves that it was synced (`src/wal`).
                    assert!(found.len() >= 19, "{name} {position}: {} keys left", found.len());
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(&name) || text.contains("MANIFEST"),
                        "{position}: {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_damaged_block_is_named_and_the_rest_stays_readable() {
    let fs = MemFs::new();
    let builder = || Db::builder("/db").fs(Arc::new(fs.clone())).block_bytes(256);
    let db = builder().open().unwrap();
    for n in 0..1000 {
        db.put(format!("key{n:04}"), format!("value{n}")).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let dir = Path::new("/db");
    let name = fs.list(dir).unwrap().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let mut bytes = fs.read(&dir.join(&name)).unwrap();
    bytes[100] ^= 1;
    let mut file = fs.create(&dir.join(&name)).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    drop(file);

    let db = builder().open().unwrap();
    let error = db.get("key0000").unwrap_err();
    assert!(matches!(&error, Error::Corruption { file, .. } if file.ends_with(&name)), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert_eq!(db.get("key0900").unwrap().unwrap(), b"value900");
    assert!(matches!(db.verify(), Err(Error::Corruption { .. })));
}

#[test]
fn a_full_disk_is_a_clear_error_and_what_was_written_stays() {
    let mem = MemFs::new();
    let fs = Arc::new(FaultFs::new(Arc::new(mem.clone())));
    let shared: Arc<dyn Fs> = fs.clone();
    let db = Db::builder("/db").fs(shared).memtable_bytes(8 << 10).open().unwrap();
    let mut acknowledged = 0;
    fs.fail_from(Target::Only(Operation::Append), 500, Fault::NoSpace);
    let error = loop {
        match db.put(format!("key{acknowledged:05}"), "v".repeat(50)) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 100_000, "the disk never filled");
    };
    assert!(error.is_out_of_space(), "{error}");
    for n in 0..acknowledged {
        assert!(db.get(format!("key{n:05}")).unwrap().is_some(), "{n}");
    }
    // Nothing of the failed write is in the log, so writes continue when there is space again.
    assert!(db.put("more", "").unwrap_err().is_out_of_space());
    fs.heal();
    db.put("more", "").unwrap();
    drop(db);
    let db = Db::builder("/db").fs(Arc::new(mem)).open().unwrap();
    for n in 0..acknowledged {
        assert!(db.get(format!("key{n:05}")).unwrap().is_some(), "{n} after reopening");
    }
    assert!(db.get("more").unwrap().is_some());
}

#[test]
fn a_failed_sync_makes_the_database_read_only() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let shared: Arc<dyn Fs> = fs.clone();
    let db = Db::builder("/db").fs(shared).open().unwrap();
    db.put("before", "1").unwrap();
    fs.fail_once(Target::Only(Operation::Sync), 0, Fault::Io);
    let mut batch = WriteBatch::new();
    batch.put("during", "1");
    assert!(db.write_opt(batch, Durability::Sync).is_err());
    assert!(matches!(db.put("after", "1"), Err(Error::ReadOnly(_))));
    assert!(matches!(db.persist(), Err(Error::ReadOnly(_))), "a failed sync must not be retried");
    assert_eq!(db.get("before").unwrap().unwrap(), b"1");
}

#[test]
fn what_is_closed_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    let clone = db.clone();
    db.close().unwrap();
    assert!(matches!(clone.put("k", "v"), Err(Error::Closed)));
    assert!(matches!(clone.get("k"), Err(Error::Closed)));
}

/// Regression: a snapshot that outlived its database returned `Closed` from `get`, but `iter` still
/// worked. Now no read starts on a closed database, and an iteration that has started continues to
/// its end.
#[test]
fn no_read_begins_on_a_closed_database_and_those_that_began_go_on() {
    for dropped in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path()).unwrap();
        let keys: Vec<String> = (0..2000).map(|i| format!("key {i:04}")).collect();
        for (i, key) in keys.iter().enumerate() {
            db.put(key, vec![b'v'; 100]).unwrap();
            if i % 700 == 0 {
                db.flush().unwrap();
            }
        }
        let snapshot = db.snapshot();
        // `begun` has made a step before the close. `fresh` and the cursor make their first steps
        // after it.
        let (mut begun, mut fresh) = (db.iter(), snapshot.range("key 1"..));
        assert_eq!(begun.next().unwrap().unwrap().0, keys[0].as_bytes());
        let mut cursor = snapshot.cursor();
        let clone = (!dropped).then(|| db.clone());
        match dropped {
            true => drop(db),
            false => db.close().unwrap(),
        }

        assert!(begun.map(|entry| entry.unwrap().0).eq(&keys[1..]));
        assert_eq!(fresh.next_back().unwrap().unwrap().0, keys[1999].as_bytes());
        assert_eq!(fresh.count(), 999);
        cursor.seek("key 15").unwrap();
        assert_eq!(cursor.key(), keys[1500].as_bytes());
        cursor.seek_to_last().unwrap();
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), keys[1998].as_bytes());

        let closed = |result: maypole::Result<()>| assert!(matches!(result, Err(Error::Closed)));
        let walks_nowhere = |mut forward: maypole::DbIterator, mut back: maypole::DbIterator| {
            closed(forward.next().unwrap().map(drop));
            assert!(forward.next().is_none() && forward.next_back().is_none());
            closed(back.next_back().unwrap().map(drop));
            assert!(back.next_back().is_none() && back.next().is_none());
        };
        let seeks_nothing = |mut cursor: maypole::DbCursor| {
            closed(cursor.seek("key 15"));
            closed(cursor.seek_to_first());
            closed(cursor.seek_to_last());
            closed(cursor.seek_for_prev("key 15"));
            assert!(!cursor.valid());
        };
        closed(snapshot.get(&keys[0]).map(drop));
        closed(snapshot.contains_key(&keys[0]).map(drop));
        closed(snapshot.multi_get(&keys[..9]).map(drop));
        walks_nowhere(snapshot.iter(), snapshot.iter());
        walks_nowhere(snapshot.range("key 1"..), snapshot.range("key 1".."key 2"));
        walks_nowhere(snapshot.prefix("key 1"), snapshot.prefix("key 1"));
        seeks_nothing(snapshot.cursor());
        if let Some(clone) = clone {
            closed(clone.get(&keys[0]).map(drop));
            walks_nowhere(clone.iter(), clone.prefix("key"));
            seeks_nothing(clone.cursor());
        }
    }
}

/// Regression: a log that is written through a memory map was truncated to its length when the last
/// snapshot or iterator was dropped, long after the database was closed. A later owner of the
/// directory saw the file shrink during a read, and reported damage. Now the log has its final
/// length when `close` returns.
#[test]
fn a_closed_database_does_not_touch_its_logs_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    let (snapshot, clone) = (db.snapshot(), db.clone());
    db.put("k", "v").unwrap();
    let mut walk = db.iter();
    db.close().unwrap();
    let lengths = || {
        let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        let mut lengths: Vec<_> =
            files.map(|file| (file.file_name(), file.metadata().unwrap().len())).collect();
        lengths.sort();
        lengths
    };
    let closed = lengths();
    let is_log = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".wal");
    assert!(closed.iter().any(|(name, length)| is_log(name) && *length < 1000), "{closed:?}");
    assert!(matches!(clone.put("k", "w"), Err(Error::Closed)));
    assert!(walk.next().unwrap().is_ok());
    drop((snapshot, clone, walk));
    assert_eq!(lengths(), closed);
}

/// An iterator keeps obsolete tables, which are deleted when it is dropped. If the database has
/// been closed by then, the directory may hold another database with files of the same names, so
/// the drop must delete nothing.
#[test]
fn an_iterator_that_outlives_the_database_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let table = |dir: &Path| files(dir, ".sst").remove(0);
    let listed = table(dir.path());
    let mut iterator = db.iter();
    assert!(iterator.next().is_some());
    db.put("k", "w").unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    std::fs::write(&listed, "somebody else's").unwrap();
    drop(iterator);
    assert_eq!(std::fs::read(&listed).unwrap(), b"somebody else's");
}

/// What happens in the thread that drops an iterator.
#[derive(Debug, PartialEq)]
enum Event {
    /// It is about to delete a table.
    Deletes,
    /// The iterator is dropped.
    Dropped,
}

/// An iterator over a table that has left the tree.
fn over_an_obsolete_table(db: &Db) -> DbIterator {
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let iterator = db.iter();
    db.put("k", "w").unwrap();
    db.compact_range(..).unwrap();
    iterator
}

/// Drops `iterator` in the thread "iterator", which calls `hook` when it is about to delete a
/// table.
fn drop_in_thread(
    faults: &FaultFs,
    iterator: DbIterator,
    hook: impl Fn(&mpsc::Sender<Event>) + Send + Sync + 'static,
) -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel();
    let reports = sender.clone();
    faults.before_changes(move |_, operation, path| {
        let is_table = path.extension().is_some_and(|extension| extension == "sst");
        let is_here = std::thread::current().name() == Some("iterator");
        if operation == Operation::Remove && is_table && is_here {
            hook(&reports);
        }
    });
    spawn("iterator", move || {
        drop(iterator);
        let _ = sender.send(Event::Dropped);
    });
    events
}

/// Calls `attempt` with new databases, each with an iterator over an obsolete table, until it
/// returns true: then the drop of the iterator has deleted the table. It does not delete the table
/// while a reader of another test keeps the read state that the compaction replaced.
fn until_an_iterator_deletes(attempt: impl Fn(&FaultFs, Db, DbIterator) -> bool) {
    let has_deleted = (0..100).any(|_| {
        let (_, faults, fs) = faults();
        let db = Db::builder("/db").fs(fs).open().unwrap();
        let iterator = over_an_obsolete_table(&db);
        attempt(&faults, db, iterator)
    });
    assert!(has_deleted, "no drop of an iterator deleted a table");
}

/// Time enough for a `close` that does not wait.
const MOMENT: Duration = Duration::from_millis(200);

/// The user's `Fs` closes the database inside a deletion, while another thread is closing it. The
/// closing waits for the deletion, so the call inside the deletion must not wait for the closing.
#[test]
fn a_close_inside_a_deletion_does_not_wait_for_the_close_that_waits_for_the_deletion() {
    until_an_iterator_deletes(|faults, db, iterator| {
        let handles = Mutex::new(Some((db.clone(), db)));
        let (sender, closings) = mpsc::channel();
        let events = drop_in_thread(faults, iterator, move |events| {
            let Some((first, second)) = handles.lock().unwrap().take() else { return };
            let watched = second.clone();
            sender.send(spawn("closing", move || first.close())).unwrap();
            while !matches!(watched.get("k"), Err(Error::Closed)) {
                std::thread::yield_now();
            }
            drop(watched);
            second.close().unwrap();
            events.send(Event::Deletes).unwrap();
        });
        if events.recv_timeout(PATIENCE).expect("the deletion waits for the closing")
            == Event::Dropped
        {
            return false;
        }
        let closing = closings.recv().unwrap();
        closing.recv_timeout(PATIENCE).expect("the closing waits for the deletion").unwrap();
        true
    });
}

/// Regression: the drop of an iterator checked that the database was open, and deleted an obsolete
/// table after that. The database could be closed and removed in between, and another one made in
/// the directory, so that the deletion hit a table of the new database. Now `close` waits for the
/// deletion.
#[test]
fn a_close_waits_while_an_iterator_deletes_a_table() {
    until_an_iterator_deletes(|faults, db, iterator| {
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let events = drop_in_thread(faults, iterator, move |events| {
            events.send(Event::Deletes).unwrap();
            let _ = gate.lock().unwrap().recv();
        });
        if events.recv_timeout(PATIENCE).unwrap() == Event::Dropped {
            return false;
        }
        let closing = spawn("closing", move || db.close());
        assert!(closing.recv_timeout(MOMENT).is_err(), "`close` did not wait");
        drop(go_on);
        closing.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(events.recv_timeout(PATIENCE).unwrap(), Event::Dropped);
        true
    });
}

/// Regression: the deletion of an obsolete table held a lock as a reader, and `close` took this
/// lock as a writer. The caller's file system dropped the last `Db` while an iterator deleted a
/// table, and the thread waited for itself. Now no lock is held during the deletion, and a thread
/// waits only for the deletions of other threads.
#[test]
fn the_last_handle_may_be_dropped_in_the_deletion_of_a_table() {
    until_an_iterator_deletes(|faults, db, iterator| {
        let last = Arc::new(Mutex::new(Some(db)));
        let owned = Arc::clone(&last);
        let events = drop_in_thread(faults, iterator, move |events| {
            let db = owned.lock().unwrap().take();
            if let Some(db) = db {
                drop(db);
                events.send(Event::Deletes).unwrap();
            }
        });
        let first = events.recv_timeout(PATIENCE).expect("the drop of the `Db` hangs");
        if first == Event::Dropped {
            last.lock().unwrap().take();
            return false;
        }
        assert_eq!(events.recv_timeout(PATIENCE).unwrap(), Event::Dropped);
        let db = Db::builder("/db").fs(Arc::new(faults.clone())).open().unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), b"w");
        true
    });
}

/// Regression: the caller's file system dropped an iterator while another iterator deleted a table,
/// and a third thread closed the database. The thread held a lock as a reader and wanted it again,
/// but a waiting writer, `close`, came first. So both waited for ever.
#[test]
fn an_iterator_may_be_dropped_in_the_deletion_of_a_table_while_the_database_closes() {
    until_an_iterator_deletes(|faults, db, iterator| {
        let second = Mutex::new(Some(over_an_obsolete_table(&db)));
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let events = drop_in_thread(faults, iterator, move |events| {
            let second = second.lock().unwrap().take();
            if let Some(second) = second {
                events.send(Event::Deletes).unwrap();
                let _ = gate.lock().unwrap().recv();
                drop(second);
            }
        });
        if events.recv_timeout(PATIENCE).unwrap() == Event::Dropped {
            return false;
        }
        let clone = db.clone();
        let closing = spawn("closing", move || db.close());
        eventually(|| matches!(clone.get("k"), Err(Error::Closed)));
        assert!(closing.recv_timeout(MOMENT).is_err(), "`close` did not wait");
        drop(go_on);
        let dropped = events.recv_timeout(PATIENCE).expect("the drop of the iterator hangs");
        assert_eq!(dropped, Event::Dropped);
        closing.recv_timeout(PATIENCE).unwrap().unwrap();
        true
    });
}

#[test]
fn ingested_tables_are_newer_than_all_before_and_survive_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = open(&path).unwrap();
    db.put("a", "old").unwrap();
    db.put("z", "old").unwrap();
    let before = db.snapshot();
    let file = dir.path().join("outside.sst");
    let mut writer = SstWriter::create(&file, TableOptions::default()).unwrap();
    writer.put(b"a", b"new").unwrap();
    writer.put(b"m", b"new").unwrap();
    writer.finish().unwrap();
    db.ingest(&[&file]).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"new");
    assert_eq!(before.get("a").unwrap().unwrap(), b"old");
    assert_eq!(before.get("m").unwrap(), None);
    drop(before);
    db.put("m", "newer").unwrap();
    for round in 0..2 {
        let db = if round == 0 { db.clone() } else { open(&path).unwrap() };
        assert_eq!(db.get("a").unwrap().unwrap(), b"new");
        assert_eq!(db.get("m").unwrap().unwrap(), b"newer");
        assert_eq!(db.get("z").unwrap().unwrap(), b"old");
        db.close().unwrap();
    }
    assert!(matches!(open(&path).unwrap().ingest(&[&file, &file]), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db")).unwrap();
    for n in 0..3000 {
        db.put(format!("key{n}"), n.to_string()).unwrap();
    }
    let copy = dir.path().join("copy");
    db.checkpoint(&copy).unwrap();
    assert!(db.checkpoint(&copy).is_err(), "an existing directory was overwritten");
    for n in 0..3000 {
        db.delete(format!("key{n}")).unwrap();
    }
    db.compact_range(..).unwrap();
    let copied = open(&copy).unwrap();
    assert_eq!(copied.iter().count(), 3000);
    assert_eq!(copied.get("key77").unwrap().unwrap(), b"77");
    assert_eq!(db.iter().count(), 0);
}

/// Regression: a replaced read state (the memtables and tables that a read uses) was not freed
/// after its last reader as long as the block cache had room. So flushed memtables stayed in
/// memory, and compacted tables on disk. Now compacted tables are deleted while the database is
/// open.
#[test]
fn compacted_tables_leave_the_disk_while_the_database_stays_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path()).unwrap();
    for round in 0..4 {
        for key in 0..100 {
            db.put(format!("{key:03}"), format!("value {round}")).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    db.wait_for_compaction().unwrap();
    let tables = || files(dir.path(), ".sst").len();
    let listed: usize = db.stats().levels.iter().map(|level| level.files).sum();
    // The thread that compacted deletes the tables after it has notified the waiting threads.
    for _ in 0..1000 {
        if tables() == listed {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(tables(), listed);
}

/// Regression: in the last level, a manual compaction merged two files although the key range of a
/// file that it had just written lay between them. The output overlapped that file, and lookups of
/// the file's keys went to the output.
#[test]
fn a_manual_compaction_does_not_reach_over_what_it_has_just_written() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = Db::builder("/db").fs(fs).open().unwrap();
    let put = |key: &str| {
        db.put(key, key).unwrap();
        db.flush().unwrap();
    };
    for key in ["a", "z"] {
        put(key);
        db.compact_range(key..=key).unwrap();
    }
    put("m");
    db.compact_range(..).unwrap();
    for key in ["a", "m", "z"] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(key.as_bytes()), "{key}");
    }
}

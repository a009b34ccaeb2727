//! Keyspaces: several trees in one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maypole::fs::{Fs, MemFs};
use maypole::{Builder, Compression, Db, Durability, Error, WriteBatch};

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db").fs(Arc::clone(fs)).compression(Compression::None)
}

fn in_memory() -> (Arc<dyn Fs>, Db) {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = builder(&fs).open().unwrap();
    (fs, db)
}

fn entries(db: &Db) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    db.iter().map(Result::unwrap).map(|(key, value)| (text(&key), text(&value))).collect()
}

fn names(db: &Db) -> Vec<String> {
    db.keyspaces().into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
}

#[test]
fn keyspaces_share_no_key_and_are_there_after_any_opening() {
    let (fs, db) = in_memory();
    let one = db.keyspace("one").unwrap();
    let two = db.keyspace_with("two", |options| options.filter("burr(7)")).unwrap();
    for (db, value) in [(&db, "0"), (&one, "1"), (&two, "2")] {
        db.put("key", value).unwrap();
        db.put(format!("own {value}"), "").unwrap();
    }
    one.flush().unwrap();
    two.delete("own 2").unwrap();
    one.delete_range("own"..).unwrap();
    let check = |db: &Db| {
        let [one, two] = ["one", "two"].map(|name| db.keyspace(name).unwrap());
        let of = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert_eq!(entries(db), [of("key", "0"), of("own 0", "")]);
        assert_eq!(entries(&one), [of("key", "1")]);
        assert_eq!(entries(&two), [of("key", "2")]);
        assert_eq!(names(db), ["default", "one", "two"]);
        assert_eq!(one.keyspace_name(), b"one");
    };
    check(&db);
    check(&builder(&fs).open_read_only().unwrap());
    drop((one, two));
    db.close().unwrap();
    for _ in 0..3 {
        // Without a flush, after one, and after a compaction.
        let db = builder(&fs).open().unwrap();
        check(&db);
        check(&builder(&fs).open_read_only().unwrap());
        db.keyspace("two").unwrap().compact_all().unwrap();
        check(&db);
        assert_eq!(db.verify().unwrap().filter_misses, 0);
        db.close().unwrap();
        check(&builder(&fs).open_read_only().unwrap());
    }
}

#[test]
fn a_batch_goes_to_the_keyspaces_that_it_names() {
    let (_, db) = in_memory();
    let [one, two] = ["one", "two"].map(|name| db.keyspace(name).unwrap());
    let mut batch = WriteBatch::new();
    batch.put("a", "home").keyspace(&one).put("a", "1").put("b", "1").keyspace(&two).put("a", "2");
    batch.keyspace(&db).put("c", "0");
    assert_eq!(batch.len(), 5);
    // The writes before the first name go to the keyspace of the handle.
    two.write(&batch).unwrap();
    assert_eq!(entries(&db), [("c".into(), "0".into())]);
    assert_eq!(entries(&one), [("a".into(), "1".into()), ("b".into(), "1".into())]);
    assert_eq!(entries(&two), [("a".into(), "2".into())], "the later write of the batch");
    // A range deletion without an end ends in its own keyspace.
    let mut batch = WriteBatch::new();
    batch.keyspace(&one).delete_range("b"..).keyspace(&two).put("z", "");
    db.write(batch).unwrap();
    assert_eq!(entries(&one), [("a".into(), "1".into())]);
    assert_eq!(entries(&two).len(), 2);
    let (_, other) = in_memory();
    let mut batch = WriteBatch::new();
    batch.put("x", "").keyspace(&other).put("x", "");
    assert!(matches!(db.write(&batch), Err(Error::InvalidArgument(_))));
    batch.keyspace(&one);
    assert!(matches!(other.write(&batch), Err(Error::InvalidArgument(_))));
    assert!(!db.contains_key("x").unwrap() && other.is_empty().unwrap());
    batch.clear();
    other.write(batch.put("x", "")).unwrap();
}

#[test]
fn a_snapshot_is_one_moment_of_all_keyspaces() {
    let (_, db) = in_memory();
    let one = db.keyspace("one").unwrap();
    let put = |value: &str| {
        let mut batch = WriteBatch::new();
        batch.put("key", value).keyspace(&one).put("key", value);
        db.write(batch).unwrap();
    };
    put("old");
    let snapshot = db.snapshot();
    put("new");
    one.flush().unwrap();
    one.compact_all().unwrap();
    let in_one = snapshot.keyspace(&one).unwrap();
    assert_eq!(snapshot.get("key").unwrap().unwrap(), b"old");
    assert_eq!(in_one.get("key").unwrap().unwrap(), b"old");
    assert_eq!(in_one.sequence(), snapshot.sequence());
    // A keyspace that came later has nothing at that moment.
    let later = db.keyspace("later").unwrap();
    later.put("key", "").unwrap();
    assert!(snapshot.keyspace(&later).unwrap().is_empty().unwrap());
    // What the snapshot kept is freed in the other keyspace too.
    drop((snapshot, in_one));
    one.compact_all().unwrap();
    assert_eq!(one.stats().files[0].entries, 1);
    let (_, other) = in_memory();
    assert!(matches!(db.snapshot().keyspace(&other), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_transaction_goes_across_keyspaces_and_conflicts_in_each() {
    let (_, db) = in_memory();
    let [one, two] = ["one", "two"].map(|name| db.keyspace(name).unwrap());
    let mut tx = db.transaction();
    assert_eq!(tx.keyspace(&one).unwrap().get("key").unwrap(), None);
    tx.keyspace(&two).unwrap().put("key", "2");
    tx.put("key", "0");
    assert_eq!(tx.keyspace(&two).unwrap().get("key").unwrap().unwrap(), b"2");
    assert_eq!(tx.keyspace(&one).unwrap().get("key").unwrap(), None);
    assert!(two.is_empty().unwrap());
    // The same key of another keyspace is no conflict.
    two.put("key", "in between").unwrap();
    tx.commit().unwrap();
    assert_eq!(two.get("key").unwrap().unwrap(), b"2");

    for in_one in [true, false] {
        let mut tx = db.transaction();
        let scanned = tx.keyspace(&one).unwrap().iter().count();
        tx.get("absent").unwrap();
        tx.keyspace(&two).unwrap().put("sum", scanned.to_string());
        let changed = if in_one { &one } else { &db };
        changed.put("absent", "").unwrap();
        if in_one {
            one.flush().unwrap();
        }
        assert!(matches!(tx.commit(), Err(Error::Conflict(_))), "{in_one}");
        assert!(!two.contains_key("sum").unwrap());
    }
    let mut tx = db.transaction();
    let part = tx.keyspace(&one).unwrap();
    assert!(matches!(part.keyspace(&two), Err(Error::InvalidArgument(_))));
    let (_, other) = in_memory();
    assert!(tx.keyspace(&other).is_err());
    assert!(tx.keyspace(&other.keyspace("one").unwrap()).is_err());
}

#[test]
fn updates_of_one_key_in_two_keyspaces_do_not_meet() {
    let (_, db) = in_memory();
    let one = db.keyspace("one").unwrap();
    let count = |db: &Db| {
        for _ in 0..500 {
            db.update_fetch("count", |count| {
                let count = count.map_or(0, |it| u64::from_be_bytes(it.try_into().unwrap()));
                Some((count + 1).to_be_bytes())
            })
            .unwrap();
        }
    };
    std::thread::scope(|scope| {
        for db in [&db, &db, &one, &one] {
            scope.spawn(move || count(db));
        }
    });
    for db in [&db, &one] {
        assert_eq!(db.get("count").unwrap().unwrap(), 1000_u64.to_be_bytes());
    }
    one.put("queue", "").unwrap();
    assert_eq!(one.pop_last().unwrap().unwrap().0, b"queue");
    assert_eq!(db.pop_first().unwrap().unwrap().0, b"count");
    assert_eq!((db.len().unwrap(), one.len().unwrap()), (0, 1));
}

#[test]
fn a_keyspace_keeps_its_options() {
    let (fs, db) = in_memory();
    let one = db
        .keyspace_with("one", |it| it.filter("burr(9)").block_bytes(512).memtable_bytes(1 << 16))
        .unwrap();
    // The family and the whole bits per key of the filter.
    let spec = |db: &Db| {
        db.flush().unwrap();
        db.compact_all().unwrap();
        let filter = db.stats().files[0].filter.clone().unwrap();
        format!("{:?}, {}", filter.family, filter.bytes * 8 / filter.keys)
    };
    for i in 0..1000_u32 {
        one.put(i.to_be_bytes(), "").unwrap();
    }
    assert!(spec(&one).contains("urr"), "{}", spec(&one));
    drop(one);
    db.close().unwrap();
    let db = builder(&fs).filter("bloom(5)").open().unwrap();
    let one = db.keyspace("one").unwrap();
    for i in 0..1000_u32 {
        one.put(i.to_be_bytes(), [7; 100]).unwrap();
    }
    one.wait_for_compaction().unwrap();
    assert!(!one.stats().files.is_empty(), "its memtables are small");
    assert!(spec(&one).contains("urr"), "{}", spec(&one));
    // Other options, while it is open.
    let again = db.keyspace_with("one", |it| it.filter("bloom(14)")).unwrap();
    again.put("key", "other").unwrap();
    assert!(spec(&one).ends_with("14") && spec(&one).contains("loom"), "{}", spec(&one));
    // A new keyspace gets the options of the database.
    let new = db.keyspace("new").unwrap();
    for i in 0..1000_u32 {
        new.put(i.to_be_bytes(), "").unwrap();
    }
    assert!(spec(&new).ends_with("5") && spec(&new).contains("loom"), "{}", spec(&new));
    let refused = |options: fn(Builder) -> Builder, name: &str| {
        let error = db.keyspace_with("one", options).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    };
    refused(|it| it.compaction_threads(7), "compaction_threads");
    refused(|it| it.durability(Durability::Sync), "durability");
    refused(|it| it.block_bytes(1), "block_bytes");
    refused(|it| it.filter("blom(7)"), "blom");
    for name in [vec![], vec![7; 256]] {
        assert!(matches!(db.keyspace(name), Err(Error::InvalidArgument(_))));
    }
    let odd = db.keyspace([0, 0xff, b'\n']).unwrap();
    odd.put("key", "").unwrap();
    drop((one, again, new, odd));
    db.close().unwrap();
    let db = builder(&fs).open().unwrap();
    assert!(db.keyspace([0, 0xff, b'\n']).unwrap().contains_key("key").unwrap());
}

#[test]
fn a_dropped_keyspace_is_gone_and_its_name_is_free() {
    let (fs, db) = in_memory();
    let old = db.keyspace("it").unwrap();
    for i in 0..100 {
        old.put(format!("{i}"), "old").unwrap();
    }
    old.flush().unwrap();
    old.put("unflushed", "old").unwrap();
    let (snapshot, mut tx) = (db.snapshot(), db.transaction());
    tx.put("key", "");
    tx.keyspace(&old).unwrap().get("0").unwrap();
    let mut iter = old.iter();
    assert!(db.drop_keyspace("it").unwrap() && !db.drop_keyspace("it").unwrap());
    assert_eq!(names(&db), ["default"]);
    let is_dropped = |result: maypole::Result<()>| {
        assert!(matches!(result, Err(Error::KeyspaceDropped(_))), "{result:?}");
    };
    is_dropped(old.put("key", ""));
    is_dropped(old.flush());
    is_dropped(old.compact_all());
    is_dropped(old.update_fetch("key", |_| Some("")).map(drop));
    is_dropped(db.write(WriteBatch::new().put("x", "").keyspace(&old).put("x", "")));
    is_dropped(tx.commit());
    assert!(db.is_empty().unwrap());
    // What there is can read it.
    assert_eq!(old.len().unwrap(), 101);
    assert_eq!(snapshot.keyspace(&old).unwrap().get("unflushed").unwrap().unwrap(), b"old");
    assert_eq!(iter.next().unwrap().unwrap().0, b"0");

    let new = db.keyspace("it").unwrap();
    assert!(new.is_empty().unwrap());
    new.put("0", "new").unwrap();
    let tables = |fs: &Arc<dyn Fs>| {
        let names = fs.list(std::path::Path::new("/db")).unwrap();
        names.iter().filter(|name| name.ends_with(".sst")).count()
    };
    assert_eq!(tables(&fs), 1);
    drop((old, snapshot, iter));
    // What readers have used is freed after other uses of the database.
    let start = Instant::now();
    while tables(&fs) > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "its files go with its last reader");
        db.stats();
    }
    drop(new);
    db.close().unwrap();
    let db = builder(&fs).open().unwrap();
    assert_eq!(entries(&db.keyspace("it").unwrap()), [("0".into(), "new".into())]);
    let default = db.drop_keyspace("default");
    assert!(matches!(default, Err(Error::InvalidArgument(_))), "{default:?}");
}

#[test]
fn a_database_closes_with_the_last_handle_of_any_keyspace_or_by_the_first_close() {
    let (fs, db) = in_memory();
    let one = db.keyspace("one").unwrap();
    drop(db);
    one.put("key", "value").unwrap();
    assert!(matches!(builder(&fs).open(), Err(Error::Locked { .. })));
    drop(one);
    let db = builder(&fs).open().unwrap();
    let one = db.keyspace("one").unwrap();
    assert!(one.contains_key("key").unwrap());
    one.clone().close().unwrap();
    assert!(matches!(db.get("key"), Err(Error::Closed)));
    assert!(matches!(one.put("key", ""), Err(Error::Closed)));
    assert!(matches!(db.keyspace("one"), Err(Error::Closed)));
    builder(&fs).open().unwrap();
}

#[test]
fn a_read_only_handle_has_the_keyspaces_there_are() {
    let (fs, db) = in_memory();
    db.keyspace("empty").unwrap();
    db.keyspace("one").unwrap().put("key", "").unwrap();
    let reader = builder(&fs).open_read_only().unwrap();
    assert_eq!(names(&reader), ["default", "empty", "one"]);
    assert!(reader.keyspace("one").unwrap().contains_key("key").unwrap());
    assert!(reader.keyspace("empty").unwrap().is_empty().unwrap());
    assert!(matches!(reader.keyspace("none"), Err(Error::OpenedReadOnly)));
    assert!(matches!(reader.drop_keyspace("one"), Err(Error::OpenedReadOnly)));
    let other = reader.keyspace_with("one", |it| it.filter("burr(7)"));
    assert!(matches!(other, Err(Error::OpenedReadOnly)));
}

/// The version of the format that the newest log and the MANIFEST have.
fn versions(fs: &Arc<dyn Fs>) -> Vec<u8> {
    let mut names = fs.list(std::path::Path::new("/db")).unwrap();
    names.sort();
    let newest = |is_wanted: &dyn Fn(&str) -> bool| {
        let name = names.iter().rfind(|name| is_wanted(name)).unwrap();
        let file = fs.open(&std::path::Path::new("/db").join(name)).unwrap();
        let mut version = [0];
        file.read_exact_at(8, &mut version).unwrap();
        version[0]
    };
    vec![newest(&|name| name.ends_with(".wal")), newest(&|name| name.starts_with("MANIFEST"))]
}

/// Builds that know no keyspaces open a database of one keyspace, and refuse others by the version.
#[test]
fn only_a_database_with_a_second_keyspace_has_the_newer_format() {
    let (fs, db) = in_memory();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.write(WriteBatch::new().put("a", "").keyspace(&db).put("b", "")).unwrap();
    let mut tx = db.transaction();
    tx.keyspace(&db).unwrap().put("c", "");
    tx.commit().unwrap();
    db.keyspace("default").unwrap().put("d", "").unwrap();
    assert_eq!(versions(&fs), [2, 2]);
    db.close().unwrap();
    let db = builder(&fs).open().unwrap();
    assert_eq!((versions(&fs), db.len().unwrap()), (vec![2, 2], 5));
    let one = db.keyspace("one").unwrap();
    one.put("key", "").unwrap();
    assert_eq!(versions(&fs), [3, 3]);
    drop(one);
    db.close().unwrap();
    let db = builder(&fs).open().unwrap();
    assert_eq!(versions(&fs), [3, 3]);
    db.close().unwrap();
}

/// A keyspace that is written rarely keeps all logs since its last write, until they are too large.
#[test]
fn a_quiet_keyspace_does_not_keep_logs_for_ever() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = builder(&fs).memtable_bytes(1 << 16).open().unwrap();
    let quiet = db.keyspace("quiet").unwrap();
    let wals = || {
        let names = fs.list(std::path::Path::new("/db")).unwrap();
        names.iter().filter(|name| name.ends_with(".wal")).count()
    };
    let mut most = 0;
    for i in 0..40_000_u32 {
        if i % 10_000 == 0 {
            quiet.put(i.to_be_bytes(), "").unwrap();
        }
        db.put(i.to_be_bytes(), [7; 100]).unwrap();
        most = most.max(wals());
    }
    assert!((10..60).contains(&most), "{most} logs");
    assert!(quiet.stats().files.len() + quiet.stats().memtable_entries > 1);
    assert_eq!(quiet.len().unwrap(), 4);
}

/// The memtables of many keyspaces have one bound.
#[test]
fn all_memtables_together_have_a_bound() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = builder(&fs).memtable_bytes(1 << 18).open().unwrap();
    let all: Vec<Db> = (0..50).map(|i| db.keyspace(format!("{i}")).unwrap()).collect();
    let mut most = 0;
    for i in 0..20_000_u32 {
        all[i as usize % all.len()].put(i.to_be_bytes(), [7; 200]).unwrap();
        if i % 500 == 0 {
            let bytes = all.iter().map(|db| db.stats().memtable_bytes).sum();
            most = usize::max(most, bytes);
        }
    }
    // Those that take writes have four memtables' worth, and those that wait for their flush twice as
    // much.
    assert!((1 << 19..14 << 18).contains(&most), "{most}");
    let count: u64 = all.iter().map(|db| db.len().unwrap()).sum();
    assert_eq!(count, 20_000);
}

/// While the flushes of one keyspace are behind, its writers wait, and those of another go on.
#[test]
fn a_stalled_keyspace_stops_no_other() {
    use maypole::fs::{FaultFs, Operation, Target};

    let faulty = FaultFs::new(Arc::new(MemFs::new()));
    let fs: Arc<dyn Fs> = Arc::new(faulty.clone());
    let db = builder(&fs).memtable_bytes(1 << 16).open().unwrap();
    let [slow, quick] = ["slow", "quick"].map(|name| db.keyspace(name).unwrap());
    let held = Arc::new(AtomicBool::new(true));
    let waits = Arc::clone(&held);
    faulty.before_calls(Target::Only(Operation::Create), move |_, _, path| {
        let is_table = path.extension().is_some_and(|it| it == "sst");
        while is_table && waits.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| {
            for i in 0..3000_u32 {
                slow.put(i.to_be_bytes(), [7; 100]).unwrap();
            }
        });
        let start = Instant::now();
        while slow.stats().memtable_bytes < 3 << 16 && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!stalled.is_finished());
        for i in 0..100_u32 {
            quick.put(i.to_be_bytes(), "").unwrap();
        }
        assert!(!stalled.is_finished());
        held.store(false, Ordering::Release);
    });
    assert_eq!((slow.len().unwrap(), quick.len().unwrap()), (3000, 100));
}

#[test]
fn an_ingestion_goes_to_its_keyspace_as_one_write_of_all() {
    use maypole::table::{SstWriter, TableOptions};

    let (fs, db) = in_memory();
    let one = db.keyspace("one").unwrap();
    db.put("a", "unsynced").unwrap();
    one.put("a", "old").unwrap();
    let mut writer =
        SstWriter::create_in(Arc::clone(&fs), "/table", TableOptions::default()).unwrap();
    writer.put(b"a", b"ingested").unwrap();
    writer.finish().unwrap();
    let snapshot = db.snapshot();
    one.ingest(&["/table"]).unwrap();
    db.put("b", "later").unwrap();
    let check = |db: &Db| {
        assert_eq!(entries(db).len(), 2);
        let one = db.keyspace("one").unwrap();
        assert_eq!(entries(&one), [("a".into(), "ingested".into())]);
    };
    check(&db);
    assert_eq!(snapshot.keyspace(&one).unwrap().get("a").unwrap().unwrap(), b"old");
    check(&builder(&fs).open_read_only().unwrap());
    drop((one, snapshot));
    db.close().unwrap();
    check(&builder(&fs).open().unwrap());
}

#[test]
fn a_checkpoint_has_all_keyspaces_of_one_moment() {
    let (fs, db) = in_memory();
    let one = db.keyspace_with("one", |it| it.filter("burr(9)")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    // Also if an assertion fails.
    struct Stops(Arc<AtomicBool>);
    impl Drop for Stops {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stops = Stops(Arc::clone(&stop));
        scope.spawn(|| {
            let mut i = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let mut batch = WriteBatch::new();
                batch.put("count", i.to_be_bytes()).keyspace(&one).put("count", i.to_be_bytes());
                db.write(batch).unwrap();
                i += 1;
            }
        });
        for n in 0..10 {
            let dir = format!("/copy{n}");
            db.checkpoint(&dir).unwrap();
            let copy = Db::builder(&dir).fs(Arc::clone(&fs)).open().unwrap();
            let copied = copy.keyspace("one").unwrap();
            assert_eq!(copy.get("count").unwrap(), copied.get("count").unwrap());
            (0..1000_u32).for_each(|i| copied.put(i.to_be_bytes(), "").unwrap());
            copied.compact_all().unwrap();
            let filter = copied.stats().files[0].filter.clone().unwrap();
            assert!(format!("{:?}", filter.family).contains("urr"), "{filter:?}");
        }
    });
}

#[test]
fn learned_filters_are_of_their_keyspace() {
    let (fs, db) = in_memory();
    let one = db.keyspace_with("one", |it| it.filter("learned(1MiB, bloom)")).unwrap();
    for i in 0..100_u32 {
        one.put(i.to_be_bytes(), "").unwrap();
    }
    one.flush().unwrap();
    for i in 0..10_000_u32 {
        assert_eq!(one.get((i + 100).to_be_bytes()).unwrap(), None);
    }
    drop(one);
    db.close().unwrap();
    assert!(fs.exists(std::path::Path::new("/db/ASKED")).unwrap());
    let db = builder(&fs).open().unwrap();
    assert_eq!(db.keyspace("one").unwrap().len().unwrap(), 100);
}

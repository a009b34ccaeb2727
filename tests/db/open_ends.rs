//! Range deletions of every kind of range, above all of those without an end: `delete_range("a"..)`,
//! `delete_prefix([0xff])`, `clear()`. The disk format needs an end, so the leader of the writers
//! takes a key after the last one. The tests hide the last key wherever a key can be.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use maypole::fs::{FaultFs, Fs, MemFs, Operation};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Error, Result, Ticker, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::small::{in_memory, open};

type Key = Vec<u8>;

fn keys(db: &Db) -> Vec<String> {
    let key = |entry: Result<_>| {
        let (key, _): (maypole::Slice, _) = entry.unwrap();
        String::from_utf8(key.to_vec()).unwrap()
    };
    db.iter().map(key).collect()
}

/// A short key of few bytes, often empty, and often the first or last of all.
fn random_key(rng: &mut StdRng) -> Key {
    let length = rng.random_range(0..4);
    (0..length).map(|_| [0, b'a', b'b', 0xff][rng.random_range(0..4)]).collect()
}

fn random_bounds(rng: &mut StdRng) -> (Bound<Key>, Bound<Key>) {
    let bound = |rng: &mut StdRng| match rng.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(random_key(rng)),
        _ => Bound::Excluded(random_key(rng)),
    };
    (bound(rng), bound(rng))
}

/// Each form of deletion against a map, alone and in batches, in a tree that is flushed, compacted
/// and opened again meanwhile.
#[test]
fn every_kind_of_range_deletes_what_it_holds() {
    let (mut db, fs) = in_memory();
    let mut map: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
    let mut rng = StdRng::seed_from_u64(11);
    let mut refused = 0;
    for round in 0..6000u32 {
        let mut batch = WriteBatch::new();
        let mut after = map.clone();
        for _ in 0..[1, 1, 2, 6][rng.random_range(0..4)] {
            match rng.random_range(0..20) {
                0..12 => {
                    let key = random_key(&mut rng);
                    batch.put(&key, round.to_be_bytes());
                    after.insert(key, round.to_be_bytes().to_vec());
                }
                12..14 => {
                    let key = random_key(&mut rng);
                    batch.delete(&key);
                    after.remove(&key);
                }
                14..17 => {
                    let bounds = random_bounds(&mut rng);
                    batch.delete_range(bounds.clone());
                    after.retain(|key, _| !bounds.contains(key));
                }
                17 => {
                    batch.delete_range(..);
                    after.clear();
                }
                _ => {
                    let prefix = random_key(&mut rng);
                    batch.delete_prefix(&prefix);
                    after.retain(|key, _| !key.starts_with(&prefix));
                }
            }
        }
        match db.write(batch) {
            Ok(()) => map = after,
            // A range that ends before it starts.
            Err(error) => {
                assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
                refused += 1;
            }
        }
        match rng.random_range(0..40) {
            0 => db.flush().unwrap(),
            1 => db.compact_all().unwrap(),
            2 => {
                db.close().unwrap();
                db = open(&fs);
            }
            3 => {
                db.clear().unwrap();
                map.clear();
            }
            _ => {}
        }
        let found = db.iter().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
        assert!(found.map(Result::unwrap).eq(map.clone()), "round {round}");
    }
    assert!((200..2000).contains(&refused), "{refused} of the batches have a reversed range");
}

fn ingest(db: &Db, fs: &Arc<dyn Fs>, key: &str) {
    let path = Path::new("/in");
    let mut writer = SstWriter::create_in(Arc::clone(fs), path, TableOptions::default()).unwrap();
    writer.put(key.as_bytes(), b"").unwrap();
    writer.finish().unwrap();
    db.ingest(&[path]).unwrap();
}

/// The last key is in a memtable, in a table of some level, ingested, or in the batch itself. Later
/// entries under another key, also tombstones and range deletions, change nothing.
#[test]
fn an_open_end_lies_behind_the_last_key_wherever_that_is() {
    type Step = fn(&Db, &Arc<dyn Fs>);
    let places: [(&str, Step); 6] = [
        ("in the memtable", |db, _| db.put("z", "").unwrap()),
        ("in a table of level 0", |db, _| {
            db.put("z", "").unwrap();
            db.flush().unwrap();
        }),
        ("in a table of the last level", |db, _| {
            db.put("z", "").unwrap();
            db.compact_all().unwrap();
        }),
        ("ingested", |db, fs| ingest(db, fs, "z")),
        ("in a table whose range deletion reaches further", |db, _| {
            let _keeps_the_deletion = db.snapshot();
            db.delete_range("zz".."zzz").unwrap();
            db.put("z", "").unwrap();
            db.flush().unwrap();
        }),
        ("in a log that was read again", |_, _| {}),
    ];
    let later: [(&str, Step); 4] = [
        ("nothing", |_, _| {}),
        ("an earlier key", |db, _| db.put("b", "").unwrap()),
        ("a flushed earlier key", |db, _| {
            db.put("b", "").unwrap();
            db.flush().unwrap();
        }),
        ("a tombstone behind it", |db, _| db.delete("zzzz").unwrap()),
    ];
    for (place, put) in places {
        for (what, follow) in later {
            let (mut db, fs) = in_memory();
            db.put("a", "").unwrap();
            put(&db, &fs);
            if place == "in a log that was read again" {
                db.put("z", "").unwrap();
                db.close().unwrap();
                db = open(&fs);
            }
            follow(&db, &fs);
            let before = db.snapshot();
            db.delete_range("b"..).unwrap();
            assert_eq!(keys(&db), ["a"], "the last key is {place}, then comes {what}");
            assert!(before.contains_key("z").unwrap(), "a snapshot sees it still");
            db.put("zz", "").unwrap();
            db.put("z", "").unwrap();
            drop(before);
            db.compact_all().unwrap();
            db.close().unwrap();
            assert_eq!(keys(&open(&fs)), ["a", "z", "zz"], "{place}, {what}: later puts stay");
        }
    }
}

#[test]
fn a_batch_deletes_what_it_has_put_before_and_keeps_what_it_puts_later() {
    let (db, fs) = in_memory();
    db.put("b", "").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("y", "").delete_range("b"..).put("z", "").put("c", "").delete_range("zz"..);
    db.write(&batch).unwrap();
    assert_eq!(keys(&db), ["c", "z"]);
    batch.put("~", "").delete_prefix("").put("a", "");
    db.write(&batch).unwrap();
    assert_eq!(keys(&db), ["a"], "the batch that was completed is another one");
    batch.clear();
    db.write(batch).unwrap();
    db.close().unwrap();
    assert_eq!(keys(&open(&fs)), ["a"]);
}

/// While the flush of the memtable waits that has the last key.
#[test]
fn an_open_end_counts_the_memtables_that_wait_for_their_flush() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let db = &open(&shared);
    db.put("a", "").unwrap();
    db.flush().unwrap();
    let goes = Arc::new(AtomicBool::new(false));
    fs.before_changes({
        let goes = Arc::clone(&goes);
        move |_, call, path: &Path| {
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            if call == Operation::Append && is_table {
                wait_for(|| goes.load(SeqCst));
            }
        }
    });
    db.put("z", "").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| db.flush().unwrap());
        let frozen = || db.property("rocksdb.num-immutable-mem-table").unwrap();
        wait_for(|| frozen() == "1");
        db.delete_range("a"..).unwrap();
        let (left, frozen) = (keys(db), frozen());
        goes.store(true, SeqCst);
        assert_eq!((left.len(), frozen.as_str()), (0, "1"));
    });
    db.compact_all().unwrap();
    assert!(db.is_empty().unwrap());
}

/// While an append of a record waits, a deletion without an end queues among puts. It is written in
/// a group of its own.
#[test]
fn an_open_end_in_the_queue_of_the_writers() {
    let meet = || {
        let mem = MemFs::new();
        let fs = FaultFs::new(Arc::new(mem.clone()));
        let db = &Db::builder("/db").fs(Arc::new(fs.clone())).open().unwrap();
        db.put("before", "").unwrap();
        let first = Arc::new(OnceLock::new());
        let goes = Arc::new(AtomicBool::new(false));
        let (appending, may_go) = (Arc::clone(&first), Arc::clone(&goes));
        fs.before_changes(move |_, call, _| {
            if call == Operation::Append && appending.set(()).is_ok() {
                wait_for(|| may_go.load(SeqCst));
            }
        });
        let others = || db.stats().tickers.get(Ticker::WriteDoneByOther);
        let done_by_others = others();
        thread::scope(|scope| {
            scope.spawn(|| db.put("first", "").unwrap());
            wait_for(|| first.get().is_some());
            for key in ["p", "q"] {
                scope.spawn(move || db.put(key, "").unwrap());
            }
            thread::sleep(Duration::from_millis(5));
            scope.spawn(|| db.delete_range("a"..).unwrap());
            thread::sleep(Duration::from_millis(5));
            for key in ["y", "z"] {
                scope.spawn(move || db.put(key, "").unwrap());
            }
            thread::sleep(Duration::from_millis(10));
            goes.store(true, SeqCst);
        });
        db.put("later", "").unwrap();
        let left = keys(db);
        assert!(!left.contains(&"before".into()) && !left.contains(&"first".into()), "{left:?}");
        let after_a_kill: Arc<dyn Fs> = Arc::new(mem.kill());
        assert_eq!(keys(&Db::builder("/db").fs(after_a_kill).open().unwrap()), left);
        others() > done_by_others
    };
    assert!((0..100).any(|_| meet()), "no two writers ever met");
}

/// Four threads put keys, each behind the last one, while another deletes all keys by a range
/// without an end. What was acknowledged before a deletion began is gone after it; what is put
/// after the last one stays.
#[test]
fn puts_that_race_behind_the_last_key() {
    const WRITERS: u64 = 4;
    let (db, fs) = &in_memory();
    let next = &AtomicU64::new(0);
    let acknowledged: &[AtomicU64] = &[const { AtomicU64::new(0) }; WRITERS as usize];
    let done = &AtomicBool::new(false);
    // A writer has one key after the other, so its acknowledged keys are the first ones.
    let key = |number: u64, writer: u64| format!("{number:012}/{writer}");
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                while !done.load(SeqCst) {
                    let number = next.fetch_add(1, SeqCst) + 1;
                    db.put(key(number, writer), [7; 60]).unwrap();
                    acknowledged[writer as usize].store(number, SeqCst);
                }
            });
        }
        for round in 0..300 {
            let before: Vec<u64> = acknowledged.iter().map(|it| it.load(SeqCst)).collect();
            match round % 3 {
                0 => db.clear().unwrap(),
                1 => db.delete_range("0"..).unwrap(),
                _ => db.write(WriteBatch::new().put("0", "").delete_range(..)).unwrap(),
            }
            for entry in db.iter() {
                let key = entry.unwrap().0;
                let (number, writer) = std::str::from_utf8(&key).unwrap().split_once('/').unwrap();
                let (number, writer): (u64, usize) =
                    (number.parse().unwrap(), writer.parse().unwrap());
                assert!(number > before[writer], "{key:?} was acknowledged before the deletion");
            }
        }
        done.store(true, SeqCst);
    });
    db.clear().unwrap();
    for number in 0..100 {
        db.put(key(number, 0), "").unwrap();
    }
    assert_eq!(db.len().unwrap(), 100);
    db.clone().close().unwrap();
    assert_eq!(open(fs).len().unwrap(), 100);
}

#[test]
fn careless_deletions_of_ranges() {
    let (db, fs) = in_memory();
    // Of an empty database, once and again.
    for _ in 0..2 {
        db.clear().unwrap();
        db.delete_range(..).unwrap();
        db.delete_range("a"..).unwrap();
        db.delete_range(.."").unwrap();
        db.delete_prefix("").unwrap();
        db.delete_prefix([0xff; 3000]).unwrap();
    }
    assert!(db.is_empty().unwrap());
    db.put("", "the empty key").unwrap();
    db.put([0xff; 5], "").unwrap();
    db.put([0xff; 3000], "").unwrap();
    db.put([0xff; 3001], "").unwrap();
    db.put(vec![b'a'; 100_000], "a long key").unwrap();
    db.delete_prefix([0xff; 3000]).unwrap();
    assert_eq!(db.len().unwrap(), 3);
    db.delete_prefix([0xff]).unwrap();
    assert_eq!(db.last_key_value().unwrap().unwrap().1, b"a long key");
    db.delete_range((Bound::Excluded(""), Bound::Unbounded)).unwrap();
    assert_eq!(db.len().unwrap(), 1);
    db.delete_range(..="").unwrap();
    assert!(db.is_empty().unwrap());
    // Ranges that end before they start, and empty ones.
    db.put("b", "").unwrap();
    for (from, to) in [("c", "a"), ("b", ""), ("b\0", "b")] {
        assert!(matches!(db.delete_range(from..to), Err(Error::InvalidArgument(_))), "{from} {to}");
    }
    assert!(matches!(db.delete_range("c"..="a"), Err(Error::InvalidArgument(_))));
    db.delete_range("b".."b").unwrap();
    db.delete_range((Bound::Excluded("a"), Bound::Excluded("b"))).unwrap();
    assert_eq!(keys(&db), ["b"]);
    // Where nothing may be written.
    let refuses = |db: &Db, is_right: fn(&Error) -> bool| {
        let errors = [db.clear(), db.delete_prefix("b"), db.delete_prefix([0xff])];
        let errors = errors.into_iter().chain([db.delete_range("a".."c"), db.delete_range("a"..)]);
        errors.for_each(|error| assert!(is_right(error.as_ref().unwrap_err()), "{error:?}"));
    };
    db.clone().close().unwrap();
    refuses(&db, |error| matches!(error, Error::Closed));
    let reader = Db::builder("/db").fs(fs).open_read_only().unwrap();
    refuses(&reader, |error| matches!(error, Error::OpenedReadOnly));
    assert_eq!(keys(&reader), ["b"]);
}

fn wait_for(done: impl Fn() -> bool) {
    while !done() {
        thread::sleep(Duration::from_millis(1));
    }
}

//! Hidden entries, which are deleted or replaced by newer versions: cursors must not pass the same
//! ones again and again. A cursor that has passed many hidden entries proposes a *mark* over them,
//! an interval of keys that later cursors skip (`src/db/iter/marks`). The tests count the entries
//! that cursors pass (`Ticker::NumberIterSkip`), and measure no time.

use std::sync::Arc;

use maypole::fs::MemFs;
use maypole::{Builder, Db, Ticker, WriteBatch};

/// A database in memory whose memtable is so large that it is flushed only when a test says so.
fn builder() -> Builder {
    Db::builder("/db").fs(Arc::new(MemFs::new())).memtable_bytes(256 << 20)
}

fn skipped(db: &Db) -> u64 {
    db.stats().tickers.get(Ticker::NumberIterSkip)
}

/// The result of `run`, and the number of entries that cursors passed during `run`.
fn counting<R>(db: &Db, run: impl FnOnce() -> R) -> (R, u64) {
    let before = skipped(db);
    let result = run();
    (result, skipped(db) - before)
}

fn keys(
    entries: impl Iterator<Item = maypole::Result<(maypole::Slice, maypole::Slice)>>,
) -> String {
    let keys = entries.map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap());
    keys.collect::<Vec<_>>().join(" ")
}

/// Regression: one key was overwritten 300,000 times, and a scan of three keys stepped over each of
/// the versions, which took 2 ms forward and 16 ms backward in the memtable, and more after a
/// flush. Now the scan seeks past the versions after a few steps, in both directions. A scan of a
/// snapshot also seeks past the versions that are too new for it.
#[test]
fn the_versions_of_one_key_are_passed_by_a_seek() {
    let versions = 300_000;
    let db = builder().open().unwrap();
    db.put("ant", "1").unwrap();
    db.put("bee", "first").unwrap();
    db.put("cat", "3").unwrap();
    let first = db.snapshot();
    let mut batch = WriteBatch::new();
    for version in 0..versions {
        batch.put("bee", format!("{version}"));
    }
    db.write(batch).unwrap();
    let middle = db.snapshot();
    let mut batch = WriteBatch::new();
    for version in 0..versions {
        batch.put("bee", format!("{version}"));
    }
    batch.delete("bee");
    db.write(batch).unwrap();
    // This snapshot sees that the key is deleted.
    let last = db.snapshot();
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        for (snapshot, bee) in [(&first, Some("first")), (&middle, Some("299999")), (&last, None)] {
            let all = if bee.is_some() { "ant bee cat" } else { "ant cat" };
            let (found, passed) = counting(&db, || keys(snapshot.iter()));
            assert_eq!(found, all);
            assert!(passed < 32, "forward {passed}, flushed {flushed}");
            let (found, passed) = counting(&db, || keys(snapshot.iter().rev()));
            let reversed = all.split(' ').rev().collect::<Vec<_>>().join(" ");
            assert_eq!(found, reversed);
            assert!(passed < 32, "backward {passed}, flushed {flushed}");
            let mut cursor = snapshot.cursor();
            cursor.seek_for_prev("bee").unwrap();
            let expected = bee.map_or(("ant", "1"), |bee| ("bee", bee));
            assert_eq!(cursor.entry(), Some((expected.0.as_bytes(), expected.1.as_bytes())));
            // The cursor turns around at its position.
            cursor.next().unwrap();
            assert_eq!(cursor.key(), b"cat");
            cursor.prev().unwrap();
            assert_eq!(cursor.entry(), Some((expected.0.as_bytes(), expected.1.as_bytes())));
        }
    }
}

/// A walk forward looked for a mark after each 32 entries, but not where it seeks past the versions of
/// a key, and it does so after each 8: over keys of 8 versions or more it never looked.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_walk_finds_the_mark_however_many_versions_the_keys_have() {
    for versions in [1, 7, 8, 9, 16, 33] {
        let db = builder().open().unwrap();
        db.put("a", "").unwrap();
        db.put("z", "").unwrap();
        for n in 0..5000 {
            (1..versions).for_each(|_| db.put(job("k", n), "").unwrap());
            db.delete(job("k", n)).unwrap();
        }
        for backward in [false, true] {
            let scan = || match backward {
                false => keys(db.iter()),
                true => keys(db.iter().rev()),
            };
            scan();
            let (found, passed) = counting(&db, scan);
            assert_eq!(found, if backward { "z a" } else { "a z" });
            assert!(passed <= 100, "{versions} versions, backward {backward}: {passed}");
        }
    }
}

/// A walk skips the rest of a deleted range once, after some hidden entries. A walk backward that
/// counted the last of these where it looks for a key's newest version never skipped.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_walk_skips_a_deleted_range_however_many_versions_the_keys_have() {
    for versions in (1..20).flat_map(|first| [1, 9, 12].map(|second| [first, second])) {
        let db = builder().open().unwrap();
        let mut snapshots = Vec::new();
        (0..5000).for_each(|n| db.put(job("", n), "").unwrap());
        for version in 0..20 {
            for (key, versions) in ["y", "x"].into_iter().zip(versions) {
                if version < versions {
                    db.put(key, "").unwrap();
                }
            }
            snapshots.push(db.snapshot());
        }
        db.compact_all().unwrap();
        db.put("z", "").unwrap();
        db.delete_range(.."z").unwrap();
        // A snapshot finds no marks.
        let snapshot = db.snapshot();
        let (found, passed) = counting(&db, || keys(snapshot.iter()));
        assert_eq!(found, "z");
        assert!(passed <= 100, "{versions:?} versions, forward: {passed}");
        let (found, passed) = counting(&db, || keys(snapshot.iter().rev()));
        assert_eq!(found, "z");
        assert!(passed <= 100, "{versions:?} versions, backward: {passed}");
    }
}

fn job(prefix: &str, n: u64) -> String {
    format!("{prefix}{n:08}")
}

/// Regression: `pop_first` passed the tombstones of all pops before it. A call took 96 µs on
/// average while 10,000 entries were popped, and 833 µs while 80,000 were. Now each run of
/// tombstones is passed once and then skipped, whether it is in the memtable, in tables, or partly
/// in both.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn popping_until_empty_passes_each_tombstone_a_few_times() {
    let entries = 20_000;
    for flush_every in [u64::MAX, 3_000] {
        let db = builder().open().unwrap();
        let mut batch = WriteBatch::new();
        for n in 0..entries {
            batch.put(job("", n), "");
        }
        db.write(batch).unwrap();
        let ((), passed) = counting(&db, || {
            for n in 0..entries {
                assert_eq!(db.pop_first().unwrap().unwrap().0, job("", n).as_bytes());
                if n % flush_every == flush_every - 1 {
                    db.flush().unwrap();
                }
            }
        });
        assert!(passed <= 40 * entries, "{passed} entries passed");
        // On the emptied database, the first `is_empty` may pass tombstones that no mark covers
        // yet. The calls after it pass few.
        let (empty, _) = counting(&db, || db.is_empty().unwrap());
        assert!(empty);
        let (empty, passed) =
            counting(&db, || db.is_empty().unwrap() && db.pop_first().unwrap().is_none());
        assert!(empty);
        assert!(passed <= 40, "{passed} entries passed");
        assert_eq!((db.iter().next_back().is_none(), db.prefix("0").count()), (true, 0));
    }
}

/// A *turn* of a queue puts one entry at one end, and reads and deletes the entry at the other end.
/// Regression: in a queue of 1,000 entries, a turn took 0.2 ms at first, and 2.4 ms after 42,000
/// turns. Now late turns pass as few hidden entries as early ones. Here four queues run at the same
/// time: three with prefixes of their own, and one that is popped at its back.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_queue_costs_the_same_after_many_turns() {
    let db = builder().open().unwrap();
    let (held, turns) = (1_000, 20_000);
    let queues = ["a/", "b/", "c/"];
    for n in 0..held {
        queues.iter().for_each(|queue| db.put(job(queue, n), "").unwrap());
        db.put(job("z", 10_000_000 - n), "").unwrap();
    }
    for turn in 0..turns {
        let ((), passed) = counting(&db, || {
            for queue in queues {
                db.put(job(queue, held + turn), "").unwrap();
                let first = db.prefix(queue).next().unwrap().unwrap().0;
                assert_eq!(first, job(queue, turn).as_bytes());
                db.delete(first).unwrap();
            }
            // This queue is popped at its back, and filled at its front.
            db.put(job("z", 10_000_000 - held - turn), "").unwrap();
            let last = db.last_key_value().unwrap().unwrap().0;
            assert_eq!(last, job("z", 10_000_000 - turn).as_bytes());
            db.delete(last).unwrap();
        });
        assert!(passed <= 4 * 40, "turn {turn}: {passed} entries passed");
        if turn % 7_000 == 6_999 {
            db.flush().unwrap();
        }
    }
}

/// Producers and consumers run on threads of their own. So when a cursor proposes a mark over a run
/// of tombstones, other threads may have pushed and popped since it passed the run. No entry is
/// lost or seen twice, and consumers do not pass ever longer runs of tombstones.
#[test]
fn a_queue_of_many_threads_loses_nothing_and_stays_cheap() {
    let db = builder().open().unwrap();
    let (producers, each) = (3, 4_000);
    let before = skipped(&db);
    let popped = std::thread::scope(|scope| {
        for producer in 0..producers {
            let db = db.clone();
            scope.spawn(move || {
                for n in 0..each {
                    db.put(job("", n * producers + producer), "").unwrap();
                }
            });
        }
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let db = db.clone();
                scope.spawn(move || {
                    let (mut popped, mut misses) = (Vec::new(), 0);
                    // A consumer ends after 2,000 calls in a row that found nothing.
                    while misses < 2_000 {
                        match db.pop_first().unwrap() {
                            Some((key, _)) => {
                                popped.push(key.to_vec());
                                misses = 0;
                            }
                            None => {
                                misses += 1;
                                std::thread::yield_now();
                            }
                        }
                    }
                    popped
                })
            })
            .collect();
        consumers.into_iter().flat_map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    // The entries that consumers left because they gave up too early.
    let rest = db.iter().map(|entry| entry.unwrap().0.to_vec());
    let mut all: Vec<Vec<u8>> = popped.into_iter().chain(rest).collect();
    all.sort();
    let expected: Vec<Vec<u8>> = (0..producers * each).map(|n| job("", n).into_bytes()).collect();
    assert!(all == expected, "{} entries of {}", all.len(), expected.len());
    let passed = skipped(&db) - before;
    // On an idle machine, a pop passed 17 entries. If each pop passed all tombstones in front of
    // it, a pop would pass 6,000 entries on average.
    assert!(passed < 600 * producers * each, "{passed} entries passed");
}

/// Tombstones and the entries that they hide stay in the memtable until a flush. If an iteration
/// passes very many of these hidden entries, the next write starts a flush, once. It starts none if
/// they are few, or if most entries of the memtable are visible.
#[test]
fn a_memtable_that_is_mostly_hidden_is_flushed() {
    let flushes = |db: &Db| {
        db.wait_for_compaction().unwrap();
        db.stats().tickers.get(Ticker::FlushCount)
    };
    for (hidden, shown, expected) in [(6_000, 0, 1), (2_000, 0, 0), (6_000, 14_000, 0)] {
        let db = builder().open().unwrap();
        let mut batch = WriteBatch::new();
        for n in 0..hidden {
            batch.put(job("", n), "").delete(job("", n));
        }
        for n in 0..shown {
            batch.put(job("shown", n), "");
        }
        db.write(batch).unwrap();
        assert_eq!(db.is_empty().unwrap(), shown == 0);
        assert_eq!(flushes(&db), 0);
        db.put("after", "").unwrap();
        assert_eq!(flushes(&db), expected, "{hidden} hidden, {shown} shown");
        // Most entries of the new memtable are visible, so it is not flushed.
        assert_eq!(db.prefix("after").count(), 1);
        assert_eq!(db.iter().count() as u64, shown + 1);
        db.put("and after that", "").unwrap();
        assert_eq!(flushes(&db), expected);
    }
}

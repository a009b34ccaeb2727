//! Updates of one key: `compare_and_swap`, `fetch_update`, `update_fetch` and `take`.
//!
//! Regression: nothing updated a value atomically, and an example taught to read a counter and then
//! to put it. Two threads then read the same count, and both put the count after it. Of 40,000
//! visits that four threads counted, 39,996 were left. The example now uses `update_fetch`, which
//! loses none.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation};
use maypole::table::{SstWriter, TableOptions};
use maypole::{CompareAndSwapError, Db, Error, Slice, Ticker, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::small::{in_memory, open};

const ABSENT: Option<&[u8]> = None;

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

fn increment(value: Option<&[u8]>) -> Option<[u8; 8]> {
    Some((value.map_or(0, number) + 1).to_be_bytes())
}

fn count(db: &Db, key: &str) -> u64 {
    db.get(key).unwrap().map_or(0, |value| number(&value))
}

/// Ingests a table with these entries.
fn ingest(db: &Db, fs: &Arc<dyn Fs>, name: &str, entries: &[(&str, &[u8])]) {
    let mut writer = SstWriter::create_in(Arc::clone(fs), name, TableOptions::default()).unwrap();
    entries.iter().for_each(|(key, value)| writer.put(key.as_bytes(), value).unwrap());
    writer.finish().unwrap();
    db.ingest(&[name]).unwrap();
}

/// Does everything at once that moves, hides or neighbours the counters, until `done`.
fn disturb<'s>(
    scope: &'s thread::Scope<'s, '_>,
    db: &'s Db,
    fs: &'s Arc<dyn Fs>,
    done: &'s AtomicBool,
) {
    let until_done = move |mut act: Box<dyn FnMut(u64) + Send>| {
        scope.spawn(move || (0..).take_while(|_| !done.load(SeqCst)).for_each(&mut act));
    };
    until_done(Box::new(|_| db.flush().unwrap()));
    until_done(Box::new(|round| {
        db.compact_all().unwrap();
        ingest(db, fs, &format!("/in{round}"), &[("count", b"around"), ("count~", b"around")]);
        fs.remove(format!("/in{round}").as_ref()).unwrap();
    }));
    until_done(Box::new(|_| {
        db.delete_range("a".."count").unwrap();
        db.put("b", [7; 500]).unwrap();
        let swapped = db.compare_and_swap("count/0", Some("nobody wrote this"), Some("x"));
        assert!(swapped.unwrap().is_err());
    }));
}

#[test]
fn four_threads_count_one_counter_and_lose_nothing() {
    const EACH: u64 = 2000;
    let (db, fs) = &in_memory();
    let done = &AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        disturb(scope, db, fs, done);
        let count = || {
            let counts = (0..EACH).map(|_| db.update_fetch("count/0", increment).unwrap().unwrap());
            counts.map(u64::from_be_bytes).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        let seen = threads.into_iter().map(|it| it.join()).collect::<Vec<_>>();
        done.store(true, SeqCst);
        seen
    });
    let seen: Vec<u64> = seen.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(count(db, "count/0"), 4 * EACH);
    assert_eq!(BTreeSet::from_iter(seen), BTreeSet::from_iter(1..=4 * EACH));
}

/// One more thread takes counters away, so that they are absent, and become so by tombstones.
#[test]
fn four_threads_count_many_counters_while_another_one_takes_them() {
    const EACH: u64 = 2000;
    const COUNTERS: u64 = 12;
    let (db, fs) = &in_memory();
    let (done, taken) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let key = |n: u64| format!("count/{n}");
    let take = move |n: u64| {
        let old = db.take(key(n)).unwrap();
        taken.fetch_add(old.map_or(0, |value| number(&value)), SeqCst);
    };
    let joined = thread::scope(|scope| {
        disturb(scope, db, fs, done);
        scope.spawn(move || {
            (0..).take_while(|_| !done.load(SeqCst)).for_each(|n| take(n % COUNTERS));
        });
        let threads = (0..4).map(|seed| {
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed);
                for n in 0..EACH {
                    let key = key(rng.random_range(0..COUNTERS));
                    match n % 2 {
                        0 => drop(db.fetch_update(&key, increment).unwrap()),
                        _ => swap_until_counted(db, &key),
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let joined: Vec<_> = threads.into_iter().map(|it| it.join()).collect();
        done.store(true, SeqCst);
        joined
    });
    joined.into_iter().for_each(Result::unwrap);
    (0..COUNTERS).for_each(take);
    assert_eq!(taken.load(SeqCst), 4 * EACH);
    assert!((0..COUNTERS).all(|n| db.get(key(n)).unwrap().is_none()));
}

/// Counts by `compare_and_swap`, from the value that each failure carries.
fn swap_until_counted(db: &Db, key: &str) {
    let mut current: Option<Slice> = None;
    while let Err(failed) =
        db.compare_and_swap(key, current.as_ref(), increment(current.as_deref())).unwrap()
    {
        assert_ne!(failed.current, current, "a failure carries another value than the expected");
        current = failed.current;
    }
}

/// Each call against a map, in a tree that is flushed and compacted meanwhile.
#[test]
fn updates_do_what_they_do_to_a_map() {
    let (db, _) = in_memory();
    let mut map: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut rng = StdRng::seed_from_u64(7);
    let values: [Option<&str>; 4] = [None, Some(""), Some("a"), Some("b")];
    for _ in 0..20_000 {
        let key = format!("{}", rng.random_range(0..8));
        let [expected, new] = [(); 2].map(|()| values[rng.random_range(0..4)]);
        let old = map.get(&key).cloned();
        let set = |map: &mut BTreeMap<_, _>, value: Option<&str>| match value {
            Some(value) => map.insert(key.clone(), value.as_bytes().to_vec()),
            None => map.remove(&key),
        };
        match rng.random_range(0..100) {
            0..30 => {
                let swapped = db.compare_and_swap(&key, expected, new).unwrap();
                if old.as_deref() == expected.map(str::as_bytes) {
                    assert_eq!(swapped, Ok(()));
                    set(&mut map, new);
                } else {
                    let CompareAndSwapError { current, .. } = swapped.unwrap_err();
                    assert_eq!(current.as_deref(), old.as_deref());
                }
            }
            30..50 => {
                let fetched = db.fetch_update(&key, |seen| {
                    assert_eq!(seen, old.as_deref());
                    new
                });
                assert_eq!(fetched.unwrap().as_deref(), old.as_deref());
                set(&mut map, new);
            }
            50..70 => {
                assert_eq!(db.update_fetch(&key, |_| new).unwrap(), new);
                set(&mut map, new);
            }
            70..80 => {
                assert_eq!(db.take(&key).unwrap().as_deref(), old.as_deref());
                set(&mut map, None);
            }
            80..90 => {
                db.put(&key, "put").unwrap();
                set(&mut map, Some("put"));
            }
            90..94 => {
                db.delete_range(key.clone()..format!("{key}~")).unwrap();
                set(&mut map, None);
            }
            94..98 => drop(db.put("filler", [0; 900])),
            98 => db.flush().unwrap(),
            _ => db.compact_range(key.as_str()..).unwrap(),
        }
        assert_eq!(db.get(&key).unwrap().as_deref(), map.get(&key).map(Vec::as_slice));
    }
}

/// What comes between the read and the write of an update.
type Between = fn(&Db, &Arc<dyn Fs>);

/// Updates `key` once, while `between` comes between its first read and its write. Returns what the
/// closure saw.
fn update_around(db: &Db, between: impl Fn()) -> Vec<Option<Vec<u8>>> {
    let mut seen = Vec::new();
    let old = db.fetch_update("key", |value| {
        seen.push(value.map(<[u8]>::to_vec));
        if seen.len() == 1 {
            between();
        }
        Some([b"updated ", value.unwrap_or(b"nothing")].concat())
    });
    assert_eq!(old.unwrap().map(|old| old.to_vec()), seen.last().cloned().flatten());
    let expected = [b"updated ", seen.last().unwrap().as_deref().unwrap_or(b"nothing")].concat();
    assert_eq!(db.get("key").unwrap().unwrap(), expected);
    seen
}

const STARTS: [(&str, Between); 5] = [
    ("nothing", |_, _| {}),
    ("a value in memory", |db, _| db.put("key", "old").unwrap()),
    ("a value in a table", |db, _| {
        db.put("key", "old").unwrap();
        db.flush().unwrap();
    }),
    ("a tombstone over a table", |db, _| {
        db.put("key", "older").unwrap();
        db.flush().unwrap();
        db.delete("key").unwrap();
    }),
    ("an ingested value", |db, fs| ingest(db, fs, "/start", &[("key", b"old")])),
];

const MOVES: [(&str, Between); 4] = [
    ("stay", |_, _| {}),
    ("are flushed", |db, _| db.flush().unwrap()),
    ("are compacted", |db, _| db.compact_all().unwrap()),
    ("stay, and other writes follow", |db, _| {
        db.put("other", "").unwrap();
        db.delete_range("l".."m").unwrap();
    }),
];

/// Each kind of write between the read and the write of an update, whatever becomes of it
/// afterwards: the update sees it, and does not overwrite it unseen.
#[test]
fn an_update_sees_every_write_that_comes_between() {
    const WRITES: [(&str, Between, Option<&str>); 8] = [
        ("a put", |db, _| db.put("key", "new").unwrap(), Some("new")),
        ("a deletion", |db, _| db.delete("key").unwrap(), None),
        (
            "a put and a deletion",
            |db, _| {
                db.put("key", "brief").unwrap();
                db.delete("key").unwrap();
            },
            None,
        ),
        (
            "a batch",
            |db, _| {
                let mut batch = WriteBatch::new();
                batch.put("j", "").put("key", "new").put("l", "");
                db.write(batch).unwrap();
            },
            Some("new"),
        ),
        ("a range deletion", |db, _| db.delete_range("k".."kz").unwrap(), None),
        ("an ingestion", |db, fs| ingest(db, fs, "/in", &[("key", b"new")]), Some("new")),
        (
            "an update",
            |db, _| {
                db.update_fetch("key", |_| Some("new")).unwrap();
            },
            Some("new"),
        ),
        (
            "a swap",
            |db, _| {
                let current = db.get("key").unwrap();
                db.compare_and_swap("key", current, Some("new")).unwrap().unwrap();
            },
            Some("new"),
        ),
    ];
    for (start, prepare) in STARTS {
        for (write, between, found) in WRITES {
            for (moved, follow) in MOVES {
                let (db, fs) = &in_memory();
                prepare(db, fs);
                let before = db.get("key").unwrap().map(|value| value.to_vec());
                let seen = update_around(db, || {
                    between(db, fs);
                    follow(db, fs);
                });
                let found = found.map(|value| value.as_bytes().to_vec());
                // A closure that would see the same value again is not called again.
                let mut expected = vec![before, found];
                expected.dedup();
                assert_eq!(seen, expected, "{start}, then {write}, whose entries {moved}");
            }
        }
    }
}

/// A long closure on a busy database ends: what changes the tree alone, or other keys, or the key
/// back to its value, calls no closure again.
#[test]
fn a_closure_is_called_again_only_for_another_value() {
    const HARMLESS: [(&str, Between); 5] = [
        ("a flush", |db, _| db.flush().unwrap()),
        ("a compaction", |db, _| db.compact_all().unwrap()),
        ("an ingestion of other keys", |db, fs| {
            ingest(db, fs, "/in", &[("a", b""), ("key ", b""), ("key0", b""), ("z", b"")]);
        }),
        ("a range deletion of other keys", |db, _| {
            db.delete_range("a".."key").unwrap();
            db.delete_range("key\0".."z").unwrap();
        }),
        ("a put of the same value", |db, _| {
            let value = db.get("key").unwrap();
            db.put("key", "other").unwrap();
            match value {
                Some(value) => db.put("key", value).unwrap(),
                None => db.delete("key").unwrap(),
            }
        }),
    ];
    for (start, prepare) in STARTS {
        for (what, between) in HARMLESS {
            let (db, fs) = &in_memory();
            prepare(db, fs);
            let seen = update_around(db, || between(db, fs));
            assert_eq!(seen.len(), 1, "{start}, then {what}");
        }
    }
}

/// The closures of several updates, one inside the other, of keys that share a turn or are the same.
#[test]
fn updates_inside_updates_do_not_wait_for_each_other() {
    let (db, _) = in_memory();
    let key = |n: u32| format!("{n}");
    fn descend(db: &Db, key: impl Fn(u32) -> String + Copy, depth: u32) {
        if depth < 40 {
            let mut descended = false;
            let value = db.update_fetch(key(depth), |value| {
                if !std::mem::replace(&mut descended, true) {
                    descend(db, key, depth + 1);
                }
                increment(value)
            });
            value.unwrap().unwrap();
        }
    }
    descend(&db, key, 0);
    assert!((0..40).all(|n| count(&db, &key(n)) == 1));
    // All forty of one key: each inner one comes between the read and the write of the outer one.
    descend(&db, |_| "one".into(), 0);
    assert_eq!(count(&db, "one"), 40);
    // Two threads, whose updates cross.
    thread::scope(|scope| {
        for (outer, inner) in [("a", "b"), ("b", "a")] {
            let db = &db;
            scope.spawn(move || {
                for _ in 0..200 {
                    let mut counted = false;
                    let update = |value: Option<&[u8]>| {
                        if !std::mem::replace(&mut counted, true) {
                            db.fetch_update(inner, increment).unwrap();
                        }
                        increment(value)
                    };
                    db.fetch_update(outer, update).unwrap();
                }
            });
        }
    });
    assert_eq!((count(&db, "a"), count(&db, "b")), (400, 400));
}

#[test]
fn a_panic_in_a_closure_leaves_the_database_as_it_was() {
    let (db, fs) = in_memory();
    db.put("key", 7u64.to_be_bytes()).unwrap();
    for _ in 0..3 {
        let update = || db.fetch_update("key", |_| -> Option<Slice> { panic!("on purpose") });
        assert!(catch_unwind(AssertUnwindSafe(update)).is_err());
        assert_eq!(count(&db, "key"), 7);
    }
    assert_eq!(number(&db.fetch_update("key", increment).unwrap().unwrap()), 7);
    db.put("other", "").unwrap();
    db.close().unwrap();
    assert_eq!(count(&open(&fs), "key"), 8);
}

/// While one append of a record waits, two updates of one key queue behind it, and are written in
/// one group. The second one of the group must see the first.
#[test]
fn two_updates_of_one_group_see_each_other() {
    let meet = || {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let db = &Db::builder("/db").fs(Arc::new(fs.clone())).open().unwrap();
        let first = Arc::new(OnceLock::new());
        let goes = Arc::new(AtomicBool::new(false));
        let (appending, may_go) = (Arc::clone(&first), Arc::clone(&goes));
        fs.before_changes(move |_, call, _| {
            if call == Operation::Append && appending.set(()).is_ok() {
                wait_for(|| may_go.load(SeqCst));
            }
        });
        let before = db.stats().tickers.get(Ticker::WriteDoneByOther);
        thread::scope(|scope| {
            scope.spawn(|| db.put("first", "").unwrap());
            wait_for(|| first.get().is_some());
            let count = || number(&db.update_fetch("key", increment).unwrap().unwrap());
            let threads = [(); 2].map(|()| scope.spawn(count));
            thread::sleep(Duration::from_millis(20));
            goes.store(true, SeqCst);
            let mut counts = threads.map(|thread| thread.join().unwrap());
            counts.sort();
            assert_eq!(counts, [1, 2]);
        });
        assert_eq!(count(db, "key"), 2);
        db.stats().tickers.get(Ticker::WriteDoneByOther) > before
    };
    assert!((0..100).any(|_| meet()), "no two updates ever met");
}

fn wait_for(done: impl Fn() -> bool) {
    while !done() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Makes every update, which must return an error that `is_right` for it.
fn all_fail(db: &Db, is_right: impl Fn(&Error) -> bool) {
    let closure = |_: Option<&[u8]>| -> Option<Slice> { panic!("called in vain") };
    let errors = [
        db.compare_and_swap("key", Some("value"), ABSENT).map(drop).unwrap_err(),
        // Even where nothing would be written.
        db.compare_and_swap("key", ABSENT, ABSENT).map(drop).unwrap_err(),
        db.fetch_update("key", closure).unwrap_err(),
        db.update_fetch("key", closure).unwrap_err(),
        db.take("absent").unwrap_err(),
    ];
    errors.iter().for_each(|error| assert!(is_right(error), "{error}"));
}

#[test]
fn a_database_that_takes_no_writes_takes_no_updates() {
    let (db, fs) = in_memory();
    db.put("key", "value").unwrap();
    let closed_meanwhile = db.fetch_update("key", |_| {
        db.clone().close().unwrap();
        Some("new")
    });
    assert!(matches!(closed_meanwhile, Err(Error::Closed)));
    all_fail(&db, |error| matches!(error, Error::Closed));
    let reader = Db::builder("/db").fs(Arc::clone(&fs)).open_read_only().unwrap();
    all_fail(&reader, |error| matches!(error, Error::OpenedReadOnly));
    assert_eq!(reader.get("key").unwrap().unwrap(), b"value");
}

#[test]
fn an_update_that_cannot_be_written_changes_nothing() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let db = Db::builder("/db").fs(Arc::new(fs.clone())).open().unwrap();
    db.put("key", "value").unwrap();
    fs.fail_once(maypole::fs::Target::Only(Operation::Append), 0, Fault::Io);
    assert!(db.compare_and_swap("key", Some("value"), Some("new")).is_err());
    all_fail(&db, |error| matches!(error, Error::ReadOnly(_)));
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
}

#[test]
fn the_failure_of_a_swap_says_what_failed() {
    let (db, _) = in_memory();
    let failed = db.compare_and_swap("key", Some("value"), ABSENT).unwrap().unwrap_err();
    assert_eq!(failed.current, None);
    assert_eq!(failed.to_string(), "the key does not have the expected value");
}

type Pop = fn(&Db) -> maypole::Result<Option<(Slice, Slice)>>;

/// Regression: a value that was put under the smallest key while `pop_first` ran could be removed
/// without being returned.
#[test]
fn pops_return_every_value_once_whatever_is_put_under_the_key_meanwhile() {
    const EACH: u64 = 4000;
    let (db, _) = in_memory();
    let (db, running) = (&db, &AtomicU64::new(2));
    let popped = thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for n in 0..EACH {
                    let number = (thread * EACH + n).to_be_bytes();
                    let append =
                        |old: Option<&[u8]>| Some([old.unwrap_or_default(), &number].concat());
                    db.update_fetch("key", append).unwrap();
                }
                running.fetch_sub(1, SeqCst);
            });
        }
        let pop = move |pop: Pop| {
            let mut numbers = Vec::new();
            loop {
                let is_over = running.load(SeqCst) == 0;
                match pop(db).unwrap() {
                    Some((_, value)) => numbers.extend(value.chunks(8).map(number)),
                    None if is_over => return numbers,
                    None => thread::yield_now(),
                }
            }
        };
        let first = scope.spawn(move || pop(Db::pop_first));
        let last = scope.spawn(move || pop(Db::pop_last));
        [first.join().unwrap(), last.join().unwrap()].concat()
    });
    assert_eq!(popped.len() as u64, 2 * EACH);
    assert_eq!(BTreeSet::from_iter(popped), BTreeSet::from_iter(0..2 * EACH));
}

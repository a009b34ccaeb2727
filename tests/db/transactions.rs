//! Optimistic transactions: what they see, what makes them conflict, and what does not.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use maypole::fs::Fs;
use maypole::table::{SstWriter, TableOptions};
use maypole::{
    Conflict, Db, Durability, Error, Slice, Ticker, Transaction, TransactionCursor, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::small::in_memory;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn ingest(db: &Db, fs: &Arc<dyn Fs>, name: &str, keys: &[&str]) {
    let mut writer = SstWriter::create_in(Arc::clone(fs), name, TableOptions::default()).unwrap();
    keys.iter().for_each(|key| writer.put(key.as_bytes(), b"ingested").unwrap());
    writer.finish().unwrap();
    db.ingest(&[name]).unwrap();
}

fn conflict(committed: maypole::Result<()>) -> Conflict {
    match committed {
        Err(Error::Conflict(conflict)) => conflict,
        other => panic!("{other:?}"),
    }
}

fn number(value: Option<Slice>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().expect("eight bytes")))
}

/// What another writer does between the reads of a transaction and its commit.
type Meanwhile = fn(&Db, &Arc<dyn Fs>);

/// What a transaction reads.
type Reads = fn(&Transaction);

const AFTERMATHS: [(&str, Meanwhile); 5] = [
    ("in the memtable", |_, _| ()),
    ("flushed", |db, _| db.flush().unwrap()),
    ("compacted", |db, _| db.compact_all().unwrap()),
    ("in two tables", |db, _| {
        db.flush().unwrap();
        db.put("a~", "another").unwrap();
        db.flush().unwrap();
    }),
    ("in a frozen memtable", |db, _| {
        for i in 0..40 {
            db.put(format!("a~{i}"), vec![7; 1024]).unwrap();
        }
    }),
];

/// A database with `a`, `c` and `e`, partly in a table.
fn with_entries() -> (Db, Arc<dyn Fs>) {
    let (db, fs) = in_memory();
    for key in ["a", "c", "e"] {
        db.put(key, "old").unwrap();
        if key == "c" {
            db.flush().unwrap();
        }
    }
    (db, fs)
}

#[test]
fn a_commit_conflicts_if_and_only_if_what_was_read_has_changed() {
    let cases: [(&str, Reads, Meanwhile, bool); 27] = [
        ("key put", |tx| drop(tx.get("c")), |db, _| db.put("c", "new").unwrap(), true),
        ("key deleted", |tx| drop(tx.get("c")), |db, _| db.delete("c").unwrap(), true),
        ("absent key put", |tx| drop(tx.get("b")), |db, _| db.put("b", "new").unwrap(), true),
        ("other key put", |tx| drop(tx.get("b")), |db, _| db.put("bb", "new").unwrap(), false),
        (
            "other key ingested",
            |tx| drop(tx.get("b")),
            |db, fs| ingest(db, fs, "/t", &["a", "d"]),
            false,
        ),
        ("key ingested", |tx| drop(tx.get("c")), |db, fs| ingest(db, fs, "/t", &["a", "c"]), true),
        (
            "absent key ingested",
            |tx| drop(tx.get("b")),
            |db, fs| ingest(db, fs, "/t", &["b"]),
            true,
        ),
        (
            "range over key",
            |tx| drop(tx.get("c")),
            |db, _| db.delete_range("b".."d").unwrap(),
            true,
        ),
        (
            "range beside key",
            |tx| drop(tx.get("c")),
            |db, _| db.delete_range("a".."c").unwrap(),
            false,
        ),
        ("contains_key", |tx| drop(tx.contains_key("b")), |db, _| db.put("b", "").unwrap(), true),
        ("get_with", |tx| drop(tx.get_with("c", |_| ())), |db, _| db.put("c", "").unwrap(), true),
        ("multi_get", |tx| drop(tx.multi_get(&["x", "b"])), |db, _| db.put("b", "").unwrap(), true),
        ("first", |tx| drop(tx.first_key_value()), |db, _| db.put("A", "").unwrap(), true),
        ("first, behind", |tx| drop(tx.first_key_value()), |db, _| db.put("b", "").unwrap(), false),
        ("last", |tx| drop(tx.last_key_value()), |db, _| db.put("f", "").unwrap(), true),
        ("last, before", |tx| drop(tx.last_key_value()), |db, _| db.put("d", "").unwrap(), false),
        ("is_empty", |tx| drop(tx.is_empty()), |db, _| db.delete("a").unwrap(), true),
        ("iter", |tx| assert_eq!(tx.iter().count(), 3), |db, _| db.put("zz", "").unwrap(), true),
        ("iter", |tx| assert_eq!(tx.iter().count(), 3), |db, _| db.put("", "").unwrap(), true),
        (
            "range",
            |tx| assert_eq!(tx.range("b".."e").count(), 1),
            |db, _| db.put("d", "").unwrap(),
            true,
        ),
        (
            "range, past",
            |tx| assert_eq!(tx.range("b".."e").count(), 1),
            |db, _| db.put("e", "").unwrap(),
            false,
        ),
        (
            "range deleted",
            |tx| assert_eq!(tx.range("b".."e").count(), 1),
            |db, _| db.delete_range("c".."cc").unwrap(),
            true,
        ),
        (
            "range ingested",
            |tx| assert_eq!(tx.range("b".."e").count(), 1),
            |db, fs| ingest(db, fs, "/t", &["d"]),
            true,
        ),
        (
            "empty prefix",
            |tx| assert_eq!(tx.prefix("b").count(), 0),
            |db, _| db.put("bx", "").unwrap(),
            true,
        ),
        (
            "prefix, past",
            |tx| assert_eq!(tx.prefix("b").count(), 0),
            |db, _| db.put("c", "").unwrap(),
            false,
        ),
        ("snapshot", |tx| drop(tx.snapshot().get("c")), |db, _| db.put("c", "").unwrap(), false),
        (
            "leaked cursor",
            |tx| {
                let mut cursor = tx.range_cursor("b".."d");
                cursor.seek_to_first().unwrap();
                std::mem::forget(cursor);
            },
            |db, _| db.put("cc", "").unwrap(),
            true,
        ),
    ];
    for (case, read, meanwhile, conflicts) in cases {
        for (aftermath, and_then) in AFTERMATHS {
            let (db, fs) = with_entries();
            let mut tx = db.transaction();
            read(&tx);
            tx.put("written", "by the transaction");
            meanwhile(&db, &fs);
            and_then(&db, &fs);
            let committed = tx.commit();
            let name = format!("{case}, {aftermath}: {committed:?}");
            assert_eq!(matches!(committed, Err(Error::Conflict(_))), conflicts, "{name}");
            assert!(conflicts || committed.is_ok(), "{name}");
            assert_eq!(db.contains_key("written").unwrap(), !conflicts, "{name}");
            let count = |ticker| db.stats().tickers.get(ticker);
            assert_eq!(count(Ticker::TransactionConflicts), u64::from(conflicts), "{name}");
            assert_eq!(count(Ticker::TransactionCommits), u64::from(!conflicts), "{name}");
        }
    }
}

#[test]
fn flushes_and_compactions_alone_never_conflict() {
    let (db, _) = with_entries();
    db.put("d", "x").unwrap();
    db.delete("d").unwrap();
    let mut tx = db.transaction();
    assert_eq!(tx.get("a").unwrap().unwrap(), b"old");
    assert_eq!(tx.iter().count(), 3);
    tx.put("a", "new");
    db.flush().unwrap();
    db.compact_all().unwrap();
    tx.commit().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"new");
}

/// The snapshot of a transaction keeps what a later deletion hides, and so the deletion.
#[test]
fn a_key_that_was_deleted_and_compacted_away_still_conflicts() {
    for delete in [|db: &Db| db.delete("c").unwrap(), |db: &Db| db.delete_range("b".."d").unwrap()]
    {
        let (db, _) = with_entries();
        db.compact_all().unwrap();
        let mut tx = db.transaction();
        assert!(tx.contains_key("c").unwrap());
        tx.put("x", "");
        delete(&db);
        db.compact_all().unwrap();
        assert_eq!(conflict(tx.commit()), Conflict::Key(b"c".to_vec()));
    }
}

#[test]
fn a_conflict_names_the_key_or_the_range() {
    let (db, _) = with_entries();
    let mut tx = db.transaction();
    assert_eq!(tx.range("b".."d").count(), 1);
    tx.put("x", "");
    db.put("b\x01", "").unwrap();
    let error = tx.commit().unwrap_err();
    let text = "the transaction conflicts with a later write: the range from \"b\" to \"d\" was \
                written since it was read";
    assert_eq!(error.to_string(), text);
}

#[test]
fn what_does_not_depend_on_reads_does_not_conflict() {
    let (db, _) = with_entries();
    // A transaction without writes.
    let tx = db.transaction();
    assert_eq!(tx.iter().count(), 3);
    db.put("c", "new").unwrap();
    tx.commit_opt(Durability::Sync).unwrap();
    // Blind writes, and reads of own writes.
    let mut tx = db.transaction();
    tx.put("c", "mine");
    tx.delete_range("d".."f");
    assert_eq!(tx.get("c").unwrap().unwrap(), b"mine");
    assert_eq!(tx.get("e").unwrap(), None);
    db.put("c", "theirs").unwrap();
    db.put("e", "theirs").unwrap();
    tx.commit().unwrap();
    assert_eq!(db.get("c").unwrap().unwrap(), b"mine");
    assert_eq!(db.get("e").unwrap(), None);
}

#[test]
fn nobody_sees_a_transaction_before_its_commit_or_after_its_drop() {
    let (db, _) = with_entries();
    let mut tx = db.transaction();
    tx.put("a", "new");
    tx.delete("c");
    tx.delete_range("d".."f");
    let keys = |db: &Db| db.iter().map(|item| item.unwrap().0.to_vec()).collect::<Vec<_>>();
    assert_eq!(keys(&db), [b"a", b"c", b"e"]);
    drop(tx);
    assert_eq!(keys(&db), [b"a", b"c", b"e"]);
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        db.transact(|tx| -> maypole::Result<()> {
            tx.put("a", "new");
            panic!("in the closure")
        })
    }));
    assert!(thrown.is_err());
    assert_eq!(db.get("a").unwrap().unwrap(), b"old");
    assert_eq!(db.stats().snapshots, 0);
}

#[test]
fn transact_repeats_conflicts_but_no_errors_of_its_closure() {
    let (db, _) = with_entries();
    let mut runs = 0;
    db.transact(|tx| {
        runs += 1;
        let old = tx.get("c")?;
        if runs < 4 {
            db.put("c", format!("{runs}"))?;
        }
        tx.put("copy", old.unwrap());
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!((runs, db.get("copy").unwrap().unwrap()), (4, Slice::copy_from(b"3")));

    #[derive(Debug)]
    enum Refusal {
        Poor,
        Store(Error),
    }
    impl From<Error> for Refusal {
        fn from(error: Error) -> Refusal {
            Refusal::Store(error)
        }
    }
    let mut runs = 0;
    let refused = db.transact(|tx| {
        runs += 1;
        tx.put("copy", "changed");
        Err::<(), _>(Refusal::Poor)
    });
    assert!(matches!(refused, Err(Refusal::Poor)) && runs == 1);
    assert_eq!(db.get("copy").unwrap().unwrap(), b"3");

    // A closure that never can succeed ends.
    let mut runs = 0;
    let ended = db.transact(|tx| {
        runs += 1;
        tx.get("c")?;
        tx.put("copy", "");
        db.put("c", "always new").map_err(Refusal::Store)
    });
    assert!(matches!(ended, Err(Refusal::Store(Error::Conflict(_)))) && runs == 100, "{runs}");
}

#[test]
fn transactions_inside_each_other_are_independent() {
    let (db, _) = with_entries();
    let mut outer = db.transaction();
    outer.put("a", "outer");
    db.transact(|inner| {
        assert_eq!(inner.get("a")?.unwrap(), b"old");
        inner.put("c", "inner");
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(outer.get("c").unwrap().unwrap(), b"old");
    assert_eq!(conflict(outer.commit()), Conflict::Key(b"c".to_vec()));
}

#[test]
fn a_transaction_that_outlives_the_closing_says_so() {
    let (db, _) = with_entries();
    let mut tx = db.transaction();
    tx.put("a", "new");
    db.clone().close().unwrap();
    assert!(matches!(tx.get("c"), Err(Error::Closed)));
    assert_eq!(tx.get("a").unwrap().unwrap(), b"new", "an own write needs no database");
    assert!(matches!(tx.iter().next(), Some(Err(Error::Closed))));
    assert!(matches!(tx.commit(), Err(Error::Closed)));
}

#[test]
fn a_read_only_database_has_transactions_that_read() {
    let (db, fs) = with_entries();
    drop(db);
    let db = Db::builder("/db").fs(fs).open_read_only().unwrap();
    let mut tx = db.transaction();
    assert_eq!(tx.iter().count(), 3);
    tx.put("b", "");
    assert!(matches!(tx.commit(), Err(Error::OpenedReadOnly)));
    let count = db.transact(|tx| -> maypole::Result<_> { Ok(tx.iter().count()) });
    assert_eq!(count.unwrap(), 3);
}

#[test]
fn a_write_that_no_batch_can_hold_fails_the_commit() {
    let (db, _) = with_entries();
    let mut tx = db.transaction();
    tx.put("b", "");
    tx.delete_range("d".."c");
    assert!(matches!(tx.commit(), Err(Error::InvalidArgument(_))));
    assert_eq!(db.get("b").unwrap(), None);
}

/// Cursors jump over an interval in which they have seen nothing but tombstones.
#[test]
fn a_put_of_a_transaction_among_many_deletions_is_seen() {
    let (db, _) = in_memory();
    let key = |i: u32| format!("{i:05}");
    (0..5000).for_each(|i| db.put(key(i), "").unwrap());
    (0..5000).for_each(|i| db.delete(key(i)).unwrap());
    for _ in 0..3 {
        assert_eq!(db.iter().count(), 0);
        db.put("x", "so that a leader hears of the interval").unwrap();
        db.delete("x").unwrap();
    }
    let mut tx = db.transaction();
    assert!(tx.first_key_value().unwrap().is_none());
    tx.put(key(2500), "new");
    tx.commit().unwrap();
    assert_eq!(db.first_key_value().unwrap().unwrap().0, key(2500).as_bytes());
    assert_eq!(db.transaction().iter().count(), 1);
}

/// Regression: the first entry behind n tombstones cost n steps, because a snapshot's cursors told
/// nobody where they had seen nothing; and so did the keys that one transaction had removed.
#[test]
fn the_first_entry_costs_no_more_the_more_was_popped_before_it() {
    const JOBS: u32 = 3000;
    let (db, _) = in_memory();
    let fill = || (0..JOBS).for_each(|job| db.put(job.to_be_bytes(), "").unwrap());
    let skipped = || db.stats().tickers.get(Ticker::NumberIterSkip);
    let limit = u64::from(JOBS) * 200;
    // By a transaction each, while others write.
    fill();
    for job in 0..JOBS {
        let popped = db.transact(|tx| tx.pop_first()).unwrap().unwrap();
        assert_eq!(popped.0, job.to_be_bytes());
        db.put("other", "").unwrap();
    }
    assert!(skipped() < limit, "{} hidden entries were passed", skipped());
    // All by one transaction, from both ends.
    fill();
    let (before, mut tx) = (skipped(), db.transaction());
    for job in 0..JOBS / 2 {
        assert_eq!(tx.pop_first().unwrap().unwrap().0, job.to_be_bytes());
        let last = tx.pop_last().unwrap().unwrap().0;
        assert!(job == 0 || last == (JOBS - job).to_be_bytes());
    }
    assert!(skipped() - before < limit, "{} hidden entries were passed", skipped() - before);
    tx.put(7_u32.to_be_bytes(), "again");
    assert_eq!(tx.first_key_value().unwrap().unwrap().1, b"again");
    assert_eq!(tx.last_key_value().unwrap().unwrap().0, (JOBS / 2).to_be_bytes());
    tx.commit().unwrap();
    assert_eq!(db.len().unwrap(), 2);
}

#[test]
fn reads_that_are_repeated_are_remembered_once() {
    let (db, _) = in_memory();
    let mut tx = db.transaction();
    for key in (0..200_000_u32).map(|i| i % 50_000 * 2) {
        assert!(tx.get([&key.to_be_bytes()[..], &[7; 60]].concat()).unwrap().is_none());
    }
    tx.put("written", "");
    db.put([&1_001_u32.to_be_bytes()[..], &[7; 60]].concat(), "between two keys").unwrap();
    tx.commit().unwrap();
}

/// Two transactions whose commits wait in one queue: the second reads what the first writes.
#[test]
fn transactions_of_one_group_see_each_other() {
    let (db, _) = in_memory();
    let db = &db;
    for round in 0..200_u64 {
        let outcomes = thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut tx = db.transaction();
                        let old = number(tx.get(round.to_be_bytes()).unwrap());
                        tx.put(round.to_be_bytes(), (old + 1).to_be_bytes());
                        tx.put([&[thread as u8][..], &round.to_be_bytes()].concat(), "");
                        tx.commit().is_ok()
                    })
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        let committed = outcomes.iter().filter(|&&it| it).count() as u64;
        assert_eq!(number(db.get(round.to_be_bytes()).unwrap()), committed);
    }
}

fn key_of(rng: &mut StdRng) -> Vec<u8> {
    let letters = [b'a', b'b', 0, 0xff];
    (0..rng.random_range(0..4)).map(|_| letters[rng.random_range(0..4)]).collect()
}

fn model_range(model: &Model, lower: &[u8], upper: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
    let keys = model.range::<[u8], _>((Bound::Included(lower), Bound::Unbounded));
    let in_bounds = |key: &[u8]| match upper {
        Bound::Excluded(upper) => key < upper,
        _ => true,
    };
    let entries = keys.take_while(|(key, _)| in_bounds(key));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn owned(entry: maypole::Result<(Slice, Slice)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = entry.unwrap();
    (key.to_vec(), value.to_vec())
}

/// Random reads and writes of a transaction, over a random tree, compared with a map.
#[test]
fn a_transaction_reads_what_a_map_reads() {
    for seed in 0..150 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (db, _) = in_memory();
        let mut model = Model::new();
        for _ in 0..rng.random_range(0..60) {
            match rng.random_range(0..10) {
                0 => db.flush().unwrap(),
                1 => {
                    let (a, b) = (key_of(&mut rng), key_of(&mut rng));
                    let (a, b) = if a <= b { (a, b) } else { (b, a) };
                    db.delete_range(&a..&b).unwrap();
                    model.retain(|key, _| *key < a || *key >= b);
                }
                2..4 => {
                    let key = key_of(&mut rng);
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let key = key_of(&mut rng);
                    let value = rng.random::<u32>().to_be_bytes().to_vec();
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        let mut tx = db.transaction();
        db.delete_range("".."a").unwrap();
        db.put("b", "after the beginning").unwrap();
        let before: Vec<_> = db.iter().map(owned).collect();
        for _ in 0..60 {
            match rng.random_range(0..9) {
                0..3 => {
                    let (key, value) = (key_of(&mut rng), rng.random::<u32>().to_be_bytes());
                    tx.put(&key, value);
                    model.insert(key, value.to_vec());
                }
                3 => {
                    let key = key_of(&mut rng);
                    match rng.random_range(0..4) {
                        0 => {
                            tx.delete_range(&key..);
                            model.retain(|it, _| *it < key);
                        }
                        1 => {
                            tx.delete_prefix(&key);
                            model.retain(|it, _| !it.starts_with(&key));
                        }
                        _ => {
                            tx.delete(&key);
                            model.remove(&key);
                        }
                    }
                }
                4 => {
                    let (a, b) = (key_of(&mut rng), key_of(&mut rng));
                    let (a, b) = if a <= b { (a, b) } else { (b, a) };
                    tx.delete_range(&a..&b);
                    model.retain(|key, _| *key < a || *key >= b);
                }
                5 => {
                    let (popped, expected) = match rng.random() {
                        true => (tx.pop_first(), model.pop_first()),
                        false => (tx.pop_last(), model.pop_last()),
                    };
                    assert_eq!(popped.unwrap().map(|entry| owned(Ok(entry))), expected);
                }
                6 => compare_lookups(&tx, &model, &mut rng),
                7 => compare_iterators(&tx, &model, &mut rng),
                _ => walk(&tx, &model, &mut rng),
            }
        }
        compare_lookups(&tx, &model, &mut rng);
        assert_eq!(tx.iter().map(owned).collect::<Vec<_>>(), model_range(&model, b"", None));
        assert_eq!(db.iter().map(owned).collect::<Vec<_>>(), before);
    }
}

fn compare_lookups(tx: &Transaction, model: &Model, rng: &mut StdRng) {
    let keys: Vec<_> = (0..8).map(|_| key_of(rng)).collect();
    let values = tx.multi_get(&keys).unwrap();
    for (key, value) in keys.iter().zip(values) {
        let expected = model.get(key);
        assert_eq!(value.map(Vec::from).as_ref(), expected);
        assert_eq!(tx.get(key).unwrap().map(Vec::from).as_ref(), expected);
        assert_eq!(tx.get_with(key, <[u8]>::to_vec).unwrap().as_ref(), expected);
        assert_eq!(tx.contains_key(key).unwrap(), expected.is_some());
    }
    let ends = [tx.first_key_value(), tx.last_key_value()].map(|it| it.unwrap());
    let ends = ends.map(|end| end.map(|entry| owned(Ok(entry)).0));
    assert_eq!(ends, [model.keys().next().cloned(), model.keys().next_back().cloned()]);
    assert_eq!(tx.is_empty().unwrap(), model.is_empty());
}

fn compare_iterators(tx: &Transaction, model: &Model, rng: &mut StdRng) {
    let (lower, upper) = (key_of(rng), key_of(rng));
    let mut expected: std::collections::VecDeque<_> =
        model_range(model, &lower, Some(&upper)).into();
    let mut entries = tx.range(&lower..&upper);
    loop {
        let (shown, expected) = match rng.random() {
            true => (entries.next(), expected.pop_front()),
            false => (entries.next_back(), expected.pop_back()),
        };
        assert_eq!(shown.map(owned), expected);
        if expected.is_none() {
            break;
        }
    }
    let prefix = key_of(rng);
    let shown: Vec<_> = tx.prefix(&prefix).map(|entry| owned(entry).0).collect();
    let expected: Vec<_> = model.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
    assert_eq!(shown, expected);
}

/// Seeks and steps in both directions.
fn walk(tx: &Transaction, model: &Model, rng: &mut StdRng) {
    let (lower, upper) = (key_of(rng), rng.random_bool(0.7).then(|| key_of(rng)));
    let bounds =
        (Bound::Included(lower.clone()), upper.clone().map_or(Bound::Unbounded, Bound::Excluded));
    let entries = model_range(model, &lower, upper.as_deref());
    let mut cursor: TransactionCursor<'_> = tx.range_cursor(bounds);
    assert!(!cursor.valid() && cursor.next().is_err() && cursor.prev().is_err());
    let mut at: Option<usize> = None;
    for _ in 0..25 {
        let key = key_of(rng);
        match rng.random_range(0..8) {
            0 => {
                cursor.seek_to_first().unwrap();
                at = (!entries.is_empty()).then_some(0);
            }
            1 => {
                cursor.seek_to_last().unwrap();
                at = entries.len().checked_sub(1);
            }
            2 => {
                cursor.seek(&key).unwrap();
                at = entries.iter().position(|(it, _)| *it >= key);
            }
            3 => {
                cursor.seek_for_prev(&key).unwrap();
                at = entries.iter().rposition(|(it, _)| *it <= key);
            }
            step if let Some(i) = at => {
                match step {
                    4..6 => {
                        cursor.next().unwrap();
                        at = (i + 1 < entries.len()).then_some(i + 1);
                    }
                    _ => {
                        cursor.prev().unwrap();
                        at = i.checked_sub(1);
                    }
                };
            }
            _ => {}
        }
        let expected = at.map(|i| (&entries[i].0[..], &entries[i].1[..]));
        assert_eq!(cursor.entry(), expected);
        assert_eq!(
            cursor.valid().then(|| cursor.value_slice()).as_deref(),
            expected.map(|it| it.1)
        );
    }
}

/// Two accounts that together may not fall below zero: the write skew that a snapshot alone allows.
#[test]
fn a_bank_keeps_its_sum_and_its_rule() {
    const ACCOUNTS: u64 = 6;
    let (db, _) = in_memory();
    let db = &db;
    let account = |n: u64| n.to_be_bytes();
    for n in 0..ACCOUNTS {
        db.put(account(n), 100_u64.to_be_bytes()).unwrap();
    }
    let done = &AtomicBool::new(false);
    let moved = &AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                db.flush().unwrap();
                db.compact_all().unwrap();
            }
        });
        // Readers see the sum at every moment.
        scope.spawn(|| {
            while !done.load(SeqCst) {
                let sum: u64 = db.iter().map(|item| number(Some(item.unwrap().1))).sum();
                assert_eq!(sum, 100 * ACCOUNTS);
            }
        });
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed);
                    for _ in 0..500 {
                        let (from, to) =
                            (rng.random_range(0..ACCOUNTS), rng.random_range(0..ACCOUNTS));
                        let amount = rng.random_range(0..60);
                        let has_moved = db.transact(|tx| {
                            // The rule concerns all accounts.
                            let sum: u64 = tx.iter().map(|it| number(Some(it.unwrap().1))).sum();
                            assert_eq!(sum, 100 * ACCOUNTS);
                            let old = number(tx.get(account(from))?);
                            if from == to || old < amount {
                                return Ok::<bool, Error>(false);
                            }
                            let other = number(tx.get(account(to))?);
                            tx.put(account(from), (old - amount).to_be_bytes());
                            tx.put(account(to), (other + amount).to_be_bytes());
                            Ok(true)
                        });
                        moved.fetch_add(u64::from(has_moved.unwrap()), SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        done.store(true, SeqCst);
    });
    let commits = db.stats().tickers.get(Ticker::TransactionCommits);
    assert_eq!(commits, moved.load(SeqCst));
}

#[test]
fn consumers_of_a_queue_get_each_job_once_and_in_order() {
    const JOBS: u64 = 600;
    let (db, _) = in_memory();
    let db = &db;
    let taken = thread::scope(|scope| {
        scope.spawn(|| {
            for job in 0..JOBS {
                db.put(job.to_be_bytes(), "").unwrap();
            }
        });
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut jobs = Vec::new();
                    while jobs.last() != Some(&u64::MAX) {
                        let job = db.transact(|tx| tx.pop_first()).unwrap();
                        match job {
                            Some((key, _)) => {
                                jobs.push(u64::from_be_bytes(key[..].try_into().unwrap()))
                            }
                            None if db.stats().tickers.get(Ticker::TransactionCommits) >= JOBS => {
                                jobs.push(u64::MAX);
                            }
                            None => thread::yield_now(),
                        }
                    }
                    jobs
                })
            })
            .collect();
        consumers.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(taken.iter().all(|jobs| jobs.is_sorted()));
    let mut all: Vec<u64> = taken.into_iter().flatten().filter(|&job| job < JOBS).collect();
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter(0..JOBS));
}

/// More is written between two checks than the leaders note, again and again.
#[test]
fn a_commit_beside_large_groups_ends() {
    let (db, _) = in_memory();
    let db = &db;
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2_u8 {
            scope.spawn(move || {
                for round in 0_u32.. {
                    let mut batch = WriteBatch::new();
                    for i in 0..400_u32 {
                        let key = [&[200, thread][..], &[b'k'; 90], &(round ^ i).to_be_bytes()];
                        batch.put(key.concat(), "");
                    }
                    db.write(batch).unwrap();
                    if done.load(SeqCst) {
                        return;
                    }
                }
            });
        }
        for round in 0..100_u64 {
            let mut tx = db.transaction();
            assert_eq!(number(tx.get("counter").unwrap()), round);
            tx.put("counter", (round + 1).to_be_bytes());
            tx.commit().unwrap();
        }
        done.store(true, SeqCst);
    });
}

#[test]
fn a_commit_validates_what_was_read_of_each_keyspace() {
    let (db, _) = in_memory();
    let handles = ["default", "one", "two"].map(|name| db.keyspace(name).unwrap());
    for reads_range in [false, true] {
        for changed in &handles {
            let mut tx = db.transaction();
            for handle in &handles {
                let part = tx.keyspace(handle).unwrap();
                match reads_range {
                    true => drop(part.range("a".."c").count()),
                    false => drop(part.get("b").unwrap()),
                }
                part.put("written", "");
            }
            changed.put("b", "changed").unwrap();
            conflict(tx.commit());
            assert!(!db.contains_key("written").unwrap());
        }
    }
}

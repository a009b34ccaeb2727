//! Range deletions: what they cost, how snapshots, filters and concurrent readers see them, and
//! which arguments are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use maypole::fs::{FaultFs, Fs, MemFs, Operation, Target};
use maypole::{Compression, Db, Error, FilterKeys, Ticker, WriteBatch};

use crate::device::eventually;

fn key(n: usize) -> String {
    format!("key/{n:06}")
}

/// 20,000 keys in tables of the last level, about 600 data blocks.
fn settled(fs: Arc<dyn Fs>) -> Db {
    let builder = Db::builder("/db").fs(fs).table_bytes(256 << 10);
    let builder = builder.compression(Compression::None);
    let db = builder.filter_keys(FilterKeys::Both("fixed(8)".parse().unwrap())).open().unwrap();
    for n in 0..20_000 {
        db.put(key(n), n.to_string().repeat(20)).unwrap();
    }
    db.compact_range(..).unwrap();
    db
}

#[test]
fn a_scan_leaps_over_what_a_range_deletion_hides() {
    let db = settled(Arc::new(MemFs::new()));
    let blocks = || {
        let tickers = db.stats().tickers;
        tickers.get(Ticker::BlockCacheDataHit) + tickers.get(Ticker::BlockCacheDataMiss)
    };
    // A snapshot keeps the hidden entries in the tables. Without it, a compaction would remove
    // them, and the blocks that it reads would be counted here.
    let _snapshot = db.snapshot();
    db.delete_range(key(100)..key(19_900)).unwrap();
    db.put(key(10_000), "written later").unwrap();
    let left: Vec<String> = (0..100).chain([10_000]).chain(19_900..20_000).map(key).collect();
    for flushed in [false, true] {
        let before = blocks();
        let forward: Vec<_> = db.iter().map(|item| item.unwrap().0).collect();
        assert!(forward.iter().map(|key| &key[..]).eq(left.iter().map(|key| key.as_bytes())));
        let backward: Vec<_> = db.iter().rev().map(|item| item.unwrap().0).collect();
        assert!(backward.iter().eq(forward.iter().rev()));
        assert!(blocks() - before < 60, "{} blocks, flushed: {flushed}", blocks() - before);
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    }
}

#[test]
fn compaction_drops_tables_that_are_hidden_whole_without_reading_them() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let db = settled(Arc::clone(&fs) as Arc<dyn Fs>);
    let tables = db.verify().unwrap().tables;
    assert!(tables > 5, "{tables}");
    let reads = || fs.calls(Target::Only(Operation::ReadExactAt));
    let before = reads();
    db.delete_range("key/".."key0").unwrap();
    db.compact_range(..).unwrap();
    assert!(reads() - before < 10, "{} reads", reads() - before);
    let report = db.verify().unwrap();
    assert_eq!((report.tables, report.entries, report.range_deletions), (0, 0, 0));
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn a_snapshot_keeps_what_a_range_deletion_hides_from_others() {
    let db = settled(Arc::new(MemFs::new()));
    let snapshot = db.snapshot();
    db.delete_range(key(0)..key(20_000)).unwrap();
    db.compact_range(..).unwrap();
    assert_eq!((snapshot.iter().count(), db.iter().count()), (20_000, 0));
    assert!(snapshot.contains_key(key(7)).unwrap() && !db.contains_key(key(7)).unwrap());
    drop(snapshot);
    db.compact_range(..).unwrap();
    assert_eq!(db.verify().unwrap().tables, 0);
}

/// Regression: a program deleted nested ranges and made a snapshot after each. A flush wrote, for
/// each pair of neighboring bounds, a range deletion for each of these snapshots: 3,000 of them
/// became a table of 207 MB, which took 46 seconds and 765 MB of memory. Now a table has fewer than
/// twice as many range deletions as enter it, whatever snapshots exist, and each snapshot sees what
/// it saw.
#[test]
fn nested_range_deletions_with_a_snapshot_after_each_make_a_small_table() {
    const COUNT: usize = 400;
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = Db::builder("/db").fs(fs).compression(Compression::None).open().unwrap();
    for n in 0..2 * COUNT {
        db.put(key(n), "old").unwrap();
    }
    db.flush().unwrap();
    let mut snapshots = vec![db.snapshot()];
    for n in 0..COUNT {
        db.delete_range(key(n)..key(2 * COUNT - n)).unwrap();
        // Without a snapshot between them, only the outline of the ranges is kept.
        if n % 4 != 0 {
            snapshots.push(db.snapshot());
        }
    }
    let seen = |db: &Db| -> Vec<usize> {
        let by_snapshots = snapshots.iter().map(|snapshot| snapshot.iter().count());
        by_snapshots.chain([db.iter().count()]).collect()
    };
    let before = seen(&db);
    for compacted in [false, true] {
        match compacted {
            false => db.flush().unwrap(),
            true => db.compact_range(..).unwrap(),
        }
        let (report, stats) = (db.verify().unwrap(), db.stats());
        assert!(report.range_deletions < 2 * COUNT as u64, "{report:?}");
        let bytes: u64 = stats.files.iter().map(|file| file.file_bytes).sum();
        assert!(bytes < 200 << 10, "{bytes} bytes, compacted: {compacted}");
        assert_eq!(seen(&db), before, "compacted: {compacted}");
    }
    drop(snapshots);
    db.compact_range(..).unwrap();
    assert_eq!(db.verify().unwrap().range_deletions, 0);
    assert_eq!(db.iter().count(), 0);
}

/// Regression: the range deletions of a memtable were limited by their memory only. A memtable of
/// the largest size took millions of them, and each lookup queried them all. Now a memtable with
/// 32,768 range deletions is flushed, whatever its size.
#[test]
fn a_large_memtable_with_many_range_deletions_is_flushed() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = Db::builder("/db").fs(fs).memtable_bytes(2 << 30).open().unwrap();
    db.put(key(999_999), "").unwrap();
    db.flush().unwrap();
    for n in 0..33_000 {
        db.delete_range(key(2 * n)..key(2 * n + 1)).unwrap();
    }
    eventually(|| db.stats().memtable_entries < 300);
    assert_eq!(db.iter().count(), 1);
}

/// The filter of the table with the range deletion holds neither the deleted keys nor their
/// prefixes. Reads must find the range deletion all the same.
#[test]
fn no_filter_hides_a_range_deletion() {
    let db = settled(Arc::new(MemFs::new()));
    db.put("zebra", "").unwrap();
    db.delete_range(key(500)..key(600)).unwrap();
    db.flush().unwrap();
    let gone = |n: usize| (500..600).contains(&n);
    let keys: Vec<String> = (450..650).map(key).collect();
    let together = db.multi_get(&keys).unwrap();
    for (n, found) in (450..650).zip(together) {
        assert_eq!(db.get(key(n)).unwrap().is_none(), gone(n), "{n}");
        assert_eq!(found.is_none(), gone(n), "{n}");
    }
    assert_eq!(db.prefix("key/0005").count(), 0);
    assert_eq!(db.prefix("key/0004").count(), 100);
    assert_eq!(db.prefix("key/0006").rev().count(), 100);
    assert_eq!(db.range(key(590)..key(610)).count(), 10);
}

#[test]
fn a_range_that_ends_before_its_begin_is_refused_and_an_empty_one_does_nothing() {
    let db = Db::builder("/db").fs(Arc::new(MemFs::new())).open().unwrap();
    db.put("b", "").unwrap();
    assert!(matches!(db.delete_range("c".."a"), Err(Error::InvalidArgument(_))));
    db.delete_range("b".."b").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("c", "");
    batch.delete_range("b".."");
    assert!(matches!(db.write(batch), Err(Error::InvalidArgument(_))), "all or nothing");
    assert!(db.contains_key("b").unwrap() && !db.contains_key("c").unwrap());
}

/// Each batch deletes all keys and writes new ones. A reader sees the keys of one batch, also while
/// memtables are flushed and tables are compacted.
#[test]
fn readers_see_a_range_deletion_and_what_came_with_it_at_once() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let builder = Db::builder("/db").fs(fs).memtable_bytes(16 << 10);
    let db = builder.table_bytes(8 << 10).level_base_bytes(8 << 10).open().unwrap();
    let batch = |round: usize| {
        let mut batch = WriteBatch::new();
        batch.delete_range(key(0)..key(1000));
        // The keys differ from those of the 99 batches before, so that a key of such a batch is
        // noticed.
        (0..10).for_each(|n| {
            batch.put(key(n * 100 + round % 100), round.to_string());
        });
        batch
    };
    db.write(batch(0)).unwrap();
    let (done, checks) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for reader in 0..2 {
            let (db, done, checks) = (&db, &done, &checks);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    let entries = snapshot.range(key(0)..key(1000));
                    let entries: Vec<_> = match reader {
                        0 => entries.map(Result::unwrap).collect(),
                        _ => entries.rev().map(Result::unwrap).collect(),
                    };
                    assert_eq!(entries.len(), 10);
                    assert!(entries.iter().all(|(_, value)| *value == entries[0].1));
                    for (key, value) in &entries {
                        assert_eq!(snapshot.get(key).unwrap().as_ref(), Some(value));
                    }
                    let all: Vec<_> = (0..1000).step_by(7).map(key).collect();
                    let found = snapshot.multi_get(&all).unwrap();
                    let found = all.iter().zip(found).filter(|(_, value)| value.is_some());
                    assert!(found.into_iter().all(|(key, value)| {
                        entries
                            .iter()
                            .any(|e| e.0 == key.as_bytes() && Some(&e.1) == value.as_ref())
                    }));
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 1..3000 {
            db.write(batch(round)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(checks.load(Ordering::Relaxed) > 10);
}

//! Workloads whose data changes: deletions, overwrites, queues and retention of the newest entries.
//! Compaction removes dead data without a call by the program, so that the stored size follows the
//! live size. The memtables, tables and levels have a sixty-fourth of their default sizes. The
//! tests check bytes and tables, not times.

use std::sync::Arc;
use std::time::Duration;

use maypole::fs::{Fs, MemFs};
use maypole::{Builder, Compression, Db, Ticker};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

const MIB: u64 = 1 << 20;

fn options(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .compression(Compression::None)
        .memtable_bytes(256 << 10)
        .table_bytes(1 << 20)
        .level_base_bytes(1 << 20)
}

fn memory() -> Arc<dyn Fs> {
    Arc::new(MemFs::new())
}

fn key(n: u64) -> String {
    format!("key{n:012}")
}

fn settle(db: &Db) {
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
}

/// Bytes of all tables.
fn stored(db: &Db) -> u64 {
    db.stats().files.iter().map(|file| file.file_bytes).sum()
}

/// Bytes of the live keys and values.
fn alive(db: &Db) -> u64 {
    db.iter().map(|item| item.map(|(key, value)| (key.len() + value.len()) as u64).unwrap()).sum()
}

fn written(db: &Db) -> u64 {
    let tickers = db.stats().tickers;
    tickers.get(Ticker::FlushWriteBytes) + tickers.get(Ticker::CompactWriteBytes)
}

/// Regression: four times "put, delete, flush" left four tables with eight entries in the last
/// level, also after reopening. Now a flush drops a value that no reader can see any more, and a
/// deletion that hides nothing in the tables.
#[test]
fn a_key_that_is_put_and_deleted_before_a_flush_leaves_no_table() {
    let fs = memory();
    let db = options(&fs).open().unwrap();
    for _ in 0..4 {
        db.put("k", "v").unwrap();
        db.delete("k").unwrap();
        db.flush().unwrap();
    }
    db.wait_for_compaction().unwrap();
    assert_eq!(db.stats().files.len(), 0);
    db.close().unwrap();
    let db = options(&fs).open().unwrap();
    assert_eq!((db.stats().files.len(), db.is_empty().unwrap()), (0, true));
}

/// Regression: forty runs of "open, put 6,000 keys, delete them, close" left 248 MB in an empty
/// database, more with each run. Now no table is left.
#[test]
fn runs_that_delete_what_they_put_leave_nothing() {
    let fs = memory();
    for run in 0..8 {
        let db = options(&fs).open().unwrap();
        for n in 0..1500 {
            db.put(key(run * 10_000 + n), [7; 1000]).unwrap();
        }
        for n in 0..1500 {
            db.delete(key(run * 10_000 + n)).unwrap();
        }
        assert!(db.is_empty().unwrap());
        db.close().unwrap();
    }
    let db = options(&fs).open().unwrap();
    settle(&db);
    assert_eq!(db.stats().files.len(), 0, "{} bytes", stored(&db));
}

/// Regression: after all keys of a tree of 1,028 MB were deleted in random order, it still took
/// 1,046 MB, because compaction started only when a level was too large. Now it takes nothing.
#[test]
fn a_tree_whose_keys_are_all_deleted_becomes_empty() {
    let db = options(&memory()).open().unwrap();
    let mut keys: Vec<u64> = (0..40_000).collect();
    let mut rng = StdRng::seed_from_u64(1);
    keys.shuffle(&mut rng);
    keys.iter().for_each(|&n| db.put(key(n), [7; 300]).unwrap());
    settle(&db);
    assert!(stored(&db) > 10 * MIB);
    keys.shuffle(&mut rng);
    keys.iter().for_each(|&n| db.delete(key(n)).unwrap());
    settle(&db);
    assert_eq!(db.stats().files.len(), 0, "{} bytes", stored(&db));
    assert!(db.is_empty().unwrap());
}

/// Half of the keys are deleted at random. The stored bytes shrink about in proportion, for which
/// at most one and a half times the bytes of the tree are written.
#[test]
fn a_tree_that_loses_half_of_its_keys_loses_half_of_its_bytes() {
    let db = options(&memory()).open().unwrap();
    let mut keys: Vec<u64> = (0..40_000).collect();
    let mut rng = StdRng::seed_from_u64(2);
    keys.shuffle(&mut rng);
    keys.iter().for_each(|&n| db.put(key(n), [7; 300]).unwrap());
    settle(&db);
    let (before, whole) = (written(&db), stored(&db));
    keys.shuffle(&mut rng);
    keys[..20_000].iter().for_each(|&n| db.delete(key(n)).unwrap());
    settle(&db);
    let (stored, alive, written) = (stored(&db), alive(&db), written(&db) - before);
    assert!(stored <= alive * 5 / 4, "{stored} stored, {alive} alive");
    assert!(written <= whole * 3 / 2, "{written} written, tables of {whole}");
}

/// Regression: a range deletion over everything stayed in level 0, and the tables below it, all of
/// whose entries it had deleted, stayed as well. Now these tables are dropped without being read.
#[test]
fn a_range_deletion_over_everything_frees_everything_unread() {
    let db = options(&memory()).open().unwrap();
    (0..20_000).for_each(|n| db.put(key(n), [7; 300]).unwrap());
    settle(&db);
    let reads = db.stats().tickers.get(Ticker::CompactReadBytes);
    db.delete_range("key".."kez").unwrap();
    settle(&db);
    let stats = db.stats();
    assert_eq!(stats.files.len(), 0, "{} bytes", stored(&db));
    assert!(stats.tickers.get(Ticker::TablesDropped) > 3);
    let read = stats.tickers.get(Ticker::CompactReadBytes) - reads;
    assert!(read < MIB / 4, "{read} bytes were read to drop them");
}

/// A table in which a range deletion begins or ends has entries inside and outside the range. The
/// space of those inside is freed too.
#[test]
fn a_range_deletion_frees_parts_of_tables() {
    let db = options(&memory()).open().unwrap();
    (0..20_000).for_each(|n| db.put(key(n), [7; 300]).unwrap());
    settle(&db);
    db.delete_range(key(1_000)..key(19_000)).unwrap();
    settle(&db);
    let (stored, alive) = (stored(&db), alive(&db));
    assert!(stored <= alive * 11 / 10 + MIB / 16, "{stored} stored, {alive} alive");
}

/// Regression: twenty keys were overwritten again and again, and snapshots kept their old versions.
/// After the release of the snapshots, 20 to 41 MB stayed for 20 entries. Now the old versions are
/// removed.
#[test]
fn what_was_kept_for_a_snapshot_goes_with_it() {
    let db = options(&memory()).open().unwrap();
    let mut snapshots = Vec::new();
    for round in 0..200u64 {
        for n in 0..20 {
            db.put(key(n), [round as u8; 1000]).unwrap();
        }
        if round % 2 == 0 {
            snapshots.push(db.snapshot());
        }
    }
    settle(&db);
    assert!(stored(&db) > 20 * 100 * 1000, "each snapshot sees its own versions");
    // The newest snapshot is released first. Each snapshot has versions of its own, so each release
    // frees some.
    while let Some(snapshot) = snapshots.pop() {
        drop(snapshot);
    }
    settle(&db);
    let (stored, alive) = (stored(&db), alive(&db));
    assert!(stored <= alive * 11 / 10 + MIB / 16, "{stored} stored, {alive} alive");
}

/// The release of a snapshot starts the compactions that it makes possible, without a further call.
#[test]
fn the_release_of_a_snapshot_starts_a_compaction() {
    let db = options(&memory()).open().unwrap();
    let held: Vec<_> = (0..50u8)
        .map(|round| {
            (0..20).for_each(|n| db.put(key(n), [round; 1000]).unwrap());
            db.snapshot()
        })
        .collect();
    settle(&db);
    let full = stored(&db);
    drop(held);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while stored(&db) > full / 10 {
        assert!(std::time::Instant::now() < end, "{} of {full} bytes stayed", stored(&db));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ascending keys, of which the newest 5,000 stay; the older ones are deleted `together` at a time.
/// If `together` is 0, none are deleted.
fn retention(together: u64) -> Db {
    let db = options(&memory()).open().unwrap();
    let mut oldest = 0;
    for n in 0..60_000u64 {
        db.put(key(n), [7; 300]).unwrap();
        match together {
            _ if together == 0 || n + 1 < oldest + 5_000 + together => continue,
            1 => db.delete(key(oldest)).unwrap(),
            _ => db.delete_range(key(oldest)..key(oldest + together)).unwrap(),
        }
        oldest += together;
    }
    settle(&db);
    db
}

/// Three regressions of this workload:
///
/// - The tree stored three times the live bytes.
/// - A table was rewritten when a third of it was deleted, although all of it was deleted soon
///   after. So 1.7 times the bytes of the load without deletions were written.
/// - Range deletions are at the low end of the live keys, and new keys at the high end. All live
///   tables between the two were rewritten, so up to twice the bytes of that load were written.
///
/// Now the tree stores at most 1.2 times the live bytes, and at most 1.4 times the bytes of that
/// load are written.
#[test]
fn the_newest_of_ascending_keys_take_little_more_than_their_bytes() {
    let without = written(&retention(0));
    for together in [1, 500] {
        let db = retention(together);
        let (stored, alive, written) = (stored(&db), alive(&db), written(&db));
        println!(
            "{together}: {written} written, {without} without, {stored} stored, {alive} alive"
        );
        assert!(stored <= alive * 12 / 10, "{stored} stored, {alive} alive");
        assert!(written <= without * 7 / 5, "{written} bytes written, {without} without deletions");
    }
}

#[test]
fn an_emptied_queue_takes_no_space() {
    let db = options(&memory()).open().unwrap();
    (0..20_000).for_each(|n| db.put(key(n), [7; 300]).unwrap());
    settle(&db);
    for n in 0..20_000u64 {
        db.delete(key(n)).unwrap();
        if n % 2_000 == 0 {
            db.flush().unwrap();
        }
    }
    settle(&db);
    assert_eq!(db.stats().files.len(), 0, "{} bytes", stored(&db));
}

/// Regression: if ten puts and a flush, such as a checkpoint makes, were repeated sixty times on a
/// large tree, compaction wrote 1,700 times the bytes of the puts. Now the small tables are merged
/// with each other before they are merged with the tables below.
#[test]
fn small_flushes_on_a_large_tree_are_merged_among_themselves() {
    let db = options(&memory()).open().unwrap();
    let mut rng = StdRng::seed_from_u64(4);
    let mut keys: Vec<u64> = (0..40_000).collect();
    keys.shuffle(&mut rng);
    keys.iter().for_each(|&n| db.put(key(n), [7; 300]).unwrap());
    db.compact_all().unwrap();
    let before = db.stats().tickers.get(Ticker::CompactWriteBytes);
    for _ in 0..60 {
        for _ in 0..10 {
            db.put(key(rng.random_range(0..40_000)), [8; 1000]).unwrap();
        }
        settle(&db);
    }
    let stats = db.stats();
    let written = stats.tickers.get(Ticker::CompactWriteBytes) - before;
    assert!(written < 6 * MIB, "{written} bytes for 600 kB");
    assert!(stats.levels[0].files < 12, "{} files in level 0", stats.levels[0].files);
}

/// While a snapshot needs all dead data, compaction does not try repeatedly to free it, even if
/// other snapshots are released.
#[test]
fn what_cannot_be_freed_is_merged_at_most_once_a_level() {
    let db = options(&memory()).open().unwrap();
    (0..20_000).for_each(|n| db.put(key(2 * n), [7; 300]).unwrap());
    settle(&db);
    let snapshot = db.snapshot();
    (0..20_000).for_each(|n| db.delete(key(2 * n)).unwrap());
    settle(&db);
    let count = || db.stats().tickers.get(Ticker::CompactionCount);
    let (before, bytes) = (count(), stored(&db));
    assert!(bytes > 4 * MIB, "the snapshot sees it all");
    for _ in 0..5 {
        // Other snapshots are made and released, and free nothing.
        drop(db.snapshot());
        settle(&db);
    }
    assert_eq!(count(), before);
    drop(snapshot);
    settle(&db);
    assert_eq!(db.stats().files.len(), 0);

    // Deletions of absent keys free nothing either, so they start no compaction again and again.
    (0..20_000).for_each(|n| db.put(key(2 * n), [7; 300]).unwrap());
    settle(&db);
    (0..20_000).for_each(|n| db.delete(key(2 * n + 1)).unwrap());
    settle(&db);
    let before = count();
    (0..5).for_each(|_| settle(&db));
    assert_eq!(count(), before);
    assert_eq!(db.iter().count(), 20_000);
}

/// Regression: merges under a snapshot that needed all deleted entries taught that deletions free
/// nothing, so after the release of the snapshot a tenth of a table and more stayed dead for ever.
#[test]
fn deletions_under_a_snapshot_do_not_teach_that_deletions_free_nothing() {
    let db = options(&memory()).open().unwrap();
    let put_and_delete = |snapshot_between: bool, every: usize| {
        (0..20_000).for_each(|n| db.put(key(n), [7; 300]).unwrap());
        db.compact_all().unwrap();
        let snapshot = snapshot_between.then(|| db.snapshot());
        (0..20_000).step_by(every).for_each(|n| db.delete(key(n)).unwrap());
        settle(&db);
        if snapshot_between {
            db.compact_all().unwrap();
        }
        drop(snapshot);
        settle(&db);
    };
    put_and_delete(true, 1);
    assert_eq!(db.stats().files.len(), 0);
    put_and_delete(false, 4);
    assert!(stored(&db) <= alive(&db) * 11 / 10, "{} stored, {} alive", stored(&db), alive(&db));
}

/// The deletions in all tables.
fn deletions(db: &Db, fs: &Arc<dyn Fs>) -> u64 {
    let table = |number| format!("/db/{number:06}.sst");
    let open = |number| maypole::table::SstReader::open_in(&**fs, table(number)).unwrap();
    let of = |number| open(number).properties().number("rocksdb.deleted.keys").unwrap();
    db.stats().files.iter().map(|file| of(file.number)).sum()
}

/// A few deletions in much data are not worth a merge, but once they are older than
/// `max_deletion_age`, compactions remove them.
#[test]
fn an_old_deletion_goes_down_however_little_it_frees() {
    let fs = memory();
    let deletions = |age: Duration| {
        let db = options(&fs).max_deletion_age(age).open().unwrap();
        settle(&db);
        deletions(&db, &fs)
    };
    let db = options(&fs).open().unwrap();
    (0..20_000).for_each(|n| db.put(key(n), [7; 300]).unwrap());
    settle(&db);
    (0..20).for_each(|n| db.delete(key(1000 * n)).unwrap());
    settle(&db);
    db.close().unwrap();
    assert_eq!(deletions(Duration::from_secs(3600)), 20, "worth nothing yet");
    assert_eq!(deletions(Duration::ZERO), 0);
}

/// A merge into the last level kept deletions next to the entries that they delete, because a snapshot
/// saw the entries. When it was released, they stayed for good: only deletions that hide nothing in
/// their own table counted as old.
#[test]
fn an_old_deletion_goes_when_the_snapshot_is_released_that_kept_its_entry() {
    for reopens in [false, true] {
        let fs = memory();
        let open = || options(&fs).max_deletion_age(Duration::ZERO).open().unwrap();
        let mut db = open();
        (0..5000).for_each(|n| db.put(key(n), [7; 300]).unwrap());
        db.compact_all().unwrap();
        let snapshot = db.snapshot();
        (0..5).for_each(|n| db.delete(key(1000 * n)).unwrap());
        db.compact_all().unwrap();
        settle(&db);
        assert_eq!(deletions(&db, &fs), 5, "the snapshot sees what they delete");
        drop(snapshot);
        if reopens {
            db.close().unwrap();
            db = open();
        }
        settle(&db);
        assert_eq!(deletions(&db, &fs), 0);
        assert_eq!(db.stats().files.iter().map(|file| file.entries).sum::<u64>(), 4995);
    }
}

/// A settled tree without deletions and overwrites is not compacted.
#[test]
fn a_settled_tree_of_values_asks_for_nothing() {
    let db = options(&memory()).open().unwrap();
    (0..20_000).for_each(|n| db.put(key(n * 7919 % 20_011), [7; 300]).unwrap());
    settle(&db);
    let before = db.stats().tickers.get(Ticker::CompactionCount);
    let snapshot = db.snapshot();
    settle(&db);
    drop(snapshot);
    settle(&db);
    assert_eq!(db.stats().tickers.get(Ticker::CompactionCount), before);
}

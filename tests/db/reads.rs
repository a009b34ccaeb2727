//! Reads: how many blocks point lookups read, which metadata (filters and indexes) stays in memory,
//! and what cursors count. Lookups of many keys together return the same as single lookups.

use std::sync::Arc;

use maypole::fs::{FaultFs, Fs, MemFs, Operation, Target};
use maypole::{BlockCache, BlockKind, Db, PinMetadata, Ticker};

fn key(n: u64) -> String {
    format!("user{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A settled tree of one level and several tables, on a file system that counts reads.
fn settled(fs: &Arc<FaultFs>, cache: &Arc<BlockCache>, keys: u64) -> Db {
    let db = Db::builder("db")
        .fs(Arc::clone(fs) as Arc<dyn Fs>)
        .block_cache(Arc::clone(cache))
        .filter("bloom(10)")
        .memtable_bytes(256 << 10)
        .table_bytes(128 << 10)
        .open()
        .unwrap();
    for n in 0..keys {
        db.put(key(n), [b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db
}

#[test]
fn an_absent_lookup_reads_nothing_unless_a_filter_is_fooled_and_then_one_block() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let cache = BlockCache::new(64 << 20);
    drop(settled(&fs, &cache, 10_000));
    // Opened again, so that no data block is in memory.
    let db =
        Db::builder("db").fs(Arc::clone(&fs) as Arc<dyn Fs>).block_cache(cache).open().unwrap();
    let reads = || fs.calls(Target::Only(Operation::ReadExactAt));
    let count = |ticker: Ticker| db.stats().tickers.get(ticker);
    let one = db.get(key(0)).unwrap();
    assert_eq!(one.unwrap(), [b'v'; 100]);
    // Filters and indexes of all tables are loaded by the first lookups.
    for n in 0..2000 {
        db.get(key(1_000_000 + n)).unwrap();
    }
    let (mut fooled, mut reading) = (0, 0);
    for n in 0..6_000 {
        let before = (reads(), count(Ticker::BloomFullPositive), count(Ticker::BlockCacheDataMiss));
        assert_eq!(db.get(key(2_000_000 + n)).unwrap(), None);
        let positives = count(Ticker::BloomFullPositive) - before.1;
        let misses = count(Ticker::BlockCacheDataMiss) - before.2;
        assert!(positives <= 1, "one table a level");
        assert_eq!(reads() - before.0, misses, "one read a block");
        assert!(misses <= positives, "a block was read without a false positive");
        fooled += positives;
        reading += misses;
    }
    // Filters are wrong for about 1 % of the lookups. Most of the blocks that these lookups read
    // were not in memory yet.
    assert!((20..200).contains(&fooled), "{fooled}");
    assert!(reading > 20, "{reading}");
}

#[test]
fn looking_up_together_answers_in_the_order_asked_as_one_by_one() {
    for cache_bytes in [0, 30_000, 64 << 20] {
        let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let db = settled(&fs, &BlockCache::new(cache_bytes), 3_000);
        // Three files in level 0, one of them with tombstones; then the memtable.
        for file in 0..3 {
            for n in (file..3_000).step_by(7) {
                match file {
                    1 => db.delete(key(n)).unwrap(),
                    _ => db.put(key(n), format!("{file} {n}")).unwrap(),
                }
            }
            db.flush().unwrap();
        }
        let snapshot = db.snapshot();
        for n in (0..3_000).step_by(11) {
            db.put(key(n), format!("memtable {n}")).unwrap();
        }
        // Present, deleted and absent keys in no order, some of them twice.
        let keys: Vec<String> = (0..1_500).map(|i| key(i * 7919 % 4_000)).collect();
        let keys = [&keys[..], &keys[..100], &[String::new()]].concat();
        for count in [0, 1, 63, 64, 65, keys.len()] {
            let keys = &keys[..count];
            let single: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
            assert_eq!(db.multi_get(keys).unwrap(), single);
            let single: Vec<_> = keys.iter().map(|key| snapshot.get(key).unwrap()).collect();
            assert_eq!(snapshot.multi_get(keys).unwrap(), single);
        }
    }
}

#[test]
fn looking_up_together_counts_what_one_by_one_counts() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let db = settled(&fs, &BlockCache::new(64 << 20), 6_000);
    for n in 0..300 {
        db.put(key(n), "newer").unwrap();
    }
    db.flush().unwrap();
    let keys: Vec<String> = (0..2_000).map(|n| key(n * 2)).collect();
    let counted = |look_up: &dyn Fn()| {
        let before = db.stats().tickers;
        look_up();
        let since = &db.stats().tickers - &before;
        [
            Ticker::NumberKeysRead,
            Ticker::MemtableMiss,
            Ticker::BloomUseful,
            Ticker::BloomFullPositive,
            Ticker::BloomFullTruePositive,
            Ticker::DataBlocksExamined,
            Ticker::GetHitL0,
            Ticker::GetHitL1,
            Ticker::GetHitL2AndUp,
        ]
        .map(|ticker| since.get(ticker))
    };
    let single = counted(&|| keys.iter().for_each(|key| drop(db.get(key).unwrap())));
    let of_files = || db.stats().files.iter().map(|file| file.counts).collect::<Vec<_>>();
    let files_single = of_files();
    assert!(files_single.len() >= 3, "a level of several files, and one in level 0");
    let together = counted(&|| drop(db.multi_get(&keys).unwrap()));
    assert_eq!(together, single);
    for (twice, once) in of_files().iter().zip(&files_single) {
        let examined = 2 * once.data_blocks_examined;
        assert_eq!(
            (twice.filter, twice.data_blocks_examined),
            (once.filter + once.filter, examined)
        );
    }
    assert!(single.iter().filter(|&&n| n > 0).count() >= 8, "{single:?}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn pinned_metadata_survives_pressure_and_other_metadata_does_not() {
    const KEYS: u64 = 20_000;
    let build = |fs: &Arc<FaultFs>| {
        let db = settled(fs, &BlockCache::new(64 << 20), KEYS);
        // A table of level 0 whose keys are after all others.
        for n in 0..300 {
            db.put(format!("zzz{:04}", 2 * n), "value").unwrap();
        }
        db.flush().unwrap();
    };
    let open = |fs: &Arc<FaultFs>, pin: PinMetadata, cache_bytes: usize| {
        let cache = BlockCache::new(cache_bytes);
        let fs = Arc::clone(fs) as Arc<dyn Fs>;
        let db = Db::builder("db").fs(fs).block_cache(cache.clone()).pin_metadata(pin).open();
        (db.unwrap(), cache)
    };
    let misses = |db: &Db| {
        let tickers = db.stats().tickers;
        tickers.get(Ticker::BlockCacheFilterMiss) + tickers.get(Ticker::BlockCacheIndexMiss)
    };
    // Looks up a key of the level-0 table, then all keys of the other tables twice, and then
    // another key of the level-0 table. Returns the metadata misses of the second pass over the
    // other tables, and of the last lookup.
    let press = |db: &Db| {
        db.get("zzz0000").unwrap().unwrap();
        (0..KEYS).for_each(|n| drop(db.get(key(n)).unwrap().unwrap()));
        let before = misses(db);
        (0..KEYS).for_each(|n| drop(db.get(key(n * 7 % KEYS)).unwrap().unwrap()));
        let cold_before = misses(db);
        db.get("zzz0002").unwrap().unwrap();
        (cold_before - before, misses(db) - cold_before)
    };
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    build(&fs);
    // The capacity of the cache is enough for the open tables, all metadata, and one data block.
    let (db, cache) = open(&fs, PinMetadata::All, 64 << 20);
    press(&db);
    let data_bytes = cache.usage_of(BlockKind::Data).bytes;
    let capacity = cache.usage() - data_bytes + 6_000;
    drop(db);
    let pressed = |pin| press(&open(&fs, pin, capacity).0);
    assert_eq!(pressed(PinMetadata::All), (0, 0));
    assert_eq!(pressed(PinMetadata::Level0).1, 0);
    let (_, cold) = pressed(PinMetadata::None);
    assert!(cold > 0, "unused metadata was evicted for data");
    // Pinned memory is charged, and released.
    let (db, cache) = open(&fs, PinMetadata::Level0, capacity);
    press(&db);
    let pinned = cache.pinned_usage();
    assert!(pinned > 300 && pinned < 8_000, "{pinned}");
    drop(db);
    assert_eq!(cache.pinned_usage(), 0);
}

#[test]
fn cursors_count_seeks_and_steps_at_the_next_seek_and_when_they_are_dropped() {
    let db = Db::builder("/db").fs(Arc::new(MemFs::new())).open().unwrap();
    for n in 0..100 {
        db.put(key(n), "value").unwrap();
    }
    let counts = || {
        let tickers = db.stats().tickers;
        [Ticker::NumberDbSeek, Ticker::NumberDbNext, Ticker::NumberDbPrev]
            .map(|ticker| tickers.get(ticker))
    };
    let mut cursor = db.cursor();
    cursor.seek_to_first().unwrap();
    (0..7).for_each(|_| cursor.next().unwrap());
    (0..3).for_each(|_| cursor.prev().unwrap());
    assert_eq!(counts(), [1, 0, 0]);
    cursor.seek_to_last().unwrap();
    assert_eq!(counts(), [2, 7, 3]);
    cursor.seek_for_prev(key(50)).unwrap();
    cursor.seek_for_prev([0xff]).unwrap();
    cursor.prev().unwrap();
    cursor.seek(key(50)).unwrap();
    cursor.next().unwrap();
    drop(cursor);
    assert_eq!(counts(), [5, 8, 4]);

    // An iterator has a cursor for each direction, and moves only those that it needs. The step
    // that finds the end counts too.
    assert_eq!(db.iter().count(), 100);
    assert_eq!(counts(), [6, 108, 4]);
    let mut both = db.iter();
    assert!(both.next().is_some() && both.next_back().is_some() && both.next_back().is_some());
    drop(both);
    assert_eq!(counts(), [8, 108, 5]);
}

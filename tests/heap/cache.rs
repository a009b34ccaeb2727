//! A block cache and the open tables take hardly more heap than the capacity of the cache.

use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use maypole::{BlockCache, Db};

use super::{LIVE_BYTES, alone, key, large_page_bytes};

const MEMTABLE_BYTES: usize = 1 << 20;

fn held_bytes() -> usize {
    LIVE_BYTES.load(Relaxed) + large_page_bytes()
}

/// Fills a database with `keys` entries. For each capacity of the cache, looks up scattered keys
/// from two threads. Asserts that the heap stays within 105 % of the capacity, and that the cache
/// is nearly full.
fn assert_bounded(keys: u64, value_bytes: usize, capacities: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let options = || Db::builder(dir.path()).memtable_bytes(MEMTABLE_BYTES).table_bytes(256 << 10);
    {
        let db = options().open().unwrap();
        for n in 0..keys {
            db.put(key(n), vec![n as u8; value_bytes]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        db.close().unwrap();
    }
    // What a database without tables takes, which is mostly its memtable. It is subtracted below.
    let before = held_bytes();
    let empty_dir = tempfile::tempdir().unwrap();
    let empty = Db::builder(empty_dir.path()).memtable_bytes(MEMTABLE_BYTES).open().unwrap();
    let empty_bytes = held_bytes().saturating_sub(before);
    empty.close().unwrap();

    for &capacity in capacities {
        let before = held_bytes();
        let cache = BlockCache::new(capacity);
        let db = options().block_cache(cache.clone()).open().unwrap();
        let meet = Barrier::new(2);
        let held = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (db, meet, held) = (db.clone(), &meet, &held);
                scope.spawn(move || {
                    for round in 0..30_000 {
                        let n = round * 7919 + thread;
                        assert!(db.get(key(n % keys)).unwrap().is_some());
                        assert!(db.get(key(keys + n)).unwrap().is_none());
                        if round % 64 == 0 {
                            // When both threads have come here, neither of them loads a block.
                            meet.wait();
                            // Only one thread measures, because measuring takes memory.
                            if thread == 0 {
                                held.fetch_max(held_bytes().saturating_sub(before), Relaxed);
                            }
                            meet.wait();
                        }
                    }
                });
            }
        });
        let held = held.into_inner() - empty_bytes;
        assert!(held <= capacity + capacity / 20, "{held} bytes held of {capacity}");
        // Regression: evicted blocks left holes in the large pages of a cache, and the holes
        // displaced more blocks, until the cache was nearly empty.
        assert!(cache.usage() > capacity / 8 * 7, "{} bytes used of {capacity}", cache.usage());
        db.close().unwrap();
    }
}

#[test]
fn cache_slots_sidecars_and_open_tables_stay_within_the_capacity() {
    let _turn = alone();
    // The data is 35 MB and the metadata 0.7 MB, and the forty open tables take 0.1 MB. The tables
    // are small so that their filters are small (a table of 1 MiB would have a filter of 50 KB).
    // Large filters would exceed the bound, because evicted memory and the memory that replaces it
    // exist together for a moment.
    assert_bounded(300_000, 100, &[1 << 20, 8 << 20]);
    // This cache is so large that it keeps its blocks in large pages. The entries are larger too,
    // so that a block has only one or two.
    assert_bounded(60_000, 2_500, &[64 << 20]);
}

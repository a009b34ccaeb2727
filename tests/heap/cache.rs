//! A block cache and the open tables take hardly more heap than the capacity of the cache, or than
//! the whole filters and indexes that stay in it.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use maypole::table::MetadataForm;
use maypole::{BlockCache, Builder, Compression, Db};
use tempfile::TempDir;

use super::{LIVE_BYTES, alone, key, large_page_bytes};

const MEMTABLE_BYTES: usize = 1 << 20;
/// The number of threads that look up keys.
const THREADS: u64 = 2;

fn held_bytes() -> usize {
    LIVE_BYTES.load(Relaxed) + large_page_bytes()
}

/// Fills a database with `keys` entries. For each capacity of the cache, looks up scattered keys
/// from two threads. Asserts that the heap stays within 105 % of the capacity, and that the cache
/// is nearly full.
fn assert_bounded(keys: u64, value_bytes: usize, capacities: &[usize]) {
    let dir = filled(keys, value_bytes, small_tables);
    let bounds = Bounds { thread_bytes: 0, least_eighths: 7, rounds: 30_000, reads_parts: false };
    assert_bounded_in(dir.path(), keys, small_tables, capacities, bounds);
}

fn small_tables(builder: Builder) -> Builder {
    builder.memtable_bytes(MEMTABLE_BYTES).table_bytes(256 << 10)
}

/// A directory with a database of `keys` entries.
fn filled(keys: u64, value_bytes: usize, options: impl Fn(Builder) -> Builder) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = options(Db::builder(dir.path())).open().unwrap();
    for n in 0..keys {
        db.put(key(n), vec![n as u8; value_bytes]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    db.close().unwrap();
    dir
}

/// What [`assert_bounded_in`] asserts, and for how many rounds of lookups.
struct Bounds {
    /// The heap may exceed 105 % of the capacity by this for each thread.
    thread_bytes: usize,
    /// The cache must be at least this many eighths full.
    least_eighths: usize,
    rounds: u64,
    /// Whether lookups read parts of indexes, not whole indexes.
    reads_parts: bool,
}

fn assert_bounded_in(
    dir: &Path,
    keys: u64,
    options: impl Fn(Builder) -> Builder,
    capacities: &[usize],
    bounds: Bounds,
) {
    // What a database without tables takes, which is mostly its memtable. It is subtracted below.
    let before = held_bytes();
    let empty_dir = tempfile::tempdir().unwrap();
    let empty = Db::builder(empty_dir.path()).memtable_bytes(MEMTABLE_BYTES).open().unwrap();
    let empty_bytes = held_bytes().saturating_sub(before);
    empty.close().unwrap();

    for &capacity in capacities {
        let before = held_bytes();
        let cache = BlockCache::new(capacity);
        let db = options(Db::builder(dir)).block_cache(cache.clone()).open().unwrap();
        let meet = Barrier::new(THREADS as usize);
        let held = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, meet, held) = (db.clone(), &meet, &held);
                scope.spawn(move || {
                    for round in 0..bounds.rounds {
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
        let trace = db.explain(key(1)).unwrap();
        let file = trace.levels.last().unwrap().file.as_ref().unwrap();
        let partition = file.table.index.as_ref().unwrap().partition;
        assert_eq!(partition.is_some(), bounds.reads_parts, "{partition:?} of {capacity}");
        let held = held.into_inner() - empty_bytes;
        println!("{held} bytes held of {capacity}");
        let stats = db.stats();
        let stays = stats.pinned_metadata_bytes + stats.cache_tables_bytes;
        let bound = capacity.max(stays);
        let most = bound + bound / 20 + THREADS as usize * bounds.thread_bytes;
        assert!(held <= most, "{held} bytes held of {bound}");
        // Regression: evicted blocks left holes in the large pages of a cache, and the holes
        // displaced more blocks, until the cache was nearly empty.
        let usage = cache.usage();
        assert!(usage > capacity / 8 * bounds.least_eighths, "{usage} bytes used of {capacity}");
        db.close().unwrap();
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
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

/// The filters and indexes take 1.5 MB, which is more than the cache has. So lookups read parts of
/// them or, if they are stored whole, keep them all.
///
/// In such a small cache, the memory counts that each thread has besides the cache: the buffer of a
/// joint read, which reads up to 16 KiB with a part of a filter and a part of an index, what the
/// thread's last miss evicted, and the memory that its last miss left to the next one.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_cache_that_is_smaller_than_filters_and_indexes_stays_within_the_capacity() {
    const KEYS: u64 = 400_000;
    let _turn = alone();
    for (form, reads_parts) in [(MetadataForm::Parts, true), (MetadataForm::Whole, false)] {
        let options = |builder: Builder| {
            let builder = builder.memtable_bytes(MEMTABLE_BYTES).table_bytes(4 << 20);
            builder.block_bytes(1024).compression(Compression::None).metadata(form)
        };
        let dir = filled(KEYS, 20, options);
        let metadata_bytes =
            options(Db::builder(dir.path())).open().unwrap().stats().metadata_bytes;
        let capacities = [metadata_bytes / 2, metadata_bytes / 16];
        let bounds =
            Bounds { thread_bytes: 24 << 10, least_eighths: 4, rounds: 10_000, reads_parts };
        assert_bounded_in(dir.path(), KEYS, options, &capacities, bounds);
    }
}

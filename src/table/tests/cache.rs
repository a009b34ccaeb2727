//! What is read, what is cached, and what is counted.

use super::parts::{in_parts, opened};
use super::*;
use crate::encoding::key::MAX_SEQUENCE;
use crate::stats::Ticker;
use crate::stats::Ticker::*;
use crate::table::LookupKey;

fn keys(count: u32) -> Entries {
    (0..count)
        .map(|i| (internal_key(format!("k{:06}", 2 * i).as_bytes(), 5, 1), vec![b'v'; 60]))
        .collect()
}

/// By how much `body` increased these tickers.
fn counted(context: &TableContext, tickers: &[Ticker], body: impl FnOnce()) -> Vec<u64> {
    let before = context.counters.sums();
    body();
    let moved = &context.counters.sums() - &before;
    tickers.iter().map(|&ticker| moved.get(ticker)).collect()
}

fn has(table: &Table, key: &str) -> bool {
    get(table, &LookupKey::new(key.as_bytes(), MAX_SEQUENCE)).unwrap().is_some()
}

#[test]
fn a_lookup_reads_filter_index_and_one_block_once_and_then_nothing() {
    let context = context(1 << 20);
    let table = table(&keys(1000), options(Compression::Lz4), &context);
    let open_table = context.cache.usage();
    assert!((2_000..5_000).contains(&open_table), "{open_table}");
    let reads = [FileReads, BlockCacheFilterAdd, BlockCacheIndexAdd, BlockCacheDataAdd];
    let first = counted(&context, &reads, || assert!(has(&table, "k000500")));
    assert_eq!(first, [3, 1, 1, 1]);
    let hits = [
        FileReads,
        BlockCacheFilterHit,
        BlockCacheIndexHit,
        BlockCacheDataHit,
        BlockCacheDataMiss,
        DataBlocksExamined,
    ];
    let second = counted(&context, &hits, || assert!(has(&table, "k000500")));
    assert_eq!(second, [0, 1, 1, 1, 0, 1]);
    let counts = table.block_file().file_counters.sums();
    // One read of the file's end at opening, then the three reads of the lookup.
    assert_eq!((counts.reads, counts.data_blocks_examined), (4, 2));
    let usage = context.cache.usage() - open_table;
    let inserted =
        [BlockCacheFilterBytesInsert, BlockCacheIndexBytesInsert, BlockCacheDataBytesInsert];
    let sums = context.counters.sums();
    let charged: u64 = inserted.iter().map(|&ticker| sums.get(ticker)).sum();
    assert_eq!(usage as u64, charged);
}

#[test]
fn a_tombstone_and_an_older_version_are_true_positives_and_an_invisible_one_is_not() {
    let context = context(1 << 20);
    let entries = vec![(internal_key(b"dead", 9, 0), vec![]), (internal_key(b"new", 9, 1), vec![])];
    let table = table(&entries, options(Compression::None), &context);
    let tickers = [BloomFullPositive, BloomFullTruePositive];
    for (key, sequence, moved) in [("dead", 9, [1, 1]), ("new", 50, [1, 1]), ("new", 8, [1, 0])] {
        let counts = counted(&context, &tickers, || {
            get(&table, &LookupKey::new(key.as_bytes(), sequence)).unwrap();
        });
        assert_eq!(counts, moved, "{key} {sequence}");
    }
}

#[test]
fn without_a_filter_no_filter_counter_moves() {
    let context = context(1 << 20);
    let options = TableOptions { filter: FilterSpec::NONE, ..options(Compression::None) };
    let table = table(&keys(100), options, &context);
    let tickers = [
        BloomUseful,
        BloomFullPositive,
        BloomFullTruePositive,
        BlockCacheFilterMiss,
        DataBlocksExamined,
    ];
    let moved = counted(&context, &tickers, || {
        assert!(has(&table, "k000050"));
        assert!(!has(&table, "k000051"));
    });
    assert_eq!(moved, [0, 0, 0, 0, 2]);
}

#[test]
fn evicted_parts_are_loaded_again_and_a_dropped_table_leaves_nothing() {
    let context = context(16_000);
    let (bytes, _) = in_parts(&keys(3000), options(Compression::None), 300);
    let (first, second) = (opened(&bytes, &context), opened(&bytes, &context));
    for round in 0..3 {
        for i in 0..300 {
            let key = format!("k{:06}", (i * 37 + round) % 3000 * 2);
            assert!(has(&first, &key) && has(&second, &key));
            assert!(context.cache.usage() <= 16_000);
        }
    }
    drop(first);
    drop(second);
    // An evicted index and its blocks are freed once all guards that are older than the eviction
    // are dropped. Tests that run at the same time may hold such guards for a short time.
    for _ in 0..1000 {
        if crate::sync::collect() == 0 || context.cache.usage() == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(context.cache.usage(), 0);
}

/// Where filters and indexes fill the cache, those that are whole stay, also beyond its capacity,
/// because each of them would be read again at nearly every lookup.
#[test]
fn whole_ones_that_fill_the_cache_stay_until_their_table_is_closed() {
    let context = context(4_000);
    let table = table(&keys(3000), options(Compression::None), &context);
    assert_eq!(table.pinned_whole_bytes(), 0, "nothing is loaded yet");
    assert!(has(&table, "k000000"));
    let tickers = [BlockCacheFilterMiss, BlockCacheIndexMiss];
    let moved = counted(&context, &tickers, || {
        (1..3000).for_each(|i| assert!(has(&table, &format!("k{:06}", 2 * i))));
    });
    assert_eq!(moved, [0, 0]);
    assert!(table.pinned_whole_bytes() > 4_000);
    assert_eq!(context.cache.pinned_usage(), table.pinned_whole_bytes());
    drop(table);
    assert_eq!(context.cache.pinned_usage(), 0);
}

/// The time that filters save was once computed from an assumed cost of a read. Now it is computed
/// from a measured cost: one in eight reads of blocks is timed. A lookup that finds everything in
/// the cache does not read the clock.
#[test]
fn reads_of_blocks_are_timed_at_misses_alone() {
    let context = context(1 << 20);
    let table = table(&keys(3000), options(Compression::None), &context);
    let tickers = [FileReads, FileReadsTimed, FileReadNanos];
    let blocks = table.properties().number("rocksdb.num.data.blocks").unwrap();
    let missed = counted(&context, &tickers, || {
        (0..3000).for_each(|i| assert!(has(&table, &format!("k{:06}", 2 * i))));
    });
    assert_eq!(missed[0], blocks + 2, "all data blocks, the filter and the index");
    assert!(missed[1].abs_diff(missed[0] / 8) <= 1 && missed[2] > 0, "{missed:?}");
    assert_eq!(counted(&context, &tickers, || assert!(has(&table, "k000000"))), [0; 3]);
}

/// A cached block has key heads: the first bytes of its keys, side by side. Key heads in an
/// allocation of their own cost a lookup one more memory access than key heads in the memory behind
/// their block. Blocks of 4 KiB with small entries once had such separate key heads. Now nearly all
/// key heads are behind their block.
#[test]
fn the_key_heads_of_nearly_all_blocks_lie_behind_them_and_take_little() {
    for value_bytes in [0, 20, 100, 1000] {
        for (compression, block_bytes) in
            [(Compression::None, 4096), (Compression::Lz4, 4096), (Compression::None, 100_000)]
        {
            let values = (0..10_000).map(|i| (i * 7919) % (2 * value_bytes + 1));
            let entries = keys(10_000).into_iter().zip(values);
            let entries: Entries = entries.map(|((key, _), len)| (key, vec![7; len])).collect();
            let options = TableOptions { block_bytes, ..options(compression) };
            let table = table(&entries, options, &context(64 << 20));
            let index = table.index_part(0).unwrap();
            let (mut behind, mut heads_bytes, mut data_bytes) = (0, 0, 0);
            for i in 0..index.index.len() {
                // The face shows no block, and nothing but the block knows where its heads are.
                let block = table.read_block(&index, i).unwrap();
                let (bytes, heads) = (block.bytes().as_ptr_range(), block.heads());
                let is_behind = heads.as_ptr() >= bytes.end
                    && heads.as_ptr() < bytes.start.wrapping_add(block.heap_bytes());
                behind += usize::from(is_behind);
                data_bytes += block.bytes().len();
                heads_bytes += block.heap_bytes() - block.bytes().len();
            }
            let blocks = index.index.len();
            let what = format!("{value_bytes} {compression:?} {block_bytes}: {behind} of {blocks}");
            assert!(behind * 10 >= blocks * 9, "{what}");
            // The smallest entries take 13 bytes, and their key heads up to 8 bytes for each entry.
            // In addition, each block wastes a few cache lines.
            assert!(heads_bytes < data_bytes * 8 / 10 + blocks * 300, "{what}: {heads_bytes}");
        }
    }
}

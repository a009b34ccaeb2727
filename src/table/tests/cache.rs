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
    let counts = table.file_counters().sums();
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
fn an_absent_key_reads_no_block_unless_the_filter_is_fooled_and_then_one() {
    let context = context(1 << 20);
    let table = table(&keys(2000), options(Compression::None), &context);
    assert!(has(&table, "k000500"));
    let (mut useful, mut fooled) = (0, 0);
    for i in 0..1999 {
        let tickers = [BloomUseful, BloomFullPositive, DataBlocksExamined, BloomFullTruePositive];
        let moved = counted(&context, &tickers, || {
            assert!(!has(&table, &format!("k{:06}", 2 * i + 1)));
        });
        assert!(moved == [1, 0, 0, 0] || moved == [0, 1, 1, 0], "{moved:?}");
        useful += moved[0];
        fooled += moved[1];
    }
    let file = table.file_counters().sums();
    assert_eq!(file.filter.useful, useful);
    assert_eq!(file.filter.full_positive, fooled + 1);
    assert_eq!(file.filter.full_true_positive, 1, "the present key looked up first");
    // 10 bits a key: about 1 %.
    assert!((2..60).contains(&fooled), "{fooled}");
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

#[test]
fn pinned_metadata_survives_any_number_of_data_blocks() {
    let context = TableContext { pin_metadata: true, ..context(80_000) };
    let table = table(&keys(3000), options(Compression::None), &context);
    assert!(has(&table, "k000000"));
    let tickers = [BlockCacheFilterMiss, BlockCacheIndexMiss];
    let moved = counted(&context, &tickers, || {
        for i in 0..3000 {
            assert!(has(&table, &format!("k{:06}", 2 * i)));
        }
    });
    assert_eq!(moved, [0, 0]);
    assert!(context.cache.pinned_usage() > 0);
}

/// The time that filters save was once computed from an assumed cost of a read. Now it is computed
/// from a measured cost: one in eight reads of blocks is timed. A lookup that finds everything in
/// the cache does not read the clock.
#[test]
fn reads_of_blocks_are_timed_at_misses_alone() {
    let context = context(1 << 20);
    let table = table(&keys(3000), options(Compression::None), &context);
    let tickers = [FileReads, FileReadsTimed, FileReadNanos];
    let index = table.index_part(0).unwrap();
    let blocks = index.index.len().min(40);
    let missed = counted(&context, &tickers, || {
        (0..blocks).for_each(|i| drop(table.read_block(&index, i).unwrap()));
    });
    assert_eq!(missed[0], blocks as u64);
    assert!(missed[1].abs_diff(missed[0] / 8) <= 1 && missed[2] > 0, "{missed:?}");
    assert!(has(&table, "k000000"));
    assert_eq!(counted(&context, &tickers, || assert!(has(&table, "k000000"))), [0; 3]);
}

#[test]
fn a_scan_past_the_cache_leaves_it_alone_and_reads_ahead() {
    use crate::cursor::Cursor;
    use crate::table::{ScanOptions, TableCursor};
    let context = context(1 << 20);
    let table = table(&keys(3000), options(Compression::None), &context);
    let reads_of = |scan: ScanOptions| {
        counted(&context, &[FileReads, BlockCacheDataAdd], || {
            let mut cursor = TableCursor::new(Arc::clone(&table), scan.clone());
            cursor.seek_to_first().unwrap();
            while cursor.valid() {
                cursor.next().unwrap();
            }
        })
    };
    let blocks = table.properties().number("rocksdb.num.data.blocks").unwrap();
    assert!(has(&table, "k000000"));
    // The first block is resident.
    assert_eq!(
        reads_of(ScanOptions { fill_cache: false, ..ScanOptions::default() }),
        [blocks - 1, 0]
    );
    let ahead = reads_of(ScanOptions {
        fill_cache: false,
        goes_on: true,
        read_ahead_bytes: 64 << 10,
        ..ScanOptions::default()
    });
    assert!(ahead[0] <= 2 + table.footer().metaindex.offset / (60 << 10), "{ahead:?}");
    assert_eq!(reads_of(ScanOptions::default()), [blocks - 1, blocks - 1]);
    assert_eq!(reads_of(ScanOptions::default()), [0, 0]);
}

#[test]
fn reads_ahead_grow_while_a_scan_goes_on_and_end_before_a_resident_block() {
    use crate::cursor::Cursor;
    use crate::table::{ScanOptions, TableCursor};
    let scan = ScanOptions { read_ahead_bytes: 64 << 10, ..ScanOptions::default() };
    let walk = |context: &TableContext, table: &Arc<Table>| {
        counted(context, &[FileReads, FileReadBytes, BlockCacheDataAdd], || {
            let mut cursor = TableCursor::new(Arc::clone(table), scan.clone());
            cursor.seek_to_first().unwrap();
            let mut entries = 0;
            while cursor.valid() {
                entries += 1;
                cursor.next().unwrap();
            }
            assert_eq!(entries, 3000);
        })
    };
    let context = context(1 << 20);
    let table = table(&keys(3000), options(Compression::None), &context);
    assert!(has(&table, "k003000"));
    let blocks = table.properties().number("rocksdb.num.data.blocks").unwrap();
    let data_bytes = table.properties().number("rocksdb.data.size").unwrap();
    let moved = walk(&context, &table);
    let (reads, bytes, added) = (moved[0], moved[1], moved[2]);
    assert_eq!(added, blocks - 1);
    // The scan reads one block alone, then 8, 16 and 32 KiB, and then 64 KiB at a time. One read
    // may be shorter, because no read ends with the block that is in memory.
    assert!(reads <= 6 + data_bytes / (60 << 10), "{reads} reads of {blocks} blocks");
    assert!(bytes < data_bytes, "{bytes} bytes read of {data_bytes}: no block twice");
    assert_eq!(walk(&context, &table), [0, 0, 0]);
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
            let values = (0..20_000).map(|i| (i * 7919) % (2 * value_bytes + 1));
            let entries = keys(20_000).into_iter().zip(values);
            let entries: Entries = entries.map(|((key, _), len)| (key, vec![7; len])).collect();
            let options = TableOptions { block_bytes, ..options(compression) };
            let table = table(&entries, options, &context(64 << 20));
            let index = table.index_part(0).unwrap();
            let (mut behind, mut heads_bytes, mut data_bytes) = (0, 0, 0);
            for i in 0..index.index.len() {
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

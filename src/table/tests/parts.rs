//! Tables whose filter and index are in parts: tables written here, and tables of RocksDB's.
//!
//! A part is one block, for the keys between two cuts, and a *top* lists all parts
//! ([`crate::table::parts`]). In a small cache a lookup *passes* a part of the filter *by*, that
//! is, searches the table without it, while a read of the part would probably not pay.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::layout::Listed;
use super::round_trip::file_of;
use super::*;
use crate::cache::BlockKind;
use crate::cursor::{Cursor, Fetch};
use crate::encoding::hash::hash64;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Error;
use crate::fs::{FaultFs, Operation, RealFs, Target, write_atomic};
use crate::stats::Ticker;
use crate::table::format::checksum::ChecksumKind;
use crate::table::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::table::{
    FilterKeys, PrefixExtractor, ScanOptions, SstReader, SstWriter, TableCursor, property_names,
};

/// The size of a part in these tests, in bytes. A filter part of this size has up to 240 keys.
const PART_BYTES: usize = 300;

/// The file of a table in parts, and how many of its bytes are read at opening.
pub(super) fn in_parts(
    entries: &Entries,
    options: TableOptions,
    part_bytes: usize,
) -> (Vec<u8>, u64) {
    let fs = MemFs::new();
    let path = Path::new("t.sst");
    let dialect = Dialect::Database { file_number: 7 };
    let builder = TableBuilder::new(fs.create(path).unwrap(), options, dialect).unwrap();
    let mut builder = builder.created_by(&creator()).with_parts_of(part_bytes);
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    let summary = builder.finish().unwrap();
    (fs.read(path).unwrap(), summary.tail_bytes)
}

/// The file of a table in parts, with the usual options.
fn bytes_in_parts(entries: &Entries, part_bytes: usize) -> Vec<u8> {
    let options = TableOptions { metadata: MetadataForm::Parts, ..TableOptions::default() };
    in_parts(entries, options, part_bytes).0
}

/// `key0000000`, `key0000001` and so on, with values of `value_bytes` bytes.
pub(super) fn numbered(count: u32, value_bytes: usize) -> Entries {
    let key = |i| internal_key(format!("key{i:07}").as_bytes(), 7, 1);
    (0..count).map(|i| (key(i), vec![i as u8; value_bytes])).collect()
}

pub(super) fn opened(bytes: &[u8], context: &TableContext) -> Arc<Table> {
    Table::open(file_of(bytes), context.clone()).unwrap()
}

/// The layout of the table in a file.
pub(super) fn layout_of(bytes: &[u8]) -> Layout {
    Layout::of(&opened(bytes, &context(0)))
}

fn fixture(name: &str, context: &TableContext) -> Arc<Table> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb");
    Table::open(RealFs.open(&fixtures.join(name)).unwrap(), context.clone()).unwrap()
}

pub(super) fn keys_of(table: &Arc<Table>) -> Vec<Vec<u8>> {
    let mut cursor = TableCursor::new(Arc::clone(table), ScanOptions::default());
    cursor.seek_to_first().unwrap();
    let mut keys = Vec::new();
    while cursor.valid() {
        keys.push(cursor.key().to_vec());
        cursor.next().unwrap();
    }
    keys
}

/// Absent keys, each next to a present one.
fn absent_of(entries: &Entries) -> Vec<Vec<u8>> {
    let absent = entries.iter().map(|(key, _)| [key::user_key(key), b"?"].concat());
    absent
        .filter(|user_key| entries.iter().all(|(key, _)| key::user_key(key) != user_key))
        .collect()
}

fn kinds() -> Vec<(&'static str, FilterKeys)> {
    let capped = PrefixExtractor::capped(9).unwrap();
    vec![
        ("none", FilterKeys::Whole),
        ("bloom(10)", FilterKeys::Whole),
        ("ribbon(7)", FilterKeys::Both(capped)),
        ("burr(7)", FilterKeys::Whole),
        ("bloom(12)", FilterKeys::Prefix(PrefixExtractor::fixed(10).unwrap())),
    ]
}

#[test]
fn a_table_in_parts_answers_as_its_entries_do() {
    let entries = mixed_entries(1500);
    let absent = absent_of(&entries);
    for (filter, filter_keys) in kinds() {
        for cache_bytes in [0, 40 << 10, 4 << 20] {
            let what = format!("{filter}, {filter_keys:?}, {cache_bytes} bytes of cache");
            let filter = filter.parse().unwrap();
            let options = TableOptions { filter, filter_keys, ..options(Compression::None) };
            let (bytes, tail_bytes) = in_parts(&entries, options, PART_BYTES);
            let context = context(cache_bytes);
            let table = opened(&bytes, &context);
            let layout = layout_of(&bytes);
            assert!(layout.index_parts.len() > 10, "{what}: {} parts", layout.index_parts.len());
            assert_eq!(layout.filter_parts.len() > 3, filter != FilterSpec::NONE, "{what}");
            assert_eq!(table.tail_bytes(), tail_bytes, "{what}");
            for (key, value) in &entries {
                let found = get(&table, &LookupKey::new(key::user_key(key), key::sequence(key)));
                let expected = (key::kind_byte(key), &value[..]);
                let found = found.unwrap().unwrap_or_else(|| panic!("{what}: {key:?}"));
                assert_eq!((found.0, &found.1[..]), expected, "{what}");
            }
            let passed_before = context.counters.sums().get(Ticker::BloomPassedBy);
            for user_key in &absent {
                assert!(get(&table, &LookupKey::new(user_key, MAX_SEQUENCE)).unwrap().is_none());
            }
            let check = table.verify().unwrap();
            assert_eq!((check.entries, check.filter_misses), (entries.len() as u64, 0), "{what}");
            if filter != FilterSpec::NONE && filter_keys == FilterKeys::Whole {
                let sums = context.counters.sums();
                // How many lookups pass a filter by depends on how soon evicted memory is free.
                let passed_by = sums.get(Ticker::BloomPassedBy) - passed_before;
                let (useful, asked) = (sums.get(Ticker::BloomUseful), absent.len() as u64);
                let asked = asked - passed_by;
                assert!(useful * 100 > asked * 95, "{what}: {useful} of {asked}");
            }
            assert_eq!(context.counters.sums().get(Ticker::BloomUntrusted), 0, "{what}");
        }
    }
}

#[test]
fn a_cursor_walks_over_the_ends_of_parts_both_ways() {
    let entries = mixed_entries(700);
    let (bytes, _) = in_parts(&entries, options(Compression::None), PART_BYTES);
    for (cache_bytes, fill_cache) in [(0, true), (4 << 20, true), (4 << 20, false)] {
        let table = opened(&bytes, &context(cache_bytes));
        let options = ScanOptions { fill_cache, read_ahead_bytes: 16 << 10, ..Default::default() };
        let mut cursor = TableCursor::new(Arc::clone(&table), options.clone());
        cursor.seek_to_first().unwrap();
        for (key, value) in &entries {
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            if cursor.step().is_none() {
                cursor.next().unwrap();
            }
        }
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for (key, _) in entries.iter().rev() {
            assert_eq!(cursor.key(), key);
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        // Seeks to the entries in a scattered order, by one cursor directly and by another after
        // `fetch_for_seek`. After each seek the cursors make a step.
        let mut prepared = TableCursor::new(table, options);
        for i in (0..entries.len()).map(|i| i * 7919 % entries.len()) {
            cursor.seek(&entries[i].0).unwrap();
            for fetch in [Fetch::Block, Fetch::Entries] {
                prepared.fetch_for_seek(&entries[i].0, fetch);
            }
            prepared.seek(&entries[i].0).unwrap();
            assert_eq!((cursor.key(), prepared.key()), (&entries[i].0[..], &entries[i].0[..]));
            cursor.prev().unwrap();
            assert_eq!(cursor.valid(), i > 0);
            prepared.next().unwrap();
            assert_eq!(prepared.valid(), i + 1 < entries.len());
            cursor.seek_before(&entries[i].0).unwrap();
            assert_eq!(
                cursor.valid().then(|| cursor.key()),
                i.checked_sub(1).map(|i| &entries[i].0[..])
            );
        }
        cursor.seek(&key::seek_key(&[0xff; 40], 1)).unwrap();
        assert!(!cursor.valid());
    }
}

/// A lookup that finds nothing in memory makes at most two reads: one for a part of the filter and
/// a part of the index, and one for a data block. Opening a table is one read.
#[test]
fn a_lookup_reads_one_part_of_each() {
    let entries = numbered(20_000, 20);
    for filter in ["bloom(10)", "ribbon(7)", "burr(7)"] {
        let options = TableOptions {
            filter: filter.parse().unwrap(),
            metadata: MetadataForm::Parts,
            ..TableOptions::default()
        };
        let (bytes, tail_bytes) = in_parts(&entries, options, 4096);
        let context = TableContext { tail_bytes, ..context(0) };
        let reads = || {
            let sums = context.counters.sums();
            (sums.get(Ticker::FileReads), sums.get(Ticker::FileReadBytes))
        };
        let table = opened(&bytes, &context);
        assert_eq!(reads(), (1, tail_bytes), "{filter}");
        let layout = layout_of(&bytes);
        assert!(layout.filter_parts.len() >= 4 && layout.index_parts.len() >= 4, "{filter}");
        let before = reads();
        assert!(get(&table, &LookupKey::new(b"key0010000?", MAX_SEQUENCE)).unwrap().is_none());
        assert_eq!(reads().0 - before.0, 1, "{filter}: only the filter is queried");
        let before = reads();
        let lookup = LookupKey::new(b"key0010000", MAX_SEQUENCE);
        assert!(get(&table, &lookup).unwrap().is_some());
        let (count, read_bytes) = (reads().0 - before.0, reads().1 - before.1);
        assert_eq!(count, 2, "{filter}");
        assert!(read_bytes < 3 * 5000, "{filter}: {read_bytes} bytes");
    }
}

/// If the cache keeps no filters, each lookup of a present key once read a part of the filter in
/// vain, and then a part of the index by another read. Now one read gets both parts. After eight
/// lookups to which a part of the filter was of no use, the next lookup passes the part by.
#[test]
fn one_read_brings_the_filter_and_the_index_of_a_key() {
    let entries = numbered(20_000, 20);
    let bytes = bytes_in_parts(&entries, 4096);
    // A cache that keeps nothing.
    let context = context(0);
    let table = opened(&bytes, &context);
    let read = |key: &str| {
        let before = context.counters.sums();
        let found = get(&table, &LookupKey::new(key.as_bytes(), MAX_SEQUENCE)).unwrap();
        assert_eq!(found.is_none(), key.ends_with('?'), "{key}");
        let after = context.counters.sums();
        let moved = |ticker| after.get(ticker) - before.get(ticker);
        (moved(Ticker::FileReads), moved(Ticker::BloomPassedBy))
    };
    assert_eq!(read("key0010000?"), (1, 0));
    for _ in 0..8 {
        assert_eq!(read("key0010000"), (2, 0), "the filter and the index, and a block");
    }
    assert_eq!(read("key0010000"), (2, 1), "the index and a block");
    assert_eq!(read("key0010000?"), (2, 1), "in vain");
    assert_eq!(read("key0010000?"), (1, 0), "the filter would have spared a read");
    for _ in 0..20 {
        assert_eq!(read("key0010000"), (2, 0));
        assert_eq!(read("key0010000?"), (1, 0), "half of each: the filter costs no read");
    }
    // Each part has a credit of its own, so the lookups above have no effect on the parts of other
    // keys.
    assert_eq!(read("key0000100"), (2, 0));
}

/// The part of the index that is read together with a part of the filter is checked only if it is
/// used.
#[test]
fn damage_in_one_of_two_that_are_read_together_hides_no_key() {
    let entries = numbered(20_000, 20);
    let bytes = bytes_in_parts(&entries, 4096);
    let layout = layout_of(&bytes);
    let present = LookupKey::new(b"key0010000", MAX_SEQUENCE);
    let absent = LookupKey::new(b"key0010000?", MAX_SEQUENCE);
    let part = layout.index_part_of(present.user_key, present.trailer());
    let index = layout.index_parts[part].handle;
    let filter = layout.filter_parts[layout.filter_part_of(present.user_key)].handle;
    let next_to = filter.offset + filter.bytes + BLOCK_TRAILER_BYTES as u64;
    assert_eq!(next_to, index.offset, "the filter is in front of its index");
    let with_flip = |handle: BlockHandle| {
        let mut bytes = bytes.clone();
        bytes[handle.offset as usize + 10] ^= 1;
        opened(&bytes, &context(0))
    };
    let table = with_flip(filter);
    assert!(get(&table, &present).unwrap().is_some());
    assert!(get(&table, &absent).unwrap().is_none());
    let table = with_flip(index);
    assert!(get(&table, &absent).unwrap().is_none(), "the filter alone has answered");
    let error = get(&table, &present).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Corruption { offset, .. } if offset >= index.offset), "{error}");
}

/// Evicts the part of the filter for a key. Only here does a test name what a table keeps private:
/// no call of the face evicts one block, and in a cache with room nothing else does.
fn evict_filter_part(table: &Table, key: &LookupKey<'_>) {
    table.filter.parts.evict(table.filter.locate(key));
}

/// Lets other threads continue, so that they drop their guards and evicted values can be freed.
/// Does nothing at the first tries.
fn wait_for_others(tries: u32) {
    if tries >= 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// If filters and indexes fill the cache, it has little room for data blocks. Yet the slots of data
/// blocks once took a third of each index part, and each block that was read displaced a part. Now
/// the cache keeps only blocks that are used often, and they are in a list, which takes no memory
/// for blocks that are not kept.
#[test]
fn where_metadata_fills_the_cache_a_block_that_is_used_often_is_kept() {
    let entries = numbered(60_000, 100);
    let bytes = bytes_in_parts(&entries, 4096);
    let cache_bytes = 100 << 10;
    let small = context(cache_bytes);
    let table = opened(&bytes, &small);
    assert!(small.cache.policy().metadata_fills());
    let get_one = |i: u32| {
        let key = format!("key{i:07}");
        assert!(get(&table, &LookupKey::new(key.as_bytes(), MAX_SEQUENCE)).unwrap().is_some());
    };
    (0..200).for_each(|i| get_one(i * 277));
    // The cache keeps a block if its doorkeeper (`cache/policy.rs`) remembers an earlier use.
    // The doorkeeper mistakes some blocks for others, so the cache keeps a few of these blocks,
    // although each was used once.
    let kept = small.counters.sums().get(Ticker::BlockCacheDataAdd);
    assert!(kept < 30, "{kept} of 200 blocks");
    let reads = || small.counters.sums().get(Ticker::FileReads);
    // The block may need a few more uses before the cache keeps it. The cache has no room for it
    // until evicted blocks are freed, which must wait until other threads drop their guards.
    let is_in_memory = |tries| {
        wait_for_others(tries);
        let before = reads();
        get_one(30_000);
        reads() == before
    };
    assert!((0..3000).any(is_in_memory));
    assert!(small.cache.usage() <= cache_bytes);
    // A cache with room for all metadata keeps each block at once.
    let large = context(16 << 20);
    let table = opened(&bytes, &large);
    assert!(get(&table, &LookupKey::new(b"key0000000", MAX_SEQUENCE)).unwrap().is_some());
    assert_eq!(large.cache.usage_of(BlockKind::Data).entries, 1);
}

/// The rule of credit applies only where filters and indexes fill the cache. In a larger cache, a part
/// is read once and then stays, so each read pays.
#[test]
fn a_part_of_a_filter_is_never_passed_by_where_the_cache_has_room() {
    let large = context(16 << 20);
    let table = opened(&bytes_in_parts(&numbered(20_000, 20), 4096), &large);
    let present = LookupKey::new(b"key0010000", MAX_SEQUENCE);
    for _ in 0..20 {
        assert!(get(&table, &present).unwrap().is_some());
        evict_filter_part(&table, &present);
    }
    assert_eq!(large.counters.sums().get(Ticker::BloomPassedBy), 0);
}

/// Lookups of an absent key whose index and data block were in memory once raised the credit of the
/// filter, and counted as reads that filters would have saved. So where some keys were in memory
/// because they are hot, filters displaced indexes from time to time, and lookups made more reads
/// than without filters.
#[test]
fn a_search_in_vain_in_memory_earns_the_filter_no_credit() {
    let entries = numbered(60_000, 100);
    let bytes = bytes_in_parts(&entries, 4096);
    let small = context(100 << 10);
    let table = opened(&bytes, &small);
    let reads = || small.counters.sums().get(Ticker::FileReads);
    let absent = LookupKey::new(b"key0030000?", MAX_SEQUENCE);
    // Makes lookups until one reads nothing.
    let look_up_in_memory = |user_key: &[u8]| {
        (0..3000).find_map(|tries| {
            wait_for_others(tries);
            let before = reads();
            let found = get(&table, &LookupKey::new(user_key, MAX_SEQUENCE)).unwrap();
            assert_eq!(found.is_none(), user_key == absent.user_key);
            (reads() == before).then_some(())
        })
    };
    let passed_by = || small.counters.sums().get(Ticker::BloomPassedBy);
    // If the first search in vain earned a credit, the second one would read the filter, or find it
    // in memory. So not both would pass the filter by.
    let pass_twice = |_| {
        // Lookups of the present key read the filter, which says maybe, and take its credit.
        evict_filter_part(&table, &absent);
        look_up_in_memory(b"key0030000").expect("the cache keeps the block");
        evict_filter_part(&table, &absent);
        let before = passed_by();
        look_up_in_memory(absent.user_key).expect("the block is still kept");
        look_up_in_memory(absent.user_key).expect("the block is still kept");
        passed_by() - before == 2
    };
    assert!((0..100).any(pass_twice));
}

/// How many bytes a lookup reads in a table with this layout: for the filter part of a key, for the
/// index part, for both by one read, and for the data block to which the index leads.
fn bytes_of_reads(layout: &Layout, lookup: &LookupKey<'_>) -> [u64; 4] {
    let stored = |handle: BlockHandle| handle.bytes + BLOCK_TRAILER_BYTES as u64;
    let filter = layout.filter_parts[layout.filter_part_of(lookup.user_key)].handle;
    let index = layout.index_parts[layout.index_part_of(lookup.user_key, lookup.trailer())].handle;
    let block = layout.data[layout.data_block_of(lookup.user_key, lookup.trailer())].handle;
    let end = index.end().max(filter.end()).unwrap();
    let both = end - index.offset.min(filter.offset);
    [stored(filter), stored(index), both, stored(block)]
}

/// Tables of RocksDB's with filter and index in parts are read part by part, even if filter and
/// index are cut at different keys.
#[test]
fn rocksdbs_parts_are_read_one_by_one() {
    for (name, decoupled) in [
        ("r7-v5-partitioned-zstd.sst", false),
        ("r11-v5-parts-bloom.sst", true),
        ("r11-v5-parts-ribbon.sst", true),
    ] {
        let context = context(0);
        let table = fixture(name, &context);
        let reads = || {
            let sums = context.counters.sums();
            [Ticker::FileReads, Ticker::FileReadBytes, Ticker::BloomPassedBy]
                .map(|ticker| sums.get(ticker))
        };
        // Reads of another table do not count.
        let layout = Layout::of(&fixture(name, &super::context(0)));
        assert_eq!(decoupled, layout.filter_parts.len() != layout.index_parts.len(), "{name}");
        let mut ways = [0; 2];
        for key in keys_of(&table) {
            let before = reads();
            let lookup = LookupKey::new(key::user_key(&key), key::sequence(&key));
            assert!(get(&table, &lookup).unwrap().is_some(), "{name}: {key:?}");
            let moved: Vec<u64> =
                reads().iter().zip(before).map(|(now, then)| now - then).collect();
            let [filter, index, both, block] = bytes_of_reads(&layout, &lookup);
            // One read gets the filter and the index if they are near each other. The lookup passes
            // the filter by if the filter was of no use to earlier lookups.
            let expected = match moved[2] {
                1 => [2, index + block],
                _ if both <= 16 << 10 => [2, both + block],
                _ => [3, filter + index + block],
            };
            assert_eq!(moved[..2], expected, "{name}: {key:?}");
            ways[moved[2] as usize] += 1;
        }
        assert!(ways[0] > 0 && ways[1] > 0, "{name}: {ways:?}");
        assert_eq!(table.verify().unwrap().filter_misses, 0, "{name}");
        assert_eq!(context.counters.sums().get(Ticker::BloomUntrusted), 0, "{name}");
    }
}

/// With large values, a part of the index is full of bytes before it has as many keys as half a
/// filter part. So the filter has fewer parts, and its top has separators of its own.
#[test]
fn fewer_filter_parts_than_index_parts_answer_as_well() {
    let entries = numbered(8_000, 1000);
    let extractor = PrefixExtractor::fixed(9).unwrap();
    let filter_keys = FilterKeys::Both(extractor);
    let options = TableOptions { filter_keys, ..TableOptions::default() };
    let (bytes, tail_bytes) = in_parts(&entries, options, 4096);
    let table = opened(&bytes, &context(32 << 20));
    let layout = layout_of(&bytes);
    let (filter_parts, index_parts) = (layout.filter_parts.len(), layout.index_parts.len());
    assert!(filter_parts > 2 && index_parts > 2 * filter_parts, "{filter_parts}, {index_parts}");
    for (key, value) in &entries {
        let found = get(&table, &LookupKey::new(key::user_key(key), MAX_SEQUENCE)).unwrap();
        assert_eq!(found.unwrap().1, *value, "{key:?}");
    }
    assert_eq!(table.verify().unwrap().filter_misses, 0);
    let keys: Vec<_> = entries.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys_of(&table), keys);
    let mut cursor = TableCursor::new(Arc::clone(&table), ScanOptions::default());
    cursor.seek_to_last().unwrap();
    for key in keys.iter().rev() {
        assert_eq!(cursor.key(), key);
        cursor.prev().unwrap();
    }
    for key in keys.iter().step_by(37) {
        cursor.seek(key).unwrap();
        assert_eq!(cursor.key(), key);
    }
    // Each prefix of nine bytes has ten keys.
    let mut denied = 0;
    for i in 0..entries.len() / 10 {
        let [lower, upper] = [i, i + 1].map(|i| format!("key{i:06}").into_bytes());
        assert!(table.range_may_match(&lower, Some(&upper)), "{i}");
        let [lower, upper] = ["x", "y"].map(|end| format!("key{:05}{end}", i / 10).into_bytes());
        denied += usize::from(!table.range_may_match(&lower, Some(&upper)));
    }
    assert!(denied > entries.len() / 10 * 95 / 100, "{denied}");
    // Where the cache keeps nothing, a lookup reads one part of the filter and one of the index. An
    // absent key reads no block.
    for (key, _) in entries.iter().step_by(61) {
        for is_absent in [false, true] {
            let context = TableContext { tail_bytes, ..context(0) };
            let table = opened(&bytes, &context);
            let before = context.counters.sums();
            let end = if is_absent { &b"?"[..] } else { b"" };
            let user_key = [key::user_key(key), end].concat();
            let lookup = LookupKey::new(&user_key, MAX_SEQUENCE);
            assert_eq!(get(&table, &lookup).unwrap().is_none(), is_absent);
            let moved = &context.counters.sums() - &before;
            let read = |ticker| moved.get(ticker);
            let misses = [Ticker::BlockCacheFilterMiss, Ticker::BlockCacheIndexMiss];
            let is_fooled = read(Ticker::BloomFullPositive) > 0;
            assert_eq!(misses.map(read), [1, u64::from(is_fooled)], "{user_key:?}");
            let [_, _, both, block] = bytes_of_reads(&layout, &lookup);
            let expected = if is_fooled { [2, both + block] } else { [1, both] };
            assert_eq!([Ticker::FileReads, Ticker::FileReadBytes].map(read), expected);
        }
    }
}

/// A cursor counts the read of each index part, and all reads of data. Its reads of data end where
/// a part ends, so it makes few reads for each part.
#[test]
fn a_cursor_over_index_parts_counts_what_it_reads() {
    let bytes = bytes_in_parts(&numbered(20_000, 20), 4096);
    let mem = Arc::new(MemFs::new());
    write_atomic(&*mem, Path::new("t.sst"), &bytes).unwrap();
    let parts = layout_of(&bytes).index_parts;
    for (fill_cache, backward) in [(false, false), (false, true), (true, false), (true, true)] {
        let (fs, context) = (FaultFs::new(mem.clone()), context(0));
        let table = open(&fs, "t.sst", &context).unwrap();
        let calls = || fs.calls(Target::Only(Operation::ReadExactAt));
        let (before, calls_before) = (context.counters.sums(), calls());
        let scan = ScanOptions::for_runs(1, fill_cache, (None, None));
        let mut cursor = TableCursor::new(Arc::clone(&table), scan);
        match backward {
            false => cursor.seek_to_first().unwrap(),
            true => cursor.seek_to_last().unwrap(),
        }
        let mut seen = 0;
        while cursor.valid() {
            seen += 1;
            if backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        assert_eq!(seen, 20_000);
        let moved = &context.counters.sums() - &before;
        let (reads, read_bytes) = (moved.get(Ticker::FileReads), moved.get(Ticker::FileReadBytes));
        let what = format!("fills the cache: {fill_cache}, backward: {backward}: {reads} reads");
        assert_eq!(reads, calls() - calls_before, "{what}");
        let stored = |part: &Listed| part.handle.bytes + BLOCK_TRAILER_BYTES as u64;
        let index_bytes: u64 = parts.iter().map(stored).sum();
        let parts = parts.len() as u64;
        assert!(parts > 4);
        assert_eq!(moved.get(Ticker::BlockCacheIndexMiss), parts, "{what}");
        let data_bytes = table.properties().number("rocksdb.data.size").unwrap();
        // Padding between the blocks of two reads is not read.
        let all_bytes = index_bytes + data_bytes;
        assert!(
            (all_bytes - 256 * reads..=all_bytes).contains(&read_bytes),
            "{what}: {read_bytes}"
        );
        // A scan that continues to its end reads its first block, and then the data of each part at
        // once. A scan that may end soon begins with smaller reads.
        let most = if fill_cache { 3 * parts } else { 2 * parts + 1 };
        assert!(reads <= most, "{what} of {parts} parts");
    }
}

/// [`SstWriter`] does not know the cache that will serve its table. So it writes parts only if its
/// options say so, however many keys the table has.
#[test]
fn a_writer_without_a_database_writes_whole_filters_and_indexes_by_default() {
    let directory = tempfile::tempdir().unwrap();
    for (metadata, in_parts) in [
        (MetadataForm::default(), false),
        (MetadataForm::Whole, false),
        (MetadataForm::Parts, true),
    ] {
        let path = directory.path().join(format!("{metadata:?}.sst"));
        let options = TableOptions { metadata, ..TableOptions::default() };
        let mut writer = SstWriter::create(&path, options).unwrap();
        for i in 0..20_000 {
            writer.put(format!("key{i:07}").as_bytes(), b"value").unwrap();
        }
        writer.finish().unwrap();
        let reader = SstReader::open(&path).unwrap();
        assert_eq!(reader.filters().unwrap().len() > 1, in_parts, "{metadata:?}");
        let starts =
            |start: &str| reader.metaindex().iter().any(|(name, _)| name.starts_with(start));
        assert_eq!([starts("fullfilter."), starts("partitionedfilter.")], [!in_parts, in_parts]);
    }
}

/// If versions of one key fill several blocks, one part of the index leads to all of these blocks.
#[test]
fn no_part_ends_between_versions_of_a_key() {
    let mut entries = Entries::new();
    for i in 0..30u64 {
        for version in 0..1 + i * 7 % 40 {
            let user_key = format!("key{i:03}");
            entries.push((internal_key(user_key.as_bytes(), 1 + version, 1), vec![7; 300]));
        }
    }
    let entries = sorted(entries);
    let (bytes, _) = in_parts(&entries, options(Compression::None), 60);
    for cache_bytes in [0, 4 << 20] {
        let table = opened(&bytes, &context(cache_bytes));
        assert!(layout_of(&bytes).index_parts.len() > 5);
        let user_keys = table.properties().number(property_names::INDEX_KEY_IS_USER_KEY);
        assert_eq!(user_keys, Some(0));
        for (key, value) in &entries {
            let (user_key, sequence) = (key::user_key(key), key::sequence(key));
            let found = get(&table, &LookupKey::new(user_key, sequence)).unwrap();
            assert_eq!(found.map(|found| found.1.to_vec()).as_ref(), Some(value));
            assert!(get(&table, &LookupKey::new(user_key, 0)).unwrap().is_none());
        }
        assert_eq!(keys_of(&table), entries.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    }
}

/// If a filter family cannot build one of the parts, another family builds all of them, because all
/// parts share one name in the metaindex.
#[test]
fn all_parts_of_a_filter_have_one_encoding() {
    let entries = mixed_entries(1500);
    let burr = TableOptions { filter: "burr(7)".parse().unwrap(), ..options(Compression::None) };
    // Parts of 80 keys are too small for `burr`, the bumped ribbon. Parts of 480 keys are not.
    for (part_bytes, encoding) in
        [(100, "rocksdb.BuiltinBloomFilter"), (600, "maypole.BumpedRibbon")]
    {
        let (bytes, _) = in_parts(&entries, burr.clone(), part_bytes);
        let layout = layout_of(&bytes);
        assert_eq!(layout.filter_format(), Some(encoding), "{part_bytes}");
        assert!(layout.filter_parts.len() > 1);
        assert_eq!(opened(&bytes, &context(0)).verify().unwrap().filter_misses, 0);
    }
}

#[test]
fn a_prefix_beside_a_cut_is_found_from_both_sides() {
    let entries: Entries = (0..3000u32)
        .map(|i| (internal_key(format!("{:04}/{:02}", i / 7, i % 7).as_bytes(), 7, 1), vec![1; 10]))
        .collect();
    let extractor = PrefixExtractor::fixed(4).unwrap();
    for filter_keys in [FilterKeys::Both(extractor), FilterKeys::Prefix(extractor)] {
        let options = TableOptions { filter_keys, ..options(Compression::None) };
        let (bytes, _) = in_parts(&entries, options, 120);
        let table = opened(&bytes, &context(1 << 20));
        assert!(layout_of(&bytes).filter_parts.len() > 5);
        let mut denied = 0;
        for i in 0..3000 / 7 {
            let (prefix, next) = (format!("{i:04}"), format!("{:04}", i + 1));
            let lower = format!("{prefix}/03");
            assert!(table.range_may_match(prefix.as_bytes(), Some(next.as_bytes())), "{prefix}");
            assert!(table.range_may_match(lower.as_bytes(), Some(next.as_bytes())), "{prefix}");
            let absent = [format!("{}x", &prefix[..3]), format!("{}y", &prefix[..3])];
            denied +=
                u32::from(!table.range_may_match(absent[0].as_bytes(), Some(absent[1].as_bytes())));
        }
        assert!(denied > 400, "{denied}");
        assert_eq!(table.verify().unwrap().filter_misses, 0);
    }
}

/// RocksDB finds a filter part by one key, but may then query this part for the prefix of the key
/// before or after it, which may be in the neighbouring part. So each part also holds the prefixes
/// next to its ends.
#[test]
fn the_prefixes_beside_a_cut_are_in_both_parts() {
    let entries: Entries = (0..6000u32)
        .map(|i| (internal_key(format!("{i:05}/{:02}", i % 7).as_bytes(), 7, 1), vec![1; 10]))
        .collect();
    let extractor = PrefixExtractor::fixed(5).unwrap();
    for filter_keys in [FilterKeys::Both(extractor), FilterKeys::Prefix(extractor)] {
        let filter = "bloom(20)".parse().unwrap();
        let options = TableOptions { filter_keys, filter, ..options(Compression::None) };
        let (bytes, _) = in_parts(&entries, options, 120);
        let layout = layout_of(&bytes);
        assert!(layout.filter_parts.len() > 20);
        let filters = SstReader::of_open(opened(&bytes, &context(1 << 20))).filters().unwrap();
        let part_of = |i: usize| layout.filter_part_of(key::user_key(&entries[i].0));
        let holds = |part: usize, i: usize| {
            filters[part].may_contain(hash64(&key::user_key(&entries[i].0)[..5]))
        };
        for next in 1..entries.len() {
            let (before, behind) = (part_of(next - 1), part_of(next));
            if before != behind {
                assert!(holds(before, next) && holds(behind, next - 1), "at {next}");
            }
        }
    }
}

/// Damage in one part affects only lookups of keys in its range. With a damaged top of the filter,
/// all lookups find their keys without the filter. With a damaged top of the index, all lookups
/// fail.
#[test]
fn a_damaged_part_is_felt_in_its_range_only() {
    let entries = mixed_entries(1500);
    let (bytes, _) = in_parts(&entries, options(Compression::None), PART_BYTES);
    let sound = layout_of(&bytes);
    let flipped = |handle: BlockHandle| {
        let mut bad = bytes.clone();
        bad[handle.offset as usize + 3] ^= 0x10;
        bad
    };
    let lookups = |table: &Table| {
        let (mut found, mut failed) = (0, 0);
        for (key, _) in &entries {
            match get(table, &LookupKey::new(key::user_key(key), key::sequence(key))) {
                Ok(Some(_)) => found += 1,
                Ok(None) => panic!("a key was lost: {key:?}"),
                Err(Error::Corruption { .. }) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
        (found, failed)
    };
    let all = entries.len();
    for part in [0, 2, sound.filter_parts.len() - 1] {
        let context = context(1 << 20);
        let table = opened(&flipped(sound.filter_parts[part].handle), &context);
        let in_part = entries.iter().filter(|(key, _)| {
            let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
            sound.filter_part_of(lookup.user_key) == part
        });
        let in_part = in_part.count();
        assert!(in_part > 0 && in_part < all / 2);
        assert_eq!(lookups(&table), (all, 0));
        let sums = context.counters.sums();
        assert_eq!(sums.get(Ticker::BloomUntrusted), in_part as u64, "part {part}");
        assert!(matches!(table.verify(), Err(Error::Corruption { .. })));
    }
    for part in [0, 2, sound.index_parts.len() - 1] {
        let table = opened(&flipped(sound.index_parts[part].handle), &context(1 << 20));
        let (found, failed) = lookups(&table);
        assert!(failed > 0 && failed < all / 2 && found + failed == all, "part {part}: {failed}");
    }
    let context = context(1 << 20);
    let table = opened(&flipped(sound.filter()), &context);
    assert_eq!(lookups(&table), (all, 0));
    assert_eq!(context.counters.sums().get(Ticker::BloomUntrusted), all as u64);
    let table = opened(&flipped(sound.index), &context);
    assert_eq!(lookups(&table), (0, all));
}

/// Tops and parts of an index with changed bytes and right checksums. A top may lead to parts that
/// do not exist, to other parts, to itself or to nothing. A lookup may find nothing, but it returns
/// no wrong value, and nothing panics.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn tops_and_parts_that_lie_are_damage() {
    let entries = mixed_entries(900);
    let (bytes, _) = in_parts(&entries, options(Compression::None), PART_BYTES);
    let sound = layout_of(&bytes);
    let mut blocks = vec![sound.index, sound.filter()];
    blocks.extend([0, 1, 4].map(|part| sound.index_parts[part].handle));
    let (mut refused, mut untrusted) = (0, 0);
    for handle in blocks {
        for at in 0..handle.bytes as usize {
            for change in [0x01, 0x80, 0xff] {
                let bad = forged(&bytes, handle, |block| block[at] ^= change);
                let context = context(64 << 10);
                let Ok(table) = Table::open(file_of(&bad), context.clone()) else { continue };
                for (key, value) in entries.iter().step_by(97) {
                    let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
                    match get(&table, &lookup) {
                        Ok(Some(found)) => assert_eq!(found.1, *value),
                        Ok(None) => {}
                        Err(_) => refused += 1,
                    }
                }
                untrusted += context.counters.sums().get(Ticker::BloomUntrusted);
                let _ = table.verify();
                let mut cursor = TableCursor::new(table, ScanOptions::default());
                if cursor.seek_to_last().is_ok() && cursor.valid() {
                    let _ = cursor.prev();
                }
            }
        }
    }
    assert!(refused > 100 && untrusted > 100, "{refused} refused, {untrusted} untrusted");
}

/// The file after `change` has changed the block at `handle`, with a right checksum of this block.
pub(super) fn forged(bytes: &[u8], handle: BlockHandle, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bad = bytes.to_vec();
    let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
    change(&mut bad[start..end]);
    let sum = ChecksumKind::Xxh3.of(&bad[start..=end]);
    bad[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    bad
}

/// The first separator of an index part must not belong to the part before, because then the keys
/// of the first block would not be found. The last separator must be the part's separator in the
/// top, because otherwise keys at the end of the part would not be found.
#[test]
fn a_part_begins_and_ends_where_the_top_says() {
    let entries: Entries = (0..3000u32)
        .map(|i| (internal_key(format!("key{i:05}").as_bytes(), 7, 1), vec![i as u8; 40]))
        .collect();
    let (bytes, _) = in_parts(&entries, options(Compression::None), PART_BYTES);
    let sound = layout_of(&bytes);
    let data = |user_key: &[u8]| sound.data_block_of(user_key, u64::MAX);
    for part in [1, 3, sound.index_parts.len() - 1] {
        let handle = sound.index_parts[part].handle;
        // The first block of the part is behind the last block of the part before.
        let first = data(&sound.index_parts[part - 1].user_key) + 1;
        let first = sound.data[first].user_key.clone();
        let last = sound.index_parts[part].user_key.clone();
        let lowered = |separator: Vec<u8>, by_its: fn(&[u8]) -> usize| {
            forged(&bytes, handle, |block| {
                let mut places = block.windows(separator.len());
                let start = places.rposition(|found| found == separator).unwrap();
                let at = start + by_its(&separator);
                block[at] = if block[at] == b'k' { b'j' } else { block[at] - 1 };
            })
        };
        for bad in [lowered(first, |_| 0), lowered(last, |separator| separator.len() - 1)] {
            let table = opened(&bad, &context(1 << 20));
            for (key, _) in &entries {
                let lookup = LookupKey::new(key::user_key(key), MAX_SEQUENCE);
                let in_part = sound.index_part_of(key::user_key(key), key::trailer(key)) == part;
                assert_eq!(get(&table, &lookup).is_err(), in_part, "{key:?}");
            }
            assert!(table.verify().is_err());
        }
    }
}

/// If a part of the index was overwritten by another part of the same length, the separators show
/// this, and lookups of keys that belong to the overwritten part fail.
#[test]
fn an_index_part_in_the_place_of_another_is_damage() {
    let entries: Entries = (0..3000u32)
        .map(|i| (internal_key(format!("key{i:05}").as_bytes(), 7, 1), vec![i as u8; 40]))
        .collect();
    let (bytes, _) = in_parts(&entries, options(Compression::None), PART_BYTES);
    let sound = layout_of(&bytes);
    let handle = |part: usize| sound.index_parts[part].handle;
    let mut tried = 0;
    for (i, j) in (0..10).flat_map(|i| (0..10).map(move |j| (i, j))) {
        if i == j || handle(i).bytes != handle(j).bytes {
            continue;
        }
        let mut bad = bytes.clone();
        let from = handle(j).offset as usize..handle(j).end().unwrap() as usize;
        bad.copy_within(from, handle(i).offset as usize);
        let table = opened(&bad, &context(1 << 20));
        for (key, _) in &entries {
            let lookup = LookupKey::new(key::user_key(key), MAX_SEQUENCE);
            let in_part = sound.index_part_of(key::user_key(key), key::trailer(key)) == i;
            assert_eq!(get(&table, &lookup).is_err(), in_part);
        }
        tried += 1;
    }
    assert!(tried > 5, "{tried} pairs of one length");
}

#[test]
fn another_filter_is_cut_where_the_index_is() {
    let entries = mixed_entries(1500);
    let tables = kinds().into_iter().map(|(filter, filter_keys)| {
        let filter: FilterSpec = filter.parse().unwrap();
        let options = TableOptions { filter, filter_keys, ..options(Compression::None) };
        (filter, filter_keys, in_parts(&entries, options, 4096).0)
    });
    let tables: Vec<_> = tables.collect();
    for (_, _, bytes) in &tables {
        let table = opened(bytes, &context(1 << 20));
        for (filter, filter_keys, expected) in &tables {
            let found = refiltered(&table, *filter, *filter_keys).unwrap();
            assert!(found == *expected, "to {filter}, {filter_keys:?}");
        }
    }
}

#[test]
fn small_tables_have_no_parts_and_a_filter_may_be_whole_beside_an_index_in_parts() {
    let (bytes, _) = in_parts(&mixed_entries(20), options(Compression::None), 4096);
    let layout = layout_of(&bytes);
    assert_eq!((layout.index_parts.len(), layout.filter_parts.len()), (1, 1));
    assert_eq!(layout.filter(), layout.filter_parts[0].handle, "not even a top");
    let (bytes, _) = in_parts(&Entries::new(), options(Compression::None), 4096);
    assert_eq!(layout_of(&bytes).index_parts.len(), 1);
    // One key a block.
    let entries: Entries = (0..400u32)
        .map(|i| (internal_key(format!("key{i:05}").as_bytes(), 7, 1), vec![i as u8; 900]))
        .collect();
    let (bytes, _) = in_parts(&entries, options(Compression::None), 1000);
    let table = opened(&bytes, &context(1 << 20));
    let layout = layout_of(&bytes);
    assert!(layout.index_parts.len() > 4 && layout.filter_parts.len() == 1);
    assert_eq!(layout.filter(), layout.filter_parts[0].handle, "not even a top");
    assert_eq!(table.verify().unwrap().filter_misses, 0);
}

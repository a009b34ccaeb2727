//! Whole filters and indexes that the cache would not keep are loaded in pieces of about 4 KiB
//! ([`crate::table::pieces`]).
//!
//! A lookup *passes* a piece of the filter *by*, that is, searches the table without it, while a
//! read of the piece would probably not pay.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::round_trip::file_of;
use super::*;
use crate::cache::MetadataBytes;
use crate::cursor::{Cursor, Fetch};
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Error;
use crate::fs::{DescriptorPool, OverlappedReader, RandomAccessFile};
use crate::stats::{FilterCounts, Ticker};
use crate::table::filter::block::{FilterAnswer, TableFilter};
use crate::table::table_index::TableIndex;
use crate::table::{
    FilterKeys, PrefixExtractor, ScanOptions, SstReader, TableCursor, batch_read_parts,
};

/// A cache size in bytes that is too small for the filter and the index of one of the tables here.
pub(super) const SMALL_CACHE: usize = 40 << 10;

/// Entries whose filter and whose index have several pieces each.
pub(super) fn many_entries() -> Entries {
    mixed_entries(16_000)
}

pub(super) fn bytes_of(entries: &Entries, options: TableOptions) -> Vec<u8> {
    let fs = MemFs::new();
    write(&fs, "t.sst", entries, options);
    let file = fs.open(Path::new("t.sst")).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn opened(bytes: &[u8], context: &TableContext) -> Arc<Table> {
    Table::open(file_of(bytes), context.clone()).unwrap()
}

/// The number of pieces of the index, and that of the filter; 0 for one that was not cut.
pub(super) fn piece_counts(table: &Table) -> (usize, usize) {
    (
        table.pieces.index().map_or(0, |pieces| pieces.slots.len()),
        table.pieces.filter().map_or(0, |pieces| pieces.slots.len()),
    )
}

fn found(table: &Table, key: &[u8]) -> Result<Option<(u8, Slice)>> {
    get(table, &LookupKey::new(key::user_key(key), key::sequence(key)))
}

#[test]
fn a_table_in_pieces_answers_as_its_entries_do() {
    let entries = many_entries();
    let capped = PrefixExtractor::capped(9).unwrap();
    let kinds = [
        ("none", FilterKeys::Whole),
        ("bloom(10)", FilterKeys::Whole),
        ("bloom(12)", FilterKeys::Both(capped)),
        ("bloom(14)", FilterKeys::Prefix(PrefixExtractor::fixed(10).unwrap())),
        ("ribbon(9)", FilterKeys::Whole),
    ];
    for (filter, filter_keys) in kinds {
        let what = format!("{filter}, {filter_keys:?}");
        let has_pieces = filter.starts_with("bloom");
        let has_whole_keys = !matches!(filter_keys, FilterKeys::Prefix(_));
        let filter = filter.parse().unwrap();
        let options = TableOptions { filter, filter_keys, ..options(Compression::None) };
        let bytes = bytes_of(&entries, options);
        for cache_bytes in [0, SMALL_CACHE] {
            let context = context(cache_bytes);
            let table = opened(&bytes, &context);
            assert_eq!(piece_counts(&table), (0, 0), "{what}: made before they are needed");
            for (key, value) in entries.iter().step_by(3) {
                let found =
                    found(&table, key).unwrap().unwrap_or_else(|| panic!("{what}: {key:?}"));
                assert_eq!((found.0, &found.1[..]), (key::kind_byte(key), &value[..]), "{what}");
            }
            let absent =
                entries.iter().step_by(7).map(|(key, _)| [key::user_key(key), b"?"].concat());
            let mut absent_count = 0;
            for user_key in absent {
                let lookup = LookupKey::new(&user_key, MAX_SEQUENCE);
                let expected = expected_get(&entries, &user_key, MAX_SEQUENCE);
                assert_eq!(get(&table, &lookup).unwrap().is_some(), expected.is_some());
                absent_count += u64::from(expected.is_none());
            }
            let sums = context.counters.sums();
            assert_eq!(sums.get(Ticker::BloomUntrusted), 0, "{what}");
            let (indexes, filters) = piece_counts(&table);
            assert!(indexes > 5, "{what}: {indexes} pieces of the index");
            assert_eq!(filters > 2, has_pieces, "{what}: {filters} pieces of the filter");
            if has_pieces && has_whole_keys {
                // If the piece of the index is in memory, a lookup passes by a piece of the filter
                // that the cache would not keep.
                let useful = sums.get(Ticker::BloomUseful);
                assert!(useful * 100 > absent_count * 85, "{what}: {useful} of {absent_count}");
            }
            let check = table.verify().unwrap();
            assert_eq!((check.entries, check.filter_misses), (entries.len() as u64, 0), "{what}");
        }
    }
}

/// Looks up an absent key several times, with a cache that keeps nothing. From the second lookup
/// on, each reads a piece of the filter, and nothing else if that piece says no.
fn reads_of_absent_key(table: &Table, user_key: &[u8], context: &TableContext) {
    let lookup = LookupKey::new(user_key, MAX_SEQUENCE);
    for round in 0..3 {
        let before = context.counters.sums();
        assert!(get(table, &lookup).unwrap().is_none());
        let moved = &context.counters.sums() - &before;
        let says_no = moved.get(Ticker::BloomUseful) == 1;
        let reads = moved.get(Ticker::FileReads);
        assert!(reads == if says_no { 1 } else { 2 + moved.get(Ticker::BlockCacheFilterMiss) });
        assert!(round == 0 || moved.get(Ticker::BloomPassedBy) == 0, "round {round}");
    }
}

/// The first lookup reads filter and index whole. Each later lookup reads at most a piece of the
/// filter, a piece of the index and a data block, and nothing that is in memory.
#[test]
fn a_lookup_reads_one_piece_of_each() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    for cache_bytes in [0, SMALL_CACHE] {
        let context = context(cache_bytes);
        let table = opened(&bytes, &context);
        let read = |key: &[u8]| {
            let before = context.counters.sums();
            assert!(found(&table, key).unwrap().is_some());
            let moved = &context.counters.sums() - &before;
            (moved.get(Ticker::FileReads), moved.get(Ticker::FileReadBytes))
        };
        let (index, filter) = (table.index_handle.bytes, table.filter_part_bytes(0));
        let (count, read_bytes) = read(&entries[100].0);
        assert_eq!(count, 5, "both whole ones, a piece of each, a data block");
        assert!(read_bytes > index + filter);
        for (key, _) in entries.iter().step_by(101) {
            let (count, read_bytes) = read(key);
            assert!(count <= 3 && read_bytes < 3 * 4200, "{count} reads, {read_bytes} bytes");
            let again = read(key).0;
            // After a lookup of a present key the filter is not worth another read.
            assert!(again <= 2 && (again == 2 || cache_bytes > 0), "{again} reads again");
            let absent = [key::user_key(key), b"?"].concat();
            if cache_bytes == 0 && expected_get(&entries, &absent, MAX_SEQUENCE).is_none() {
                reads_of_absent_key(&table, &absent, &context);
            }
        }
        assert!(context.cache.usage() <= cache_bytes.max(16 << 10));
    }
    // Filter and index are not cut if they fit into the cache whole.
    let context = context(1 << 20);
    let table = opened(&bytes, &context);
    for (key, _) in entries.iter().step_by(101) {
        assert!(found(&table, key).unwrap().is_some());
    }
    assert_eq!(piece_counts(&table), (0, 0));
}

/// A whole filter or index that is in memory is used, even if the cache has since become so full
/// that the filters and indexes of other tables are loaded in pieces. Pinned filters and indexes
/// are loaded whole.
#[test]
fn a_resident_whole_one_is_used_and_a_pinned_one_has_no_pieces() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    let pinned = TableContext { pin_metadata: true, ..context(SMALL_CACHE) };
    let table = opened(&bytes, &pinned);
    assert!(found(&table, &entries[100].0).unwrap().is_some());
    assert_eq!(piece_counts(&table), (0, 0));
    let context = context(400 << 10);
    let table = opened(&bytes, &context);
    table.load_metadata().unwrap();
    assert!(table.resident_index(0, &pin()).is_some());
    // Whole, the filters and indexes of all four tables would fill most of the cache. So those of
    // the three other tables are loaded in pieces.
    let others: Vec<_> = (0..3).map(|_| opened(&bytes, &context)).collect();
    for other in &others {
        assert!(found(other, &entries[100].0).unwrap().is_some());
        assert!(piece_counts(other).0 > 2, "{:?}", piece_counts(other));
    }
    if table.resident_index(0, &pin()).is_some() {
        assert!(found(&table, &entries[100].0).unwrap().is_some());
        assert_eq!(piece_counts(&table).0, 0);
    }
}

#[test]
fn a_cursor_walks_over_the_ends_of_pieces_both_ways() {
    let entries = mixed_entries(9_000);
    let bytes = bytes_of(&entries, TableOptions { block_bytes: 300, ..options(Compression::None) });
    for (cache_bytes, fill_cache) in [(0, true), (SMALL_CACHE, true), (SMALL_CACHE, false)] {
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
        assert!(piece_counts(&table).0 > 5, "{:?}", piece_counts(&table));
        cursor.seek_to_last().unwrap();
        for (key, _) in entries.iter().rev() {
            assert_eq!(cursor.key(), key);
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        let mut prepared = TableCursor::new(table, options);
        for i in (0..entries.len()).step_by(5).map(|i| i * 7919 % entries.len()) {
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
            let before = i.checked_sub(1).map(|i| &entries[i].0[..]);
            assert_eq!(cursor.valid().then(|| cursor.key()), before);
        }
        cursor.seek(&key::seek_key(&[0xff; 40], 1)).unwrap();
        assert!(!cursor.valid());
    }
}

/// Versions of one key fill many blocks, so that pieces end between versions of a key.
/// Regression: a cursor had prefetched the block of a seek by a piece of the index. Before the seek,
/// another thread loaded the whole index. The seek applied the block's number in the piece to the
/// whole index, so that it went to an earlier key.
#[test]
fn a_seek_is_right_though_the_whole_index_was_loaded_after_its_prefetch() {
    let entries = many_entries();
    let context = context(1 << 20);
    let other_tables =
        MetadataBytes { as_stored: 2 << 20, if_whole: 2 << 20, ..MetadataBytes::default() };
    let _other_tables = context.cache.reserve(0).expecting(other_tables);
    let table = opened(&bytes_of(&entries, options(Compression::None)), &context);
    for (key, _) in entries.iter().step_by(997) {
        found(&table, key).unwrap();
        assert!(piece_counts(&table).0 > 5, "the index is loaded in pieces");
        let mut cursor = TableCursor::new(Arc::clone(&table), ScanOptions::default());
        cursor.fetch_for_seek(key, Fetch::Block);
        cursor.fetch_for_seek(key, Fetch::Entries);
        drop(table.load_index(0).unwrap());
        assert!(table.index.get(0, &pin()).is_some(), "the whole index is in memory");
        cursor.seek(key).unwrap();
        assert_eq!(cursor.key(), key);
        table.index.evict_all();
    }
}

#[test]
fn versions_of_a_key_go_on_in_the_next_piece() {
    let mut entries = Entries::new();
    for i in 0..12u64 {
        for version in 0..40 + i * 70 % 300 {
            let user_key = format!("key{i:03}");
            entries.push((internal_key(user_key.as_bytes(), 1 + version, 1), vec![7; 300]));
        }
    }
    let entries = sorted(entries);
    let options = TableOptions { block_bytes: 300, ..options(Compression::None) };
    let bytes = bytes_of(&entries, options);
    for cache_bytes in [0, SMALL_CACHE] {
        let table = opened(&bytes, &context(cache_bytes));
        assert!(!table.index_form().user_keys);
        for (key, value) in &entries {
            let found = found(&table, key).unwrap();
            assert_eq!(found.map(|found| found.1.to_vec()).as_ref(), Some(value));
            assert!(get(&table, &LookupKey::new(key::user_key(key), 0)).unwrap().is_none());
        }
        let pieces = table.pieces.index().unwrap();
        let splits = (1..pieces.top.len())
            .filter(|&i| pieces.top.user_key(i) == pieces.top.user_key(i - 1))
            .count();
        assert!(splits > 2, "{splits} of {} pieces end within a key", pieces.top.len());
    }
}

/// A file whose bytes change while it is open.
#[derive(Debug)]
struct ChangingFile {
    bytes: Mutex<Vec<u8>>,
}

impl RandomAccessFile for ChangingFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = self.bytes.lock().unwrap();
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn path(&self) -> &Path {
        Path::new("changing.sst")
    }
}

/// Looks up every third key. Returns how many were found, and how many lookups failed. No key may
/// be absent.
fn lookups(table: &Table, entries: &Entries) -> (usize, usize) {
    let (mut sound, mut failed) = (0, 0);
    for (key, _) in entries.iter().step_by(3) {
        match found(table, key) {
            Ok(Some(_)) => sound += 1,
            Ok(None) => panic!("a key was lost: {key:?}"),
            Err(Error::Corruption { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (sound, failed)
}

/// The checksum of a whole filter or index is checked once, when the pieces are made. Whenever a
/// piece is read later, it must have the bytes that it had then. A changed byte, or bytes from
/// elsewhere in the file, are damage, which affects only that piece.
#[test]
fn a_piece_that_comes_back_changed_is_damage_in_its_range() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    let all = entries.iter().step_by(3).count();
    type Change = fn(&mut [u8], usize, usize);
    let changes: [(&str, Change); 3] = [
        ("a flipped bit", |bytes, piece, _| bytes[piece + 1000] ^= 0x10),
        ("the next block", |bytes, piece, next| bytes.copy_within(next..next + 4000, piece)),
        ("zeros", |bytes, piece, _| bytes[piece..piece + 3000].fill(0)),
    ];
    for (what, change) in changes {
        for of_index in [true, false] {
            let context = context(0);
            let file = Arc::new(ChangingFile { bytes: Mutex::new(bytes.clone()) });
            let table = Table::open(file.clone(), context.clone()).unwrap();
            assert_eq!(lookups(&table, &entries), (all, 0));
            let handles = [1, 3].map(|piece| match of_index {
                true => table.index_piece_handle(piece).unwrap(),
                false => table.filter_piece_handle(piece).unwrap(),
            });
            let [piece, next] = handles.map(|handle| handle.offset as usize);
            change(&mut file.bytes.lock().unwrap(), piece, next);
            let (sound, failed) = lookups(&table, &entries);
            assert_eq!(sound + failed, all);
            // Lookups pass the filter by, because all keys are present. So it is queried directly.
            let untrusted = entries.iter().step_by(3).filter(|(key, _)| {
                let lookup = LookupKey::new(key::user_key(key), MAX_SEQUENCE);
                let answer = table.filter_for(0, &lookup).unwrap().may_contain(&lookup);
                assert!(answer != FilterAnswer::No);
                answer == FilterAnswer::Untrusted
            });
            let untrusted = untrusted.count();
            let (felt, nothing) = if of_index { (failed, untrusted) } else { (untrusted, failed) };
            assert!(felt > 0 && felt < all / 2, "{what}, of the index {of_index}: {felt}");
            assert_eq!(nothing, 0, "{what}, of the index {of_index}");
        }
    }
}

/// A damaged whole filter or index gets no pieces. As in a large cache, lookups find their keys
/// without a damaged filter, and fail if the index is damaged.
#[test]
fn a_damaged_whole_one_has_no_pieces() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    let sound = opened(&bytes, &context(0));
    let all = entries.iter().step_by(3).count();
    let flipped = |handle: BlockHandle| {
        let mut bad = bytes.clone();
        bad[handle.offset as usize + 3] ^= 0x10;
        bad
    };
    let context = context(0);
    let table = opened(&flipped(sound.any_filter().unwrap().handle()), &context);
    assert_eq!(lookups(&table, &entries), (all, 0));
    assert_eq!(piece_counts(&table).1, 0);
    let sums = context.counters.sums();
    let untrusted = sums.get(Ticker::BloomUntrusted);
    assert!(untrusted > 0 && untrusted + sums.get(Ticker::BloomPassedBy) == all as u64);
    let table = opened(&flipped(sound.index_handle), &context);
    assert_eq!(lookups(&table, &entries), (0, all));
    assert_eq!(piece_counts(&table).0, 0);
}

/// The whole index of a table with compressed data was once compressed too. So it had no pieces,
/// and with a small cache each lookup read it whole. Now a large index is stored uncompressed.
/// RocksDB still compresses its indexes, which therefore have no pieces.
#[test]
#[cfg(feature = "lz4")]
fn a_whole_index_has_pieces_unless_it_is_compressed() {
    let entries = many_entries();
    // The second table has parts of up to 1 GiB, so its index has only one part. This part is
    // stored as a whole index, but it is compressed, as parts are.
    let part_bytes = [None, Some(1 << 30)];
    for part_bytes in part_bytes {
        let fs = MemFs::new();
        let file = fs.create(Path::new("t.sst")).unwrap();
        let dialect = Dialect::Database { file_number: 7 };
        let mut builder = TableBuilder::new(file, options(Compression::Lz4), dialect).unwrap();
        if let Some(bytes) = part_bytes {
            builder = builder.with_parts_of(bytes);
        }
        entries.iter().for_each(|(key, value)| builder.add(key, value).unwrap());
        builder.finish().unwrap();
        let file = fs.open(Path::new("t.sst")).unwrap();
        let table = Table::open(file, context(0)).unwrap();
        assert_eq!(table.index_parts(), 1);
        assert!(found(&table, &entries[100].0).unwrap().is_some());
        let (indexes, filters) = piece_counts(&table);
        assert_eq!(indexes > 2, part_bytes.is_none(), "{indexes} pieces");
        assert!(filters > 2, "{filters}");
        for (key, value) in entries.iter().step_by(97) {
            assert_eq!(found(&table, key).unwrap().unwrap().1[..], value[..]);
        }
    }
}

/// The pieces that several lookups lack are read at the same time, each once.
#[test]
fn pieces_are_read_together() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    let context = context(0);
    let table = opened(&bytes, &context);
    let keys: Vec<_> = entries.iter().step_by(211).map(|(key, _)| key).collect();
    let lookup =
        |key: &[u8]| LookupKey::new(key::user_key(key), key::sequence(key)).user_key.to_vec();
    let user_keys: Vec<_> = keys.iter().map(|key| lookup(key)).collect();
    let lookups: Vec<_> =
        user_keys.iter().map(|user_key| LookupKey::new(user_key, MAX_SEQUENCE)).collect();
    let reader = OverlappedReader::by_threads(&DescriptorPool::new(64));
    let tickers = context.counters.on_thread(&pin());
    let parts: Vec<_> = lookups
        .iter()
        .map(|key| (&*table, table.filter_part_to_ask(key, tickers).unwrap()))
        .collect();
    let before = context.counters.sums();
    let filters = batch_read_parts::<TableFilter>(&reader, &parts);
    let moved = &context.counters.sums() - &before;
    assert_eq!(moved.get(Ticker::FileReads) as usize, piece_counts(&table).1);
    for (key, filter) in lookups.iter().zip(filters) {
        assert!(filter.unwrap().reader().may_contain(key.hash));
    }
    let index_part = |key: &LookupKey<'_>| table.index_part_in_place_of(0, key).unwrap();
    let parts: Vec<_> = lookups.iter().map(|key| (&*table, index_part(key))).collect();
    for (key, index) in lookups.iter().zip(batch_read_parts::<TableIndex>(&reader, &parts)) {
        let index = index.unwrap();
        assert!(index.parts.contains(&index.part) && index.part > 0);
        assert!(index.index.find(key.user_key, key.trailer()) < index.index.len());
    }
}

/// Threads that need the pieces at the same moment make them once.
#[test]
fn threads_share_the_pieces() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    let context = context(SMALL_CACHE);
    let table = opened(&bytes, &context);
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (table, entries) = (&table, &entries);
            scope.spawn(move || {
                for (key, value) in entries.iter().skip(first * 11).step_by(53) {
                    assert_eq!(found(table, key).unwrap().unwrap().1[..], value[..]);
                }
            });
        }
    });
    assert!(piece_counts(&table).0 > 2 && piece_counts(&table).1 > 2);
}

#[test]
fn explain_names_the_piece() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whole.sst");
    let entries = many_entries();
    std::fs::write(&path, bytes_of(&entries, options(Compression::None))).unwrap();
    let table = Table::open(crate::fs::RealFs.open(&path).unwrap(), context(SMALL_CACHE)).unwrap();
    let reader = SstReader::of_open(table);
    let mut asked = 0;
    for (key, _) in entries.iter().step_by(97) {
        let trace = reader.explain(key::user_key(key)).unwrap();
        let (filter, index) = (trace.filter.unwrap(), trace.index.unwrap());
        match filter.partition {
            Some((piece, pieces)) => {
                assert!(piece < pieces && pieces > 2);
                assert!(filter.query.says_maybe());
                assert!(filter.predicted_fpr.is_some_and(|fpr| (0.003..0.03).contains(&fpr)));
                asked += 1;
            }
            None => assert!(filter.verdict.says_maybe() && filter.family.is_none()),
        }
        let (piece, pieces) = index.partition.unwrap();
        assert!(piece < pieces && pieces > 5);
        assert!(reader.may_contain(key::user_key(key)).unwrap());
    }
    assert!(asked > 2, "{asked}");
}

fn moved_by(context: &TableContext, body: impl FnOnce()) -> impl Fn(Ticker) -> u64 {
    let before = context.counters.sums();
    body();
    let moved = &context.counters.sums() - &before;
    move |ticker| moved.get(ticker)
}

/// Lookups of present keys read each piece of the filter once, and then pass it by. After the first
/// lookup of an absent key has searched the table in vain, the next lookup reads the piece again.
#[test]
fn a_filter_is_read_once_lookups_have_passed_it_by_in_vain() {
    let entries = many_entries();
    let bytes = bytes_of(&entries, options(Compression::None));
    let context = context(0);
    let table = opened(&bytes, &context);
    let keys: Vec<_> = entries.iter().step_by(3).collect();
    let moved = moved_by(&context, || {
        keys.iter().for_each(|(key, _)| assert!(found(&table, key).unwrap().is_some()));
    });
    let (_, pieces) = piece_counts(&table);
    assert_eq!(moved(Ticker::BlockCacheFilterMiss), pieces as u64);
    assert_eq!(moved(Ticker::BloomPassedBy), (keys.len() - pieces) as u64);
    assert_eq!(moved(Ticker::BloomFullPositive), pieces as u64);
    let absent: Vec<_> = (0..3000u32).map(|i| [&b"user0"[..], &i.to_be_bytes()].concat()).collect();
    let absent_lookups = || {
        absent.iter().for_each(|user_key| {
            assert!(get(&table, &LookupKey::new(user_key, MAX_SEQUENCE)).unwrap().is_none());
        });
    };
    let moved = moved_by(&context, absent_lookups);
    assert_eq!(moved(Ticker::BloomPassedBy), pieces as u64, "once for each piece");
    assert_eq!(moved_by(&context, absent_lookups)(Ticker::BloomPassedBy), 0);
}

/// A lookup that passed a filter by was once counted as a positive of the filter, and as a false
/// positive if the key was absent. So in a small cache a sound filter had an observed
/// false-positive rate far above the predicted rate, and `stats` warned of it. Now only answers of
/// the filter count for its rate.
#[test]
fn a_filter_that_was_passed_by_has_not_answered() {
    let entries = many_entries();
    let options =
        TableOptions { filter: "ribbon(9)".parse().unwrap(), ..options(Compression::None) };
    let context = context(SMALL_CACHE);
    let table = opened(&bytes_of(&entries, options), &context);
    let moved = moved_by(&context, || {
        for (i, (key, _)) in (0..100u32).zip(&entries) {
            let absent = [&b"user0"[..], &i.to_be_bytes()].concat();
            let lookup = LookupKey::new(&absent, MAX_SEQUENCE);
            assert!(get(&table, &lookup).unwrap().is_none());
            assert!(found(&table, key).unwrap().is_some());
        }
    });
    assert_eq!(moved(Ticker::BloomPassedBy), 200);
    assert_eq!(moved(Ticker::BloomFullPositive) + moved(Ticker::BloomFullTruePositive), 0);
    let counts = table.file_counters().sums();
    assert_eq!((counts.filter, counts.unfiltered), (FilterCounts::default(), 100));
}

/// A ribbon filter has no pieces, because the bits of a key are in several cache lines. Lookups
/// pass it by until they have searched the table in vain once for each 4 KiB of the filter. The
/// next lookup reads the whole filter. A filter that would take too much of the cache is never
/// read.
#[test]
fn a_filter_without_pieces_has_the_price_of_its_size() {
    let entries = many_entries();
    let options =
        TableOptions { filter: "ribbon(9)".parse().unwrap(), ..options(Compression::None) };
    let bytes = bytes_of(&entries, options);
    for (cache_bytes, is_read) in [(SMALL_CACHE, false), (180 << 10, true)] {
        let context = context(cache_bytes);
        let tables: Vec<_> = (0..6).map(|_| opened(&bytes, &context)).collect();
        let price = tables[0].filter_part_bytes(0).div_ceil(4096);
        assert!(price > 3);
        let mut passed = 0;
        for i in 0..100u32 {
            let user_key = [&b"user0"[..], &i.to_be_bytes()].concat();
            let lookup = LookupKey::new(&user_key, MAX_SEQUENCE);
            let moved = moved_by(&context, || {
                assert!(get(&tables[0], &lookup).unwrap().is_none());
            });
            if moved(Ticker::BloomPassedBy) == 0 {
                break;
            }
            passed += 1;
        }
        // At the start, the filter has a credit of one read, as after one search in vain.
        assert_eq!(passed, if is_read { price - 1 } else { 100 });
    }
}

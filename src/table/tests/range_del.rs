//! Tables that delete ranges: the ranges that were added are read back, also from a table without
//! entries, and impossible ranges are rejected.

use std::path::Path;

use super::round_trip::file_of;
use super::*;
use crate::cursor::Cursor;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Error;
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::table::block::builder::BlockBuilder;
use crate::table::format::checksum::ChecksumKind;
use crate::table::format::properties::names;
use crate::table::open::{RANGE_DEL_BLOCK, find_block};
use crate::table::{ScanOptions, TableCursor};

const RANGES: [(&str, &str, u64); 4] =
    [("a", "m", 9), ("f", "user000030", 7), ("f", "g", 3), ("user000030", "user000033", 20_500)];

fn ranges() -> impl Iterator<Item = RangeTombstone<'static>> {
    RANGES.iter().map(|&(start, end, sequence)| RangeTombstone {
        start: start.as_bytes(),
        end: end.as_bytes(),
        sequence,
    })
}

/// A table with the range deletions of [`RANGES`] and with `entries`: its bytes and its summary.
pub fn table_bytes(entries: &Entries, options: TableOptions) -> (Vec<u8>, TableSummary) {
    table_bytes_in_parts(entries, options, None)
}

/// Like [`table_bytes`]. If `part_bytes` is given, the filter and the index are in parts of this
/// size.
pub fn table_bytes_in_parts(
    entries: &Entries,
    options: TableOptions,
    part_bytes: Option<usize>,
) -> (Vec<u8>, TableSummary) {
    let fs = MemFs::new();
    let path = Path::new("t.sst");
    let dialect = Dialect::Database { file_number: 7 };
    let builder = TableBuilder::new(fs.create(path).unwrap(), options, dialect).unwrap();
    let mut builder = builder.created_by(&creator());
    if let Some(bytes) = part_bytes {
        builder = builder.with_parts_of(bytes);
    }
    let mut ranges = ranges();
    for (key, value) in entries {
        ranges.next().into_iter().for_each(|range| builder.add_range(range).unwrap());
        builder.add(key, value).unwrap();
    }
    ranges.for_each(|range| builder.add_range(range).unwrap());
    let summary = builder.finish().unwrap();
    (fs.read(path).unwrap(), summary)
}

pub fn assert_has_ranges(table: &Table, what: &dyn std::fmt::Display) {
    let mut found: Vec<_> = table.ranges().unwrap().iter().collect();
    found.sort_by(|a, b| a.start.cmp(b.start).then(b.sequence.cmp(&a.sequence)));
    assert_eq!(found, ranges().collect::<Vec<_>>(), "{what}");
}

#[test]
fn ranges_come_back_beside_the_entries_and_count_as_rocksdb_counts_them() {
    for entries in [mixed_entries(200), Entries::new()] {
        for compression in Compression::ALL {
            let (bytes, summary) = table_bytes(&entries, options(compression));
            let table = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
            assert_has_ranges(&table, &"all");
            let check = table.verify().unwrap();
            assert_eq!((check.entries, check.range_deletions), (entries.len() as u64, 4));
            let number = |name| table.properties().number(name).unwrap();
            assert_eq!(number(names::ENTRIES), entries.len() as u64 + 4);
            assert_eq!(number(names::RANGE_DELETIONS), 4);
            assert_eq!(number(names::DELETIONS), summary.deletions);
            assert_eq!((summary.entries, summary.range_deletions), (number(names::ENTRIES), 4));
            assert_eq!(summary.largest_sequence, 20_500);
            for (key, value) in &entries {
                let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
                let found = get(&table, &lookup).unwrap().map(|(_, found)| found.to_vec());
                assert_eq!(found.as_ref(), Some(value));
            }
            if entries.is_empty() {
                assert_eq!(summary.smallest, internal_key(b"a", 9, 15));
                assert_eq!(summary.largest, key::range_end(b"user000033"));
                assert!(table.filter_info().is_none() && summary.data_blocks == 0);
                assert_eq!(get(&table, &LookupKey::new(b"a", MAX_SEQUENCE)).unwrap(), None);
                let mut cursor = TableCursor::new(table, ScanOptions::default());
                cursor.seek_to_first().unwrap();
                cursor.seek(&key::seek_key(b"f", 9)).unwrap();
                cursor.seek_to_last().unwrap();
                assert!(!cursor.valid());
            } else {
                assert_eq!(summary.smallest, entries[0].0);
                assert_eq!(summary.largest, entries.last().unwrap().0);
            }
        }
    }
}

#[test]
fn an_assigned_sequence_number_is_that_of_the_ranges_too() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let options = TableOptions::default();
    let mut writer = crate::table::SstWriter::create_in(Arc::clone(&fs), "t.sst", options).unwrap();
    writer.put(b"c", b"").unwrap();
    writer.delete_range(b"x", b"y").unwrap();
    writer.delete_range(b"b", b"d").unwrap();
    writer.delete_range(b"b", b"b").unwrap();
    assert!(matches!(writer.delete_range(b"b", b"a"), Err(Error::InvalidArgument(_))));
    assert_eq!(writer.entries(), 3);
    assert_eq!(writer.finish().unwrap().range_deletions, 2);
    let context = TableContext { global_sequence: Some(42), ..context(0) };
    let table = Table::open(fs.open(Path::new("t.sst")).unwrap(), context).unwrap();
    let covering = |key: &[u8], snapshot| table.ranges().unwrap().covering(key, snapshot);
    assert_eq!([covering(b"b", 42), covering(b"x", 50), covering(b"b", 41)], [42, 42, 0]);
    assert_eq!([covering(b"d", 42), covering(b"y", 42)], [0, 0]);
}

#[test]
fn the_builder_refuses_empty_ranges_and_a_wrong_order() {
    let fs = MemFs::new();
    let file = fs.create(Path::new("t.sst")).unwrap();
    let dialect = Dialect::Database { file_number: 1 };
    let mut builder = TableBuilder::new(file, options(Compression::None), dialect).unwrap();
    let range = |start, end, sequence| RangeTombstone { start, end, sequence };
    builder.add_range(range(b"b", b"c", 5)).unwrap();
    builder.add_range(range(b"b", b"c", 5)).unwrap();
    for bad in [range(b"a", b"z", 9), range(b"b", b"z", 6), range(b"d", b"d", 1)] {
        assert!(matches!(builder.add_range(bad), Err(Error::InvalidArgument(_))), "{bad:?}");
    }
}

/// The bytes of a table without entries whose range block was replaced by a block of `entries`,
/// which must have the same length. The block's checksum is right.
fn with_range_block(entries: &[(Vec<u8>, &[u8])]) -> Vec<u8> {
    let (mut bytes, _) = table_bytes(&Entries::new(), options(Compression::None));
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let handle = find_block(table.metaindex(), RANGE_DEL_BLOCK).unwrap();
    let mut block = BlockBuilder::new(1);
    entries.iter().for_each(|(key, value)| block.add(key, value));
    let (block, start) = (block.finish(), handle.offset as usize);
    let end = start + handle.bytes as usize;
    bytes[start..end].copy_from_slice(block);
    let sum = ChecksumKind::Xxh3.of(&bytes[start..=end]);
    bytes[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_range_block_that_cannot_be_right_is_named() {
    let entry = |start: &str, end: &'static str, sequence, kind| {
        (internal_key(start.as_bytes(), sequence, kind), end.as_bytes())
    };
    let good = || -> Vec<_> {
        RANGES.iter().map(|&(start, end, sequence)| entry(start, end, sequence, 15)).collect()
    };
    let opened =
        |entries: &[(Vec<u8>, &[u8])]| Table::open(file_of(&with_range_block(entries)), context(0));
    assert_has_ranges(&opened(&good()).unwrap(), &"a control");

    // RocksDB's `SstFileWriter` writes ranges in the order in which its caller adds them.
    let mut shuffled = good();
    shuffled.reverse();
    assert_has_ranges(&opened(&shuffled).unwrap(), &"in another order");

    let mut other_kind = good();
    other_kind[2] = entry("f", "g", 3, 1);
    let mut reversed = good();
    reversed[2] = entry("g", "f", 3, 15);
    let table = opened(&good()).unwrap();
    let block = find_block(table.metaindex(), RANGE_DEL_BLOCK).unwrap();
    for bad in [other_kind, reversed] {
        let Err(Error::Corruption { offset, .. }) = opened(&bad) else {
            panic!("no damage was seen")
        };
        assert_eq!(offset, block.offset);
    }
}

#[test]
fn a_table_that_says_it_deletes_ranges_and_does_not_is_refused() {
    let (bytes, _) = table_bytes(&mixed_entries(3), options(Compression::None));
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let handle = table.footer().metaindex;
    let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
    let mut bad = bytes.clone();
    let name = b"rocksdb.range_del";
    let at = (start..end).find(|&at| bad[at..].starts_with(name)).unwrap();
    bad[at + name.len() - 1] = b'x';
    let sum = ChecksumKind::Xxh3.of(&bad[start..=end]);
    bad[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    let Err(Error::Corruption { expected, .. }) = Table::open(file_of(&bad), context(0)) else {
        panic!("the ranges were passed over")
    };
    assert!(expected.contains("4 ranges"), "{expected}");
}

/// `tests/fixtures/rocksdb` holds two tables of RocksDB's that delete ranges.
#[test]
fn what_rocksdb_deleted_is_deleted_here() {
    let open = |name: &str| {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/rocksdb");
        let path = Path::new(directory).join(name);
        Table::open(crate::fs::RealFs.open(&path).unwrap(), context(0)).unwrap()
    };
    // `ldb deleterange b d` made this deletion as write number 9, and no other write was flushed
    // with it.
    let only = open("r7-v5-range-only.sst");
    let expected = RangeTombstone { start: b"b", end: b"d", sequence: 9 };
    assert_eq!(only.ranges().unwrap().iter().collect::<Vec<_>>(), [expected]);
    assert_eq!(only.verify().unwrap().entries, 0);

    let versions = open("r11-v5-versions-none.sst");
    let set: &RangeTombstones = versions.ranges().unwrap();
    assert_eq!(set.len(), 3);
    for range in set.iter() {
        let covering = |key: &[u8], snapshot| set.covering(key, snapshot);
        assert_eq!(covering(range.start, range.sequence), range.sequence);
        assert!(covering(range.start, range.sequence - 1) < range.sequence);
    }
    let (_, end) = set.span().unwrap();
    assert_eq!(set.covering(end, MAX_SEQUENCE), 0, "the end is exclusive");
}

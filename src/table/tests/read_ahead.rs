//! How scans read: by few reads, not past the bounds, and without losing an entry because of damage
//! that comes later.

use std::path::Path;
use std::sync::Arc;

use super::layout::Layout;
use super::{Entries, context, data_blocks, get, open, options, write};
use crate::cursor::Cursor;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, internal_key};
use crate::error::{Error, Result};
use crate::fs::{Fault, FaultFs, Fs, MemFs, Operation, RandomAccessFile, Target, write_atomic};
use crate::stats::Ticker;
use crate::table::{
    Compression, LookupKey, ScanOptions, Table, TableBuilder, TableContext, TableCursor,
};

const ENTRIES: u32 = 20_000;

fn user_key(i: u32) -> Vec<u8> {
    format!("k{i:06}").into_bytes()
}

fn entries(count: u32) -> Entries {
    (0..count).map(|i| (internal_key(&user_key(i), 5, 1), vec![i as u8; 80])).collect()
}

/// A file system with one table, and that table opened with a cache of 1 MiB.
fn made(count: u32) -> (MemFs, TableContext, Arc<Table>) {
    let (fs, context) = (MemFs::new(), context(1 << 20));
    write(&fs, "t.sst", &entries(count), options(Compression::None));
    let table = open(&fs, "t.sst", &context).unwrap();
    (fs, context, table)
}

fn scan(fill_cache: bool, bounds: [Option<u32>; 2]) -> ScanOptions {
    let [lower, upper] = bounds.map(|bound| bound.map(|i| Arc::from(user_key(i))));
    ScanOptions::for_runs(1, fill_cache, (lower, upper))
}

/// Reads and bytes that `body` took from the file.
fn reads(context: &TableContext, body: impl FnOnce()) -> [u64; 2] {
    let before = context.counters.sums();
    body();
    let moved = &context.counters.sums() - &before;
    [moved.get(Ticker::FileReads), moved.get(Ticker::FileReadBytes)]
}

fn data_bytes(table: &Table) -> u64 {
    table.properties().number("rocksdb.data.size").unwrap()
}

fn number(cursor: &TableCursor) -> u32 {
    std::str::from_utf8(&key::user_key(cursor.key())[1..]).unwrap().parse().unwrap()
}

/// Walks from the cursor's position. Returns the numbers of the entries, and how the walk ended.
fn walk(
    cursor: &mut TableCursor,
    step: fn(&mut TableCursor) -> Result<()>,
) -> (Vec<u32>, Result<()>) {
    let mut seen = Vec::new();
    while cursor.valid() {
        seen.push(number(cursor));
        if let Err(error) = step(cursor) {
            return (seen, Err(error));
        }
    }
    (seen, Ok(()))
}

/// Walks from one end of the table to the other.
fn walk_all(cursor: &mut TableCursor, backward: bool) -> (Vec<u32>, Result<()>) {
    if backward {
        cursor.seek_to_last().unwrap();
        walk(cursor, TableCursor::prev)
    } else {
        cursor.seek_to_first().unwrap();
        walk(cursor, TableCursor::next)
    }
}

#[test]
fn a_scan_reads_large_pieces_in_both_directions_and_nothing_twice() {
    for fill_cache in [true, false] {
        let (_, context, table) = made(ENTRIES);
        let data = data_bytes(&table);
        assert!(data > 3 << 19, "{data}: more than one read of full size");
        // A scan reads one block alone. After that, a scan that fills the cache makes seven reads
        // that grow from 8 to 512 KiB, and then reads of the full size, 1 MiB. All further reads of
        // a scan that does not fill the cache have the full size.
        let most = if fill_cache { 9 + data / (1 << 20) } else { 3 + data / (1 << 20) };
        for backward in [false, true] {
            let (_, context, table) = match fill_cache {
                // Each walk has a new cache, because blocks that the first walk left in the cache
                // would need no read.
                true => made(ENTRIES),
                false => (MemFs::new(), context.clone(), Arc::clone(&table)),
            };
            table.load_metadata().unwrap();
            let [count, bytes] = reads(&context, || {
                let mut cursor = TableCursor::new(Arc::clone(&table), scan(fill_cache, [None; 2]));
                let (mut seen, end) = walk_all(&mut cursor, backward);
                end.unwrap();
                seen.sort();
                assert!(seen.into_iter().eq(0..ENTRIES));
            });
            assert!(count <= most, "{count} reads of {data} bytes, backward: {backward}");
            // Padding between the last block of a read and the first block of the next one is not
            // read.
            assert!(
                (data - 256 * count..=data).contains(&bytes),
                "{bytes} of {data}, backward: {backward}, fills the cache: {fill_cache}"
            );
        }
    }
}

#[test]
fn a_bounded_scan_reads_nothing_beyond_its_bounds() {
    for (fill_cache, backward) in [(true, false), (true, true), (false, false), (false, true)] {
        let (_, context, table) = made(ENTRIES);
        let (lower, upper) = (ENTRIES / 4, ENTRIES / 4 + 2000);
        table.load_metadata().unwrap();
        let [_, bytes] = reads(&context, || {
            let options = scan(fill_cache, [Some(lower), Some(upper)]);
            let mut cursor = TableCursor::new(Arc::clone(&table), options);
            let target = |i| internal_key(&user_key(i), MAX_SEQUENCE, 0xff);
            if backward {
                cursor.seek_before(&target(upper)).unwrap();
            } else {
                cursor.seek(&target(lower)).unwrap();
            }
            for _ in 0..1999 {
                if backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
            }
            assert_eq!(number(&cursor), if backward { lower } else { upper - 1 });
        });
        let share = data_bytes(&table) * 2000 / u64::from(ENTRIES);
        assert!((share - 2000..share + 2000).contains(&bytes), "{bytes} bytes read for {share}");
    }
}

/// A cursor without an upper bound may be dropped after ten entries, so its first reads must be
/// small.
#[test]
fn a_short_scan_reads_a_block_and_little_more() {
    let (_, context, table) = made(ENTRIES);
    table.load_metadata().unwrap();
    let mut most = [0, 0];
    for start in (0..ENTRIES - 10).step_by(997) {
        let [count, bytes] = reads(&context, || {
            let mut cursor = TableCursor::new(Arc::clone(&table), scan(true, [None; 2]));
            cursor.seek(&internal_key(&user_key(start), MAX_SEQUENCE, 0xff)).unwrap();
            (0..10).for_each(|_| cursor.next().unwrap());
        });
        most = [most[0].max(count), most[1].max(bytes)];
    }
    assert!(most[0] <= 2 && most[1] <= 9 << 10, "{most:?}: a block, and once 8 KiB");
}

#[test]
fn a_cursor_that_turns_around_sees_every_entry_and_reads_little_twice() {
    let (_, context, table) = made(ENTRIES);
    table.load_metadata().unwrap();
    let [_, bytes] = reads(&context, || {
        let mut cursor = TableCursor::new(Arc::clone(&table), scan(false, [None; 2]));
        cursor.seek_to_first().unwrap();
        let mut at = 0;
        for (forward, backward) in [(50, 30), (5000, 20), (1, 1), (300, 290), (9000, 4000)] {
            for _ in 0..forward {
                cursor.next().unwrap();
                at += 1;
                assert_eq!(number(&cursor), at);
            }
            for _ in 0..backward {
                cursor.prev().unwrap();
                at -= 1;
                assert_eq!(number(&cursor), at);
            }
        }
    });
    // At each change of direction, a full read may have been in vain, and another full read may be
    // necessary.
    assert!(bytes < data_bytes(&table) + (10 << 20), "{bytes}");
}

#[test]
fn blocks_larger_than_the_first_reads_are_read_ahead_too() {
    let (fs, context) = (MemFs::new(), context(8 << 20));
    let large = crate::table::TableOptions { block_bytes: 20_000, ..options(Compression::None) };
    write(&fs, "t.sst", &entries(ENTRIES), large);
    let table = open(&fs, "t.sst", &context).unwrap();
    let blocks = table.properties().number("rocksdb.num.data.blocks").unwrap();
    let [count, _] = reads(&context, || {
        let mut cursor = TableCursor::new(Arc::clone(&table), scan(true, [None; 2]));
        cursor.seek_to_first().unwrap();
        walk(&mut cursor, TableCursor::next).1.unwrap();
    });
    assert!(count < blocks / 8, "{count} reads of {blocks} blocks");
}

#[test]
fn a_file_shorter_than_one_read_is_read_once() {
    let (_, context, table) = made(200);
    table.load_metadata().unwrap();
    let [count, bytes] = reads(&context, || {
        let mut cursor = TableCursor::new(Arc::clone(&table), scan(false, [None; 2]));
        cursor.seek_to_first().unwrap();
        assert_eq!(walk(&mut cursor, TableCursor::next).0.len(), 200);
    });
    assert_eq!((count, bytes), (2, data_bytes(&table)), "the first block, and the rest");
}

/// If lookups had left one block in ten in memory, a scan once ended a read before each such block
/// and began another read behind it. So its reads were short, and the operating system took them
/// for random reads because of the gaps. Now a read includes single blocks that are in memory.
#[test]
fn a_scan_reads_on_over_single_blocks_in_memory_and_ends_before_many() {
    for backward in [false, true] {
        let (fs, ..) = made(ENTRIES);
        let context = context(16 << 20);
        let table = open(&fs, "t.sst", &context).unwrap();
        let blocks = data_blocks(&table);
        let many = blocks.len() / 4..blocks.len() / 2;
        let layout = Layout::of(&table);
        let block_of = |n: u32| layout.data_block_of(&user_key(n), u64::MAX);
        let is_wanted = |i: usize| i % 10 == 3 || many.contains(&i);
        for n in (0..ENTRIES).filter(|&n| is_wanted(block_of(n))) {
            get(&table, &LookupKey::new(&user_key(n), MAX_SEQUENCE)).unwrap();
        }
        let held = blocks[many.end].offset - blocks[many.start].offset;
        let [count, bytes] = reads(&context, || {
            let mut cursor = TableCursor::new(Arc::clone(&table), scan(true, [None; 2]));
            let (seen, end) = walk_all(&mut cursor, backward);
            end.unwrap();
            assert_eq!(seen.len(), ENTRIES as usize);
        });
        assert!(count <= 16, "{count} reads, backward: {backward}");
        let most_bytes = data_bytes(&table) - held + (64 << 10);
        assert!(bytes <= most_bytes, "{bytes} read, {most_bytes} are not in memory");
    }
}

/// The number of entries before block `i`.
fn entries_before(table: &Table, i: usize) -> usize {
    let layout = Layout::of(table);
    (0..ENTRIES).take_while(|&n| layout.data_block_of(&user_key(n), u64::MAX) < i).count()
}

/// One read covers a damaged block and sound blocks. The scan returns all entries before the
/// damage, and the error names the damaged block.
#[test]
fn damage_within_a_read_is_named_by_its_block() {
    let (fs, _, table) = made(ENTRIES);
    let damaged = 700;
    let handle = data_blocks(&table)[damaged];
    let mut bytes = fs.read(Path::new("t.sst")).unwrap();
    bytes[handle.offset as usize + 100] ^= 1;
    write_atomic(&fs, Path::new("bad.sst"), &bytes).unwrap();
    for fill_cache in [true, false] {
        let bad = open(&fs, "bad.sst", &context(1 << 20)).unwrap();
        let mut cursor = TableCursor::new(Arc::clone(&bad), scan(fill_cache, [None; 2]));
        cursor.seek_to_first().unwrap();
        let (seen, end) = walk(&mut cursor, TableCursor::next);
        assert_eq!(seen.len(), entries_before(&table, damaged));
        let Err(Error::Corruption { offset, .. }) = end else { panic!("{end:?}") };
        assert!((handle.offset..handle.end().unwrap()).contains(&offset), "{offset}");
        // The same in a backward walk.
        cursor.seek_to_last().unwrap();
        let (seen, end) = walk(&mut cursor, TableCursor::prev);
        assert_eq!(seen.len(), ENTRIES as usize - entries_before(&table, damaged + 1));
        let Err(Error::Corruption { offset, .. }) = end else { panic!("{end:?}") };
        assert!((handle.offset..handle.end().unwrap()).contains(&offset), "{offset}");
        let Err(Error::Corruption { offset, .. }) = bad.verify() else { panic!("not found") };
        assert!((handle.offset..handle.end().unwrap()).contains(&offset), "{offset}");
    }
}

/// A file with a byte that the device cannot read.
#[derive(Debug)]
struct BadSector {
    inner: Arc<dyn RandomAccessFile>,
    at: u64,
}

impl RandomAccessFile for BadSector {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match (offset..offset + buffer.len() as u64).contains(&self.at) {
            true => Err(Error::io(self.path(), "read", std::io::ErrorKind::Other.into())),
            false => self.inner.read_exact_at(offset, buffer),
        }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

#[test]
fn what_the_device_cannot_read_costs_no_entry_before_it() {
    let (fs, _, table) = made(ENTRIES);
    let handle = data_blocks(&table)[700];
    let inner = fs.open(Path::new("t.sst")).unwrap();
    let file = Arc::new(BadSector { inner, at: handle.offset + 50 });
    let bad = Table::open(file, context(1 << 20)).unwrap();
    for fill_cache in [true, false] {
        let mut cursor = TableCursor::new(Arc::clone(&bad), scan(fill_cache, [None; 2]));
        cursor.seek_to_first().unwrap();
        let (seen, end) = walk(&mut cursor, TableCursor::next);
        assert_eq!(seen.len(), entries_before(&table, 700), "fills the cache: {fill_cache}");
        assert!(matches!(end, Err(Error::Io { .. })), "{end:?}");
        // Behind the bad sector a scan succeeds.
        cursor.seek(&internal_key(&user_key(15_000), MAX_SEQUENCE, 0xff)).unwrap();
        assert!(walk(&mut cursor, TableCursor::next).0.into_iter().eq(15_000..ENTRIES));
    }
}

#[test]
fn a_read_ahead_that_fails_once_is_made_up_for() {
    let (mem, ..) = made(ENTRIES);
    let mut faults = 0;
    for nth in 0..20 {
        let fs = FaultFs::new(Arc::new(mem.clone()));
        let table = open(&fs, "t.sst", &context(1 << 20)).unwrap();
        table.load_metadata().unwrap();
        fs.fail_once(Target::Only(Operation::ReadExactAt), nth, Fault::Io);
        let mut cursor = TableCursor::new(table, scan(true, [None; 2]));
        // The first read of the scan is for one block only. If it fails, there is no shorter read
        // to try, so the seek fails.
        let started = cursor.seek_to_first();
        assert_eq!(started.is_err(), nth == 0);
        if started.is_ok() {
            let (seen, end) = walk(&mut cursor, TableCursor::next);
            end.unwrap();
            assert!(seen.into_iter().eq(0..ENTRIES));
        }
        faults += fs.faults();
    }
    assert!(faults > 8, "{faults} reads of the scan failed");
}

#[test]
fn the_runs_of_a_scan_share_a_bounded_memory() {
    let share = |runs| ScanOptions::for_runs(runs, true, (None, None)).read_ahead_bytes;
    assert_eq!((share(0), share(1), share(8)), (1 << 20, 1 << 20, 1 << 20));
    for runs in 8..=512 {
        assert!(runs * share(runs) <= 8 << 20, "{runs}");
    }
    assert_eq!(share(100_000), 16 << 10);
    // Compactions once read as far ahead as scans, so that two compactions took up to 16 MiB in
    // addition to the cache and the memtables. In a program with a small cache and small memtables,
    // that was far more than both.
    let share = |runs| ScanOptions::for_compaction(runs, (None, None)).read_ahead_bytes;
    assert_eq!((share(1), share(2), share(4)), (1 << 20, 1 << 20, 512 << 10));
    for runs in 2..=128 {
        assert!(runs * share(runs) <= 2 << 20, "{runs}");
    }
}

#[test]
fn opening_takes_one_read_and_a_second_one_only_for_a_tail_of_unknown_length() {
    // The number of range deletions, and the number of reads if the length of the tail is not
    // known.
    for (ranges, unknown) in [(0, 1), (3, 1), (5_000, 2)] {
        let fs = MemFs::new();
        let dialect = crate::table::Dialect::Database { file_number: 7 };
        let file = fs.create(Path::new("t.sst")).unwrap();
        let mut builder = TableBuilder::new(file, options(Compression::None), dialect).unwrap();
        for (key, value) in entries(ENTRIES) {
            builder.add(&key, &value).unwrap();
        }
        for i in 0..ranges {
            let (start, end) = (user_key(2 * i), user_key(2 * i + 1));
            let sequence = 4;
            builder
                .add_range(crate::range_tombstones::RangeTombstone {
                    start: &start,
                    end: &end,
                    sequence,
                })
                .unwrap();
        }
        let summary = builder.finish().unwrap();
        for tail_bytes in [0, 1, summary.tail_bytes, summary.tail_bytes + 5000] {
            let context = TableContext { tail_bytes, ..context(1 << 20) };
            let mut opened = None;
            let [count, _] = reads(&context, || opened = open(&fs, "t.sst", &context).ok());
            let expected = match tail_bytes {
                0 => unknown,
                // A damaged MANIFEST may state a tail of 1 byte. Then opening takes three reads:
                // one for the footer, one for the metaindex and one for the rest.
                1 => 3,
                _ => 1,
            };
            assert_eq!(count, expected, "{ranges} ranges, {tail_bytes} bytes of the tail");
            let table = opened.unwrap();
            assert_eq!(table.tail_bytes(), summary.tail_bytes, "the builder says the same");
            assert_eq!(table.ranges().map_or(0, |ranges| ranges.len()), ranges as usize);
        }
    }
}

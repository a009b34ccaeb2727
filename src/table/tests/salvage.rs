//! What is salvaged from a damaged table was in it. What is missing is in a reported *hole*: the
//! unreadable blocks between two keys that were read.

use super::parts::layout_of;
use super::round_trip::file_of;
use super::*;
use crate::range_tombstones::RangeTombstone;
use crate::table::Salvage;

/// The bytes of a table with several data blocks, a filter and, if `ranges` is set, range
/// deletions.
fn table_bytes(entries: &Entries, compression: Compression, ranges: bool) -> Vec<u8> {
    table_in_parts_of(None, entries, compression, ranges)
}

/// Like [`table_bytes`]. `part_bytes`: the size of the parts of filter and index; `None` for a
/// whole filter and a whole index.
fn table_in_parts_of(
    part_bytes: Option<usize>,
    entries: &Entries,
    compression: Compression,
    ranges: bool,
) -> Vec<u8> {
    let fs = MemFs::new();
    let options = TableOptions { block_bytes: 400, filter: bloom(), ..options(compression) };
    let file = fs.create(Path::new("t.sst")).unwrap();
    let dialect = Dialect::Database { file_number: 7 };
    let mut builder = TableBuilder::new(file, options, dialect).unwrap();
    if let Some(bytes) = part_bytes {
        builder = builder.with_parts_of(bytes);
    }
    entries.iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    if ranges {
        let range = RangeTombstone { start: b"user000001", end: b"user000002", sequence: 77 };
        builder.add_range(range).unwrap();
    }
    builder.finish().unwrap();
    fs.read(Path::new("t.sst")).unwrap()
}

/// Salvages a table and compares the result with what was in the table. Returns how many entries
/// are missing, and whether range deletions are missing. `None`: nothing can be read of the table.
fn salvaged(bytes: &[u8], entries: &Entries, ranges: bool, story: &str) -> Option<(usize, bool)> {
    let salvage = Salvage::open(file_of(bytes), None).ok()?;
    let mut found = Entries::new();
    let holes = salvage.entries(|key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    });
    let holes = holes.unwrap();
    let mut read = found.iter().peekable();
    let mut missing = 0;
    for entry in entries {
        if read.next_if(|it| *it == entry).is_some() {
            continue;
        }
        missing += 1;
        let user_key = key::user_key(&entry.0);
        let is_reported = holes.iter().any(|hole| {
            hole.after.as_ref().is_none_or(|after| user_key >= &after[..])
                && hole.before.as_ref().is_none_or(|before| user_key <= &before[..])
        });
        assert!(is_reported, "{story}: \"{}\" is in no hole: {holes:?}", user_key.escape_ascii());
    }
    assert!(read.next().is_none(), "{story}: an entry from nowhere");
    let lost_ranges = ranges && salvage.ranges().is_none();
    assert!(!lost_ranges || salvage.lost_ranges, "{story}: a range deletion went unsaid");
    Some((missing, lost_ranges))
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn whatever_bit_is_wrong_what_comes_back_was_there_and_what_does_not_is_reported() {
    let entries = mixed_entries(40);
    for (part_bytes, compression, ranges) in [
        (None, Compression::None, false),
        (None, Compression::None, true),
        (None, Compression::Lz4, true),
        (Some(60), Compression::None, true),
        (Some(60), Compression::Lz4, false),
    ] {
        let bytes = table_in_parts_of(part_bytes, &entries, compression, ranges);
        assert_eq!(layout_of(&bytes).index_parts.len() > 2, part_bytes.is_some());
        let most_missing = entries.len() / 4;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let story = format!("{part_bytes:?}, {compression:?}, byte {at} of {}", bytes.len());
            let (missing, _) = salvaged(&damaged, &entries, ranges, &story)
                .unwrap_or_else(|| panic!("{story}: nothing can be read"));
            assert!(missing <= most_missing, "{story}: {missing} entries are missing");
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_hole_in_the_index_and_one_in_the_data_are_got_over_together() {
    let entries = mixed_entries(60);
    let bytes = table_bytes(&entries, Compression::None, false);
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let data_end = table.properties().number("rocksdb.data.size").unwrap() as usize;
    let filter_end = {
        let named = |(name, _): &&(String, _)| name.starts_with("fullfilter");
        let (_, handle) = table.metaindex().iter().find(named).unwrap();
        handle.end().unwrap() as usize
    };
    for at in (0..data_end).step_by(247) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        // The index begins where the filter ends.
        damaged[filter_end] ^= 1;
        let story = format!("byte {at}");
        let (missing, _) = salvaged(&damaged, &entries, false, &story).unwrap();
        assert!((1..entries.len() / 4).contains(&missing), "{story}: {missing}");
    }
}

/// A device has lost a block at the end of a page and returns zeros for it. The index is damaged
/// too. The block is not longer than the padding that may precede a block. So if padding were zeros
/// instead of dots, the lost block would be taken for padding.
#[test]
fn a_lost_block_does_not_pass_for_padding() {
    let entries = mixed_entries(400);
    let fs = MemFs::new();
    let options = TableOptions { block_bytes: 1, filter: bloom(), ..options(Compression::None) };
    write(&fs, "t.sst", &entries, options);
    let bytes = fs.read(Path::new("t.sst")).unwrap();
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let blocks = data_blocks(&table);
    let gaps = blocks.windows(2).filter(|pair| pair[0].end() != Some(pair[1].offset)).count();
    let mut at_page_ends = 0;
    for (i, block) in blocks.iter().enumerate() {
        let [start, end] = [block.offset, block.end().unwrap()];
        let next_page = start.next_multiple_of(4096);
        let ends_a_page = blocks.get(i + 1).is_some_and(|next| next.offset == next_page);
        if !ends_a_page || next_page - start > 256 {
            continue;
        }
        at_page_ends += 1;
        let mut damaged = bytes.clone();
        damaged[start as usize..end as usize].fill(0);
        damaged[table.footer().index.unwrap().offset as usize] ^= 1;
        let story = format!("block {i}, {start} to {end}");
        let (missing, _) = salvaged(&damaged, &entries, false, &story).unwrap();
        assert_eq!(missing, 1, "{story}");
    }
    assert!(at_page_ends > 2 && gaps > 2, "{at_page_ends} blocks before a page, {gaps} gaps");
}

/// RocksDB wrote a table in LZ4HC, a type that Maypole reads and never writes. Without an index, a
/// salvage searches the file for blocks. This search once found no block of the table. Now it
/// accepts all compression types of RocksDB.
#[test]
fn without_an_index_blocks_of_other_writers_compression_types_are_found() {
    let entries = mixed_entries(400);
    let mut bytes = table_bytes(&entries, Compression::Lz4, false);
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let mut renamed = 0;
    for block in data_blocks(&table) {
        let (start, end) = (block.offset as usize, block.end().unwrap() as usize);
        let type_at = end - 5;
        // LZ4 and LZ4HC write the same format, so the type byte alone turns a block of type LZ4
        // into one of type LZ4HC.
        if bytes[type_at] == 4 {
            bytes[type_at] = 5;
            let sum = table.footer().block_checksum(&bytes[start..=type_at], block.offset);
            bytes[type_at + 1..end].copy_from_slice(&sum.to_le_bytes());
            renamed += 1;
        }
    }
    assert!(renamed > 5, "{renamed}");
    bytes[table.footer().index.unwrap().offset as usize] ^= 1;
    assert_eq!(salvaged(&bytes, &entries, false, "LZ4HC"), Some((0, false)));
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_table_cut_short_gives_nothing_that_was_not_in_it() {
    let entries = mixed_entries(15);
    let bytes = table_bytes(&entries, Compression::None, true);
    let mut cuts_read = 0;
    for length in 0..bytes.len() {
        let story = format!("{length} bytes of {}", bytes.len());
        cuts_read += u32::from(salvaged(&bytes[..length], &entries, true, &story).is_some());
    }
    // The footer has 53 bytes. A table can be read only if nothing but bytes of the footer is cut.
    assert_eq!(cuts_read, 53);
}

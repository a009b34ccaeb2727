//! What was written is read back, in every form that the format has. The tests are in one file
//! because they share `assert_reads_as`.

use std::path::Path;

use super::*;
use crate::cursor::Cursor;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Error;
use crate::filter::Family;
use crate::fs::{Fault, FaultFs, RandomAccessFile, Target};
use crate::table::block::builder::BlockBuilder;
use crate::table::format::checksum::{ChecksumKind, context as checksum_context};
use crate::table::format::footer::{BlockHandle, FOOTER_BYTES, Footer};
use crate::table::format::properties::names;
use crate::table::{LookupKey, ScanOptions, SstReader, SstWriter, TableCursor};

/// Asserts that lookups and walks of the table have the same results as in the sorted list
/// `entries`.
fn assert_reads_as(table: &Arc<Table>, entries: &[(Vec<u8>, Vec<u8>)]) {
    for (key, _) in entries {
        let user_key = key::user_key(key);
        for sequence in [key::sequence(key), key::sequence(key) - 1, MAX_SEQUENCE] {
            for user_key in [user_key, &[user_key, b"\0"].concat()] {
                let found = get(table, &LookupKey::new(user_key, sequence)).unwrap();
                let found = found.as_ref().map(|(kind, value)| (*kind, &value[..]));
                assert_eq!(found, expected_get(entries, user_key, sequence), "{user_key:?}");
            }
        }
    }
    let scans = [
        ScanOptions::default(),
        ScanOptions { fill_cache: false, ..ScanOptions::default() },
        ScanOptions { fill_cache: false, read_ahead_bytes: 5000, ..ScanOptions::default() },
    ];
    for scan in scans {
        let mut cursor = TableCursor::new(Arc::clone(table), scan);
        cursor.seek_to_first().unwrap();
        for (key, value) in entries {
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            assert_eq!(cursor.value_slice(), value);
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for (key, _) in entries.iter().rev() {
            assert_eq!(cursor.key(), &key[..]);
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        for (key, _) in entries.iter().step_by(3) {
            let after = internal_key(&[key::user_key(key), b"\0"].concat(), MAX_SEQUENCE, 0xff);
            for target in [key, &after] {
                let at = entries.partition_point(|(key, _)| key::compare(key, target).is_lt());
                cursor.seek(target).unwrap();
                assert_eq!(cursor.valid().then(|| cursor.key()), entries.get(at).map(|e| &e.0[..]));
                cursor.seek_before(target).unwrap();
                let before = at.checked_sub(1).map(|i| &entries[i].0[..]);
                assert_eq!(cursor.valid().then(|| cursor.key()), before);
            }
        }
    }
    let check = table.verify().unwrap();
    assert_eq!((check.entries, check.filter_misses), (entries.len() as u64, 0));
}

#[test]
fn every_compression_and_restart_interval_reads_back() {
    let entries = mixed_entries(300);
    for compression in Compression::ALL {
        for restart_interval in [1, 16] {
            let options = TableOptions { restart_interval, ..options(compression) };
            assert_reads_as(&table(&entries, options, &context(1 << 20)), &entries);
        }
    }
}

#[test]
fn a_cache_without_room_changes_no_answer() {
    let entries = mixed_entries(200);
    for cache_bytes in [0, 3000, 20_000] {
        let table = table(&entries, options(Compression::Lz4), &context(cache_bytes));
        assert_reads_as(&table, &entries);
    }
}

#[test]
fn the_summary_and_the_properties_say_what_was_written() {
    let entries = mixed_entries(300);
    let fs = MemFs::new();
    let summary = write(&fs, "t.sst", &entries, options(Compression::Lz4));
    let table = open(&fs, "t.sst", &context(0)).unwrap();
    let number = |name| table.properties().number(name).unwrap();
    assert_eq!(summary.entries, entries.len() as u64);
    assert_eq!(number(names::ENTRIES), summary.entries);
    let deletions = entries.iter().filter(|(key, _)| key::kind_byte(key) == 0).count() as u64;
    assert_eq!((summary.deletions, number(names::DELETIONS)), (deletions, deletions));
    assert_eq!(summary.smallest, entries[0].0);
    assert_eq!(summary.largest, entries.last().unwrap().0);
    let sequences = || entries.iter().map(|(key, _)| key::sequence(key));
    assert_eq!(summary.smallest_sequence, sequences().min().unwrap());
    assert_eq!(summary.largest_sequence, sequences().max().unwrap());
    assert_eq!(number(names::LARGEST_SEQUENCE), summary.largest_sequence);
    assert_eq!(number(names::DATA_BLOCKS), summary.data_blocks);
    assert_eq!(summary.file_bytes, fs.open(Path::new("t.sst")).unwrap().len());
    let users = entries.iter().map(|(key, _)| key::user_key(key));
    let users = users.collect::<std::collections::BTreeSet<_>>().len() as u64;
    let filter = summary.filter.unwrap();
    assert_eq!((filter.family, filter.keys), (Some(Family::Bloom), users));
    assert!(!summary.filter_fell_back);
    assert_eq!(number(names::FILTER_ENTRIES), users);
    assert_eq!(number(names::FILTER_BYTES), filter.bytes);
    let predicted = table.properties().text(names::PREDICTED_FPR).unwrap();
    assert_eq!(predicted.parse::<f64>().ok(), filter.predicted_fpr);
    assert_eq!(table.properties().text(names::FILTER_SPEC), Some("bloom(10)"));
}

#[test]
fn versions_of_one_key_over_many_blocks_are_all_found() {
    let mut entries = mixed_entries(40);
    for sequence in 0..400 {
        let value = vec![b'v'; 20 + sequence % 50];
        entries.push((internal_key(b"user000003+", 20_000 + sequence as u64, 1), value));
    }
    let entries = sorted(entries);
    let context = context(1 << 20);
    let table = table(&entries, options(Compression::None), &context);
    // Because the versions of one key fill several blocks, all separators are internal keys.
    assert_eq!(table.properties().number(names::INDEX_KEY_IS_USER_KEY), Some(0));
    assert_reads_as(&table, &entries);
}

#[test]
fn keys_and_values_of_a_mebibyte_are_entries_like_others() {
    let big = vec![b'k'; 1 << 20];
    let entries = sorted(vec![
        (internal_key(b"", 1, 1), big.clone()),
        (internal_key(b"a", 2, 1), vec![]),
        (internal_key(&big, 3, 1), big.clone()),
        (internal_key(&[&big[..], b"k"].concat(), 4, 1), b"one byte longer".to_vec()),
        (internal_key(b"z", 5, 0), vec![]),
    ]);
    for compression in [Compression::None, Compression::Zstd] {
        assert_reads_as(&table(&entries, options(compression), &context(1 << 20)), &entries);
    }
}

#[test]
fn a_table_without_entries_is_empty() {
    let table = table(&[], options(Compression::Lz4), &context(1 << 20));
    assert!(table.filter_info().is_none());
    assert_reads_as(&table, &[]);
    let found = get(&table, &LookupKey::new(b"k", MAX_SEQUENCE)).unwrap();
    assert_eq!(found, None);
}

#[test]
fn no_filter_means_no_filter_block_and_all_the_answers() {
    let entries = mixed_entries(100);
    let options = TableOptions { filter: FilterSpec::NONE, ..options(Compression::None) };
    let table = table(&entries, options, &context(1 << 20));
    assert!(table.filter_info().is_none());
    assert_reads_as(&table, &entries);
}

/// A device once read 8 KiB for nearly every block of 4 KiB, because the blocks crossed page
/// boundaries. Now padding moves such a block to the next page.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn full_blocks_lie_in_as_few_pages_as_they_can_and_padding_is_short() {
    for (value_bytes, block_bytes, most_padding_percent) in
        [(8, 4096, 1), (100, 4096, 3), (200, 4096, 6), (100, 16 << 10, 1), (1000, 4096, 1)]
    {
        let count = 3_000_000 / (value_bytes + 20);
        let key = |i: usize| internal_key(format!("{i:016}").as_bytes(), 9, 1);
        let entries: Entries = (0..count).map(|i| (key(i), vec![i as u8; value_bytes])).collect();
        let options = TableOptions { block_bytes, ..options(Compression::None) };
        let table = table(&entries, options, &context(1 << 20));
        assert_reads_as(&table, &entries);
        let blocks = data_blocks(&table);
        let (mut padding, mut apart) = (0, 0);
        for (i, block) in blocks.iter().enumerate() {
            padding += block.offset - i.checked_sub(1).map_or(0, |i| blocks[i].end().unwrap());
            let bytes = block.end().unwrap() - block.offset;
            let pages = block.end().unwrap().div_ceil(4096) - block.offset / 4096;
            apart += u64::from(pages > bytes.div_ceil(4096));
        }
        let story = format!("values of {value_bytes}, blocks of {block_bytes}: {padding}, {apart}");
        // A page has room for three entries with values of 1000 bytes. They leave more bytes free
        // than padding may fill, so some of these blocks cross a page boundary.
        assert!(value_bytes == 1000 || apart == 0, "{story}");
        let data_bytes = blocks.last().unwrap().end().unwrap();
        assert!(100 * padding < most_padding_percent * data_bytes, "{story}");
    }
}

#[test]
fn unknown_kinds_come_back_as_their_byte() {
    let entries: Entries =
        [0x02, 0x07, 0x11, 0x16].map(|kind| (internal_key(&[kind], 9, kind), vec![kind; 3])).into();
    assert_reads_as(&table(&entries, options(Compression::None), &context(1 << 20)), &entries);
}

#[test]
fn keys_out_of_order_and_senseless_options_are_refused() {
    let fs = MemFs::new();
    let refused = |options: TableOptions| {
        let file = fs.create(Path::new("x.sst")).unwrap();
        let built = TableBuilder::new(file, options, Dialect::Database { file_number: 1 });
        assert!(matches!(built.err(), Some(Error::InvalidArgument(_))));
    };
    refused(TableOptions { block_bytes: 0, ..TableOptions::default() });
    refused(TableOptions { block_bytes: usize::MAX, ..TableOptions::default() });
    refused(TableOptions { restart_interval: 0, ..TableOptions::default() });
    // If `block_bytes` is 1, every entry has a block of its own. If it is 4096, all entries are in
    // one block.
    for block_bytes in [1, 4096] {
        let options = TableOptions { block_bytes, ..TableOptions::default() };
        let dialect = Dialect::Database { file_number: 1 };
        let file = fs.create(Path::new("y.sst")).unwrap();
        let mut builder = TableBuilder::new(file, options, dialect).unwrap();
        builder.add(&internal_key(b"b", 5, 1), b"").unwrap();
        for bad in [internal_key(b"a", 9, 1), internal_key(b"b", 5, 1), internal_key(b"b", 6, 1)] {
            let error = builder.add(&bad, b"").unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        }
        builder.add(&internal_key(b"b", 4, 1), b"").unwrap();
        assert_eq!(builder.finish().unwrap().entries, 2);
    }
}

/// The table `file`, with checksums of `kind` and the footer of the format version
/// `version`.
pub(super) fn restamped(file: &[u8], version: u32, kind: ChecksumKind) -> Vec<u8> {
    let reader = Table::open(file_of(file), context(0)).unwrap();
    let footer = *reader.footer();
    let mut handles = data_blocks(&reader);
    handles.extend(reader.metaindex().iter().map(|&(_, handle)| handle));
    handles.extend([footer.index.unwrap(), footer.metaindex]);
    let mut bytes = file.to_vec();
    let base = if version >= 6 { 0x1234_5678 } else { 0 };
    let stamp = |bytes: &mut Vec<u8>, handle: BlockHandle| {
        let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize + 1);
        let sum = kind.of(&bytes[start..end]).wrapping_add(checksum_context(base, handle.offset));
        bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    };
    bytes.truncate(bytes.len() - FOOTER_BYTES);
    if version < 6 {
        handles.iter().for_each(|&handle| stamp(&mut bytes, handle));
        let other = Footer { format_version: version, checksum: kind, ..footer };
        bytes.extend_from_slice(&other.encode(bytes.len() as u64));
        return bytes;
    }
    // From format version 6 on, the metaindex lists the index, and ends where the footer begins.
    let mut metaindex: Vec<_> = reader.metaindex().to_vec();
    metaindex.push(("rocksdb.index".into(), footer.index.unwrap()));
    metaindex.sort_by(|a, b| a.0.cmp(&b.0));
    let mut block = BlockBuilder::new(1);
    for (name, handle) in &metaindex {
        let mut value = Vec::new();
        handle.encode(&mut value);
        block.add(name.as_bytes(), &value);
    }
    let block = block.finish();
    bytes.truncate(footer.metaindex.offset as usize);
    bytes.extend_from_slice(block);
    bytes.extend_from_slice(&[0; 5]);
    *handles.last_mut().unwrap() =
        BlockHandle { offset: footer.metaindex.offset, bytes: block.len() as u64 };
    handles.iter().for_each(|&handle| stamp(&mut bytes, handle));
    let footer_offset = bytes.len();
    let mut end = vec![kind.to_byte(), 0x3e, 0x00, 0x7a, 0x00, 0, 0, 0, 0];
    end.extend_from_slice(&base.to_le_bytes());
    end.extend_from_slice(&(block.len() as u32).to_le_bytes());
    end.resize(41, 0);
    end.extend_from_slice(&version.to_le_bytes());
    end.extend_from_slice(&0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
    let sum = kind.of(&end).wrapping_add(checksum_context(base, footer_offset as u64));
    end[5..9].copy_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&end);
    bytes
}

/// A file that holds `bytes`.
pub(super) fn file_of(bytes: &[u8]) -> Arc<dyn RandomAccessFile> {
    let fs = MemFs::new();
    let mut file = fs.create(Path::new("copy.sst")).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    fs.open(Path::new("copy.sst")).unwrap()
}

#[test]
fn every_format_version_with_every_checksum_is_read() {
    let entries = mixed_entries(60);
    for compression in Compression::ALL {
        let fs = MemFs::new();
        write(&fs, "t.sst", &entries, options(compression));
        let file = fs.read(Path::new("t.sst")).unwrap();
        for version in 2..=7 {
            for kind in (0..=4).map(|id| ChecksumKind::from_byte(id).unwrap()) {
                let bytes = restamped(&file, version, kind);
                let table = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
                assert_eq!(table.footer().format_version, version);
                assert_reads_as(&table, &entries);
                // A flipped data bit is detected by every kind of checksum but `None`.
                let mut moved = bytes.clone();
                moved[1] ^= 0x40;
                if kind != ChecksumKind::None {
                    let moved = Table::open(file_of(&moved), context(0)).unwrap();
                    assert!(moved.verify().is_err(), "{version} {kind:?}");
                }
            }
        }
    }
}

fn external(entries: &[(&[u8], Option<&[u8]>)]) -> MemFs {
    let fs = MemFs::new();
    let options = TableOptions { block_bytes: 100, ..TableOptions::default() };
    let mut writer = SstWriter::create_in(Arc::new(fs.clone()), "e.sst", options).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => writer.put(key, value).unwrap(),
            None => writer.delete(key).unwrap(),
        }
    }
    let summary = writer.finish().unwrap();
    assert_eq!((summary.smallest_sequence, summary.largest_sequence), (0, 0));
    fs
}

#[test]
fn an_ingested_table_shows_the_sequence_number_it_was_given() {
    let keys: Vec<String> = (0..200).map(|i| format!("key{i:04}")).collect();
    let stored: Vec<(&[u8], Option<&[u8]>)> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| (key.as_bytes(), (i % 3 != 0).then_some(&b"value"[..])))
        .collect();
    let fs = external(&stored);
    let seen: Entries = stored
        .iter()
        .map(|(key, value)| {
            (internal_key(key, 55, value.is_some().into()), value.unwrap_or_default().to_vec())
        })
        .collect();
    let context = TableContext { global_sequence: Some(55), ..context(1 << 20) };
    assert_reads_as(&open(&fs, "e.sst", &context).unwrap(), &seen);
    // Without an assigned sequence number, a reader returns the sequence numbers that are stored.
    let reader = SstReader::open_in(&fs, "e.sst").unwrap();
    let mut entries = reader.entries();
    let mut count = 0;
    while let Some(entry) = entries.next_entry().unwrap() {
        assert_eq!((entry.user_key, entry.sequence), (stored[count].0, 0));
        count += 1;
    }
    assert_eq!(count, stored.len());
}

#[test]
fn a_sequence_number_that_rocksdb_wrote_into_the_file_is_taken_and_other_edits_are_not() {
    let fs = external(&[(b"a", Some(b"1")), (b"b", None)]);
    let mut bytes = fs.read(Path::new("e.sst")).unwrap();
    let name = b"external_sst_file.global_seqno";
    // The value follows the property's name. Only the last bytes of the name are searched for,
    // because prefix compression may have cut its front.
    let at = bytes.windows(12).position(|w| w == &name[name.len() - 12..]).unwrap() + 12;
    assert_eq!(bytes[at..at + 8], [0; 8]);
    bytes[at..at + 8].copy_from_slice(&77u64.to_le_bytes());
    let table = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
    let seen =
        vec![(internal_key(b"a", 77, 1), b"1".to_vec()), (internal_key(b"b", 77, 0), vec![])];
    assert_reads_as(&table, &seen);
    let assigned = |sequence| TableContext { global_sequence: Some(sequence), ..context(0) };
    assert!(Table::open(file_of(&bytes), assigned(77)).is_ok());
    assert!(matches!(
        Table::open(file_of(&bytes), assigned(78)).err(),
        Some(Error::Corruption { .. })
    ));
    // A change of any other byte of the properties block is damage.
    bytes[at + 8] ^= 1;
    assert!(matches!(
        Table::open(file_of(&bytes), context(0)).err(),
        Some(Error::Corruption { .. })
    ));
}

#[test]
fn an_external_table_takes_each_key_once_and_needs_one() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let create =
        || SstWriter::create_in(Arc::clone(&fs), "e.sst", TableOptions::default()).unwrap();
    assert!(matches!(create().finish(), Err(Error::InvalidArgument(_))));
    let mut writer = create();
    writer.put(b"", b"the empty key").unwrap();
    writer.put(b"k", b"1").unwrap();
    assert!(writer.put(b"k", b"2").is_err());
    assert!(writer.delete(b"k").is_err());
    assert!(writer.put(b"j", b"").is_err());
    assert_eq!(writer.finish().unwrap().entries, 2);
}

/// A writer that was dropped, or finished without an entry, once left a file that no reader could
/// open. Now a file gets its name when it is complete, and a failure before that leaves no file. A
/// dropped writer must not remove the file with the final name, which may be another writer's:
/// `writer = SstWriter::create(same path)` creates the second writer before it drops the first.
#[test]
fn only_a_finished_table_leaves_a_file() {
    let path = Path::new("e.sst");
    let finish = |fs: Arc<dyn Fs>, entries: u32| -> crate::error::Result<()> {
        let mut writer = SstWriter::create_in(fs, path, TableOptions::default())?;
        (0..entries).try_for_each(|i| writer.put(&i.to_be_bytes(), &[7; 1000]))?;
        writer.finish().map(drop)
    };
    let memory = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(memory.clone());
    let names = || memory.list(Path::new("")).unwrap();
    assert!(matches!(finish(Arc::clone(&fs), 0), Err(Error::InvalidArgument(_))));
    let senseless = TableOptions { block_bytes: 0, ..TableOptions::default() };
    assert!(SstWriter::create_in(Arc::clone(&fs), path, senseless).is_err());
    drop(SstWriter::create_in(Arc::clone(&fs), path, TableOptions::default()).unwrap());
    assert!(names().is_empty(), "{:?}", names());

    // A table may have one range deletion and no entry.
    let mut ranges = SstWriter::create_in(Arc::clone(&fs), path, TableOptions::default()).unwrap();
    ranges.delete_range(b"a", b"b").unwrap();
    let mut second = SstWriter::create_in(Arc::clone(&fs), path, TableOptions::default()).unwrap();
    second.put(b"k", b"v").unwrap();
    ranges.finish().unwrap();
    assert_eq!(SstReader::open_in(&*fs, path).unwrap().range_deletions().len(), 1);
    // Dropping the second writer does not remove the file that the first writer has finished.
    drop(second);
    assert_eq!(SstReader::open_in(&*fs, path).unwrap().range_deletions().len(), 1);
    assert_eq!(names(), ["e.sst"]);

    // Whichever change to the file system fails, it leaves a complete file or none.
    let counting = FaultFs::new(Arc::new(MemFs::new()));
    finish(Arc::new(counting.clone()), 400).unwrap();
    for nth in 0..counting.calls(Target::Changes) {
        let memory = MemFs::new();
        let failing = FaultFs::new(Arc::new(memory.clone()));
        failing.fail_once(Target::Changes, nth, Fault::NoSpace);
        assert!(finish(Arc::new(failing), 400).is_err());
        match memory.list(Path::new("")).unwrap().as_slice() {
            [] => {}
            // Only the last call failed: the directory sync, which makes the file's name durable.
            [name] if name == "e.sst" => {
                assert!(SstReader::open_in(&memory, path).unwrap().verify().is_ok());
            }
            others => panic!("{others:?} after call {nth}"),
        }
    }
}

#[test]
fn a_database_table_takes_no_assigned_sequence_number() {
    let fs = MemFs::new();
    write(&fs, "t.sst", &mixed_entries(5), options(Compression::None));
    let context = TableContext { global_sequence: Some(9), ..context(0) };
    assert!(matches!(open(&fs, "t.sst", &context).err(), Some(Error::Corruption { .. })));
}

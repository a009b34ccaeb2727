//! Damaged tables: an error or the right answer, never a wrong one, never a panic.

use super::range_del::{assert_has_ranges, table_bytes};
use super::round_trip::file_of;
use super::*;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::key::MAX_SEQUENCE;
use crate::stats::Ticker;
use crate::sync::pin;
use crate::table::checksum::ChecksumKind;
use crate::table::{LookupKey, ScanOptions, TableCursor};

fn small_table(compression: Compression) -> (Entries, Vec<u8>) {
    let entries = mixed_entries(25);
    let options = TableOptions { block_bytes: 300, filter: bloom(), ..options(compression) };
    let (bytes, _) = table_bytes(&entries, options);
    (entries, bytes)
}

/// Opens the bytes and asks everything. Errors are fine; panics on a wrong answer. Returns whether
/// all went well.
fn assert_right_or_refused(bytes: &[u8], entries: &Entries, what: &str) -> bool {
    let Ok(table) = Table::open(file_of(bytes), context(1 << 20)) else { return false };
    assert_has_ranges(&table, what);
    let mut all_well = true;
    for (key, value) in entries {
        let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
        match get(&table, &lookup) {
            Ok(Some((kind, found))) => {
                assert_eq!((kind, &found[..]), (key::kind_byte(key), &value[..]), "{what}");
            }
            Ok(None) => panic!("{what}: lost {:?}", key::user_key(key)),
            Err(_) => all_well = false,
        }
        let absent = [key::user_key(key), b"\0absent"].concat();
        match get(&table, &LookupKey::new(&absent, MAX_SEQUENCE)) {
            Ok(found) => assert_eq!(found, None, "{what}"),
            Err(_) => all_well = false,
        }
    }
    let mut cursor = TableCursor::new(table, ScanOptions::default());
    let mut read = Vec::new();
    let walked = (|| {
        cursor.seek_to_first()?;
        while cursor.valid() {
            read.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next()?;
        }
        Ok::<_, Error>(())
    })();
    match walked {
        Ok(()) => assert_eq!(read, *entries, "{what}"),
        Err(_) => all_well = false,
    }
    assert!(entries.starts_with(&read), "{what}: a scan saw something else before its error");
    all_well
}

#[test]
fn every_truncation_is_refused() {
    let (entries, bytes) = small_table(Compression::Lz4);
    assert!(assert_right_or_refused(&bytes, &entries, "the whole file"));
    for length in 0..bytes.len() {
        let opened = Table::open(file_of(&bytes[..length]), context(0));
        assert!(opened.is_err(), "opened after {length} of {} bytes", bytes.len());
    }
}

#[test]
fn every_flipped_bit_is_seen_or_harmless() {
    let (entries, bytes) = small_table(Compression::None);
    let mut harmless = 0;
    for bit in 0..bytes.len() * 8 {
        // All bits of the last kilobyte (metadata and footer), every eleventh of the rest.
        if bit / 8 + 1024 < bytes.len() && bit % 11 != 0 {
            continue;
        }
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let what = format!("bit {} of byte {}", bit % 8, bit / 8);
        harmless += u32::from(assert_right_or_refused(&flipped, &entries, &what));
    }
    // The zeros between the footer's handles and its version, and the filter, whose loss only
    // costs reads.
    assert!(harmless > 0);
}

/// Bytes changed under a checksum that was made to fit: what a decoder sees when a bug, not a
/// disk, damaged the block.
#[test]
fn damage_that_passes_the_checksum_never_panics() {
    let (_, bytes) = small_table(Compression::None);
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let mut handles: Vec<_> = table.metaindex().iter().map(|&(_, handle)| handle).collect();
    handles.extend([table.footer().metaindex, table.footer().index.unwrap()]);
    {
        let guard = pin();
        let index = table.index(&guard).unwrap();
        handles.extend((0..index.index.len()).map(|i| index.index.handle(i)));
    }
    for handle in handles {
        let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
        for at in start..end {
            for change in [0x01, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= change;
                let sum = ChecksumKind::Xxh3.of(&bad[start..=end]);
                bad[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
                let Ok(table) = Table::open(file_of(&bad), context(1 << 20)) else { continue };
                for user_key in [&b""[..], b"user000030", b"zzzz", b"\xff\xff"] {
                    let _ = get(&table, &LookupKey::new(user_key, MAX_SEQUENCE));
                }
                let _ = table.verify();
                let mut cursor = TableCursor::new(table, ScanOptions::default());
                if cursor.seek_to_last().is_ok() && cursor.valid() {
                    let _ = cursor.prev();
                }
            }
        }
    }
}

#[test]
fn a_damaged_filter_costs_reads_and_loses_no_key() {
    let (entries, bytes) = small_table(Compression::None);
    let whole = Table::open(file_of(&bytes), context(0)).unwrap();
    let filter = whole.stored_filter().unwrap().handle();
    let mut bad = bytes.clone();
    // One bit of the filter cleared or set, checksum left as it was.
    bad[filter.offset as usize + 3] ^= 0x10;
    let context = context(1 << 20);
    let table = Table::open(file_of(&bad), context.clone()).unwrap();
    for (key, _) in &entries {
        let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
        assert!(get(&table, &lookup).unwrap().is_some());
    }
    let snapshot = context.counters.snapshot();
    assert_eq!(snapshot.get(Ticker::BloomUntrusted), entries.len() as u64);
    assert_eq!(snapshot.get(Ticker::BloomFullPositive), entries.len() as u64);
    assert_eq!(snapshot.get(Ticker::BlockCacheFilterMiss), 1, "the damage is read once");
    assert!(matches!(table.verify(), Err(Error::Corruption { .. })), "but it is told");
}

#[test]
fn each_read_may_fail_once_and_the_next_lookup_succeeds() {
    use crate::fs::{Fault, FaultFs, Operation, Target};
    let entries = mixed_entries(200);
    let mem = MemFs::new();
    write(&mem, "t.sst", &entries, options(Compression::None));
    let (key, value) = &entries[100];
    let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
    // Footer, metaindex, properties; filter, index, data block.
    for nth in 0..6 {
        let fs = FaultFs::new(Arc::new(mem.clone()));
        fs.fail_once(Target::Only(Operation::ReadExactAt), nth, Fault::Io);
        let opened = open(&fs, "t.sst", &context(1 << 20));
        assert_eq!(opened.is_err(), nth < 3, "read {nth}");
        let Ok(table) = opened else { continue };
        // A filter that could not be read says maybe.
        assert_eq!(get(&table, &lookup).is_err(), nth > 3, "read {nth}");
        assert_eq!(fs.faults(), 1);
        assert_eq!(get(&table, &lookup).unwrap().unwrap().1, *value);
    }
}

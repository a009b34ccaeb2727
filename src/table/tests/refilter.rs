//! A table whose filter was replaced equals, byte for byte, the table that a builder writes with
//! the new filter.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use super::range_del::table_bytes;
use super::round_trip::{file_of, restamped};
use super::*;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::filter::FilterEncoding;
use crate::fs::RealFs;
use crate::table::format::checksum::ChecksumKind;
use crate::table::format::properties::names;
use crate::table::{PrefixExtractor, ScanOptions, TableCursor};

#[test]
fn another_filter_makes_the_bytes_of_a_table_that_was_written_with_it() {
    let prefix = FilterKeys::Both(PrefixExtractor::capped(5).unwrap());
    let kinds = [
        ("none", FilterKeys::Whole),
        ("bloom(10)", FilterKeys::Whole),
        ("ribbon(7)", FilterKeys::Whole),
        ("burr(7)", FilterKeys::Whole),
        ("fpr(0.001)", prefix),
    ];
    let entries = [mixed_entries(600), mixed_entries(20), Entries::new()];
    for (entries, compression) in entries.iter().zip(Compression::ALL) {
        let tables = kinds.map(|(filter, filter_keys)| {
            let filter = filter.parse().unwrap();
            table_bytes(entries, TableOptions { filter, filter_keys, ..options(compression) }).0
        });
        for (from, bytes) in kinds.iter().zip(&tables) {
            let table = Table::open(file_of(bytes), context(1 << 20)).unwrap();
            for (to, expected) in kinds.iter().zip(&tables) {
                let found = refiltered(&table, to.0.parse().unwrap(), to.1).unwrap();
                assert!(found == *expected, "{from:?} to {to:?}, {compression:?}");
            }
        }
    }
}

/// Tables of other format versions and with other checksums were once refused, and `export --filter`
/// said nothing. Now the new table has the format version and the checksums of the old one. From
/// format version 6 on, the checksum of a block that moves changes with its offset.
#[test]
fn a_table_of_any_format_keeps_its_format() {
    let entries = mixed_entries(200);
    let kinds = ["none", "bloom(10)", "burr(7)"].map(|filter| filter.parse().unwrap());
    for compression in Compression::ALL {
        let written = kinds
            .map(|filter| table_bytes(&entries, TableOptions { filter, ..options(compression) }));
        for version in 2..=7 {
            for checksum in (0..=4).filter_map(ChecksumKind::from_byte) {
                let tables = written.each_ref().map(|(it, _)| restamped(it, version, checksum));
                for from in &tables {
                    let table = Table::open(file_of(from), context(1 << 20)).unwrap();
                    for (filter, expected) in kinds.iter().zip(&tables) {
                        let found = refiltered(&table, *filter, FilterKeys::Whole).unwrap();
                        assert!(found == *expected, "{filter}, {version}, {checksum:?}");
                    }
                }
            }
        }
    }
}

/// The entries of a table and where its data blocks are.
fn data_of(table: &Arc<Table>) -> (Entries, Vec<BlockHandle>) {
    let mut cursor = TableCursor::new(Arc::clone(table), ScanOptions::default());
    let mut entries = Entries::new();
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().unwrap();
    }
    (entries, data_blocks(table))
}

/// RocksDB's own tables: format versions 2 to 7, several checksums, dictionaries, and filter and
/// index in parts. Everything but the filter and the identity stays, and each new filter is used.
#[test]
fn every_table_of_rocksdb_gets_another_filter_and_keeps_the_rest() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb");
    let changes = [
        names::WHOLE_KEY_FILTERING,
        names::PREFIX_FILTERING,
        names::PREFIX_EXTRACTOR,
        names::DECOUPLED_FILTER_PARTS,
        names::DB_IDENTITY,
        names::SESSION_IDENTITY,
        names::ORIGINAL_FILE_NUMBER,
        names::INDEX_BYTES,
        names::INDEX_TOP_BYTES,
    ];
    let stays = |(name, _): &(&[u8], &[u8])| {
        let name = std::str::from_utf8(name).unwrap();
        !name.contains("filter") && !changes.contains(&name)
    };
    let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    let mut versions = BTreeSet::new();
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "sst") {
            continue;
        }
        let name = path.display();
        let table = Table::open(RealFs.open(&path).unwrap(), context(1 << 20)).unwrap();
        let bytes =
            refiltered(&table, FilterSpec::bloom(12.0).unwrap(), FilterKeys::Whole).unwrap();
        let new = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
        assert_eq!(new.verify().unwrap(), table.verify().unwrap(), "{name}");
        assert!(data_of(&new) == data_of(&table), "{name}");
        let (found, kept) = (new.footer(), table.footer());
        assert_eq!(
            (found.format_version, found.checksum, found.checksum_context_base),
            (kept.format_version, kept.checksum, kept.checksum_context_base),
            "{name}"
        );
        let of = |table: &Table| -> Vec<_> {
            table.properties().raw_entries().filter(stays).map(owned).collect()
        };
        assert_eq!(of(&new), of(&table), "{name}");
        assert_ne!(new.properties().identity(), table.properties().identity(), "{name}");
        let has_points =
            table.properties().entries() > table.ranges().map_or(0, |it| it.len() as u64);
        let encoding = has_points.then_some(FilterEncoding::RocksDb);
        assert_eq!(new.filter_encoding(), encoding, "{name}");
        assert_eq!(new.requested_filter(), Some("bloom(12)".parse().unwrap()), "{name}");
        versions.insert(kept.format_version);
    }
    assert!([2, 4, 5, 6, 7].iter().all(|version| versions.contains(version)), "{versions:?}");
}

/// A block of an unknown name may hold offsets that would be wrong in the new table.
#[test]
fn a_table_with_an_unknown_metadata_block_is_refused_by_name() {
    let (bytes, _) = table_bytes(&mixed_entries(20), options(Compression::None));
    // Without checksums, so that the name in the metaindex can be changed.
    let mut bytes = restamped(&bytes, 5, ChecksumKind::None);
    let name = b"fullfilter.rocksdb";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + 4] = b'x';
    let table = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
    let error = refiltered(&table, bloom(), FilterKeys::Whole).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Unsupported { .. }), "{text}");
    assert!(text.contains("\"fullxilter.rocksdb.BuiltinBloomFilter\" is unknown"), "{text}");
}

/// The closing of a database ends the call within a table.
#[test]
fn the_call_ends_before_any_data_block() {
    let (bytes, _) = table_bytes(&mixed_entries(200), options(Compression::None));
    let table = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
    let blocks = data_blocks(&table).len();
    for last in 0..blocks {
        let (fs, seen) = (MemFs::new(), Cell::new(0));
        let file = fs.create(Path::new("t.sst")).unwrap();
        let to = Refilter {
            filter: bloom(),
            filter_keys: FilterKeys::Whole,
            creator: &creator(),
            number: 7,
        };
        let goes_on = || match seen.replace(seen.get() + 1) {
            n if n == last => Err(Error::Closed),
            _ => Ok(()),
        };
        assert!(matches!(table.refilter(|| Ok(file), &to, goes_on), Err(Error::Closed)));
        assert_eq!(seen.get(), last + 1);
    }
    assert!(blocks > 10);
}

/// Replacing the filter fails if a data block is damaged, so that no damaged block is copied.
/// Damage in the padding between blocks does no harm, because padding is not copied.
#[test]
fn damage_is_not_copied() {
    let (bytes, _) = table_bytes(&mixed_entries(100), options(Compression::None));
    let whole = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
    let sound = refiltered(&whole, bloom(), FilterKeys::Whole).unwrap();
    let blocks = data_blocks(&whole);
    let mut in_padding = 0;
    for at in (0..blocks.last().unwrap().end().unwrap()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1;
        let table = Table::open(file_of(&damaged), context(1 << 20)).unwrap();
        let refiltered = refiltered(&table, bloom(), FilterKeys::Whole);
        if blocks.iter().any(|block| (block.offset..block.end().unwrap()).contains(&at)) {
            assert!(refiltered.is_err(), "byte {at}");
        } else {
            assert!(refiltered.unwrap() == sound, "byte {at}");
            in_padding += 1;
        }
    }
    assert!(in_padding > 0, "no padding was met");
}

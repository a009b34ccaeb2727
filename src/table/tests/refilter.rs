//! A table whose filter was replaced equals, byte for byte, the table that a builder writes with
//! the new filter.

use std::path::Path;

use super::range_del::table_bytes;
use super::round_trip::file_of;
use super::*;
use crate::error::Error;
use crate::fs::RealFs;
use crate::table::{FilterKeys, PrefixExtractor};

fn refiltered(table: &Table, filter: FilterSpec, keys: FilterKeys) -> Result<Vec<u8>> {
    let fs = MemFs::new();
    let path = Path::new("t.sst");
    let summary = table.refilter(fs.create(path).unwrap(), filter, keys)?;
    let bytes = fs.read(path).unwrap();
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    Ok(bytes)
}

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

#[test]
fn rocksdbs_tables_get_another_filter_or_are_refused() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rocksdb");
    for (name, can) in [
        ("r7-v5-bloom-snappy.sst", true),
        ("r11-v5-versions-none.sst", true),
        ("r7-v5-range-only.sst", true),
        ("r7-v5-partitioned-zstd.sst", true),
        ("r7-v4-legacybloom-none.sst", false),
        ("r11-v6-ribbon-lz4.sst", false),
        ("r11-v7-bloom-none.sst", false),
    ] {
        let file = RealFs.open(&fixtures.join(name)).unwrap();
        let table = Table::open(file, context(1 << 20)).unwrap();
        let burr = FilterSpec::burr(7.0).unwrap();
        match refiltered(&table, burr, FilterKeys::Whole) {
            Ok(bytes) => {
                assert!(can, "{name}");
                let new = Table::open(file_of(&bytes), context(1 << 20)).unwrap();
                assert_eq!(new.verify().unwrap(), table.verify().unwrap(), "{name}");
            }
            Err(error) => {
                assert!(!can && matches!(error, Error::Unsupported { .. }), "{name}: {error}");
            }
        }
    }
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

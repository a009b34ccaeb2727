//! The tables in `tests/fixtures/rocksdb`, except the one without entries: Maypole finds exactly
//! the entries that RocksDB's own `sst_dump` printed, and reads the filters. From the keys it
//! builds the same Bloom filters, byte for byte, where they are neither partitioned nor legacy.

use std::path::{Path, PathBuf};

use maypole::filter::{Family, FilterBlock, FilterBuilder, FilterSpec};
use maypole::hash64;
use maypole::table::{ChecksumKind, SstReader};

struct Fixture {
    name: &'static str,
    format_version: u32,
    filter: Option<Family>,
    filter_partitions: usize,
}

const fn fixture(
    name: &'static str,
    format_version: u32,
    filter: Option<Family>,
    filter_partitions: usize,
) -> Fixture {
    Fixture { name, format_version, filter, filter_partitions }
}

const FIXTURES: [Fixture; 14] = [
    fixture("r7-v2-nofilter-none", 2, None, 0),
    fixture("r7-v4-legacybloom-none", 4, Some(Family::LegacyBloom), 1),
    fixture("r7-v5-bloom-snappy", 5, Some(Family::Bloom), 1),
    fixture("r7-v5-partitioned-zstd", 5, Some(Family::Bloom), 5),
    fixture("r11-v5-versions-none", 5, Some(Family::Bloom), 1),
    fixture("r11-v5-parts-bloom", 5, Some(Family::Bloom), 17),
    fixture("r11-v5-parts-ribbon", 5, Some(Family::Ribbon), 11),
    fixture("r11-v6-ribbon-lz4", 6, Some(Family::Ribbon), 1),
    fixture("r11-v7-bloom-none", 7, Some(Family::Bloom), 1),
    fixture("r7-v5-dictionary-lz4", 5, Some(Family::Bloom), 1),
    fixture("r7-v5-dictionary-zlib", 5, Some(Family::Bloom), 1),
    fixture("r7-v5-dictionary-zstd-samples", 5, Some(Family::Bloom), 1),
    fixture("r7-v5-dictionary-zstd-trained", 5, Some(Family::Bloom), 1),
    fixture("r7-v5-small-bzip2", 5, Some(Family::Bloom), 1),
];

impl Fixture {
    fn path(&self, extension: &str) -> PathBuf {
        directory().join(format!("{}.{extension}", self.name))
    }

    fn open(&self) -> SstReader {
        SstReader::open(self.path("sst")).unwrap()
    }

    /// What `sst_dump` printed. The tables of one version of db_bench have the same entries.
    fn scan(&self) -> String {
        let name = match self.name {
            "r11-v5-versions-none" => self.name,
            name if name.contains("-dictionary-") || name.contains("-small-") => "r7-small",
            "r11-v5-parts-bloom" | "r11-v5-parts-ribbon" => "r11-v5-parts",
            name => name.split('-').next().unwrap(),
        };
        std::fs::read_to_string(directory().join(format!("{name}.scan"))).unwrap()
    }
}

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/rocksdb"))
}

#[test]
fn every_entry_is_what_sst_dump_printed() {
    for fixture in &FIXTURES {
        let scan = fixture.scan();
        let reader = fixture.open();
        let mut entries = reader.entries();
        for (i, expected) in scan.lines().enumerate() {
            let entry = entries.next_entry().unwrap().expect("fewer entries than sst_dump saw");
            assert_eq!(entry.to_string(), expected, "{}, entry {i}", fixture.name);
        }
        assert_eq!(entries.next_entry().unwrap(), None, "{}", fixture.name);
    }
}

/// Decompression of a data block may need any byte of the dictionary, so a table with a damaged
/// dictionary does not open.
#[test]
fn each_flipped_byte_of_a_dictionary_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for fixture in FIXTURES.iter().filter(|fixture| fixture.name.contains("-dictionary-")) {
        let is_dictionary = |name: &str| name == "rocksdb.compression_dict";
        let reader = fixture.open();
        let found = reader.metaindex().iter().find(|(name, _)| is_dictionary(name));
        let handle = found.expect("a dictionary").1;
        let bytes = std::fs::read(fixture.path("sst")).unwrap();
        // Payload, type and checksum.
        for offset in (handle.offset..handle.offset + handle.bytes + 5).step_by(97) {
            let mut flipped = bytes.clone();
            flipped[offset as usize] ^= 1;
            let path = dir.path().join("flipped.sst");
            std::fs::write(&path, flipped).unwrap();
            match SstReader::open(&path) {
                Err(error @ maypole::Error::Corruption { .. }) => {
                    assert!(error.to_string().contains("flipped.sst"), "{error}");
                }
                other => panic!("{}, byte {offset}: {:?}", fixture.name, other.err()),
            }
        }
    }
}

#[test]
fn every_checksum_holds_and_no_filter_misses_a_key() {
    for fixture in &FIXTURES {
        let check = fixture.open().verify().unwrap();
        let scan = fixture.scan();
        assert_eq!(check.entries, scan.lines().count() as u64, "{}", fixture.name);
        assert_eq!(check.filter_misses, 0, "{}", fixture.name);
        assert!(check.data_blocks > 1, "{}", fixture.name);
    }
}

#[test]
fn footers_properties_and_filters_are_seen_as_they_are() {
    for fixture in &FIXTURES {
        let reader = fixture.open();
        assert_eq!(reader.footer().format_version, fixture.format_version, "{}", fixture.name);
        assert_eq!(reader.footer().checksum, ChecksumKind::Xxh3);
        let name = reader.properties().text("rocksdb.comparator");
        assert_eq!(name, Some("leveldb.BytewiseComparator"));
        let info = reader.filter().unwrap();
        let family = info.as_ref().and_then(|info| info.family);
        assert_eq!(family, fixture.filter, "{}", fixture.name);
        let Some(info) = info else { continue };
        let parts = reader.filters().unwrap();
        assert_eq!(parts.len(), fixture.filter_partitions, "{}", fixture.name);
        assert!(parts.iter().all(|filter| filter.untrusted().is_none()), "{}", fixture.name);
        assert!((6.0..13.0).contains(&info.bits_per_key()), "{} {info:?}", fixture.name);
        assert!((0.001..0.03).contains(&info.predicted_fpr.unwrap()), "{} {info:?}", fixture.name);
    }
}

#[test]
fn filters_say_no_to_most_absent_keys() {
    for fixture in FIXTURES.iter().filter(|fixture| fixture.filter.is_some()) {
        let reader = fixture.open();
        let absent = 5000;
        let passed = (0..absent)
            .filter(|i| reader.may_contain(format!("absent {i}").as_bytes()).unwrap())
            .count();
        assert!(passed < absent / 33, "{}: {passed} of {absent}", fixture.name);
    }
}

/// The Bloom filter of a table's keys, built by Maypole.
pub fn filter_of_keys(table: &Path, bits_per_key: f64) -> FilterBlock {
    let mut builder = FilterBuilder::new(FilterSpec::bloom(bits_per_key).unwrap());
    let reader = SstReader::open(table).unwrap();
    let mut entries = reader.entries();
    while let Some(entry) = entries.next_entry().unwrap() {
        builder.add(hash64(entry.user_key));
    }
    builder.finish().expect("keys make a filter")
}

#[test]
fn the_keys_make_rocksdbs_bloom_blocks_byte_for_byte() {
    let mut compared = 0;
    for fixture in &FIXTURES {
        if (fixture.filter, fixture.filter_partitions) == (Some(Family::Bloom), 1) {
            let stored = fixture.open().filters().unwrap();
            // RocksDB 11 derives the number of probes from the rounded size of the filter. Here 603
            // keys get 768 bytes, which are 10.18 bits a key and so 7 probes. Exactly 10 bits a key
            // get 6 probes.
            let bits = if fixture.name == "r11-v5-versions-none" { 10.18 } else { 10.0 };
            let ours = filter_of_keys(&fixture.path("sst"), bits);
            assert!(stored[0].bytes() == ours.bytes(), "{}", fixture.name);
            compared += 1;
        }
    }
    assert_eq!(compared, 8);
}

#[test]
fn range_deletions_are_listed() {
    let ranges = FIXTURES[4].open().range_deletions();
    assert_eq!(ranges.len(), 3);
    assert!(ranges.iter().all(|range| range.start < range.end && range.sequence > 0));
    assert!(FIXTURES[0].open().range_deletions().is_empty());
}

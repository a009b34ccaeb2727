//! The contract of every family, tested once for all of them: no key is ever missed, a reader of
//! bytes that are not a filter answers "maybe", and rates are as predicted. Also: Bloom and Ribbon
//! blocks are RocksDB's byte for byte, and RocksDB's legacy filter is read.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::hashes::HashList;
use super::*;
use crate::hash::{LEGACY_BLOOM_SEED, hash32, hash64};

/// Specs of all families that can be written, by stored bits or by false-positive rate.
const SPECS: &[&str] = &[
    "bloom(1)",
    "bloom(5)",
    "bloom(9.9)",
    "bloom(16)",
    "bloom(100)",
    "fpr(0.01)",
    "ribbon(1)",
    "ribbon(5.5)",
    "ribbon(7)",
    "ribbon(20)",
    "ribbon(32)",
    "ribbon_like_bloom(10)",
    "fpr(0.01, ribbon)",
    "burr(1)",
    "burr(4.5)",
    "burr(7)",
    "burr(20)",
    "burr(32)",
    "fpr(0.01, burr)",
    "fuse(4.6)",
    "fuse(9)",
    "fuse(20)",
    "fpr(0.01, fuse)",
];

fn random_hashes(seed: u64, count: usize) -> Vec<KeyHash> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count).map(|_| rng.random()).collect()
}

fn block_of(spec: &str, hashes: &[KeyHash]) -> FilterBlock {
    let mut builder = FilterBuilder::new(spec.parse().unwrap()).verify(false);
    hashes.iter().for_each(|&hash| builder.add(hash));
    builder.finish().unwrap()
}

/// Builds a filter, opens its stored bytes, and queries every hash by `may_contain_many`, by
/// `may_contain`, and by `prepare` and `finish`. Returns how many hashes the filter missed.
fn missed_keys(spec: &str, hashes: &[KeyHash]) -> usize {
    let block = block_of(spec, hashes);
    let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
    assert_eq!(filter.untrusted(), None, "{spec}, {} keys", hashes.len());
    assert_eq!(filter.family(), Some(block.family()));
    let mut answers = vec![false; hashes.len()];
    filter.may_contain_many(hashes, &mut answers);
    hashes
        .iter()
        .zip(answers)
        .filter(|&(&hash, many)| {
            let one = filter.may_contain(hash);
            let two_steps = filter.finish(filter.prepare(hash));
            assert_eq!((one, two_steps), (many, many), "{spec}: the ways disagree");
            !many
        })
        .count()
}

#[test]
fn no_filter_of_any_family_and_size_misses_a_key() {
    let (mut seed, mut asked) = (0, 0);
    for spec in SPECS {
        for keys in (1..40).chain([63, 64, 65, 100, 255, 500, 1000, 3000, 10_000, 50_000]) {
            seed += 1;
            assert_eq!(missed_keys(spec, &random_hashes(seed, keys)), 0, "{spec}, {keys} keys");
            asked += keys;
        }
    }
    println!("{asked} keys, three kinds of query of {} filters, 0 missed", SPECS.len());
}

#[test]
fn hashes_that_crowd_together_are_not_missed() {
    for spec in SPECS {
        // The same hash many times. Other hashes separate the repetitions, because a builder skips
        // a hash that equals the one before it.
        let repeated: Vec<u64> = (0..4000).map(|i| if i % 2 == 0 { 42 } else { i }).collect();
        // Hashes with equal high bits, hashes with equal low bits, and extreme hashes.
        let low: Vec<u64> = (0..4000).collect();
        let high: Vec<u64> = (0..4000u64).map(|i| i << 52).collect();
        let ends = vec![0, u64::MAX, 1, u64::MAX - 1, 1 << 63, (1 << 32) - 1, 1 << 32];
        for hashes in [repeated, low, high, ends] {
            assert_eq!(missed_keys(spec, &hashes), 0, "{spec}");
        }
    }
}

/// Like the test `no_filter_of_any_family_and_size_misses_a_key`, but with many more filters, each
/// of up to ten million keys. Run it after a change to a builder, because some faults appear in
/// only one filter of a thousand.
///
/// ```sh
/// cargo test --release --lib no_key_is_missed_in_a_billion -- --ignored --nocapture
/// ```
///
/// The environment variable `MAYPOLE_FILTER_QUERIES` sets the number of queries; the default is a
/// billion.
#[test]
#[ignore = "takes minutes; run by hand after a change to a builder, with --release"]
fn no_key_is_missed_in_a_billion_queries() {
    const SEED: u64 = 99;
    let wanted = std::env::var("MAYPOLE_FILTER_QUERIES");
    let wanted = wanted.map_or(1_000_000_000, |text| text.replace('_', "").parse().unwrap());
    let mut rng = StdRng::seed_from_u64(SEED);
    let (mut queries, mut filters) = (0, 0);
    let mut of_family: Vec<(Family, u64)> = Vec::new();
    let mut sizes = vec![10_000_000, 0];
    while queries < wanted {
        // The logarithm of the size is distributed uniformly, so that small filters are as frequent
        // as large ones.
        let keys = sizes.pop().unwrap_or_else(|| 2f64.powf(rng.random_range(0.0..23.3)) as usize);
        let hashes = random_hashes(rng.random(), keys);
        for spec in SPECS {
            let mut builder = FilterBuilder::new(spec.parse().unwrap()).verify(false);
            hashes.iter().for_each(|&hash| builder.add(hash));
            let Some(block) = builder.finish() else {
                assert_eq!(keys, 0, "{spec}: no filter");
                continue;
            };
            let family = block.family();
            let mut answers = vec![false; keys];
            block.into_reader().may_contain_many(&hashes, &mut answers);
            assert!(!answers.contains(&false), "{spec}, {keys} keys");
            queries += keys as u64;
            filters += 1;
            match of_family.iter_mut().find(|(other, _)| *other == family) {
                Some((_, count)) => *count += keys as u64,
                None => of_family.push((family, keys as u64)),
            }
        }
    }
    println!("{queries} queries of {filters} filters, seed {SEED}, 0 missed keys; {of_family:?}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn observed_false_positive_rates_are_the_predicted_ones() {
    for (spec, absent) in [
        ("bloom(1)", 100_000),
        ("bloom(5)", 500_000),
        ("bloom(9.9)", 3_000_000),
        ("bloom(16)", 12_000_000),
        ("fpr(0.01)", 3_000_000),
        ("ribbon(1.5)", 100_000),
        ("ribbon(4)", 500_000),
        ("ribbon(7)", 3_000_000),
        ("ribbon(10.5)", 12_000_000),
        ("ribbon_like_bloom(10)", 3_000_000),
        ("burr(2)", 200_000),
        ("burr(4.5)", 500_000),
        ("burr(7)", 1_500_000),
        ("burr(10)", 12_000_000),
        ("fpr(0.01, burr)", 1_500_000),
        ("fuse(4.8)", 500_000),
        ("fuse(8.5)", 1_500_000),
        ("fuse(11)", 6_000_000),
    ] {
        let block = block_of(spec, &random_hashes(7, 100_000));
        let predicted = block.predicted_fpr();
        let filter = block.into_reader();
        let mut answers = vec![false; 100_000];
        let mut positives = 0;
        for round in 0..absent / 100_000 {
            filter.may_contain_many(&random_hashes(1000 + round, 100_000), &mut answers);
            positives += answers.iter().filter(|&&answer| answer).count();
        }
        let observed = positives as f64 / absent as f64;
        let ratio = observed / predicted;
        // Each filter gives at least 9,000 false positives, so one standard deviation is about 1 %
        // of their number.
        assert!((0.95..1.05).contains(&ratio), "{spec}: {observed}, predicted {predicted}");
    }
}

#[test]
fn stored_bits_are_the_bits_asked_for() {
    for keys in [10_000, 100_000] {
        let hashes = random_hashes(8, keys);
        for (spec, bits) in [
            ("bloom(5)", 5.0),
            ("bloom(9.9)", 9.9),
            ("bloom(16)", 16.0),
            ("ribbon(1)", 1.0),
            ("ribbon(7)", 7.0),
            ("ribbon(19.3)", 19.3),
            ("burr(3.3)", 3.3),
            ("burr(7)", 7.0),
            ("burr(20)", 20.0),
        ] {
            let stored = block_of(spec, &hashes).bits_per_key();
            assert!((stored / bits - 1.0).abs() < 0.02, "{spec}, {keys} keys: {stored}");
        }
    }
}

#[test]
fn a_capped_filter_is_no_larger_and_misses_no_key() {
    let hashes = random_hashes(3, 20_000);
    for spec in ["bloom(10)", "ribbon(7)", "burr(7)", "fuse(9.1)", "fpr(0.001, burr)"] {
        let free = block_of(spec, &hashes).bytes().len();
        for most in [4 << 10, 16 << 10, 1 << 20] {
            let capped = format!("capped({spec}, {most}B)");
            let bytes = block_of(&capped, &hashes).bytes().len();
            match free <= most {
                true => assert_eq!(bytes, free, "{capped}"),
                false => assert!(bytes <= most && bytes > most * 4 / 5, "{capped}: {bytes}"),
            }
            assert_eq!(missed_keys(&capped, &hashes), 0, "{capped}");
        }
    }
    // A filter of less than one bit a key is not built. Here 20,000 keys would get 0.4 bits each.
    let mut builder = FilterBuilder::new("capped(bloom(10), 1KiB)".parse().unwrap());
    hashes.iter().for_each(|&hash| builder.add(hash));
    assert!(builder.finish().is_none());
}

#[test]
fn a_rate_asked_for_is_reached() {
    let hashes = random_hashes(9, 20_000);
    for (spec, rate) in [
        ("fpr(0.1)", 0.1),
        ("fpr(0.01)", 0.01),
        ("fpr(0.0001)", 1e-4),
        ("fpr(0.6, burr)", 0.6),
        ("fpr(0.1, burr)", 0.1),
        ("fpr(0.01, burr)", 0.01),
        ("fpr(0.0001, burr)", 1e-4),
    ] {
        let predicted = block_of(spec, &hashes).predicted_fpr();
        assert!((0.9..=1.0).contains(&(predicted / rate)), "{spec}: {predicted}");
    }
}

/// The keys of the filters under `tests/data/rocksdb-filters`, which RocksDB wrote. As RocksDB's
/// `db_bench` makes them, a key is a number as 8 bytes big-endian, followed by eight digits `0`.
fn rocksdb_keys() -> Vec<Vec<u8>> {
    include_str!("../tests/data/rocksdb-filters/keys.txt")
        .lines()
        .map(|line| [&line.parse::<u64>().unwrap().to_be_bytes(), &b"00000000"[..]].concat())
        .collect()
}

#[test]
fn a_bloom_block_is_rocksdbs_byte_for_byte() {
    let stored = include_bytes!("../tests/data/rocksdb-filters/bloom.filter");
    let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0).unwrap());
    rocksdb_keys().iter().for_each(|key| builder.add(hash64(key)));
    let block = builder.finish().unwrap();
    assert_eq!(block.keys(), 1886);
    assert_eq!(block.bytes(), stored);
}

#[test]
fn a_ribbon_block_is_rocksdbs_byte_for_byte() {
    let stored = include_bytes!("../tests/data/rocksdb-filters/ribbon.filter");
    let mut builder = FilterBuilder::new(FilterSpec::ribbon_like_bloom(10.0).unwrap());
    rocksdb_keys().iter().for_each(|key| builder.add(hash64(key)));
    let block = builder.finish().unwrap();
    assert_eq!(block.family(), Family::Ribbon);
    assert_eq!(block.bytes(), stored);
}

#[test]
fn rocksdbs_legacy_filter_is_read() {
    let stored = include_bytes!("../tests/data/rocksdb-filters/legacy-bloom.filter");
    let filter = FilterReader::from_bytes(stored, FilterEncoding::RocksDb);
    assert_eq!(filter.family(), Some(Family::LegacyBloom));
    assert_eq!(filter.hash_kind(), HashKind::LegacyHash32);
    assert_eq!(filter.probes(), Some(6));
    let may_contain = |key: &[u8]| filter.may_contain(u64::from(hash32(key, LEGACY_BLOOM_SEED)));
    assert!(rocksdb_keys().iter().all(|key| may_contain(key)));
    let absent = 200_000;
    let positives = (0..absent).filter(|i: &u32| may_contain(format!("absent {i}").as_bytes()));
    let ratio = positives.count() as f64 / f64::from(absent) / filter.predicted_fpr(1886);
    assert!((0.8..1.25).contains(&ratio), "observed / predicted: {ratio}");
}

/// Checks that a reader of these bytes answers "maybe" to everything, in every kind of query, and
/// gives the reason why it does not trust the bytes.
fn assert_untrusted(bytes: &[u8], encoding: FilterEncoding) {
    let filter = FilterReader::from_bytes(bytes, encoding);
    let tail = &bytes[bytes.len().saturating_sub(8)..];
    assert!(filter.untrusted().is_some(), "{} bytes, ending {tail:02x?}", bytes.len());
    assert_eq!(filter.family(), None);
    assert_eq!(filter.predicted_fpr(10), 1.0);
    let hashes = random_hashes(3, 100);
    let mut answers = vec![false; hashes.len()];
    filter.may_contain_many(&hashes, &mut answers);
    assert!(answers.iter().all(|&answer| answer));
    assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
    assert!(hashes.iter().all(|&hash| filter.finish(filter.prepare(hash))));
}

/// A filter block of `bytes` zero bytes and this trailer. A reader that took the trailer for valid
/// would answer "no" to nearly every key.
fn with_trailer(bytes: usize, trailer: [u8; 5]) -> Vec<u8> {
    [vec![0; bytes], trailer.to_vec()].concat()
}

#[test]
fn malformed_filters_answer_maybe() {
    use FilterEncoding::{BinaryFuse, BumpedRibbon, RocksDb};
    // Blocks of up to 6 bytes are too short for every family, whatever their bytes are.
    for encoding in [RocksDb, BumpedRibbon, BinaryFuse] {
        for length in 0..=6 {
            for byte in [0, 1, 6, 0x7f, 0xfe, 0xff] {
                assert_untrusted(&vec![byte; length], encoding);
            }
        }
    }
    // Bloom: a trailer with any one wrong byte after the marker, on a payload of the right length.
    for kind in 1..=255 {
        assert_untrusted(&with_trailer(128, [0xff, kind, 6, 0, 0]), RocksDb);
    }
    for packed in (0..=255u8).filter(|packed| !(1..=30).contains(packed)) {
        assert_untrusted(&with_trailer(128, [0xff, 0, packed, 0, 0]), RocksDb);
    }
    for reserved in 1..=255 {
        assert_untrusted(&with_trailer(128, [0xff, 0, 6, reserved, 0]), RocksDb);
        assert_untrusted(&with_trailer(128, [0xff, 0, 6, 0, reserved]), RocksDb);
    }
    // Bloom: payloads that are empty, or not a whole number of lines (64 bytes).
    for bytes in [0, 1, 2, 63, 65, 127, 129, 191] {
        assert_untrusted(&with_trailer(bytes, [0xff, 0, 6, 0, 0]), RocksDb);
    }
    // Ribbon: fewer than two blocks, and payloads that are empty or not a whole number of segments
    // (16 bytes).
    for blocks in [0, 1] {
        assert_untrusted(&with_trailer(128, [0xfe, 9, blocks, 0, 0]), RocksDb);
    }
    for bytes in [0, 1, 15, 17, 127, 129] {
        assert_untrusted(&with_trailer(bytes, [0xfe, 9, 2, 0, 0]), RocksDb);
    }
    // Markers of no family, and 0, the marker of RocksDB's filter that always answers "maybe".
    for marker in (0x80..=0xfd).chain([0]) {
        assert_untrusted(&with_trailer(128, [marker, 0, 6, 0, 0]), RocksDb);
    }
    // Legacy: no lines, numbers of lines that do not divide the length, lines of impossible sizes.
    for lines in [0u32, 3, 5, 127, 129, 256, u32::MAX] {
        let [a, b, c, d] = lines.to_le_bytes();
        assert_untrusted(&with_trailer(128, [6, a, b, c, d]), RocksDb);
    }
    for (bytes, lines) in [(96, 1), (0, 1), (7, 14), (1, 1), (8, 1), (2048, 1)] {
        assert_untrusted(&with_trailer(bytes, [6, lines, 0, 0, 0]), RocksDb);
    }
}

#[test]
fn a_block_cut_anywhere_is_untrusted_or_harmless() {
    for spec in SPECS {
        let hashes = random_hashes(4, 2000);
        let block = block_of(spec, &hashes);
        for length in (0..block.bytes().len()).step_by(37) {
            let filter = FilterReader::from_bytes(&block.bytes()[..length], block.encoding());
            // A cut block ends in payload bits instead of its trailer, and these bits may happen to
            // look like a trailer. Only then may the reader trust the block and miss keys.
            let missed = hashes.iter().filter(|&&hash| !filter.may_contain(hash)).count();
            assert!(missed == 0 || filter.untrusted().is_none(), "{spec} cut to {length}");
        }
    }
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let mut rng = StdRng::seed_from_u64(5);
    let hashes = random_hashes(6, 40);
    let mut answers = vec![false; hashes.len()];
    for _ in 0..100_000 {
        // Short random blocks. Their last 30 bytes hold many zeros, small numbers and markers, so
        // that some blocks pass the first checks of a reader.
        let mut bytes = vec![0; 64 * rng.random_range(0..6) + rng.random_range(0..12)];
        rng.fill(&mut bytes[..]);
        for byte in bytes.iter_mut().rev().take(30) {
            match rng.random_range(0..4) {
                0 => *byte = 0,
                1 => *byte %= 8,
                2 => *byte |= 0xfe,
                _ => {}
            }
        }
        for encoding in
            [FilterEncoding::RocksDb, FilterEncoding::BumpedRibbon, FilterEncoding::BinaryFuse]
        {
            let filter = FilterReader::from_bytes(&bytes, encoding);
            filter.may_contain_many(&hashes, &mut answers);
            for &hash in &hashes {
                filter.may_contain(hash);
                // A caller may prepare a query with one filter and finish it with another. Then the
                // position in the query means nothing in this filter, like a random one. `finish`
                // must not panic.
                filter.finish(PreparedQuery::at(hash, rng.random()));
            }
            filter.fill();
            assert!(filter.predicted_fpr(1000) >= 0.0);
        }
    }
}

#[test]
fn a_build_that_loses_a_key_is_noticed() {
    // RocksDB's stored filter holds the hashes of its own keys, but not the 1,000 random hashes in
    // `more`. `misses_a_key` is the check that runs after every build, unless it is switched off.
    let stored = include_bytes!("../tests/data/rocksdb-filters/bloom.filter");
    let filter = FilterReader::from_bytes(stored, FilterEncoding::RocksDb);
    let present: HashList = rocksdb_keys().iter().map(|key| hash64(key)).collect();
    assert!(!builder::misses_a_key(&filter, &present));
    let more: HashList = present.iter().chain(random_hashes(11, 1000)).collect();
    assert!(builder::misses_a_key(&filter, &more));
}

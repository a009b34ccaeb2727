//! The fuzz targets, fed random bytes, changed samples, and the seeds of the repository's `fuzz`.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::{Family, FilterBuilder, FilterReader, FilterSpec, hash64};

type Target = fn(&[u8]);

const FILTERS: [(Family, Target); 5] = [
    (Family::Bloom, |data| filter(Family::Bloom, data)),
    (Family::LegacyBloom, |data| filter(Family::LegacyBloom, data)),
    (Family::Ribbon, |data| filter(Family::Ribbon, data)),
    (Family::Burr, |data| filter(Family::Burr, data)),
    (Family::Fuse, |data| filter(Family::Fuse, data)),
];

/// The folder of the fuzzers. It is not in a downloaded package.
fn fuzzers() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    folder.exists().then_some(folder)
}

/// The names of the fuzzers and their targets.
fn targets() -> Vec<(String, Target)> {
    let of_families = FILTERS.map(|(family, target)| (format!("filter_{family}"), target));
    let mut all = of_families.to_vec();
    all.push(("filter_round_trip".into(), filter_round_trip));
    all
}

#[test]
fn every_target_has_its_fuzzer_and_seeds_and_no_seed_breaks_a_promise() {
    let Some(folder) = fuzzers() else {
        println!("skipped: the fuzzers are not in a downloaded package");
        return;
    };
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, target) in targets() {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks {name}");
        assert!(folder.join(format!("fuzz_targets/{name}.rs")).exists(), "{name}");
        let mut seeds = 0;
        for seed in fs::read_dir(folder.join("seeds").join(&name)).unwrap() {
            target(&fs::read(seed.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "{name} has no seeds");
    }
}

/// Runs `target` on `good` and on `count` copies of it, each with one to four random changes: a bit
/// flipped, a byte replaced, or a few bytes cut out or doubled.
fn mutations(seed: u64, count: usize, good: &[u8], target: fn(&[u8])) {
    target(good);
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..count {
        let mut data = good.to_vec();
        for _ in 0..random.random_range(1..5) {
            if data.is_empty() {
                break;
            }
            let at = random.random_range(0..data.len());
            let end = (at + random.random_range(1..9)).min(data.len());
            match random.random_range(0..6) {
                0 | 1 => data[at] ^= 1 << random.random_range(0..8),
                2 => data[at] = random.random(),
                3 => data[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
                4 => drop(data.drain(at..end)),
                _ => {
                    let piece = data[at..end].to_vec();
                    data.splice(at..at, piece);
                }
            }
        }
        target(&data);
    }
}

#[test]
fn any_bytes_are_answered_as_a_filter() {
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..300 {
        let mut data = vec![0; random.random_range(8..4000)];
        random.fill(&mut data[..]);
        for (_, target) in FILTERS {
            target(&data);
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_changed_filter_is_answered_and_often_believed() {
    for (family, target) in FILTERS {
        mutations(6, 2000, &filter_sample(family), target);
        // The fuzz target repairs trailers so that the fuzzer reaches the queries of damaged
        // filters. This helps only if the reader trusts most of the repaired filters, because it
        // answers for an untrusted filter without reading the filter's bits.
        let mut random = StdRng::seed_from_u64(7);
        let mut believed = 0;
        for _ in 0..300 {
            let mut block = filter_sample(family)[8..].to_vec();
            let at = random.random_range(0..block.len());
            block[at] ^= 1 << random.random_range(0..8);
            (family.info().repair)(&mut block);
            let reader = FilterReader::from_bytes(&block, family.info().encoding);
            believed += u32::from(reader.untrusted().is_none());
        }
        assert!(believed > 200, "{family}: {believed} of 300 believed");
    }
}

#[test]
fn built_filters_hold_the_keys_of_any_set() {
    let mut random = StdRng::seed_from_u64(8);
    for _ in 0..300 {
        let mut data = vec![0; random.random_range(4..400)];
        random.fill(&mut data[..]);
        filter_round_trip(&data);
    }
}

/// An input of the target [`filter`]: eight bytes that give the queries, and a filter of 2000 keys.
/// With few keys, burr would fall back to Bloom.
fn filter_sample(family: Family) -> Vec<u8> {
    // Legacy filters cannot be written, so a Bloom filter is built, and `repair` gives it the
    // trailer of a legacy filter.
    let spec = match FilterSpec::stored(9.0, family) {
        Ok(spec) => spec,
        Err(_) => FilterSpec::bloom(9.0).unwrap(),
    };
    let mut builder = FilterBuilder::new(spec);
    (0..2000u32).for_each(|n| builder.add(hash64(&n.to_le_bytes())));
    let built = builder.finish().unwrap();
    assert!(built.family() == family || family == Family::LegacyBloom);
    let mut block = built.bytes().to_vec();
    if let Family::LegacyBloom = family {
        (family.info().repair)(&mut block);
    }
    [&[2; 8][..], &block].concat()
}

/// Replaces the seeds of filters in `fuzz/seeds`. To run this test:
/// `cargo test --lib fuzzing::tests::write_the_seeds_of_filters -- --ignored`.
#[test]
#[ignore = "writes into the source"]
fn write_the_seeds_of_filters() {
    let round_trips = [[0, 90, 9, 0], [1, 60, 200, 0], [2, 45, 0, 2], [2, 10, 255, 7]];
    let round_trips = round_trips.map(|head| [&head[..], &[7; 40]].concat()).to_vec();
    let samples = FILTERS.map(|(family, _)| vec![filter_sample(family)]).into_iter();
    let folder = fuzzers().expect("the repository has the fuzzers");
    for ((name, _), inputs) in targets().into_iter().zip(samples.chain([round_trips])) {
        for (i, input) in inputs.iter().enumerate() {
            fs::write(folder.join("seeds").join(&name).join(format!("{i:02}")), input).unwrap();
        }
    }
}

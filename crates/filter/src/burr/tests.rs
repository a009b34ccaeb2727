//! Tests of the bumped ribbon alone: the fast code against the plain version (`reference`),
//! predicted rates against observed ones, damaged filters, and the bytes of the format. The
//! contract of every family is tested in `crate::tests`.

use super::build::build_with;
use super::layout::Layout;
use super::sizing::Plan;
use super::*;
use crate::cpu::Isa;
use crate::family::Target;
use crate::geometry::Geometry;
use crate::hash64;
use crate::memory::LineBuf;
use query::BurrGeometry;
use row::mix;

fn hashes(seed: u64, keys: usize) -> Vec<u64> {
    (0..keys as u64).map(|i| mix(mix(seed + 1) ^ mix(i))).collect()
}

const BITS_7: Target = Target::MillibitsPerKey(7000);

/// A plan of the given width, 32 or 64, for any number of keys.
fn plan(width: u32) -> Plan {
    let plan = if width == 64 { Plan::wide() } else { Plan::for_keys(1000).unwrap() };
    assert_eq!(plan.width, width);
    plan
}

fn build_in_order(plan: Plan, hashes: &[u64], target: Target) -> LineBuf {
    build_with(Isa::detect(), plan, &[hashes], target).unwrap()
}

/// Queries every hash by `may_contain_many`, by `may_contain`, and by `prepare` and `finish`.
/// Returns the answers, which must agree.
fn answers(block: &LineBuf, hashes: &[u64]) -> Vec<bool> {
    let geometry = BurrGeometry::parse(block).unwrap();
    let mut answers = vec![false; hashes.len()];
    geometry.may_contain_many(block, hashes, &mut answers);
    for (&hash, &answer) in hashes.iter().zip(&answers) {
        assert_eq!(geometry.may_contain(block, hash), answer);
        assert_eq!(geometry.finish(block, hash, geometry.prepare(block, hash)), answer);
    }
    answers
}

fn misses(block: &LineBuf, hashes: &[u64]) -> usize {
    answers(block, hashes).iter().filter(|&&answer| !answer).count()
}

/// The plain version shares only this code with the fast one: the sizes of the filter and of a
/// window, the trailer, the tags, and the hash of the next layer.
#[test]
fn the_bytes_and_the_answers_are_those_of_the_plain_version() {
    let absent = hashes(12, 500);
    for width in [32, 64] {
        let around_the_seam = (0..200).map(|seed| width as usize * (1 + seed % 40));
        let sizes = (1..60).chain(around_the_seam).chain([1000, 3000, 20_000, 70_000]);
        for (seed, keys) in sizes.enumerate() {
            let hashes = hashes(seed as u64, keys);
            let target = [BITS_7, Target::Fpr(0.3), Target::MillibitsPerKey(13_400)][seed % 3];
            let expected = reference::build::build(plan(width), &hashes, target).unwrap();
            let block = build_in_order(plan(width), &hashes, target);
            assert!(*block == *expected, "w = {width}, seed {seed}, {keys} keys");
            let asked: Vec<u64> = hashes.into_iter().take(500).chain(absent.clone()).collect();
            for (&hash, answer) in asked.iter().zip(answers(&block, &asked)) {
                assert_eq!(
                    reference::may_contain(&expected, hash),
                    answer,
                    "w = {width}, {keys} keys"
                );
            }
        }
    }
}

#[test]
fn no_size_misses_a_key() {
    for width in [32, 64] {
        for keys in (1..300).chain((300..3000).step_by(37)).chain([10_000, 65_537, 300_000]) {
            let hashes = hashes(keys as u64, keys);
            let block = build_in_order(plan(width), &hashes, BITS_7);
            assert_eq!(misses(&block, &hashes), 0, "w = {width}, {keys} keys");
        }
    }
}

/// Two streams band the two halves of a window. They once shared slots: rows of the left stream's
/// last bucket overflowed into the right stream's first slots, and were reduced there by rows of a
/// class that the right stream rolled back later. The rollback removed the rows of this class, but
/// the rows of the left stream stayed reduced by them, so 3 of 3,000 filters missed a key. Now the
/// left stream's last bucket waits until the right stream is done. The filters here have few
/// buckets, so that every bucket is near the border of the two halves.
#[test]
fn no_key_is_lost_where_two_streams_meet() {
    for width in [32, 64] {
        for seed in 0..3000 {
            let keys = width as usize * (4 + seed as usize % 40);
            let hashes = hashes(seed, keys);
            let block = build_in_order(plan(width), &hashes, Target::MillibitsPerKey(12_000));
            let geometry = BurrGeometry::parse(&block).unwrap();
            let mut found = vec![false; keys];
            geometry.may_contain_many(&block, &hashes, &mut found);
            assert!(!found.contains(&false), "w = {width}, seed {seed}, {keys} keys");
        }
    }
}

#[test]
fn the_order_of_the_keys_and_their_chunks_does_not_matter() {
    for (width, keys) in [(32, 40_000), (64, 3000), (64, 80_000)] {
        let in_order = hashes(1, keys);
        let block = build_in_order(plan(width), &in_order, BITS_7);
        let mut shuffled = in_order.clone();
        shuffled.sort_unstable_by_key(|&hash| mix(hash));
        let (first, second) = shuffled.split_at(keys / 3);
        let again = build_with(Isa::detect(), plan(width), &[first, &[], second], BITS_7);
        assert!(*block == *again.unwrap(), "w = {width}");
    }
}

#[test]
fn keys_added_twice_take_no_room() {
    for width in [32, 64] {
        let once = hashes(2, 3000);
        let twice = [&once[..], &once[..]].concat();
        // The filter is sized for 6000 keys. When a key is added the second time, it needs no
        // slot, so nothing is bumped.
        let block = build_in_order(plan(width), &twice, BITS_7);
        assert_eq!(misses(&block, &twice), 0);
        assert_eq!(Layout::decode(&block).unwrap().slots().len(), 1, "nothing is bumped");
    }
}

#[test]
fn every_kernel_builds_and_answers_alike() {
    for width in [32, 64] {
        for columns in [1, 4, 7, 8, 9, 16, 17, 32] {
            let keys = hashes(3, 2000);
            let target = Target::MillibitsPerKey(columns * 1000);
            let expected = build_with(Isa::Portable, plan(width), &[&keys], target).unwrap();
            let asked: Vec<u64> = keys.iter().copied().chain(hashes(4, 20_000)).collect();
            let mut all_answers = Vec::new();
            for isa in Isa::available() {
                let block = build_with(isa, plan(width), &[&keys], target).unwrap();
                assert!(*block == *expected, "{isa:?}, w = {width}, {columns} columns");
                let geometry = BurrGeometry::parse(&block).unwrap().with_isa(isa);
                let mut answers = vec![false; asked.len()];
                geometry.may_contain_many(&block, &asked, &mut answers);
                assert!(
                    asked
                        .iter()
                        .zip(&answers)
                        .all(|(&hash, &answer)| geometry.may_contain(&block, hash) == answer)
                );
                all_answers.push(answers);
            }
            assert!(all_answers.iter().all(|answers| *answers == all_answers[0]));
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn rates_are_the_predicted_ones_at_every_fraction_of_a_column() {
    for (width, keys) in [(64, 4000), (32, 4000), (32, 50_000)] {
        for millibits in [1000, 2000, 3500, 5300, 6000, 7000, 7600] {
            let target = Target::MillibitsPerKey(millibits);
            let block = build_in_order(plan(width), &hashes(5, keys), target);
            let geometry = BurrGeometry::parse(&block).unwrap();
            let absent = hashes(6, 2_000_000);
            let mut found = vec![false; absent.len()];
            geometry.may_contain_many(&block, &absent, &mut found);
            let observed =
                found.iter().filter(|&&found| found).count() as f64 / absent.len() as f64;
            // At least 10,000 positives: one standard deviation is 1 % or less.
            let ratio = observed / geometry.predicted_fpr(&block, keys as u64);
            assert!((0.95..1.05).contains(&ratio), "w = {width}, {millibits}: {ratio}");
        }
    }
}

/// The prediction was once too high for small filters: for 24 of 26 filters of the same URLs, each
/// with another seed, the observed rate was lower. The prediction ignored that absent keys that no
/// layer keeps are compared with tags, and that hardly any of them passes. Now it takes this into
/// account. The rates of single filters vary, so the test compares the prediction with the mean of
/// many.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_prediction_is_the_mean_of_many_small_filters() {
    for (width, keys, filters) in
        [(64, 500, 200), (32, 300, 200), (32, 500, 200), (32, 2000, 60), (32, 6000, 20)]
    {
        let absent = hashes(20, 100_000);
        let (mut passed, mut predicted) = (0, 0.0);
        for seed in 0..filters {
            let block = build_in_order(plan(width), &hashes(100 + seed, keys), BITS_7);
            let geometry = BurrGeometry::parse(&block).unwrap();
            let mut found = vec![false; absent.len()];
            geometry.may_contain_many(&block, &absent, &mut found);
            passed += found.iter().filter(|&&found| found).count();
            predicted += geometry.predicted_fpr(&block, keys as u64) * absent.len() as f64;
        }
        // At least 15,000 positives: one standard deviation is below 0.9 %.
        assert!(predicted > 15_000.0, "{predicted}");
        let ratio = passed as f64 / predicted;
        assert!((0.985..1.015).contains(&ratio), "w = {width}, {keys} keys: {ratio}");
    }
}

#[test]
fn sizes_and_rates_are_the_expected_ones() {
    for keys in [10_000, 49_999, 50_000, 200_000] {
        let hashes = hashes(7, keys);
        let plan = Plan::for_keys(keys).unwrap();
        for target in [BITS_7, Target::MillibitsPerKey(12_500), Target::Fpr(0.01)] {
            let block = build_in_order(plan, &hashes, target);
            let bits = block.len() as f64 * 8.0 / keys as f64;
            let fpr = BurrGeometry::parse(&block).unwrap().predicted_fpr(&block, keys as u64);
            let (expected_bits, expected_fpr) = sizing::expected(keys, target).unwrap();
            assert!((bits / expected_bits - 1.0).abs() < 0.01, "{keys} {target:?}: {bits} bits");
            assert!((fpr / expected_fpr - 1.0).abs() < 0.05, "{keys} {target:?}: {fpr}");
            if let Target::MillibitsPerKey(millibits) = target {
                assert!((bits * 1000.0 / f64::from(millibits) - 1.0).abs() < 0.001, "{bits}");
            }
        }
    }
}

/// Small filters of one size vary, because their layers have few blocks. So the means are compared.
#[test]
fn the_expected_size_of_small_filters_is_their_mean_size() {
    for (fewest, keys_end) in [(256, 500), (500, 1000), (1000, 2000), (2000, 5000)] {
        for target in [Target::Fpr(1.0 / 128.0), Target::Fpr(0.01), Target::Fpr(0.0003)] {
            let sizes = (0..200).map(|i| fewest + i * (keys_end - fewest) / 200);
            let ratios = sizes.map(|keys| {
                let plan = Plan::for_keys(keys).unwrap();
                let block = build_in_order(plan, &hashes(13, keys), target);
                let (expected_bits, _) = sizing::expected(keys, target).unwrap();
                expected_bits / (block.len() as f64 * 8.0 / keys as f64)
            });
            let mean = ratios.sum::<f64>() / 200.0;
            assert!((0.985..1.015).contains(&mean), "{fewest} to {keys_end} keys: {mean}");
        }
    }
}

/// The filters of a table in parts have 3,277 to 3,310 keys. With w = 64, and with low blocks for a
/// layer 0 that bumps no key, they had 1.056 times the bits of the bound at a rate of 1 %.
#[test]
fn filters_of_parts_are_near_the_bound() {
    let over_bound: Vec<f64> = (3277..=3310)
        .flat_map(|keys| (0..8).map(move |seed| (keys, seed)))
        .map(|(keys, seed)| {
            let plan = Plan::for_keys(keys).unwrap();
            let block = build_in_order(plan, &hashes(seed, keys), Target::Fpr(0.01));
            block.len() as f64 * 8.0 / keys as f64 / -0.01f64.log2()
        })
        .collect();
    let mean = over_bound.iter().sum::<f64>() / over_bound.len() as f64;
    assert!(mean <= 1.051, "{mean}");
}

/// A layer of few keys has only as many slots as keys and few buckets, but it never bumps so many
/// keys that a filter comes near the limit of [`layout::MAX_LAYERS`]. Of 420,000 such filters with
/// w = 32, none had more than three layers.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn few_keys_need_few_layers() {
    for width in [32, 64] {
        for keys in 1..1200 {
            for seed in 0..10 {
                let block = build_in_order(plan(width), &hashes(seed, keys), BITS_7);
                let layers = Layout::decode(&block).unwrap().slots().len();
                assert!(layers <= 4, "w = {width}, seed {seed}, {keys} keys: {layers} layers");
            }
        }
    }
}

#[test]
fn keys_of_one_bucket_are_bumped_until_they_spread() {
    // All keys have the same start position in layer 0. Their hashes are mixed again for the next
    // layer, so that the keys spread.
    let crowd: Vec<u64> = (0..5000).map(|i| 7 << 60 | mix(i) >> 40).collect();
    for width in [32, 64] {
        let block = build_in_order(plan(width), &crowd, BITS_7);
        assert_eq!(misses(&block, &crowd), 0);
    }
}

#[test]
fn damage_behind_the_trailers_check_is_harmless_or_refused() {
    let keys = hashes(8, 1000);
    let block = build_in_order(plan(64), &keys, BITS_7);
    let mut refused = 0;
    for at in 0..block.len() {
        let mut damaged = LineBuf::copy_from(&block);
        damaged[at] ^= 0xa5;
        match BurrGeometry::parse(&damaged) {
            // Segments, thresholds and tags have no check of their own. If they are damaged,
            // answers may be wrong, but a query must not panic.
            Ok(geometry) => keys.iter().take(50).for_each(|&hash| {
                geometry.may_contain(&damaged, hash);
                geometry.finish(&damaged, hash, hash as u32);
            }),
            Err(_) => refused += 1,
        }
    }
    assert_eq!(refused, 16 + 4 * Layout::decode(&block).unwrap().slots().len());
    for len in 0..block.len() {
        assert!(BurrGeometry::parse(&LineBuf::copy_from(&block[..len])).is_err(), "{len}");
    }
}

#[test]
fn no_trailer_makes_a_reader_panic() {
    let hashes = hashes(10, 100);
    let mut found = vec![false; hashes.len()];
    let mut random = (0u64..).map(mix);
    let mut below = |limit: u64| (random.next().unwrap() >> 16) % limit;
    let mut trusted = 0;
    for _ in 0..20_000 {
        let width = [32, 64][below(2) as usize];
        let layers = 1 + below(4) as usize;
        let slots: Vec<u32> = (0..layers).map(|_| width * (2 + below(30) as u32)).collect();
        let (columns, low, tags) = (1 + below(32) as u32, below(32) as u32, below(256) as usize);
        let low_blocks = low.min(slots[0] / width);
        let layout = Layout::new(shape::Shape::of_width(width), columns, low_blocks, tags, &slots);
        // Random bytes before a trailer. In three of five cases the trailer is correct, otherwise
        // it is that of a smaller filter.
        let change = [0, 0, 0, 1, 64][below(5) as usize];
        let mut block = LineBuf::zeroed((layout.total_bytes() + change) as usize);
        block.fill_with(|| below(256) as u8);
        layout.encode(&mut block);
        let Ok(geometry) = BurrGeometry::parse(&block) else { continue };
        trusted += 1;
        geometry.may_contain_many(&block, &hashes, &mut found);
        for (&hash, &found) in hashes.iter().zip(&found) {
            assert_eq!(geometry.may_contain(&block, hash), found);
            geometry.finish(&block, hash, below(1 << 32) as u32);
        }
        assert!(geometry.predicted_fpr(&block, 100) <= 1.0);
    }
    assert!((10_000..15_000).contains(&trusted), "{trusted}");
}

/// A filter with w = 64, in hexadecimal, as earlier versions stored it for the keys `key000` to
/// `key255` at 7 bits a key.
const STORED_WITH_W_64: &[&str] = &[
    "2904882c8032a9e6e1202a36296eea8ca82041f61c7ab82da9006760baf83dcc",
    "fb8015dd10ae7f0bb74060c944e6befe67c9f53c59b998d81f2a7e0b7f3c6621",
    "08190f288462fa80c7d7e10e561fb8ea59ccce06bda7dcc8698713e5f7d0199a",
    "d193ce2f36bc1599e8d4691670fc99dabb002689ff4ea687ebcde07b825f105d",
    "e0fd13012d3ce79de86d98ec8c942e77580c87b614d9b09c2811000000000000",
    "7001000000000000d60500000000000092010000000000003f15000000000000",
    "0f000000000000000000000040010000010000000005014034afe3a262757201",
];

/// Earlier versions built filters of fewer than 5,000 keys with w = 64. They remain readable.
#[test]
fn filters_of_earlier_versions_are_read() {
    let digits = STORED_WITH_W_64.concat();
    let bytes: Vec<u8> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect();
    let block = LineBuf::copy_from(&bytes);
    let layout = Layout::new(shape::Shape::of_width(64), 5, 1, 0, &[320]);
    assert_eq!(Layout::decode(&block), Ok(layout));
    let keys: Vec<u64> = (0..256).map(|i| hash64(format!("key{i:03}").as_bytes())).collect();
    assert_eq!(misses(&block, &keys), 0);
    let absent = hashes(14, 100_000);
    let answers = answers(&block, &absent);
    for (&hash, &answer) in absent.iter().zip(&answers) {
        assert_eq!(reference::may_contain(&block, hash), answer);
    }
    let passed = answers.iter().filter(|&&answer| answer).count() as f64;
    let predicted = BurrGeometry::parse(&block).unwrap().predicted_fpr(&block, 256);
    let ratio = passed / (predicted * absent.len() as f64);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

/// Stored filters must remain readable. A change of `Plan` may change these sums of their bytes.
/// Any other change that alters a sum has changed the format, which then needs a new version.
#[test]
fn the_bytes_of_the_format_stay_what_they_are() {
    let sum = |width, keys, target| {
        let block = build_in_order(plan(width), &hashes(9, keys), target);
        block.iter().fold(0, |sum, &byte| mix(sum ^ (u64::from(byte) + 1)))
    };
    let sums = [
        sum(64, 1000, BITS_7),
        sum(32, 20_000, Target::Fpr(0.01)),
        sum(32, 100_000, Target::MillibitsPerKey(14_000)),
    ];
    assert_eq!(sums, [0x9b7ef239b76b003e, 0x8a8c9ffa24433eca, 0x13402e747ebc6d46]);
}

//! Tests of the binary fuse filter alone: its bytes, seeds, rates and trailer, compared with the
//! plain version and with another implementation. The contract of every family is tested in
//! `crate::tests`.

use super::build::build;
use super::layout::{Layout, SEEDS, TRAILER_BYTES};
use super::query::FuseGeometry;
use super::{reference, sizing};
use crate::FilterReader;
use crate::family::{FilterEncoding, Target};
use crate::geometry::Geometry;
use crate::hash64;
use crate::hashes::HashList;
use crate::memory::LineBuf;

const BITS_9: Target = Target::MillibitsPerKey(9000);

fn hashes(seed: u64, keys: u64) -> Vec<u64> {
    (0..keys).map(|i| hash64(&[seed.to_le_bytes(), i.to_le_bytes()].concat())).collect()
}

fn built(hashes: &[u64], target: Target) -> LineBuf {
    build(&hashes.iter().copied().collect(), target).unwrap()
}

#[test]
fn the_bytes_are_those_of_the_plain_version() {
    for (keys, target) in [
        (64, Target::MillibitsPerKey(32_000)),
        (100, Target::MillibitsPerKey(20_000)),
        (257, BITS_9),
        (1000, Target::Fpr(0.01)),
        (3000, Target::MillibitsPerKey(5_900)),
        (20_000, Target::MillibitsPerKey(17_000)),
    ] {
        let hashes = hashes(keys, keys);
        let block = built(&hashes, target);
        let (layout, _) = Layout::parse(&block).unwrap();
        assert!(*block == *reference::build(&hashes, &layout).unwrap(), "{keys} keys, {layout:?}");
        let geometry = FuseGeometry::parse(&block).unwrap();
        assert!(hashes.iter().all(|&hash| geometry.may_contain(&block, hash)), "{keys} keys");
    }
}

/// Neither the order of the keys nor repeated keys change a bit, if the target is a rate. (A target
/// in bits a key counts every hash that was added.)
#[test]
fn equal_hashes_enter_once_and_order_does_not_matter() {
    let in_order = hashes(1, 5000);
    let block = built(&in_order, Target::Fpr(0.01));
    let mut turned: Vec<u64> = in_order.iter().rev().copied().collect();
    turned.extend(&in_order);
    assert!(*built(&turned, Target::Fpr(0.01)) == *block);
    assert!(build(&[7; 4000].into_iter().collect(), BITS_9).is_some(), "one key, many times");
}

/// For some sets of keys no seed works. After all seeds the build gives up, instead of trying for
/// ever. Here all hashes have the same first slot, so all their slots are in three segments, which
/// have fewer slots than there are hashes.
#[test]
fn after_all_seeds_a_bloom_filter_is_made() {
    let crowded: HashList = (0..3000).collect();
    assert!(build(&crowded, BITS_9).is_none());
    // The number of keys is not the reason: 3,000 other hashes make a filter.
    assert!(build(&hashes(2, 3000).into_iter().collect(), BITS_9).is_some());
}

#[test]
fn few_seeds_are_needed() {
    let mut tried = [0; SEEDS as usize];
    for keys in (300..3000).step_by(9).chain([10_000, 100_000, 300_000]) {
        let block = built(&hashes(3, keys), Target::MillibitsPerKey(20_000));
        tried[Layout::parse(&block).unwrap().1 as usize] += 1;
    }
    let later: u32 = tried[8..].iter().sum();
    assert!(tried[0] > 200 && later == 0, "{:?}", &tried[..16]);
}

#[test]
fn the_rate_is_exactly_that_of_the_fingerprint() {
    let present = hashes(4, 50_000);
    for (bits, most, least) in [(4, 126_400, 123_600), (8, 8230, 7400), (12, 590, 390)] {
        let block = built(&present, Target::Fpr(sizing::rate(bits)));
        let reader = FilterReader::from_bytes(&block, FilterEncoding::BinaryFuse);
        assert_eq!(reader.predicted_fpr(1), 0.5f64.powi(bits as i32));
        // The bounds are 4 to 5 standard deviations from the expected number.
        let passed = hashes(5, 2_000_000).into_iter().filter(|&hash| reader.may_contain(hash));
        let passed = passed.count();
        assert!((least..most).contains(&passed), "{bits} bits: {passed}");
    }
}

#[test]
fn a_trailer_that_is_not_exactly_right_is_not_trusted() {
    let block = built(&hashes(6, 400), BITS_9);
    let end = block.len();
    for at in end - TRAILER_BYTES..end {
        for bit in 0..8 {
            let mut changed = block.to_vec();
            changed[at] ^= 1 << bit;
            assert!(Layout::parse(&changed).is_err(), "byte {at}, bit {bit}");
        }
    }
    assert!(
        Layout::parse(&block[1..]).is_err() && Layout::parse(&[&[0], &block[..]].concat()).is_err()
    );
    // A correct check over impossible fields.
    let (layout, _) = Layout::parse(&block).unwrap();
    for wrong in [
        Layout { segments: 0, ..layout },
        Layout { segments: u32::MAX, ..layout },
        Layout { segments: u32::MAX - 1, log2_slots: 18, bits: 16 },
        Layout { log2_slots: 1, ..layout },
        Layout { log2_slots: 19, ..layout },
        Layout { log2_slots: 255, ..layout },
        Layout { bits: 3, ..layout },
        Layout { bits: 17, ..layout },
    ] {
        let mut changed = block.to_vec();
        changed.truncate(end - TRAILER_BYTES);
        changed.extend(wrong.trailer(0));
        assert!(Layout::parse(&changed).is_err(), "{wrong:?}");
    }
    let mut changed = block[..end - TRAILER_BYTES].to_vec();
    changed.extend(layout.trailer(SEEDS));
    assert!(Layout::parse(&changed).is_err());
}

/// Comparisons with the crate `xorf`, another implementation of the paper. The crate is not built
/// for WebAssembly, loom and Miri, nor if the library is tested alone.
#[cfg(not(any(target_family = "wasm", loom, miri, library_alone)))]
mod oracle {
    use xorf::{BinaryFuse8, Filter};

    use super::*;

    #[test]
    #[ignore = "takes seconds; .ci/run runs it"]
    fn arrays_are_as_long_as_those_of_another_implementation() {
        for keys in (30..100).chain([999, 1000, 5000, 12_345, 100_000, 1_000_000]) {
            let hashes = hashes(7, keys);
            let block = built(&hashes, Target::MillibitsPerKey(32_000));
            let (layout, _) = Layout::parse(&block).unwrap();
            let other = BinaryFuse8::try_from(&hashes[..]).unwrap();
            assert_eq!(layout.slots(), other.fingerprints.len() as u64, "{keys}");
        }
    }

    #[test]
    fn as_many_absent_keys_pass_as_in_another_implementation() {
        let (present, absent) = (hashes(8, 50_000), hashes(9, 2_000_000));
        let block = built(&present, Target::Fpr(sizing::rate(8)));
        let geometry = FuseGeometry::parse(&block).unwrap();
        let other = BinaryFuse8::try_from(&present[..]).unwrap();
        assert!(present.iter().all(|hash| other.contains(hash)));
        let passed = absent.iter().filter(|&&hash| geometry.may_contain(&block, hash)).count();
        let passed_other = absent.iter().filter(|hash| other.contains(hash)).count();
        // About 7,812 keys pass each filter, so the difference has a standard deviation of 125.
        assert!(passed.abs_diff(passed_other) < 600, "{passed} and {passed_other}");
    }
}

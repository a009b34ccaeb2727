use std::collections::BTreeSet;

use super::super::step01_bloom::*;
use super::{assert_near, key, rate};
use crate::check::Check;

pub const CHECKS: &[Check] = &[
    Check { says: "a bit that was set is read back, and no other", run: bits_are_kept },
    Check { says: "fill() is the share of the bits that is set", run: fill_counts },
    Check { says: "a key sets the bits of its k hash functions", run: a_key_sets_its_bits },
    Check { says: "no key that was inserted is denied", run: nothing_is_denied },
    Check { says: "expected_rate() is the formula", run: the_formula },
    Check { says: "the filter has the rate that the formula expects", run: the_rate },
];

fn bits_are_kept() {
    let mut bits = Bits::new(200);
    assert_eq!(bits.len(), 256, "200 bits are rounded up to whole words");
    let chosen = BTreeSet::from([0, 1, 63, 64, 127, 130, 255]);
    for &position in &chosen {
        assert!(!bits.is_set(position), "bit {position} is set before anything set it");
        bits.set(position);
        assert!(bits.is_set(position), "bit {position} was set and is clear");
        for &earlier in chosen.range(..position) {
            let kept = bits.is_set(earlier);
            assert!(kept, "bit {earlier} is clear after bit {position} was set");
        }
    }
    bits.set(130);
    assert!(bits.is_set(130), "bit 130 was set twice and is clear");
    for position in 0..256 {
        let (found, expected) = (bits.is_set(position), chosen.contains(&position));
        assert_eq!(found, expected, "bit {position}: is_set says {found}, expected {expected}");
    }
}

fn fill_counts() {
    let mut bits = Bits::new(640);
    (0..640).step_by(5).for_each(|position| bits.set(position));
    let fill = bits.fill();
    assert!((fill - 0.2).abs() < 1e-9, "128 of 640 bits are set; fill() says {fill}, expected 0.2");
}

fn a_key_sets_its_bits() {
    for bits in [1024, 640] {
        let mut filter = Bloom::new(bits, 5);
        filter.insert(b"plum");
        let expected: BTreeSet<u64> = (0..5).map(|i| hash_number(i, b"plum") % bits).collect();
        let found: BTreeSet<u64> = (0..bits).filter(|&bit| filter.bits.is_set(bit)).collect();
        assert_eq!(
            found, expected,
            "of {bits} bits; left: the bits that `plum` sets; right: those it should set"
        );
    }
}

fn nothing_is_denied() {
    let mut filter = Bloom::new(10_000, 7);
    assert!(!filter.may_contain(b"plum"), "an empty filter says maybe");
    (0..1000).for_each(|i| filter.insert(&key("fruit", i)));
    for i in 0..1000 {
        assert!(filter.may_contain(&key("fruit", i)), "key {i} was inserted and is denied");
    }
}

fn the_formula() {
    for (bits_per_key, k, expected) in [(10.0, 7, 0.00819), (10.0, 1, 0.09516), (5.0, 3, 0.09185)] {
        let rate = expected_rate(bits_per_key, k);
        assert!(
            (rate - expected).abs() < 1e-4,
            "{bits_per_key} bits a key, k = {k}: {rate:.5}, expected {expected:.5}"
        );
    }
}

fn the_rate() {
    let mut filter = Bloom::new(50_000, 7);
    (0..5000).for_each(|i| filter.insert(&key("present", i)));
    let observed = rate(20_000, |key| filter.may_contain(key));
    assert_near(observed, expected_rate(10.0, 7), "Does may_contain query all k bits?");
    let fill = filter.bits.fill();
    assert!((0.48..0.52).contains(&fill), "the filter is full to {fill:.3}, expected about 0.50");
}

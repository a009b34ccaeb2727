use std::collections::BTreeSet;

use maypole::hash64;

use super::super::{step01_bloom::expected_rate, step02_probes::*};
use super::{assert_near, key, rate};
use crate::check::Check;

pub const CHECKS: &[Check] = &[
    Check { says: "the start is the high half, the step the low half", run: start_and_step },
    Check { says: "all positions are below the number of bits", run: positions_are_below },
    Check { says: "the trap: the positions of a key differ, whatever the step", run: the_trap },
    Check { says: "no key that was inserted is denied", run: nothing_is_denied },
    Check { says: "one hash is as good as seven", run: the_rate },
];

fn start_and_step() {
    for (start, step, expected) in [
        (100, 7, [100, 107, 114, 121]),
        (1000, 101, [1000, 77, 178, 279]),
        (5000, 2049, [904, 905, 906, 907]),
    ] {
        let found = positions(start << 32 | step, 1024, 4);
        for position in &found {
            assert!(*position < 1024, "{position} is not below 1024, the number of bits");
        }
        assert_eq!(
            found, expected,
            "start {start}, step {step}, 1024 bits, k = 4. Left: yours; right: expected"
        );
    }
}

fn positions_are_below() {
    for i in 0..1000 {
        let positions = positions(hash64(&key("any", i)), 192, 7);
        assert_eq!(positions.len(), 7, "k is 7");
        assert!(positions.iter().all(|&p| p < 192), "of 192 bits: {positions:?}");
    }
}

fn the_trap() {
    for bits in [64, 1024, 64 * 15] {
        for step in [0, bits, 2 * bits, bits / 2, bits / 4, 64, 32] {
            let found = positions(77 << 32 | step, bits, 30);
            let different = BTreeSet::from_iter(found).len();
            assert_eq!(
                different, 30,
                "{bits} bits, a step of {step}, k = 30: only {different} different positions. \
                 Such a key passes as if k were {different}"
            );
        }
    }
}

fn nothing_is_denied() {
    let mut filter = Bloom::new(10_000, 7);
    assert!(!filter.may_contain(hash64(b"plum")), "an empty filter says maybe");
    (0..1000).for_each(|i| filter.insert(hash64(&key("fruit", i))));
    for i in 0..1000 {
        assert!(filter.may_contain(hash64(&key("fruit", i))), "key {i} was inserted and is denied");
    }
}

fn the_rate() {
    let mut filter = Bloom::new(50_000, 7);
    (0..5000).for_each(|i| filter.insert(hash64(&key("present", i))));
    let observed = rate(20_000, |key| filter.may_contain(hash64(key)));
    assert_near(observed, expected_rate(10.0, 7), "Do insert and may_contain use all positions?");
}

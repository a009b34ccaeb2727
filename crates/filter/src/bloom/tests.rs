//! Tests of the Bloom filter alone: every kernel is compared with the plain version (`reference`),
//! in building and in queries. The contract of every family is tested in `crate::tests`.

use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::family::KeyHash;
use crate::memory::LINE_BYTES;
use kernel::{GOLDEN_POWERS, bit_seed, line_of};
use layout::{Line, MAX_PROBES};

/// The filter that the plain version builds.
fn build_plainly(hashes: &[KeyHash], bytes: usize, probes: u8) -> Vec<u8> {
    let mut lines = vec![[0; LINE_BYTES]; bytes / LINE_BYTES];
    hashes.iter().for_each(|&hash| reference::add(&mut lines, hash, probes));
    [lines.as_flattened(), &[0xff, 0, probes, 0, 0]].concat()
}

#[test]
fn every_kernel_builds_what_the_format_says_at_every_number_of_probes() {
    let mut rng = StdRng::seed_from_u64(1);
    for millibits in (1000..=60_000).step_by(900) {
        let count = rng.random_range(1..300);
        let hashes: Vec<u64> = (0..count).map(|_| rng.random()).collect();
        let bytes = sizing::bloom_bytes(count, millibits);
        let expected = build_plainly(&hashes, bytes, sizing::bloom_probes(millibits) as u8);
        let list: HashList = hashes.into_iter().collect();
        for isa in Isa::available() {
            let block = build_with(isa, &list, millibits);
            assert_eq!(*block, expected[..], "{isa:?} {count} keys, {millibits} millibits");
        }
    }
}

#[test]
fn probes_that_fall_on_the_same_bit_do_not_cancel() {
    let mut rng = StdRng::seed_from_u64(4);
    let bit = |hash, i: usize| bit_seed(hash).wrapping_mul(GOLDEN_POWERS[i]) >> 23;
    for millibits in [10_000, 12_000, 20_000] {
        let probes = sizing::bloom_probes(millibits) as usize;
        let distinct = |hash| (0..probes).map(|i| bit(hash, i)).collect::<HashSet<_>>().len();
        let hashes: Vec<u64> = std::iter::repeat_with(|| rng.random())
            .filter(|&hash| distinct(hash) < probes)
            .take(400)
            .collect();
        let list: HashList = hashes.iter().copied().collect();
        let bytes = sizing::bloom_bytes(hashes.len(), millibits);
        let expected = build_plainly(&hashes, bytes, probes as u8);
        for isa in Isa::available() {
            assert_eq!(*build_with(isa, &list, millibits), expected[..], "{isa:?}");
        }
    }
}

#[test]
fn every_kernel_answers_alike_at_every_number_of_probes() {
    let mut rng = StdRng::seed_from_u64(2);
    let hashes: Vec<u64> = (0..3000).map(|_| rng.random()).collect();
    for probes in 1..=MAX_PROBES as u8 {
        // Random bits, set with a probability at which half of the queries say maybe. The other
        // queries find their first unset bit at any of the probes, the first and the last included.
        let fill = 0.5f64.powf(1.0 / f64::from(probes));
        let lines: Vec<Line> = (0..40)
            .map(|_| {
                let mut line = [0; LINE_BYTES];
                (0..512).filter(|_| rng.random_bool(fill)).for_each(|b| {
                    line[b / 8] |= 1 << (b % 8);
                });
                line
            })
            .collect();
        let numbers: Vec<u32> = hashes.iter().map(|&hash| line_of(hash, 40)).collect();
        let expected: Vec<bool> =
            hashes.iter().map(|&hash| reference::may_contain(&lines, hash, probes)).collect();
        let yes = expected.iter().filter(|&&answer| answer).count();
        assert!((1000..2000).contains(&yes), "{probes} probes: {yes} of 3000");
        for isa in Isa::available() {
            let mut answers = vec![false; hashes.len()];
            dispatch!(isa, kernels => {
                kernels.finish_many(&lines, &hashes, &numbers, &mut answers, probes)
            });
            assert_eq!(answers, expected, "{isa:?}, {probes} probes");
        }
    }
}

#[test]
fn every_bit_of_a_key_counts_in_every_kernel() {
    let mut rng = StdRng::seed_from_u64(3);
    for probes in 1..=MAX_PROBES as u8 {
        let hash = rng.random();
        let mut lines = [[0; LINE_BYTES]];
        reference::add(&mut lines, hash, probes);
        for isa in Isa::available() {
            let seed = bit_seed(hash);
            let answers = |line: &Line| {
                dispatch!(isa, kernels => [
                    kernels.has_all_bits(line, seed, probes),
                    kernels.has_all_bits_soon(line, seed, probes),
                ])
            };
            assert_eq!(answers(&lines[0]), [true; 2], "{isa:?}");
            // If any one of the key's bits is missing, the answer is no.
            for bit in 0..512 {
                let mut less = lines[0];
                less[bit / 8] &= !(1 << (bit % 8));
                assert_eq!(answers(&less), [less == lines[0]; 2], "{isa:?}");
            }
        }
    }
}

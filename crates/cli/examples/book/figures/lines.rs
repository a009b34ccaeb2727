//! Bloom filters that are divided into lines, so that each key sets bits of only one line.

use std::fmt::Write;

use maypole::filter::sizing::{cache_line_bloom_fpr, standard_bloom_fpr};
use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};

use super::bloom::Bloom;
use super::hashing::mixed;
use super::keys::{key_hash, rate};

const KEYS: u64 = 51_200;
const ABSENT: u64 = 200_000;

/// The bits that a key sets within its line.
type Bits = fn(hash: u64, k: u32, line_bits: u64) -> Vec<u64>;

/// Double hashing: all bits come from the two halves of one hash.
fn double(hash: u64, k: u32, line_bits: u64) -> Vec<u64> {
    Bloom::new(line_bits, k).positions(hash).collect()
}

/// Each bit has a hash of its own.
fn independent(hash: u64, k: u32, line_bits: u64) -> Vec<u64> {
    (0..u64::from(k)).map(|i| mixed(hash.wrapping_add(i << 32)) % line_bits).collect()
}

/// The false-positive rate of a filter that consists of lines, which are small Bloom filters of
/// `line_bits` bits each.
fn split_rate(bits_per_key: u64, k: u32, line_bits: u64, bits: Bits) -> f64 {
    let lines = KEYS * bits_per_key / line_bits;
    let mut set = vec![false; (lines * line_bits) as usize];
    let positions = |hash: u64| {
        // The high bits of the hash choose the line. A second hash, a product of the first one,
        // chooses the bits within the line.
        let line = ((u128::from(hash) * u128::from(lines)) >> 64) as u64;
        let inner = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits(inner, k, line_bits).into_iter().map(move |bit| (line * line_bits + bit) as usize)
    };
    for i in 0..KEYS {
        positions(key_hash("present", i)).for_each(|position| set[position] = true);
    }
    rate("absent", ABSENT, |hash| positions(hash).all(|position| set[position]))
}

pub fn sizes() -> String {
    let mut out = String::from(
        "                    10 bits a key, k = 6        16 bits a key, k = 9\n\
         bits of a line      two hashes   k hashes       two hashes   k hashes\n",
    );
    for line_bits in [64, 256, 512, 4096] {
        let [two_10, all_10] = [double, independent].map(|b: Bits| split_rate(10, 6, line_bits, b));
        let [two_16, all_16] = [double, independent].map(|b: Bits| split_rate(16, 9, line_bits, b));
        writeln!(
            out,
            "{line_bits:<16} {:>11.3} % {:>8.3} % {:>14.3} % {:>8.3} %",
            two_10 * 100.0,
            all_10 * 100.0,
            two_16 * 100.0,
            all_16 * 100.0,
        )
        .unwrap();
    }
    let (at_10, at_16) = (standard_bloom_fpr(10.0, 6), standard_bloom_fpr(16.0, 9));
    let mut line = |name: &str, at_10: f64, at_16: f64| {
        writeln!(out, "{name:<27} {at_10:>11.3} % {at_16:>25.3} %").unwrap();
    };
    line("one array, theory", at_10 * 100.0, at_16 * 100.0);
    let poisson = |bits: f64, k| cache_line_bloom_fpr(512.0 / bits, k) * 100.0;
    line("lines of 512, theory", poisson(10.0, 6), poisson(16.0, 9));
    let library = |bits: f64| {
        let mut builder = FilterBuilder::new(FilterSpec::bloom(bits).unwrap());
        (0..KEYS).for_each(|i| builder.add(key_hash("present", i)));
        let block = builder.finish().unwrap();
        let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
        rate("absent", ABSENT, |hash| filter.may_contain(hash)) * 100.0
    };
    line("`bloom`, measured", library(10.0), library(16.0));
    out
}

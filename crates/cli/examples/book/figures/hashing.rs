//! What a filter requires of its hash.

use std::fmt::Write;

use maypole_filter::hash64;
use maypole_filter::sizing::standard_bloom_fpr;
use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};

use super::bloom::Bloom;

const KEYS: u64 = 20_000;

/// The hash of Java's `String`: `h = 31 h + byte`, 32 bits.
pub fn java(key: &[u8]) -> u64 {
    u64::from(key.iter().fold(0u32, |h, &byte| h.wrapping_mul(31).wrapping_add(u32::from(byte))))
}

/// FNV-1a, 64 bits.
pub fn fnv(key: &[u8]) -> u64 {
    let step = |h: u64, &byte: &u8| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    key.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The finisher of SplitMix64: every bit of the result depends on every bit of `x`.
pub fn mixed(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

type Hash = fn(&[u8]) -> u64;

/// The false-positive rates of a Bloom filter with different hash functions, for keys such as
/// `user00000042`.
pub fn quality() -> String {
    let hashes: [(&str, Hash); 4] = [
        ("java", java),
        ("java, mixed", |key| mixed(java(key))),
        ("fnv-1a", fnv),
        ("hash64", hash64),
    ];
    let mut out = format!(
        "theory {:>20.2} %\nhash         different   rate\n",
        standard_bloom_fpr(10.0, 7) * 100.0
    );
    for (name, hash) in hashes {
        let of = |i: u64| hash(format!("user{i:08}").as_bytes());
        let mut filter = Bloom::new(10 * KEYS, 7);
        (0..KEYS).for_each(|i| filter.insert(of(2 * i)));
        let passed = (0..KEYS).filter(|&i| filter.may_contain(of(2 * i + 1))).count();
        let mut all: Vec<u64> = (0..2 * KEYS).map(of).collect();
        all.sort_unstable();
        all.dedup();
        let rate = passed as f64 / KEYS as f64 * 100.0;
        writeln!(out, "{name:<12} {:>9} {rate:>8.2} %", all.len()).unwrap();
    }
    out
}

/// The rate of `burr(14)` if the hash has only 20, 24, 28 or 32 bits. With 64 bits it is 0.007 %.
pub fn width() -> String {
    let spec = FilterSpec::burr(14.0).unwrap();
    let mut out = String::from("bits of the hash   measured     keys ÷ 2^bits\n");
    for bits in [20, 24, 28, 32, 64] {
        // Only `bits` bits of the hash are kept. They are then mixed into 64 bits, so that only
        // their number matters, and not where in the hash they are.
        let of = |i: u64| mixed(mixed(i) >> (64 - bits));
        let mut builder = FilterBuilder::new(spec);
        (0..KEYS).for_each(|i| builder.add(of(i)));
        let block = builder.finish().unwrap();
        let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
        let asked = 500_000;
        let passed = (KEYS..KEYS + asked).filter(|&i| filter.may_contain(of(i))).count();
        writeln!(
            out,
            "{bits:<16} {:>9.4} % {:>12.4} %",
            passed as f64 / asked as f64 * 100.0,
            KEYS as f64 / (bits as f64).exp2() * 100.0,
        )
        .unwrap();
    }
    out
}

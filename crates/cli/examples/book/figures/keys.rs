//! Keys that are the same in every run, on every machine.

use maypole_filter::hash64;

/// The hash of the `i`-th key of a set. Keys of different sets are different.
pub fn key_hash(set: &str, i: u64) -> u64 {
    let mut key = [0; 16];
    key[..set.len()].copy_from_slice(set.as_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    hash64(&key)
}

/// The share of the keys of `set` that `may_contain` lets through.
pub fn rate(set: &str, keys: u64, may_contain: impl Fn(u64) -> bool) -> f64 {
    let passed = (0..keys).filter(|&i| may_contain(key_hash(set, i))).count();
    passed as f64 / keys as f64
}

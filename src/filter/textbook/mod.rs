//! The filters of the textbooks, built plainly, to be read, measured and compared.
//!
//! The database uses none of them: its own families are [`super::Family`]. They stand here because
//! every text on filters speaks of them, and a claim about a structure is best held against the
//! structure. `maypole structures` measures them beside the families of the database.
//!
//! Read them in this order. Each file opens with its literature and a drawing.
//!
//! ```text
//! file       structure                 what it teaches
//! formulas   (arithmetic)              size and rate: the usual formulas, and how exact they are
//! bloom      standard Bloom filter     k bits for each key; two hashes make k; OR is a union
//! counting   counting Bloom filter     deletion costs four bits for one, and can lose keys
//! scalable   scalable Bloom filter     a filter that grows keeps its rate by a geometric series
//! redis      commands over scalable    what Redis' BF commands promise
//! cuckoo     cuckoo filter             fingerprints instead of bits; two places for each
//! quotient   quotient filter           fingerprints in order: they merge and resize without keys
//! cascade    filter cascade            no wrong answer at all, if all questions are known
//! packed     (integers of a few bits)  what cuckoo, quotient and counting store their slots in
//! ```
//!
//! All of them take the 64-bit hash of a key ([`super::KeyHash`]) and mix it with a salt of their
//! own. Two keys with the same hash are one key to them.
//!
//! What is absent: SIMD, prefetching, and lines of the processor's cache. [`super`] has those.

pub mod bloom;
pub mod cascade;
pub mod counting;
pub mod cuckoo;
pub mod formulas;
mod packed;
pub mod quotient;
pub mod redis;
pub mod scalable;

use std::fmt;

pub use bloom::{BloomFilter, Layout};
pub use cascade::Cascade;
pub use counting::CountingBloom;
pub use cuckoo::CuckooFilter;
pub use quotient::QuotientFilter;
pub use scalable::ScalableBloom;

/// An insertion found no room. The filter is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the filter is full")
    }
}

impl std::error::Error for Full {}

/// Saved bytes are not what the format says. The text names the first thing that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a saved filter: {}", self.0)
    }
}

impl std::error::Error for Damaged {}

/// The fractional digits of the golden ratio: neighbouring salts fall far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A new hash of `hash` for each `salt`. Every bit of the result depends on every bit of both.
/// Equal hashes stay equal under every salt: mixing adds no information.
pub fn mix(hash: u64, salt: u64) -> u64 {
    let mut x = hash ^ salt.wrapping_mul(GOLDEN);
    for _ in 0..2 {
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

/// Maps a hash to `0..slots` evenly, by a multiplication where a division would do (Lemire 2019).
/// The high bits of the hash decide.
fn reduce(hash: u64, slots: usize) -> usize {
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

/// A checksum of words: finds flipped bits, not forgeries.
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(words.len() as u64, |sum, &word| mix(sum.rotate_left(1) ^ word, 1))
}

/// Distinct keys for tests: `keys(seed, 0..n)`. Different seeds share none.
#[cfg(test)]
fn keys(seed: u64, range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|i| mix(seed << 40 | i, 0xbeef)).collect()
}

/// The share of `hashes` that `contains` answers "maybe" to.
#[cfg(test)]
fn share(hashes: &[u64], contains: impl Fn(u64) -> bool) -> f64 {
    hashes.iter().filter(|&&hash| contains(hash)).count() as f64 / hashes.len() as f64
}

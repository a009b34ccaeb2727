//! Code that the filter structures share: mixing of hashes, allocation of arrays, and the errors.

use alloc::vec::Vec;
use core::fmt;

/// The filter is full. The failed insertion changed nothing.
///
/// ```
/// use maypole_filter::textbook::Full;
/// use maypole_filter::textbook::quotient::QuotientFilter;
///
/// let mut filter = QuotientFilter::new(2, 8);
/// assert_eq!(filter.insert(1), Ok(()));
/// assert_eq!(filter.insert(2), Err(Full));
/// assert!(filter.contains(1), "it is as it was before");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the filter is full")
    }
}

impl core::error::Error for Full {}

/// A filter of this size does not fit into memory, or its array would have more than 2^43 bits.
///
/// ```
/// use maypole_filter::textbook::TooLarge;
/// use maypole_filter::textbook::bloom::{BloomFilter, Layout};
///
/// assert_eq!(BloomFilter::try_new(Layout::Shared, usize::MAX, 7).err(), Some(TooLarge));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a filter of this size does not fit into memory")
    }
}

impl core::error::Error for TooLarge {}

/// The most bits of one array, 1 TiB. Without this limit, a system that overcommits memory would
/// grant any number, and kill the process when the array is written.
const MAX_BITS: u64 = 1 << 43;

/// Words of zeros for `bits` bits. `bits` is `None` if the number does not fit into a `usize`.
pub(super) fn zeros(bits: Option<usize>) -> Result<Vec<u64>, TooLarge> {
    let bits = bits.filter(|&bits| bits as u64 <= MAX_BITS).ok_or(TooLarge)?;
    let (mut words, len) = (Vec::new(), bits.div_ceil(64));
    words.try_reserve_exact(len).map_err(|_| TooLarge)?;
    words.resize(len, 0);
    Ok(words)
}

/// Saved bytes do not match their format. The text names the first error.
///
/// ```
/// use maypole_filter::textbook::Damaged;
/// use maypole_filter::textbook::bloom::{BloomFilter, Layout};
///
/// let mut saved = BloomFilter::new(Layout::Shared, 1000, 7).save();
/// saved[20] ^= 1;
/// let Err(Damaged(what)) = BloomFilter::load(&saved) else { panic!("a flipped bit was not seen") };
/// assert!(!what.is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a saved filter: {}", self.0)
    }
}

impl core::error::Error for Damaged {}

/// The fractional digits of the golden ratio, which spread neighbouring salts far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A new hash of `hash` for each `salt`. Every bit of the result depends on every bit of both
/// arguments. Equal hashes stay equal under every salt: mixing adds no information.
pub fn mix(hash: u64, salt: u64) -> u64 {
    let mut x = hash ^ salt.wrapping_mul(GOLDEN);
    for _ in 0..2 {
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

/// Maps a hash to `0..slots` evenly, by a multiplication instead of a division (Lemire 2019). The
/// high bits of the hash decide.
pub(super) fn reduce(hash: u64, slots: usize) -> usize {
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

/// A checksum of words: finds flipped bits, not forgeries.
pub(super) fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(words.len() as u64, |sum, &word| mix(sum.rotate_left(1) ^ word, 1))
}

/// The bytes as little-endian words; a remainder of less than 8 bytes is left out.
pub(super) fn as_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Distinct keys for tests: `keys(seed, 0..n)`. Different seeds share no key.
#[cfg(test)]
pub(super) fn keys(seed: u64, range: core::ops::Range<u64>) -> Vec<u64> {
    range.map(|i| mix(seed << 40 | i, 0xbeef)).collect()
}

/// The mean false-positive rate of `filters` filters, and the standard deviation of this mean.
/// `filled` makes a filter of the given keys, `keys_each` of them, and returns its `contains`. Each
/// filter is queried for `asked` absent keys.
#[cfg(test)]
pub(super) fn measured<F: Fn(u64) -> bool>(
    [filters, keys_each, asked]: [u64; 3],
    filled: impl Fn(&[u64]) -> F,
) -> (f64, f64) {
    let rates = (0..filters).map(|i| {
        let contains = filled(&keys(100, i * keys_each..(i + 1) * keys_each));
        share(&keys(101, i * asked..(i + 1) * asked), contains)
    });
    let rates: Vec<f64> = rates.collect();
    let mean = rates.iter().sum::<f64>() / filters as f64;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
    // The deviation among a few filters may be low by chance. False positives are rare events, so
    // the result is at least the deviation of a Poisson distribution with as many events.
    let by_count = mean / (filters * asked) as f64;
    (mean, (variance / (filters * filters.max(2) - filters) as f64).max(by_count).sqrt())
}

/// The share of `hashes` that `contains` answers "maybe" to.
#[cfg(test)]
pub(super) fn share(hashes: &[u64], contains: impl Fn(u64) -> bool) -> f64 {
    hashes.iter().filter(|&&hash| contains(hash)).count() as f64 / hashes.len() as f64
}

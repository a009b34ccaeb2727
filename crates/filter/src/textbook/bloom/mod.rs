//! The standard Bloom filter: `k` bits of an array for each key.
//!
//! Literature: B. H. Bloom, CACM 1970. Two hashes in place of `k`: A. Kirsch, M. Mitzenmacher,
//! "Less hashing, same performance", ESA 2006. The estimate of the number of keys: S. J. Swamidass,
//! P. Baldi, J. Chem. Inf. Model. 2007.
//!
//! A key sets `k` bits. A query looks at the same `k` bits: one that is 0 proves that the key was
//! never added. If all are 1, other keys may have set them: "maybe".
//!
//! ```text
//! shared array, k = 3        bits   0 1 0 0 1 1 0 1 0 0 1 0 0 0 1 0
//!   add "pole"  → 1, 4, 10            ↑     ↑           ↑
//!   add "bloom" → 5, 7, 14                    ↑   ↑             ↑
//!   query "rose"  → 4, 7, 10  all 1: maybe, and wrong
//!   query "thorn" → 2, …      0: no
//!
//! split arrays, k = 3        |0 1 0 0 1|0 0 1 0 1|1 0 0 0 1|    hash i uses array i alone
//! ```
//!
//! Each of the `k` positions comes from a separate mix of the key's hash, so the positions are as
//! independent as the formulas assume. All positions can also be computed from two hashes, as
//! `start + i · step`, scaled to the array. That is faster, and in large filters at the usual rates
//! there is no visible difference. But two keys with nearly the same start and step share most of
//! their bits. So in a filter with few keys or a low rate, two hashes raise the rate well above the
//! formulas: 600 times for ten keys at one in a million. Only filters that were saved in the older
//! formats `BLM1` and, as a scalable filter, `SBF1` still use two hashes.
//!
//! Invariants: all bits of a key that was added are set; after `intersect`, this holds for each key
//! that was added to both filters. Bits past the array's end are 0.

use alloc::vec::Vec;
use core::fmt;

mod saved;

use super::formulas;
use super::shared::{TooLarge, mix, reduce, zeros};
use crate::math::{ln, log1p};

pub use super::formulas::MAX_HASHES;

/// How the `k` bits of a key are placed.
///
/// ```
/// use maypole_filter::textbook::bloom::{BloomFilter, Layout};
///
/// // Three arrays of the same size: 1,000 bits are rounded up.
/// assert_eq!(BloomFilter::new(Layout::Split, 1000, 3).bits(), 1002);
/// assert_eq!(BloomFilter::new(Layout::Shared, 1000, 3).bits(), 1000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Anywhere in one array.
    Shared,
    /// A key has one bit in each of `k` arrays. The rate of a small filter is a little higher than
    /// with one shared array, but `k` processors could probe the arrays at the same time, as
    /// hardware implementations do.
    Split,
}

/// How the positions of a key are computed from its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probes {
    /// Each position by a separate mix.
    Independent,
    /// All positions from two hashes, as in filters that were saved as `BLM1` or `SBF1`.
    TwoHashes,
}

/// A standard Bloom filter.
///
/// ```
/// use maypole_filter::textbook::bloom::{BloomFilter, Layout};
/// use maypole_filter::hash64;
///
/// let mut filter = BloomFilter::for_rate(Layout::Shared, 1000, 0.01);
/// assert_eq!(filter.hashes(), 7);
/// (0u64..1000).for_each(|i| drop(filter.insert(hash64(&i.to_le_bytes()))));
/// assert!((0u64..1000).all(|i| filter.contains(hash64(&i.to_le_bytes()))));
/// assert!((0.45..0.55).contains(&filter.fill()), "the best filter is half full");
/// assert!((950.0..1050.0).contains(&filter.estimated_keys()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BloomFilter {
    layout: Layout,
    probes: Probes,
    hashes: u32,
    array_bits: usize,
    words: Vec<u64>,
}

/// Two filters cannot be combined, because their bits have different meanings. They differ in
/// layout, size or number of hashes, or only one of them was saved as `BLM1` and so computes its
/// positions from two hashes.
///
/// ```
/// use maypole_filter::textbook::bloom::{BloomFilter, Layout, OtherShape};
///
/// let mut filter = BloomFilter::new(Layout::Shared, 1000, 7);
/// let larger = BloomFilter::new(Layout::Shared, 2000, 7);
/// assert_eq!(filter.union(&larger), Err(OtherShape));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherShape;

impl fmt::Display for OtherShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the filters differ in layout, size or number of hashes")
    }
}

impl core::error::Error for OtherShape {}

impl Probes {
    /// The `hashes` positions of a key in an array of `slots`. If they come from two hashes, the
    /// step is odd and therefore never 0, because a step of 0 would put all positions on one bit.
    pub fn positions(
        self,
        hash: u64,
        slots: usize,
        hashes: u32,
    ) -> impl Iterator<Item = usize> + use<> {
        let (start, step) = match self {
            Probes::Independent => (0, 0),
            Probes::TwoHashes => (mix(hash, 1), mix(hash, 2) | 1),
        };
        (0..u64::from(hashes)).map(move |i| {
            let position = match self {
                Probes::Independent => mix(hash, i + 1),
                Probes::TwoHashes => start.wrapping_add(i.wrapping_mul(step)),
            };
            reduce(position, slots)
        })
    }
}

impl BloomFilter {
    /// A filter of at least `bits` bits that sets `hashes` of them for each key. Split arrays round
    /// `bits` up to a multiple of `hashes`.
    ///
    /// # Panics
    /// If `hashes` is not 1 to [`MAX_HASHES`], or if [`BloomFilter::try_new`] would return an
    /// error.
    pub fn new(layout: Layout, bits: usize, hashes: u32) -> BloomFilter {
        BloomFilter::try_new(layout, bits, hashes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`BloomFilter::new`], but for sizes from untrusted input.
    ///
    /// # Errors
    /// [`TooLarge`] if memory is short, or the filter would have more than 2^43 bits.
    ///
    /// # Panics
    /// Unless `hashes` is 1 to [`MAX_HASHES`].
    pub fn try_new(layout: Layout, bits: usize, hashes: u32) -> Result<BloomFilter, TooLarge> {
        BloomFilter::with_probes(Probes::Independent, layout, bits, hashes)
    }

    pub(super) fn with_probes(
        probes: Probes,
        layout: Layout,
        bits: usize,
        hashes: u32,
    ) -> Result<BloomFilter, TooLarge> {
        assert!((1..=MAX_HASHES).contains(&hashes), "1 to {MAX_HASHES} hashes, not {hashes}");
        let (array_bits, arrays) = match layout {
            Layout::Shared => (bits.max(1), 1),
            Layout::Split => (bits.max(1).div_ceil(hashes as usize), hashes as usize),
        };
        let words = zeros(array_bits.checked_mul(arrays))?;
        Ok(BloomFilter { layout, probes, hashes, array_bits, words })
    }

    /// The smallest filter for `keys` keys whose mean rate over all sets of keys is at most `rate`:
    /// see [`formulas::whole_shape`].
    ///
    /// # Panics
    /// If `rate` is not above 0 and below 1, or if [`BloomFilter::try_for_rate`] would return an
    /// error.
    pub fn for_rate(layout: Layout, keys: usize, rate: f64) -> BloomFilter {
        BloomFilter::try_for_rate(layout, keys, rate).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`BloomFilter::for_rate`], but for sizes from untrusted input.
    ///
    /// # Errors
    /// [`TooLarge`] if memory is short, or the filter would have more than 2^43 bits.
    ///
    /// # Panics
    /// Unless `rate` is above 0 and below 1.
    pub fn try_for_rate(layout: Layout, keys: usize, rate: f64) -> Result<BloomFilter, TooLarge> {
        let (bits, hashes) = match layout {
            Layout::Shared => formulas::whole_shape(keys, rate),
            Layout::Split => formulas::split_shape(keys, rate),
        };
        BloomFilter::try_new(layout, bits, hashes)
    }

    /// Adds a key. Returns `false` when all its bits were set already: the key is present, or
    /// looked present.
    pub fn insert(&mut self, hash: u64) -> bool {
        let mut changed = false;
        for bit in self.positions_of(hash) {
            let (word, mask) = (&mut self.words[bit / 64], 1 << (bit % 64));
            changed |= *word & mask == 0;
            *word |= mask;
        }
        changed
    }

    /// Whether the key may have been added; `false` is certain.
    pub fn contains(&self, hash: u64) -> bool {
        self.positions_of(hash).all(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    fn positions_of(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let array_stride = match self.layout {
            Layout::Shared => 0,
            Layout::Split => self.array_bits,
        };
        let in_array = self.probes.positions(hash, self.array_bits, self.hashes);
        in_array.enumerate().map(move |(i, position)| i * array_stride + position)
    }

    /// Bits of all arrays.
    pub fn bits(&self) -> usize {
        match self.layout {
            Layout::Shared => self.array_bits,
            Layout::Split => self.array_bits * self.hashes as usize,
        }
    }

    /// Bits that each key sets.
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }

    /// The share of bits that are set. An absent key passes if its `k` bits are among them, so the
    /// rate is about `fill^k`.
    pub fn fill(&self) -> f64 {
        let set: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        set as f64 / self.bits() as f64
    }

    /// An estimate of the number of distinct keys, from the bits alone. Infinite when every bit is
    /// set, because then the bits contain no information.
    pub fn estimated_keys(&self) -> f64 {
        let bits_a_key = match self.layout {
            Layout::Shared => f64::from(self.hashes),
            Layout::Split => 1.0,
        };
        if self.fill() >= 1.0 {
            return f64::INFINITY;
        }
        let still_zero = ln(1.0 - self.fill());
        (still_zero / (bits_a_key * log1p(-1.0 / self.array_bits as f64))).max(0.0)
    }

    /// Adds all keys of `other`. The result equals a filter to which both sets were added.
    ///
    /// # Errors
    ///
    /// [`OtherShape`] if the layouts, sizes or numbers of hashes differ, or if only one filter was
    /// saved as `BLM1`.
    pub fn union(&mut self, other: &BloomFilter) -> Result<(), OtherShape> {
        self.combine(other, |a, b| a | b)
    }

    /// Keeps the keys that both filters may contain. No common key is lost. Bits that different
    /// keys set in both filters stay too, so the rate is higher than that of a filter of the common
    /// keys alone.
    ///
    /// # Errors
    ///
    /// [`OtherShape`] if the layouts, sizes or numbers of hashes differ, or if only one filter was
    /// saved as `BLM1`.
    pub fn intersect(&mut self, other: &BloomFilter) -> Result<(), OtherShape> {
        self.combine(other, |a, b| a & b)
    }

    fn combine(&mut self, other: &BloomFilter, f: fn(u64, u64) -> u64) -> Result<(), OtherShape> {
        let shape =
            |filter: &BloomFilter| (filter.layout, filter.probes, filter.hashes, filter.array_bits);
        if shape(self) != shape(other) {
            return Err(OtherShape);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(a, &b)| *a = f(*a, b));
        Ok(())
    }
}

#[cfg(test)]
mod tests;

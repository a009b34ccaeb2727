//! Keys, and the small experiments that several claims share.

use maypole::filter::FilterSpec;
use maypole_filter::textbook::{BloomFilter, Layout, mix};

use crate::failure::{Failure, Result};
use crate::structures::measure::{absent_hashes, present_hashes};
use crate::structures::subjects::{Filter, reader};

/// The false-positive rate that most claims are about.
pub const ONE_PERCENT: f64 = 0.01;

pub struct Lab {
    /// The number of keys that a filter is planned for.
    pub keys: usize,
    pub seed: u64,
    /// Hashes of present keys, five times as many as a filter is planned for.
    pub present: Vec<u64>,
    pub absent: Vec<u64>,
}

impl Lab {
    pub fn new(keys: usize, seed: u64) -> Lab {
        // At a rate of 1 %, at least 500,000 queries give at least 5,000 false positives. So the
        // standard error of a measured rate is at most 1.4 % of the rate.
        let absent = absent_hashes(seed, (2 * keys).clamp(500_000, 4_000_000));
        Lab { keys, seed, present: present_hashes(seed, 5 * keys), absent }
    }

    /// The keys that a filter is planned for.
    pub fn planned(&self) -> &[u64] {
        &self.present[..self.keys]
    }

    /// The share of absent keys that a filter takes for present.
    pub fn rate(&self, filter: &impl Filter) -> f64 {
        filter.count(&self.absent) as f64 / self.absent.len() as f64
    }

    /// A standard Bloom filter of the planned keys.
    pub fn standard(&self, bits_per_key: f64, hashes: u32) -> BloomFilter {
        let bits = (bits_per_key * self.keys as f64).round() as usize;
        let mut filter = BloomFilter::new(Layout::Shared, bits, hashes);
        filter.add(self.planned());
        filter
    }

    /// The rate and the bits per key of one of Maypole's filters, built of the planned keys.
    pub fn own(&self, spec: &str) -> Result<(f64, f64)> {
        let filter = reader(self.planned(), spec.parse::<FilterSpec>().map_err(Failure::new)?)?;
        Ok((self.rate(&filter), Filter::bytes(&filter) as f64 * 8.0 / self.keys as f64))
    }

    /// The number of filters in an experiment with small filters of `keys` keys. Together they hold
    /// a fifth as many keys as the lab plans for one filter, but there are at least 20 of them.
    pub fn small_filters(&self, keys: usize) -> u64 {
        (self.keys / (5 * keys)).max(20) as u64
    }
}

/// A Bloom filter whose positions the caller computes, for experiments with hashing.
pub struct Array {
    hashes: u32,
    bits: Vec<bool>,
}

impl Array {
    pub fn new(bits: usize, hashes: u32) -> Array {
        Array { hashes, bits: vec![false; bits] }
    }

    /// Sets the bits of a key. `position(i)` is its `i`th position.
    pub fn add(&mut self, position: impl Fn(u32) -> usize) {
        (0..self.hashes).for_each(|i| self.bits[position(i)] = true);
    }

    pub fn contains(&self, position: impl Fn(u32) -> usize) -> bool {
        (0..self.hashes).all(|i| self.bits[position(i)])
    }
}

/// An experiment that measures the rate of several Bloom filters of the same size.
#[derive(Clone, Copy)]
pub struct Small {
    pub keys: usize,
    pub bits: usize,
    pub hashes: u32,
    /// The number of filters, each of different keys.
    pub filters: u64,
    /// The number of absent keys for which each filter is queried.
    pub asked: u64,
}

impl Small {
    /// The rate over all the filters. `position(hash, i)` is the `i`th position of the key with
    /// this hash.
    pub fn rate(self, seed: u64, position: impl Fn(u64, u32) -> usize) -> f64 {
        let mut found = 0;
        for filter in 0..self.filters {
            let key = |i: u64| mix(filter << 32 | i, mix(seed, 0x511a));
            let mut array = Array::new(self.bits, self.hashes);
            (0..self.keys as u64).for_each(|i| array.add(|probe| position(key(i), probe)));
            let absent = (1 << 31)..(1 << 31) + self.asked;
            found += absent.filter(|&i| array.contains(|probe| position(key(i), probe))).count();
        }
        found as f64 / (self.filters * self.asked) as f64
    }
}

//! The cuckoo filter: a hash table of short fingerprints, where each key has two buckets.
//!
//! Literature: B. Fan, D. G. Andersen, M. Kaminsky, M. D. Mitzenmacher, "Cuckoo filter: practically
//! better than Bloom", CoNEXT 2014. Cuckoo hashing: R. Pagh, F. F. Rodler, ESA 2001.
//!
//! ```text
//! bucket 0  |7a|c3|  |  |       insert x: fingerprint 1f, buckets 1 and 3
//! bucket 1  |04|9e|b2|55|  full ┐
//! bucket 2  |61|  |  |  |       │  b2 is evicted: its other bucket is 2, which has room
//! bucket 3  |d8|2b|f0|13|  full ┘  1f takes the slot of b2
//! bucket 4  |  |8c|  |  |
//! ```
//!
//! When a fingerprint is evicted, its key is unknown. So the fingerprint's other bucket must follow
//! from the fingerprint and the bucket that it leaves:
//! `other = (hash(fingerprint) - bucket) mod buckets`. Applied twice, this returns the first
//! bucket. The paper takes the xor of hash and bucket instead of their difference, so the paper's
//! number of buckets must be a power of two.
//!
//! A query compares a fingerprint of `f` bits with the eight slots of two buckets, so the rate is
//! about `8 · load / 2^f`. Compared with a query of one slot, this costs 3 more bits a fingerprint.
//! Besides, 5 % of the slots stay empty. A low rate, which takes long fingerprints, makes the 3
//! bits a smaller share of the size. That is why a cuckoo filter is smaller than a Bloom filter for
//! low rates only.
//!
//! Invariants: a slot that holds 0 is empty, and no fingerprint is 0. A key's two buckets together
//! hold its fingerprint at least as often as the key was added and not removed. A failed insertion
//! changes nothing.

use alloc::vec::Vec;

use super::packed::Packed;
use super::shared::{Full, TooLarge, mix, reduce};
use crate::math::{ceil, powi};

/// Slots of a bucket, the paper's `b`.
pub const SLOTS: usize = 4;
/// The number of evictions after which an insertion gives up.
const MAX_KICKS: usize = 500;
/// The load for which a table is sized. Above 95 %, insertions start to fail.
const LOAD: f64 = 0.95;
/// Buckets that a table has besides. Without them, one set in ten of 38 keys does not fit its 10
/// buckets: in a small table the loads of its parts vary more. With two of them, one set in a
/// thousand does not fit at worst (simulated for 1 to 10,000 keys), and with four none was seen.
const SPARE_BUCKETS: usize = 4;

/// The probability that two keys have the same fingerprint of `bits` bits. It is above `2^-bits`,
/// because 0 is not a fingerprint: keys whose bits are 0 get the fingerprint 1.
fn same_fingerprint(bits: u32) -> f64 {
    let all = powi(2.0, bits);
    (all + 2.0) / (all * all)
}

/// A cuckoo filter with buckets of four fingerprints.
///
/// ```
/// use maypole_filter::textbook::cuckoo::CuckooFilter;
/// use maypole_filter::hash64;
///
/// let mut filter = CuckooFilter::for_rate(1000, 0.001);
/// filter.insert(hash64(b"apple"))?;
/// assert!(filter.contains(hash64(b"apple")));
/// assert!(filter.remove(hash64(b"apple")) && filter.is_empty());
/// # Ok::<(), maypole_filter::textbook::Full>(())
/// ```
#[derive(Clone)]
pub struct CuckooFilter {
    /// Bucket `i` is slots `4i` to `4i + 3`.
    slots: Packed,
    fingerprint_bits: u32,
    len: usize,
    /// The number of evictions so far, which decides pseudo-randomly what is evicted next.
    kicks: u64,
}

impl CuckooFilter {
    /// A filter for `keys` keys. `fingerprint_bits` is limited to 2 to 32.
    ///
    /// # Panics
    /// If memory is short: see [`CuckooFilter::try_new`].
    pub fn new(keys: usize, fingerprint_bits: u32) -> CuckooFilter {
        CuckooFilter::try_new(keys, fingerprint_bits).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`CuckooFilter::new`], but for sizes from untrusted input.
    ///
    /// # Errors
    /// [`TooLarge`] if memory is short, or the slots would take more than 2^43 bits.
    pub fn try_new(keys: usize, fingerprint_bits: u32) -> Result<CuckooFilter, TooLarge> {
        let fingerprint_bits = fingerprint_bits.clamp(2, 32);
        let buckets = ceil(keys as f64 / LOAD / SLOTS as f64) as usize;
        let slots = buckets.saturating_add(SPARE_BUCKETS).saturating_mul(SLOTS);
        let slots = Packed::new(fingerprint_bits, slots)?;
        Ok(CuckooFilter { slots, fingerprint_bits, len: 0, kicks: 0 })
    }

    /// A filter for `keys` keys whose mean rate over all sets of keys is at most `rate`.
    /// Fingerprints have at most 32 bits, so a lower `rate` than one in 565 million is not reached.
    ///
    /// # Panics
    /// If memory is short: see [`CuckooFilter::try_new`].
    pub fn for_rate(keys: usize, rate: f64) -> CuckooFilter {
        let bound = |bits: &u32| 2.0 * SLOTS as f64 * LOAD * same_fingerprint(*bits);
        let bits = (2..32).find(|bits| bound(bits) <= rate).unwrap_or(32);
        CuckooFilter::new(keys, bits)
    }

    fn buckets(&self) -> usize {
        self.slots.len() / SLOTS
    }

    /// A key's fingerprint and one of its buckets.
    fn locate(&self, hash: u64) -> (u32, usize) {
        let fingerprint = mix(hash, 1) & ((1 << self.fingerprint_bits) - 1);
        (fingerprint.max(1) as u32, reduce(mix(hash, 2), self.buckets()))
    }

    fn other_bucket(&self, fingerprint: u32, bucket: usize) -> usize {
        let buckets = self.buckets();
        let sum = reduce(mix(fingerprint.into(), 3), buckets);
        (sum + buckets - bucket) % buckets
    }

    /// The slot in `bucket` that holds `fingerprint`, or an empty slot if `fingerprint` is 0.
    fn find(&self, bucket: usize, fingerprint: u32) -> Option<usize> {
        (bucket * SLOTS..(bucket + 1) * SLOTS).find(|&slot| self.slots.get(slot) == fingerprint)
    }

    /// Whether the key may be present; `false` is certain, provided that only present keys were
    /// removed.
    pub fn contains(&self, hash: u64) -> bool {
        let (fingerprint, bucket) = self.locate(hash);
        let other = self.other_bucket(fingerprint, bucket);
        self.find(bucket, fingerprint).or_else(|| self.find(other, fingerprint)).is_some()
    }

    /// Adds a key. Adding the same key twice takes two slots; a key has at most eight slots.
    ///
    /// # Errors
    ///
    /// [`Full`] if no slot was found for the key.
    pub fn insert(&mut self, hash: u64) -> Result<(), Full> {
        let (mut fingerprint, mut bucket) = self.locate(hash);
        // The slots whose fingerprints were evicted. If no slot is found, the fingerprints go back.
        let mut thrown = Vec::new();
        loop {
            let other = self.other_bucket(fingerprint, bucket);
            if let Some(slot) = self.find(bucket, 0).or_else(|| self.find(other, 0)) {
                self.slots.set(slot, fingerprint);
                self.len += 1;
                return Ok(());
            }
            if thrown.len() == MAX_KICKS {
                break;
            }
            // After an eviction, `fingerprint` comes from `bucket`, which is full, so it goes to
            // its other bucket. The fingerprint of the new key may go to either bucket.
            let random = mix(self.kicks, 4) as usize;
            self.kicks += 1;
            bucket = if thrown.is_empty() && random & SLOTS == 0 { bucket } else { other };
            let slot = bucket * SLOTS + random % SLOTS;
            thrown.push(slot);
            fingerprint = self.exchange(slot, fingerprint);
        }
        for slot in thrown.into_iter().rev() {
            fingerprint = self.exchange(slot, fingerprint);
        }
        Err(Full)
    }

    /// Stores a fingerprint in a slot and returns the previous one.
    fn exchange(&mut self, slot: usize, fingerprint: u32) -> u32 {
        let thrown = self.slots.get(slot);
        self.slots.set(slot, fingerprint);
        thrown
    }

    /// Removes a key once, even if it was added several times. Returns `false` if the key is
    /// certainly absent. A key that was never added may look present; removing it then removes
    /// another key of the same fingerprint.
    pub fn remove(&mut self, hash: u64) -> bool {
        let (fingerprint, bucket) = self.locate(hash);
        let other = self.other_bucket(fingerprint, bucket);
        let found = self.find(bucket, fingerprint).or_else(|| self.find(other, fingerprint));
        if let Some(slot) = found {
            self.slots.set(slot, 0);
            self.len -= 1;
        }
        found.is_some()
    }

    /// The number of fingerprints in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The share of slots that are taken.
    pub fn load(&self) -> f64 {
        self.len as f64 / self.slots.len() as f64
    }

    /// Bits of a fingerprint.
    pub fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.slots.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::{keys, share};
    use super::*;

    #[test]
    fn no_key_is_lost_at_95_percent_and_the_rate_is_that_of_eight_slots() {
        let (present, absent) = (keys(1, 0..20_000), keys(2, 0..200_000));
        for wanted in [0.1, 0.01] {
            let mut filter = CuckooFilter::for_rate(present.len(), wanted);
            assert!(present.iter().all(|&key| filter.insert(key).is_ok()));
            assert!(filter.load() > 0.949 && filter.len() == present.len());
            assert!(present.iter().all(|&key| filter.contains(key)));
            let rate = share(&absent, |key| filter.contains(key));
            let expected =
                2.0 * SLOTS as f64 * filter.load() / f64::from(1u32 << filter.fingerprint_bits());
            assert!(
                (rate / expected - 1.0).abs() < 0.2 && rate < 1.05 * wanted,
                "{rate} {expected}"
            );
        }
    }

    /// Without spare buckets, one of 38 keys was rejected in a tenth of all sets.
    #[test]
    fn small_tables_hold_the_keys_that_they_are_made_for() {
        for count in [1, 4, 7, 16, 20, 38, 76, 150, 300, 500] {
            let is_full = |set: &u64| {
                let mut filter = CuckooFilter::for_rate(count as usize, 0.01);
                keys(8 + set, 0..count).iter().any(|&key| filter.insert(key).is_err())
            };
            let full = (0..1000).filter(is_full).count();
            assert!(full <= 2, "{count} keys: {full} of 1000 sets");
        }
    }

    #[test]
    fn removed_keys_are_gone_and_the_others_stay() {
        let present = keys(3, 0..5000);
        let mut filter = CuckooFilter::new(present.len(), 16);
        present.iter().for_each(|&key| filter.insert(key).unwrap());
        let (gone, kept) = present.split_at(4000);
        assert!(gone.iter().all(|&key| filter.remove(key)));
        assert!(kept.iter().all(|&key| filter.contains(key)));
        assert!(share(gone, |key| filter.contains(key)) < 0.01);
        assert!(kept.iter().all(|&key| filter.remove(key)) && filter.is_empty());
        assert!(!filter.remove(present[0]));
    }

    #[test]
    fn a_full_table_says_so_and_loses_nothing() {
        let present = keys(4, 0..2000);
        let mut filter = CuckooFilter::new(1000, 12);
        let fits = present.iter().position(|&key| filter.insert(key) == Err(Full)).unwrap();
        assert!(filter.load() > 0.95 && fits == filter.len(), "{}", filter.load());
        for &key in &present[fits..fits + 100] {
            // Some keys still fit. An insertion that fails must not evict another key.
            let _ = filter.insert(key);
        }
        assert!(present[..fits].iter().all(|&key| filter.contains(key)));
    }

    #[test]
    fn one_key_fits_eight_times() {
        let mut filter = CuckooFilter::new(10_000, 12);
        for key in keys(5, 0..50) {
            let fits = (0..20).take_while(|_| filter.insert(key).is_ok()).count();
            // Both buckets may be the same one.
            assert!(fits == 2 * SLOTS || fits == SLOTS, "{fits}");
            assert!((0..fits).all(|_| filter.remove(key)) && !filter.remove(key));
        }
        assert!(filter.is_empty());
    }

    #[test]
    fn removing_what_was_never_added_loses_a_key() {
        let present = keys(6, 0..5000);
        let mut filter = CuckooFilter::new(present.len(), 6);
        present.iter().for_each(|&key| filter.insert(key).unwrap());
        let removed = keys(7, 0..5000).iter().filter(|&&key| filter.remove(key)).count();
        let lost = present.iter().filter(|&&key| !filter.contains(key)).count();
        assert!(removed > 300 && lost > 100, "{removed} removed, {lost} lost");
    }
}

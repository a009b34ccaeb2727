//! The quotient filter: sorted fingerprints, whose position represents most of their bits.
//!
//! Literature: M. A. Bender et al., "Don't thrash: how to cache your hash on flash", VLDB 2012. The
//! table is J. G. Cleary's, "Compact hash tables using bidirectional linear probing", 1984.
//!
//! A fingerprint is cut in two. The *quotient* names the slot where it belongs; the *remainder*,
//! `r` bits, is stored in the slot. Fingerprints with the same quotient form a **run**, sorted. A
//! run that needs more than one slot shifts the next runs to the right; adjacent runs form a
//! **cluster**.
//!
//! ```text
//! fingerprints  1·a  1·c  2·b  2·e  2·f  5·d        quotient·remainder
//!
//! slot          0    1    2    3    4    5    6    7
//! remainder     -    a    c    b    e    f    d    -
//! occupied      0    1    1    0    0    1    0    0     a run belongs to this slot
//! continuation  0    0    1    0    1    1    0    0     not the first of its run
//! shifted       0    0    1    1    1    1    1    0     not in its own slot
//!                    |run 1  |run 2       |run 5
//!                    |cluster                     |
//! ```
//!
//! The three bits, the *marks* of the slot, determine all quotients: from the start of a cluster,
//! each run belongs to the next slot that is marked occupied. So the filter can be listed in order,
//! and the list can be merged with another filter or put into a larger one, without any key
//! (`listing`). Each doubling moves a bit from the remainder to the quotient, and the rate at full
//! load doubles.
//!
//! The false-positive rate is about `load / 2^r`. A slot takes `r + 3` bits and some slots are
//! empty. So with a load of 90 %, a filter with a rate of 1 % is a sixth larger than a Bloom filter
//! with this rate. At 0.1 % both have about the same size.
//!
//! The paper's number of slots is a power of two. Here a fingerprint is a number below `slots ·
//! 2^r`, scaled from the hash, so any number of slots is possible.
//!
//! Invariants: at least one slot is empty, so each cluster has an end. The slots form a circle.

use alloc::vec::Vec;

mod listing;
mod slots;

use super::packed::Packed;
use super::shared::{Full, TooLarge, mix, reduce};
use crate::math::{ceil, log2};

const OCCUPIED: u32 = 1;
const CONTINUATION: u32 = 2;
const SHIFTED: u32 = 4;
const MARKS: u32 = OCCUPIED | CONTINUATION | SHIFTED;

/// The highest load: above it, clusters grow so long that every operation is slow.
const MAX_LOAD: f64 = 0.95;

/// A quotient filter. A fingerprint is in it as often as it was added.
///
/// ```
/// use maypole_filter::textbook::quotient::QuotientFilter;
/// use maypole_filter::hash64;
///
/// let (mut summer, mut autumn) = (QuotientFilter::new(64, 12), QuotientFilter::new(64, 12));
/// summer.insert(hash64(b"cherry"))?;
/// autumn.insert(hash64(b"apple"))?;
/// // Two filters become one, and one becomes larger, without the keys.
/// let year = summer.merged(&autumn).and_then(|both| both.doubled()).expect("bits are left");
/// assert!(year.contains(hash64(b"cherry")) && year.contains(hash64(b"apple")));
/// assert_eq!(year.len(), 2);
/// # Ok::<(), maypole_filter::textbook::Full>(())
/// ```
#[derive(Clone)]
pub struct QuotientFilter {
    /// Each slot holds `remainder << 3 | marks`.
    slots: Packed,
    remainder_bits: u32,
    len: usize,
}

impl QuotientFilter {
    /// A filter of `slots` slots, at least 2, of which keys may fill 95 %. `remainder_bits` is
    /// limited to 1 to 29.
    ///
    /// # Panics
    /// If memory is short: see [`QuotientFilter::try_new`].
    pub fn new(slots: usize, remainder_bits: u32) -> QuotientFilter {
        QuotientFilter::try_new(slots, remainder_bits).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`QuotientFilter::new`], but for sizes from untrusted input.
    ///
    /// # Errors
    /// [`TooLarge`] if memory is short, the slots would take more than 2^43 bits, or a fingerprint,
    /// a number below `slots · 2^remainder_bits`, would not fit into a `usize`.
    pub fn try_new(slots: usize, remainder_bits: u32) -> Result<QuotientFilter, TooLarge> {
        let remainder_bits = remainder_bits.clamp(1, 29);
        let slots = slots.max(2);
        slots.checked_mul(1 << remainder_bits).ok_or(TooLarge)?;
        let slots = Packed::new(remainder_bits + 3, slots)?;
        Ok(QuotientFilter { slots, remainder_bits, len: 0 })
    }

    /// A filter in which `keys` keys fill the share `load` of the slots, at most 0.95. Its mean
    /// rate over all sets of keys is at most `rate`. A remainder has at most 29 bits, so a filter
    /// that is 95 % full does not reach a lower `rate` than one in 565 million.
    ///
    /// # Panics
    /// If memory is short: see [`QuotientFilter::try_new`].
    pub fn for_rate(keys: usize, rate: f64, load: f64) -> QuotientFilter {
        let slots = ceil(keys as f64 / load) as usize;
        let slots = slots.saturating_add(1);
        QuotientFilter::new(slots, ceil(log2(load / rate)).max(1.0) as u32)
    }

    /// A key's quotient and remainder.
    fn fingerprint(&self, hash: u64) -> (usize, u32) {
        let fingerprint = reduce(mix(hash, 1), self.slots.len() << self.remainder_bits);
        let remainder = fingerprint & ((1 << self.remainder_bits) - 1);
        (fingerprint >> self.remainder_bits, remainder as u32)
    }

    /// The most fingerprints that the filter can hold.
    fn most(&self) -> usize {
        let most = ceil(self.slots.len() as f64 * MAX_LOAD) as usize;
        most.min(self.slots.len() - 1)
    }

    /// Whether the key may be present; `false` is certain, provided that only present keys were
    /// removed.
    pub fn contains(&self, hash: u64) -> bool {
        let (quotient, remainder) = self.fingerprint(hash);
        if !self.has(quotient, OCCUPIED) {
            return false;
        }
        let mut slot = self.run_start(quotient);
        while self.remainder(slot) < remainder {
            slot = self.next(slot);
            if !self.has(slot, CONTINUATION) {
                return false;
            }
        }
        self.remainder(slot) == remainder
    }

    /// Adds a key. Adding the same key twice takes two slots.
    /// # Errors
    /// [`Full`] if 95 % of the slots are taken, or all but one.
    pub fn insert(&mut self, hash: u64) -> Result<(), Full> {
        let (quotient, remainder) = self.fingerprint(hash);
        self.insert_fingerprint(quotient, remainder)
    }

    fn insert_fingerprint(&mut self, quotient: usize, remainder: u32) -> Result<(), Full> {
        if self.len >= self.most() {
            return Err(Full);
        }
        self.len += 1;
        let here = self.slots.get(quotient);
        if here & MARKS == 0 {
            self.slots.set(quotient, remainder << 3 | OCCUPIED);
            return Ok(());
        }
        self.slots.set(quotient, here | OCCUPIED);
        let start = self.run_start(quotient);
        let (mut slot, mut marks) = (start, 0);
        if here & OCCUPIED != 0 {
            // The entry goes after all remainders of the run that are not larger.
            while self.remainder(slot) <= remainder {
                marks = CONTINUATION;
                slot = self.next(slot);
                if !self.has(slot, CONTINUATION) {
                    break;
                }
            }
            if slot == start && marks == 0 {
                let head = self.slots.get(start);
                self.slots.set(start, head | CONTINUATION);
            }
        }
        if slot != quotient {
            marks |= SHIFTED;
        }
        self.shift_in(slot, remainder << 3 | marks);
        Ok(())
    }

    /// Removes a key once; a key that was added twice stays once. Returns `false` if the key is
    /// certainly absent. A key that was never added may look present; removing it then removes
    /// another key of the same fingerprint.
    ///
    /// The cluster is taken out and put back without the key, which is obviously correct. Closing
    /// the gap would be faster, but for each entry the code would have to find out whether the
    /// entry moves to its own slot.
    pub fn remove(&mut self, hash: u64) -> bool {
        if !self.contains(hash) {
            return false;
        }
        let fingerprint = self.fingerprint(hash);
        let mut slot = self.cluster_start(fingerprint.0);
        let mut cluster: Vec<_> = self.cluster(slot).collect();
        for _ in 0..cluster.len() {
            self.slots.set(slot, 0);
            slot = self.next(slot);
        }
        self.len -= cluster.len();
        if let Some(i) = cluster.iter().position(|&entry| entry == fingerprint) {
            cluster.remove(i);
        }
        for (quotient, remainder) in cluster {
            let fits = self.insert_fingerprint(quotient, remainder);
            debug_assert!(fits.is_ok(), "all of them were in before");
        }
        true
    }

    /// The number of fingerprints in the filter.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the filter is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The share of slots that are taken.
    pub fn load(&self) -> f64 {
        self.len as f64 / self.slots.len() as f64
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.slots.bytes()
    }
}

#[cfg(test)]
mod tests;

//! The counting Bloom filter: a counter in place of each bit of the standard filter, so that keys
//! can be removed.
//!
//! Literature: L. Fan, P. Cao, J. Almeida, A. Broder, "Summary cache", SIGCOMM 1998 and ToN 2000.
//!
//! ```text
//!                      counters   0 2 0 0 1 15 0 1
//! add    → 1, 4, 7                  3     2      2
//! remove → 1, 4, 5                  2     1 15         15 never decreases again
//! ```
//!
//! Counters have four bits: at the best number of hashes about one counter in 10^15 reaches 15, if
//! no key is added twice. So the filter is four times as large as a standard one.
//!
//! Invariants, as long as only present keys are removed: a counter below [`STUCK`] is the number of
//! probes of present keys that fall on it. A counter at [`STUCK`] no longer counts, and is never
//! decremented, because it could drop to 0 while keys still need it.
//!
//! The danger: removing a key that was never added, but looks present, decrements counters of other
//! keys, and these keys may be lost. A filter cannot detect this. Only a caller that knows the keys
//! can remove safely, and an LSM tree never needs to: it writes a new filter with every table.

use super::bloom::{MAX_HASHES, Probes};
use super::formulas;
use super::packed::Packed;
use super::shared::TooLarge;

/// The value of a counter that has overflowed.
pub const STUCK: u32 = 15;

/// A counting Bloom filter with counters of four bits.
///
/// ```
/// use maypole_filter::textbook::counting::CountingBloom;
/// use maypole_filter::hash64;
///
/// let mut filter = CountingBloom::for_rate(1000, 0.01);
/// filter.insert(hash64(b"apple"));
/// filter.insert(hash64(b"apple"));
/// assert!(filter.remove(hash64(b"apple")));
/// assert!(filter.contains(hash64(b"apple")), "it was added twice");
/// assert!(filter.remove(hash64(b"apple")));
/// assert!(!filter.contains(hash64(b"apple")));
/// ```
#[derive(Clone)]
pub struct CountingBloom {
    counters: Packed,
    hashes: u32,
}

impl CountingBloom {
    /// A filter of `counters` counters, `hashes` of them for each key.
    ///
    /// # Panics
    /// If `hashes` is not 1 to [`MAX_HASHES`], or if [`CountingBloom::try_new`] would return an
    /// error.
    pub fn new(counters: usize, hashes: u32) -> CountingBloom {
        CountingBloom::try_new(counters, hashes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`CountingBloom::new`], but for sizes from untrusted input.
    ///
    /// # Errors
    /// [`TooLarge`] if memory is short, or the counters would take more than 2^43 bits.
    ///
    /// # Panics
    /// Unless `hashes` is 1 to [`MAX_HASHES`].
    pub fn try_new(counters: usize, hashes: u32) -> Result<CountingBloom, TooLarge> {
        assert!((1..=MAX_HASHES).contains(&hashes), "1 to {MAX_HASHES} hashes, not {hashes}");
        Ok(CountingBloom { counters: Packed::new(4, counters.max(1))?, hashes })
    }

    /// The smallest filter for `keys` keys whose mean rate over all sets of keys is at most `rate`:
    /// see [`formulas::whole_shape`].
    ///
    /// # Panics
    /// If `rate` is not above 0 and below 1, or if [`CountingBloom::try_new`] would return an
    /// error.
    pub fn for_rate(keys: usize, rate: f64) -> CountingBloom {
        let (counters, hashes) = formulas::whole_shape(keys, rate);
        CountingBloom::new(counters, hashes)
    }

    fn positions_of(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        Probes::Independent.positions(hash, self.counters.len(), self.hashes)
    }

    /// Adds a key. Adding it twice counts twice: it must be removed twice.
    pub fn insert(&mut self, hash: u64) {
        for position in self.positions_of(hash) {
            let count = self.counters.get(position);
            self.counters.set(position, STUCK.min(count + 1));
        }
    }

    /// Whether the key may be present; `false` is certain, provided that only present keys were
    /// removed.
    pub fn contains(&self, hash: u64) -> bool {
        self.positions_of(hash).all(|position| self.counters.get(position) > 0)
    }

    /// Removes a key that was added. Returns `false`, without a change, when the key is certainly
    /// absent. A key that was never added may look present; removing it damages the filter, as the
    /// module's text explains.
    pub fn remove(&mut self, hash: u64) -> bool {
        if !self.contains(hash) {
            return false;
        }
        for position in self.positions_of(hash) {
            let count = self.counters.get(position);
            // A key that was never added, but looked present, may have two probes on one counter.
            // If the counter was 1, the first probe has made it 0.
            if (1..STUCK).contains(&count) {
                self.counters.set(position, count - 1);
            }
        }
        true
    }

    /// The number of counters that have overflowed and will never be 0 again.
    pub fn stuck(&self) -> usize {
        (0..self.counters.len()).filter(|&position| self.counters.get(position) == STUCK).count()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.counters.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::bloom::{BloomFilter, Layout};
    use super::super::shared::{keys, share};
    use super::*;

    fn filled(present: &[u64], rate: f64) -> CountingBloom {
        let mut filter = CountingBloom::for_rate(present.len(), rate);
        present.iter().for_each(|&key| filter.insert(key));
        filter
    }

    #[test]
    fn it_is_a_standard_filter_of_four_times_the_size_that_forgets() {
        let (present, absent) = (keys(1, 0..20_000), keys(2, 0..100_000));
        let mut filter = filled(&present, 0.01);
        let bits = BloomFilter::for_rate(Layout::Shared, present.len(), 0.01).bytes();
        assert!((filter.bytes() as f64 / bits as f64 - 4.0).abs() < 0.01);
        let rate = share(&absent, |key| filter.contains(key));
        assert!((rate / 0.01 - 1.0).abs() < 0.25, "{rate}");
        assert_eq!(filter.stuck(), 0);

        let (gone, kept) = present.split_at(15_000);
        assert!(gone.iter().all(|&key| filter.remove(key)));
        assert!(kept.iter().all(|&key| filter.contains(key)));
        // The array was sized for all keys and now holds a quarter of them, so hardly any false
        // positives are left.
        assert!(share(gone, |key| filter.contains(key)) < 0.001);
    }

    #[test]
    fn removing_what_was_never_added_loses_keys() {
        let present = keys(3, 0..5000);
        let mut filter = filled(&present, 0.1);
        let strangers = keys(4, 0..5000);
        assert!(strangers.iter().all(|&key| filter.contains(key) || !filter.remove(key)));
        assert!(present.iter().all(|&key| filter.contains(key)), "a sure no changes nothing");
        let removed = strangers.iter().filter(|&&key| filter.remove(key)).count();
        let lost = present.iter().filter(|&&key| !filter.contains(key)).count();
        assert!(removed > 300 && lost > 300, "{removed} removed, {lost} lost");
    }

    #[test]
    fn a_counter_that_overflowed_stays() {
        let mut filter = CountingBloom::new(1000, 4);
        (0..15).for_each(|_| filter.insert(1));
        assert_eq!(filter.stuck(), 4);
        assert!((0..40).all(|_| filter.remove(1)), "it looks present for ever");
        // After fourteen additions no counter of the key has overflowed, so fourteen removals bring
        // them back to 0.
        (0..14).for_each(|_| filter.insert(2));
        assert!((0..14).all(|_| filter.remove(2)));
        assert!(!filter.remove(2));
    }
}

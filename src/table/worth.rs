//! [`FilterWorth`]: whether a table's filter is worth its memory.
//!
//! A filter displaces data blocks from the cache. If nearly all lookups are for present keys, the
//! filter saves fewer reads than these blocks would. So the filter is weighed each time [`PERIOD`]
//! lookups have read a data block of the table. (A *search in vain* is a search of the table for a
//! key that it does not hold.)
//!
//! ```text
//! the filter saved    the searches in vain since the last weighing, whether the filter prevented
//!                     them or would have prevented them
//! data would save     PERIOD * bytes of the filter / bytes of the table's data
//! ```
//!
//! The second line estimates how many of the last [`PERIOD`] lookups would have found their block
//! in memory if data blocks had the filter's memory, and all keys were equally likely. If the
//! filter has saved less, it is evicted, unless the cache has room for it, because then it
//! displaces nothing. Lookups pass an evicted filter by, that is, search the table without it,
//! until a later weighing finds it worth its memory again.
//!
//! This is the rule for caches that can hold all filters and indexes. In a smaller cache, each part
//! of a filter is judged separately ([`super::lookup::admission`]).

use crate::encoding::hash::GOLDEN_RATIO;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The number of lookups between two weighings. It is large enough to distinguish a filter that
/// saves 1 % of the reads from one that saves 3 %.
const PERIOD: u32 = 1024;

/// Of eight lookups of a thread that read a data block, one is counted, as eight. If all were
/// counted, each of them would wait for other threads' writes to the counter's cache line.
const SAMPLE: u32 = 8;

#[derive(Default)]
pub(super) struct FilterWorth {
    /// The number of lookups that have read a data block, estimated from every eighth one.
    reads: AtomicU32,
    /// The number of searches in vain that the filter had prevented before the last weighing, or
    /// would have prevented while lookups passed it by.
    saved_before: AtomicU64,
    /// The number of seeks for which the filter made a search of the table unnecessary.
    saved_cursors: AtomicU64,
    /// Whether the filter was not worth its memory when it was last weighed.
    is_worthless: AtomicBool,
}

impl FilterWorth {
    /// Notes that a cursor need not search the table, because according to the filter no key has
    /// the prefix of the cursor's range.
    pub fn saved_a_cursor(&self) {
        self.saved_cursors.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a lookup reads a data block. `thread_reads` is the number of the thread's reads
    /// of the table so far. Returns whether the filter is to be weighed.
    #[inline]
    pub fn data_is_read(&self, thread_reads: u64) -> bool {
        // The number is hashed, because every eighth number would not be every eighth lookup: if
        // each lookup makes two reads, the last bit is always the same, so one lookup in four would
        // be counted, or none.
        let is_sampled = thread_reads.wrapping_mul(GOLDEN_RATIO) < u64::MAX / u64::from(SAMPLE);
        is_sampled && {
            let reads = self.reads.fetch_add(SAMPLE, Ordering::Relaxed).wrapping_add(SAMPLE);
            reads.is_multiple_of(PERIOD)
        }
    }

    /// Whether the filter has saved fewer reads since the previous call than data blocks in its
    /// place would have saved. `saved` is the number of lookups, since the table was opened, whose
    /// search in vain the filter has prevented or would have prevented.
    pub fn saved_too_little(&self, saved: u64, filter_bytes: u64, data_bytes: u64) -> bool {
        let saved = saved.wrapping_add(self.saved_cursors.load(Ordering::Relaxed));
        let before = self.saved_before.swap(saved, Ordering::Relaxed);
        let saved = u128::from(saved.wrapping_sub(before));
        saved * u128::from(data_bytes) < u128::from(PERIOD) * u128::from(filter_bytes)
    }

    /// Sets whether lookups pass the filter by.
    pub fn set_worthless(&self, is_worthless: bool) {
        self.is_worthless.store(is_worthless, Ordering::Relaxed);
    }

    /// Whether lookups pass the filter by.
    pub fn is_worthless(&self) -> bool {
        self.is_worthless.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lookup was once counted if the number of its thread's reads of the table was a multiple of
    /// eight. If each lookup read a part of the index and a data block, this number was odd at each
    /// data block, so a filter that was once not worth its memory was never weighed again.
    #[test]
    fn one_lookup_in_eight_is_counted_however_many_reads_each_makes() {
        for reads_each in 1..=16 {
            for first in 0..8 {
                let worth = FilterWorth::default();
                let lookups = (0..64 * u64::from(PERIOD)).map(|i| first + i * reads_each);
                let weighings = lookups.filter(|&reads| worth.data_is_read(reads)).count();
                assert!((60..=68).contains(&weighings), "{reads_each} reads: {weighings}");
            }
        }
    }
}

//! [`FilterWorth`]: whether a table's filter is worth its memory.
//!
//! A filter displaces data blocks from the cache. If nearly all lookups are for present keys, the
//! filter saves fewer reads than these blocks would. So the filter is weighed each time [`PERIOD`]
//! lookups have read a data block of the table:
//!
//! ```text
//! the filter saved    the searches in vain since the last weighing, whether the filter prevented
//!                     them or would have prevented them
//! data would save     PERIOD * bytes of the filter / bytes of the table's data
//! ```
//!
//! The second line estimates how many of the last [`PERIOD`] lookups would have found their block
//! in memory if data blocks had the filter's memory, and all keys were equally likely. A filter
//! that has saved less is evicted, and lookups pass it by until a weighing finds it worth its
//! memory again. While the cache has room for the filter, the filter stays, because it displaces
//! nothing.
//!
//! This is the rule for caches that can hold all filters and indexes. In a smaller cache, each part
//! of a filter is judged separately ([`super::lookup::admission`]).

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The number of lookups between two weighings. It is large enough to distinguish a filter that
/// saves 1 % of the reads from one that saves 3 %.
const PERIOD: u32 = 1024;

/// One in eight of a thread's lookups that read a data block is counted, and counts as eight. If
/// all were counted, each read of a block would wait for other threads' writes to the same cache
/// line.
const SAMPLE: u32 = 8;

#[derive(Default)]
pub(super) struct FilterWorth {
    /// The number of lookups that have read a data block.
    reads: AtomicU32,
    /// The number of searches in vain, up to the last weighing, that the filter saved, or would
    /// have saved while lookups passed it by.
    saved_before: AtomicU64,
    /// The number of seeks for which the filter made a search of the table unnecessary.
    saved_cursors: AtomicU64,
    /// Whether the filter was not worth its memory when it was last weighed.
    is_worthless: AtomicBool,
}

impl FilterWorth {
    /// Notes that the filter has denied the prefix of a range, so that a cursor need not search the
    /// table.
    pub fn saved_a_cursor(&self) {
        self.saved_cursors.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a lookup reads a data block. `thread_reads` is the number of the thread's reads of
    /// the table so far. Returns whether the filter is to be weighed.
    #[inline]
    pub fn data_is_read(&self, thread_reads: u64) -> bool {
        thread_reads.is_multiple_of(SAMPLE.into()) && {
            let reads = self.reads.fetch_add(SAMPLE, Ordering::Relaxed).wrapping_add(SAMPLE);
            reads.is_multiple_of(PERIOD)
        }
    }

    /// Whether the filter, since the previous call, has saved less than data blocks in its place
    /// would have saved. `saved` is the number of lookups so far for which the filter has prevented
    /// a search in vain, or would have prevented it.
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

//! [`FilterWorth`]: whether a table's filter is worth its memory.
//!
//! In a cache that holds all filters and indexes, a filter displaces data blocks. If nearly all
//! lookups are for present keys, it saves fewer reads than these blocks would. So every
//! [`PERIOD`] lookups that have read a data block of the table, the filter is weighed:
//!
//! ```text
//! saved by the filter         searches in vain that it has saved, or would have saved, since it was
//!                             weighed before
//! saved by data in its place  bytes of the filter / bytes of the table's data, of each lookup
//! ```
//!
//! The second line is the hit rate of data blocks under uniform lookups. A filter that saves less
//! is evicted, and lookups pass it by until it is worth its memory again. Nothing is evicted while
//! the cache has room for the filter.
//!
//! Where the filters and indexes of all tables do not fit into the cache, each part of a filter is
//! judged by itself instead ([`super::lookup::admission`]). Filters that hold prefixes are not
//! weighed, because cursors use them too and what they save for cursors is not counted here.

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::format::properties::names;
use super::table::Table;

/// So many lookups tell a filter that saves 1 % of the reads from one that saves 3 %.
const PERIOD: u32 = 1024;

#[derive(Default)]
pub(super) struct FilterWorth {
    /// Lookups that have read a data block.
    reads: AtomicU32,
    /// The searches in vain that the filter had saved, or would have saved, when it was weighed.
    saved_before: AtomicU64,
    /// Whether the filter was not worth its memory when it was weighed.
    is_worthless: AtomicBool,
}

impl FilterWorth {
    pub fn is_worthless(&self) -> bool {
        self.is_worthless.load(Ordering::Relaxed)
    }
}

impl Table {
    /// Call this after a lookup has read a data block of the table. Hold no guard.
    #[inline]
    pub fn data_was_read(&self) {
        let reads = self.filter_worth.reads.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if reads.is_multiple_of(PERIOD) {
            self.weigh_filter();
        }
    }

    #[cold]
    #[inline(never)]
    fn weigh_filter(&self) {
        let Some(stored) = self.whole_key_filter else { return };
        let counts = self.file_counters().sums();
        let saved = counts.filter.useful.wrapping_add(counts.unfiltered);
        let before = self.filter_worth.saved_before.swap(saved, Ordering::Relaxed);
        // These numbers come from the file.
        let number = |name| self.properties().number(name);
        let filter_bytes = number(names::FILTER_BYTES).unwrap_or(0).max(stored.handle().bytes);
        let data_bytes = number(names::DATA_BYTES).unwrap_or(self.block_file().file().len());
        let saved = u128::from(saved.wrapping_sub(before));
        let is_worthless = saved * u128::from(data_bytes)
            < u128::from(PERIOD) * u128::from(filter_bytes)
            && !self.pins_metadata
            && !self.reads_every_filter
            && self.prefix_filter.is_none()
            && !self.cache.metadata_fills_it()
            && !self.cache.has_room_for(filter_bytes as usize);
        self.filter_worth.is_worthless.store(is_worthless, Ordering::Relaxed);
        if is_worthless {
            self.filter.evict_all();
        }
    }
}

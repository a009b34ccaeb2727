//! [`Balance`]: whether filters or indexes give way where both compete for the cache.
//!
//! A part of an index that is in memory saves a read for each lookup that searches it. A part of a
//! filter saves a read only for absent keys, and takes more memory. How many reads a byte of each
//! saves depends on the load, so the cache counts:
//!
//! ```text
//! need of filters   absent keys for which a part of a filter was read, or passed by
//!                   / bytes of filters that are not in memory
//! need of indexes   searches that read a part of an index
//!                   / bytes of indexes that are not in memory
//! use of indexes    searches that read a data block
//!                   / bytes of all indexes
//! ```
//!
//! Filters give way, that is, they are evicted before indexes, if their need is not above the other
//! two quotients. The two needs tell what another byte of each kind would save. But if nearly all
//! indexes are in memory, their misses are too few to tell, and only their use counts.
//!
//! The use is a mean, so it would also keep indexes of key ranges that nobody reads. Therefore the
//! cache examines the indexes in memory one after the other while lookups miss many filters, and
//! evicts those that were not used for a long time ([`Balance::index_searched`]).
//!
//! Only lookups that read a file are counted, because the others must not write to memory that
//! threads share.

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::kind::{BlockKind, KindUsage};

/// All counts are halved once one of them exceeds this number, so that they follow the load.
const MAX_COUNT: u32 = 1024;

/// The share of the capacity by which the bytes of filters that are not in memory are increased.
/// Without it, the need of filters would be a division by zero if all filters are in memory.
const LEAST_SHARE: usize = 64;

/// If at most this share of the bytes of indexes is not in memory, the misses of indexes are too few
/// for an estimate.
const NEARLY_ALL: usize = 8;

/// An index in memory is examined again after this many searches for each part of an index, whether
/// the part is in memory or not. If all parts were used equally often, each would be used this many
/// times meanwhile. So an index that was not used at all is one of those that are rarely used.
const SEARCHES_PER_PART: usize = 8;

/// Indexes are examined only while lookups miss a filter at least once in this many searches of an
/// index.
const MUCH_NEED: u32 = 8;

/// The largest number of searches between two examinations.
const MAX_INTERVAL: usize = 1 << 16;

/// The needs of filters and indexes.
pub(super) struct Balance {
    capacity_bytes: usize,
    /// The bytes that the filters of all open tables would take in memory, and those of the indexes.
    filter_bytes: AtomicUsize,
    index_bytes: AtomicUsize,
    filter_misses: AtomicU32,
    index_searches: AtomicU32,
    index_misses: AtomicU32,
    /// Searches until the next examination of an index.
    until_examined: AtomicU32,
}

impl Balance {
    pub fn new(capacity_bytes: usize) -> Balance {
        Balance {
            capacity_bytes,
            filter_bytes: AtomicUsize::new(0),
            index_bytes: AtomicUsize::new(0),
            filter_misses: AtomicU32::new(0),
            index_searches: AtomicU32::new(0),
            index_misses: AtomicU32::new(0),
            until_examined: AtomicU32::new(0),
        }
    }

    /// Adds the filters and indexes of a table that was opened.
    pub fn add(&self, filter_bytes: usize, index_bytes: usize) {
        self.filter_bytes.fetch_add(filter_bytes, Ordering::Relaxed);
        self.index_bytes.fetch_add(index_bytes, Ordering::Relaxed);
    }

    /// Takes back what [`Balance::add`] has added.
    pub fn subtract(&self, filter_bytes: usize, index_bytes: usize) {
        self.filter_bytes.fetch_sub(filter_bytes, Ordering::Relaxed);
        self.index_bytes.fetch_sub(index_bytes, Ordering::Relaxed);
    }

    /// The bytes that all filters and indexes would take in memory.
    pub fn all_bytes(&self) -> usize {
        self.filter_bytes.load(Ordering::Relaxed) + self.index_bytes.load(Ordering::Relaxed)
    }

    /// Counts an absent key for which a filter in memory would have saved a read.
    /// `in_vain`: whether the index was searched for it, and the search was counted. This search
    /// does not count, because with the filter it would not have happened.
    pub fn filter_missed(&self, in_vain: bool) {
        self.count(&self.filter_misses);
        if in_vain {
            let searches = self.index_searches.load(Ordering::Relaxed);
            self.index_searches.store(searches.saturating_sub(1), Ordering::Relaxed);
        }
    }

    /// Counts a search of an index that reads a data block. Returns whether the cache is to examine
    /// an index now.
    pub fn index_searched(&self) -> bool {
        self.count(&self.index_searches);
        let left = self.until_examined.load(Ordering::Relaxed);
        self.until_examined.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0 && self.filters_need_much()
    }

    /// Counts a search of an index that reads a part of it.
    pub fn index_missed(&self) {
        self.count(&self.index_misses);
    }

    /// Whether enough lookups have missed a filter that it pays to evict indexes that are not used.
    fn filters_need_much(&self) -> bool {
        let misses = self.filter_misses.load(Ordering::Relaxed);
        misses.saturating_mul(MUCH_NEED) >= self.index_searches.load(Ordering::Relaxed)
    }

    /// Adds one to a count. Threads that count at the same time may lose some counts when the
    /// counts are halved.
    fn count(&self, count: &AtomicU32) {
        if count.fetch_add(1, Ordering::Relaxed) < MAX_COUNT {
            return;
        }
        for count in [&self.filter_misses, &self.index_searches, &self.index_misses] {
            count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// Whether filters need memory less than indexes do, or equally. `usage`: by [`BlockKind`].
    pub fn filters_give_way(&self, usage: &[KindUsage; 3]) -> bool {
        let number = |count: &AtomicU32| u128::from(count.load(Ordering::Relaxed));
        let absent_bytes = |bytes: &AtomicUsize, kind: BlockKind| {
            bytes.load(Ordering::Relaxed).saturating_sub(usage[kind as usize].bytes)
        };
        let index_bytes = self.index_bytes.load(Ordering::Relaxed);
        let absent_index_bytes = absent_bytes(&self.index_bytes, BlockKind::Index);
        let absent_filter_bytes =
            absent_bytes(&self.filter_bytes, BlockKind::Filter) + self.capacity_bytes / LEAST_SHARE;
        // Whether `count / bytes` is at least the need of the filters.
        let is_enough = |count: u128, bytes: usize| {
            count * absent_filter_bytes as u128 >= number(&self.filter_misses) * bytes as u128
        };
        is_enough(number(&self.index_searches), index_bytes)
            && (absent_index_bytes <= index_bytes / NEARLY_ALL
                || is_enough(number(&self.index_misses), absent_index_bytes))
    }

    /// Sets after how many searches an index is examined next: the fewer indexes are in memory, the
    /// more searches, so that each is examined after the same number of searches.
    pub fn index_was_examined(&self, usage: &[KindUsage; 3]) {
        let resident_bytes = usage[BlockKind::Index as usize].bytes.max(1);
        let interval =
            SEARCHES_PER_PART * self.index_bytes.load(Ordering::Relaxed) / resident_bytes;
        self.until_examined.store(interval.clamp(1, MAX_INTERVAL) as u32, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Filters of 990 bytes and indexes of 480. [`LEAST_SHARE`] adds 10 bytes to the filters.
    fn balance() -> Balance {
        let balance = Balance::new(10 * LEAST_SHARE);
        balance.add(990, 480);
        balance
    }

    fn in_memory(filters: usize, indexes: usize) -> [KindUsage; 3] {
        let mut usage: [KindUsage; 3] = Default::default();
        usage[BlockKind::Filter as usize].bytes = filters;
        usage[BlockKind::Index as usize].bytes = indexes;
        usage
    }

    fn count(times: u32, what: impl Fn()) {
        (0..times).for_each(|_| what());
    }

    #[test]
    fn the_kind_of_which_a_byte_more_would_save_fewer_reads_gives_way() {
        let balance = balance();
        assert!(balance.filters_give_way(&in_memory(0, 0)), "nothing was counted");
        count(100, || balance.filter_missed(false));
        count(200, || _ = balance.index_searched());
        assert!(!balance.filters_give_way(&in_memory(0, 0)), "0 / 480 and 100 / 1000");
        count(47, || balance.index_missed());
        assert!(!balance.filters_give_way(&in_memory(0, 0)), "47 / 480 and 100 / 1000");
        count(1, || balance.index_missed());
        assert!(balance.filters_give_way(&in_memory(0, 0)), "48 / 480 and 100 / 1000");
        assert!(!balance.filters_give_way(&in_memory(10, 0)), "48 / 480 and 100 / 990");
        assert!(balance.filters_give_way(&in_memory(10, 10)), "48 / 470 and 100 / 990");
        balance.add(0, 20);
        assert!(!balance.filters_give_way(&in_memory(10, 10)), "48 / 490 and 100 / 990");
        balance.subtract(0, 20);
        assert!(balance.filters_give_way(&in_memory(10, 10)), "48 / 470 and 100 / 990");
    }

    /// Regression: once all indexes were in memory, they had no more misses and gave way. So indexes
    /// and filters displaced each other in turns.
    #[test]
    fn indexes_that_are_searched_stay_though_they_have_no_misses() {
        let balance = balance();
        count(100, || balance.filter_missed(false));
        count(47, || _ = balance.index_searched());
        assert!(!balance.filters_give_way(&in_memory(0, 480)), "47 / 480 and 100 / 1000");
        count(1, || _ = balance.index_searched());
        assert!(balance.filters_give_way(&in_memory(0, 480)), "48 / 480 and 100 / 1000");
        assert!(balance.filters_give_way(&in_memory(0, 420)), "nearly all are in memory");
        assert!(!balance.filters_give_way(&in_memory(0, 419)), "0 / 61 and 100 / 1000");
    }

    /// Regression: absent keys for which the index was searched in vain counted for the index, so
    /// that filters gave way although all keys were absent.
    #[test]
    fn searches_in_vain_do_not_count_for_indexes() {
        let balance = balance();
        count(500, || {
            balance.index_searched();
            balance.filter_missed(true);
        });
        assert!(!balance.filters_give_way(&in_memory(0, 480)));
    }

    #[test]
    fn the_counts_follow_the_load() {
        let balance = balance();
        count(100_000, || balance.filter_missed(false));
        assert!(!balance.filters_give_way(&in_memory(0, 480)));
        count(4 * MAX_COUNT, || _ = balance.index_searched());
        assert!(balance.filters_give_way(&in_memory(0, 480)));
    }

    #[test]
    fn each_index_in_memory_is_examined_after_as_many_searches() {
        let balance = balance();
        count(100, || assert!(!balance.index_searched(), "no filter is missed"));
        count(1000, || balance.filter_missed(false));
        assert!(balance.index_searched(), "at first");
        // A sixth of the indexes is in memory. Each of the others takes as much memory as these.
        balance.index_was_examined(&in_memory(0, 80));
        let searches = (1..).find(|_| balance.index_searched());
        assert_eq!(searches, Some(6 * SEARCHES_PER_PART + 1));
    }
}

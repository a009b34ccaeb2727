//! [`Balance`]: whether filters or indexes give way where both compete for the cache.
//!
//! A part of an index that is in memory saves a read for each lookup that searches it. A part of a
//! filter saves a read only for absent keys, and takes more memory. How many reads a byte of each
//! saves depends on the load, so the cache counts:
//!
//! ```text
//! need of filters   absent keys for which a part of a filter was read, or passed by and
//!                   something else was read
//!                   / bytes of filters that are not in memory
//! need of indexes   searches that read a part of an index
//!                   / bytes of indexes that are not in memory
//! use of indexes    searches that read a data block
//!                   / bytes of all indexes
//! ```
//!
//! Filters give way, that is, they are evicted before indexes, unless their need is above the use of
//! indexes. The need of filters tells how many reads another byte of them would save, and the use of
//! indexes how many a byte of theirs saves. If the two are nearly equal, the same kind gives way as
//! before, because both choices save about as many reads, and a change costs the reads of all values
//! that leave and come back ([`CLEARLY`]).
//!
//! The use is a mean, so it would also keep indexes of key ranges that nobody reads. Therefore the
//! cache examines the indexes in memory one after the other while lookups miss many filters, and
//! evicts those that were not used for a long time ([`Balance::index_searched`]). The need of indexes
//! tells how rarely those are used that are not in memory. If it is far below the use of all
//! indexes, and below the need of filters, the time is shorter, so that filters of the key ranges in
//! use get the memory sooner.
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

/// The kind that gives way changes only if need and use differ by this factor (numerator and
/// denominator).
const CLEARLY: (u128, u128) = (5, 4);

/// An index in memory is examined again after this many searches for each part of an index, whether
/// the part is in memory or not. If all parts were used equally often, each would be used this many
/// times meanwhile. So an index that was not used at all is one of those that are rarely used.
const SEARCHES_PER_PART: usize = 8;

/// The same, if the indexes that are not in memory are rarely used.
const FEWER_SEARCHES_PER_PART: usize = 2;

/// Indexes are rarely used if they are used less than this share of the mean (numerator and
/// denominator). With uniform or Zipf lookups, no index is used that rarely. More frequent
/// examinations would then evict indexes that are used again soon.
const RARELY: (u128, u128) = (1, 4);

/// Indexes are examined only while lookups miss a filter at least once in this many searches of an
/// index.
const MUCH_NEED: u32 = 8;

/// The largest number of searches between two examinations.
const MAX_INTERVAL: usize = 1 << 16;

/// A count for a number of bytes.
#[derive(Clone, Copy)]
struct Rate {
    count: u32,
    bytes: usize,
}

impl Rate {
    /// Whether this rate, times the factor, is above `other`. The factor is a numerator and a
    /// denominator.
    fn times_is_above(self, (numerator, denominator): (u128, u128), other: Rate) -> bool {
        let product = |count: u32, bytes: usize| u128::from(count) * bytes as u128;
        numerator * product(self.count, other.bytes)
            > denominator * product(other.count, self.bytes)
    }

    fn is_above(self, other: Rate) -> bool {
        self.times_is_above((1, 1), other)
    }
}

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

    /// Whether filters are to be evicted before indexes. `they_do`: whether they are now. `usage`: by
    /// [`BlockKind`].
    pub fn filters_give_way(&self, usage: &[KindUsage; 3], they_do: bool) -> bool {
        let (need, index_use) = (self.need_of_filters(usage), self.use_of_indexes());
        let (numerator, denominator) = CLEARLY;
        match they_do {
            true => !need.times_is_above((denominator, numerator), index_use),
            false => index_use.times_is_above((denominator, numerator), need),
        }
    }

    fn need_of_filters(&self, usage: &[KindUsage; 3]) -> Rate {
        let absent_bytes = absent_bytes(&self.filter_bytes, usage, BlockKind::Filter);
        let bytes = absent_bytes + self.capacity_bytes / LEAST_SHARE;
        Rate { count: self.filter_misses.load(Ordering::Relaxed), bytes }
    }

    fn need_of_indexes(&self, usage: &[KindUsage; 3]) -> Rate {
        let bytes = absent_bytes(&self.index_bytes, usage, BlockKind::Index);
        Rate { count: self.index_misses.load(Ordering::Relaxed), bytes }
    }

    fn use_of_indexes(&self) -> Rate {
        let bytes = self.index_bytes.load(Ordering::Relaxed);
        Rate { count: self.index_searches.load(Ordering::Relaxed), bytes }
    }

    /// Whether the indexes that are not in memory are used far less than the mean, and would save
    /// fewer reads than filters.
    fn absent_indexes_are_rarely_used(&self, usage: &[KindUsage; 3]) -> bool {
        let need = self.need_of_indexes(usage);
        self.use_of_indexes().times_is_above(RARELY, need)
            && self.need_of_filters(usage).is_above(need)
    }

    /// Sets after how many searches an index is examined next: the fewer indexes are in memory, the
    /// more searches, so that each is examined after the same number of searches.
    pub fn index_was_examined(&self, usage: &[KindUsage; 3]) {
        let searches = match self.absent_indexes_are_rarely_used(usage) {
            true => FEWER_SEARCHES_PER_PART,
            false => SEARCHES_PER_PART,
        };
        let resident_bytes = usage[BlockKind::Index as usize].bytes.max(1);
        let interval = searches * self.index_bytes.load(Ordering::Relaxed) / resident_bytes;
        self.until_examined.store(interval.clamp(1, MAX_INTERVAL) as u32, Ordering::Relaxed);
    }
}

/// The part of `bytes`, which all filters or all indexes would take, that is not in memory.
fn absent_bytes(bytes: &AtomicUsize, usage: &[KindUsage; 3], kind: BlockKind) -> usize {
    bytes.load(Ordering::Relaxed).saturating_sub(usage[kind as usize].bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

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

    /// Changes what gives way, if the counts say so. Returns it.
    fn weigh(balance: &Balance, filters: usize, indexes: usize, gives_way: &Cell<bool>) -> bool {
        let usage = in_memory(filters, indexes);
        gives_way.set(balance.filters_give_way(&usage, gives_way.get()));
        gives_way.get()
    }

    #[test]
    fn the_kind_of_which_a_byte_more_saves_clearly_fewer_reads_gives_way() {
        let (balance, gives_way) = (balance(), Cell::new(true));
        assert!(weigh(&balance, 0, 0, &gives_way), "nothing was counted");
        count(100, || _ = balance.index_searched());
        count(260, || balance.filter_missed(false));
        assert!(weigh(&balance, 0, 0, &gives_way), "260 / 1000 is not above 1.25 times 100 / 480");
        balance.filter_missed(false);
        assert!(!weigh(&balance, 0, 0, &gives_way), "261 / 1000 is more");
        assert!(!weigh(&balance, 0, 480, &gives_way), "the indexes in memory do not matter");
        count(56, || _ = balance.index_searched());
        assert!(!weigh(&balance, 0, 0, &gives_way), "156 / 480 is not 1.25 times 261 / 1000");
        count(1, || _ = balance.index_searched());
        assert!(weigh(&balance, 0, 0, &gives_way), "157 / 480 is more");
        assert!(weigh(&balance, 300, 0, &gives_way), "261 / 700 is not 1.25 times 157 / 480");
        assert!(!weigh(&balance, 400, 0, &gives_way), "261 / 600 is more");
        balance.subtract(0, 240);
        assert!(weigh(&balance, 400, 0, &gives_way), "157 / 240 is more again");
    }

    /// Regression: where both kinds saved about as many reads, lookups of half of all keys filled
    /// the cache with indexes and with filters in turns, and most reads were for what came back.
    #[test]
    fn what_gives_way_stays_while_both_kinds_save_about_as_much() {
        let (balance, gives_way) = (balance(), Cell::new(true));
        for _ in 0..100 {
            count(10, || _ = balance.index_searched());
            count(23, || balance.filter_missed(false));
            assert!(weigh(&balance, 0, 480, &gives_way), "23 / 1000 and 10 / 480");
        }
        gives_way.set(false);
        for _ in 0..100 {
            count(10, || _ = balance.index_searched());
            count(18, || balance.filter_missed(false));
            assert!(!weigh(&balance, 0, 480, &gives_way), "18 / 1000 and 10 / 480");
        }
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
        assert!(!balance.filters_give_way(&in_memory(0, 480), true));
    }

    #[test]
    fn the_counts_follow_the_load() {
        let balance = balance();
        count(100_000, || balance.filter_missed(false));
        assert!(!balance.filters_give_way(&in_memory(0, 480), true));
        count(4 * MAX_COUNT, || _ = balance.index_searched());
        assert!(balance.filters_give_way(&in_memory(0, 480), false));
    }

    /// After how many searches the next index is examined, if a sixth of the indexes is in memory.
    fn searches_until_examined(balance: &Balance) -> Option<usize> {
        balance.index_was_examined(&in_memory(0, 80));
        (1..).find(|_| balance.index_searched())
    }

    #[test]
    fn each_index_in_memory_is_examined_after_as_many_searches() {
        let (fewer, more) = (6 * FEWER_SEARCHES_PER_PART + 1, 6 * SEARCHES_PER_PART + 1);
        let balance = balance();
        count(100, || assert!(!balance.index_searched(), "no filter is missed"));
        count(1000, || balance.filter_missed(false));
        assert!(balance.index_searched(), "at first");
        assert_eq!(searches_until_examined(&balance), Some(fewer), "the others are not used");
        // There were 114 searches, and 23 / 400 is less than a quarter of 114 / 480.
        count(23, || balance.index_missed());
        assert_eq!(searches_until_examined(&balance), Some(fewer), "the others are rarely used");
        // 33 / 400 is more than a quarter of 127 / 480.
        count(10, || balance.index_missed());
        assert_eq!(searches_until_examined(&balance), Some(more), "the others are used");
    }

    #[test]
    fn indexes_that_filters_would_not_outweigh_are_examined_less_often() {
        let balance = balance();
        count(800, || _ = balance.index_searched());
        count(120, || balance.filter_missed(false));
        // 48 / 400 is not below 120 / 1000, and 47 / 400 is.
        count(47, || balance.index_missed());
        let examined = searches_until_examined(&balance);
        assert_eq!(examined, Some(6 * FEWER_SEARCHES_PER_PART + 1));
        balance.index_missed();
        assert_eq!(searches_until_examined(&balance), Some(6 * SEARCHES_PER_PART + 1));
    }

    /// Regression: lookups of half present and half absent keys, uniform or Zipf, evicted indexes
    /// that they used again soon, because these saved fewer reads than filters would have saved.
    #[test]
    fn indexes_that_are_used_half_as_often_as_the_mean_are_not_examined_early() {
        let balance = balance();
        count(700, || _ = balance.index_searched());
        count(700, || balance.filter_missed(false));
        // A sixth of the indexes is not in memory, and lookups miss it once in twelve searches.
        count(700 / 12, || balance.index_missed());
        balance.index_was_examined(&in_memory(0, 400));
        let searches = (1..).find(|_| balance.index_searched());
        assert_eq!(searches, Some(SEARCHES_PER_PART * 480 / 400 + 1));
    }
}

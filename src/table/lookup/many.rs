//! The lookup of many keys in one table, which is a step of `Db::multi_get`.
//!
//! The steps are those of one lookup ([`super`]). Each step is taken for all keys before the next
//! step, so that the processor's cache misses for different keys overlap:
//!
//! ```text
//! 1  prefetch_filter                   fetches the filter's lines
//! 2  filter_says_maybe_together        the filter answers for all keys
//! 3  find_group                        index: each key's group; fetches heads and slots
//!    GroupPosition::find_block         then which block of the group
//!    BlockPosition::prefetch_block     then what a search of the block reads first
//!    BlockPosition::find_entry         then the one entry worth reading
//! 4  get_from_block                    the entries
//!    or, if a block is not in memory:
//!    Absent::keep_block                it is read together with others (batch_read.rs)
//!    BlockBatch::position              then get_from_block continues with it
//! ```
//!
//! The *heads* of a group are the first bytes of its separators ([`crate::table::index`]). Through
//! the *slot* of a block the block is found in the cache.
//!
//! A single lookup calls `prefetch_filter` only if the tree has several runs, and only for the
//! table of the deepest run, whose filter is the least likely to be in the processor's cache. It
//! does not call `prefetch_block` and `find_entry`, because out-of-order execution starts those
//! fetches early enough.

use crate::stats::{ThreadTickers, Ticker};
use crate::sync::Guard;

use super::key::LookupKey;
use super::observer::TableObserver;
use super::says::FilterSays;
use super::tally::FilterTally;
use super::{BlockPosition, count_use};
use crate::table::filter::block::StoredFilter;
use crate::table::table::Table;

/// The most keys for which a filter is queried at once.
const HASHES: usize = 32;

impl Table {
    /// Starts to fetch the memory that queries of the filter for `keys` will read, if the filter is
    /// in memory.
    #[inline(always)]
    pub fn prefetch_filter<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k LookupKey<'k>>,
        guard: &Guard,
    ) {
        if self.has_full_filter
            && let Some(filter) = self.filter.borrow(0, guard)
            && let Some(filter) = filter.of_hash64()
        {
            for key in keys {
                filter.prepare(key.hash);
            }
        }
    }

    /// Queries the filter for up to 64 keys, so that the cache misses of the queries overlap.
    /// `answers[i]` becomes the answer for `keys[i]`. Bit `i` of the result is set if the filter
    /// was not queried for `keys[i]`, because the filter, or its part for the key, is not in
    /// memory.
    pub fn filter_says_maybe_together(
        &self,
        keys: &[&LookupKey<'_>],
        answers: &mut [bool],
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> u64 {
        let filter = match self.whole_key_filter {
            Some(StoredFilter::Full(..)) => self.filter.borrow(0, guard),
            Some(StoredFilter::Parted(..)) => {
                return self.parts_say_maybe_together(keys, answers, guard, tickers);
            }
            None => None,
        };
        let Some(filter) = filter.and_then(|filter| filter.of_hash64()) else {
            let mut absent = 0;
            for (i, (answer, key)) in answers.iter_mut().zip(keys).enumerate() {
                match ().call_other_filter(self, key, guard, tickers) {
                    FilterSays::No => *answer = false,
                    FilterSays::Maybe { .. } => *answer = true,
                    FilterSays::NotQueried { .. } => absent |= 1 << i,
                }
            }
            return absent;
        };
        for (keys, answers) in keys.chunks(HASHES).zip(answers.chunks_mut(HASHES)) {
            let mut hashes = [0; HASHES];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = key.hash;
            }
            filter.may_contain_many(&hashes[..keys.len()], answers);
        }
        let maybes = answers.iter().map(|&maybe| u64::from(maybe)).sum();
        let hits = keys.len() as u64;
        let tally = FilterTally { hits, noes: hits - maybes, maybes, untrusted: 0 };
        tally.record(self, guard, tickers);
        0
    }

    /// Like [`Table::filter_says_maybe_together`], for a filter in parts.
    fn parts_say_maybe_together(
        &self,
        keys: &[&LookupKey<'_>],
        answers: &mut [bool],
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> u64 {
        let (mut absent, mut tally) = (0, FilterTally::default());
        for (first, (keys, answers)) in
            (0..).step_by(HASHES).zip(keys.chunks(HASHES).zip(answers.chunks_mut(HASHES)))
        {
            let mut filters = [None; HASHES];
            for (filter, key) in filters.iter_mut().zip(keys) {
                *filter = self.filter.peek(self.filter_part_of(key), guard);
                if let Some(fast) = filter.and_then(|filter| filter.of_hash64()) {
                    fast.prepare(key.hash);
                }
            }
            let filters = filters.iter().zip(keys);
            for (i, (answer, (filter, key))) in answers.iter_mut().zip(filters).enumerate() {
                match filter.map(|filter| (filter, filter.reader().answer_for(key.hash))) {
                    None => absent |= 1 << (first + i),
                    Some((filter, Some(maybe))) => {
                        count_use(filter, !maybe);
                        *answer = maybe;
                        tally.hits += 1;
                        tally.maybes += u64::from(maybe);
                        tally.noes += u64::from(!maybe);
                    }
                    Some((filter, None)) => {
                        filter.mark_used();
                        tickers.add(Ticker::BlockCacheFilterHit, 1);
                        *answer = self.count_other_filter(filter.may_contain(key), guard, tickers);
                    }
                }
            }
        }
        tally.record(self, guard, tickers);
        absent
    }
}

impl<'g> BlockPosition<'g> {
    /// Prefetches what a search of the block reads first, if the block is in memory.
    #[inline]
    pub fn prefetch_block(&self) {
        if self.block < self.index.index.len() {
            self.index.blocks.prefetch_resident(self.block);
        }
    }

    /// The step after [`Self::prefetch_block`]: finds the entry that the search will read, and
    /// prefetches it.
    #[inline]
    pub fn find_entry(
        &mut self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) {
        if self.block < self.index.index.len()
            && let Some(block) = self.index.blocks.get(self.block, guard)
        {
            tickers.add(Ticker::BlockCacheDataHit, 1);
            let start = block.search_start(key.user_key);
            block.prefetch_entry(start);
            self.known = Some((block, start));
        }
    }
}

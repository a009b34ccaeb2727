//! The lookup of one key in one table, which is a step of `Db::get`.
//!
//! ```text
//! filter_says_maybe   no ─► the table does not hold the key: the caller searches the next table
//!        │ maybe
//! get_after_filter    find_group       index: the few blocks of which one can hold the key
//!                     find_block       index: which of them
//!                     get_from_block   block: the entry of the key, or none
//! ```
//!
//! Each step reports to an [`observer`] what it did. The observer of `get` does nothing; that of
//! `explain` writes a [`trace`].
//!
//! Many keys are looked up at once in [`many`]. Filters of prefixes are queried in [`prefix`].
//!
//! If a lookup needs a block whose checksum is wrong, it returns an error. A filter that cannot be
//! read or trusted answers "maybe" and is counted as untrusted, so it costs reads but loses no key.
//!
//! The functions of this file run under a guard and never read a table file, because a read may
//! take long, and meanwhile the guard would keep all retired memory of the process from being
//! freed. A search that needs something that is not in memory stops, and returns what it needs
//! ([`stop`]). Then [`reading`] reads this without a guard, and continues the search where it has
//! stopped. The search does not begin again, because its steps would be counted twice.

pub(in crate::table) mod admission;
pub(crate) mod batch_read;
pub(crate) mod batch_read_parts;
mod found;
mod joint;
pub(crate) mod key;
mod many;
pub(crate) mod observer;
pub(crate) mod prefix;
pub(crate) mod reading;
pub(crate) mod recorder;
pub(crate) mod says;
pub(crate) mod stop;
mod tally;
pub(crate) mod text;
pub(crate) mod trace;

use crate::cache::slots::{Lease, Resident};
use crate::encoding::bytes::cold_path;
use crate::stats::{FileTicker, ThreadTickers, Ticker};
use crate::sync::Guard;

pub(crate) use self::found::Found;
use self::key::LookupKey;
use self::observer::TableObserver;
use self::says::FilterSays;
use self::stop::{AbsentPart, Stop};
use self::tally::{FilterTally, record_true};
use crate::table::block::search::SearchResult;
use crate::table::block::{Block, SeekStart};
use crate::table::filter::block::{FilterAnswer, TableFilter};
use crate::table::index::{GROUP, Group};
use crate::table::table::Table;
use crate::table::table_index::TableIndex;

impl Table {
    /// What the filter says of the key. If it was not queried, the lookup continues by
    /// [`Table::get_without_filter`] or [`Table::get_and_read`].
    #[inline(always)]
    pub fn filter_says_maybe(
        &self,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> FilterSays {
        if self.has_full_filter
            && let Some(filter) = self.filter.borrow(0, guard)
            && let filter = filter.reader()
            && let Some(maybe) = filter.answer_for(key.hash)
        {
            observer.full_filter_answered(filter, key, maybe);
            FilterTally::record_hit(maybe, self, guard, tickers);
            return FilterSays::of(maybe, || None);
        }
        observer.call_other_filter(self, &key.for_call(), guard, tickers)
    }

    /// The newest entry of the key that the snapshot sees, after the filter said "maybe". Lookups
    /// call this through [`TableObserver::call_get_after_filter`].
    #[inline(always)]
    pub fn get_after_filter<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<Option<Found<'g>>, Stop> {
        match self.find_group(key, guard, tickers) {
            Some(position) => {
                let position = position.find_block(key);
                observer.index_searched(position.index, position.block);
                self.get_from_block(position, key, guard, tickers, observer)
            }
            None => self.without_group(key),
        }
    }

    /// The result of a lookup for which [`Table::find_group`] has returned `None`: a stop if the
    /// index, or its part with the key, is not in memory. Otherwise no part of the index leads to
    /// the key, so the table does not hold it.
    #[cold]
    #[inline(never)]
    pub fn without_group<'g>(&self, key: &LookupKey<'_>) -> Result<Option<Found<'g>>, Stop> {
        match self.part_with_key(key) {
            Some(part) => Err(Stop::absent(AbsentPart::Index(part), key)),
            None => Ok(None),
        }
    }

    /// The group of blocks that most likely has the block of the key. Prefetches what the next
    /// steps read: the heads of the group's separators ([`crate::table::index`]), and the slots
    /// through which its blocks are found in the cache. `None`: the index, or its part with the
    /// key, is not in memory, or no part leads to the key.
    #[inline(always)]
    pub fn find_group<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Option<GroupPosition<'g>> {
        let part = match &self.index_top {
            None => 0,
            Some(_) => self.part_with_key(key)?,
        };
        let index: &TableIndex = self.index.borrow(part, guard)?;
        tickers.add(Ticker::BlockCacheIndexHit, 1);
        let group = index.index.find_group(key.user_key);
        index.blocks.prefetch::<GROUP>(group.first);
        Some(GroupPosition { index, group })
    }

    /// Searches for the entry of the key, beginning with the block that
    /// [`GroupPosition::find_block`] found. Continues in the next blocks if they may hold further
    /// versions of the key.
    #[inline(always)]
    pub fn get_from_block<'g>(
        &'g self,
        position: BlockPosition<'g>,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<Option<Found<'g>>, Stop> {
        let BlockPosition { mut index, block: mut i, known } = position;
        if i >= index.index.len() {
            return Ok(None);
        }
        // If the block is known, the caller has counted it as a hit or a miss.
        let mut hits = u64::from(known.is_none());
        let (mut block, mut start) = match known {
            Some(known) => known,
            None => self.open_block(index, i, key, guard)?,
        };
        let file = self.file_counters().on_thread(tickers, guard);
        loop {
            observer.block_reached(index, i, &block);
            tickers.add_all([(Ticker::BlockCacheDataHit, hits), (Ticker::DataBlocksExamined, 1)]);
            file.add(FileTicker::DataBlocksExamined, 1);
            let search =
                block.find_from(start, key.user_key, key.trailer(), self.global_sequence());
            let damaged = |damage| self.block_file().damaged(damage, index.index.handle(i));
            let search = search.map_err(damaged)?;
            observer.block_searched(matches!(search, SearchResult::Found { .. }));
            match search {
                SearchResult::Found { trailer, value } => {
                    if key.passed_filter_by {
                        // The filter was not queried, so this is no true positive.
                    } else if self.whole_key_filter.is_some() {
                        record_true(tickers, file);
                    } else {
                        self.count_prefix_true_positive(key);
                    }
                    let (kind, sequence) = (trailer as u8, trailer >> 8);
                    return Ok(Some(Found { kind, sequence, block, value }));
                }
                SearchResult::PastEnd if index.index.may_continue(i, key.user_key) => {
                    i += 1;
                    if i == index.index.len() {
                        let Some(next) = self.part_after(index, key, guard)? else {
                            return Ok(None);
                        };
                        (index, i) = (next, 0);
                    }
                    hits = 1;
                    (block, start) = cold_path(|| self.open_block(index, i, key, guard))?;
                }
                _ => {
                    if key.passed_filter_by || self.any_filter().is_none() {
                        file.add(FileTicker::Unfiltered, 1);
                    }
                    block.recycle(&self.cache);
                    return Ok(None);
                }
            }
        }
    }

    /// Data block `i`, and where a search of the block for the key begins.
    #[inline(always)]
    fn open_block<'g>(
        &self,
        index: &'g TableIndex,
        i: usize,
        key: &LookupKey<'_>,
        guard: &'g Guard,
    ) -> Result<(Lease<'g, Block>, SeekStart), Stop> {
        // All cache lines of the block's key heads are fetched at once, because it is not known yet
        // which line the search needs.
        index.blocks.prefetch_resident(i);
        let block = match index.blocks.get(i, guard) {
            Some(block) => block,
            None => {
                index.index.prefetch_handle(i);
                return Err(Stop::absent(AbsentPart::Block { part: index.part, block: i }, key));
            }
        };
        let start = block.search_start(key.user_key);
        Ok((block, start))
    }

    /// The part of an index in parts that leads to the key. `None`: no part does.
    #[inline(always)]
    fn part_with_key(&self, key: &LookupKey<'_>) -> Option<usize> {
        match key.index_part {
            Some(part) => Some(part as usize),
            None => self.find_part_with_key(key),
        }
    }

    /// [`Table::part_with_key`], if the part is not known yet.
    #[inline(never)]
    fn find_part_with_key(&self, key: &LookupKey<'_>) -> Option<usize> {
        let part = self.index_part_of(key.user_key, key.trailer());
        (part < self.index_parts()).then_some(part)
    }

    /// The part of the index after `index`, where versions of the key may continue. `None`: `index`
    /// is the last part.
    #[cold]
    #[inline(never)]
    fn part_after<'g>(
        &'g self,
        index: &TableIndex,
        key: &LookupKey<'_>,
        guard: &'g Guard,
    ) -> Result<Option<&'g TableIndex>, Stop> {
        let part = index.part + 1;
        if part == index.parts {
            return Ok(None);
        }
        match self.index.borrow(part, guard) {
            Some(next) => Ok(Some(next)),
            None => Err(Stop::absent(AbsentPart::Index(part), key)),
        }
    }

    /// [`Table::filter_says_maybe`] in all cases but the usual one, which is a filter of whole keys
    /// that is in memory as one block, can be trusted, and is queried by the 64-bit hash. Lookups
    /// call this through [`TableObserver::call_other_filter`].
    #[inline(always)]
    pub(super) fn other_filter_says_maybe(
        &self,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> FilterSays {
        let part = self.filter_part_of(key);
        let not_queried = FilterSays::NotQueried { part: part as u32 };
        let index_part = || self.index_part_beside(part).map(|part| part as u32);
        if self.whole_key_filter.is_none() {
            let answer = self.prefix_says_maybe(part, key, guard, observer);
            return answer.map_or(not_queried, |maybe| FilterSays::of(maybe, index_part));
        }
        let Some(filter) = self.filter.peek(part, guard) else { return not_queried };
        if let Some(maybe) = filter.reader().answer_for(key.hash) {
            count_use(filter, !maybe);
            let answer = if maybe { FilterAnswer::Maybe } else { FilterAnswer::No };
            observer.filter_answered(self, filter, key, None, answer);
            FilterTally::record_hit(maybe, self, guard, tickers);
            return FilterSays::of(maybe, index_part);
        }
        tickers.add(Ticker::BlockCacheFilterHit, 1);
        let answer = filter.may_contain(key);
        count_use(filter, answer == FilterAnswer::No);
        observer.filter_answered(self, filter, key, None, answer);
        FilterSays::of(self.count_other_filter(answer, guard, tickers), index_part)
    }

    /// Counts the answer of a filter for a whole key. Returns whether the answer is "maybe".
    fn count_other_filter(
        &self,
        answer: FilterAnswer,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        FilterTally::of(answer).record(self, guard, tickers);
        answer != FilterAnswer::No
    }
}

/// Marks a filter part as used, so that the cache keeps it, unless the part has lately answered
/// only "maybe" ([`TableFilter::is_useful`]).
#[inline(always)]
fn count_use(filter: &Resident<TableFilter>, says_no: bool) {
    if filter.is_useful(says_no) {
        filter.mark_used();
    }
}

/// The group of neighbouring data blocks that [`Table::find_group`] has found.
pub(crate) struct GroupPosition<'g> {
    index: &'g TableIndex,
    group: Group,
}

impl<'g> GroupPosition<'g> {
    /// The block that can hold `key`. Call this with the key for which [`Table::find_group`] has
    /// found this group.
    #[inline(always)]
    pub fn find_block(self, key: &LookupKey<'_>) -> BlockPosition<'g> {
        let GroupPosition { index, group } = self;
        let block = index.index.find_in_group(group, key.user_key, key.trailer());
        BlockPosition { index, block, known: None }
    }
}

/// The data block where the search of a table begins. If no block can hold the key, `block` is the
/// number of blocks.
pub(crate) struct BlockPosition<'g> {
    pub(super) index: &'g TableIndex,
    pub(super) block: usize,
    /// The block, and where a search of it begins, if the block is already known to be in memory.
    pub(super) known: Option<(Lease<'g, Block>, SeekStart)>,
}

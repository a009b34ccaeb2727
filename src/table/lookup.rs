//! Point lookups in one table.
//!
//! A lookup has three steps, so that a tree can take each step for all its candidate tables, or for
//! many keys, before the next one:
//!
//! 1. [`Table::prefetch_filter`] starts the filter's trip to memory;
//! 2. [`Table::filter_says_maybe`] takes its answer and counts it: a **no** ends the lookup here. For
//!    keys together: [`Table::filter_says_maybe_together`];
//! 3. [`Table::get_after_filter`] asks the index for the one block that can hold the key, and
//!    searches it. For keys together: [`Table::find_block`], then [`Table::get_from_block`].
//!
//! What damage does. A block that fails its checksum is an error of the lookup that needed it. A
//! filter that cannot be read or trusted answers "maybe" and is counted as untrusted: it costs reads
//! and loses no key.

use crate::cache::Lease;
use crate::error::Result;
use crate::key::SequenceNumber;
use crate::slice::Slice;
use crate::stats::{FileTicker, ThreadTickers, Ticker};
use crate::sync::Guard;

use super::LookupKey;
use super::block::Block;
use super::block_search::Search;
use super::filter_block::FilterAnswer;
use super::reader::{Table, TableIndex};

/// Hashes that are gathered before a filter is asked for them.
const HASHES: usize = 32;

/// The data block where the search of a table begins; past the last one when there is none.
#[derive(Clone, Copy)]
pub(crate) struct BlockPlace<'g> {
    index: &'g TableIndex,
    block: usize,
}

impl BlockPlace<'_> {
    /// Starts to fetch what a search of the block reads first.
    #[inline]
    pub fn prefetch_block(&self) {
        if self.block < self.index.blocks.len() {
            self.index.blocks.prefetch_resident(self.block);
        }
    }

    /// After that: starts to fetch the entry that the search will read.
    #[inline]
    pub fn prefetch_entry(&self, key: &LookupKey<'_>, guard: &Guard) {
        if self.block < self.index.blocks.len()
            && let Some(block) = self.index.blocks.borrow(self.block, guard)
        {
            block.prefetch_entry(key.user_key);
        }
    }
}

/// An entry in its block, for the length of a visit.
pub(crate) struct Found<'a> {
    /// The stored kind byte, which may be one that this crate does not write.
    pub kind: u8,
    pub sequence: SequenceNumber,
    pub value: &'a [u8],
    block: &'a Lease<'a, Block>,
    value_start: usize,
}

impl Found<'_> {
    /// The value, to keep: shares the block.
    pub fn value_slice(&self) -> Slice {
        if self.value.is_empty() {
            return Slice::empty();
        }
        let end = self.value_start + self.value.len();
        Slice::share(self.block.to_arc(), self.value_start..end)
    }
}

impl Table {
    /// Step 1 of a lookup: starts to fetch what the filter's answer needs, if it is in memory.
    #[inline]
    pub fn prefetch_filter(&self, key: &LookupKey<'_>, guard: &Guard) {
        if self.stored_filter.is_some()
            && let Some(filter) = self.filter.borrow(0, guard)
        {
            filter.prepare(key);
        }
    }

    /// Step 2: the filter's answer. `false`: the table holds no entry of the key.
    #[inline]
    pub fn filter_says_maybe(
        &self,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        let Some(stored) = self.stored_filter else { return self.prefix_says_maybe(key, guard) };
        let maybe = match self.filter.borrow(0, guard) {
            Some(filter) => {
                tickers.add(Ticker::BlockCacheFilterHit, 1);
                filter.may_contain(key)
            }
            None => match self.load_filter(stored) {
                Ok(filter) => filter.may_contain(key),
                Err(_) => FilterAnswer::Untrusted,
            },
        };
        if let FilterAnswer::No = maybe {
            tickers.add(Ticker::BloomUseful, 1);
            self.file_counters().count(guard, [FileTicker::FilterUseful]);
            return false;
        }
        tickers.add(Ticker::BloomFullPositive, 1);
        self.file_counters().count(guard, [FileTicker::FilterFullPositive]);
        if let FilterAnswer::Untrusted = maybe {
            tickers.add(Ticker::BloomUntrusted, 1);
            self.file_counters().count(guard, [FileTicker::FilterUntrusted]);
        }
        true
    }

    /// Step 2 for several keys: `answers[i]` is that of `keys[i]`. A Bloom filter is asked for many
    /// keys in a fraction of the time that it takes one by one.
    pub fn filter_says_maybe_together(
        &self,
        keys: &[&LookupKey<'_>],
        answers: &mut [bool],
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) {
        let filter = self.stored_filter.and_then(|_| self.filter.borrow(0, guard));
        let Some(filter) = filter.and_then(|filter| filter.full_of_hash64()) else {
            for (answer, key) in answers.iter_mut().zip(keys) {
                *answer = self.filter_says_maybe(key, guard, tickers);
            }
            return;
        };
        for (keys, answers) in keys.chunks(HASHES).zip(answers.chunks_mut(HASHES)) {
            let mut hashes = [0; HASHES];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = key.hash;
            }
            filter.may_contain_many(&hashes[..keys.len()], answers);
        }
        let (asked, maybes) =
            (keys.len() as u64, answers.iter().map(|&maybe| u64::from(maybe)).sum());
        tickers.add(Ticker::BlockCacheFilterHit, asked);
        tickers.add(Ticker::BloomUseful, asked - maybes);
        tickers.add(Ticker::BloomFullPositive, maybes);
        let useful = (FileTicker::FilterUseful, asked - maybes);
        self.file_counters().add_all(guard, [useful, (FileTicker::FilterFullPositive, maybes)]);
    }

    /// Step 3, after a "maybe": visits the newest entry of the key that the snapshot sees.
    #[inline(never)]
    pub fn get_after_filter<R>(
        &self,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let lease;
        let index: &TableIndex = match self.index.borrow(0, guard) {
            Some(index) => {
                tickers.add(Ticker::BlockCacheIndexHit, 1);
                index
            }
            None => {
                lease = self.load_index()?;
                &lease
            }
        };
        let block = index.index.find(key.user_key, key.trailer());
        self.get_from_block(BlockPlace { index, block }, key, guard, tickers, visit)
    }

    /// The first half of step 3, for lookups that are made together; the second one is
    /// [`Table::get_from_block`]. `None`: the index is not in memory, and the whole step is to be
    /// taken at once.
    #[inline]
    pub fn find_block<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Option<BlockPlace<'g>> {
        let index = self.index.borrow(0, guard)?;
        tickers.add(Ticker::BlockCacheIndexHit, 1);
        let block = index.index.find(key.user_key, key.trailer());
        if block < index.blocks.len() {
            index.blocks.prefetch(block);
        }
        Some(BlockPlace { index, block })
    }

    /// The second half of step 3: looks from the block on that the index named.
    #[inline]
    pub fn get_from_block<R>(
        &self,
        place: BlockPlace<'_>,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let BlockPlace { index, block: first } = place;
        for i in first..index.index.len() {
            let block = match index.blocks.get(i, guard) {
                Some(block) => {
                    tickers.add(Ticker::BlockCacheDataHit, 1);
                    block
                }
                None => self.read_block(index, i)?,
            };
            tickers.add(Ticker::DataBlocksExamined, 1);
            let search = block.find(key.user_key, key.trailer(), self.overlay());
            match search
                .map_err(|damage| self.block_file().damaged(damage, index.index.handle(i)))?
            {
                Search::Found { trailer, value } => {
                    let examined = FileTicker::DataBlocksExamined;
                    if self.stored_filter.is_some() {
                        tickers.add(Ticker::BloomFullTruePositive, 1);
                        let both = [examined, FileTicker::FilterFullTruePositive];
                        self.file_counters().count(guard, both);
                    } else {
                        self.file_counters().count(guard, [examined]);
                        self.count_prefix_true_positive(key);
                    }
                    return Ok(Some(visit(Found {
                        kind: trailer as u8,
                        sequence: trailer >> 8,
                        value: &block.bytes()[value.clone()],
                        block: &block,
                        value_start: value.start,
                    })));
                }
                absent => {
                    self.file_counters().count(guard, [FileTicker::DataBlocksExamined]);
                    if absent == Search::Absent || !index.index.may_continue(i, key.user_key) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }
}

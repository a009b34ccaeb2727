//! Point lookups in one table.
//!
//! A lookup has three steps. A tree takes them one table after the other; for many keys, each step for
//! all keys before the next one:
//!
//! 1. [`Table::prefetch_filter`] starts the filter's trip to memory (of one key's candidates for the
//!    deepest only: a processor looks far enough ahead to start the other trips itself);
//! 2. [`Table::filter_says_maybe`] takes its answer and counts it: a **no** ends the lookup here. For
//!    keys together: [`Table::filter_says_maybe_together`];
//! 3. [`Table::get_after_filter`] asks the index for the one block that can hold the key, and
//!    searches it. For keys together: [`Table::find_block`], then [`Table::get_from_block`].
//!
//! What damage does. A block that fails its checksum is an error of the lookup that needed it. A
//! filter that cannot be read or trusted answers "maybe" and is counted as untrusted: it costs reads
//! and loses no key.

use std::ops::Range;

use crate::cache::Lease;
use crate::encoding::key::{SequenceNumber, rarely};
use crate::error::Result;
use crate::slice::Slice;
use crate::stats::{FileTicker, ThreadTickers, Ticker};
use crate::sync::Guard;

use super::LookupKey;
use super::block::search::Search;
use super::block::{Block, SeekStart};
use super::filter::block::FilterAnswer;
use super::table::{Table, TableIndex};

/// Hashes that are gathered before a filter is asked for them.
const HASHES: usize = 32;

/// The data block where the search of a table begins; past the last one when there is none.
pub(crate) struct BlockPlace<'g> {
    index: &'g TableIndex,
    block: usize,
    /// The block, if it is in memory, and what it says of the key: once [`Self::find_entry`] has asked.
    known: Option<(Lease<'g, Block>, SeekStart)>,
}

impl<'g> BlockPlace<'g> {
    /// Starts to fetch what leads to the block.
    #[inline]
    pub fn prefetch_slot(&self) {
        if self.block < self.index.blocks.len() {
            self.index.blocks.prefetch(self.block);
        }
    }

    /// After that: starts to fetch what a search of the block reads first.
    #[inline]
    pub fn prefetch_block(&self) {
        if self.block < self.index.blocks.len() {
            self.index.blocks.prefetch_resident(self.block);
        }
    }

    /// After that: finds out which entry the search will read, and starts to fetch it.
    #[inline]
    pub fn find_entry(&mut self, key: &LookupKey<'_>, guard: &'g Guard) {
        if self.block < self.index.blocks.len()
            && let Some(block) = self.index.blocks.get(self.block, guard)
        {
            let start = block.search_start(key.user_key);
            block.prefetch_entry(start);
            self.known = Some((block, start));
        }
    }
}

/// An entry in its block.
pub(crate) struct Found<'g> {
    /// The stored kind byte, which may be one that this crate does not write.
    pub kind: u8,
    pub sequence: SequenceNumber,
    block: Lease<'g, Block>,
    value: Range<usize>,
}

impl Found<'_> {
    #[inline(always)]
    pub fn value(&self) -> &[u8] {
        &self.block.bytes()[self.value.clone()]
    }

    /// The value, to keep: shares the block.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        if self.value.is_empty() {
            return Slice::empty();
        }
        Slice::share(self.block.to_arc(), self.value.clone())
    }

    fn into_owned(self) -> Found<'static> {
        Found { block: self.block.into_owned(), ..self }
    }
}

impl Table {
    /// Step 1 of lookups: starts to fetch what the filter's answers need, if it is in memory.
    #[inline(always)]
    pub fn prefetch_filter<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k LookupKey<'k>>,
        guard: &Guard,
    ) {
        if self.stored_filter.is_some()
            && let Some(filter) = self.filter.borrow(0, guard)
            && let Some(filter) = filter.full_of_hash64()
        {
            for key in keys {
                filter.prepare(key.hash);
            }
        }
    }

    /// Step 2 for several keys: `answers[i]` is that of `keys[i]`. A filter is asked for many keys in
    /// a fraction of the time that it takes one by one.
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
                *answer = self.other_filter_says_maybe(key, guard, tickers);
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
        let maybes = answers.iter().map(|&maybe| u64::from(maybe)).sum();
        let noes = keys.len() as u64 - maybes;
        tickers.add_all([
            (Ticker::BlockCacheFilterHit, noes + maybes),
            (Ticker::BloomUseful, noes),
            (Ticker::BloomFullPositive, maybes),
        ]);
        let file = self.file_counters().on_thread(guard);
        let positives = (FileTicker::FilterFullPositive, maybes);
        file.add_all([(FileTicker::FilterUseful, noes), positives]);
    }

    /// Step 2 of a lookup: the filter's answer. `false`: the table holds no entry of the key.
    #[inline(always)]
    pub fn filter_says_maybe(
        &self,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        if self.stored_filter.is_some()
            && let Some(filter) = self.filter.borrow(0, guard)
            && let Some(filter) = filter.full()
            && let Some(maybe) = filter.answer_for(key.hash)
        {
            let file = self.file_counters().on_thread(guard);
            if maybe {
                tickers.count([Ticker::BlockCacheFilterHit, Ticker::BloomFullPositive]);
                file.add(FileTicker::FilterFullPositive, 1);
            } else {
                tickers.count([Ticker::BlockCacheFilterHit, Ticker::BloomUseful]);
                file.add(FileTicker::FilterUseful, 1);
            }
            return maybe;
        }
        self.other_filter_says_maybe(key, guard, tickers)
    }

    /// The answer where it is not that of a full filter in memory: of a partitioned or an old one, of
    /// prefixes, of one that is to be read, of one that cannot be trusted, or of none.
    #[inline(never)]
    fn other_filter_says_maybe(
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
        let file = self.file_counters().on_thread(guard);
        if let FilterAnswer::No = maybe {
            tickers.add(Ticker::BloomUseful, 1);
            file.add(FileTicker::FilterUseful, 1);
            return false;
        }
        tickers.add(Ticker::BloomFullPositive, 1);
        file.add(FileTicker::FilterFullPositive, 1);
        if let FilterAnswer::Untrusted = maybe {
            tickers.add(Ticker::BloomUntrusted, 1);
            file.add(FileTicker::FilterUntrusted, 1);
        }
        true
    }

    /// Step 3, after a "maybe": the newest entry of the key that the snapshot sees.
    #[inline(never)]
    pub fn get_after_filter<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'g>>> {
        match self.find_block(key, guard, tickers) {
            Some(place) => self.get_from_block(place, key, guard, tickers),
            None => self.get_with_loaded_index(key, guard, tickers),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_with_loaded_index(
        &self,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'static>>> {
        let index = self.load_index()?;
        let index: &TableIndex = &index;
        let block = index.index.find(key.user_key, key.trailer());
        let place = BlockPlace { index, block, known: None };
        Ok(self.get_from_block(place, key, guard, tickers)?.map(Found::into_owned))
    }

    /// The first half of step 3, for lookups that are made together; the second one is
    /// [`Table::get_from_block`]. `None`: the index is not in memory, and the whole step is to be
    /// taken at once.
    #[inline(always)]
    pub fn find_block<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Option<BlockPlace<'g>> {
        let index: &TableIndex = self.index.borrow(0, guard)?;
        tickers.add(Ticker::BlockCacheIndexHit, 1);
        let block = index.index.find(key.user_key, key.trailer());
        Some(BlockPlace { index, block, known: None })
    }

    /// The second half of step 3: looks from the block on that the index named.
    #[inline(always)]
    pub fn get_from_block<'g>(
        &self,
        place: BlockPlace<'g>,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'g>>> {
        let BlockPlace { index, block: mut i, known } = place;
        if i >= index.blocks.len() {
            return Ok(None);
        }
        let (mut block, mut start) = match known {
            Some(known) => {
                tickers.add(Ticker::BlockCacheDataHit, 1);
                known
            }
            None => self.open_block(index, i, key, guard, tickers)?,
        };
        let file = self.file_counters().on_thread(guard);
        loop {
            tickers.add(Ticker::DataBlocksExamined, 1);
            file.add(FileTicker::DataBlocksExamined, 1);
            let search = block.find_from(start, key.user_key, key.trailer(), self.overlay());
            let damaged = |damage| self.block_file().damaged(damage, index.index.handle(i));
            match search.map_err(damaged)? {
                Search::Found { trailer, value } => {
                    if self.stored_filter.is_some() {
                        tickers.add(Ticker::BloomFullTruePositive, 1);
                        file.add(FileTicker::FilterFullTruePositive, 1);
                    } else {
                        self.count_prefix_true_positive(key);
                    }
                    let (kind, sequence) = (trailer as u8, trailer >> 8);
                    return Ok(Some(Found { kind, sequence, block, value }));
                }
                Search::PastEnd if index.index.may_continue(i, key.user_key) => {
                    i += 1;
                    if i == index.blocks.len() {
                        return Ok(None);
                    }
                    (block, start) = rarely(|| self.open_block(index, i, key, guard, tickers))?;
                }
                _ => return Ok(None),
            }
        }
    }

    /// Data block `i`, and where a search of it begins.
    #[inline(always)]
    fn open_block<'g>(
        &self,
        index: &'g TableIndex,
        i: usize,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<(Lease<'g, Block>, SeekStart)> {
        // All lines of the sidecar at once: which offset is wanted, its heads decide.
        index.blocks.prefetch_resident(i);
        let block = match index.blocks.get(i, guard) {
            Some(block) => {
                tickers.add(Ticker::BlockCacheDataHit, 1);
                block
            }
            None => self.read_block(index, i)?,
        };
        let start = block.search_start(key.user_key);
        Ok((block, start))
    }
}

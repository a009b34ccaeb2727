//! Lookups that may read a table file. They continue a lookup that stopped under a guard because
//! something was not in memory, or begin a new one.
//!
//! ```text
//!   under a guard:  filter ─► index ─► block ─► entry
//!                     │ absent  │ absent │ absent
//!   here:             └ read ─► └ read ─► └ read ─► entry          no guard while anything is read
//!                       └──┬──────┘
//!                       one read, if both are absent: joint.rs
//! ```
//!
//! A search that reads is not protected by a guard, so it holds counted references to what it
//! needs: the index, and the block that was read. The caller keeps the table alive. Each step is
//! counted once and reported to the observer once, either under a guard or here. A search never
//! repeats a step, so it ends even if the cache keeps nothing.
//!
//! A part of a filter that is not worth a read is not read: the lookup *passes it by*, and searches
//! the table as if there were no filter ([`super::admission`]).

use crate::cache::slots::Lease;
use crate::error::Result;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::block::Block;
use crate::table::filter::block::{FilterAnswer, TableFilter};
use crate::table::table::Table;
use crate::table::table_index::TableIndex;

use super::BlockPosition;
use super::batch_read::AbsentBlock;
use super::found::Found;
use super::joint::IndexRead;
use super::key::LookupKey;
use super::observer::TableObserver;
use super::says::FilterSays;
use super::stop::{Absent, AbsentPart, Stop};

/// What must be read before a lookup can continue in a table.
pub(crate) enum Missing {
    /// The number of the filter's part that is responsible for the key.
    Filter(usize),
    /// The number of a part of the index.
    Index(usize),
    Block(AbsentBlock),
}

impl Absent {
    /// What must be read. For a data block, the result holds a reference to the block's index, so
    /// that the guard can be dropped. If this index was evicted meanwhile, the index must be read
    /// instead.
    #[cold]
    pub fn keep(self, table: &Table, guard: &Guard) -> Missing {
        match self.block {
            AbsentPart::Filter(part) => Missing::Filter(part),
            AbsentPart::Index(part) => Missing::Index(part),
            AbsentPart::Block { part, .. } => {
                self.keep_block(table, guard).map_or(Missing::Index(part), Missing::Block)
            }
        }
    }
}

impl Table {
    /// The newest entry of the key that the snapshot sees. `missing`: what the lookup lacked when
    /// it stopped in this table. `None`: the lookup has not begun in this table. Hold no guard.
    #[inline(always)]
    pub fn get_and_read(
        &self,
        missing: Option<Missing>,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<Option<Found<'static>>> {
        let says = match missing {
            None => self.filter_says_maybe(key, &pin(), tickers, observer),
            Some(Missing::Filter(part)) => FilterSays::NotQueried { part: part as u32 },
            Some(Missing::Index(_) | Missing::Block(_)) => FilterSays::Maybe { index_part: None },
        };
        let mut index_read = None;
        let answer = match says {
            FilterSays::No => Some(false),
            FilterSays::Maybe { .. } => Some(true),
            FilterSays::NotQueried { part } => {
                let (part, decides) = (part as usize, missing.is_none());
                let read = &mut index_read;
                self.filter_says_maybe_once_read(part, decides, key, read, tickers, observer)
            }
        };
        if answer == Some(false) {
            return Ok(None);
        }
        let passed_filter_by = match missing {
            Some(Missing::Index(_) | Missing::Block(_)) => key.passed_filter_by,
            None | Some(Missing::Filter(_)) => answer.is_none(),
        };
        let key = &LookupKey { passed_filter_by, ..*key };
        self.search_and_read(missing, index_read, key, tickers, observer)
    }

    /// The second half of [`Table::get_and_read`]: the search after the query of the filter.
    #[inline(always)]
    fn search_and_read(
        &self,
        missing: Option<Missing>,
        index_read: Option<IndexRead>,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<Option<Found<'static>>> {
        let missing = match missing {
            None | Some(Missing::Filter(_)) => {
                let guard = pin();
                match observer.call_get_after_filter(self, key, &guard, tickers) {
                    Ok(found) => return Ok(found.map(Found::into_owned)),
                    Err(Stop::Failed(error)) => return Err(error),
                    Err(Stop::Absent(absent)) => absent.keep(self, &guard),
                }
            }
            Some(missing) => missing,
        };
        let AbsentBlock { index, block } = match missing {
            Missing::Block(absent) => absent,
            Missing::Index(part) => {
                let index = self.index_once_read(part, index_read)?;
                let block = index.index.find(key.user_key, key.trailer());
                observer.index_searched(&index, block);
                AbsentBlock { index, block }
            }
            Missing::Filter(_) => unreachable!("the filter has answered"),
        };
        let (index, found) = self.get_from_read_blocks(index, block, key, tickers, observer)?;
        if found.is_none() {
            // If versions of the key continue in the next part, `index` is the next part. Then the
            // credit of another filter part grows, which does no harm.
            self.searched_in_vain(self.filter_part_at(index.part, key));
        }
        index.recycle(&self.cache);
        Ok(found)
    }

    /// Reads part `part` of the filter, and queries it for the key. A filter that cannot be
    /// read says maybe. `decides`: whether the lookup may still pass the filter by.
    /// `None`: it passes the filter by.
    /// `index_read` gets the part of the index that was read together with the filter, if any.
    #[cold]
    fn filter_says_maybe_once_read(
        &self,
        part: usize,
        decides: bool,
        key: &LookupKey<'_>,
        index_read: &mut Option<IndexRead>,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Option<bool> {
        if self.filter_key_of(key).is_none() {
            return Some(true);
        }
        let joint = self.joint_read(part, key, &pin());
        let is_joint = joint.is_some();
        if decides && !self.reads_filter_part(part, is_joint) {
            tickers.add(Ticker::BloomPassedBy, 1);
            observer.filter_passed_by();
            return None;
        }
        let filter = match (joint, self.any_filter()) {
            (Some(joint), Some(stored)) => {
                self.load_filter_jointly(stored, part, joint, index_read)
            }
            _ => self.filter_part(part),
        };
        let maybe = self.read_filter_says_maybe(filter.as_deref().ok(), key, tickers, observer);
        self.read_filter_answered(part, is_joint, maybe);
        if let Ok(filter) = filter {
            filter.recycle(&self.cache);
        }
        Some(maybe)
    }

    /// Queries `filter` for the key, and counts the answer. `filter` is the table's filter or its
    /// part for the key, and was read for this lookup. If it could not be read, `filter` is `None`,
    /// and the answer is `true`.
    pub fn read_filter_says_maybe(
        &self,
        filter: Option<&TableFilter>,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> bool {
        if self.whole_key_filter.is_none() {
            let Some(prefix) = self.prefix_to_ask_for(key) else { return true };
            return self.ask_for_prefix(filter, prefix, key, observer);
        }
        let answer = match filter {
            Some(filter) => {
                let answer = filter.may_contain(key);
                observer.filter_answered(self, filter, key, None, answer);
                answer
            }
            None => {
                observer.filter_failed();
                FilterAnswer::Untrusted
            }
        };
        self.count_other_filter(answer, &pin(), tickers)
    }

    /// Drops the result of a lookup. If nothing else holds its block, the cache uses the block's
    /// memory for a later block.
    pub fn recycle(&self, found: Found<'static>) {
        found.block.recycle(&self.cache);
    }

    /// Like [`Table::get_from_block`], from block `i` on, but reads the blocks and the parts of the
    /// index that are not in memory. Also returns the part of the index that was used last.
    #[inline(always)]
    fn get_from_read_blocks(
        &self,
        mut index: Lease<'static, TableIndex>,
        mut i: usize,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<(Lease<'static, TableIndex>, Option<Found<'static>>)> {
        while i < index.index.len() {
            let block = self.block_to_keep(&index, i, tickers)?;
            let start = block.search_start(key.user_key);
            let known = Some((block, start));
            let position = BlockPosition { index: &index, block: i, known };
            let (part, next) = match self.get_from_block(position, key, &pin(), tickers, observer) {
                Ok(found) => {
                    let found = found.map(Found::into_owned);
                    return Ok((index, found));
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Absent(Absent { block, .. })) => match block {
                    AbsentPart::Block { part, block } => (part, block),
                    // Versions of the key continue in this part.
                    AbsentPart::Index(part) => (part, 0),
                    AbsentPart::Filter(_) => unreachable!("no filter is queried here"),
                },
            };
            if part != index.part {
                index = self.index(part)?;
            }
            i = next;
        }
        Ok((index, None))
    }

    #[inline(always)]
    fn block_to_keep(
        &self,
        index: &TableIndex,
        i: usize,
        tickers: ThreadTickers<'_>,
    ) -> Result<Lease<'static, Block>> {
        if let Some(block) = index.blocks.get(i, &pin()) {
            tickers.add(Ticker::BlockCacheDataHit, 1);
            return Ok(block.share());
        }
        let block = self.read_block(index, i)?;
        Ok(block)
    }
}

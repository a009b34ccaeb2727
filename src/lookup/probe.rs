//! [`Probe`]: a search of one table that reads what is not in memory.
//!
//! ```text
//!   under a guard:  filter ─► index ─► block ─► entry
//!                     │ needs   │ needs  │ needs
//!   here:             └ read ─► └ read ─► └ read ─► entry          no guard while anything is read
//!                       └──┬──────┘
//!                       one read, if both are absent: joint.rs
//! ```
//!
//! A probe begins with the [`Need`] with which a search under a guard has ended. It reads what is
//! needed, runs the next stages under a guard of its own, and so on until the key is found or known
//! to be absent. It holds counted references to what it needs: the index, and the block that was
//! read. The caller keeps the table alive. Each stage is counted once and reported to the observer
//! once. No stage is repeated, so a probe ends even if the cache keeps nothing.

use crate::error::Result;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::pin;
use crate::table::{LookupKey, Table};

use super::filter::{self, AfterFilter, FilterUse};
use super::joint::{IndexRead, index_once_read, joint_read};
use super::need::{Need, NeededBlock};
use super::search::{BlockPosition, InTable, search, search_blocks, search_index};
use super::stage::{Found, Observer, Scope};

/// See the module.
pub(super) struct Probe {
    need: Need,
    filter: FilterUse,
    /// The part of the index that was read together with the filter.
    index_read: Option<IndexRead>,
}

/// Looks up the newest entry of the key that the snapshot sees in one table. Hold no guard.
pub(crate) fn search_and_read(
    table: &Table,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
) -> Result<Option<Found<'static>>> {
    let guard = pin();
    match search(table, key, &Scope { guard: &guard, tickers, observer })? {
        InTable::Found(found) => Ok(Some(found.into_owned())),
        InTable::Absent => Ok(None),
        InTable::Needs(need, filter) => {
            drop(guard);
            Probe::new(need, filter).run(table, key, tickers, observer)
        }
    }
}

impl Probe {
    pub fn new(need: Need, filter: FilterUse) -> Probe {
        Probe { need, filter, index_read: None }
    }

    /// Goes on with the search until it ends. `table` and `key` are those of the search that has
    /// ended with the need. Hold no guard.
    #[cold]
    #[inline(never)]
    pub fn run(
        self,
        table: &Table,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: Observer<'_>,
    ) -> Result<Option<Found<'static>>> {
        let Probe { mut need, mut filter, mut index_read } = self;
        loop {
            // Whether a read that follows a "maybe" of the filter, or no query of it, was in vain.
            let mut in_vain = None;
            let step = match need {
                Need::Filter(part) => {
                    if !read_filter(table, part, key, &mut index_read, tickers, observer) {
                        return Ok(None);
                    }
                    let beside = table.index_part_beside(part);
                    let after = AfterFilter::new(FilterUse::Queried, beside);
                    let guard = pin();
                    let scope = Scope { guard: &guard, tickers, observer };
                    own(search_index(table, key, after, &scope)?)
                }
                Need::Index(part) => {
                    let index = index_once_read(table, part, index_read.take())?;
                    let block = index.index.find(key.user_key, key.trailer());
                    observer.tell(|it| it.index_searched(&index, block));
                    in_vain = Some(part);
                    match block < index.index.len() {
                        true => InTable::Needs(Need::Block(NeededBlock { index, block }), filter),
                        false => InTable::Absent,
                    }
                }
                Need::Block(needed) => {
                    in_vain = Some(needed.index.part);
                    read_block(table, needed, key, filter, tickers, observer)?
                }
            };
            match step {
                InTable::Found(found) => return Ok(Some(found)),
                InTable::Absent => {
                    if let Some(index_part) = in_vain {
                        table.filter.was_missed(table.filter_part_at(index_part, key));
                    }
                    return Ok(None);
                }
                InTable::Needs(next, with) => (need, filter) = (next, with),
            }
        }
    }
}

/// Reads part `part` of the filter, and returns whether it answers "maybe" for the key. A filter
/// that cannot be read does. `index_read` gets the part of the index that was read with it, if any.
fn read_filter(
    table: &Table,
    part: usize,
    key: &LookupKey<'_>,
    index_read: &mut Option<IndexRead>,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
) -> bool {
    let joint = joint_read(table, part, key, &pin());
    let is_joint = joint.is_some();
    let read = match joint {
        Some(joint) => joint.load_filter(table, part, index_read),
        None => table.filter.part(table.block_file(), part),
    };
    let filter = read.as_deref().ok();
    let maybe = filter::answer_once_read(table, part, is_joint, filter, key, tickers, observer);
    if let Ok(filter) = read {
        filter.recycle(table.cache());
    }
    maybe
}

/// Searches from a block on, which is read if no other thread has loaded it meanwhile.
fn read_block(
    table: &Table,
    needed: NeededBlock,
    key: &LookupKey<'_>,
    filter: FilterUse,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
) -> Result<InTable<'static>> {
    let NeededBlock { index, block: i } = needed;
    let resident = index.blocks.get(i, &pin()).map(|block| block.share());
    let block = match resident {
        Some(block) => {
            tickers.add(Ticker::BlockCacheDataHit, 1);
            block
        }
        None => table.read_block(&index, i)?,
    };
    let start = block.search_start(key.user_key);
    let known = Some((block, start));
    let position = BlockPosition { index: &index, owner: Some(&index), block: i, known };
    let guard = pin();
    let scope = Scope { guard: &guard, tickers, observer };
    let step = own(search_blocks(table, position, key, filter, &scope)?);
    drop(guard);
    index.recycle(table.cache());
    Ok(step)
}

/// The same step, to keep beyond the guard.
fn own(step: InTable<'_>) -> InTable<'static> {
    match step {
        InTable::Found(found) => InTable::Found(found.into_owned()),
        InTable::Absent => InTable::Absent,
        InTable::Needs(need, filter) => InTable::Needs(need, filter),
    }
}

//! The search of tables for one key, under a guard. A [`Walk`] leads through the files that may hold
//! the key; the stages search one file, and every lookup runs them:
//!
//! ```text
//! filter::query      no ─► the table does not hold the key
//!        │ maybe
//! find_group         index: the few blocks of which one can hold the key
//! find_block         index: which of them
//! search_blocks      block: the entry of the key, or none
//! ```
//!
//! Each stage reports to an [`Observer`](super::stage::Observer) what it did. If a stage needs something
//! that is not in memory, the search ends with a [`Need`], and [`super::probe`] goes on from there.
//! If a block has a wrong checksum, the search returns an error.

use crate::cache::slots::Lease;
use crate::encoding::bytes::cold_path;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::stats::{FileTicker, Ticker};
use crate::sync::Guard;
use crate::table::block::search::SearchResult;
use crate::table::block::{Block, SeekStart};
use crate::table::index::{GROUP, Group};
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table};
use crate::version::{TableFile, Version};

use super::filter::{self, AfterFilter, FilterUse, Membership, record_true};
use super::joint::joint_read;
use super::need::Need;
use super::stage::{FileRun, Found, Scope, hit_ticker, is_live, range_deletion};

/// A walk through the files that may hold a key, in the order of the runs, newest first.
pub(crate) struct Walk<'g> {
    version: &'g Version,
    runs: std::slice::Iter<'g, FileRun>,
    /// The key's head ([`Version::head`]).
    head: u64,
}

/// A file that may hold the key: its range holds the key, and its filter has not answered "no".
pub(crate) struct Candidate<'g> {
    pub run: &'g FileRun,
    pub file: &'g TableFile,
    /// The sequence number of the newest range deletion of the file that covers the key; 0 if there
    /// is none.
    pub deleted_at: SequenceNumber,
    /// What the search knows after the filter, or the number of the filter's part that is not in
    /// memory.
    pub(super) after: std::result::Result<AfterFilter, usize>,
}

impl<'g> Walk<'g> {
    /// A walk through the runs from number `first` on. `None`: the key lies outside the ranges of
    /// all files.
    #[inline(always)]
    pub fn new(version: &'g Version, first: usize, key: &LookupKey<'_>) -> Option<Walk<'g>> {
        let head = version.head(key.user_key)?;
        Some(Walk { version, runs: version.runs()[first..].iter(), head })
    }

    /// Starts to fetch the filter of the deepest run. It is the largest, so its cache line is the
    /// least likely to be in the CPU's caches.
    #[inline(always)]
    pub fn prefetch(&self, key: &LookupKey<'_>, guard: &Guard) {
        if let [_, .., deepest] = self.runs.as_slice()
            && let Some(file) = deepest.file_of(self.head, key.user_key)
        {
            filter::prefetch(&file.table, [key], guard);
        }
    }

    /// The next file that may hold the key.
    #[inline(always)]
    pub fn next(&mut self, key: &LookupKey<'_>, scope: &Scope<'_>) -> Option<Candidate<'g>> {
        for run in &mut self.runs {
            let Some(file) = run.file_of(self.head, key.user_key) else {
                scope.observer.tell(|it| it.run_passed(run));
                continue;
            };
            let deleted_at = match self.version.has_range_deletions {
                true => range_deletion(file, key),
                false => 0,
            };
            scope.observer.tell(|it| it.file_reached(file, deleted_at));
            let after = match filter::query(&file.table, key, scope) {
                Membership::Maybe(after) => Ok(after),
                Membership::Absent(part) => Err(part),
                Membership::No => {
                    scope.observer.tell(|it| it.file_left(run, file, None));
                    if deleted_at > 0 {
                        return None;
                    }
                    continue;
                }
            };
            return Some(Candidate { run, file, deleted_at, after });
        }
        None
    }
}

impl<'g> Candidate<'g> {
    /// Searches the file, after its filter.
    #[inline(always)]
    pub fn search(&self, key: &LookupKey<'_>, scope: &Scope<'g>) -> Result<InTable<'g>> {
        let table = &*self.file.table;
        match self.after {
            Ok(after) => search_index(table, key, after, scope),
            Err(part) => search_without_filter(table, part, key, scope),
        }
    }

    /// The search has found an entry. Returns whether it shows a value.
    #[inline(always)]
    pub fn end_with(
        &self,
        found: &Found<'_>,
        key: &LookupKey<'_>,
        scope: &Scope<'_>,
    ) -> Result<bool> {
        scope.observer.tell(|it| it.file_left(self.run, self.file, Some(found)));
        scope.tickers.add(hit_ticker(self.run.level), 1);
        is_live(&self.file.table, key, found, self.deleted_at)
    }

    /// The search has found no entry. Returns whether the walk ends here: every version of the key
    /// in a deeper file is older than the range deletion, so it is deleted too.
    #[inline(always)]
    pub fn end(&self, scope: &Scope<'_>) -> bool {
        scope.observer.tell(|it| it.file_left(self.run, self.file, None));
        self.deleted_at > 0
    }
}

/// What the search of a table has come to.
pub(crate) enum InTable<'g> {
    Found(Found<'g>),
    /// The table does not hold the key.
    Absent,
    Needs(Need, FilterUse),
}

/// Searches `table` for the newest entry of the key that the snapshot sees.
pub(super) fn search<'g>(
    table: &'g Table,
    key: &LookupKey<'_>,
    scope: &Scope<'g>,
) -> Result<InTable<'g>> {
    match filter::query(table, key, scope) {
        Membership::No => Ok(InTable::Absent),
        Membership::Maybe(after) => search_index(table, key, after, scope),
        Membership::Absent(part) => search_without_filter(table, part, key, scope),
    }
}

/// [`search`], after the part of the filter was found not to be in memory.
#[cold]
#[inline(never)]
pub(super) fn search_without_filter<'g>(
    table: &'g Table,
    part: usize,
    key: &LookupKey<'_>,
    scope: &Scope<'g>,
) -> Result<InTable<'g>> {
    let is_joint = joint_read(table, part, key, scope.guard).is_some();
    match filter::absent_part(table, part, is_joint, scope.tickers, scope.observer) {
        Ok(after) => search_index(table, key, after, scope),
        Err(need) => Ok(InTable::Needs(need, FilterUse::Impossible)),
    }
}

/// [`search`], after the filter.
#[inline(never)]
pub(super) fn search_index<'g>(
    table: &'g Table,
    key: &LookupKey<'_>,
    after: AfterFilter,
    scope: &Scope<'g>,
) -> Result<InTable<'g>> {
    match find_group(table, key, after, scope) {
        Some(group) => {
            let position = group.find_block(key);
            let BlockPosition { index, block, .. } = position;
            scope.observer.tell(move |it| it.index_searched(index, block));
            search_blocks(table, BlockPosition::new(index, block), key, after.filter, scope)
        }
        None => Ok(without_group(table, key, after)),
    }
}

/// The result of a search for which [`find_group`] has returned `None`: the search needs the index,
/// or its part with the key; or no part of the index leads to the key, so the table does not hold
/// it.
#[cold]
#[inline(never)]
pub(super) fn without_group<'g>(
    table: &Table,
    key: &LookupKey<'_>,
    after: AfterFilter,
) -> InTable<'g> {
    match index_part(table, key, after) {
        Some(part) => InTable::Needs(Need::Index(part), after.filter),
        None => InTable::Absent,
    }
}

/// The part of the index that leads to the key. `None`: no part does.
#[inline(always)]
fn index_part(table: &Table, key: &LookupKey<'_>, after: AfterFilter) -> Option<usize> {
    after.index_part().or_else(|| find_index_part(table, key))
}

#[inline(never)]
fn find_index_part(table: &Table, key: &LookupKey<'_>) -> Option<usize> {
    let part = table.index_part_of(key.user_key, key.trailer());
    (part < table.index.parts()).then_some(part)
}

/// The group of blocks that most likely has the block of the key. Prefetches what the next stages
/// read: the heads of the group's separators ([`crate::table::index`]), and the slots through which
/// its blocks are found in the cache. `None`: the index, or its part with the key, is not in memory,
/// or no part leads to the key.
#[inline(always)]
pub(super) fn find_group<'g>(
    table: &'g Table,
    key: &LookupKey<'_>,
    after: AfterFilter,
    scope: &Scope<'g>,
) -> Option<GroupPosition<'g>> {
    let part = match table.index.is_whole() {
        true => 0,
        false => index_part(table, key, after)?,
    };
    let index: &TableIndex = table.index.borrow(part, scope.guard)?;
    scope.tickers.add(Ticker::BlockCacheIndexHit, 1);
    let group = index.index.find_group(key.user_key);
    index.blocks.prefetch::<GROUP>(group.first);
    Some(GroupPosition { index, group })
}

/// The group of neighbouring data blocks that [`find_group`] has found.
pub(super) struct GroupPosition<'g> {
    index: &'g TableIndex,
    group: Group,
}

impl<'g> GroupPosition<'g> {
    /// The block that can hold `key`. Call this with the key for which [`find_group`] has found this
    /// group.
    #[inline(always)]
    pub fn find_block(self, key: &LookupKey<'_>) -> BlockPosition<'g> {
        let GroupPosition { index, group } = self;
        let block = index.index.find_in_group(group, key.user_key, key.trailer());
        BlockPosition::new(index, block)
    }
}

/// The data block where the search of a table begins. If no block can hold the key, `block` is the
/// number of blocks.
pub(crate) struct BlockPosition<'g> {
    pub(super) index: &'g TableIndex,
    /// What keeps `index` alive, if it is not the guard.
    pub(super) owner: Option<&'g Lease<'static, TableIndex>>,
    pub(super) block: usize,
    /// The block, and where a search of it begins, if the block is already known to be in memory.
    pub(super) known: Option<(Lease<'g, Block>, SeekStart)>,
}

impl<'g> BlockPosition<'g> {
    /// Block `block` of an index that the guard keeps alive.
    #[inline(always)]
    fn new(index: &'g TableIndex, block: usize) -> BlockPosition<'g> {
        BlockPosition { index, owner: None, block, known: None }
    }

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
    pub fn find_entry(&mut self, key: &LookupKey<'_>, scope: &Scope<'g>) {
        if self.block < self.index.index.len()
            && let Some(block) = self.index.blocks.get(self.block, scope.guard)
        {
            scope.tickers.add(Ticker::BlockCacheDataHit, 1);
            let start = block.search_start(key.user_key);
            block.prefetch_entry(start);
            self.known = Some((block, start));
        }
    }
}

/// Searches for the entry of the key, beginning with the block at `from`. Continues in the next
/// blocks if they may hold further versions of the key.
#[inline(always)]
pub(super) fn search_blocks<'g>(
    table: &'g Table,
    from: BlockPosition<'g>,
    key: &LookupKey<'_>,
    filter: FilterUse,
    scope: &Scope<'g>,
) -> Result<InTable<'g>> {
    let BlockPosition { mut index, owner, block: mut i, known } = from;
    if i >= index.index.len() {
        return Ok(InTable::Absent);
    }
    // If the block is known, the caller has counted it as a hit or a miss.
    let mut hits = u64::from(known.is_none());
    let (mut block, mut start) = match known {
        Some(known) => known,
        None => match open_block(index, i, key, scope.guard) {
            Some(opened) => opened,
            None => {
                return Ok(InTable::Needs(
                    Need::block(table, owner, index, i, scope.guard),
                    filter,
                ));
            }
        },
    };
    let file = table.block_file().file_counters.on_thread(scope.tickers, scope.guard);
    loop {
        let reached: &Block = &block;
        scope.observer.tell(move |it| it.block_reached(index, i, reached));
        scope.tickers.add_all([(Ticker::BlockCacheDataHit, hits), (Ticker::DataBlocksExamined, 1)]);
        file.add(FileTicker::DataBlocksExamined, 1);
        let search = block.find_from(start, key.user_key, key.trailer(), table.global_sequence());
        let damaged = |damage| table.block_file().damaged(damage, index.index.handle(i));
        let search = search.map_err(damaged)?;
        let is_found = matches!(search, SearchResult::Found { .. });
        scope.observer.tell(move |it| it.block_searched(is_found));
        match search {
            SearchResult::Found { trailer, value } => {
                if filter == FilterUse::Queried {
                    record_true(table, scope.tickers, file);
                }
                let (kind, sequence) = (trailer as u8, trailer >> 8);
                return Ok(InTable::Found(Found { kind, sequence, block, value }));
            }
            SearchResult::PastEnd if index.index.may_continue(i, key.user_key) => {
                i += 1;
                if i == index.index.len() {
                    let part = index.part + 1;
                    if part == index.parts {
                        return Ok(InTable::Absent);
                    }
                    match cold_path(|| table.index.borrow(part, scope.guard)) {
                        Some(next) => (index, i) = (next, 0),
                        None => return Ok(InTable::Needs(Need::Index(part), filter)),
                    }
                }
                hits = 1;
                (block, start) = match cold_path(|| open_block(index, i, key, scope.guard)) {
                    Some(opened) => opened,
                    None => {
                        let need = Need::block(table, owner, index, i, scope.guard);
                        return Ok(InTable::Needs(need, filter));
                    }
                };
            }
            _ => {
                if filter == FilterUse::PassedBy || table.filter.stored().is_none() {
                    file.add(FileTicker::Unfiltered, 1);
                }
                block.recycle(table.cache());
                return Ok(InTable::Absent);
            }
        }
    }
}

/// Data block `i`, and where a search of the block for the key begins. `None`: the block is not in
/// memory.
#[inline(always)]
fn open_block<'g>(
    index: &'g TableIndex,
    i: usize,
    key: &LookupKey<'_>,
    guard: &'g Guard,
) -> Option<(Lease<'g, Block>, SeekStart)> {
    // All cache lines of the block's key heads are fetched at once, because it is not known yet
    // which line the search needs.
    index.blocks.prefetch_resident(i);
    let Some(block) = index.blocks.get(i, guard) else {
        index.index.prefetch_handle(i);
        return None;
    };
    let start = block.search_start(key.user_key);
    Some((block, start))
}

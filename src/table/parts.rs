//! Filters and indexes in parts: which part is responsible for a key, and how the part is read.
//!
//! ```text
//! file      data blocks | filter parts | index parts | top of the filter | top of the index | …
//! top       for each part a separator, and where the part is: an index whose blocks are parts
//! memory    Table ─┬─ tops                                   with the open table
//!                  ├─ filter [slot | slot | …] ─► TableFilter     each part is loaded and
//!                  └─ index  [slot | slot | …] ─► TableIndex      evicted separately
//! ```
//! If the filter and the index are not in memory, a lookup reads one part of each, a few KiB, so it
//! evicts little from the cache. A whole filter or index counts as one part, without a top.
//!
//! This crate cuts most filters at the same keys as the index. The open table then keeps only one
//! copy of the separators, in the top of the index. RocksDB may cut filter and index at different
//! keys.
//!
//! Invariants, checked when a part is read, because the file is input:
//! - the last separator of an index part is the part's separator in the top, so that the top leads
//!   to the one part that can hold a key;
//! - the first separator of an index part is after the last separator of the part before.
//!
//! A top that is damaged or empty counts as absent. Without the top of the filter, the filter
//! answers "maybe" to all keys. Without the top of the index, a lookup loads the whole index: it
//! reads the stored top again, and all parts. If the stored top is damaged, the lookup returns this
//! error.

use std::ops::Deref;

use crate::cache::slots::Lease;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SEEK_KIND, pack};
use crate::error::{Damage, Result};
use crate::memory::LineBuf;
use crate::stats::Ticker;
use crate::sync::atomic::{AtomicBool, Ordering};

use super::block::Block;
use super::format::file::{Buffer, StoredBlock};
use super::format::footer::BlockHandle;
use super::format::properties::IndexForm;
use super::index::{Index, IndexParser};
use super::source::LoadTickers;
use super::table::Table;
use super::table_index::{ResidentBlocks, TableIndex};
use crate::encoding::key::LookupKey;

const INDEX_TICKERS: LoadTickers =
    [Ticker::BlockCacheIndexMiss, Ticker::BlockCacheIndexAdd, Ticker::BlockCacheIndexBytesInsert];

/// What [`Table::whole_index`] returns.
pub(crate) enum WholeIndex {
    Cached(Lease<'static, TableIndex>),
    Read(Index),
}

impl Deref for WholeIndex {
    type Target = Index;

    fn deref(&self) -> &Index {
        match self {
            WholeIndex::Cached(index) => &index.index,
            WholeIndex::Read(index) => index,
        }
    }
}

impl Table {
    /// The part of the index that leads to the key; if none does, the number of parts.
    pub(crate) fn index_part_of(&self, user_key: &[u8], trailer: u64) -> usize {
        self.index.locate(user_key, trailer)
    }

    /// The part of the index that leads to all keys for which part `filter_part` of the filter is
    /// responsible. `None` if they may be in several parts, or in none.
    pub(crate) fn index_part_beside(&self, filter_part: usize) -> Option<usize> {
        let is_beside = self.filter.parts.shares_separators(&self.index)
            && filter_part + 1 < self.filter.parts.parts();
        is_beside.then_some(filter_part)
    }

    /// The part of the filter that can hold the key, if part `index_part` of the index leads to it.
    /// Searches the top of the filter only if it must.
    pub(crate) fn filter_part_at(&self, index_part: usize, key: &LookupKey<'_>) -> usize {
        match self.filter.parts.shares_separators(&self.index) {
            true => index_part.min(self.filter.parts.parts() - 1),
            false => self.filter.locate(key),
        }
    }

    /// Reads the whole index without using the cache. Parts are joined into one index. `buffer`
    /// makes the memory for the heads of the separators ([`super::index`]), which every search
    /// reads.
    pub fn read_index(&self, buffer: impl Buffer) -> Result<Index> {
        let file = self.block_file();
        let add = |parser: &mut IndexParser, handle| {
            let block = file.read_metadata_block(handle)?;
            parser.add(&block).map_err(|damage| file.damaged(damage, handle))
        };
        let (form, handle) = (self.index_form(), self.index_handle());
        let mut parser = IndexParser::new(form, file.limit());
        if !form.two_level {
            add(&mut parser, handle)?;
            return Ok(parser.finish(buffer));
        }
        let upper_form = IndexForm { first_keys: false, ..form };
        let mut upper = IndexParser::new(upper_form, file.limit());
        add(&mut upper, handle)?;
        let handles = upper.handles().to_vec();
        let top = upper.finish(LineBuf::zeroed);
        for (part, handle) in handles.into_iter().enumerate() {
            let first = parser.handles().len();
            add(&mut parser, handle)?;
            let check = || check_part(&top, part, parser.separators_from(first));
            check().map_err(|damage| file.damaged(damage, handle))?;
        }
        Ok(parser.finish(buffer))
    }

    /// The whole index. An index in parts is read without using the cache. Hold no guard.
    pub fn whole_index(&self) -> Result<WholeIndex> {
        match self.index.is_whole() {
            true => Ok(WholeIndex::Cached(self.index_part(0)?)),
            false => Ok(WholeIndex::Read(self.read_index(LineBuf::zeroed)?)),
        }
    }

    /// Decodes part `part` of the index without using the cache. `fetch` reads the part.
    fn read_index_part(
        &self,
        top: &Index,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
        has_heads: bool,
        buffer: impl Buffer,
    ) -> Result<Index> {
        let (file, handle) = (self.block_file(), self.index.handle(part));
        let bytes = file.decode_metadata(fetch(handle)?)?;
        let parse = || {
            let block = Block::new(bytes)?;
            let index = Index::of_block(block, self.index_form(), file.limit(), has_heads, buffer)?;
            let last = index.len().checked_sub(1);
            let ends = last.map(|last| [index.separator(0), index.separator(last)]);
            check_part(top, part, ends)?;
            Ok(index)
        };
        parse().map_err(|damage| file.damaged(damage, handle))
    }

    /// Loads part `part` of the index through the cache. Hold no guard.
    #[cold]
    pub(crate) fn load_index(&self, part: usize) -> Result<Lease<'static, TableIndex>> {
        self.load_index_from(part, |handle| {
            // Into memory of the cache, because the cache will keep it.
            self.block_file().read_stored(handle, |len| self.cache.buffer(len))
        })
    }

    /// Like [`Table::load_index`], but `fetch` reads the part. A whole index is read without
    /// `fetch`.
    pub(crate) fn load_index_from(
        &self,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
    ) -> Result<Lease<'static, TableIndex>> {
        let counters = &self.block_file().counters;
        let lease = self.index.load(part, self.cache.policy(), counters, INDEX_TICKERS, || {
            let buffer = |len| self.cache.buffer(len);
            // Where filters and indexes fill the cache, a part takes as little memory as possible.
            let is_lean = !self.index.is_whole()
                && !self.pins_metadata
                && self.cache.policy().metadata_fills();
            let index = match self.index.separators() {
                Some(top) => self.read_index_part(top, part, fetch, !is_lean, buffer)?,
                None => self.read_index(buffer)?,
            };
            let blocks = ResidentBlocks::new(&self.cache, index.len(), is_lean);
            let heap_bytes = index.heap_bytes() + blocks.heap_bytes();
            let parts = self.index.parts();
            let is_kept = AtomicBool::new(true);
            Ok((TableIndex { index, blocks, part, parts, is_kept }, heap_bytes))
        })?;
        if !lease.resident().was_cached() {
            lease.is_kept.store(false, Ordering::Relaxed);
        }
        Ok(lease)
    }

    /// Rejects the first data block of a part of the index if the block starts with a key of another
    /// part. [`Index::check_position`] has rejected a block that is misplaced within its part.
    /// Because of both checks, a scan reads no block twice, whatever the parts contain. Also rejects
    /// what [`Table::check_has_entries`] does.
    pub(super) fn check_part_of(
        &self,
        index: &TableIndex,
        i: usize,
        block: &Block,
    ) -> Result<(), Damage> {
        self.check_has_entries(block)?;
        let Some(top) = self.index.separators() else { return Ok(()) };
        if i > 0 || index.part == 0 {
            return Ok(());
        }
        let first = block.restart_key(0)?;
        if top.find(key::user_key(first), key::trailer(first)) == index.part {
            return Ok(());
        }
        let found = format_args!("\"{}\"", key::user_key(first).escape_ascii()).to_string();
        Err(Damage::new(0, "a key between its block's separators", found))
    }

    /// Rejects a data block without entries if the index is in parts, because only the first key of a
    /// block shows that no other part leads to the block.
    pub(super) fn check_has_entries(&self, block: &Block) -> Result<(), Damage> {
        match !self.index.is_whole() && block.entries().is_empty() {
            true => Err(Damage::new(0, "a data block with entries", "none")),
            false => Ok(()),
        }
    }

    /// The offset of the data block that would hold a user key; `None` if the key is after all
    /// blocks. May read a part of the index. Hold no guard.
    pub fn offset_of(&self, user_key: &[u8]) -> Result<Option<u64>> {
        let trailer = pack(MAX_SEQUENCE, SEEK_KIND);
        let index = self.index_part(self.index.locate_near(user_key, trailer))?;
        let block = index.index.find(user_key, trailer);
        Ok((block < index.index.len()).then(|| index.index.handle(block).offset))
    }
}

/// Checks the first and the last separator of part `part` against the top. `None`: the part is
/// empty, which is damage.
fn check_part(
    top: &Index,
    part: usize,
    separators: Option<[(&[u8], u64); 2]>,
) -> Result<(), Damage> {
    let Some([first, last]) = separators else {
        return Err(Damage::new(0, "an index part with entries", "none"));
    };
    let is_last = top.separator(part) == last;
    if is_last && top.find(first.0, first.1) == part {
        return Ok(());
    }
    let (expected, found) = match is_last {
        true => ("a first separator behind the part before", first.0),
        false => ("the separator of the upper index at the end of the part", last.0),
    };
    let found = format_args!("\"{}\"", found.escape_ascii()).to_string();
    Err(Damage::new(0, expected, found))
}

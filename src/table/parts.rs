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

use crate::cache::policy::Keeping;
use crate::cache::slots::Lease;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SEEK_KIND, pack};
use crate::error::{Damage, Error, Result};
use crate::memory::LineBuf;
use crate::stats::Ticker;
use crate::sync::atomic::{AtomicBool, Ordering};

use super::block::Block;
use super::filter::block::{FilterAnswer, StoredFilter, TableFilter};
use super::format::file::{Buffer, StoredBlock};
use super::format::footer::BlockHandle;
use super::format::properties::IndexForm;
use super::index::{Index, IndexParser};
use super::lookup::key::LookupKey;
use super::table::Table;
use super::table_index::{ResidentBlocks, TableIndex};

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
    /// The part of the index that leads to the key. If none does, the number of parts. 0 if the
    /// index is whole.
    #[inline(always)]
    pub(super) fn index_part_of(&self, user_key: &[u8], trailer: u64) -> usize {
        match &self.index_top {
            None => 0,
            Some(top) => top.find(user_key, trailer),
        }
    }

    /// The part of the index that leads to the key; the last part if none does.
    #[inline]
    pub fn index_part_near(&self, user_key: &[u8], trailer: u64) -> usize {
        self.index_part_of(user_key, trailer).min(self.index_parts() - 1)
    }

    /// How many parts the index has: 1 if it is whole.
    pub fn index_parts(&self) -> usize {
        self.index.len()
    }

    /// How many parts the filter has: 1 if it is whole.
    pub fn filter_parts(&self) -> usize {
        self.filter.len()
    }

    /// The only part of the filter that can hold the key. Keys past the last separator belong to
    /// the last part.
    pub fn filter_part_of(&self, key: &LookupKey<'_>) -> usize {
        let Some(top) = &self.filter_top else { return 0 };
        let separators = top.separators(self.index_top.as_deref());
        let part = separators.map_or(0, |top| top.find(key.user_key, key.trailer()));
        part.min(top.parts() - 1)
    }

    /// The part of the index that leads to the key, if part `filter_part` of the filter is the one
    /// that can hold it. Searches the top of the index only if it must.
    #[inline]
    pub(super) fn index_part_at(&self, filter_part: usize, key: &LookupKey<'_>) -> usize {
        self.index_part_beside(filter_part)
            .unwrap_or_else(|| self.index_part_of(key.user_key, key.trailer()))
    }

    /// The part of the index that leads to all keys for which part `filter_part` of the filter is
    /// responsible. `None` if they may be in several parts, or in none.
    pub(super) fn index_part_beside(&self, filter_part: usize) -> Option<usize> {
        let top = self.filter_top.as_ref()?;
        (top.shares_separators() && filter_part + 1 < top.parts()).then_some(filter_part)
    }

    /// The part of the filter that can hold the key, if part `index_part` of the index leads to it.
    /// Searches the top of the filter only if it must.
    pub(super) fn filter_part_at(&self, index_part: usize, key: &LookupKey<'_>) -> usize {
        match &self.filter_top {
            Some(top) if top.shares_separators() => index_part.min(top.parts() - 1),
            _ => self.filter_part_of(key),
        }
    }

    /// Whether the filter answers "maybe" for `prefix`, which all keys from `lower` up to, but
    /// without, `upper` (`None`: no end) have in common. Queries the parts for these keys, one
    /// after the other, up to the first "maybe". It reads at most two parts, because a part between
    /// the first and the last holds only keys of the range, so it answers "maybe". Hold no guard.
    pub(super) fn filter_admits_range(
        &self,
        prefix: &[u8],
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> bool {
        let part_of = |bound| self.filter_part_of(&LookupKey::new(bound, MAX_SEQUENCE));
        let last = upper.map_or(self.filter_parts() - 1, part_of);
        let prefix = LookupKey::new(prefix, MAX_SEQUENCE);
        let mut parts = part_of(lower)..=last;
        // If `upper` is before `lower`, there may be no parts, and the answer is "no".
        parts.any(|part| match self.filter_part(part) {
            Ok(filter) => filter.may_contain(&prefix) != FilterAnswer::No,
            Err(_) => true,
        })
    }

    /// Reads the stored bytes of a part by one read, into memory of the cache, because the cache
    /// will keep them.
    fn fetch_part(&self, handle: BlockHandle) -> Result<StoredBlock> {
        self.block_file().read_stored(handle, |len| self.cache.buffer(len))
    }

    /// Decodes part `part` of the filter without using the cache. `fetch` reads the part.
    fn read_filter_part(
        &self,
        stored: StoredFilter,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
        buffer: impl Buffer,
    ) -> Result<TableFilter> {
        if let (StoredFilter::Parted(..), None) = (stored, &self.filter_top) {
            return Ok(TableFilter::untrusted("its list of parts is damaged"));
        }
        let handle = match &self.filter_top {
            Some(top) => top.handle(part),
            None => stored.handle(),
        };
        TableFilter::decode(self.block_file(), fetch(handle)?, stored.encoding(), buffer)
    }

    /// Where part `part` of the filter is in the file. `None` if the filter is whole.
    #[inline]
    pub(super) fn filter_part_handle(&self, part: usize) -> Option<BlockHandle> {
        self.filter_top.as_ref().map(|top| top.handle(part))
    }

    /// Stored bytes of part `part` of the filter; 0 without a filter.
    pub(super) fn filter_part_bytes(&self, part: usize) -> u64 {
        match &self.filter_top {
            Some(top) => top.handle(part).bytes,
            None => self.any_filter().map_or(0, |stored| stored.handle().bytes),
        }
    }

    pub(super) fn index_part_handle(&self, part: usize) -> BlockHandle {
        match &self.index_top {
            Some(top) => top.handle(part),
            None => self.index_handle,
        }
    }

    /// Reads all parts of the filter without using the cache, even if lookups do not query the
    /// filter. `None`: the table has no filter of a known form.
    ///
    /// # Errors
    /// If a part cannot be read, its checksum is wrong, or it cannot be uncompressed. A malformed
    /// filter with a right checksum, or a damaged list of parts, is no error: it gives filters that
    /// answer "maybe" to every query.
    pub(super) fn read_filter_parts(&self) -> Result<Option<Vec<TableFilter>>> {
        let Some(stored) = StoredFilter::find(self.metaindex()) else { return Ok(None) };
        let parts = 0..self.filter_parts();
        let fetch = |handle| self.block_file().read_stored(handle, LineBuf::zeroed);
        let read = parts.map(|part| self.read_filter_part(stored, part, fetch, LineBuf::zeroed));
        read.collect::<Result<_>>().map(Some)
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
        let form = self.index_form();
        let mut parser = IndexParser::new(form, file.limit());
        if !form.two_level {
            add(&mut parser, self.index_handle)?;
            return Ok(parser.finish(buffer));
        }
        let upper_form = IndexForm { first_keys: false, ..form };
        let mut upper = IndexParser::new(upper_form, file.limit());
        add(&mut upper, self.index_handle)?;
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
        match self.index_top.is_none() {
            true => Ok(WholeIndex::Cached(self.index(0)?)),
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
        let (file, handle) = (self.block_file(), top.handle(part));
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

    /// How the cache keeps a filter or an index, or a part of one.
    fn keeping_of_metadata(&self, is_whole: bool) -> Keeping {
        self.cache.policy().keeping_of_metadata(is_whole && !self.reads_every_filter)
    }

    /// Loads part `part` of the index through the cache. Hold no guard.
    #[cold]
    pub(crate) fn load_index(&self, part: usize) -> Result<Lease<'static, TableIndex>> {
        self.load_index_from(part, |handle| self.fetch_part(handle))
    }

    /// Like [`Table::load_index`], but `fetch` reads the part. A whole index is read without
    /// `fetch`.
    pub(super) fn load_index_from(
        &self,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
    ) -> Result<Lease<'static, TableIndex>> {
        let tickers = [
            Ticker::BlockCacheIndexMiss,
            Ticker::BlockCacheIndexAdd,
            Ticker::BlockCacheIndexBytesInsert,
        ];
        let keeping = self.keeping_of_metadata(self.index_top.is_none());
        let lease = self.load(&self.index, part, keeping, tickers, || {
            let buffer = |len| self.cache.buffer(len);
            // Where filters and indexes fill the cache, a part takes as little memory as possible.
            let is_lean = self.index_top.is_some()
                && !self.pins_metadata
                && self.cache.policy().metadata_fills();
            let index = match &self.index_top {
                Some(top) => self.read_index_part(top, part, fetch, !is_lean, buffer)?,
                None => self.read_index(buffer)?,
            };
            let blocks = ResidentBlocks::new(&self.cache, index.len(), is_lean);
            let heap_bytes = index.heap_bytes() + blocks.heap_bytes();
            let parts = self.index_parts();
            let is_kept = AtomicBool::new(true);
            Ok((TableIndex { index, blocks, part, parts, is_kept }, heap_bytes))
        })?;
        if !lease.resident().was_cached() {
            lease.is_kept.store(false, Ordering::Relaxed);
        }
        Ok(lease)
    }

    /// Loads part `part` of the filter through the cache. Hold no guard.
    #[cold]
    pub(crate) fn load_filter(
        &self,
        stored: StoredFilter,
        part: usize,
    ) -> Result<Lease<'static, TableFilter>> {
        self.load_filter_from(stored, part, |handle| self.fetch_part(handle))
    }

    /// Like [`Table::load_filter`]. `fetch` reads the part.
    pub(super) fn load_filter_from(
        &self,
        stored: StoredFilter,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
    ) -> Result<Lease<'static, TableFilter>> {
        let tickers = [
            Ticker::BlockCacheFilterMiss,
            Ticker::BlockCacheFilterAdd,
            Ticker::BlockCacheFilterBytesInsert,
        ];
        let keeping = self.keeping_of_metadata(self.filter_top.is_none());
        self.load(&self.filter, part, keeping, tickers, || {
            let buffer = |len| self.cache.buffer(len);
            let filter = match self.read_filter_part(stored, part, fetch, buffer) {
                // The filter that cannot be trusted is cached too, so that lookups do not read the
                // damaged bytes again.
                Err(Error::Corruption { .. }) => TableFilter::untrusted("its bytes are damaged"),
                other => other?,
            };
            let heap_bytes = filter.heap_bytes();
            Ok((filter, heap_bytes))
        })
    }

    /// Rejects the first data block of a part of the index if the block starts with a key of another
    /// part. [`Index::check_position`] has rejected a block that is misplaced within its part.
    /// Because of both checks, a scan reads no block twice, whatever the parts contain. In an index
    /// in parts this function also rejects an empty block, because only the first key of a block
    /// shows that no other part leads to the block.
    pub(super) fn check_part_of(
        &self,
        index: &TableIndex,
        i: usize,
        block: &Block,
    ) -> Result<(), Damage> {
        let Some(top) = &self.index_top else { return Ok(()) };
        if block.entries().is_empty() {
            return Err(Damage::new(0, "a data block with entries", "none"));
        }
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

    /// The offset of the data block that would hold a user key; `None` if the key is after all
    /// blocks. May read a part of the index. Hold no guard.
    pub fn offset_of(&self, user_key: &[u8]) -> Result<Option<u64>> {
        let trailer = pack(MAX_SEQUENCE, SEEK_KIND);
        let index = self.index(self.index_part_near(user_key, trailer))?;
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

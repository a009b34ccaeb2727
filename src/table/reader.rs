//! [`Table`]: an open table and its point lookups.
//!
//! ```text
//! Table ── filter  [slot] ──► TableFilter                      both loaded through the block cache
//!      └── index   [slot] ──► TableIndex ── Index              at the first use, and charged to it
//!                                        └─ blocks [slot …] ──► Block
//! ```
//!
//! A lookup has three steps, so that a tree can take each step for all its candidate tables before
//! the next one:
//!
//! 1. [`Table::prepare_filter`] starts the filter's trip to memory;
//! 2. [`Table::filter_says_maybe`] takes its answer and counts it: a **no** ends the lookup here;
//! 3. [`Table::get_after_filter`] asks the index for the one block that can hold the key, and
//!    searches it.
//!
//! Opening reads footer, metaindex, properties and range deletions only. Range deletions hide entries
//! of this table and of others, so they are asked beside the filter, not behind it: see
//! [`Table::ranges`]. An evicted part is loaded again at its next
//! use.
//!
//! What damage does. A block that fails its checksum is an error of the lookup that needed it. A
//! filter that cannot be read or trusted answers "maybe" and is counted as untrusted: it costs reads
//! and loses no key.

use std::sync::Arc;

use crate::cache::{BlockCache, BlockKind, Lease, Slots};
use crate::error::{Damage, Error, Result};
use crate::fs::RandomAccessFile;
use crate::key::SequenceNumber;
use crate::range_del::RangeTombstones;
use crate::slice::{Slice, StableBytes};
use crate::stats::{Counters, FileCounters, FileTicker, ThreadTickers, Ticker};
use crate::sync::Guard;

use super::LookupKey;
use super::block::Block;
use super::block_search::Search;
use super::file::{BlockFile, StoredBlock};
use super::filter_block::{PreparedFilter, StoredFilter, TableFilter};
use super::format::{BlockHandle, Footer, unsupported};
use super::index::{Index, IndexParser};
use super::info::TableFilterInfo;
use super::open::{overlay, read_metaindex, read_properties, refuse_unknown};
use super::prefix_filter::PrefixFilter;
use super::properties::{IndexForm, TableProperties, names};
use super::range_del::read_ranges;

/// What a table shares with the rest of a database, and how it is to be read.
#[derive(Clone)]
pub(crate) struct TableContext {
    pub cache: Arc<BlockCache>,
    pub counters: Arc<Counters>,
    /// Filter and index stay in memory once loaded; they are charged all the same.
    pub pin_metadata: bool,
    /// For an ingested table: the sequence number that all its entries were given.
    pub assigned_sequence: Option<SequenceNumber>,
}

/// An open table. Shared between threads.
pub(crate) struct Table {
    file: BlockFile,
    cache: Arc<BlockCache>,
    filter: Slots<TableFilter>,
    index: Slots<TableIndex>,
    /// The filter that point lookups ask for whole keys.
    stored_filter: Option<StoredFilter>,
    /// The filter, where it can be asked for prefixes.
    prefix_filter: Option<PrefixFilter>,
    index_handle: BlockHandle,
    index_form: IndexForm,
    overlay: Option<SequenceNumber>,
    ranges: Option<Arc<RangeTombstones>>,
    metaindex: Vec<(String, BlockHandle)>,
    properties: TableProperties,
}

/// A parsed index, and the slots of the data blocks it leads to.
pub(crate) struct TableIndex {
    pub index: Index,
    pub blocks: Slots<Block>,
}

// SAFETY: a block's bytes are `BlockBytes`, which keep the promise, and a block never changes them.
unsafe impl StableBytes for Block {
    fn stable_bytes(&self) -> &[u8] {
        self.bytes()
    }
}

/// A filter that has been asked and not answered yet: see [`Table::prepare_filter`].
#[derive(Clone, Copy)]
pub(crate) struct FilterProbe<'g>(Asked<'g>);

#[derive(Clone, Copy)]
enum Asked<'g> {
    /// The table has no filter for this lookup.
    Nobody,
    /// A filter of prefixes only: it is asked in the second step.
    Prefix(LookupKey<'g>),
    /// The filter could not be read, or not trusted.
    Unreadable,
    /// It was not in memory, and has answered already.
    No,
    Maybe,
    Filter(&'g TableFilter, PreparedFilter),
}

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
    /// Opens a table: reads its footer, metaindex, properties and range deletions.
    pub fn open(file: Arc<dyn RandomAccessFile>, context: TableContext) -> Result<Arc<Table>> {
        let file = BlockFile::open(file, Arc::clone(&context.counters))?;
        file.counters().add(Ticker::FileOpens, 1);
        let footer = *file.footer();
        let metaindex = read_metaindex(&file, footer.metaindex)?;
        let handle_of = |wanted: &str| {
            metaindex.iter().find(|(name, _)| name == wanted).map(|&(_, handle)| handle)
        };
        let missing = |name: &str| {
            let damage = Damage::new(0, format_args!("the entry {name} in the metaindex"), "none");
            file.damaged(damage, footer.metaindex)
        };
        let properties_handle =
            handle_of("rocksdb.properties").ok_or_else(|| missing("rocksdb.properties"))?;
        let properties = read_properties(&file, properties_handle)?;
        let index_handle = match footer.index {
            Some(handle) => handle,
            None => handle_of("rocksdb.index").ok_or_else(|| missing("rocksdb.index"))?,
        };
        let damaged = |damage| file.damaged(damage, properties_handle);
        let index_form = properties.index_form().map_err(damaged)?;
        let overlay = overlay(&properties, context.assigned_sequence).map_err(damaged)?;
        refuse_unknown(&file, &metaindex, &properties)?;
        let ranges = read_ranges(&file, &metaindex, &properties, overlay)?;
        let found = StoredFilter::find(&metaindex);
        let stored_filter = found.filter(|_| properties.whole_key_filtering());
        let prefix_filter = found.and_then(|stored| PrefixFilter::new(stored, &properties));
        let pinned = context.pin_metadata;
        Ok(Arc::new(Table {
            filter: Slots::new(&context.cache, 1, BlockKind::Filter, pinned),
            index: Slots::new(&context.cache, 1, BlockKind::Index, pinned),
            cache: context.cache,
            stored_filter,
            prefix_filter,
            index_handle,
            index_form,
            overlay,
            ranges,
            metaindex,
            properties,
            file,
        }))
    }

    pub fn footer(&self) -> &Footer {
        self.file.footer()
    }

    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// Names and places of the metadata blocks.
    pub fn metaindex(&self) -> &[(String, BlockHandle)] {
        &self.metaindex
    }

    pub fn metaindex_handle(&self, wanted: &str) -> Option<BlockHandle> {
        self.metaindex.iter().find(|(name, _)| name == wanted).map(|&(_, handle)| handle)
    }

    pub fn file_counters(&self) -> &FileCounters {
        self.file.file_counters()
    }

    pub fn block_file(&self) -> &BlockFile {
        &self.file
    }

    /// What the table says of its filter; nothing is read for it.
    pub fn filter_info(&self) -> Option<TableFilterInfo> {
        self.stored_filter().and_then(|_| TableFilterInfo::of(&self.properties))
    }

    /// The ranges that the table deletes, if any. They hide older entries, also of other tables.
    #[inline]
    pub fn ranges(&self) -> Option<&Arc<RangeTombstones>> {
        self.ranges.as_ref()
    }

    /// Refuses a table that was not written for ingestion: its own sequence numbers would mean
    /// nothing here.
    pub fn check_external(&self) -> Result<()> {
        match self.properties.raw(names::EXTERNAL_VERSION) {
            Some(_) => Ok(()),
            None => Err(unsupported(
                self.file.path(),
                "ingesting a table that was not written for it; write it with SstWriter, or with \
                 RocksDB's SstFileWriter",
            )),
        }
    }

    /// The filter, if it can be asked for anything.
    pub fn stored_filter(&self) -> Option<StoredFilter> {
        self.stored_filter.or(self.prefix_filter.map(|filter| filter.stored))
    }

    /// The filter, where it can be asked for prefixes.
    pub fn prefix_filter(&self) -> Option<PrefixFilter> {
        self.prefix_filter
    }

    pub fn index_form(&self) -> IndexForm {
        self.index_form
    }

    /// Step 1 of a lookup: asks the filter, whose memory is then on its way.
    #[inline]
    pub fn prepare_filter<'g>(
        &'g self,
        key: &LookupKey<'g>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> FilterProbe<'g> {
        let Some(stored) = self.stored_filter else {
            return FilterProbe(match self.prefix_filter() {
                Some(_) => Asked::Prefix(*key),
                None => Asked::Nobody,
            });
        };
        match self.filter.borrow(0, guard) {
            Some(filter) => {
                tickers.add(Ticker::BlockCacheFilterHit, 1);
                FilterProbe(Asked::Filter(filter, filter.prepare(key)))
            }
            None => FilterProbe(self.ask_absent_filter(stored, key)),
        }
    }

    /// For a filter that must be loaded, and may not stay in memory: answers at once.
    #[cold]
    fn ask_absent_filter(&self, stored: StoredFilter, key: &LookupKey<'_>) -> Asked<'static> {
        let Ok(filter) = self.load_filter(stored) else { return Asked::Unreadable };
        let prepared = filter.prepare(key);
        match filter.finish(prepared) {
            false => Asked::No,
            true if filter.is_untrusted(prepared) => Asked::Unreadable,
            true => Asked::Maybe,
        }
    }

    /// Step 2: the filter's answer. `false`: the table holds no entry of the key.
    #[inline]
    pub fn filter_says_maybe(
        &self,
        probe: FilterProbe<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        let (maybe, untrusted) = match probe.0 {
            Asked::Nobody => return true,
            Asked::Prefix(key) => return self.prefix_says_maybe(&key, guard),
            Asked::Unreadable => (true, true),
            Asked::No => (false, false),
            Asked::Maybe => (true, false),
            Asked::Filter(filter, prepared) => {
                let maybe = filter.finish(prepared);
                (maybe, maybe && filter.is_untrusted(prepared))
            }
        };
        if !maybe {
            tickers.add(Ticker::BloomUseful, 1);
            self.file.file_counters().count(guard, [FileTicker::FilterUseful]);
            return false;
        }
        tickers.add(Ticker::BloomFullPositive, 1);
        self.file.file_counters().count(guard, [FileTicker::FilterFullPositive]);
        if untrusted {
            tickers.add(Ticker::BloomUntrusted, 1);
            self.file.file_counters().count(guard, [FileTicker::FilterUntrusted]);
        }
        true
    }

    /// Step 3, after a "maybe": visits the newest entry of the key that the snapshot sees.
    #[inline]
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
            let search = block.find(key.user_key, key.trailer(), self.overlay);
            match search.map_err(|damage| self.file.damaged(damage, index.index.handle(i)))? {
                Search::Found { trailer, value } => {
                    let examined = FileTicker::DataBlocksExamined;
                    if self.stored_filter.is_some() {
                        tickers.add(Ticker::BloomFullTruePositive, 1);
                        let both = [examined, FileTicker::FilterFullTruePositive];
                        self.file.file_counters().count(guard, both);
                    } else {
                        self.file.file_counters().count(guard, [examined]);
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
                    self.file.file_counters().count(guard, [FileTicker::DataBlocksExamined]);
                    if absent == Search::Absent || !index.index.may_continue(i, key.user_key) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The parsed index.
    pub fn index<'g>(&'g self, guard: &'g Guard) -> Result<Lease<'g, TableIndex>> {
        match self.resident_index(guard) {
            Some(lease) => Ok(lease),
            None => self.load_index(),
        }
    }

    /// The parsed index, if it is in memory.
    pub fn resident_index<'g>(&'g self, guard: &'g Guard) -> Option<Lease<'g, TableIndex>> {
        let lease = self.index.get(0, guard)?;
        self.count(Ticker::BlockCacheIndexHit);
        Some(lease)
    }

    /// The filter, if the table has one.
    pub fn filter<'g>(&'g self, guard: &'g Guard) -> Result<Option<Lease<'g, TableFilter>>> {
        let Some(stored) = self.stored_filter() else { return Ok(None) };
        match self.filter.get(0, guard) {
            Some(lease) => {
                self.count(Ticker::BlockCacheFilterHit);
                Ok(Some(lease))
            }
            None => self.load_filter(stored).map(Some),
        }
    }

    /// Data block `i`, by one read of its own.
    #[cold]
    fn read_block(&self, index: &TableIndex, i: usize) -> Result<Lease<'static, Block>> {
        self.load_block(index, i, || self.file.read_stored(index.index.handle(i)))
    }

    /// Data block `i`, if it is in memory.
    pub fn resident_block<'a>(
        &self,
        index: &'a TableIndex,
        i: usize,
        guard: &'a Guard,
    ) -> Option<Lease<'a, Block>> {
        let lease = index.blocks.get(i, guard)?;
        self.count(Ticker::BlockCacheDataHit);
        Some(lease)
    }

    /// Data block `i`, whose bytes `fetch` reads.
    #[cold]
    pub fn load_block(
        &self,
        index: &TableIndex,
        i: usize,
        fetch: impl FnOnce() -> Result<StoredBlock>,
    ) -> Result<Lease<'static, Block>> {
        let tickers = [
            Ticker::BlockCacheDataMiss,
            Ticker::BlockCacheDataAdd,
            Ticker::BlockCacheDataBytesInsert,
        ];
        self.load(&index.blocks, i, tickers, || {
            let mut block = self.decode_block(fetch()?)?;
            block.add_sidecar();
            let heap_bytes = block.heap_bytes();
            Ok((block, heap_bytes))
        })
    }

    /// Checks, uncompresses and decodes a data block.
    pub fn decode_block(&self, stored: StoredBlock) -> Result<Block> {
        let handle = stored.handle();
        self.file.check(&stored)?;
        let bytes = self.file.uncompress(stored)?;
        Block::new(bytes).map_err(|damage| self.file.damaged(damage, handle))
    }

    #[cold]
    fn load_filter(&self, stored: StoredFilter) -> Result<Lease<'static, TableFilter>> {
        let tickers = [
            Ticker::BlockCacheFilterMiss,
            Ticker::BlockCacheFilterAdd,
            Ticker::BlockCacheFilterBytesInsert,
        ];
        self.load(&self.filter, 0, tickers, || {
            let filter = match TableFilter::read(&self.file, stored, self.index_form) {
                // Kept, so that not every lookup reads the damaged bytes again.
                Err(Error::Corruption { .. }) => TableFilter::untrusted(),
                other => other?,
            };
            let heap_bytes = filter.heap_bytes();
            Ok((filter, heap_bytes))
        })
    }

    #[cold]
    fn load_index(&self) -> Result<Lease<'static, TableIndex>> {
        let tickers = [
            Ticker::BlockCacheIndexMiss,
            Ticker::BlockCacheIndexAdd,
            Ticker::BlockCacheIndexBytesInsert,
        ];
        self.load(&self.index, 0, tickers, || {
            let index = self.read_index()?;
            let blocks = Slots::new(&self.cache, index.len(), BlockKind::Data, false);
            let heap_bytes = index.heap_bytes() + Slots::<Block>::heap_bytes(index.len());
            Ok((TableIndex { index, blocks }, heap_bytes))
        })
    }

    /// Reads the index, past the cache.
    pub fn read_index(&self) -> Result<Index> {
        let add = |parser: &mut IndexParser, handle| {
            let block = self.file.read_block(handle)?;
            parser.add(&block).map_err(|damage| self.file.damaged(damage, handle))
        };
        let mut parser = IndexParser::new(self.index_form, self.file.limit());
        if !self.index_form.two_level {
            add(&mut parser, self.index_handle)?;
            return Ok(parser.finish());
        }
        let upper_form = IndexForm { first_keys: false, ..self.index_form };
        let mut upper = IndexParser::new(upper_form, self.file.limit());
        add(&mut upper, self.index_handle)?;
        for &handle in upper.handles() {
            add(&mut parser, handle)?;
        }
        Ok(parser.finish())
    }

    /// Loads through the cache and counts: `tickers` are miss, add and bytes inserted.
    fn load<T: Send + Sync + 'static>(
        &self,
        slots: &Slots<T>,
        i: usize,
        tickers: [Ticker; 3],
        read: impl FnOnce() -> Result<(T, usize)>,
    ) -> Result<Lease<'static, T>> {
        let mut was_read = false;
        self.count(tickers[0]);
        let lease = slots.load(i, || {
            was_read = true;
            read()
        })?;
        if was_read && lease.resident().was_cached() {
            self.count(tickers[1]);
            let counters = self.file.counters();
            counters.add(tickers[2], lease.resident().charge_bytes() as u64);
        }
        Ok(lease)
    }

    /// The sequence number that all entries are seen with, where that is not the stored one.
    pub fn overlay(&self) -> Option<SequenceNumber> {
        self.overlay
    }

    #[inline]
    pub(super) fn count(&self, ticker: Ticker) {
        self.file.counters().add(ticker, 1);
    }

    #[inline]
    pub(super) fn count_both(&self, ticker: Ticker, file_ticker: FileTicker) {
        self.file.counters().add(ticker, 1);
        self.file.file_counters().add(file_ticker, 1);
    }
}

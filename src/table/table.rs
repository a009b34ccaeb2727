//! [`Table`]: an open table, its parts and how they are loaded.
//!
//! ```text
//! Table ── filter  [slot …] ──► TableFilter                    both loaded through the block cache
//!      └── index   [slot …] ──► TableIndex ── Index            at the first use, and charged to it
//!                                          └─ blocks [slot …] ──► Block
//! ```
//!
//! A slot holds one cached object ([`crate::cache::slots`]). A whole filter or index has one slot,
//! and a filter or index in parts has one slot for each part ([`super::parts`]). An evicted part of
//! an index is loaded again at its next use. An evicted part of a filter is loaded again only if it
//! is worth the read ([`super::filter::source`]).
//!
//! Opening reads footer, metaindex, properties, compression dictionary, range deletions and the
//! lists of parts ([`super::source`]). Range deletions hide entries of this table and of others, so a
//! lookup checks them whatever the filter says ([`Table::ranges`]). Lookups are in [`crate::lookup`].

use std::sync::Arc;

use crate::cache::list::Link;
use crate::cache::policy::{Keeping, MetadataBytes};
use crate::cache::slots::{Cached, Lease, LinesAhead, Resident};
use crate::cache::{BlockCache, BlockKind, Reservation};
use crate::encoding::hash::GOLDEN_RATIO;
use crate::encoding::key;
use crate::encoding::key::SequenceNumber;
use crate::error::{Damage, Result};
use crate::filter::{FilterEncoding, FilterSpec};
use crate::fs::RandomAccessFile;
use crate::memory::{LINE_BYTES, LineBuf};
use crate::range_tombstones::RangeTombstones;
use crate::slice::StableBytes;
use crate::stats::{Counters, Ticker};
use crate::sync::atomic::Ordering;
use crate::sync::{Guard, pin};

use super::block::Block;
use super::block::cursor::BlockCursor;
use super::block::key_heads::KeyHeads;
use super::filter::info::FilterInfo;
use super::filter::source::{FilterSource, StoredFilter, TableFilter};
use super::format::file::{BlockFile, Buffer, LARGE_BLOCK_BYTES, StoredBlock};
use super::format::footer::{BlockHandle, Footer, unsupported};
use super::format::properties::{IndexForm, TableProperties, names};
use super::open::{
    INDEX_BLOCK, PROPERTIES_BLOCK, find_block, global_sequence_of, read_dictionary, read_metaindex,
    read_properties, refuse_unknown, tail_bytes, tail_start,
};
use super::range_del::read_ranges;
use super::source::{Source, Top, count_addition, read_top};
use super::table_index::TableIndex;

/// What a table shares with the rest of a database, and how the table is to be read.
#[derive(Clone)]
pub(crate) struct TableContext {
    pub cache: Arc<BlockCache>,
    pub counters: Arc<Counters>,
    /// Whether filter and index stay in memory once they are loaded. The cache is charged for them
    /// in either case.
    pub pin_metadata: bool,
    /// Whether lookups read a filter that is not in memory even if the read costs more than it
    /// saves, and whole filters and indexes are evicted as parts are.
    pub reads_every_filter: bool,
    /// For an ingested table: the sequence number that all its entries were given.
    pub global_sequence: Option<SequenceNumber>,
    /// Like `global_sequence`, for a table of which it is not known whether it was ingested. This
    /// number applies only if the table's properties say that the table was written for ingestion.
    pub sequence_if_ingested: Option<SequenceNumber>,
    /// The number of bytes at the end of the file that opening reads by one read; 0 if the number
    /// is not known.
    pub tail_bytes: u64,
    /// The smallest and the largest internal key, if the tree stores them. The table's range
    /// deletions apply only between these two keys. The reason is that RocksDB does not cut a range
    /// deletion at the bounds of tables: it writes the whole range into each table that the range
    /// reaches. So another table may have an entry whose key is in the range, but outside of this
    /// table's bounds. This entry may be newer than the range deletion, although a compaction has
    /// set its sequence number to 0. Without the bounds, the range deletion would hide this newer
    /// entry.
    pub key_bounds: Option<[Vec<u8>; 2]>,
    /// Whether a table in LevelDB's format is accepted. It is not when a database opens its own
    /// tables, because none of them has this format.
    pub takes_leveldbs: bool,
}

/// Bytes of memory that an open table takes in addition to [`Table`]: its file, its reference
/// counts, the counters of eight threads, its entry in the tree. Measured with keys of 20 bytes.
const BESIDE_TABLE_BYTES: usize = 1750;

/// Bytes of memory that an entry of a whole index takes in addition to its stored bytes. In memory
/// an entry has its separator, and 36.5 bytes for the slot of its data block, its handle, and the
/// head and the end of its separator ([`super::index`]). In the file it has its separator, and
/// about 12 bytes for two lengths, its handle and a restart point.
pub(super) const INDEX_ENTRY_BYTES: u64 = 25;

/// Bytes of memory that an entry of an index part takes in addition to its stored bytes: the slot
/// of its data block, the head of its separator, and a share of the memory that each part takes
/// once.
const PART_ENTRY_BYTES: u64 = 28;

/// An open table. Shared between threads.
pub(crate) struct Table {
    file: BlockFile,
    pub(super) cache: Arc<BlockCache>,
    pub(crate) filter: FilterSource,
    pub(crate) index: Source<TableIndex>,
    index_handle: BlockHandle,
    index_form: IndexForm,
    /// Whether filter and index stay in memory once they are loaded.
    pub(super) pins_metadata: bool,
    global_sequence: Option<SequenceNumber>,
    ranges: Option<Arc<RangeTombstones>>,
    metaindex: Vec<(String, BlockHandle)>,
    properties: TableProperties,
    /// Most data blocks have at most this many entries.
    usual_entries: u32,
    /// The share of the cache's memory that is reserved for the open table itself.
    _reserved: Reservation,
}

// SAFETY: a block's bytes are `BlockBytes`, which keep the promise of `StableBytes`, and a block
// never changes them.
unsafe impl StableBytes for Block {
    fn stable_bytes(&self) -> &[u8] {
        self.bytes()
    }
}

impl Cached for Block {
    type Ahead = LinesAhead;
    type Link = Link<Block>;

    fn read_first(&self) -> &[u8] {
        self.heads()
    }

    fn holds(&self, address: usize) -> bool {
        self.bytes().as_ptr_range().contains(&std::ptr::without_provenance(address))
    }

    fn into_buffer(self) -> Option<LineBuf> {
        Some(self.into_memory())
    }
}

impl Cached for TableFilter {
    type Ahead = ();
    type Link = ();

    fn into_buffer(self) -> Option<LineBuf> {
        Some(self.into_reader().into_memory())
    }
}

/// Estimates how many bytes of memory filter and index take, in both forms.
fn metadata_bytes(
    properties: &TableProperties,
    file_bytes: u64,
    index_is_whole: bool,
) -> MetadataBytes {
    let number = |name| properties.number(name).unwrap_or(0);
    let (filter_bytes, index_bytes) = (number(names::FILTER_BYTES), number(names::INDEX_BYTES));
    let with_entries = |stored_bytes: u64, entry_bytes| {
        let entries_bytes = number(names::DATA_BLOCKS).saturating_mul(entry_bytes);
        // These numbers come from the file and may be wrong, so the file's size bounds them.
        stored_bytes.saturating_add(entries_bytes).min(file_bytes) as usize
    };
    let both_bytes = filter_bytes.saturating_add(index_bytes);
    let if_whole = with_entries(both_bytes, INDEX_ENTRY_BYTES);
    MetadataBytes {
        as_stored: match index_is_whole {
            true => if_whole,
            false => with_entries(both_bytes, PART_ENTRY_BYTES),
        },
        if_whole,
    }
}

/// The number of entries that most data blocks do not exceed.
fn usual_entries(properties: &TableProperties) -> u32 {
    // The last block is not counted, because it may be nearly empty.
    let blocks = properties.number(names::DATA_BLOCKS).unwrap_or(0).saturating_sub(1).max(1);
    let entries = u32::try_from(properties.entries() / blocks).unwrap_or(u32::MAX);
    // Some more than the mean, because blocks differ.
    entries.saturating_add(entries / 16 + 1)
}

impl Table {
    /// Opens a table, and reads the blocks that the module's text lists.
    pub fn open(file: Arc<dyn RandomAccessFile>, context: TableContext) -> Result<Arc<Table>> {
        let counters = Arc::clone(&context.counters);
        let mut file = BlockFile::open(file, counters, context.tail_bytes, context.takes_leveldbs)?;
        file.counters.add(Ticker::FileOpens, 1);
        let footer = *file.footer();
        file.extend_tail(footer.metaindex.offset)?;
        let metaindex = read_metaindex(&file, footer.metaindex)?;
        file.extend_tail(tail_start(&metaindex, footer.metaindex, None))?;
        let missing = |name: &str| {
            let damage = Damage::new(0, format_args!("the entry {name} in the metaindex"), "none");
            file.damaged(damage, footer.metaindex)
        };
        let (properties_handle, properties) = match find_block(&metaindex, PROPERTIES_BLOCK) {
            Some(handle) => (handle, read_properties(&file, handle)?),
            None if footer.is_leveldbs() => (footer.metaindex, TableProperties::default()),
            None => return Err(missing(PROPERTIES_BLOCK)),
        };
        let index_handle = match footer.index {
            Some(handle) => handle,
            None => find_block(&metaindex, INDEX_BLOCK).ok_or_else(|| missing(INDEX_BLOCK))?,
        };
        let damaged = |damage| file.damaged(damage, properties_handle);
        let index_form = match properties.raw(names::INDEX_TYPE) {
            None if footer.is_leveldbs() => IndexForm::default(),
            _ => properties.index_form().map_err(damaged)?,
        };
        let is_ingested = properties.number(names::EXTERNAL_VERSION) >= Some(2);
        let if_ingested = context.sequence_if_ingested.filter(|_| is_ingested);
        let assigned = context.global_sequence.or(if_ingested);
        let global_sequence = global_sequence_of(&properties, assigned).map_err(damaged)?;
        refuse_unknown(&file, &properties)?;
        read_dictionary(&mut file, &metaindex, &properties)?;
        let ranges = read_ranges(&file, &metaindex, &properties, global_sequence)?;
        let ranges = match &context.key_bounds {
            Some([smallest, largest]) => ranges.and_then(|ranges| {
                let end = key::user_key_behind(largest);
                ranges.within(key::user_key(smallest), &end)
            }),
            None => ranges,
        };
        let found = StoredFilter::find(&metaindex);
        let index_top = match index_form.two_level {
            true => read_top(&file, index_handle, index_form)?.map(Top::new),
            false => None,
        };
        let filter_top = match found {
            Some(StoredFilter::Parted(handle, _)) => read_top(&file, handle, index_form)?
                .map(|top| Top::of_filter(top, index_top.as_ref())),
            _ => None,
        };
        file.forget_tail();
        let names_bytes =
            metaindex.iter().map(|(name, _)| size_of::<(String, BlockHandle)>() + name.len());
        let pins_metadata = context.pin_metadata;
        let index = Source::new(
            &context.cache,
            BlockKind::Index,
            pins_metadata,
            index_handle,
            index_top,
            context.reads_every_filter,
        );
        let filter = FilterSource::new(
            &context.cache,
            found,
            filter_top,
            &properties,
            pins_metadata,
            context.reads_every_filter,
        );
        let heap_bytes = size_of::<Table>()
            + properties.heap_bytes()
            + file.dictionary_bytes()
            + names_bytes.sum::<usize>()
            + filter.heap_bytes()
            + index.heap_bytes();
        let metadata = metadata_bytes(&properties, file.file().len(), index.is_whole());
        Ok(Arc::new(Table {
            filter,
            index,
            index_handle,
            index_form,
            pins_metadata,
            _reserved: context.cache.reserve(heap_bytes + BESIDE_TABLE_BYTES).expecting(metadata),
            cache: context.cache,
            global_sequence,
            ranges,
            metaindex,
            usual_entries: usual_entries(&properties),
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

    /// Whether the table is in LevelDB's format. Most such tables have no properties.
    pub fn is_leveldbs(&self) -> bool {
        self.footer().is_leveldbs()
    }

    /// Names and handles of the metadata blocks.
    pub fn metaindex(&self) -> &[(String, BlockHandle)] {
        &self.metaindex
    }

    /// The number of bytes at the end of the file that opening reads by one read; 0 if they are too
    /// many for that.
    pub fn tail_bytes(&self) -> u64 {
        let index_top = (!self.index.is_whole()).then_some(self.index_handle());
        let start = tail_start(&self.metaindex, self.footer().metaindex, index_top);
        tail_bytes(self.file.file().len(), start)
    }

    /// A buffer for a data block of `len` bytes that the cache will keep. After the block the
    /// buffer has room for the first bytes of the block's keys, side by side ([`KeyHeads`]).
    pub fn data_buffer(&self, len: usize) -> LineBuf {
        // A large block gets memory for its heads separately, once their number is known.
        let is_large = len >= LARGE_BLOCK_BYTES;
        let room = if is_large { 0 } else { KeyHeads::room_for(self.usual_entries, len) };
        self.cache.buffer(len.next_multiple_of(LINE_BYTES) + room)
    }

    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    pub fn block_file(&self) -> &BlockFile {
        &self.file
    }

    /// The encoding of the table's filter, if lookups can query the filter.
    pub fn filter_encoding(&self) -> Option<FilterEncoding> {
        self.filter.stored().map(|stored| stored.encoding())
    }

    /// What the properties say of the filter, if lookups can query it. Reads nothing.
    pub fn filter_info(&self) -> Option<FilterInfo> {
        self.filter.stored().and_then(|_| FilterInfo::of(&self.properties))
    }

    /// The filter that was requested when the table was written, even if its keys got another one, or
    /// none. `None` if the table does not state it, such as a table of RocksDB that has a filter.
    pub fn requested_filter(&self) -> Option<FilterSpec> {
        match self.properties.text(names::FILTER_SPEC) {
            Some(text) => text.parse().ok(),
            None => self.filter.stored().is_none().then_some(FilterSpec::NONE),
        }
    }

    /// The ranges that the table deletes, if any. They hide older entries, also of other tables.
    #[inline]
    pub fn ranges(&self) -> Option<&Arc<RangeTombstones>> {
        self.ranges.as_ref()
    }

    /// Rejects a table that was not written for ingestion, because its sequence numbers belong to
    /// another tree.
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

    /// Whether the table is for ingestion and its sequence number is unknown.
    pub fn needs_global_sequence(&self) -> bool {
        self.properties.raw(names::EXTERNAL_VERSION).is_some() && self.global_sequence.is_none()
    }

    /// The block that is the whole index, or its top.
    pub fn index_handle(&self) -> BlockHandle {
        self.index_handle
    }

    pub fn index_form(&self) -> IndexForm {
        self.index_form
    }

    /// The bytes of the filter and of the index that are in memory, and stay there because they are
    /// whole ([`Keeping::Pinned`]).
    pub fn pinned_whole_bytes(&self) -> usize {
        if self.pins_metadata {
            return 0;
        }
        let guard = pin();
        let filter = self.filter.parts.peek(0, &guard).filter(|filter| filter.is_pinned());
        let index = self.index.peek(0, &guard).filter(|index| index.is_pinned());
        filter.map_or(0, Resident::charge_bytes) + index.map_or(0, Resident::charge_bytes)
    }

    /// Part `part` of the index. Hold no guard, because this may read the file.
    pub fn index_part(&self, part: usize) -> Result<Lease<'static, TableIndex>> {
        if let Some(lease) = self.resident_index(part, &pin()) {
            return Ok(lease.share());
        }
        self.load_index(part)
    }

    /// Part `part` of the index, if it is in memory.
    pub fn resident_index<'g>(
        &'g self,
        part: usize,
        guard: &'g Guard,
    ) -> Option<Lease<'g, TableIndex>> {
        let lease = self.index.get(part, guard)?;
        self.count(Ticker::BlockCacheIndexHit);
        Some(lease)
    }

    /// Loads data block `i`, which is not in memory, by a read of this block alone.
    #[cold]
    pub(crate) fn read_block(&self, index: &TableIndex, i: usize) -> Result<Lease<'static, Block>> {
        let buffer = |len| self.data_buffer(len);
        // The handle is read before the load claims the slot, so that the processor's cache misses
        // for the handle and for the slot overlap.
        let handle = index.index.handle(i);
        self.load_block(index, i, || self.file.read_stored(handle, buffer))
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
    #[inline(always)]
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
        let keeping = match index.is_kept.load(Ordering::Relaxed) {
            true => self.cache.policy().keeping_of_data(|| self.number_of(index.index.handle(i))),
            false => Keeping::No,
        };
        self.count(tickers[0]);
        if keeping == Keeping::No {
            let block = self.decode_block(index, i, fetch()?, |len| self.data_buffer(len))?;
            return Ok(Lease::<Block>::not_kept(block));
        }
        let mut was_read = false;
        let lease = index.blocks.load(&self.cache, index.index.len(), i, keeping, || {
            was_read = true;
            let mut block = self.decode_block(index, i, fetch()?, |len| self.data_buffer(len))?;
            block.add_key_heads();
            let heap_bytes = block.heap_bytes();
            Ok((block, heap_bytes))
        })?;
        if was_read {
            count_addition(&self.file.counters, &lease, tickers);
        }
        Ok(lease)
    }

    /// The number by which the cache recognizes a block of this table, distributed evenly over all
    /// `u64` values.
    fn number_of(&self, handle: BlockHandle) -> u64 {
        #[cfg(not(shuttle))]
        let table = std::ptr::from_ref(self).addr() as u64;
        // An address is not the same when a schedule is run again.
        #[cfg(shuttle)]
        let table = crate::filter::hash64(self.file.path().as_os_str().as_encoded_bytes());
        (table ^ handle.offset).wrapping_mul(GOLDEN_RATIO).rotate_left(32)
    }

    /// Checks, uncompresses and decodes data block `i`.
    pub fn decode_block(
        &self,
        index: &TableIndex,
        i: usize,
        stored: StoredBlock,
        buffer: impl Buffer,
    ) -> Result<Block> {
        let handle = stored.handle();
        self.file.check(&stored)?;
        let block = self.file.data_block(self.file.uncompress(stored, buffer)?, handle)?;
        let decode = || {
            index.index.check_position(i, &block)?;
            self.check_part_of(index, i, &block)?;
            Ok(block)
        };
        decode().map_err(|damage| self.file.damaged(damage, handle))
    }

    /// Does what [`SstReader::each_key_of_blocks`](crate::table::SstReader::each_key_of_blocks)
    /// promises. Reads the blocks without the cache.
    pub fn each_key_of_blocks(
        &self,
        choose: impl FnOnce(usize) -> Vec<usize>,
        mut see: impl FnMut(&[u8]),
    ) -> Result<()> {
        let index = self.whole_index()?;
        for i in choose(index.len()) {
            let handle = index.handle(i);
            let damaged = |damage| self.file.damaged(damage, handle);
            let block = self.file.read_data_block(handle)?;
            index.check_position(i, &block).map_err(damaged)?;
            let mut cursor = BlockCursor::new(&block, None);
            cursor.seek_to_first().map_err(damaged)?;
            while cursor.valid() {
                see(key::user_key(cursor.key()));
                cursor.next().map_err(damaged)?;
            }
        }
        Ok(())
    }

    /// The sequence number that readers see for all entries. `None`: they see the stored sequence
    /// numbers.
    pub fn global_sequence(&self) -> Option<SequenceNumber> {
        self.global_sequence
    }

    #[inline]
    pub(crate) fn count(&self, ticker: Ticker) {
        self.file.counters.add(ticker, 1);
    }
}

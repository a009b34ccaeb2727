//! The filter of a table: which one it holds ([`StoredFilter`]), a filter or a part of one in memory
//! ([`TableFilter`]), and the filter of an open table ([`FilterSource`]): what it holds, its parts, and
//! whether a lookup should read one that is not in memory.
//!
//! ```text
//! name in the metaindex                            what it leads to
//! fullfilter.rocksdb.BuiltinBloomFilter            one filter: Bloom, Ribbon or legacy Bloom
//! fullfilter.maypole.…                             one filter of a family of Maypole's own
//! partitionedfilter.…                              the top level of a filter in parts, each of which
//!                                                  is a filter for a range of keys
//! filter.rocksdb.BuiltinBloomFilter                obsolete; ignored
//! ```
//!
//! The names that begin with `fullfilter` come from `FamilyInfo` (`crates/filter/src/info.rs`).
//! RocksDB ignores names that it does not know, so it reads a table with a filter of one of
//! Maypole's own families as a table without a filter.
//!
//! ```text
//!                        filter of whole keys   of prefixes           of both
//! point lookup           the key                the key's prefix      the key
//! range in one prefix    –                      the prefix            the prefix
//! any other range        –                      –                     –
//! ```
//!
//! "–": the filter cannot be queried, which counts as "maybe". What the filter holds, and how the
//! prefixes were cut, is stated in the table's own properties. The part is always located by the
//! whole key, because each part holds the keys, or the prefixes of the keys, of its own range.
//!
//! **Reading a filter.** If filters and indexes fill the cache, a lookup may *pass* a part *by* that
//! is not in memory: it then searches the table as if there were no filter. This is the only file
//! that asks [`crate::cache::policy`], which has the rule, about filters. The rule applies to filters
//! in parts that are not pinned. `Builder::reads_every_filter` turns it off, for comparison.

use std::sync::Arc;

use crate::cache::policy::Credit;
use crate::cache::slots::Lease;
use crate::cache::{BlockCache, BlockKind};
use crate::encoding::hash::{LEGACY_BLOOM_SEED, hash32};
use crate::error::{Error, Result};
use crate::filter::{FilterEncoding, FilterReader, HashKind, KeyHash};
use crate::memory::LineBuf;
use crate::stats::Ticker;
use crate::sync::{Guard, pin};

use super::prefix::PrefixExtractor;
use crate::encoding::key::LookupKey;
use crate::table::format::file::{BlockFile, Buffer, StoredBlock};
use crate::table::format::footer::BlockHandle;
use crate::table::format::properties::TableProperties;
use crate::table::open::find_block;
use crate::table::source::{LoadTickers, Source, Top};

const TICKERS: LoadTickers = [
    Ticker::BlockCacheFilterMiss,
    Ticker::BlockCacheFilterAdd,
    Ticker::BlockCacheFilterBytesInsert,
];

/// The metaindex name of a full filter.
pub(crate) fn full_filter_name(encoding: FilterEncoding) -> &'static str {
    let mut names = FilterEncoding::names();
    names.find(|(other, _)| *other == encoding).expect("every encoding has a name").1
}

/// The metaindex name of the top level of a filter in parts.
pub(crate) fn parted_filter_name(encoding: FilterEncoding) -> String {
    full_filter_name(encoding).replacen("fullfilter", "partitionedfilter", 1)
}

/// Where a table's filter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredFilter {
    Full(BlockHandle, FilterEncoding),
    /// The block is the top level of a filter in parts.
    Parted(BlockHandle, FilterEncoding),
}

impl StoredFilter {
    /// The filter that a metaindex names, if any.
    pub fn find(metaindex: &[(String, BlockHandle)]) -> Option<StoredFilter> {
        let handle = |name: &str| find_block(metaindex, name);
        let full = |(encoding, name)| Some(StoredFilter::Full(handle(name)?, encoding));
        let parted = |(encoding, _)| {
            Some(StoredFilter::Parted(handle(&parted_filter_name(encoding))?, encoding))
        };
        FilterEncoding::names().find_map(full).or_else(|| FilterEncoding::names().find_map(parted))
    }

    pub fn handle(&self) -> BlockHandle {
        match *self {
            StoredFilter::Full(handle, _) | StoredFilter::Parted(handle, _) => handle,
        }
    }

    pub fn encoding(&self) -> FilterEncoding {
        match *self {
            StoredFilter::Full(_, encoding) | StoredFilter::Parted(_, encoding) => encoding,
        }
    }
}

/// A table's filter in memory, or one part of it.
pub(crate) struct TableFilter {
    reader: FilterReader,
}

/// What a [`TableFilter`] says of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterAnswer {
    /// The table does not hold the key.
    No,
    Maybe,
    /// Like [`FilterAnswer::Maybe`], but because the filter is damaged or cannot be decoded.
    Untrusted,
}

impl TableFilter {
    /// Decodes the filter, or a part of it, from a block that was read. A malformed filter with a
    /// correct checksum is not an error: it answers "maybe" to every query.
    pub fn decode(
        file: &BlockFile,
        stored: StoredBlock,
        encoding: FilterEncoding,
        buffer: impl Buffer,
    ) -> Result<TableFilter> {
        let bytes = file.decode_metadata(stored)?.into_exact(buffer);
        Ok(TableFilter { reader: FilterReader::open(bytes, encoding) })
    }

    /// A filter that answers "maybe" to every query, because of `reason`.
    pub fn untrusted(reason: &'static str) -> TableFilter {
        TableFilter { reader: FilterReader::without_bytes(reason) }
    }

    /// What the filter says of a key.
    pub fn may_contain(&self, key: &LookupKey<'_>) -> FilterAnswer {
        if !self.reader.may_contain(filter_hash(&self.reader, key)) {
            return FilterAnswer::No;
        }
        match self.reader.untrusted() {
            None => FilterAnswer::Maybe,
            Some(_) => FilterAnswer::Untrusted,
        }
    }

    #[inline(always)]
    pub fn reader(&self) -> &FilterReader {
        &self.reader
    }

    pub fn into_reader(self) -> FilterReader {
        self.reader
    }

    /// Bytes of memory that the filter takes, without the `TableFilter` itself.
    pub fn heap_bytes(&self) -> usize {
        self.reader.memory_bytes() - size_of::<FilterReader>()
    }
}

/// The hash by which a filter is queried. For a legacy Bloom filter this is a 32-bit hash, which is
/// computed here; for every other filter it is the lookup's 64-bit hash.
#[inline]
pub(crate) fn filter_hash(filter: &FilterReader, key: &LookupKey<'_>) -> KeyHash {
    hash_of_kind(filter.hash_kind(), key)
}

#[inline]
pub(crate) fn hash_of_kind(kind: HashKind, key: &LookupKey<'_>) -> KeyHash {
    match kind {
        HashKind::Hash64 => key.hash,
        HashKind::LegacyHash32 => hash32(key.user_key, LEGACY_BLOOM_SEED).into(),
    }
}

/// The filter of an open table; see the module.
pub(crate) struct FilterSource {
    /// `None`: the table has no filter, or none that can be queried.
    stored: Option<StoredFilter>,
    holds_whole_keys: bool,
    /// How the prefixes were cut, if the filter holds prefixes and this is known.
    extractor: Option<PrefixExtractor>,
    /// Whether the filter is one block and holds whole keys. Every lookup tests this.
    is_usual: bool,
    pub parts: Source<TableFilter>,
    /// The credit of each part ([`Credit`]).
    credits: Box<[Credit]>,
    /// Whether lookups read every part that they need.
    reads_every_part: bool,
    cache: Arc<BlockCache>,
}

/// What a lookup asks a filter.
pub(crate) struct FilterQuery<'k> {
    /// The key, or its prefix as a key.
    pub key: LookupKey<'k>,
    pub is_prefix: bool,
}

impl FilterSource {
    /// `found`: the filter that the metaindex names. `top`: its top, if it is in parts and the top
    /// is not damaged.
    pub fn new(
        cache: &Arc<BlockCache>,
        found: Option<StoredFilter>,
        top: Option<Top>,
        properties: &TableProperties,
        is_pinned: bool,
        reads_every_filter: bool,
    ) -> FilterSource {
        let holds_whole_keys = found.is_some() && properties.whole_key_filtering();
        let extractor = properties.prefix_extractor().filter(|_| found.is_some());
        let stored = found.filter(|_| holds_whole_keys || extractor.is_some());
        let handle = found.map_or(BlockHandle::default(), |found| found.handle());
        let evicts_whole = reads_every_filter;
        let parts = Source::new(cache, BlockKind::Filter, is_pinned, handle, top, evicts_whole);
        FilterSource {
            stored,
            holds_whole_keys,
            extractor,
            is_usual: holds_whole_keys && matches!(found, Some(StoredFilter::Full(..))),
            credits: Credit::of(parts.parts()),
            reads_every_part: reads_every_filter || is_pinned || parts.is_whole(),
            parts,
            cache: Arc::clone(cache),
        }
    }

    /// Where the filter is, if it can be queried for whole keys or for prefixes.
    pub fn stored(&self) -> Option<StoredFilter> {
        self.stored
    }

    /// Whether point lookups query the filter for whole keys.
    #[inline]
    pub fn holds_whole_keys(&self) -> bool {
        self.holds_whole_keys
    }

    /// How the prefixes were cut, if the filter holds prefixes and this is known.
    pub fn extractor(&self) -> Option<PrefixExtractor> {
        self.extractor
    }

    /// The prefix of the key, if it has one and the filter can be queried for prefixes.
    pub fn prefix_of<'k>(&self, key: &LookupKey<'k>) -> Option<&'k [u8]> {
        self.extractor?.prefix_of(key.user_key)
    }

    /// The filter as most tables have it, if it is in memory: one block that holds whole keys.
    #[inline(always)]
    pub fn usual<'g>(&'g self, guard: &'g Guard) -> Option<&'g FilterReader> {
        match self.is_usual {
            true => Some(self.parts.borrow(0, guard)?.reader()),
            false => None,
        }
    }

    /// What a lookup of the key asks the filter. `None` if it cannot query the filter.
    #[inline]
    pub fn query_for<'k>(&self, key: &LookupKey<'k>) -> Option<FilterQuery<'k>> {
        match self.holds_whole_keys {
            true => Some(FilterQuery { key: *key, is_prefix: false }),
            false => {
                let key = LookupKey::new(self.prefix_of(key)?, key.sequence);
                Some(FilterQuery { key, is_prefix: true })
            }
        }
    }

    /// The only part that can hold the key. Keys past the last separator belong to the last part.
    #[inline]
    pub fn locate(&self, key: &LookupKey<'_>) -> usize {
        self.parts.locate_near(key.user_key, key.trailer())
    }

    /// A part. Panics if the table has no filter. Hold no guard, because this may read the file.
    pub fn part(&self, file: &BlockFile, part: usize) -> Result<Lease<'static, TableFilter>> {
        if let Some(lease) = self.parts.get(part, &pin()) {
            file.counters.add(Ticker::BlockCacheFilterHit, 1);
            return Ok(lease.share());
        }
        self.load(file, part)
    }

    /// Loads a part through the cache. Hold no guard.
    #[cold]
    pub fn load(&self, file: &BlockFile, part: usize) -> Result<Lease<'static, TableFilter>> {
        self.load_from(file, part, |handle| {
            // Into memory of the cache, because the cache will keep it.
            file.read_stored(handle, |len| self.cache.buffer(len))
        })
    }

    /// Like [`FilterSource::load`]. `fetch` reads the part.
    pub fn load_from(
        &self,
        file: &BlockFile,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
    ) -> Result<Lease<'static, TableFilter>> {
        let stored = self.stored.expect("the table has a filter");
        self.parts.load(part, self.cache.policy(), &file.counters, TICKERS, || {
            let buffer = |len| self.cache.buffer(len);
            let filter = match self.decode(file, stored, part, fetch, buffer) {
                // The filter that cannot be trusted is cached too, so that lookups do not read the
                // damaged bytes again.
                Err(Error::Corruption { .. }) => TableFilter::untrusted("its bytes are damaged"),
                other => other?,
            };
            let heap_bytes = filter.heap_bytes();
            Ok((filter, heap_bytes))
        })
    }

    /// Decodes a part without using the cache. `fetch` reads the part.
    fn decode(
        &self,
        file: &BlockFile,
        stored: StoredFilter,
        part: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
        buffer: impl Buffer,
    ) -> Result<TableFilter> {
        if matches!(stored, StoredFilter::Parted(..)) && self.parts.is_whole() {
            return Ok(TableFilter::untrusted("its list of parts is damaged"));
        }
        let block = fetch(self.parts.handle(part))?;
        TableFilter::decode(file, block, stored.encoding(), buffer)
    }

    /// Reads all parts of `found`, the filter that the metaindex names, without using the cache,
    /// even if lookups do not query the filter.
    ///
    /// # Errors
    /// If a part cannot be read, its checksum is wrong, or it cannot be uncompressed. A malformed
    /// filter with a right checksum, or a damaged list of parts, is no error: it gives filters that
    /// answer "maybe" to every query.
    pub fn read_all(&self, file: &BlockFile, found: StoredFilter) -> Result<Vec<TableFilter>> {
        let fetch = |handle| file.read_stored(handle, LineBuf::zeroed);
        let read = |part| self.decode(file, found, part, fetch, LineBuf::zeroed);
        (0..self.parts.parts()).map(read).collect()
    }

    /// Whether a lookup reads a part that is not in memory. `is_joint`: whether one read would load
    /// both this part and the part of the index that the lookup needs.
    pub fn should_read(&self, part: usize, is_joint: bool) -> bool {
        let applies = !self.reads_every_part && self.cache.policy().metadata_fills();
        !applies || self.credits[part].pays(is_joint)
    }

    /// Whether a "maybe" of a part counts as a use, which keeps the part in memory. It does not if the
    /// part has answered "maybe" when it was read: then its read has saved nothing yet.
    #[inline]
    pub fn has_paid(&self, part: usize) -> bool {
        self.credits[part].pays(false)
    }

    /// Whether the part has answered "no" each time that it was read lately, so that the part of the
    /// index would probably be read in vain with it.
    pub fn only_rejects(&self, part: usize) -> bool {
        self.credits[part].only_rejects()
    }

    /// Notes what a part has answered after it was read for a lookup.
    pub fn was_read(&self, part: usize, is_joint: bool, maybe: bool) {
        self.credits[part].was_read(maybe, is_joint);
    }

    /// Notes that a lookup has read from the table in vain, because the table does not hold the key.
    /// `part`: the part that can hold the key.
    #[cold]
    pub fn was_missed(&self, part: usize) {
        if self.parts.peek(part, &pin()).is_none() {
            self.credits[part].was_missed();
        }
    }

    pub fn heap_bytes(&self) -> usize {
        self.parts.heap_bytes() + size_of_val(&*self.credits)
    }
}

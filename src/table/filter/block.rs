//! Which filter a table holds, and how it is asked.
//!
//! ```text
//! name in the metaindex                            what it leads to
//! fullfilter.rocksdb.BuiltinBloomFilter            one filter: Bloom, Ribbon or legacy Bloom
//! fullfilter.maypole.…                             one filter of a family of Maypole's own
//! partitionedfilter.rocksdb.BuiltinBloomFilter     an index of filters, each for a range of keys
//! filter.rocksdb.BuiltinBloomFilter                obsolete; passed over
//! ```
//!
//! The names of full filters are those of the families, in `FamilyInfo`. RocksDB passes over names that
//! it does not know: it reads such a table as one without a filter.
//!
//! The properties say whether the filter holds whole keys, prefixes or both; see
//! [`crate::table::lookup::prefix`].

use crate::encoding::hash::{LEGACY_BLOOM_SEED, hash32};
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Result;
use crate::filter::{FilterEncoding, FilterReader, HashKind, KeyHash};

use super::prefix::PrefixExtractor;
use crate::table::format::file::{BlockFile, Buffer};
use crate::table::format::footer::BlockHandle;
use crate::table::format::properties::{IndexForm, TableProperties};
use crate::table::index::{Index, IndexParser};
use crate::table::lookup::key::LookupKey;

const ROCKSDB_PARTITIONED: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";

/// The metaindex name of a full filter.
pub(crate) fn full_filter_name(encoding: FilterEncoding) -> &'static str {
    let mut names = FilterEncoding::names();
    names.find(|(other, _)| *other == encoding).expect("every encoding has a name").1
}

/// Where a table's filter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredFilter {
    Full(BlockHandle, FilterEncoding),
    /// The block is an index of filters.
    Partitioned(BlockHandle),
}

impl StoredFilter {
    /// The filter that a metaindex names, if any.
    pub fn find(metaindex: &[(String, BlockHandle)]) -> Option<StoredFilter> {
        let handle = |wanted: &str| {
            metaindex.iter().find(|(name, _)| name == wanted).map(|&(_, handle)| handle)
        };
        FilterEncoding::names()
            .find_map(|(encoding, name)| Some(StoredFilter::Full(handle(name)?, encoding)))
            .or_else(|| Some(StoredFilter::Partitioned(handle(ROCKSDB_PARTITIONED)?)))
    }

    pub fn handle(&self) -> BlockHandle {
        match *self {
            StoredFilter::Full(handle, _) | StoredFilter::Partitioned(handle) => handle,
        }
    }
}

impl StoredFilter {
    pub fn encoding(&self) -> FilterEncoding {
        match *self {
            StoredFilter::Full(_, encoding) => encoding,
            StoredFilter::Partitioned(_) => FilterEncoding::RocksDb,
        }
    }
}

/// A stored filter that holds prefixes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixFilter {
    pub stored: StoredFilter,
    /// How the table's writer cut them.
    pub extractor: PrefixExtractor,
}

impl PrefixFilter {
    /// `None` when the filter cannot be asked for prefixes.
    pub fn new(stored: StoredFilter, properties: &TableProperties) -> Option<PrefixFilter> {
        Some(PrefixFilter { stored, extractor: properties.prefix_extractor()? })
    }
}

/// A table's filter in memory. The kind is a byte of its own: each lookup tests it.
#[repr(u8)]
pub(crate) enum TableFilter {
    Full(FilterReader),
    /// Filter `i` holds the keys up to separator `i`. There is at least one.
    Partitioned(Index, Vec<FilterReader>),
}

/// What a [`TableFilter`] says of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterAnswer {
    /// The table does not hold it.
    No,
    Maybe,
    /// Maybe, since the filter that was asked cannot be trusted.
    Untrusted,
}

impl TableFilter {
    /// Reads the filter. A damaged filter whose checksum is right is no error: it answers "maybe".
    pub fn read(
        file: &BlockFile,
        stored: StoredFilter,
        form: IndexForm,
        buffer: impl Buffer,
    ) -> Result<TableFilter> {
        let handle = match stored {
            StoredFilter::Full(handle, encoding) => {
                let bytes = file.read_metadata(handle)?.into_exact(buffer);
                return Ok(TableFilter::Full(FilterReader::open(bytes, encoding)));
            }
            StoredFilter::Partitioned(handle) => handle,
        };
        // The upper level has the form of the table's index, but for the first keys.
        let mut parser = IndexParser::new(IndexForm { first_keys: false, ..form }, file.limit());
        parser
            .add(&file.read_metadata_block(handle)?)
            .map_err(|damage| file.damaged(damage, handle))?;
        let filters = parser.handles().iter().map(|&partition| {
            let bytes = file.read_metadata(partition)?.into_exact(buffer);
            Ok(FilterReader::open(bytes, FilterEncoding::RocksDb))
        });
        let filters: Vec<FilterReader> = filters.collect::<Result<_>>()?;
        if filters.is_empty() {
            return Ok(TableFilter::untrusted("a partitioned filter without partitions"));
        }
        Ok(TableFilter::Partitioned(parser.finish(buffer), filters))
    }

    /// The filter that answers "maybe" to everything, and why it does.
    pub fn untrusted(reason: &'static str) -> TableFilter {
        TableFilter::Full(FilterReader::without_bytes(reason))
    }

    /// What the filter says of a key.
    pub fn may_contain(&self, key: &LookupKey<'_>) -> FilterAnswer {
        answer(self.filter_of(key), key)
    }

    /// The one filter, unless there are several.
    #[inline(always)]
    pub fn full(&self) -> Option<&FilterReader> {
        match self {
            TableFilter::Full(filter) => Some(filter),
            TableFilter::Partitioned(..) => None,
        }
    }

    /// The one filter, where it can be trusted and is fed [`LookupKey::hash`].
    #[inline(always)]
    pub fn full_of_hash64(&self) -> Option<&FilterReader> {
        self.full().filter(|f| f.hash_kind() == HashKind::Hash64 && f.untrusted().is_none())
    }

    /// What the filter says of the prefix of a key. The partition of the key holds the prefix too.
    pub fn may_contain_prefix(&self, key: &LookupKey<'_>, prefix: &[u8]) -> FilterAnswer {
        answer(self.filter_of(key), &LookupKey::new(prefix, key.sequence))
    }

    /// Whether any partition for the keys from `lower` to before `upper` (`None`: to the end) lets
    /// their common prefix through. A partition between the first and the last holds keys of the
    /// range only, so it says "maybe": few are asked.
    pub fn admits_range(&self, prefix: &[u8], lower: &[u8], upper: Option<&[u8]>) -> bool {
        let prefix = LookupKey::new(prefix, MAX_SEQUENCE);
        let (index, filters) = match self {
            TableFilter::Full(filter) => return answer(filter, &prefix) != FilterAnswer::No,
            TableFilter::Partitioned(index, filters) => (index, filters),
        };
        let partition_of = |bound| partition(index, filters, &LookupKey::new(bound, MAX_SEQUENCE));
        let last = upper.map_or(filters.len() - 1, partition_of);
        let asked = filters.get(partition_of(lower)..=last).unwrap_or_default();
        asked.iter().any(|filter| answer(filter, &prefix) != FilterAnswer::No)
    }

    /// The filter that holds the key, if any does.
    #[inline(always)]
    fn filter_of(&self, key: &LookupKey<'_>) -> &FilterReader {
        match self {
            TableFilter::Full(filter) => filter,
            TableFilter::Partitioned(index, filters) => &filters[partition(index, filters, key)],
        }
    }

    /// The filter that is asked for the key; and where there are several, which one it is, of how
    /// many.
    pub fn part_of(&self, key: &LookupKey<'_>) -> (&FilterReader, Option<(usize, usize)>) {
        let which = match self {
            TableFilter::Full(_) => None,
            TableFilter::Partitioned(index, filters) => {
                Some((partition(index, filters, key), filters.len()))
            }
        };
        (self.filter_of(key), which)
    }

    /// Bytes of memory behind the filter, itself excluded.
    pub fn heap_bytes(&self) -> usize {
        match self {
            TableFilter::Full(filter) => filter.memory_bytes() - size_of::<FilterReader>(),
            TableFilter::Partitioned(index, filters) => {
                index.heap_bytes() + filters.iter().map(FilterReader::memory_bytes).sum::<usize>()
            }
        }
    }
}

/// The hash that a filter is fed: the lookup's own, except in filters of old files.
#[inline]
pub(crate) fn filter_hash(filter: &FilterReader, key: &LookupKey<'_>) -> KeyHash {
    match filter.hash_kind() {
        HashKind::Hash64 => key.hash,
        HashKind::LegacyHash32 => hash32(key.user_key, LEGACY_BLOOM_SEED).into(),
    }
}

/// Keys past the last separator belong to the last filter.
fn partition(index: &Index, filters: &[FilterReader], key: &LookupKey<'_>) -> usize {
    index.find(key.user_key, key.trailer()).min(filters.len() - 1)
}

#[inline(always)]
fn answer(filter: &FilterReader, key: &LookupKey<'_>) -> FilterAnswer {
    if !filter.may_contain(filter_hash(filter, key)) {
        return FilterAnswer::No;
    }
    match filter.untrusted() {
        None => FilterAnswer::Maybe,
        Some(_) => FilterAnswer::Untrusted,
    }
}

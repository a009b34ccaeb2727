//! Which filter a table holds, and how it is asked.
//!
//! ```text
//! name in the metaindex                            what it leads to
//! fullfilter.rocksdb.BuiltinBloomFilter            one filter: Bloom, Ribbon or legacy Bloom
//! fullfilter.maypole.BumpedRibbon                  one filter: Maypole's bumped ribbon
//! partitionedfilter.rocksdb.BuiltinBloomFilter     an index of filters, each for a range of keys
//! filter.rocksdb.BuiltinBloomFilter                obsolete; passed over
//! ```
//!
//! RocksDB passes over names it does not know: a table with a bumped ribbon is, to it, a table
//! without a filter.
//!
//! A filter is used for point lookups only when it holds whole keys, which a property says.

use crate::filter::{FilterEncoding, FilterReader, HashKind, KeyHash, Probe};
use crate::hash::{LEGACY_BLOOM_SEED, hash32};

use super::LookupKey;
use super::format::BlockHandle;
use super::index::Index;

const ROCKSDB_FULL: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
const ROCKSDB_PARTITIONED: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
const BUMPED_RIBBON: &str = "fullfilter.maypole.BumpedRibbon";

/// The metaindex name of a full filter.
pub(crate) fn full_filter_name(encoding: FilterEncoding) -> &'static str {
    match encoding {
        FilterEncoding::RocksDb => ROCKSDB_FULL,
        FilterEncoding::BumpedRibbon => BUMPED_RIBBON,
    }
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
        let full = |encoding| Some(StoredFilter::Full(handle(full_filter_name(encoding))?, encoding));
        full(FilterEncoding::RocksDb)
            .or_else(|| full(FilterEncoding::BumpedRibbon))
            .or_else(|| Some(StoredFilter::Partitioned(handle(ROCKSDB_PARTITIONED)?)))
    }

    pub fn handle(&self) -> BlockHandle {
        match *self {
            StoredFilter::Full(handle, _) | StoredFilter::Partitioned(handle) => handle,
        }
    }
}

/// A table's filter in memory.
pub(crate) enum TableFilter {
    Full(FilterReader),
    /// Filter `i` holds the keys up to separator `i`. There is at least one.
    Partitioned(Index, Vec<FilterReader>),
}

/// A filter that has been asked and has not answered yet.
pub(crate) struct PreparedFilter<'a> {
    filter: &'a FilterReader,
    probe: Probe,
}

impl PreparedFilter<'_> {
    /// `false`: the table does not hold the key.
    pub fn may_contain(self) -> bool {
        self.filter.finish(self.probe)
    }
}

impl TableFilter {
    /// The filter that is responsible for a key.
    fn reader_for(&self, key: &LookupKey<'_>) -> &FilterReader {
        match self {
            TableFilter::Full(filter) => filter,
            TableFilter::Partitioned(index, filters) => {
                // Keys past the last separator belong to the last filter.
                let i = index.find(key.user_key, key.trailer()).min(filters.len() - 1);
                &filters[i]
            }
        }
    }

    /// Starts to fetch what the answer needs.
    #[inline]
    pub fn prepare(&self, key: &LookupKey<'_>) -> PreparedFilter<'_> {
        let filter = self.reader_for(key);
        let probe = filter.prepare(filter_hash(filter, key));
        PreparedFilter { filter, probe }
    }

    /// The filters, one unless partitioned.
    pub fn readers(&self) -> &[FilterReader] {
        match self {
            TableFilter::Full(filter) => std::slice::from_ref(filter),
            TableFilter::Partitioned(_, filters) => filters,
        }
    }

    /// Bytes of memory behind the filter.
    pub fn heap_bytes(&self) -> usize {
        let index = match self {
            TableFilter::Full(_) => 0,
            TableFilter::Partitioned(index, _) => index.heap_bytes(),
        };
        index + self.readers().iter().map(FilterReader::memory_bytes).sum::<usize>()
    }
}

/// The hash a filter is fed. All but those of old files take the one that the lookup computed.
#[inline]
fn filter_hash(filter: &FilterReader, key: &LookupKey<'_>) -> KeyHash {
    match filter.hash_kind() {
        HashKind::Hash64 => key.hash,
        HashKind::LegacyHash32 => hash32(key.user_key, LEGACY_BLOOM_SEED).into(),
    }
}

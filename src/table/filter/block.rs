//! Which filter a table holds, and how it is queried.
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
//! The properties say whether the filter holds whole keys, prefixes or both; see
//! [`super::source`].

use crate::encoding::hash::{LEGACY_BLOOM_SEED, hash32};
use crate::error::Result;
use crate::filter::{FilterEncoding, FilterReader, HashKind, KeyHash};

use crate::table::format::file::{BlockFile, Buffer, StoredBlock};
use crate::table::format::footer::BlockHandle;
use crate::table::key::LookupKey;
use crate::table::open::find_block;

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

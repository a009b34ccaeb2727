//! The words that the whole library speaks: families, hashes, and how a block is to be read.

use std::fmt;

/// The 64-bit hash of a user key ([`crate::hash64`]). Only legacy filters are fed another:
/// [`FilterReader::hash_kind`](super::FilterReader::hash_kind) tells.
pub type KeyHash = u64;

/// A construction of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// RocksDB's Bloom filter of tables before format version 5. Read, never written.
    LegacyBloom,
    /// RocksDB's Bloom filter.
    Bloom,
    /// RocksDB's Ribbon filter, Standard128.
    Ribbon,
    /// Maypole's bumped ribbon.
    Burr,
}

impl Family {
    /// The name that specs and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Family::LegacyBloom => "legacy_bloom",
            Family::Bloom => "bloom",
            Family::Ribbon => "ribbon",
            Family::Burr => "burr",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the bytes of a filter block are to be read. A table stores the two kinds under different
/// names. Within RocksDB's kind the block's last bytes tell the families apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterEncoding {
    /// `fullfilter.rocksdb.BuiltinBloomFilter`: Bloom, Ribbon and legacy Bloom.
    RocksDb,
    /// Maypole's bumped ribbon. RocksDB does not know the name and reads the table without it.
    BumpedRibbon,
}

/// What a filter is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// [`crate::hash64`] of the user key.
    Hash64,
    /// LevelDB's 32-bit hash of the user key, widened with zeros.
    LegacyHash32,
}

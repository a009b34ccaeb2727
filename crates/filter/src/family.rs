//! The terms that all families share: families and their targets, hashes, and the encoding of a
//! block.

use alloc::string::String;
use core::fmt;

use super::bloom::sizing::bloom_millibits_for_fpr;

/// The 64-bit hash of a user key ([`crate::hash64`]). A filter of the family
/// [`Family::LegacyBloom`] takes a 32-bit hash instead: see
/// [`FilterReader::hash_kind`](super::FilterReader::hash_kind).
///
/// ```
/// use maypole_filter::KeyHash;
///
/// // Equal keys have equal hashes, on every machine and in every version: filters are stored.
/// let hash: KeyHash = maypole_filter::hash64(b"apple");
/// assert_eq!(hash, maypole_filter::hash64(b"apple"));
/// assert_ne!(hash, maypole_filter::hash64(b"apples"));
/// ```
pub type KeyHash = u64;

/// A construction of filters.
///
/// ```
/// use maypole_filter::{Family, FilterSpec};
///
/// // Any family that is written takes a rate.
/// let spec = FilterSpec::fpr(0.01, Family::Burr)?;
/// assert_eq!(spec.to_string(), "fpr(0.01, burr)");
/// assert!(FilterSpec::fpr(0.01, Family::LegacyBloom).is_err());
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
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
    /// The binary fuse filter, in Maypole's own format.
    Fuse,
}

/// The encoding of a filter block. A table stores the block under a name from which the encoding
/// follows. Several families have RocksDB's encoding; the last bytes of the block tell them apart.
///
/// ```
/// use maypole_filter::{Family, FilterBuilder, FilterEncoding, FilterReader, FilterSpec};
///
/// let mut builder = FilterBuilder::new(FilterSpec::burr(7.0)?);
/// (0u64..1000).for_each(|i| builder.add(maypole_filter::hash64(&i.to_le_bytes())));
/// let block = builder.finish().expect("there are keys");
/// assert_eq!(block.encoding(), FilterEncoding::BumpedRibbon);
///
/// let read_as = |encoding| FilterReader::from_bytes(block.bytes(), encoding).family();
/// assert_eq!(read_as(FilterEncoding::BumpedRibbon), Some(Family::Burr));
/// assert_ne!(read_as(FilterEncoding::RocksDb), Some(Family::Burr));
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterEncoding {
    /// `fullfilter.rocksdb.BuiltinBloomFilter`: Bloom, Ribbon and legacy Bloom.
    RocksDb,
    /// Maypole's bumped ribbon. RocksDB does not know the name of this block, so it reads the table
    /// without the filter.
    BumpedRibbon,
    /// The binary fuse filter. RocksDB does not know the name of this block either.
    BinaryFuse,
}

/// The hash that a filter takes.
///
/// ```
/// use maypole_filter::{FilterBuilder, FilterSpec, HashKind};
///
/// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
/// builder.add(maypole_filter::hash64(b"apple"));
/// let filter = builder.finish().expect("a key makes a filter").into_reader();
/// // Only filters of old tables take the other kind of hash.
/// assert_eq!(filter.hash_kind(), HashKind::Hash64);
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// [`crate::hash64`] of the user key.
    Hash64,
    /// LevelDB's 32-bit hash of the user key, in the low half of a [`KeyHash`] whose high half is
    /// 0.
    LegacyHash32,
}

/// The target of a family's builder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// Thousandths of a stored bit for each key.
    MillibitsPerKey(u32),
    /// The false-positive rate of RocksDB's Bloom filter with this many thousandths of a bit a key.
    LikeBloom(u32),
    /// A false-positive rate.
    Fpr(f64),
}

impl Target {
    /// The size of a RocksDB Bloom filter that meets this target, in thousandths of a bit a key.
    pub fn bloom_millibits(self) -> u32 {
        match self {
            Target::MillibitsPerKey(millibits) | Target::LikeBloom(millibits) => millibits,
            Target::Fpr(fpr) => bloom_millibits_for_fpr(fpr),
        }
    }
}

/// Why a spec is invalid: one line with the input and the valid forms.
///
/// ```
/// use maypole_filter::FilterSpec;
///
/// let error = "blom(10)".parse::<FilterSpec>().unwrap_err();
/// assert!(error.to_string().contains("blom") && error.to_string().contains("bloom(BITS)"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError(#[doc(hidden)] pub String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text quotes the input, which may contain line breaks. Control characters are escaped,
        // so that the text is one line.
        self.0.chars().try_for_each(|character| match character.is_control() {
            true => write!(f, "{}", character.escape_default()),
            false => write!(f, "{character}"),
        })
    }
}

impl core::error::Error for SpecError {}

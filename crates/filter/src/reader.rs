//! [`FilterReader`]: answers queries from a stored filter.
//!
//! Opening never fails. If the bytes, which come from a disk, do not follow their format exactly,
//! the reader answers "maybe" to everything, which costs reads and loses no key. RocksDB answers
//! "no" to everything if a block has five bytes or less; here the answer is "maybe", because an
//! empty filter and a damaged one look alike. A caller that knows from the table's properties that
//! no key was added may answer "no" without a query.

use core::fmt;

use super::bloom::query::BloomGeometry;
use super::burr::query::BurrGeometry;
use super::family::{Family, FilterEncoding, HashKind, KeyHash};
use super::fuse::query::FuseGeometry;
use super::geometry::Geometry;
use super::inspect::trace::QueryTrace;
use super::legacy::LegacyGeometry;
use super::ribbon::query::RibbonGeometry;
use super::{bloom, ribbon};
use crate::memory::LineBuf;

/// A stored filter, ready for queries. Threads can share it freely.
///
/// ```
/// use maypole_filter::{FilterBuilder, FilterEncoding, FilterReader, FilterSpec, hash64};
///
/// let mut builder = FilterBuilder::new(FilterSpec::ribbon(7.0)?);
/// (0u64..1000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
/// let block = builder.finish().expect("there are keys");
/// let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
///
/// // Several filters, or several keys: all cache misses start before the first is awaited.
/// let hashes: Vec<u64> = (990u64..1010).map(|i| hash64(&i.to_le_bytes())).collect();
/// let queries: Vec<_> = hashes.iter().map(|&hash| filter.prepare(hash)).collect();
/// let answers: Vec<bool> = queries.into_iter().map(|query| filter.finish(query)).collect();
/// assert!(answers[..10].iter().all(|&maybe| maybe), "the first ten are in the filter");
///
/// // One filter can do the same in one call.
/// let mut many = vec![false; hashes.len()];
/// filter.may_contain_many(&hashes, &mut many);
/// assert_eq!(many, answers);
///
/// // Bytes that are not a filter are opened too. They lose no key.
/// let broken = FilterReader::from_bytes(b"no filter", FilterEncoding::RocksDb);
/// assert!(broken.untrusted().is_some() && broken.may_contain(hash64(b"any")));
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[repr(C)] // The geometry and the block's address, all that a query needs, are the first 32 bytes.
pub struct FilterReader {
    geometry: AnyGeometry,
    block: LineBuf,
}

/// A query whose memory is being fetched: see [`FilterReader::prepare`].
///
/// ```
/// use maypole_filter::{FilterBuilder, FilterSpec, hash64};
///
/// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
/// builder.add(hash64(b"apple"));
/// let filter = builder.finish().expect("a key makes a filter").into_reader();
///
/// let query = filter.prepare(hash64(b"apple"));
/// // Other work can be done here, while the line is fetched from memory.
/// assert!(filter.finish(query));
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PreparedQuery {
    hash: KeyHash,
    position: u32,
}

#[cfg(test)]
impl PreparedQuery {
    /// A query that no reader prepared.
    pub(super) fn at(hash: KeyHash, position: u32) -> PreparedQuery {
        PreparedQuery { hash, position }
    }
}

/// The [`Geometry`] of the filter's family, through which the filter is queried; or the reason why
/// the filter cannot be trusted.
#[derive(Clone, Copy)]
pub(super) enum AnyGeometry {
    /// Answers "maybe", for this reason.
    Untrusted(&'static str),
    LegacyBloom(LegacyGeometry),
    Bloom(BloomGeometry),
    Ribbon(RibbonGeometry),
    Burr(BurrGeometry),
    Fuse(FuseGeometry),
}

/// Evaluates `$answer`, in which `$geometry` is the geometry of the filter's family; or
/// `$untrusted` for a filter that cannot be trusted.
macro_rules! of_family {
    ($any:expr, untrusted => $untrusted:expr, $geometry:ident => $answer:expr) => {
        match &$any {
            AnyGeometry::Untrusted(_) => $untrusted,
            AnyGeometry::LegacyBloom($geometry) => $answer,
            AnyGeometry::Bloom($geometry) => $answer,
            AnyGeometry::Ribbon($geometry) => $answer,
            AnyGeometry::Burr($geometry) => $answer,
            AnyGeometry::Fuse($geometry) => $answer,
        }
    };
}

const _: () = assert!(size_of::<AnyGeometry>() <= 24, "the hot part is half a cache line");

impl AnyGeometry {
    fn parse(block: &LineBuf, encoding: FilterEncoding) -> Result<AnyGeometry, &'static str> {
        match encoding {
            FilterEncoding::RocksDb => {
                let Some((payload, trailer)) =
                    block.split_last_chunk::<{ bloom::layout::TRAILER_BYTES }>()
                else {
                    return Err("shorter than a filter's trailer");
                };
                if payload.is_empty() {
                    return Err("a filter without contents");
                }
                match trailer[0] {
                    bloom::layout::MARKER => BloomGeometry::parse(block).map(AnyGeometry::Bloom),
                    ribbon::layout::MARKER => RibbonGeometry::parse(block).map(AnyGeometry::Ribbon),
                    1..=0x7f => LegacyGeometry::parse(block).map(AnyGeometry::LegacyBloom),
                    0 => Err("a filter that says maybe to everything"),
                    _ => Err("a filter of an unknown family"),
                }
            }
            FilterEncoding::BumpedRibbon => BurrGeometry::parse(block).map(AnyGeometry::Burr),
            FilterEncoding::BinaryFuse => FuseGeometry::parse(block).map(AnyGeometry::Fuse),
        }
    }
}

impl FilterReader {
    /// Opens a filter over `block`, the contents of a filter block without the trailer that every
    /// block of a table has. The bytes are not copied. Never fails: see
    /// [`FilterReader::untrusted`].
    pub fn open(block: LineBuf, encoding: FilterEncoding) -> FilterReader {
        let geometry = AnyGeometry::parse(&block, encoding).unwrap_or_else(AnyGeometry::Untrusted);
        FilterReader { geometry, block }
    }

    /// Opens a filter over a copy of `bytes`, a filter block's contents. Never fails: see
    /// [`FilterReader::untrusted`].
    pub fn from_bytes(bytes: &[u8], encoding: FilterEncoding) -> FilterReader {
        FilterReader::open(LineBuf::copy_from(bytes), encoding)
    }

    /// A filter whose bytes could not be read, for this `reason`. It answers "maybe" to everything.
    #[doc(hidden)]
    pub fn without_bytes(reason: &'static str) -> FilterReader {
        FilterReader { geometry: AnyGeometry::Untrusted(reason), block: LineBuf::copy_from(&[]) }
    }

    /// First step of a query: starts to fetch the memory that [`FilterReader::finish`] will need.
    /// Prepare many queries, of one filter or of several, before finishing the first, so that their
    /// cache misses overlap.
    #[inline(always)]
    pub fn prepare(&self, hash: KeyHash) -> PreparedQuery {
        let position = match &self.geometry {
            AnyGeometry::Bloom(geometry) => geometry.prepare(&self.block, hash),
            _ => self.prepare_other(hash),
        };
        PreparedQuery { hash, position }
    }

    /// Second step of a query: whether a key with this hash may have been added; `false` is
    /// certain. The query must come from this reader; the answer to another reader's query is
    /// meaningless.
    #[inline(always)]
    pub fn finish(&self, query: PreparedQuery) -> bool {
        match &self.geometry {
            AnyGeometry::Bloom(geometry) => {
                geometry.finish(&self.block, query.hash, query.position)
            }
            _ => self.finish_other(query),
        }
    }

    /// Whether a key with this hash may have been added; `false` is certain. Does both steps of a
    /// query.
    #[inline(always)]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match &self.geometry {
            AnyGeometry::Bloom(geometry) => geometry.may_contain(&self.block, hash),
            _ => self.may_contain_other(hash),
        }
    }

    /// Like [`FilterReader::may_contain`], but `None` if the filter cannot be trusted, or if it is
    /// a legacy filter, which takes another kind of hash.
    #[doc(hidden)]
    #[inline(always)]
    pub fn answer_for(&self, hash: KeyHash) -> Option<bool> {
        match &self.geometry {
            AnyGeometry::Bloom(geometry) => Some(geometry.may_contain(&self.block, hash)),
            AnyGeometry::Untrusted(_) => None,
            AnyGeometry::LegacyBloom(_) => None,
            _ => Some(self.may_contain_other(hash)),
        }
    }

    // Queries of Bloom, the common family, are inlined: they take few instructions, and their
    // callers can keep values in registers. Queries of the other families are calls.

    #[inline(never)]
    fn prepare_other(&self, hash: KeyHash) -> u32 {
        of_family!(self.geometry, untrusted => 0, g => g.prepare(&self.block, hash))
    }

    #[inline(never)]
    fn finish_other(&self, query: PreparedQuery) -> bool {
        of_family!(self.geometry, untrusted => true, g => g.finish(&self.block, query.hash, query.position))
    }

    #[inline(never)]
    fn may_contain_other(&self, hash: KeyHash) -> bool {
        of_family!(self.geometry, untrusted => true, g => g.may_contain(&self.block, hash))
    }

    /// Does [`FilterReader::may_contain`] for many hashes. This is faster for each hash, because
    /// cache misses overlap.
    ///
    /// # Panics
    ///
    /// When the slices differ in length.
    pub fn may_contain_many(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        assert_eq!(hashes.len(), answers.len(), "one answer for each hash");
        of_family!(
            self.geometry,
            untrusted => answers.fill(true),
            g => g.may_contain_many(&self.block, hashes, answers)
        );
    }

    /// Computes the answer for a hash bit by bit, and returns the steps. Slow; meant for people.
    #[cold]
    pub fn trace(&self, hash: KeyHash) -> QueryTrace {
        let reason = self.untrusted().unwrap_or_default();
        of_family!(
            self.geometry,
            untrusted => QueryTrace::Untrusted(reason),
            g => g.trace(&self.block, hash)
        )
    }

    /// Why the stored bytes cannot be used, or `None`. An unusable filter answers "maybe" to
    /// everything.
    pub fn untrusted(&self) -> Option<&'static str> {
        match self.geometry {
            AnyGeometry::Untrusted(reason) => Some(reason),
            _ => None,
        }
    }

    /// The filter's family, unless the filter is [`FilterReader::untrusted`].
    pub fn family(&self) -> Option<Family> {
        match self.geometry {
            AnyGeometry::Untrusted(_) => None,
            AnyGeometry::LegacyBloom(_) => Some(Family::LegacyBloom),
            AnyGeometry::Bloom(_) => Some(Family::Bloom),
            AnyGeometry::Ribbon(_) => Some(Family::Ribbon),
            AnyGeometry::Burr(_) => Some(Family::Burr),
            AnyGeometry::Fuse(_) => Some(Family::Fuse),
        }
    }

    /// The hash that the filter takes.
    pub fn hash_kind(&self) -> HashKind {
        match self.geometry {
            AnyGeometry::LegacyBloom(_) => HashKind::LegacyHash32,
            _ => HashKind::Hash64,
        }
    }

    /// Bits that a key of a Bloom filter sets; `None` for other families.
    pub fn probes(&self) -> Option<u32> {
        match &self.geometry {
            AnyGeometry::LegacyBloom(geometry) => Some(geometry.probes()),
            AnyGeometry::Bloom(geometry) => Some(geometry.probes()),
            _ => None,
        }
    }

    /// Bytes of a Bloom filter's line; `None` for other families.
    pub(super) fn line_bytes(&self) -> Option<usize> {
        match &self.geometry {
            AnyGeometry::LegacyBloom(geometry) => Some(geometry.line_bytes()),
            AnyGeometry::Bloom(_) => Some(crate::memory::LINE_BYTES),
            _ => None,
        }
    }

    /// The share of a Bloom filter's bits that is set, 0 to 1; `None` for other families. Reads the
    /// whole filter. The share should be near one half; much more means that the filter has more
    /// keys than it was sized for.
    pub fn fill(&self) -> Option<f64> {
        let lines = self.lines()?;
        let bits = lines.len() * self.line_bytes()? * 8;
        let ones: u64 = lines.flatten().map(|byte| u64::from(byte.count_ones())).sum();
        Some(ones as f64 / bits as f64)
    }

    /// Stored bits for each of `keys` keys, trailer included.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        self.block.len() as f64 * 8.0 / keys as f64
    }

    /// The expected false-positive rate when the filter holds `keys` keys, 0 to 1. It is 1 for a
    /// filter that is [`FilterReader::untrusted`].
    pub fn predicted_fpr(&self, keys: u64) -> f64 {
        of_family!(self.geometry, untrusted => 1.0, g => g.predicted_fpr(&self.block, keys))
    }

    /// The block's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.block
    }

    /// Returns the buffer of the stored bytes, so that another block can be read into it.
    pub fn into_memory(self) -> LineBuf {
        self.block
    }

    /// Bytes of memory that the filter holds: what a cache charges.
    pub fn memory_bytes(&self) -> usize {
        size_of::<FilterReader>() + self.block.memory_bytes()
    }
}

impl fmt::Debug for FilterReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterReader")
            .field("family", &self.family())
            .field("untrusted", &self.untrusted())
            .field("bytes", &self.block.len())
            .finish()
    }
}

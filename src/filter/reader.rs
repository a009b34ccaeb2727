//! [`FilterReader`]: asks a stored filter.
//!
//! Opening never fails. The bytes come from a disk: when they are not exactly what their format
//! says, the reader answers "maybe" to everything, which costs reads and loses nothing. That goes
//! for RocksDB's "always false" too, which is how it reads a block of five bytes or less: an empty
//! filter and a damaged one look alike. Whoever knows from the table's properties that no key was
//! added may say "no" without asking here.

use std::fmt;

use super::bloom::BloomGeometry;
use super::burr::BurrGeometry;
use super::legacy::LegacyGeometry;
use super::ribbon::RibbonGeometry;
use super::{Family, FilterEncoding, Geometry, HashKind, KeyHash, bloom, ribbon};
use crate::memory::LineBuf;

/// A stored filter, ready to be asked. Shared freely between threads.
#[repr(C)] // The shape and the block's address, all that a query needs, are the first 32 bytes.
pub struct FilterReader {
    shape: Shape,
    block: LineBuf,
}

/// A query whose memory is on its way: see [`FilterReader::prepare`].
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    hash: KeyHash,
    place: u32,
}

#[cfg(test)]
impl Probe {
    /// A probe that no reader prepared.
    pub(super) fn at(hash: KeyHash, place: u32) -> Probe {
        Probe { hash, place }
    }
}

/// What was found at the end of the block.
#[derive(Clone, Copy)]
enum Shape {
    /// Answers "maybe", and why.
    Untrusted(&'static str),
    LegacyBloom(LegacyGeometry),
    Bloom(BloomGeometry),
    Ribbon(RibbonGeometry),
    Burr(BurrGeometry),
}

/// Evaluates `$answer` with `$geometry` bound to the geometry of whichever family it is.
macro_rules! dispatch {
    ($shape:expr, untrusted => $untrusted:expr, $geometry:ident => $answer:expr) => {
        match &$shape {
            Shape::Untrusted(_) => $untrusted,
            Shape::LegacyBloom($geometry) => $answer,
            Shape::Bloom($geometry) => $answer,
            Shape::Ribbon($geometry) => $answer,
            Shape::Burr($geometry) => $answer,
        }
    };
}

const _: () = assert!(size_of::<Shape>() <= 24, "the hot part is half a cache line");

impl Shape {
    fn parse(block: &LineBuf, encoding: FilterEncoding) -> Result<Shape, &'static str> {
        match encoding {
            FilterEncoding::RocksDb => {
                let Some((payload, trailer)) = block.split_last_chunk::<{ bloom::TRAILER_BYTES }>()
                else {
                    return Err("shorter than a filter's trailer");
                };
                if payload.is_empty() {
                    return Err("a filter without contents");
                }
                match trailer[0] {
                    bloom::MARKER => BloomGeometry::parse(block).map(Shape::Bloom),
                    ribbon::MARKER => RibbonGeometry::parse(block).map(Shape::Ribbon),
                    1..=0x7f => LegacyGeometry::parse(block).map(Shape::LegacyBloom),
                    0 => Err("a filter that says maybe to everything"),
                    _ => Err("a filter of an unknown family"),
                }
            }
            FilterEncoding::BumpedRibbon => BurrGeometry::parse(block).map(Shape::Burr),
        }
    }
}

impl FilterReader {
    /// Opens a filter over the bytes of its block (without the block's trailer). Never fails.
    pub(crate) fn open(block: LineBuf, encoding: FilterEncoding) -> FilterReader {
        let shape = Shape::parse(&block, encoding).unwrap_or_else(Shape::Untrusted);
        FilterReader { shape, block }
    }

    /// Opens a filter over a copy of `bytes`, a filter block's contents. Never fails: see
    /// [`FilterReader::untrusted`].
    pub fn from_bytes(bytes: &[u8], encoding: FilterEncoding) -> FilterReader {
        FilterReader::open(LineBuf::copy_from(bytes), encoding)
    }

    /// First step of a query: starts to fetch what [`FilterReader::finish`] will need. Prepare many
    /// queries, of one filter or of several, before finishing the first: their trips to memory
    /// overlap.
    #[inline(always)]
    pub fn prepare(&self, hash: KeyHash) -> Probe {
        let place = match &self.shape {
            Shape::Bloom(geometry) => geometry.prepare(&self.block, hash),
            _ => self.prepare_other(hash),
        };
        Probe { hash, place }
    }

    /// Second step: `false` means that no key with this hash was added. The probe must come from
    /// this reader; the answer to any other has no meaning.
    #[inline(always)]
    pub fn finish(&self, probe: Probe) -> bool {
        match &self.shape {
            Shape::Bloom(geometry) => geometry.finish(&self.block, probe.hash, probe.place),
            _ => self.finish_other(probe),
        }
    }

    /// `false` means that no key with this hash was added. Both steps in one.
    #[inline(always)]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match &self.shape {
            Shape::Bloom(geometry) => geometry.may_contain(&self.block, hash),
            _ => self.may_contain_other(hash),
        }
    }

    /// [`FilterReader::may_contain`], unless the filter is to be fed another hash or cannot be trusted.
    #[inline(always)]
    pub(crate) fn answer_for(&self, hash: KeyHash) -> Option<bool> {
        match &self.shape {
            Shape::Bloom(geometry) => Some(geometry.may_contain(&self.block, hash)),
            Shape::Untrusted(_) | Shape::LegacyBloom(_) => None,
            _ => Some(self.may_contain_other(hash)),
        }
    }

    // The common family is asked where the question stands: it takes a few instructions, and its
    // callers keep their registers. The others are calls.

    #[inline(never)]
    fn prepare_other(&self, hash: KeyHash) -> u32 {
        dispatch!(self.shape, untrusted => 0, g => g.prepare(&self.block, hash))
    }

    #[inline(never)]
    fn finish_other(&self, probe: Probe) -> bool {
        dispatch!(self.shape, untrusted => true, g => g.finish(&self.block, probe.hash, probe.place))
    }

    #[inline(never)]
    fn may_contain_other(&self, hash: KeyHash) -> bool {
        dispatch!(self.shape, untrusted => true, g => g.may_contain(&self.block, hash))
    }

    /// [`FilterReader::may_contain`] for many hashes, several times faster for each.
    ///
    /// # Panics
    ///
    /// When the slices differ in length.
    pub fn may_contain_many(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        assert_eq!(hashes.len(), answers.len(), "one answer for each hash");
        dispatch!(
            self.shape,
            untrusted => answers.fill(true),
            g => g.may_contain_many(&self.block, hashes, answers)
        );
    }

    /// Why the stored bytes cannot be used, if so. Such a filter answers "maybe" to everything.
    pub fn untrusted(&self) -> Option<&'static str> {
        match self.shape {
            Shape::Untrusted(reason) => Some(reason),
            _ => None,
        }
    }

    /// The family found, unless the filter is [`FilterReader::untrusted`].
    pub fn family(&self) -> Option<Family> {
        match self.shape {
            Shape::Untrusted(_) => None,
            Shape::LegacyBloom(_) => Some(Family::LegacyBloom),
            Shape::Bloom(_) => Some(Family::Bloom),
            Shape::Ribbon(_) => Some(Family::Ribbon),
            Shape::Burr(_) => Some(Family::Burr),
        }
    }

    /// What the filter must be fed.
    pub fn hash_kind(&self) -> HashKind {
        match self.shape {
            Shape::LegacyBloom(_) => HashKind::LegacyHash32,
            _ => HashKind::Hash64,
        }
    }

    /// Bits that a key of a Bloom filter sets; `None` for other families.
    pub fn probes(&self) -> Option<u32> {
        match &self.shape {
            Shape::LegacyBloom(geometry) => Some(geometry.probes()),
            Shape::Bloom(geometry) => Some(geometry.probes()),
            _ => None,
        }
    }

    /// The part of a Bloom filter's bits that is set, 0 to 1; `None` for other families. Reads the
    /// whole filter. Near one half is right; much more means more keys than it was sized for.
    pub fn fill(&self) -> Option<f64> {
        match &self.shape {
            Shape::LegacyBloom(geometry) => Some(geometry.fill(&self.block)),
            Shape::Bloom(geometry) => Some(geometry.fill(&self.block)),
            _ => None,
        }
    }

    /// Stored bits for each of `keys` keys, trailer included.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        self.block.len() as f64 * 8.0 / keys as f64
    }

    /// The false-positive rate to expect when the filter holds `keys` keys, 0 to 1. 1 when it is
    /// [`FilterReader::untrusted`].
    pub fn predicted_fpr(&self, keys: u64) -> f64 {
        dispatch!(self.shape, untrusted => 1.0, g => g.predicted_fpr(&self.block, keys))
    }

    /// The block's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.block
    }

    /// Bytes of memory the filter holds: what a cache charges.
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

//! [`ProbeTrace`]: how a filter comes to an answer, bit by bit.
//!
//! A query compares some bits of the filter with those it wants. All families do, and so one word
//! serves all of them:
//!
//! ```text
//!                 the bits found                       the bits wanted
//! bloom           those of the key's line              ones
//! ribbon, burr    the sum of the key's slots, a        the key's fingerprint
//!                 bit a column
//! ```
//!
//! If all agree the answer is "maybe". Traces are made by the plain version of each family
//! (`plain.rs`), which shares no arithmetic with the fast one. So nothing here decides a lookup: the
//! answer is the reader's. Tests hold the two against each other.

use std::ops::Range;

/// How a filter comes to its answer for one hash; see
/// [`FilterReader::trace`](super::FilterReader::trace).
///
/// ```
/// use maypole::filter::{FilterBuilder, FilterReader, FilterSpec, ProbeTrace};
/// use maypole::hash64;
///
/// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
/// builder.add(hash64(b"apple"));
/// let block = builder.finish().expect("a key makes a filter");
/// let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
/// let ProbeTrace::Line { bits, .. } = filter.trace(hash64(b"apple")) else { panic!("a Bloom filter") };
/// assert_eq!(bits.len(), 6);
/// assert!(bits.iter().all(|bit| bit.agrees()));
/// # Ok::<(), maypole::filter::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeTrace {
    /// The stored bytes cannot be used, and why. The answer is "maybe".
    Untrusted(&'static str),
    /// Bloom, legacy Bloom: bits of one line. Wanted are ones.
    Line {
        /// Number of the line.
        line: u32,
        /// Lines of the filter.
        lines: u32,
        /// Bytes of a line. It lies at `line * line_bytes`.
        line_bytes: u32,
        /// The key's bits. Several probes may fall on one bit.
        bits: Vec<ProbedBit>,
    },
    /// Ribbon, bumped ribbon: the sum of slots, in each column. Wanted is the key's fingerprint.
    Slots {
        /// The layers that bumped the key, in order. None but in a bumped ribbon.
        bumped: Vec<BumpedLayer>,
        /// The first of the key's slots, in its layer.
        start: u32,
        /// Slots of the layer.
        slots: u32,
        /// Which slots are added up: bit i stands for slot `start + i`.
        coefficients: u128,
        /// Where in the filter the segments of the key's slots lie.
        bytes: Range<usize>,
        /// The columns.
        columns: Vec<ProbedBit>,
    },
    /// Bumped ribbon: all layers bumped the key. The few such keys are spelled out, as tags.
    Tags {
        /// The layers, in order.
        bumped: Vec<BumpedLayer>,
        /// What would be stored of the key.
        tag: u32,
        /// How many tags there are.
        tags: u32,
        /// Whether the key's is among them.
        found: bool,
    },
}

/// One bit that a query compares.
///
/// ```
/// use maypole::filter::ProbedBit;
///
/// assert!(!ProbedBit { number: 17, found: false, wanted: true }.agrees());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbedBit {
    /// Of a line the bit, from the lowest bit of its first byte on; else the column.
    pub number: u32,
    /// What the filter says.
    pub found: bool,
    /// What it says for every key that was added.
    pub wanted: bool,
}

impl ProbedBit {
    /// Whether the bit is as it would be for a key that was added.
    pub fn agrees(&self) -> bool {
        self.found == self.wanted
    }
}

/// A layer of a bumped ribbon that has no room for the key.
///
/// ```
/// use maypole::filter::BumpedLayer;
///
/// let layer = BumpedLayer { start: 100, bucket: 1, class: 2, threshold: 2 };
/// assert!(layer.class >= layer.threshold, "so the key is bumped");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BumpedLayer {
    /// The first of the slots that the key would have here.
    pub start: u32,
    /// The bucket of that slot.
    pub bucket: u32,
    /// Its class in the bucket: 0 to 2.
    pub class: u32,
    /// How many classes the bucket has kept: 0 to 3. The others are bumped.
    pub threshold: u32,
}

impl ProbeTrace {
    /// The answer that follows: `false` means that no key with this hash was added.
    pub fn says_maybe(&self) -> bool {
        match self {
            ProbeTrace::Untrusted(_) => true,
            ProbeTrace::Line { bits: all, .. } | ProbeTrace::Slots { columns: all, .. } => {
                all.iter().all(ProbedBit::agrees)
            }
            ProbeTrace::Tags { found, .. } => *found,
        }
    }
}

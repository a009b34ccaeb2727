//! [`QueryTrace`]: how a filter arrives at an answer, bit by bit.
//!
//! A query compares some bits of the filter with the bits that it wants. All families do this, so
//! one type serves all of them:
//!
//! ```text
//!                 the bits found                       the bits wanted
//! bloom           those of the key's line              ones
//! ribbon, burr    the sum of the key's slots, a        the key's fingerprint
//!                 bit a column
//! fuse            the sum of the key's three slots     the key's fingerprint
//! ```
//!
//! A *line* is one cache line of a Bloom filter. A *slot* is a cell of a few bits in the filters of
//! the other families, and a *column* is the bit with the same number in all slots. A key's
//! *fingerprint* is a few bits computed from its hash. A bumped ribbon has several *layers*; a key
//! that one layer *bumps* is looked up in the next layer.
//!
//! If all bits agree, the answer is "maybe". The traces of each family that is written come from
//! its plain version (`reference.rs`), which computes one bit at a time, without the loops of the
//! fast version. No lookup uses a trace. Tests compare the trace's answer with the reader's.

use alloc::vec::Vec;
use core::ops::Range;

/// How a filter comes to its answer for one hash; see
/// [`FilterReader::trace`](super::FilterReader::trace).
///
/// ```
/// use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};
/// use maypole_filter::inspect::QueryTrace;
/// use maypole_filter::hash64;
///
/// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
/// builder.add(hash64(b"apple"));
/// let block = builder.finish().expect("a key makes a filter");
/// let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
/// let trace = filter.trace(hash64(b"apple"));
/// let QueryTrace::Line { bits, .. } = trace else { panic!("a Bloom filter") };
/// assert_eq!(bits.len(), 6);
/// assert!(bits.iter().all(|bit| bit.agrees()));
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryTrace {
    /// The stored bytes cannot be used, for this reason. The answer is "maybe".
    Untrusted(&'static str),
    /// Bloom, legacy Bloom: bits of one line. The wanted bits are ones.
    Line {
        /// Number of the line.
        line: u32,
        /// The number of lines of the filter.
        lines: u32,
        /// Bytes of the line, which starts at byte `line * line_bytes` of the filter.
        line_bytes: u32,
        /// The key's bits. Several probes may fall on one bit.
        bits: Vec<ProbedBit>,
    },
    /// Ribbon, bumped ribbon: the sum of the key's slots in each column. The wanted bits are the
    /// key's fingerprint.
    Slots {
        /// The layers that bumped the key, in order. Always empty except in a bumped ribbon.
        bumped: Vec<BumpedLayer>,
        /// The first of the key's slots, counted from the start of the layer that keeps the key.
        start: u32,
        /// Slots of the layer.
        slots: u32,
        /// Which slots are summed: bit i is for slot `start + i`.
        coefficients: u128,
        /// The byte range of the filter that the query reads: the bits of the one or two blocks in
        /// which the key's slots are. A block is as many slots as a key has coefficients.
        bytes: Range<usize>,
        /// The columns of the block in which the key starts. A filter with less than a bit a key
        /// has blocks without columns, and all keys that start there pass.
        columns: Vec<ProbedBit>,
    },
    /// Bumped ribbon: all layers bumped the key. For each of the few keys of this kind, a filter
    /// stores a tag, which is 16 or 32 bits of the hash. So the query compares the key's tag with
    /// the stored ones.
    Tags {
        /// The layers, in order.
        bumped: Vec<BumpedLayer>,
        /// The key's tag.
        tag: u32,
        /// The number of tags.
        tags: u32,
        /// Whether the key's tag is among them.
        found: bool,
    },
    /// Binary fuse: the sum of the key's three slots, bit by bit. The wanted bits are the key's
    /// fingerprint.
    Fingerprint {
        /// The key's slots, one in each of three successive segments, the lowest first.
        slots: [u32; 3],
        /// The number of slots of the filter. Slot i begins at bit `i * bits.len()` of the filter.
        of: u32,
        /// The bits of a slot, from the lowest on.
        bits: Vec<ProbedBit>,
    },
}

/// One bit that a query compares.
///
/// ```
/// use maypole_filter::inspect::ProbedBit;
///
/// assert!(!ProbedBit { number: 17, found: false, wanted: true }.agrees());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbedBit {
    /// In a line, the number of the bit, counted from the lowest bit of the line's first byte. In a
    /// fuse slot, the number of the bit, counted from the slot's lowest bit. In a ribbon, the
    /// column.
    pub number: u32,
    /// The bit in the filter.
    pub found: bool,
    /// The value that the bit has for every key that was added.
    pub wanted: bool,
}

impl ProbedBit {
    /// Whether the bit is as it would be for a key that was added.
    pub fn agrees(&self) -> bool {
        self.found == self.wanted
    }
}

/// A layer of a bumped ribbon that bumped the key.
///
/// ```
/// use maypole_filter::inspect::BumpedLayer;
///
/// let layer = BumpedLayer { start: 100, bucket: 1, class: 2, threshold: 2 };
/// assert!(layer.class >= layer.threshold, "so the key is bumped");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BumpedLayer {
    /// The first of the slots that the key would have in this layer.
    pub start: u32,
    /// The number of the bucket of that slot. A bucket is a run of start positions that share one
    /// threshold.
    pub bucket: u32,
    /// The class of that slot. The slots of a bucket are divided into three classes: class 2 has
    /// the lowest slot numbers (the left end), class 1 follows, and class 0 has the highest ones.
    pub class: u32,
    /// The bucket's threshold, 0 to 3. The bucket keeps the classes below the threshold, and bumps
    /// the others.
    pub threshold: u32,
}

impl QueryTrace {
    /// The answer that follows from the trace: `false` means that no key with this hash was added.
    pub fn is_maybe(&self) -> bool {
        match self {
            QueryTrace::Untrusted(_) => true,
            QueryTrace::Line { bits: all, .. }
            | QueryTrace::Slots { columns: all, .. }
            | QueryTrace::Fingerprint { bits: all, .. } => all.iter().all(ProbedBit::agrees),
            QueryTrace::Tags { found, .. } => *found,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::{Family, FilterBuilder, FilterEncoding, FilterReader, FilterSpec, KeyHash};

    fn random_hashes(seed: u64, count: usize) -> Vec<KeyHash> {
        let mut rng = StdRng::seed_from_u64(seed);
        (0..count).map(|_| rng.random()).collect()
    }

    /// Counts of the queries so far: answers "maybe", answers "no", keys that at least one layer of
    /// a bumped ribbon bumped and a later one kept, and keys that all layers bumped.
    #[derive(Debug, Default)]
    struct Seen {
        maybes: usize,
        noes: usize,
        bumped: usize,
        tags: usize,
    }

    /// Compares the answer of the family's fast version with the trace of the plain one.
    fn hold_against(filter: &FilterReader, hashes: &[KeyHash], seen: &mut Seen) {
        for &hash in hashes {
            let (trace, maybe) = (filter.trace(hash), filter.may_contain(hash));
            assert_eq!(trace.is_maybe(), maybe, "{filter:?} {hash:#x} {trace:?}");
            *(if maybe { &mut seen.maybes } else { &mut seen.noes }) += 1;
            match &trace {
                QueryTrace::Slots { bumped, bytes, columns, .. } => {
                    assert_eq!(bytes.is_empty(), columns.is_empty(), "{trace:?}");
                    assert!(bytes.end < filter.bytes().len());
                    seen.bumped += usize::from(!bumped.is_empty());
                }
                QueryTrace::Tags { .. } => seen.tags += 1,
                _ => {}
            }
        }
    }

    #[test]
    fn a_trace_leads_to_the_answer_for_every_family() {
        let mut seen = Seen::default();
        for spec in [
            "bloom(1)",
            "bloom(10)",
            "ribbon(1)",
            "ribbon(5.5)",
            "burr(1)",
            "burr(4.5)",
            "fuse(5.5)",
            "fuse(20)",
        ] {
            for keys in [1, 40, 400, 600, 5000, 20_000] {
                let present = random_hashes(keys as u64, keys);
                let spec: FilterSpec = spec.parse().unwrap();
                let mut builder = FilterBuilder::new(spec);
                present.iter().for_each(|&hash| builder.add(hash));
                let block = builder.finish().unwrap();
                let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
                hold_against(&filter, &present, &mut seen);
                hold_against(&filter, &random_hashes(u64::MAX, 2000), &mut seen);
            }
        }
        let mut block: Vec<u8> = random_hashes(6, 100 * 64).iter().map(|&h| h as u8 | 7).collect();
        block.extend([6, 0, 0, 0, 0]);
        (Family::LegacyBloom.info().repair)(&mut block);
        let legacy = FilterReader::from_bytes(&block, FilterEncoding::RocksDb);
        assert_eq!(legacy.family(), Some(Family::LegacyBloom));
        hold_against(&legacy, &random_hashes(5, 2000), &mut seen);
        let Seen { maybes, noes, bumped, tags } = seen;
        assert!(maybes > 100_000 && noes > 10_000 && bumped > 1000 && tags > 2, "{seen:?}");
    }

    #[test]
    fn what_is_no_filter_says_why() {
        let nothing = FilterReader::from_bytes(&[], FilterEncoding::RocksDb);
        assert_eq!(nothing.trace(7), QueryTrace::Untrusted("shorter than a filter's trailer"));
        assert!(nothing.trace(7).is_maybe());
    }
}

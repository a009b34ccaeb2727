//! Range deletions in a compaction: what they drop, and what is left of them.
//!
//! As for versions of a key ([`super::retain`]), snapshots cut the sequence numbers into stripes. A
//! range deletion drops the older entries of its own stripe: no reader sees one without the other.
//! Of the range deletions that hold a key, each stripe needs the newest.
//!
//! ```text
//!   sequence          1 2 3 | 4 5 6 7 | 8 9 …       snapshots at 3 and 7
//!   range deletions     2       5   7     9
//!   dropped entries   1         4 5 6     8         those before the range deletion of their stripe
//!   kept ranges         2           7     9         2 only if something older lies deeper
//! ```
//!
//! Survivors are cut where the outputs are, so that a file's range deletions lie within its range.
//! One goes as a tombstone does: it lies in the oldest stripe and no level below the output has
//! anything in its range. What it hid in the inputs went in the same merge.

use std::sync::Arc;

use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::version::{LEVELS, TableFile, Version};

/// All range deletions of a compaction's inputs.
pub(crate) struct Ranges<'a> {
    set: RangeTombstones,
    /// Sequence numbers of the snapshots, ascending.
    snapshots: &'a [SequenceNumber],
    version: &'a Version,
    output_level: usize,
}

/// A range to be written, with the sequence numbers of its deletions, newest first.
#[derive(Debug, PartialEq, Eq)]
struct Kept<'a> {
    begin: &'a [u8],
    end: &'a [u8],
    sequences: Vec<SequenceNumber>,
}

impl<'a> Ranges<'a> {
    pub fn new<'f>(
        inputs: impl Iterator<Item = &'f Arc<TableFile>>,
        snapshots: &'a [SequenceNumber],
        version: &'a Version,
        output_level: usize,
    ) -> Ranges<'a> {
        let sets = inputs.filter_map(|file| file.table.ranges());
        let set = RangeTombstones::new(sets.flat_map(|set| set.iter()));
        Ranges { set, snapshots, version, output_level }
    }

    /// Whether a range deletion hides this entry from everybody.
    #[inline]
    pub fn drops(&self, internal_key: &[u8]) -> bool {
        let sequence = key::sequence(internal_key);
        !self.set.is_empty() && self.covering(user_key(internal_key), sequence) > sequence
    }

    /// Whether one range deletion hides all of a file from everybody, its own range deletions
    /// included: then it need not be read.
    pub fn drops_file(&self, file: &TableFile) -> bool {
        let meta = &file.meta;
        let first = user_key(&meta.smallest);
        if self.set.is_empty() || self.covering(first, meta.least_sequence) <= meta.largest_sequence
        {
            return false;
        }
        // The same answer for all its keys, when they lie in one fragment.
        let end = self.set.fragment_at(first, MAX_SEQUENCE).end;
        end.is_some_and(|end| key::ends_before(&meta.largest, end))
    }

    /// The newest range deletion that holds the key, of those in the stripe of `sequence` or older.
    fn covering(&self, user_key: &[u8], sequence: SequenceNumber) -> SequenceNumber {
        let next = self.snapshots.partition_point(|&snapshot| snapshot < sequence);
        let stripe_end = self.snapshots.get(next).copied().unwrap_or(MAX_SEQUENCE);
        self.set.covering(user_key, stripe_end)
    }

    /// What a table of the user keys from `lower` to before `upper` (`None`: open) must delete, in
    /// the order of internal keys.
    pub fn survivors<'r>(
        &'r self,
        lower: Option<&'r [u8]>,
        upper: Option<&'r [u8]>,
    ) -> impl Iterator<Item = RangeTombstone<'r>> {
        let mut kept: Vec<Kept<'r>> = Vec::new();
        for (begin, end, fragment) in self.set.clipped(lower, upper) {
            let sequences = self.surviving_sequences(begin, end, fragment);
            match kept.last_mut() {
                _ if sequences.is_empty() => {}
                Some(last) if last.end == begin && last.sequences == sequences => last.end = end,
                _ => kept.push(Kept { begin, end, sequences }),
            }
        }
        kept.into_iter().flat_map(|Kept { begin, end, sequences }| {
            sequences.into_iter().map(move |sequence| RangeTombstone { begin, end, sequence })
        })
    }

    fn surviving_sequences(
        &self,
        begin: &[u8],
        end: &[u8],
        fragment: usize,
    ) -> Vec<SequenceNumber> {
        let mut sequences = Vec::new();
        let mut stripe_end = MAX_SEQUENCE;
        loop {
            let newest = self.set.newest(fragment, stripe_end);
            if newest == 0 {
                return sequences;
            }
            let stripe = self.snapshots.partition_point(|&snapshot| snapshot < newest);
            let Some(older) = stripe.checked_sub(1) else {
                if self.is_below(begin, end) {
                    sequences.push(newest);
                }
                return sequences;
            };
            sequences.push(newest);
            stripe_end = self.snapshots[older];
        }
    }

    /// Whether a level under the output has anything in the range.
    fn is_below(&self, begin: &[u8], end: &[u8]) -> bool {
        (self.output_level + 1..LEVELS)
            .any(|level| !self.version.overlapping_range(level, Some(begin), Some(end)).is_empty())
    }
}

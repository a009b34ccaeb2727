//! Range deletions in a compaction: which entries they drop, and which range deletions remain.
//!
//! Snapshots cut the sequence numbers into stripes, as for versions of a key ([`super::retain`]). A
//! range deletion drops the older entries of its own stripe, because every reader that could see
//! them also sees the range deletion. Each stripe keeps only the newest range deletion that covers
//! a key.
//!
//! ```text
//!   sequence          1 2 3 | 4 5 6 7 | 8 9 …       snapshots at 3 and 7
//!   range deletions     2       5   7     9
//!   dropped           1         4 5 6     8         older than the newest range deletion of their
//!                                                   stripe (5 is itself a range deletion)
//!   kept ranges         2           7     9         2 only if an older table overlaps its range
//! ```
//!
//! Range deletions that remain are cut at the ends of the outputs, so that the range deletions of a
//! file are within the file's range. A range deletion is dropped if it is in the oldest stripe and
//! no older table overlaps its range. It then has nothing left to hide, because the same merge
//! drops the entries of the inputs that it hides.

use std::sync::Arc;

use super::below::Below;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::Result;
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::version::{NewTable, TableFile};

/// All range deletions of a compaction's inputs.
pub(crate) struct Ranges<'a> {
    set: RangeTombstones,
    /// Sequence numbers of the snapshots, ascending.
    snapshots: &'a [SequenceNumber],
    below: &'a Below<'a>,
}

/// A range that survives, with the sequence numbers of its deletions, newest first.
#[derive(Debug, PartialEq, Eq)]
struct Kept<'a> {
    start: &'a [u8],
    end: &'a [u8],
    sequences: Vec<SequenceNumber>,
}

impl<'a> Ranges<'a> {
    pub fn new<'f>(
        inputs: impl Iterator<Item = &'f Arc<TableFile>>,
        snapshots: &'a [SequenceNumber],
        below: &'a Below<'a>,
    ) -> Ranges<'a> {
        let sets = inputs.filter_map(|file| file.table.ranges());
        Ranges::of(RangeTombstones::new(sets.flat_map(|set| set.iter())), snapshots, below)
    }

    /// Like [`Ranges::new`], but for range deletions that are not in tables, for example those of a
    /// memtable. `below` has the older tables.
    pub fn of(
        set: RangeTombstones,
        snapshots: &'a [SequenceNumber],
        below: &'a Below<'a>,
    ) -> Ranges<'a> {
        Ranges { set, snapshots, below }
    }

    /// Whether a range deletion hides this entry from every reader.
    #[inline]
    pub fn drops(&self, internal_key: &[u8]) -> bool {
        let sequence = key::sequence(internal_key);
        !self.set.is_empty() && self.covering(user_key(internal_key), sequence) > sequence
    }

    /// Whether the range deletions hide a whole file, including its own range deletions, from every
    /// reader. Such a file need not be read. The result may be `false` for a file that is hidden.
    pub fn drops_file(&self, file: &TableFile) -> bool {
        let meta = &file.meta;
        let first = user_key(&meta.smallest);
        if self.set.is_empty()
            || self.covering(first, meta.smallest_sequence) <= meta.largest_sequence
        {
            return false;
        }
        // A fragment is a range of keys that the same range deletions cover ([`RangeTombstones`]).
        // If one fragment covers all keys of the file, the result for the first key holds for all
        // keys. Otherwise the other keys are not examined, and the result is `false`.
        let end = self.set.fragment_at(first, MAX_SEQUENCE).end;
        end.is_some_and(|end| key::ends_before(&meta.largest, end))
    }

    /// The sequence number of the newest range deletion that covers the key and is in the stripe of
    /// `sequence` or in an older stripe; 0 if there is none.
    fn covering(&self, user_key: &[u8], sequence: SequenceNumber) -> SequenceNumber {
        let next = self.snapshots.partition_point(|&snapshot| snapshot < sequence);
        let stripe_end = self.snapshots.get(next).copied().unwrap_or(MAX_SEQUENCE);
        self.set.covering(user_key, stripe_end)
    }

    /// The range deletions that survive in an output with the user keys from `lower` to before
    /// `upper` (`None`: unbounded), in the order of internal keys.
    fn survivors<'r>(
        &'r self,
        lower: Option<&'r [u8]>,
        upper: Option<&'r [u8]>,
    ) -> impl Iterator<Item = RangeTombstone<'r>> {
        let mut kept: Vec<Kept<'r>> = Vec::new();
        for (start, end, fragment) in self.set.clipped(lower, upper) {
            let sequences = self.surviving_sequences(start, end, fragment);
            match kept.last_mut() {
                _ if sequences.is_empty() => {}
                Some(last) if last.end == start && last.sequences == sequences => last.end = end,
                _ => kept.push(Kept { start, end, sequences }),
            }
        }
        kept.into_iter().flat_map(|Kept { start, end, sequences }| {
            sequences.into_iter().map(move |sequence| RangeTombstone { start, end, sequence })
        })
    }

    /// Adds the surviving range deletions from `lower` to before `upper` to an output table, and
    /// finishes the table. If there are such range deletions but no table, `create` makes one for
    /// them. `oldest_deletion` is passed to [`NewTable::describe_deletions`].
    pub fn end_table<'t>(
        &self,
        mut table: Option<NewTable<'t>>,
        (lower, upper): (Option<&[u8]>, Option<&[u8]>),
        oldest_deletion: u64,
        create: impl Fn() -> Result<NewTable<'t>>,
    ) -> Result<Option<Arc<TableFile>>> {
        let mut hidden_bytes = 0;
        for range in self.survivors(lower, upper) {
            NewTable::in_slot(&mut table, &create)?.add_range(range)?;
            // Of the older tables, only those that are partly in the range are counted, because a
            // table that is completely in the range is dropped unread, so it needs no rewrite.
            hidden_bytes += self.below.bytes_cut(range.start, range.end);
        }
        let Some(mut table) = table else { return Ok(None) };
        table.describe_deletions(oldest_deletion, hidden_bytes);
        table.finish().map(Some)
    }

    /// The sequence numbers, newest first, of the range deletions that survive for one fragment: of
    /// each stripe the newest, but of the oldest stripe only if an older table overlaps the keys
    /// from `start` to `end`.
    fn surviving_sequences(
        &self,
        start: &[u8],
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
                if self.below.meets(start, end) {
                    sequences.push(newest);
                }
                return sequences;
            };
            sequences.push(newest);
            stripe_end = self.snapshots[older];
        }
    }
}

//! The conditions other than the tree itself that decide which compaction is due.

use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    /// Sequence numbers of the snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// Whether there are no writes at present, or a caller waits for the tree to settle.
    pub settled: bool,
    /// The share of deletions that are expected to free an older entry, 0 to 1, learned from
    /// earlier deletions.
    pub hit_rate: f64,
    /// The current time, in seconds since 1970.
    pub now: u64,
    /// In seconds. A table with a deletion that is older than this is compacted.
    pub max_deletion_age: u64,
    /// Every write with a smaller sequence number is in a table.
    pub flushed_before: SequenceNumber,
}

impl Default for Conditions {
    /// There are no snapshots, writes continue, each deletion frees an entry, and no deletion is
    /// old.
    fn default() -> Conditions {
        Conditions {
            snapshots: Vec::new(),
            settled: false,
            hit_rate: 1.0,
            now: 0,
            max_deletion_age: u64::MAX,
            flushed_before: MAX_SEQUENCE,
        }
    }
}

impl Conditions {
    /// Whether a snapshot is at or above `low` and below `high`. Such a snapshot sees entries
    /// written at `low`, but not the deletion at `high` that hides them.
    pub(super) fn has_snapshot_between(&self, low: SequenceNumber, high: SequenceNumber) -> bool {
        let first = self.snapshots.partition_point(|&snapshot| snapshot < low);
        self.snapshots.get(first).is_some_and(|&snapshot| snapshot < high)
    }
}

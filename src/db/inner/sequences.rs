//! [`Sequences`]: up to which write readers see the database, and which snapshots live.

use crate::db::snapshots::SnapshotList;
use crate::encoding::key::SequenceNumber;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See the module.
pub(crate) struct Sequences {
    /// The last sequence number that readers may see. The leader of the writers and ingestions
    /// change it. Every write up to it is in a memtable or table of a read state.
    visible: AtomicU64,
    pub snapshots: SnapshotList,
}

impl Sequences {
    pub fn new(visible: SequenceNumber) -> Sequences {
        Sequences { visible: AtomicU64::new(visible), snapshots: SnapshotList::default() }
    }

    /// The last sequence number that readers may see.
    #[inline]
    pub fn visible(&self) -> SequenceNumber {
        self.visible.load(Ordering::Acquire)
    }

    /// Lets readers see the writes up to `sequence`.
    pub fn set_visible(&self, sequence: SequenceNumber) {
        // Release: a reader that sees the number sees the entries.
        self.visible.store(sequence, Ordering::Release);
    }
}

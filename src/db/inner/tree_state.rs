//! [`TreeState`]: the memtables and tables, and the state of the work on them. It is plain data;
//! its lock is in [`Tree`](super::tree::Tree).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::compaction::{DeletionHits, Plan, Unavailable};
use crate::db::background::attempts::Work;
use crate::db::tree_options::TreeOptions;
use crate::db::write::write_stall::Pressure;
use crate::memtable::Memtable;
use crate::version::Version;

/// The memtables and tables, and the state of the work on them.
pub(crate) struct TreeState {
    pub memtable: Arc<Memtable>,
    /// Oldest first.
    pub frozen: VecDeque<Frozen>,
    pub version: Arc<Version>,
    /// How strongly `version` stalls writers.
    pub pressure: Pressure,
    /// The files and key ranges that compactions must not use.
    pub unavailable: Unavailable,
    pub flushing: bool,
    /// The number of running compactions.
    pub compactions: usize,
    /// The bytes of the inputs of running merges, which is about what these may still write.
    pub merging_bytes: u64,
    /// The number of callers in `wait_for_compaction`. While there is one, a smaller share of dead
    /// data, which no reader can see any more, is enough for a compaction that removes it.
    pub settlers: usize,
    /// Nothing has been written for some time. Then compactions remove dead data as they do for
    /// callers in `wait_for_compaction`.
    pub is_idle: bool,
    /// How often deletions met an older entry in earlier merges. From this, compactions estimate
    /// how much space the other deletions will free.
    pub deletion_hits: DeletionHits,
    /// A manual compaction is under way. Other manual compactions wait until it ends.
    pub manual: bool,
    /// The step for which the manual compaction waits, because running compactions block it
    /// (`background/manual.rs`). No automatic compaction that would block it may start.
    pub claimed: Option<Plan>,
    /// The disk has no space for the take-over, which is the part of an opening that makes the
    /// directory writable ([`crate::db::open::writable`]), or the database was opened read-only. So
    /// nothing may be flushed or compacted.
    pub waits_for_space: bool,
    pub work: Work,
}

impl TreeState {
    /// The state of a tree with these tables, on which no work has begun.
    pub fn new(memtable: Arc<Memtable>, version: Arc<Version>, options: &TreeOptions) -> TreeState {
        let unavailable = Unavailable::default();
        TreeState {
            memtable,
            frozen: VecDeque::new(),
            pressure: Pressure::of_tree(&version, &options.shape, &unavailable),
            version,
            unavailable,
            flushing: false,
            compactions: 0,
            merging_bytes: 0,
            settlers: 0,
            is_idle: false,
            deletion_hits: DeletionHits::default(),
            manual: false,
            claimed: None,
            waits_for_space: false,
            work: Work::default(),
        }
    }

    /// Whether a memtable that was frozen is in tables now.
    pub fn has_flushed(&self, memtable: &Arc<Memtable>) -> bool {
        self.frozen.iter().all(|frozen| !Arc::ptr_eq(&frozen.memtable, memtable))
    }
}

/// A memtable that waits for its flush. All of its writes are in sealed WALs, and the next WAL has
/// none of them.
pub(crate) struct Frozen {
    pub memtable: Arc<Memtable>,
}

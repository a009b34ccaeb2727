//! [`TreeState`]: the memtables and tables, and the state of the work on them. It is plain data;
//! its lock is in [`Tree`](super::tree::Tree).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::compaction::{DeletionHits, Plan, Unavailable};
use crate::db::background::attempts::Work;
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
    /// Compactions that run.
    pub compactions: usize,
    /// How many of the database's `compaction_threads` are free.
    pub idle_threads: usize,
    /// The number of callers in `wait_for_compaction`. While there is one, compactions also remove
    /// dead data of which there is otherwise too little for a merge.
    pub settlers: usize,
    /// Nothing has been written for some time.
    pub is_idle: bool,
    /// How often the deletions of earlier merges met an entry to delete.
    pub deletion_hits: DeletionHits,
    /// A manual compaction is under way. Other manual compactions wait until it ends.
    pub manual: bool,
    /// The step for which the manual compaction waits, because running compactions block it
    /// (`background/manual.rs`). No automatic compaction that would block it may start.
    pub claimed: Option<Plan>,
    /// The disk has no space for the take-over of the directory ([`crate::db::open::writable`]), or
    /// the database was opened read-only: nothing may be flushed or compacted.
    pub waits_for_space: bool,
    pub work: Work,
}

/// A memtable that waits for its flush.
pub(crate) struct Frozen {
    pub memtable: Arc<Memtable>,
    /// The WAL that took the writes after this memtable. Once the memtable is flushed, older WALs
    /// can be deleted.
    pub next_wal: u64,
}

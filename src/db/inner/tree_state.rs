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
    /// Callers that wait for the tree to come to rest.
    pub settlers: usize,
    /// Nothing has been written for some time.
    pub is_idle: bool,
    /// How many of the earlier deletions met an entry to delete.
    pub deletion_hits: DeletionHits,
    /// A manual compaction is under way. Other manual compactions wait until it ends.
    pub manual: bool,
    /// The step that the manual compaction waits to start. No automatic compaction that would block
    /// it may start.
    pub claimed: Option<Plan>,
    /// The directory is not taken over yet ([`crate::db::open::writable`]): nothing may be flushed
    /// or compacted.
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

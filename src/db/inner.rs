//! [`Inner`]: what all handles and jobs of one database share.
//!
//! ```text
//!   field        lock            who changes it
//!   ingesting    mutex           guards no data: an ingestion       maintenance/ingest.rs
//!   writer       CombiningLock   the writer that leads a group      write/mod.rs
//!   manifest     mutex           a change of the tree               background/install.rs
//!   state        mutex           both of them, and the jobs         background/
//!   read_state   none: ArcCell   whoever has changed `state`        publish, below
//! ```
//!
//! Locks are taken in the order ingesting, writer, manifest, state. A thread that waits for a
//! device may not hold `state`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use super::background::cleanups::Cleanups;
use super::background::install::READERS_PATIENCE;
use super::background::jobs::Work;
use super::iter::marks::Marks;
use super::open::writable::PendingWritable;
use super::read_state::ReadState;
use super::snapshot::SnapshotList;
use super::stats::published::Publishing;
use super::write::write_stall::{Pressure, WriteStall, write_stall_for};
use super::write::{SealedWals, WriterLock};
use crate::compaction::{DeletionHits, Plan, TreeShape, Unavailable};
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::{Error, Result};
use crate::filter_policy::FilterPolicy;
use crate::fs::{FileLock, OverlappedReader};
use crate::memtable::Memtable;
use crate::stats::Counters;
use crate::sync::{ArcCell, OpenIn, Process, drain, lock, pin};
use crate::version::{Manifest, Skipped, TableStore, Version};

/// What the handles ([`Db`](super::Db), [`Snapshot`](super::Snapshot)) and the jobs of one database
/// share.
pub(crate) struct Inner {
    /// Itself, for the jobs it starts.
    pub(super) this: OnceLock<Weak<Inner>>,
    /// Each job holds a clone of this, and closing waits until all clones are dropped.
    pub(super) holds: Arc<()>,
    pub(super) store: TableStore,
    /// Reads the blocks that many lookups miss.
    pub(super) overlapped: OverlappedReader,
    pub(super) policy: FilterPolicy,
    pub(super) shape: TreeShape,
    pub(super) memtable_bytes: usize,
    pub(super) manifest_roll_bytes: u64,
    /// A deletion reaches the last level within about this time.
    pub(super) max_deletion_age: Duration,
    /// The timer will check whether the tree has come to rest.
    pub(super) awaits_rest: AtomicBool,
    /// The last visible write when the timer looked.
    pub(super) visible_at_look: AtomicU64,
    pub(super) counters: Arc<Counters>,
    /// `None`: the counters are not published.
    pub(super) publishing: Option<Publishing>,

    /// What readers see.
    pub(super) read_state: ArcCell<ReadState>,
    /// Every read state that a reader may still hold. Closing needs them.
    pub(super) read_states: Mutex<Vec<Weak<ReadState>>>,
    /// The last sequence number that readers may see.
    pub(super) visible: AtomicU64,
    pub(super) snapshots: SnapshotList,
    /// Where cursors need not look.
    pub(super) marks: Arc<Marks>,
    /// Where cursors found much that is hidden.
    pub(super) cleanups: Mutex<Cleanups>,

    pub(super) writer: WriterLock,
    pub(super) sealed_wals: Mutex<SealedWals>,
    /// `None`: the directory is not taken over.
    pub(super) manifest: Mutex<Option<Manifest>>,
    /// Locked only while the manifest is.
    pub(super) progress: Mutex<Progress>,
    /// The take-over of the directory that waits for space.
    pub(super) pending: Mutex<Option<PendingWritable>>,
    /// Held by ingestions while they enter the tree, so that its holder can keep them out. Locked
    /// before the writer.
    pub(super) ingesting: Mutex<()>,
    pub(super) state: Mutex<TreeState>,
    /// Signalled whenever `state` changes, or `closing` or `latched` is set.
    pub(super) changed: Condvar,
    /// Whether the tree alone stalls writers. If not, a writer need not lock `state`.
    pub(super) tree_stalls_writers: AtomicBool,

    /// The failure that made the database read-only.
    pub(super) latched: OnceLock<Error>,
    pub(super) closing: AtomicBool,
    /// Where it was opened. In any other process not even a lock may be taken.
    pub(super) process: Process,
    /// Both in one word: not `closing`, and in `process`.
    pub(super) open: OpenIn,
    pub(super) lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// What changes when the tree does.
pub(crate) struct TreeState {
    pub(super) memtable: Arc<Memtable>,
    /// Oldest first.
    pub(super) frozen: VecDeque<Frozen>,
    pub(super) version: Arc<Version>,
    /// What of `version` stalls writers.
    pub(super) pressure: Pressure,
    /// What compactions must leave alone.
    pub(super) unavailable: Unavailable,
    pub(super) flushing: bool,
    /// Compactions that run.
    pub(super) compactions: usize,
    /// Threads of the database's share that no compaction uses.
    pub(super) idle_threads: usize,
    /// Callers that wait for the tree to come to rest.
    pub(super) settlers: usize,
    /// Nothing has been written for some time.
    pub(super) is_idle: bool,
    /// What earlier deletions found to delete.
    pub(super) deletion_hits: DeletionHits,
    /// A manual compaction is under way. Others wait for their turn.
    pub(super) manual: bool,
    /// What the manual compaction waits for: no automatic compaction that it would wait for too may
    /// start.
    pub(super) claimed: Option<Plan>,
    /// The directory is not taken over yet: nothing may be flushed or compacted.
    pub(super) waits_for_space: bool,
    pub(super) work: Work,
}

/// A memtable that waits for its flush.
pub(crate) struct Frozen {
    pub(super) memtable: Arc<Memtable>,
    /// The WAL that took the writes after this memtable. Once the memtable is flushed, older WALs
    /// can be deleted.
    pub(super) next_wal: u64,
}

/// Which writes are in tables, and which WALs hold the others. A new MANIFEST starts with it.
#[derive(Default, Clone)]
pub(crate) struct Progress {
    pub(super) flushed_sequence: SequenceNumber,
    pub(super) oldest_wal: u64,
    /// The WALs that are synced up to some length, and that length in bytes.
    pub(super) durable_wals: BTreeMap<u64, u64>,
    /// Sequence numbers above the flushed one that no WAL holds.
    pub(super) skipped: Skipped,
}

impl TreeState {
    /// What readers see from now on.
    pub(super) fn read_state(&self, counters: &Arc<Counters>, marks: &Arc<Marks>) -> ReadState {
        ReadState {
            memtable: Arc::clone(&self.memtable),
            frozen: self.frozen.iter().rev().map(|f| Arc::clone(&f.memtable)).collect(),
            version: Arc::clone(&self.version),
            counters: Arc::clone(counters),
            marks: Arc::clone(marks),
        }
    }
}

impl Inner {
    pub(super) fn lock_state(&self) -> MutexGuard<'_, TreeState> {
        lock(&self.state)
    }

    /// Shows readers and writers what `state` holds now, and starts the jobs that it asks for.
    pub(super) fn publish(&self, state: &mut TreeState) {
        self.show(state);
        self.schedule(state);
    }

    /// The first half of [`Inner::publish`].
    pub(super) fn show(&self, state: &mut TreeState) {
        let read_state = Arc::new(state.read_state(&self.counters, &self.marks));
        let mut read_states = lock(&self.read_states);
        read_states.retain(|read_state| read_state.strong_count() > 0);
        read_states.push(Arc::downgrade(&read_state));
        drop(read_states);
        self.read_state.replace(read_state);
        state.pressure = Pressure::of_tree(&state.version, &self.shape, &state.unavailable);
        self.tree_stalls_writers
            .store(write_stall_for(state.pressure) != WriteStall::None, Ordering::Release);
        self.note_needed_snapshot(state);
        self.changed.notify_all();
    }

    /// Makes the database read-only: after a failed write or sync nothing is known about what
    /// reached the disk, so nothing more may be built on it. Returns the error.
    pub(super) fn latch(&self, error: Error) -> Error {
        if !matches!(error, Error::Closed | Error::Forked) {
            let _ = self.latched.set(error.clone());
            // Under the lock, so that a thread that has just checked and is about to sleep does not
            // miss it.
            let _state = self.lock_state();
            self.changed.notify_all();
        }
        error
    }

    /// For a forked child: nothing that a handle shares may ever be dropped there, because a drop
    /// would truncate the log, delete tables and release the lock while the parent continues.
    pub(super) fn leak(self: &Arc<Inner>) {
        std::mem::forget(Arc::clone(self));
    }

    #[inline]
    pub(super) fn check_open(&self) -> Result<()> {
        if self.open.is_open() { Ok(()) } else { Err(self.why_not_open()) }
    }

    #[cold]
    fn why_not_open(&self) -> Error {
        self.process.check().err().unwrap_or(Error::Closed)
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match self.latched.get() {
            None => Ok(()),
            Some(Error::OpenedReadOnly) => Err(Error::OpenedReadOnly),
            Some(error) => Err(Error::ReadOnly(Arc::new(error.clone()))),
        }
    }

    /// The last step of closing, once no job is left.
    pub(super) fn finish_closing(&self) -> Result<()> {
        // Deletes obsolete tables now rather than at the next opening.
        drain(READERS_PATIENCE);
        let synced = match self.latched.get() {
            Some(Error::OpenedReadOnly) => Ok(()),
            // Nothing was written.
            None if self.missing_space().is_some() => Ok(()),
            None => self.sync_wals(),
            Some(error) => Err(error.clone()),
        };
        // Dropping a log that is written through memory cuts its file to length. A snapshot may
        // live on and drop it later, when another opening already reads that file. So it is dropped
        // here.
        self.writer.lock().wal = None;
        *lock(&self.sealed_wals) = SealedWals::default();
        self.store.obsolete.close();
        self.keep_tables_of_readers_open();
        self.publish_stats(false);
        lock(&self.lock).take();
        synced
    }

    /// Makes tables that a reader still holds keep their descriptors from now on, because the next
    /// owner of the directory may delete their names.
    fn keep_tables_of_readers_open(&self) {
        let current = self.read_state.load_arc(&pin());
        for read_state in lock(&self.read_states).iter().filter_map(Weak::upgrade) {
            // The cell holds the current one too; `current` and `read_state` are two more counts.
            let has_reader =
                !Arc::ptr_eq(&read_state, &current) || Arc::strong_count(&read_state) > 3;
            if has_reader {
                for (_, file) in read_state.version.files() {
                    // A table that cannot be kept open is opened when it is read, and fails then.
                    let _ = file.table.block_file().file().keep_open();
                }
            }
        }
    }
}

/// The sequence number of the last of `count` writes after `last`. They must not run out; 2^56
/// writes are 2,000 years at a million a second.
pub(super) fn sequence_after(last: SequenceNumber, count: u64) -> Result<SequenceNumber> {
    last.checked_add(count).filter(|&sequence| sequence < MAX_SEQUENCE).ok_or_else(|| {
        Error::InvalidArgument("the sequence numbers of this database are used up".into())
    })
}

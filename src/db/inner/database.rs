//! [`Database`]: what a database has once, however many trees it holds.
//!
//! ```text
//!   part         what it holds                                              file
//!   status       whether the database may be used                           status.rs
//!   store        the directory, the cache; opens and creates tables         version/store.rs
//!   sequences    the last visible write, the snapshots                      sequences.rs
//!   trees        the keyspaces, and the tree of each                        trees.rs
//!   writing      the queue of the writers, the WALs                         writing.rs
//!   wals         which WALs a replay would need                             wals.rs
//!   catalog      the MANIFEST                                               catalog.rs
//!   jobs         how many jobs run                                          jobs.rs
//!   durability   what a write survives whose call does not say it         options.rs
//!   publishing   how often the file `STATS` is written, and what was last   stats/published.rs
//!   directory    the lock of the directory
//! ```

use std::num::NonZeroU64;
use std::sync::Arc;

use super::catalog::{Catalog, Parts};
use super::jobs::Jobs;
use super::sequences::Sequences;
use super::status::Status;
use super::trees::Trees;
use super::wals::NeededWals;
use super::writing::Writing;
use crate::db::options::Builder;
use crate::db::stats::published::Publishing;
use crate::db::write::durability::Durability;
use crate::error::Error;
use crate::fs::FileLock;
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, PerProcess, lock, rank};
use crate::version::TableStore;
use crate::wal::LogVersion;

/// See the module.
pub(crate) struct Database {
    /// Distinguishes the databases that this process opens, for batches that name keyspaces.
    pub number: NonZeroU64,
    pub trees: Trees,
    pub status: Status,
    pub store: TableStore,
    /// Shared with what readers use of each tree.
    pub sequences: Arc<Sequences>,
    pub writing: Writing,
    pub wals: NeededWals,
    pub catalog: Catalog,
    /// Bytes of the memtables that wait for their flush.
    pub frozen_bytes: AtomicU64,
    /// Whether the last flush of some tree may have failed. Set by failures, and cleared by a
    /// writer that finds none (`write/stall.rs`).
    pub flush_failed: AtomicBool,
    pub jobs: Jobs,
    /// Whether jobs may start. Set once the opening is over; a database that was opened read-only
    /// starts none.
    pub starts_jobs: AtomicBool,
    /// What a write survives whose call names no durability.
    pub durability: Durability,
    /// `None`: the counters are not published.
    pub publishing: Option<Publishing>,
    /// With what the database was opened.
    pub options: Builder,
    /// The lock of the directory. The last field, because it must be dropped last.
    pub directory: DirectoryLock,
}

/// The number of a database that is being opened.
pub(crate) fn next_database_number() -> NonZeroU64 {
    static LAST: PerProcess<AtomicU64> = PerProcess::new(|| AtomicU64::new(0));
    NonZeroU64::MIN.saturating_add(LAST.get().fetch_add(1, Ordering::Relaxed))
}

impl Database {
    /// What the catalog needs of the other parts.
    pub fn parts(&self) -> Parts<'_> {
        Parts { store: &self.store, trees: &self.trees, wals: &self.wals }
    }

    /// The format version of a new WAL.
    pub fn log_version(&self) -> LogVersion {
        match self.trees.has_others() {
            true => LogVersion::WithKeyspaces,
            false => LogVersion::OneKeyspace,
        }
    }

    /// How many bytes the memtables of all keyspaces that take writes may have together: four times
    /// what one of keyspace 0 may have.
    pub fn most_memtable_bytes(&self) -> u64 {
        4 * self.options.tree.memtable_bytes as u64
    }

    /// Whether the memtables that wait for their flush have more than twice as many bytes as all that
    /// take writes may have.
    pub fn has_too_many_frozen(&self) -> bool {
        self.frozen_bytes.load(Ordering::Relaxed) > 2 * self.most_memtable_bytes()
    }

    /// Wakes the threads that wait for any tree, after a change of the status.
    pub fn wake_all(&self) {
        for tree in self.trees.all() {
            // The lock of the state is held while the sleeping threads are woken, so that a thread
            // that has just checked the status and is about to sleep does not miss the change.
            let _state = tree.lock();
            tree.notify();
        }
    }

    pub fn starts_jobs(&self) -> bool {
        self.starts_jobs.load(Ordering::Acquire)
    }

    pub fn counters(&self) -> &Counters {
        &self.store.context.counters
    }

    /// Whether work that failed with this error may be tried again, because it has changed nothing
    /// ([`Error::changed_nothing`]).
    pub fn may_retry(&self, error: &Error) -> bool {
        error.changed_nothing() && self.status.failure().is_none()
    }

    /// How many bytes flushes and compactions may use; `None` if that is not known. An eighth of the
    /// free space is left for WALs, and for tables that are a little larger than was estimated. The
    /// caller must hold no lock, because the call may wait for a device.
    pub fn free_bytes(&self) -> Option<u64> {
        let free = self.store.fs.free_bytes(&self.store.dir).ok().flatten();
        free.map(|free| free - free / 8)
    }
}

/// The lock of the directory, until it is released. `None` inside: the database was opened
/// read-only, or is closed.
pub(crate) struct DirectoryLock(Mutex<Option<Box<dyn FileLock>>, rank::Directory>);

impl DirectoryLock {
    pub fn new(held: Option<Box<dyn FileLock>>) -> DirectoryLock {
        DirectoryLock(Mutex::new(held))
    }

    pub fn release(&self) {
        let held = lock(&self.0).take();
        // The file system is called under no lock.
        drop(held);
    }
}

//! [`Database`]: what a database has once, however many trees it holds.
//!
//! ```text
//!   part         what it holds                                              file
//!   status       whether the database may be used                           status.rs
//!   store        the directory, the cache; opens and creates tables         version/store.rs
//!   sequences    the last visible write, the snapshots                      sequences.rs
//!   writing      the queue of the writers, the WALs                         writing.rs
//!   catalog      the MANIFEST                                               catalog.rs
//!   jobs         how many jobs run                                          jobs.rs
//!   durability   what a write survives whose call does not say it         options.rs
//!   publishing   how often the file `STATS` is written, and what was last   stats/published.rs
//!   directory    the lock of the directory
//! ```

use std::sync::Arc;

use super::catalog::Catalog;
use super::jobs::Jobs;
use super::sequences::Sequences;
use super::status::Status;
use super::writing::Writing;
use crate::db::stats::published::Publishing;
use crate::db::write::durability::Durability;
use crate::error::Error;
use crate::fs::FileLock;
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock, rank};
use crate::version::TableStore;

/// See the module.
pub(crate) struct Database {
    pub status: Status,
    pub store: TableStore,
    /// Shared with what readers use of each tree.
    pub sequences: Arc<Sequences>,
    pub writing: Writing,
    pub catalog: Catalog,
    pub jobs: Jobs,
    /// Whether jobs may start. Set once the opening is over; a database that was opened read-only
    /// starts none.
    pub starts_jobs: AtomicBool,
    /// What a write survives whose call names no durability.
    pub durability: Durability,
    /// `None`: the counters are not published.
    pub publishing: Option<Publishing>,
    /// The least growth of a MANIFEST before it is rewritten, in bytes.
    pub manifest_roll_bytes: u64,
    /// The lock of the directory. The last field, because it must be dropped last.
    pub directory: DirectoryLock,
}

impl Database {
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

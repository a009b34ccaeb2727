//! [`Inner`]: what all handles and jobs of one database share, in parts.
//!
//! ```text
//!   part         what it holds                                              file
//!   status       whether the database may be used                           status.rs
//!   options      the options with which the database was opened             db/options.rs
//!   store        opens and creates tables                                   version/store.rs
//!   reading      the current read state, the last visible write             reading.rs
//!   writing      WALs and the memtable that they are for                    writing.rs
//!   tree         memtables, tables, the MANIFEST, and their changes         tree.rs
//!   background   what jobs, the timer and closing share                     background.rs
//! ```
//!
//! Most fields of a part are private. A function takes only the part that it needs. A function that
//! needs several parts takes the `Inner`, for example because it leads a write, a flush or a
//! compaction from start to end. The `Inner` contains the parts by value, so a lookup follows one
//! pointer.
//!
//! **Order of locks.**
//!
//! ```text
//!   ingesting ─► writer ─► pending ─► sealed WALs ─► manifest ─► progress ─► state
//!   published stats ─► state ─► snapshots, read states, cleanups
//!   each of these ─► removals
//! ```
//!
//! The first four locks are in [`writing`]; `manifest`, `progress` and `state` in [`tree`];
//! `snapshots` and `read states` in [`reading`]; `cleanups` in [`background`]; `removals` in
//! `version/table_file.rs`. A thread holds `published stats` while it writes the file `STATS`. A
//! thread that drops an obsolete table takes `removals` before and after the deletion of the file,
//! but does not hold it during the deletion. A thread takes locks from left to right only, and may
//! leave some out. A thread that waits for a device may not hold `state` or a lock to the right of
//! it, because writers and new snapshots wait for these locks.
//!
//! **Order of drops.** Fields are dropped in the order of their declaration: the tables' store and
//! what readers see, then the WALs, the MANIFEST and the memtables. The lock of the directory comes
//! last, so that another process cannot open the database while this one still uses its files.

pub(in crate::db) mod background;
pub(in crate::db) mod progress;
pub(in crate::db) mod reading;
pub(in crate::db) mod status;
pub(in crate::db) mod tree;
pub(in crate::db) mod tree_state;
pub(in crate::db) mod writing;

use std::sync::{Arc, OnceLock, Weak};

use self::background::Background;
use self::reading::Reading;
use self::status::Status;
use self::tree::Tree;
use self::tree_state::TreeState;
use self::writing::Writing;
use super::options::Builder;
use super::read_state::ReadPoint;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::sync::pin;
use crate::version::TableStore;

/// What the handles ([`Db`](crate::Db), [`Snapshot`](crate::Snapshot)) and the jobs of one database
/// share.
pub(crate) struct Inner {
    /// A weak reference to this `Inner`, from which jobs get theirs. Empty in a database that
    /// starts no jobs.
    pub(in crate::db) this: OnceLock<Weak<Inner>>,
    pub(in crate::db) status: Status,
    pub(in crate::db) options: Builder,
    pub(in crate::db) store: TableStore,
    pub(in crate::db) reading: Reading,
    pub(in crate::db) writing: Writing,
    pub(in crate::db) tree: Tree,
    pub(in crate::db) background: Background,
}

impl Inner {
    /// Sets `this`, from which jobs get their reference. Before this call no job can start.
    pub fn knows_itself(self: &Arc<Inner>) {
        let _ = self.this.set(Arc::downgrade(self));
    }

    /// A reference to this `Inner`, for a job. `None` if the database is being dropped, or was
    /// opened so that it starts no jobs (read-only).
    pub fn this(&self) -> Option<Arc<Inner>> {
        self.this.get().and_then(Weak::upgrade)
    }

    /// What a read uses.
    ///
    /// # Errors
    ///
    /// Fails if the database is closed, or if the parent of this process opened it.
    #[inline]
    pub fn to_read(&self) -> Result<&Reading> {
        self.status.check_open()?;
        Ok(&self.reading)
    }

    /// What a cursor sees. `snapshot` is the sequence number of a snapshot, or `None` for the last
    /// visible write.
    pub fn read_point(&self, snapshot: Option<SequenceNumber>) -> ReadPoint {
        let guard = pin();
        let (state, sequence) = self.reading.load_read_point(snapshot, &guard);
        ReadPoint::new(state.to_arc(), sequence, snapshot.is_some(), &self.status)
    }

    /// Shows readers and writers what `state` holds now.
    pub fn show(&self, state: &mut TreeState) {
        self.tree.show(state, &self.reading, &self.options.shape);
    }

    /// Makes the database read-only, and returns the error. After a failed write or sync it is
    /// unknown what reached the disk, so no write may follow.
    pub fn latch(&self, error: Error) -> Error {
        if !matches!(error, Error::Closed | Error::Forked) {
            self.status.latch(&error);
            // The lock of the state is held while the sleeping threads are woken, so that a thread
            // that has just checked the status and is about to sleep does not miss the change.
            let _state = self.tree.lock();
            self.tree.notify();
        }
        error
    }

    /// Whether work that failed with this error may be tried again, because it has changed nothing
    /// ([`Error::changed_nothing`]).
    pub fn may_retry(&self, error: &Error) -> bool {
        error.changed_nothing() && self.status.failure().is_none()
    }

    /// Like [`Inner::latch`], but if the caller may try again after this error
    /// ([`Inner::may_retry`]), the database stays writable.
    pub fn latch_unless_retried(&self, error: Error) -> Error {
        if self.may_retry(&error) { error } else { self.latch(error) }
    }

    /// Called in a forked child. Leaks a reference, so that this `Inner` is never dropped there:
    /// the drop would truncate the log, delete tables and release the lock while the parent
    /// continues.
    pub fn leak(self: &Arc<Inner>) {
        std::mem::forget(Arc::clone(self));
    }
}

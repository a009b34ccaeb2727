//! [`Inner`]: what all handles and jobs of one database share.
//!
//! ```text
//!   Inner      ─► Tree        one LSM tree: its options, memtables, tables, the read state, the
//!                             marks, and the state of compactions               tree.rs
//!              ─► Database    what a database has once: the directory and the cache, the WALs and
//!                             the queue of the writers, the MANIFEST, the sequence numbers, the
//!                             jobs, whether it may be used                       database.rs
//! ```
//!
//! A database has one tree. A tree knows nothing of the directory, the WALs and the jobs, and the
//! parts of a database get the tree as an argument, so this is where more trees would be added.
//!
//! Most fields of the parts are private. A function takes only the part that it needs: a tree, the
//! database, or a part of either. Only what leads a write, a flush, a compaction or the closing from
//! start to end takes the `Inner`, because each may start jobs or make the database read-only. The
//! `Inner` contains the parts by value, so a lookup follows one pointer.
//!
//! **Order of locks:** [`crate::sync::rank`]. It names all locks of the crate, and debug builds check
//! it.
//!
//! **Order of drops.** Fields are dropped in the order of their declaration: what readers see, the
//! memtables, then the WALs and the MANIFEST. The lock of the directory comes last, so that another
//! process cannot open the database while this one still uses its files.

pub(in crate::db) mod catalog;
pub(in crate::db) mod database;
pub(in crate::db) mod jobs;
pub(in crate::db) mod progress;
pub(in crate::db) mod reading;
pub(in crate::db) mod sequences;
pub(in crate::db) mod status;
pub(in crate::db) mod tree;
pub(in crate::db) mod tree_state;
pub(in crate::db) mod writing;

use std::sync::{Arc, OnceLock, Weak};

use self::database::Database;
use self::reading::Reading;
use self::tree::Tree;
use super::read_state::ReadPoint;
use crate::db::events;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::sync::pin;

/// What the handles ([`Db`](crate::Db), [`Snapshot`](crate::Snapshot)) and the jobs of one database
/// share.
pub(crate) struct Inner {
    /// A weak reference to this `Inner`, from which jobs get theirs. Empty in a database that
    /// starts no jobs.
    this: OnceLock<Weak<Inner>>,
    pub(in crate::db) tree: Tree,
    pub(in crate::db) database: Database,
}

impl Inner {
    pub fn new(tree: Tree, database: Database) -> Inner {
        Inner { this: OnceLock::new(), tree, database }
    }

    /// Sets `this`, from which jobs get their reference. Before this call no job can start.
    pub fn knows_itself(self: &Arc<Inner>) {
        let _ = self.this.set(Arc::downgrade(self));
    }

    /// A reference to this `Inner`, for a job. `None` if the database is being dropped, or was
    /// opened so that it starts no jobs (read-only).
    pub fn this(&self) -> Option<Arc<Inner>> {
        self.this.get().and_then(Weak::upgrade)
    }

    /// Whether the database starts jobs. One that was opened read-only does not.
    pub fn starts_jobs(&self) -> bool {
        self.this.get().is_some()
    }

    /// What a read uses.
    ///
    /// # Errors
    ///
    /// Fails if the database is closed, or if the parent of this process opened it.
    #[inline]
    pub fn open_reading(&self) -> Result<&Reading> {
        self.database.status.check_open()?;
        Ok(&self.tree.reading)
    }

    /// What a cursor sees. `snapshot` is the sequence number of a snapshot, or `None` for the last
    /// visible write.
    pub fn read_point(&self, snapshot: Option<SequenceNumber>) -> ReadPoint {
        let guard = pin();
        let (state, sequence) = self.tree.reading.load_read_point(snapshot, &guard);
        ReadPoint::new(state.to_arc(), sequence, snapshot.is_some(), &self.database.status)
    }

    /// Makes the database read-only, and returns the error. After a failed write or sync it is
    /// unknown what reached the disk, so no write may follow.
    pub fn latch(&self, error: Error) -> Error {
        if !matches!(error, Error::Closed | Error::Forked) {
            if self.database.status.latch(&error) {
                events::made_read_only(&self.database.store.dir, &error);
            }
            // The lock of the state is held while the sleeping threads are woken, so that a thread
            // that has just checked the status and is about to sleep does not miss the change.
            let _state = self.tree.lock();
            self.tree.notify();
        }
        error
    }

    /// Like [`Inner::latch`], but if the caller may try again after this error
    /// ([`Database::may_retry`]), the database stays writable.
    pub fn latch_unless_retried(&self, error: Error) -> Error {
        if self.database.may_retry(&error) { error } else { self.latch(error) }
    }

    /// Called in a forked child. Leaks a reference, so that this `Inner` is never dropped there:
    /// the drop would truncate the log, delete tables and release the lock while the parent
    /// continues.
    pub fn leak(self: &Arc<Inner>) {
        std::mem::forget(Arc::clone(self));
    }
}

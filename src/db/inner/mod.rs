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
//! A database has a tree for each keyspace ([`trees`]). An `Inner` is one of the trees with the
//! database, so a function that works for one tree takes an `Inner`, whichever tree that is. A tree
//! knows nothing of the directory, the WALs and the jobs, and the parts of a database get the tree as
//! an argument.
//!
//! Most fields of the parts are private. A function takes only the part that it needs: a tree, the
//! database, or a part of either. Only what leads a write, a flush, a compaction or the closing from
//! start to end takes the `Inner`, because each may start jobs or make the database read-only.
//!
//! **Order of locks:** [`crate::sync::rank`]. It names all locks of the crate, and debug builds check
//! it.
//!
//! **Order of drops.** Fields are dropped in the order of their declaration: what readers see, the
//! memtables, then the WALs and the MANIFEST. The lock of the directory comes last, so that another
//! process cannot open the database while this one still uses its files.

pub(in crate::db) mod catalog;
pub(in crate::db) mod cut;
pub(in crate::db) mod database;
pub(in crate::db) mod jobs;
pub(in crate::db) mod progress;
pub(in crate::db) mod reading;
pub(in crate::db) mod sequences;
pub(in crate::db) mod status;
pub(in crate::db) mod tree;
pub(in crate::db) mod tree_state;
pub(in crate::db) mod trees;
pub(in crate::db) mod wals;
pub(in crate::db) mod writing;

use std::sync::{Arc, Weak};

use self::database::Database;
use self::reading::Reading;
use self::tree::Tree;
use super::read_state::ReadPoint;
use crate::db::events;
use crate::db::tree_options::TreeOptions;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::sync::pin;
use crate::version::TableStore;

/// What the handles ([`Db`](crate::Db), [`Snapshot`](crate::Snapshot)) and the jobs of one database
/// share: one of its trees, and the database.
#[derive(Clone)]
pub(crate) struct Inner {
    pub(in crate::db) tree: Arc<Tree>,
    pub(in crate::db) database: Arc<Database>,
}

/// An [`Inner`] that keeps nothing alive.
#[derive(Clone)]
pub(crate) struct WeakInner {
    tree: Weak<Tree>,
    database: Weak<Database>,
}

impl WeakInner {
    /// `None` if the database was dropped.
    pub fn upgrade(&self) -> Option<Inner> {
        Some(Inner { tree: self.tree.upgrade()?, database: self.database.upgrade()? })
    }

    /// Whether both are the same tree of the same database.
    pub fn is_same(&self, other: &WeakInner) -> bool {
        self.tree.ptr_eq(&other.tree) && self.database.ptr_eq(&other.database)
    }

    /// Whether this is a tree of `database`.
    pub fn is_of(&self, database: &Database) -> bool {
        std::ptr::eq(self.database.as_ptr(), database)
    }
}

impl Inner {
    pub fn downgrade(&self) -> WeakInner {
        WeakInner { tree: Arc::downgrade(&self.tree), database: Arc::downgrade(&self.database) }
    }

    /// The same database, with another of its trees.
    pub fn with_tree(&self, tree: Arc<Tree>) -> Inner {
        Inner { tree, database: Arc::clone(&self.database) }
    }

    /// Whether no job of the tree may start.
    pub fn is_stopping(&self) -> bool {
        self.database.status.is_stopping() || self.tree.is_dropped()
    }

    /// Checks that the tree may be written to.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        self.database.status.check_writable()?;
        self.tree.check_exists()
    }

    /// Writes the tables of the tree.
    pub fn table_store(&self, options: &TreeOptions) -> TableStore {
        let store = self.database.store.with_options(options.tables.clone());
        store.in_keyspace(self.tree.id, &self.tree.name)
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
            self.database.wake_all();
        }
        error
    }

    /// Like [`Inner::latch`], but if the caller may try again after this error
    /// ([`Database::may_retry`]), the database stays writable.
    pub fn latch_unless_retried(&self, error: Error) -> Error {
        if self.database.may_retry(&error) { error } else { self.latch(error) }
    }

    /// Called in a forked child. Leaks a reference, so that neither the tree nor the database is
    /// ever dropped there: the drop would truncate the log, delete tables and release the lock
    /// while the parent continues.
    pub fn leak(&self) {
        std::mem::forget(self.clone());
    }
}

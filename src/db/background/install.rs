//! A change of the tree becomes durable first, then visible. Then obsolete files are deleted.
//!
//! ```text
//!   tables synced ─► their names synced ─► MANIFEST synced ─► readers see it ─► obsolete files go
//! ```
//!
//! Every change goes through these steps. A crash between two of them may leave files that no
//! MANIFEST lists. The next opening deletes such files.
//!
//! **When [`Inner::install`] fails** with an error that has changed nothing (`Database::may_retry`),
//! the MANIFEST does not list the change, so the new tables may be deleted and the caller may try
//! again. After any other error the MANIFEST may list the new tables. So **none of them may be
//! deleted**, and the database must become read-only.

use std::sync::Arc;
use std::time::Duration;

use super::idle;
use crate::db::inner::Inner;
use crate::db::inner::tree_state::TreeState;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::sync::drain;
use crate::version::{TableFile, VersionEdit};

/// How long a change of the tree waits for running lookups to end, so that it can free the read
/// state (the memtables and tables that readers see) that it has replaced. If the lookups take
/// longer, that read state stays in memory until the next change.
pub(crate) const READERS_PATIENCE: Duration = Duration::from_millis(100);

impl Inner {
    /// Makes a change of the tree durable, then visible. `opened` holds the tables that `edit` adds
    /// and that are not in the tree yet: a table that only moves is in `edit` alone. `flushed`: the
    /// memtable whose entries they hold. `also` changes the rest of the state in the same step. The
    /// head of this file says what an error means.
    pub(crate) fn install(
        &self,
        flushed: Option<&Arc<Memtable>>,
        edit: VersionEdit,
        opened: Vec<Arc<TableFile>>,
        also: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        if !opened.is_empty() {
            self.database.store.fs.sync_dir(&self.database.store.dir)?;
        }
        self.change_tree(flushed, opened, |_| edit, also, || {})?;
        // Frees the replaced read state, and with it a flushed memtable and obsolete tables.
        drain(READERS_PATIENCE);
        Ok(())
    }

    /// Like [`Inner::install`], but neither syncs the directory, because the caller has made the
    /// names of the tables durable, nor waits for readers. `edit` is called while no other change
    /// of the tree can begin. `published` is called once readers can see the new tree, before any
    /// compaction can start from it.
    pub(crate) fn change_tree(
        &self,
        flushed: Option<&Arc<Memtable>>,
        opened: Vec<Arc<TableFile>>,
        edit: impl FnOnce(&mut TreeState) -> VersionEdit,
        also: impl FnOnce(&mut TreeState),
        published: impl FnOnce(),
    ) -> Result<()> {
        let database = &self.database;
        let parts = database.parts();
        database.catalog.change(parts, &self.tree, flushed, opened, edit, |state| {
            also(state);
            self.tree.publish(state);
            published();
            self.schedule(state);
        })?;
        idle::watch_for_idle(self);
        Ok(())
    }

    /// Like [`Inner::install`], for tables that were written for this change. Deletes these tables
    /// after an error that proves that the change is not recorded (`Database::may_retry`).
    pub(super) fn install_outputs(
        &self,
        flushed: Option<&Arc<Memtable>>,
        edit: VersionEdit,
        outputs: Vec<Arc<TableFile>>,
        also: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        self.install(flushed, edit, outputs.clone(), also).inspect_err(|error| {
            if self.database.may_retry(error) {
                outputs.iter().for_each(|file| file.discard());
            }
        })
    }
}

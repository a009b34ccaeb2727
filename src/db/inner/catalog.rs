//! [`Catalog`]: the MANIFEST, which lists the tables, and what it records of the WALs.
//!
//! ```text
//!   field        lock                           who changes it
//!   manifest     mutex                          a change of the tree             change, below
//!   progress     mutex, within the manifest's   the same
//! ```
//!
//! [`Progress`] says which writes are in tables, and which WALs hold the other writes. The MANIFEST
//! records it.
//!
//! A change is first durable, then visible:
//!
//! ```text
//!   MANIFEST locked ─► its record is synced ─► the tree has the new version ─► readers see it
//! ```
//!
//! Except for the take-over of the directory ([`crate::db::open::writable`]), only a thread that
//! has locked the MANIFEST changes the version of the tree, so each change starts from the result
//! of the previous one. The record is synced outside the lock of the tree's state, because a thread
//! that waits for a device may not hold that lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::progress::{Progress, whole_tree};
use super::tree::Tree;
use super::tree_state::TreeState;
use crate::error::{Error, Result};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard, lock, rank};
use crate::version::{Manifest, TableFile, TableStore, Version, VersionEdit, order};

/// See the module.
pub(crate) struct Catalog {
    /// `None`: this process may not write to the directory, or not yet
    /// ([`crate::db::open::writable`]).
    manifest: Mutex<Option<Manifest>, rank::Manifest>,
    /// Locked only while `manifest` is locked.
    progress: Mutex<Progress, rank::Progress>,
}

type ManifestGuard<'a> = MutexGuard<'a, Option<Manifest>, rank::Manifest>;

impl Catalog {
    pub fn new(manifest: Option<Manifest>, progress: Progress) -> Catalog {
        Catalog { manifest: Mutex::new(manifest), progress: Mutex::new(progress) }
    }

    /// Changes the tree: calls `edit`, makes the edit durable in the MANIFEST, sets the new version
    /// in the state, and calls `changed` with the state. No other change of the tree begins
    /// meanwhile. `opened` holds the tables that the edit adds. The caller has synced the
    /// directory, so the names of these tables are durable. Debug builds then check the new tree,
    /// for the live snapshots too.
    pub fn change(
        &self,
        store: &TableStore,
        tree: &Tree,
        opened: Vec<Arc<TableFile>>,
        edit: impl FnOnce(&mut TreeState) -> VersionEdit,
        changed: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        let opened: BTreeMap<u64, Arc<TableFile>> =
            opened.into_iter().map(|file| (file.meta.number, file)).collect();
        let manifest = lock(&self.manifest);
        let (old, edit) = {
            let mut state = tree.lock();
            (Arc::clone(&state.version), edit(&mut state))
        };
        let new = Arc::new(old.apply(&edit, &opened));
        let only_compacts = !edit.removed.is_empty();
        let manifest = self.record(store, manifest, edit, &new)?;
        {
            let mut state = tree.lock();
            state.version = Arc::clone(&new);
            changed(&mut state);
        }
        let kept: BTreeSet<u64> = new.files().map(|(_, file)| file.meta.number).collect();
        for (level, file) in old.files().filter(|(_, file)| !kept.contains(&file.meta.number)) {
            file.mark_obsolete(level);
        }
        // The MANIFEST is unlocked before `old` is dropped, because the drop may delete tables,
        // which takes time.
        drop(manifest);
        order::assert_change(&old, &new, only_compacts, || tree.reading.snapshots().sequences());
        Ok(())
    }

    /// Enters WALs into the MANIFEST, each as its number and its durable bytes, so that later
    /// openings detect if one of them is missing or shorter.
    pub fn enter_durable_wals(
        &self,
        store: &TableStore,
        tree: &Tree,
        wals: Vec<(u64, u64)>,
    ) -> Result<()> {
        let manifest = lock(&self.manifest);
        let version = Arc::clone(&tree.lock().version);
        let edit = VersionEdit { durable_wals: wals.clone(), ..VersionEdit::default() };
        match self.record(store, manifest, edit, &version) {
            // Without space for this record the call succeeds all the same, because the WALs are
            // synced, so their writes are durable.
            Err(error) if error.changed_nothing() => {
                self.enter_durable_wals_later(wals);
                Ok(())
            }
            recorded => recorded.map(drop),
        }
    }

    /// Notes the WALs in the progress, so that the next MANIFEST file lists them.
    pub fn enter_durable_wals_later(&self, wals: Vec<(u64, u64)>) {
        // The lock of the MANIFEST is taken too, because another thread that holds it may be about
        // to replace the progress.
        let _manifest = lock(&self.manifest);
        lock(&self.progress).durable_wals.extend(wals);
    }

    /// Appends `edit`, which turns the tree into `version`, to the MANIFEST, and syncs it. Returns
    /// the MANIFEST, still locked.
    fn record<'a>(
        &self,
        store: &TableStore,
        mut manifest: ManifestGuard<'a>,
        mut edit: VersionEdit,
        version: &Version,
    ) -> Result<ManifestGuard<'a>> {
        edit.next_file = Some(store.next_file.load(Ordering::Relaxed));
        let before = lock(&self.progress).clone();
        let progress = before.after(&edit);
        edit.flushed_sequence = (progress.flushed_sequence > before.flushed_sequence)
            .then_some(progress.flushed_sequence);
        edit.skipped.retain(|&(_, last)| last > progress.flushed_sequence);
        let Some(open) = &mut *manifest else { return Err(Error::OpenedReadOnly) };
        let replaced = open.append(
            &edit,
            || store.new_number(),
            |number| whole_tree(store, version, &progress, number + 1),
        )?;
        *lock(&self.progress) = progress;
        if let Some(replaced) = replaced {
            store.remove_obsolete(&replaced);
        }
        Ok(manifest)
    }

    /// Sets the MANIFEST that the *take-over* of the directory has made, and the progress that this
    /// MANIFEST records. The take-over is the end of an opening, after which this process may write
    /// ([`crate::db::open::writable`]).
    pub fn take_over(&self, manifest: Manifest, progress: Progress) {
        *lock(&self.manifest) = Some(manifest);
        *lock(&self.progress) = progress;
    }

    /// Calls `read` while no change of the tree is under way.
    pub fn between_changes<T>(&self, read: impl FnOnce(&Progress) -> T) -> T {
        let _manifest = lock(&self.manifest);
        read(&lock(&self.progress))
    }
}

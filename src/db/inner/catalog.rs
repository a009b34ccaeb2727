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

use super::progress::{Progress, tables_of, whole_database};
use super::tree::Tree;
use super::tree_state::TreeState;
use super::trees::{Keyspace, Trees};
use super::wals::NeededWals;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard, lock, rank};
use crate::version::{
    KeyspaceId, KeyspaceRecord, Manifest, TableFile, TableStore, Version, VersionEdit, order,
};

/// See the module.
pub(crate) struct Catalog {
    /// `None`: this process may not write to the directory, or not yet
    /// ([`crate::db::open::writable`]).
    manifest: Mutex<Option<Manifest>, rank::Manifest>,
    /// Locked only while `manifest` is locked.
    progress: Mutex<Progress, rank::Progress>,
}

/// What the catalog needs of the other parts of the database.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub store: &'a TableStore,
    pub trees: &'a Trees,
    pub wals: &'a NeededWals,
}

impl Parts<'_> {
    /// Completes the edit of a flush of `memtable`: which WALs are still needed, and up to which
    /// write everything is in tables.
    fn note_flushed(&self, tree: &Tree, memtable: &Arc<Memtable>, edit: &mut VersionEdit) {
        // In this order (`NeededWals::oldest_needed`).
        let newest = self.wals.newest();
        let unflushed = self.trees.all().into_iter().map(|it| {
            let flushed = (it.id == tree.id).then_some(memtable);
            it.oldest_unflushed(flushed)
        });
        let unflushed = unflushed.min().unwrap_or(MAX_SEQUENCE);
        if let Some(oldest) = self.wals.oldest_needed(newest, unflushed) {
            edit.oldest_wal = Some(oldest.number);
            edit.flushed_sequence = Some(oldest.first - 1);
        }
        edit.flushed = vec![(tree.id, memtable.largest_sequence())];
    }

    /// The first record of a new MANIFEST: the database after `edit`, which no list shows yet.
    /// `changed`: the tree that the edit changes, and its version after it.
    fn whole_database(
        &self,
        edit: &VersionEdit,
        progress: &Progress,
        changed: Option<(KeyspaceId, &Version)>,
        next_file: u64,
    ) -> VersionEdit {
        let (mut keyspaces, next_keyspace) = self.trees.records();
        let is_gone = |id| edit.dropped.contains(&id);
        let is_replaced = |id| edit.created.iter().any(|created| created.id == id);
        keyspaces.retain(|keyspace| !is_gone(keyspace.id) && !is_replaced(keyspace.id));
        keyspaces.extend(edit.created.iter().cloned());
        keyspaces.sort_by_key(|keyspace| keyspace.id);
        let mut tables = Vec::new();
        for tree in self.trees.all().into_iter().filter(|tree| !is_gone(tree.id)) {
            match changed {
                Some((id, version)) if id == tree.id => tables.extend(tables_of(id, version)),
                _ => {
                    let version = Arc::clone(&tree.lock().version);
                    tables.extend(tables_of(tree.id, &version));
                }
            }
        }
        whole_database(self.store, tables, (keyspaces, next_keyspace), progress, next_file)
    }
}

type ManifestGuard<'a> = MutexGuard<'a, Option<Manifest>, rank::Manifest>;

impl Catalog {
    pub fn new(manifest: Option<Manifest>, progress: Progress) -> Catalog {
        Catalog { manifest: Mutex::new(manifest), progress: Mutex::new(progress) }
    }

    /// Changes the tree: calls `edit`, makes the edit durable in the MANIFEST, sets the new version
    /// in the state, and calls `changed` with the state. No other change of a tree begins meanwhile.
    /// `opened` holds the tables that the edit adds. `flushed`: the memtable whose entries these
    /// tables hold, if the change is a flush. The caller has synced the directory, so the names of
    /// these tables are durable. Debug builds then check the new tree, for the live snapshots too.
    ///
    /// # Errors
    ///
    /// [`Error::KeyspaceDropped`] if the tree's keyspace was dropped. Then nothing is recorded.
    pub fn change(
        &self,
        parts: Parts<'_>,
        tree: &Tree,
        flushed: Option<&Arc<Memtable>>,
        opened: Vec<Arc<TableFile>>,
        edit: impl FnOnce(&mut TreeState) -> VersionEdit,
        changed: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        let opened: BTreeMap<u64, Arc<TableFile>> =
            opened.into_iter().map(|file| (file.meta.number, file)).collect();
        let manifest = lock(&self.manifest);
        tree.check_exists()?;
        let (old, mut edit) = {
            let mut state = tree.lock();
            (Arc::clone(&state.version), edit(&mut state))
        };
        if let Some(memtable) = flushed {
            parts.note_flushed(tree, memtable, &mut edit);
        }
        edit.added.iter_mut().for_each(|(_, file)| file.keyspace = tree.id);
        let new = Arc::new(old.apply(&edit, &opened));
        let only_compacts = !edit.removed.is_empty();
        let manifest = self.record(parts, manifest, edit, Some((tree.id, &new)))?;
        {
            let mut state = tree.lock();
            state.version = Arc::clone(&new);
            changed(&mut state);
        }
        let kept: BTreeSet<u64> = new.files().map(|(_, file)| file.meta.number).collect();
        for (level, file) in old.files().filter(|(_, file)| !kept.contains(&file.meta.number)) {
            file.mark_obsolete(&tree.left, level);
        }
        // The MANIFEST is unlocked before `old` is dropped, because the drop may delete tables,
        // which takes time.
        drop(manifest);
        order::assert_change(&old, &new, only_compacts, || tree.reading.snapshots().sequences());
        Ok(())
    }

    /// Adds a keyspace, or replaces the options of one, in the MANIFEST and then in `parts.trees`.
    pub fn put_keyspace(&self, parts: Parts<'_>, keyspace: Keyspace) -> Result<()> {
        let manifest = lock(&self.manifest);
        let Keyspace { id, name, options, .. } = &keyspace;
        let id = *id;
        let next_keyspace = parts.trees.find(name).is_none().then_some(id + 1);
        let record = KeyspaceRecord { id, name: name.to_vec(), options: options.to_string() };
        let edit = VersionEdit { created: vec![record], next_keyspace, ..VersionEdit::default() };
        let _manifest = self.record(parts, manifest, edit, None)?;
        parts.trees.insert(keyspace);
        Ok(())
    }

    /// Removes a keyspace from the MANIFEST and then from `parts.trees`. Its tables are obsolete
    /// then. If the MANIFEST cannot be changed, the keyspace was there all the time.
    pub fn drop_keyspace(&self, parts: Parts<'_>, keyspace: &Keyspace) -> Result<()> {
        let manifest = lock(&self.manifest);
        let edit = VersionEdit { dropped: vec![keyspace.id], ..VersionEdit::default() };
        let manifest = self.record(parts, manifest, edit, None)?;
        parts.trees.remove(keyspace.id);
        let Some(tree) = &keyspace.tree else { return Ok(()) };
        // While the MANIFEST is locked, no job can add a table.
        tree.mark_dropped();
        parts.trees.note_dropped(tree);
        let version = Arc::clone(&tree.lock().version);
        version.files().for_each(|(level, file)| file.mark_obsolete(&tree.left, level));
        drop(manifest);
        Ok(())
    }

    /// Enters WALs into the MANIFEST, each as its number and its durable bytes, so that later
    /// openings detect if one of them is missing or shorter.
    pub fn enter_durable_wals(&self, parts: Parts<'_>, wals: Vec<(u64, u64)>) -> Result<()> {
        let manifest = lock(&self.manifest);
        let edit = VersionEdit { durable_wals: wals.clone(), ..VersionEdit::default() };
        match self.record(parts, manifest, edit, None) {
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

    /// Appends `edit` to the MANIFEST, and syncs it. `changed`: the tree that the edit changes, and
    /// its version after it. Returns the MANIFEST, still locked.
    fn record<'a>(
        &self,
        parts: Parts<'_>,
        mut manifest: ManifestGuard<'a>,
        mut edit: VersionEdit,
        changed: Option<(KeyspaceId, &Version)>,
    ) -> Result<ManifestGuard<'a>> {
        let store = parts.store;
        edit.next_file = Some(store.next_file.load(Ordering::Relaxed));
        let before = lock(&self.progress).clone();
        let progress = before.after(&edit);
        edit.flushed_sequence = (progress.flushed_sequence > before.flushed_sequence)
            .then_some(progress.flushed_sequence);
        edit.skipped.retain(|&(_, last)| last > progress.flushed_sequence);
        edit.flushed.retain(|(keyspace, _)| progress.flushed.contains_key(keyspace));
        let Some(open) = &mut *manifest else { return Err(Error::OpenedReadOnly) };
        let replaced = open.append(
            &edit,
            || store.new_number(),
            |number| parts.whole_database(&edit, &progress, changed, number + 1),
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

//! A change of the tree: first durable, then visible, then obsolete files are deleted.
//!
//! ```text
//!   tables synced ─► their names synced ─► MANIFEST synced ─► readers see it ─► obsolete files go
//! ```
//!
//! Every change goes through these steps. A crash between two of them leaves files that no MANIFEST
//! lists, and the next opening deletes these.
//!
//! **When [`Inner::install`] fails** for lack of space, the change is not recorded, so its tables
//! may be deleted and it may be tried again. After any other error the MANIFEST may list its
//! tables. So **none of them may be deleted**, and the database must become read-only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::db::{Inner, Progress, TreeState};
use crate::error::{Error, Result};
use crate::sync::{drain, lock};
use crate::version::{TableFile, TableStore, Version, VersionEdit};

/// How long a replaced read state waits for running lookups. After that it stays in memory until
/// the next one is replaced.
pub(crate) const READERS_PATIENCE: Duration = Duration::from_millis(100);

impl Inner {
    /// Makes a change of the tree durable, then visible. `opened` holds the tables that `edit`
    /// adds. `also` changes the rest of the state in the same step. For errors see the head of this
    /// file.
    pub(crate) fn install(
        &self,
        edit: VersionEdit,
        opened: Vec<Arc<TableFile>>,
        also: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        if !opened.is_empty() {
            self.store.fs.sync_dir(&self.store.dir)?;
        }
        self.change_tree(opened, |_| edit, also, || {})?;
        // Frees the replaced read state, and with it a flushed memtable and obsolete tables.
        drain(READERS_PATIENCE);
        Ok(())
    }

    /// The middle of [`Inner::install`], for tables whose names are durable. `edit` is called when
    /// no other change of the tree can come between. `shown` is called once readers can see the new
    /// tree, before any compaction can start from it.
    pub(crate) fn change_tree(
        &self,
        opened: Vec<Arc<TableFile>>,
        edit: impl FnOnce(&mut TreeState) -> VersionEdit,
        also: impl FnOnce(&mut TreeState),
        shown: impl FnOnce(),
    ) -> Result<()> {
        let opened: HashMap<u64, Arc<TableFile>> =
            opened.into_iter().map(|file| (file.meta.number, file)).collect();
        // Only the holder of the manifest changes the version.
        let manifest = lock(&self.manifest);
        let (old, edit) = {
            let mut state = self.lock_state();
            (Arc::clone(&state.version), edit(&mut state))
        };
        let new = Arc::new(old.apply(&edit, &opened));
        let manifest = self.record(manifest, edit, &new)?;
        {
            let mut state = self.lock_state();
            state.version = Arc::clone(&new);
            also(&mut state);
            self.show(&mut state);
            shown();
            self.schedule(&mut state);
        }
        let kept: HashSet<u64> = new.files().map(|(_, file)| file.meta.number).collect();
        for (level, file) in old.files().filter(|(_, file)| !kept.contains(&file.meta.number)) {
            file.mark_obsolete(level);
        }
        drop((manifest, old));
        self.await_rest();
        Ok(())
    }

    /// As [`Inner::install`], for tables that were written for this change. They are deleted where
    /// the change is certainly not recorded.
    pub(super) fn install_outputs(
        &self,
        level: usize,
        edit: VersionEdit,
        outputs: Vec<Arc<TableFile>>,
        also: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        self.install(edit, outputs.clone(), also).inspect_err(|error| {
            if self.may_retry(error) {
                outputs.iter().for_each(|file| file.mark_obsolete(level));
            }
        })
    }

    /// Enters WALs into the MANIFEST, each as its number and its durable bytes, so that a missing
    /// or shorter WAL is detected from now on.
    pub(crate) fn enter_durable_wals(&self, wals: Vec<(u64, u64)>) -> Result<()> {
        let manifest = lock(&self.manifest);
        let version = Arc::clone(&self.lock_state().version);
        let edit = VersionEdit { durable_wals: wals.clone(), ..VersionEdit::default() };
        match self.record(manifest, edit, &version) {
            // The writes are durable all the same.
            Err(error) if error.is_out_of_space() => {
                self.enter_durable_wals_later(wals);
                Ok(())
            }
            recorded => recorded.map(drop),
        }
    }

    /// The next MANIFEST lists the WALs.
    pub(crate) fn enter_durable_wals_later(&self, wals: Vec<(u64, u64)>) {
        // The holder of the MANIFEST may replace the progress.
        let _manifest = lock(&self.manifest);
        lock(&self.progress).durable_wals.extend(wals);
    }

    /// Appends `edit`, which makes the tree `version`, and syncs. Returns the MANIFEST, still
    /// locked.
    fn record<'a>(
        &self,
        mut manifest: ManifestGuard<'a>,
        mut edit: VersionEdit,
        version: &Version,
    ) -> Result<ManifestGuard<'a>> {
        edit.next_file = Some(self.store.next_file.load(Ordering::Relaxed));
        let before = lock(&self.progress).clone();
        let progress = before.after(&edit);
        edit.flushed_sequence = (progress.flushed_sequence > before.flushed_sequence)
            .then_some(progress.flushed_sequence);
        edit.skipped.retain(|&(_, last)| last > progress.flushed_sequence);
        let Some(open) = &mut *manifest else { return Err(Error::OpenedReadOnly) };
        open.append(
            &edit,
            || self.store.new_number(),
            |number| whole_tree(&self.store, version, &progress, number + 1),
        )?;
        *lock(&self.progress) = progress;
        Ok(manifest)
    }
}

type ManifestGuard<'a> = std::sync::MutexGuard<'a, Option<crate::version::Manifest>>;

impl Progress {
    fn after(&self, edit: &VersionEdit) -> Progress {
        let mut after = self.clone();
        after.oldest_wal = edit.oldest_wal.unwrap_or(self.oldest_wal);
        after.durable_wals.extend(edit.durable_wals.iter().copied());
        let flushed = edit.flushed_sequence.unwrap_or(0);
        after.flushed_sequence = self.flushed_sequence.max(flushed);
        edit.skipped.iter().for_each(|&(first, last)| after.skipped.add(first, last));
        after.settled()
    }

    /// The progress without its obsolete parts. A skipped number that follows the flushed one is in
    /// a table too, so it counts as flushed.
    pub(crate) fn settled(mut self) -> Progress {
        self.durable_wals.retain(|&number, _| number >= self.oldest_wal);
        self.flushed_sequence = self.skipped.after(self.flushed_sequence);
        self.skipped.forget(self.flushed_sequence);
        self
    }
}

/// The edit that makes `version` out of an empty tree: the first record of a MANIFEST.
pub(crate) fn whole_tree(
    store: &TableStore,
    version: &Version,
    progress: &Progress,
    next_file: u64,
) -> VersionEdit {
    VersionEdit {
        next_file: Some(next_file),
        flushed_sequence: Some(progress.flushed_sequence),
        oldest_wal: Some(progress.oldest_wal),
        removed: Vec::new(),
        added: version.files().map(|(level, file)| (level, file.meta.clone())).collect(),
        db_identity: Some(store.creator.db.clone()),
        durable_wals: progress
            .durable_wals
            .iter()
            .map(|(&number, &bytes)| (number, bytes))
            .collect(),
        skipped: progress.skipped.ranges().collect(),
    }
}

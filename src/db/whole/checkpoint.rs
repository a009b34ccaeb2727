//! A checkpoint: a second database that shares the tables of this one by hard links.
//!
//! ```text
//!   flush ─► new directory ─► each table: a link, or a copy ─► MANIFEST ─► CURRENT
//! ```
//!
//! Or with other filters: each table is written again, its data unchanged (`copy_with_filters`).
//!
//! The copy has no WAL: the flush has put every write into a table. `CURRENT` comes last, so a copy
//! that was cut short is no database.
//!
//! A copy that fails removes its files; the directory stays, empty. While a copy is being made its
//! directory has the file `UNFINISHED_COPY`. So what a killed process leaves is recognised: the next
//! copy to the directory removes it first. Building under another name and renaming the directory
//! would need more of [`Fs`]: it renames and removes files only.

use std::path::Path;
use std::sync::Arc;

use super::ingest::copy_file;
use crate::db::background::install::whole_tree;
use crate::db::options::lasting;
use crate::db::read_state::ReadState;
use crate::db::{Inner, Progress};
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::filter_policy::{FilterContext, FilterPolicy};
use crate::fs::{self, Fs};
use crate::known_files;
use crate::sync::{lock, pin};
use crate::table::TableSummary;
use crate::version::names::FileKind;
use crate::version::{FileMeta, Manifest, TableFile, Version, VersionEdit, names};

impl Inner {
    pub(in crate::db) fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.check_open()?;
        let fs = &self.store.fs;
        let absolute = lasting(&**fs, dir)?;
        self.copy_tree(&absolute, |_, _, file, target| {
            if fs.hard_link(file.path(), target).is_err() {
                // Another file system, or one without links.
                copy_file(&**fs, file.path(), target)?;
            }
            Ok(file.meta.clone())
        })
    }

    /// As a checkpoint, with the filters that `policy` gives to each table where it stands.
    pub(in crate::db) fn copy_with_filters(&self, dir: &Path, policy: &FilterPolicy) -> Result<()> {
        self.check_open()?;
        let fs = &self.store.fs;
        let absolute = lasting(&**fs, dir)?;
        self.copy_tree(&absolute, |version, level, file, target| {
            // A table of level 0 is a run of its own. Those of a deeper level are one run, which is
            // whole already.
            let mut metas = version.metas();
            metas[0].retain(|meta| meta.number != file.meta.number);
            let new_entries = if level == 0 { file.meta.entries } else { 0 };
            let filter = policy.spec_for(&FilterContext::new(&metas, level, new_entries));
            let filter_keys = self.store.options.filter_keys;
            let target = fs.create(target)?;
            let summary = file.table.refilter(target, filter, filter_keys)?;
            self.store.count_filter(&summary);
            let TableSummary { file_bytes, tail_bytes, .. } = summary;
            Ok(FileMeta { file_bytes, tail_bytes, ..file.meta.clone() })
        })
    }

    /// A new database in `dir`, an absolute path, with the tree of this one. `copy` makes a table's
    /// file.
    fn copy_tree(
        &self,
        dir: &Path,
        copy: impl FnMut(&Version, usize, &TableFile, &Path) -> Result<FileMeta>,
    ) -> Result<()> {
        let fs = &self.store.fs;
        // Before anything is made: a database that cannot be written makes no copy.
        make_database(&**fs, &self.store.dir, dir, || self.flush(), || self.fill(dir, copy))
    }

    /// Makes the files of the copy.
    fn fill(
        &self,
        dir: &Path,
        mut copy: impl FnMut(&Version, usize, &TableFile, &Path) -> Result<FileMeta>,
    ) -> Result<()> {
        let fs = &self.store.fs;
        let (read_state, flushed_sequence) = self.flushed_tree()?;
        let mut added = Vec::new();
        for (level, file) in read_state.version.files() {
            let target = names::table_path(dir, file.meta.number);
            added.push((level, copy(&read_state.version, level, file, &target)?));
        }
        let number = self.store.new_number();
        let progress = Progress { flushed_sequence, oldest_wal: number + 1, ..Progress::default() };
        let tree = whole_tree(&self.store, &read_state.version, &progress, number + 1);
        let tree = VersionEdit { added, ..tree };
        Manifest::create(fs, dir, number, &tree, self.manifest_roll_bytes)?;
        Ok(())
    }

    /// The tree after a flush, and the sequence number up to which it holds every write, and none
    /// beyond it.
    fn flushed_tree(&self) -> Result<(Arc<ReadState>, SequenceNumber)> {
        self.flush()?;
        let current = || {
            // Nobody changes the tree between the two.
            let _manifest = lock(&self.manifest);
            let progress = lock(&self.progress);
            let is_whole = progress.skipped.is_empty();
            (is_whole, (self.read_state.load_arc(&pin()), progress.flushed_sequence))
        };
        let (true, tree) = current() else {
            // A table was ingested while there were writes before it in a new memtable.
            let _ingesting = lock(&self.ingesting);
            self.flush()?;
            return Ok(current().1);
        };
        Ok(tree)
    }
}

/// Makes a new database in `dir`, an absolute path, of the one in `source`: after `prepare`, which may
/// refuse, `fill` makes its files, `CURRENT` last. Nothing is left where that fails.
pub(in crate::db) fn make_database<T>(
    fs: &dyn Fs,
    source: &Path,
    dir: &Path,
    prepare: impl FnOnce() -> Result<()>,
    fill: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if fs::resolved(dir).starts_with(fs::resolved(source)) {
        return Err(Error::InvalidArgument(format!(
            "{}: is in the directory of the database that it would copy",
            dir.display()
        )));
    }
    refuse_used(fs, dir)?;
    prepare()?;
    if !fs.exists(dir)? {
        fs::create_dir_durably(fs, dir)?;
    }
    // Two copies to one directory: the second one fails.
    let lock_path = names::lock_path(dir);
    let lock = fs.lock(&lock_path)?;
    let fill_marked = || {
        remove_rest(fs, dir)?;
        let mark = names::unfinished_copy_path(dir);
        fs.create(&mark)?.sync()?;
        fs.sync_dir(dir)?;
        let filled = fill()?;
        fs.remove(&mark)?;
        // The copy is whole, also if a power loss brings the mark back.
        let _ = fs.sync_dir(dir);
        Ok(filled)
    };
    let made = refuse_used(fs, dir).and_then(|()| {
        fill_marked().inspect_err(|_: &Error| {
            // What cannot be removed now is removed by the next copy to this directory.
            let _ = remove_rest(fs, dir);
        })
    });
    let _ = fs.remove(&lock_path);
    drop(lock);
    made
}

/// Refuses a directory that has anything in it but the rest of a copy that was cut short. One of
/// another engine is called by its name.
fn refuse_used(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if !fs.exists(dir)? || is_rest(&fs.list(dir)?) {
        return Ok(());
    }
    known_files::refuse_foreign_database(fs, dir)?;
    Err(Error::InvalidArgument(format!(
        "{}: exists already and is not empty; a copy of a database needs a new directory",
        dir.display()
    )))
}

/// Whether the names are those of a copy that was not finished, or none. A database that was opened
/// since has a WAL.
fn is_rest(names: &[String]) -> bool {
    let is_marked = names.iter().any(|name| name == names::UNFINISHED_COPY);
    let is_of_copy = |name: &String| {
        let kind = names::parse(name);
        let is_made = !matches!(kind, None | Some(FileKind::Wal(_)));
        is_made || ["CURRENT", "LOCK", names::UNFINISHED_COPY].contains(&name.as_str())
    };
    let has_files = names.iter().any(|name| name != "LOCK");
    !has_files || is_marked && names.iter().all(is_of_copy)
}

/// Removes what a copy has made that was cut short, the mark last. `CURRENT` first: what is left then
/// is no database.
fn remove_rest(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let names = fs.list(dir)?;
    if !names.iter().any(|name| name == names::UNFINISHED_COPY) {
        return Ok(());
    }
    if names.iter().any(|name| name == "CURRENT") {
        fs.remove(&names::current_path(dir))?;
    }
    for name in names.iter().filter(|name| names::parse(name).is_some()) {
        fs.remove(&dir.join(name))?;
    }
    fs.sync_dir(dir)?;
    fs.remove(&names::unfinished_copy_path(dir))
}

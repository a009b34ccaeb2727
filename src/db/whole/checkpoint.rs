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
use crate::fs;
use crate::sync::{lock, pin};
use crate::table::TableSummary;
use crate::version::{FileMeta, Manifest, TableFile, Version, VersionEdit, names};

impl Inner {
    pub(in crate::db) fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.check_open()?;
        let fs = &self.store.fs;
        let absolute = lasting(&**fs, dir)?;
        if fs.exists(&absolute)? {
            return Err(Error::InvalidArgument(format!(
                "{}: exists already; a checkpoint makes a new directory",
                dir.display()
            )));
        }
        self.copy_tree(&absolute, |_, _, file, target| {
            if fs.hard_link(file.path(), target).is_err() {
                // Another file system, or one without links.
                copy_file(&**fs, file.path(), target)?;
            }
            Ok(file.meta.clone())
        })
    }

    /// As a checkpoint, with the filters that `policy` gives to each table where it stands. `dir` may
    /// be there, if it is empty.
    pub(in crate::db) fn copy_with_filters(&self, dir: &Path, policy: &FilterPolicy) -> Result<()> {
        self.check_open()?;
        let fs = &self.store.fs;
        let absolute = lasting(&**fs, dir)?;
        if fs.exists(&absolute)? && !fs.list(&absolute)?.is_empty() {
            return Err(Error::InvalidArgument(format!(
                "{}: exists already and is not empty; a copy wants a directory of its own",
                dir.display()
            )));
        }
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
        mut copy: impl FnMut(&Version, usize, &TableFile, &Path) -> Result<FileMeta>,
    ) -> Result<()> {
        let fs = &self.store.fs;
        let (read_state, flushed_sequence) = self.flushed_tree()?;
        if !fs.exists(dir)? {
            fs::create_dir_durably(&**fs, dir)?;
        }
        let mut added = Vec::new();
        for (level, file) in read_state.version.files() {
            let target = names::table_path(dir, file.meta.number);
            added.push((level, copy(&read_state.version, level, file, &target)?));
        }
        let number = self.store.new_number();
        let progress = Progress { flushed_sequence, oldest_wal: number + 1, ..Progress::default() };
        let tree = whole_tree(&self.store, &read_state.version, &progress, number + 1);
        let tree = VersionEdit { added, ..tree };
        Manifest::create(fs, dir, number, &tree, self.manifest_roll_bytes).map(drop)
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

//! A checkpoint: a second database that shares the tables of this one by hard links.
//!
//! ```text
//!   flush ─► new directory ─► each table: a link, or a copy ─► MANIFEST ─► CURRENT
//! ```
//!
//! `copy_with_filters` makes the same new database, but writes each table again with another
//! filter.
//!
//! The copy has no WAL: the flush has put every write into a table. `CURRENT` comes last, so a copy
//! that was cut short is no database.
//!
//! A call that fails removes the files that it made, and leaves an empty directory. A killed
//! process leaves its files, but also the file `UNFINISHED_COPY`, which the directory has while the
//! copy is being made. The next copy to the directory finds this file, and removes the remains
//! first. Rejected: to build the copy in a directory of another name, and to rename it at the end.
//! That would need more of [`Fs`], which renames and removes files only.

use std::path::Path;

use super::ingest::copy_open_file;
use crate::db::background::jobs::work_in_this_thread;
use crate::db::inner::Inner;
use crate::db::inner::cut::Cut;
use crate::db::inner::database::Database;
use crate::db::inner::progress::{Progress, whole_database};
use crate::db::inner::tree::Tree;
use crate::db::options::lasting;
use crate::error::{Error, Result};
use crate::filter_policy::FilterPolicy;
use crate::fs::{self, Fs};
use crate::known_files;
use crate::rocksdb::is_rocksdbs_own;
use crate::version::names::FileKind;
use crate::version::{FileMeta, Manifest, TableFile, Version, names};

pub(in crate::db) fn checkpoint(inner: &Inner, dir: &Path) -> Result<()> {
    let mut shared = SharedTables::default();
    let fs = &*inner.database.store.fs;
    copy_tree(inner, dir, |_, _, _, file, target| {
        shared.add(fs, file, target)?;
        Ok(file.meta.clone())
    })
}

/// Like a checkpoint, but each table gets the filter that `policy` gives it at its level.
pub(in crate::db) fn copy_with_filters(
    inner: &Inner,
    dir: &Path,
    policy: &FilterPolicy,
) -> Result<()> {
    copy_tree(inner, dir, |tree, version, level, file, target| {
        let store = inner.database.store.with_options(tree.options().tables.clone());
        let filter = policy.filters_of_all(version).spec_at(level, file);
        let goes_on = || inner.database.status.check_open();
        let meta = store.refilter_to(target, store.new_number()?, file, filter, goes_on)?;
        Ok(FileMeta { number: file.meta.number, ..meta })
    })
}

/// Makes a new database in `dir` with the tree of this one. `copy` makes the file of a table.
fn copy_tree(
    inner: &Inner,
    dir: &Path,
    copy: impl FnMut(&Tree, &Version, usize, &TableFile, &Path) -> Result<FileMeta>,
) -> Result<()> {
    let Database { status, store, .. } = &*inner.database;
    status.check_writable()?;
    // `close` waits for jobs. Without this one, another owner of the directory could already have a
    // table of its own under a name that is to be linked.
    let _working = work_in_this_thread(inner)?;
    let dir = &lasting(&*store.fs, dir)?;
    let fill = || fill(&inner.database, inner.cut()?, dir, copy);
    // The flush comes before any file of the copy is made, so if this database cannot be written,
    // the call fails and leaves no file.
    make_database(&*store.fs, &store.dir, dir, || inner.flush_all(), fill)
}

/// Makes the files of the copy.
fn fill(
    database: &Database,
    cut: Cut,
    dir: &Path,
    mut copy: impl FnMut(&Tree, &Version, usize, &TableFile, &Path) -> Result<FileMeta>,
) -> Result<()> {
    let Database { status, store, .. } = database;
    let Cut { trees, keyspaces, last_sequence } = cut;
    let mut added = Vec::new();
    for (tree, read_state) in &trees {
        let version = &read_state.sources.version;
        for (level, file) in version.files() {
            // Checked for each table, so that closing the database waits for one table at most.
            status.check_open()?;
            let target = names::table_path(dir, file.meta.number);
            let meta = copy(tree, version, level, file, &target)?;
            added.push((level, FileMeta { keyspace: tree.id, ..meta }));
        }
    }
    let number = store.new_number()?;
    let flushed_sequence = last_sequence;
    let progress = Progress { flushed_sequence, oldest_wal: number + 1, ..Progress::default() };
    let whole = whole_database(store, added, keyspaces, &progress, number + 1);
    Manifest::create(&store.fs, dir, number, &whole, database.options.manifest_roll_bytes)?;
    Ok(())
}

/// How the tables of a copy were made.
#[derive(Debug, Clone, Default)]
pub(in crate::db) struct SharedTables {
    pub linked: usize,
    pub copied: usize,
    /// Bytes of the linked and the copied tables.
    pub file_bytes: u64,
    /// Why the first of the copied tables was not linked.
    pub not_linked: Option<String>,
}

impl SharedTables {
    /// Makes `target` a hard link of the table, or else a copy.
    pub fn add(&mut self, fs: &dyn Fs, file: &TableFile, target: &Path) -> Result<()> {
        match fs.hard_link(file.path(), target) {
            Ok(()) => self.linked += 1,
            Err(error) => {
                // A link fails between file systems, on a file system without links, if another
                // user owns the file, and if another process has deleted the file: RocksDB may do
                // so during an import. The file is open, so it can be copied in all these cases.
                copy_open_file(fs, &**file.table.block_file().file(), target)?;
                self.copied += 1;
                self.not_linked.get_or_insert_with(|| error.to_string());
            }
        }
        self.file_bytes += file.meta.file_bytes;
        Ok(())
    }
}

/// Makes a database in `dir`, an absolute path outside the directory `source`. `prepare` runs
/// before anything is written to `dir`. Then `fill` makes the files, `CURRENT` last. If `fill`
/// fails, the files are removed.
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
    // If another call is copying to this directory, this fails.
    let lock_path = names::lock_path(dir);
    let lock = fs.lock(&lock_path)?;
    let fill_marked = || {
        remove_unfinished(fs, dir)?;
        let mark = names::unfinished_copy_path(dir);
        fs.create(&mark)?.sync()?;
        fs.sync_dir(dir)?;
        let filled = fill()?;
        fs::remove_if_present(fs, &mark)?;
        // If this sync fails, a power loss may bring `UNFINISHED_COPY` back. The copy is whole even
        // then, so the error is ignored.
        let _ = fs.sync_dir(dir);
        Ok(filled)
    };
    let made = refuse_used(fs, dir).and_then(|()| {
        fill_marked().inspect_err(|_: &Error| {
            // What cannot be removed now is removed by the next copy to this directory.
            let _ = remove_unfinished(fs, dir);
        })
    });
    fs::tidy_away(fs, &lock_path);
    drop(lock);
    made
}

/// Rejects a directory that contains anything but the remains of an interrupted copy. If another
/// engine owns the directory, the error names that engine.
fn refuse_used(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if !fs.exists(dir)? || may_be_filled(&fs.list(dir)?) {
        return Ok(());
    }
    known_files::refuse_foreign_database(fs, dir)?;
    Err(Error::InvalidArgument(format!(
        "{}: exists already and is not empty; a copy of a database needs a new directory",
        dir.display()
    )))
}

/// Whether the directory with these names is empty, apart from a `LOCK`, or holds an unfinished
/// copy. A copy gets its first WAL when it is opened, so a directory with a WAL is no unfinished
/// copy.
fn may_be_filled(names: &[String]) -> bool {
    let is_marked = names.iter().any(|name| name == names::UNFINISHED_COPY);
    let is_of_copy = |name: &String| {
        let kind = names::parse(name);
        let is_made = !matches!(kind, None | Some(FileKind::Wal(_))) || is_rocksdbs_own(name);
        is_made || ["CURRENT", "LOCK", names::UNFINISHED_COPY].contains(&name.as_str())
    };
    let has_files = names.iter().any(|name| name != "LOCK");
    !has_files || is_marked && names.iter().all(is_of_copy)
}

/// Removes the remains of an interrupted copy: `CURRENT` first, so that the other files are no
/// database, and `UNFINISHED_COPY` last, so that the removal can be started again.
fn remove_unfinished(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let names = fs::names_in(fs, dir)?;
    if !names.iter().any(|name| name == names::UNFINISHED_COPY) {
        return Ok(());
    }
    if names.iter().any(|name| name == "CURRENT") {
        fs::remove_if_present(fs, &names::current_path(dir))?;
    }
    let is_made = |name: &&String| names::parse(name).is_some() || is_rocksdbs_own(name);
    for name in names.iter().filter(is_made) {
        fs::remove_if_present(fs, &dir.join(name))?;
    }
    fs.sync_dir(dir)?;
    fs::remove_if_present(fs, &names::unfinished_copy_path(dir))
}

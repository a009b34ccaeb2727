//! [`Repair`]: a repair under way, and the tables of its new trees.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keyspaces::Keyspaces;
use super::report::RepairReport;
use crate::db::options::Builder;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::filter_policy::FilterContext;
use crate::fs::Fs;
use crate::table::Table;
use crate::version::{FileMeta, KeyspaceId, TableFile, TableStore, Version, names};
use crate::wal::{LogKind, LogReader, Record};

/// The directory of files that are no longer part of the database.
pub(super) const LOST: &str = "lost";

/// A repair under way.
pub(super) struct Repair<'a> {
    pub(super) options: &'a Builder,
    pub(super) fs: Arc<dyn Fs>,
    pub(super) dir: PathBuf,
    /// Opens the old tables.
    pub(super) whole: TableStore,
    /// Creates new tables, in `lost/`, where no opening looks for them: see [`Repair::store_of`].
    pub(super) store: TableStore,
    pub(super) keyspaces: Keyspaces,
    /// Numbers of the tables in the directory.
    pub(super) tables: Vec<u64>,
    /// File number and largest sequence number of the tables from which `guess` estimates the
    /// sequence number of an ingested table if no MANIFEST states it.
    pub(super) newest: Vec<(u64, SequenceNumber)>,
    pub(super) last_sequence: SequenceNumber,
    /// The tables of the new trees.
    pub(super) tree: Vec<Placed>,
    pub(super) is_done: bool,
    /// Whether a table may have entries that this build does not understand.
    pub(super) may_hold_unknown: bool,
    pub(super) report: RepairReport,
}

/// A table of one of the new trees.
pub(super) struct Placed {
    pub(super) keyspace: KeyspaceId,
    pub(super) level: usize,
    pub(super) file: Arc<TableFile>,
    pub(super) location: FileLocation,
}

/// Where the file of a table is.
pub(super) enum FileLocation {
    /// In the directory, under its name.
    InPlace,
    /// In `lost/`, written by this repair.
    New,
    /// In the directory, under the name of another table.
    NamedAs(PathBuf),
}

/// Whether an error in reading a table may come from damage. An unsupported feature may be damage,
/// because the footer of a table has no checksum. This does not hold for logs: the header of a log
/// has a checksum, so an unsupported feature there comes from a newer version.
pub(super) fn is_table_damage(error: &Error) -> bool {
    error.is_damage() || matches!(error, Error::Unsupported { .. })
}

/// Opens a log, even if its file header is damaged.
pub(super) fn open_readable(
    fs: &dyn Fs,
    path: &Path,
    kind: LogKind,
    number: u64,
) -> Result<LogReader> {
    match LogReader::open(fs, path, kind, number) {
        Err(error) if error.is_damage() => LogReader::open_damaged(fs, path, kind, number),
        opened => opened,
    }
}

/// Calls `visit` with every record that can be read, whatever is damaged between them.
pub(super) fn readable_records(
    log: &mut LogReader,
    mut visit: impl FnMut(Record<'_>),
) -> Result<()> {
    loop {
        match log.next() {
            Ok(Some(record)) => {
                visit(record);
                continue;
            }
            Ok(None) => {}
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
        if log.skip_damage()?.is_none() {
            return Ok(());
        }
    }
}

impl Repair<'_> {
    /// The tables of a keyspace.
    fn tables_of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &Placed> {
        self.tree.iter().filter(move |it| it.keyspace == keyspace)
    }

    pub(super) fn version(&self, keyspace: KeyspaceId) -> Version {
        Version::of(self.tables_of(keyspace).map(|it| (it.level, Arc::clone(&it.file))))
    }

    /// The keyspaces that have tables.
    pub(super) fn filled_keyspaces(&self) -> BTreeSet<KeyspaceId> {
        self.tree.iter().map(|it| it.keyspace).collect()
    }

    pub(super) fn added(&self) -> Vec<(usize, FileMeta)> {
        let meta = |it: &Placed| FileMeta { keyspace: it.keyspace, ..it.file.meta.clone() };
        self.tree.iter().map(|it| (it.level, meta(it))).collect()
    }

    pub(super) fn filter_of(&self, keyspace: KeyspaceId, level: usize, entries: u64) -> FilterSpec {
        let mut metas: [Vec<&FileMeta>; crate::version::LEVELS] = Default::default();
        self.tables_of(keyspace).for_each(|it| metas[it.level].push(&it.file.meta));
        let policy = &self.keyspaces.options(keyspace).filter;
        policy.spec_for(&FilterContext::new(&metas, level, entries))
    }

    /// Creates the new tables of a keyspace.
    pub(super) fn store_of(&self, keyspace: KeyspaceId) -> TableStore {
        let store = self.store.with_options(self.keyspaces.options(keyspace).tables.clone());
        store.in_keyspace(keyspace, &self.keyspaces.name(keyspace))
    }

    pub(super) fn table_file(&self, meta: FileMeta, table: Arc<Table>) -> Arc<TableFile> {
        let path = names::table_path(&self.dir, meta.number);
        let obsolete = Arc::clone(&self.whole.obsolete);
        Arc::new(TableFile::new(meta, table, Arc::clone(&self.fs), path, obsolete))
    }

    pub(super) fn add_new(&mut self, keyspace: KeyspaceId, level: usize, file: Arc<TableFile>) {
        self.tree.push(Placed { keyspace, level, file, location: FileLocation::New });
    }
}

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // The repair has failed. No MANIFEST lists the new tables, and the old tables and WALs
            // still hold their entries, so those new tables that are still in `lost/` are deleted.
            let new = self.tree.iter().filter(|it| matches!(it.location, FileLocation::New));
            new.for_each(|it| it.file.discard());
        }
    }
}

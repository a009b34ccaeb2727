//! [`Repair`]: a repair under way.

use std::path::PathBuf;
use std::sync::Arc;

use super::report::RepairReport;
use crate::db::options::Builder;
use crate::encoding::key::SequenceNumber;
use crate::error::Error;
use crate::filter::FilterSpec;
use crate::filter_policy::FilterContext;
use crate::fs::Fs;
use crate::table::Table;
use crate::version::{FileMeta, TableFile, TableStore, Version, names};

/// The directory of files that are no longer part of the database.
pub(super) const LOST: &str = "lost";

/// A repair under way.
pub(super) struct Repair<'a> {
    pub(super) options: &'a Builder,
    pub(super) fs: Arc<dyn Fs>,
    pub(super) dir: PathBuf,
    /// Opens the old tables.
    pub(super) whole: TableStore,
    /// Creates new tables, in `lost/`, where no opening looks for them.
    pub(super) store: TableStore,
    /// Numbers of the tables in the directory.
    pub(super) tables: Vec<u64>,
    /// File number and largest sequence number of the tables from which `guess` estimates the
    /// sequence number of an ingested table if no MANIFEST states it.
    pub(super) newest: Vec<(u64, SequenceNumber)>,
    pub(super) last_sequence: SequenceNumber,
    /// The new tree: level, table, and where the file is.
    pub(super) tree: Vec<(usize, Arc<TableFile>, FileLocation)>,
    pub(super) is_done: bool,
    /// Whether a table may have entries that this build does not understand.
    pub(super) may_hold_unknown: bool,
    pub(super) report: RepairReport,
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

impl Repair<'_> {
    pub(super) fn version(&self) -> Version {
        Version::of(self.tree.iter().map(|(level, file, _)| (*level, Arc::clone(file))))
    }

    pub(super) fn added(&self) -> Vec<(usize, FileMeta)> {
        self.tree.iter().map(|(level, file, _)| (*level, file.meta.clone())).collect()
    }

    pub(super) fn filter_of(&self, level: usize, entries: u64) -> FilterSpec {
        let mut metas: [Vec<&FileMeta>; crate::version::LEVELS] = Default::default();
        self.tree.iter().for_each(|(level, file, _)| metas[*level].push(&file.meta));
        self.options.tree.filter.spec_for(&FilterContext::new(&metas, level, entries))
    }

    pub(super) fn table_file(&self, meta: FileMeta, table: Arc<Table>) -> Arc<TableFile> {
        let path = names::table_path(&self.dir, meta.number);
        let obsolete = Arc::clone(&self.whole.obsolete);
        Arc::new(TableFile::new(meta, table, Arc::clone(&self.fs), path, obsolete))
    }

    pub(super) fn add_new(&mut self, level: usize, file: Arc<TableFile>) {
        self.tree.push((level, file, FileLocation::New));
    }
}

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // The repair has failed. No MANIFEST lists the new tables, and the old tables and WALs
            // still hold their entries, so those new tables that are still in `lost/` are deleted.
            let new =
                self.tree.iter().filter(|(_, _, location)| matches!(location, FileLocation::New));
            new.for_each(|(_, file, _)| file.discard());
        }
    }
}

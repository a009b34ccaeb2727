//! Import: makes a database of Maypole's from a column family of RocksDB's.
//!
//! ```text
//!   refuse what cannot be read later ─► new directory ─► each table: a link, or a copy
//!                                                     ─► each group of tables: one new table
//!                                                     ─► what is in logs: tables of level 0
//!                                                     ─► MANIFEST ─► CURRENT
//! ```
//!
//! The tables stay as they are, with their levels, sequence numbers and bounds. The bounds matter,
//! because RocksDB's tables may hold range deletions that reach beyond them, and only the part
//! within the bounds applies (`table/table.rs`).
//!
//! Only two kinds of tables are written again: those that are merged, because a tree of Maypole's
//! cannot hold them as they are or because level 0 has too many (`groups.rs`), and those of
//! LevelDB. LevelDB's tables lack the properties that state the sequence numbers and the number of
//! entries, and their filters are not read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::database::RocksDb;
use super::groups::groups;
use super::merge::merge;
use crate::cursor::Cursor;
use crate::db::db::Db;
use crate::db::flush::Flush;
use crate::db::inner::Inner;
use crate::db::inner::database::Database;
use crate::db::maintenance::checkpoint::{SharedTables, make_database};
use crate::db::open::directory::{Directory as NoFiles, table_store};
use crate::db::options::{Builder, lasting};
use crate::db::read_state::ReadState;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, user_key};
use crate::error::{Error, Result};
use crate::filter_policy::FilterContext;
use crate::memtable::Memtable;
use crate::sync::atomic::Ordering;
use crate::table::format::compression::read::missing_for;
use crate::table::{property_names as property, unsupported_entry};
use crate::version::{Manifest, TableFile, Version, VersionEdit, names};

/// What [`RocksDb::import`] made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Tables that are hard links to RocksDB's files, so they take no space of their own.
    pub linked: usize,
    /// Tables that were copied.
    pub copied: usize,
    /// Bytes of the linked and the copied tables.
    pub file_bytes: u64,
    /// Why the first of the copied tables was not linked.
    pub not_linked: Option<String>,
    /// Entries that were in logs, range deletions included. They are in new tables.
    pub log_entries: usize,
    /// Tables that were in level 0 and are in deeper levels now.
    pub moved_down: usize,
    /// Tables that were written again: those that were merged because a lookup could not tell which
    /// of them is newer, or because level 0 was too full, and all tables of LevelDB.
    pub rewritten: usize,
}

impl RocksDb {
    /// Imports the column family `name`, as this handle shows it, as a Maypole database in the
    /// directory `dir`. The new database shares most tables by hard links, or copies them where
    /// linking fails, for example between file systems. LevelDB's tables, and tables that must be
    /// merged, are written again, and the entries of logs get new tables. The RocksDB database
    /// stays as it is. It may be open and written to meanwhile, but later writes are not imported.
    ///
    /// The import does not check the entries of the tables. So it finds an entry of an unknown kind
    /// only if the MANIFEST or the table's properties mention it. Otherwise the entry is imported,
    /// and a read of its key returns an error.
    ///
    /// ```no_run
    /// use maypole::{Db, RocksDb};
    ///
    /// let rocks = RocksDb::open_read_only("/var/lib/app/rocksdb")?;
    /// rocks.import("default", "/var/lib/app/maypole")?;
    /// let db = Db::open("/var/lib/app/maypole")?;
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Those of [`RocksDb::column_family`].
    /// - [`Error::Unsupported`] where the column family holds merge operands, references to blob
    ///   files, a compression that this build lacks, or, in its logs, another entry of an unknown
    ///   kind. Nothing is written then, with one exception: the compression of LevelDB's tables is
    ///   noticed only while they are written again. The files that were made are then removed, and
    ///   the directory stays, empty.
    /// - [`Error::InvalidArgument`] where `dir` is not empty, or lies in the RocksDB directory.
    /// - [`Error::Io`] where a file cannot be read or made. The files that were made are removed;
    ///   the directory stays, empty.
    pub fn import(&self, name: impl AsRef<[u8]>, dir: impl AsRef<Path>) -> Result<ImportReport> {
        let name = name.as_ref();
        let db = self.column_family(name)?;
        if let Some(table) = self.with_blobs(name) {
            return Err(Error::Unsupported {
                file: names::table_path(&self.path, table),
                what: "values in blob files; rewrite them with RocksDB first \
                       (enable_blob_files=false, compact)"
                    .into(),
            });
        }
        import(&db, dir.as_ref())
    }
}

fn import(db: &Db, dir: &Path) -> Result<ImportReport> {
    let Inner { database, tree } = &db.inner;
    let fs = &database.store.fs;
    let dir = lasting(&**fs, dir)?;
    let state = tree.reading.current();
    for (_, file) in state.sources.version.files() {
        check_table(file)?;
    }
    state.sources.memtables().try_for_each(check_memtable)?;
    make_database(&**fs, &database.store.dir, &dir, || Ok(()), || fill(database, &state, &dir))
}

/// Refuses a table whose properties tell that it has entries or blocks that cannot be read.
fn check_table(file: &TableFile) -> Result<()> {
    let properties = file.table.properties();
    let unsupported = |what: String| Err(Error::Unsupported { file: file.path().to_owned(), what });
    if let Some(operands @ 1..) = properties.number(property::MERGE_OPERANDS) {
        let operator = properties.text(property::MERGE_OPERATOR).unwrap_or("an unknown operator");
        return unsupported(format!(
            "merge operands ({operands}, of {operator}); only RocksDB reads them"
        ));
    }
    match properties.text(property::COMPRESSION).and_then(missing_for) {
        Some(what) => unsupported(what),
        None => Ok(()),
    }
}

/// Refuses entries of kinds that are not understood.
fn check_memtable(memtable: &Arc<Memtable>) -> Result<()> {
    let mut cursor = memtable.cursor();
    cursor.seek_to_first()?;
    while cursor.valid() {
        let kind = key::kind_byte(cursor.key());
        if EntryKind::of_point(kind).is_none() {
            return Err(unsupported_entry(Path::new("the log"), user_key(cursor.key()), kind));
        }
        cursor.next()?;
    }
    Ok(())
}

/// Makes the files of the new database in `dir`.
fn fill(source: &Database, state: &ReadState, dir: &Path) -> Result<ImportReport> {
    let fs = &source.store.fs;
    let options = Builder::new(dir).fs(Arc::clone(fs));
    let store = table_store(&options, &NoFiles::default(), false);
    store.next_file.store(source.store.next_file.load(Ordering::Relaxed), Ordering::Relaxed);
    let nothing = Version::default();
    let filter_for = |level: usize, entries: u64| {
        options.tree.filter.spec_for(&FilterContext::new(&nothing.metas(), level, entries))
    };
    let mut report = ImportReport::default();
    let mut shared = SharedTables::default();
    let mut added = Vec::new();
    let by_number: BTreeMap<u64, (usize, &Arc<TableFile>)> = state
        .sources
        .version
        .files()
        .map(|(level, file)| (file.meta.number, (level, file)))
        .collect();
    for group in groups(&state.sources.version) {
        let (levels, files): (Vec<usize>, Vec<&Arc<TableFile>>) =
            group.tables.iter().map(|number| by_number[number]).unzip();
        report.moved_down += levels.iter().filter(|&&level| level != group.level).count();
        match files[..] {
            [file] if !file.table.is_leveldbs() => {
                shared.add(&**fs, file, &names::table_path(dir, file.meta.number))?;
                added.push((group.level, file.meta.clone()));
            }
            _ => {
                let entries = files.iter().map(|file| file.meta.entries).sum();
                let filter = filter_for(group.level, entries);
                let merged = merge(&files, &store, filter, group.level)?;
                added.extend(merged.map(|file| (group.level, file.meta.clone())));
                report.rewritten += files.len();
            }
        }
    }
    let SharedTables { linked, copied, file_bytes, not_linked } = shared;
    let mut report = ImportReport { linked, copied, file_bytes, not_linked, ..report };
    let memtables: Vec<_> =
        state.sources.memtables().filter(|memtable| !memtable.is_empty()).collect();
    for memtable in memtables.into_iter().rev() {
        let filter = filter_for(0, memtable.len() as u64);
        let flush = Flush { store: &store, older: None, snapshots: Vec::new(), filter: &filter };
        let files = flush.run(memtable)?;
        added.extend(files.iter().map(|file| (0, file.meta.clone())));
        report.log_entries += memtable.len();
    }
    let number = store.new_number();
    // The last sequence number must be at least the largest one of the tables. For LevelDB's tables
    // this is known only now that they are written again, because LevelDB's MANIFEST states no
    // sequence numbers of tables.
    let largest = added.iter().map(|(_, meta)| meta.largest_sequence).max().unwrap_or(0);
    let edit = VersionEdit {
        next_file: Some(number + 1),
        flushed_sequence: Some(source.sequences.visible().max(largest)),
        oldest_wal: Some(number + 1),
        added,
        db_identity: Some(store.creator.db.clone()),
        ..VersionEdit::default()
    };
    Manifest::create(fs, dir, number, &edit, options.manifest_roll_bytes)?;
    Ok(report)
}

//! A column family of RocksDB's becomes a database of Maypole's.
//!
//! ```text
//!   refuse what cannot be read later ─► new directory ─► each table: a link, or a copy
//!                                                     ─► what is in logs: tables of level 0
//!                                                     ─► MANIFEST ─► CURRENT
//! ```
//!
//! The tables stay as they are, with their levels, sequence numbers and bounds. The bounds matter:
//! what RocksDB's tables hold of range deletions beyond them counts nowhere (`table/table.rs`).
//!
//! Level 0 of a database with universal or FIFO compaction may hold more tables than Maypole lets
//! writers add to. Then those that can move down without being rewritten do ([`move_down`]); the
//! compactions of the new database merge the others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::database::RocksDb;
use crate::cursor::Cursor;
use crate::db::db::Db;
use crate::db::flush::Flush;
use crate::db::inner::Inner;
use crate::db::maintenance::checkpoint::{SharedTables, make_database};
use crate::db::open::directory::{Directory as NoFiles, table_store};
use crate::db::options::{Builder, lasting};
use crate::db::read_state::ReadState;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, user_key};
use crate::error::{Error, Result};
use crate::filter_policy::FilterContext;
use crate::memtable::Memtable;
use crate::table::format::compression::read::missing_for;
use crate::table::{property_names as property, unsupported_entry};
use crate::version::{FileMeta, LEVELS, Manifest, TableFile, Version, VersionEdit, names};

/// More tables of level 0 slow writers down: from here on tables move down at an import.
const MAX_IN_LEVEL_0: usize = 20;

/// What [`RocksDb::import`] made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Tables that are hard links of RocksDB's: they take no space of their own.
    pub linked: usize,
    /// Tables that were copied.
    pub copied: usize,
    /// Bytes of all tables of RocksDB's, linked or copied.
    pub file_bytes: u64,
    /// Why the first of the copied tables was not linked.
    pub not_linked: Option<String>,
    /// Entries that were in logs, range deletions included. They are in new tables.
    pub log_entries: usize,
    /// Tables that were in level 0 and are in deeper levels now.
    pub moved_down: usize,
}

impl RocksDb {
    /// Makes a Maypole database of the column family `name`, in the directory `dir`. It shares the
    /// tables by hard links, or has copies where linking is refused, as between file systems. The
    /// RocksDB database stays as it is, and may be open and written to.
    ///
    /// Reads the end of each table and the logs, and no data: entries of kinds that the MANIFEST
    /// and the tables' properties do not tell are found when they are read.
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
    /// - [`Error::Unsupported`] where it holds merge operands, references to blob files, a
    ///   compression that this build lacks, or in its logs another entry of a kind that is not
    ///   understood. Nothing is written then.
    /// - [`Error::InvalidArgument`] where `dir` is not empty, or lies in the RocksDB directory.
    /// - [`Error::Io`]. The files that were made are removed; the directory stays, empty.
    pub fn import(&self, name: &str, dir: impl AsRef<Path>) -> Result<ImportReport> {
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
    let inner = &db.inner;
    let fs = &inner.store.fs;
    let dir = lasting(&**fs, dir)?;
    let state = inner.reading.current();
    for (_, file) in state.version.files() {
        check_table(file)?;
    }
    state.memtables().try_for_each(check_memtable)?;
    make_database(&**fs, &inner.store.dir, &dir, || Ok(()), || fill(inner, &state, &dir))
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
fn fill(source: &Inner, state: &ReadState, dir: &Path) -> Result<ImportReport> {
    let fs = &source.store.fs;
    let options = Builder::new(dir).fs(Arc::clone(fs));
    let none = NoFiles { recovered: None, files: Vec::new(), is_unfinished_copy: false };
    let mut store = table_store(&options, &none, false);
    *store.next_file.get_mut() = source.store.next_file.load(Ordering::Relaxed);
    let mut shared = SharedTables::default();
    let mut added = Vec::new();
    for (level, file) in state.version.files() {
        shared.add(&**fs, file, &names::table_path(dir, file.meta.number))?;
        added.push((level, file.meta.clone()));
    }
    let SharedTables { linked, copied, file_bytes, not_linked } = shared;
    let mut report =
        ImportReport { linked, copied, file_bytes, not_linked, ..ImportReport::default() };
    report.moved_down = move_down(&mut added);
    let memtables: Vec<_> = state.memtables().filter(|memtable| !memtable.is_empty()).collect();
    for memtable in memtables.into_iter().rev() {
        let nothing = Version::default();
        let context = FilterContext::new(&nothing.metas(), 0, memtable.len() as u64);
        let filter = options.filter.spec_for(&context);
        let flush = Flush { store: &store, older: None, snapshots: Vec::new(), filter };
        let files = flush.run(memtable)?;
        added.extend(files.iter().map(|file| (0, file.meta.clone())));
        report.log_entries += memtable.len();
    }
    let number = store.new_number();
    let edit = VersionEdit {
        next_file: Some(number + 1),
        flushed_sequence: Some(source.reading.visible()),
        oldest_wal: Some(number + 1),
        added,
        db_identity: Some(store.creator.db.clone()),
        ..VersionEdit::default()
    };
    Manifest::create(fs, dir, number, &edit, options.manifest_roll_bytes)?;
    Ok(report)
}

/// Where level 0 has many tables: moves each, the oldest first, to the deepest level above which it
/// overlaps nothing. Newer tables stay above it. Answers how many moved.
fn move_down(tables: &mut [(usize, FileMeta)]) -> usize {
    let mut level_0: Vec<usize> = (0..tables.len()).filter(|&i| tables[i].0 == 0).collect();
    if level_0.len() <= MAX_IN_LEVEL_0 {
        return 0;
    }
    level_0.sort_by_key(|&i| (tables[i].1.largest_sequence, tables[i].1.number));
    let mut stay: Vec<usize> = Vec::new();
    let mut moved = 0;
    for i in level_0 {
        let overlaps = |other: usize| {
            let (one, other) = (&tables[i].1, &tables[other].1);
            !one.starts_after(&other.largest) && !other.starts_after(&one.largest)
        };
        let is_free = |level: usize| {
            let mut there = (0..tables.len()).filter(|&other| tables[other].0 == level);
            !there.any(overlaps)
        };
        let deepest = match stay.iter().any(|&older| overlaps(older)) {
            true => 0,
            false => (1..LEVELS).take_while(|&level| is_free(level)).last().unwrap_or(0),
        };
        match deepest {
            0 => stay.push(i),
            level => {
                tables[i].0 = level;
                moved += 1;
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn table(level: usize, number: u64, first: &str, last: &str) -> (usize, FileMeta) {
        let meta = FileMeta {
            number,
            smallest: internal_key(first.as_bytes(), number, 1),
            largest: internal_key(last.as_bytes(), number, 1),
            smallest_sequence: number,
            largest_sequence: number,
            ..FileMeta::default()
        };
        (level, meta)
    }

    #[test]
    fn a_full_level_0_moves_down_and_newer_tables_stay_above_older_ones() {
        // All overlap: one a level, the oldest deepest.
        let mut tables: Vec<_> = (1..=25).map(|n| table(0, n, "a", "z")).collect();
        assert_eq!(move_down(&mut tables), 6);
        let levels: Vec<_> = tables.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels[..8], [6, 5, 4, 3, 2, 1, 0, 0]);
        // None overlaps: all to the last level.
        let name = |n: u64| format!("{n:03}");
        let mut tables: Vec<_> = (1..=25).map(|n| table(0, n, &name(n), &name(n))).collect();
        assert_eq!(move_down(&mut tables), 25);
        assert!(tables.iter().all(|(level, _)| *level == 6));
        // Below what overlaps in a deeper level, and below an older one that stays, nothing goes.
        let mut tables: Vec<_> = (3..=25).map(|n| table(0, n, &name(n), &name(n))).collect();
        tables.push(table(1, 1, "003", "004"));
        tables.push(table(3, 2, "005", "006"));
        tables.push(table(0, 30, "004", "007"));
        tables.push(table(0, 31, "007", "007"));
        assert_eq!(move_down(&mut tables), 25 - 4);
        let level = |number| tables.iter().find(|(_, meta)| meta.number == number).unwrap().0;
        assert_eq!([3, 4, 5, 6, 7, 30, 31].map(level), [0, 0, 2, 2, 6, 0, 0]);
        // A short level 0 stays.
        let mut tables: Vec<_> = (1..=20).map(|n| table(0, n, "a", "z")).collect();
        assert_eq!(move_down(&mut tables), 0);
    }
}

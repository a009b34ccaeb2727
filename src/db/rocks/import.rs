//! Import: makes a database of Maypole's from one column family of RocksDB's, or from all of them.
//!
//! ```text
//!   refuse what cannot be read later ─► new directory ─► each table: a link, or a copy
//!                                                     ─► each group of tables: one new table
//!                                                     ─► what is in logs: tables of level 0
//!                                                     ─► MANIFEST ─► CURRENT
//! ```
//!
//! All column families of one database together become keyspaces with their numbers and names, in
//! one directory, because RocksDB's file numbers and sequence numbers are unique in the database. A
//! single one becomes the keyspace `default`.
//!
//! The tables stay as they are, with their levels, sequence numbers and bounds. The bounds matter,
//! because RocksDB's tables may hold range deletions that reach beyond them, and only the part
//! within the bounds applies (`table/table.rs`).
//!
//! Only two kinds of tables are written again: those that are merged, because a tree of Maypole's
//! cannot hold them as they are or because level 0 has too many (`groups.rs`), and those of
//! LevelDB. LevelDB's tables lack the properties that state the sequence numbers and the number of
//! entries, and their filters are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::database::{ColumnFamily, RocksDb};
use super::groups::groups;
use super::merge::merge;
use crate::cursor::Cursor;
use crate::db::db::Db;
use crate::db::flush::Flush;
use crate::db::maintenance::checkpoint::{SharedTables, make_database};
use crate::db::open::directory::{Directory as NoFiles, table_store};
use crate::db::options::{Builder, lasting};
use crate::db::read_state::ReadState;
use crate::db::tree_options::TreeOptions;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, user_key};
use crate::encoding::text::escape;
use crate::error::{Damage, Error, Result};
use crate::filter::FilterSpec;
use crate::filter_policy::FilterContext;
use crate::memtable::Memtable;
use crate::sync::atomic::Ordering;
use crate::table::format::compression::read::missing_for;
use crate::table::{property_names as property, unsupported_entry};
use crate::version::{
    FileMeta, KeyspaceId, KeyspaceRecord, MAX_NAME_BYTES, Manifest, TableFile, TableStore, Version,
    VersionEdit, names,
};

/// What [`RocksDb::import`] or [`RocksDb::import_all`] made of a column family.
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
    /// - [`Error::InvalidArgument`] where `dir` is not empty, or lies in the RocksDB directory, or
    ///   where RocksDB's file numbers come too close to 2^62, the largest one here.
    /// - [`Error::Io`] where a file cannot be read or made. The files that were made are removed;
    ///   the directory stays, empty.
    pub fn import(&self, name: impl AsRef<[u8]>, dir: impl AsRef<Path>) -> Result<ImportReport> {
        let imported = Imported { created: None, db: self.to_import(name.as_ref())? };
        Ok(import(vec![imported], dir.as_ref())?.remove(0))
    }

    /// Like [`RocksDb::import`], with all column families at once: the new database has a keyspace
    /// ([`Db::keyspace`]) for each, with its name and the default options. Returns the reports of
    /// [`RocksDb::column_families`], in their order.
    ///
    /// ```no_run
    /// use maypole::{Db, RocksDb, WriteBatch};
    ///
    /// let rocks = RocksDb::open_read_only("/var/lib/app/rocksdb")?;
    /// rocks.import_all("/var/lib/app/maypole")?;
    /// let db = Db::open("/var/lib/app/maypole")?;
    /// let users = db.keyspace("users")?;
    /// db.write(WriteBatch::new().put("in default", "").keyspace(&users).put("in users", ""))?;
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`RocksDb::import`] for any of the families; [`Error::Unsupported`] where a name is
    /// empty or has more than 255 bytes.
    pub fn import_all(&self, dir: impl AsRef<Path>) -> Result<Vec<ImportReport>> {
        let families = self.column_families().iter().map(|family| {
            let created = if family.id == 0 { None } else { Some(self.new_keyspace(family)?) };
            Ok(Imported { created, db: self.to_import(&family.name)? })
        });
        import(families.collect::<Result<_>>()?, dir.as_ref())
    }

    /// The column family, if it can be imported as far as its MANIFEST tells.
    fn to_import(&self, name: &[u8]) -> Result<Db> {
        let db = self.column_family(name)?;
        match self.with_blobs(name) {
            Some(table) => Err(Error::Unsupported {
                file: names::table_path(&self.path, table),
                what: "values in blob files; rewrite them with RocksDB first \
                       (enable_blob_files=false, compact)"
                    .into(),
            }),
            None => Ok(db),
        }
    }

    fn new_keyspace(&self, family: &ColumnFamily) -> Result<KeyspaceRecord> {
        let ColumnFamily { id, name, .. } = family;
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) {
            let what = format!(
                "the name of the column family \"{}\" as one of a keyspace, which has 1 to \
                 {MAX_NAME_BYTES} bytes; import each column family to a database of its own",
                escape(name)
            );
            return Err(Error::Unsupported { file: self.path.clone(), what });
        }
        let options = TreeOptions::default().to_text();
        Ok(KeyspaceRecord { id: *id, name: name.clone(), options })
    }
}

/// A column family that is imported.
struct Imported {
    db: Db,
    /// The keyspace that it becomes; `None`: keyspace 0.
    created: Option<KeyspaceRecord>,
}

impl Imported {
    fn keyspace(&self) -> KeyspaceId {
        self.created.as_ref().map_or(0, |record| record.id)
    }
}

/// Imports column families of one database.
fn import(families: Vec<Imported>, dir: &Path) -> Result<Vec<ImportReport>> {
    let store = &families[0].db.inner.database.store;
    let dir = lasting(&*store.fs, dir)?;
    let current = |family: &Imported| family.db.inner.tree.reading.current();
    let states: Vec<Arc<ReadState>> = families.iter().map(current).collect();
    let mut numbers = BTreeSet::new();
    for state in &states {
        for (_, file) in state.sources.version.files() {
            check_table(file)?;
            if !numbers.insert(file.meta.number) {
                // The second link would fail, and its copy would replace the bytes of the first.
                let damage = Damage::new(0, "a table of one column family", "it in two of them");
                return Err(damage.in_file(file.path(), 0));
            }
        }
        state.sources.memtables().try_for_each(check_memtable)?;
    }
    make_database(&*store.fs, &store.dir, &dir, || Ok(()), || fill(&families, &states, &dir))
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
fn fill(families: &[Imported], states: &[Arc<ReadState>], dir: &Path) -> Result<Vec<ImportReport>> {
    let databases = families.iter().map(|family| &family.db.inner.database);
    let fs = &families[0].db.inner.database.store.fs;
    let options = Builder::new(dir).fs(Arc::clone(fs));
    let store = table_store(&options, &NoFiles::default(), false);
    let next = databases.clone().map(|it| it.store.next_file.load(Ordering::Relaxed)).max();
    store.next_file.store(next.unwrap_or(0), Ordering::Relaxed);
    let (mut added, mut reports) = (Vec::new(), Vec::new());
    for (family, state) in families.iter().zip(states) {
        let keyspace = family.keyspace();
        let store = match &family.created {
            Some(record) => store.clone().in_keyspace(keyspace, &record.name),
            None => store.clone(),
        };
        let mut filling = Filling::new(&options, &store, dir);
        filling.tables(state)?;
        filling.logged(state)?;
        let Filling { added: of_family, report, shared, .. } = filling;
        let SharedTables { linked, copied, file_bytes, not_linked } = shared;
        reports.push(ImportReport { linked, copied, file_bytes, not_linked, ..report });
        let of_keyspace = |(level, meta)| (level, FileMeta { keyspace, ..meta });
        added.extend(of_family.into_iter().map(of_keyspace));
    }
    let number = store.number_of_first_manifest()?;
    // The last sequence number must be at least the largest one of the tables. For LevelDB's tables
    // this is known only now that they are written again, because LevelDB's MANIFEST states no
    // sequence numbers of tables.
    let largest = added.iter().map(|(_, meta)| meta.largest_sequence).max().unwrap_or(0);
    let last_sequence = databases.map(|it| it.sequences.visible()).max().unwrap_or(0);
    let created: Vec<_> = families.iter().filter_map(|family| family.created.clone()).collect();
    let edit = VersionEdit {
        next_file: Some(number + 1),
        flushed_sequence: Some(last_sequence.max(largest)),
        oldest_wal: Some(number + 1),
        added,
        db_identity: Some(store.creator.db.clone()),
        next_keyspace: created.iter().map(|record| record.id.saturating_add(1)).max(),
        created,
        ..VersionEdit::default()
    };
    Manifest::create(fs, dir, number, &edit, options.manifest_roll_bytes)?;
    Ok(reports)
}

/// Makes the tables of one keyspace.
struct Filling<'a> {
    options: &'a Builder,
    store: &'a TableStore,
    dir: &'a Path,
    /// The tables so far, with their levels.
    added: Vec<(usize, FileMeta)>,
    shared: SharedTables,
    report: ImportReport,
}

impl<'a> Filling<'a> {
    fn new(options: &'a Builder, store: &'a TableStore, dir: &'a Path) -> Filling<'a> {
        let (shared, report) = (SharedTables::default(), ImportReport::default());
        Filling { options, store, dir, added: Vec::new(), shared, report }
    }

    fn filter_for(&self, level: usize, entries: u64) -> FilterSpec {
        let nothing = Version::default();
        let context = FilterContext::new(&nothing.metas(), level, entries);
        self.options.tree.filter.spec_for(&context)
    }

    /// Links, copies or merges the tables of the column family.
    fn tables(&mut self, state: &ReadState) -> Result<()> {
        let version = &state.sources.version;
        let by_number = version.files().map(|(level, file)| (file.meta.number, (level, file)));
        let by_number: BTreeMap<u64, (usize, &Arc<TableFile>)> = by_number.collect();
        for group in groups(version) {
            let (levels, files): (Vec<usize>, Vec<&Arc<TableFile>>) =
                group.tables.iter().map(|number| by_number[number]).unzip();
            self.report.moved_down += levels.iter().filter(|&&level| level != group.level).count();
            match files[..] {
                [file] if !file.table.is_leveldbs() => {
                    let target = names::table_path(self.dir, file.meta.number);
                    self.shared.add(&*self.store.fs, file, &target)?;
                    self.added.push((group.level, file.meta.clone()));
                }
                _ => {
                    let entries = files.iter().map(|file| file.meta.entries).sum();
                    let filter = self.filter_for(group.level, entries);
                    let merged = merge(&files, self.store, filter, group.level)?;
                    self.added.extend(merged.map(|file| (group.level, file.meta.clone())));
                    self.report.rewritten += files.len();
                }
            }
        }
        Ok(())
    }

    /// Writes what was in logs to tables of level 0.
    fn logged(&mut self, state: &ReadState) -> Result<()> {
        let memtables: Vec<_> =
            state.sources.memtables().filter(|memtable| !memtable.is_empty()).collect();
        for memtable in memtables.into_iter().rev() {
            let filter = self.filter_for(0, memtable.len() as u64);
            let (store, snapshots) = (self.store, Vec::new());
            let files = Flush { store, older: None, snapshots, filter: &filter }.run(memtable)?;
            self.added.extend(files.iter().map(|file| (0, file.meta.clone())));
            self.report.log_entries += memtable.len();
        }
        Ok(())
    }
}

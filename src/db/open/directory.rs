//! Reads what a directory holds, and opens its tables.
//!
//! ```text
//!   names ─► CURRENT ─► MANIFEST ─► open the tables it lists, compare each with its description
//! ```
//!
//! The replay of the WALs comes next: [`super::recover`].
//!
//! **Why the names come first.** A writer may be active while a reader reads the directory. The
//! writer removes a WAL only after the MANIFEST records that tables hold all writes of the WAL, and
//! it removes a MANIFEST only after `CURRENT` names the next one. So each write that was
//! acknowledged before the names were read is found:
//!
//! - *The names include its WAL.* Either the MANIFEST, which is read later, records that tables hold
//!   the write, or the WAL is replayed. If the writer has removed the WAL before it is opened, the
//!   opening fails, and the reader starts again ([`super::read_only`]).
//! - *The names do not include its WAL.* Then the WAL was already removed, so the MANIFEST that
//!   `CURRENT` named at that moment recorded the write. `CURRENT` is read later. It names the same
//!   MANIFEST, which only grows, or a newer one, which begins with the whole tree.
//!
//! In the opposite order a WAL could be removed between the two steps. The MANIFEST as it was read
//! would not list the new table, and the names would not include the WAL, so the writes of this WAL
//! would be missing, and without a later record no gap would show this.
//!
//! The MANIFEST may be newer than the names. Then it may require WALs that the names lack, and the
//! reader starts again. It may also record writes that came after the names were read. The reader
//! then sees these writes too, together with all writes before them, because the sequence numbers
//! of the WALs must follow the MANIFEST's without a gap. So a reader that begins after another one
//! has ended sees at least what that one saw.
//!
//! A system may list a WAL that is created meanwhile, and not list an older one that is created
//! meanwhile too. That is a gap, or the missing WAL has no writes.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::db::options::{Builder, CacheChoice};
use crate::encoding::key::user_key;
use crate::error::{Damage, Error, Result};
use crate::fs::{self, DescriptorPool, Fs};
use crate::stats::Counters;
use crate::sync::atomic::AtomicU64;
use crate::table::TableContext;
use crate::table::format::identity::{Creator, new_db_identity};
use crate::version::{
    FileMeta, KeyspaceId, ObsoleteFiles, Recovered, TableFile, TableStore, Version, names,
    read_current,
};
use crate::wal::{LogKind, LogReader};

/// What is in a directory.
#[derive(Default)]
pub(crate) struct Directory {
    /// `None`: there is no `CURRENT`.
    pub recovered: Option<Recovered>,
    /// The numbered files, sorted by number. A file whose number this database cannot have assigned
    /// is not among them, and is left alone.
    pub files: Vec<(u64, names::FileKind)>,
    /// The directory has the file `UNFINISHED_COPY`, because a copy of a database was being made
    /// here.
    pub is_unfinished_copy: bool,
}

impl Directory {
    pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Directory> {
        // The head of this file says why the names are read before `CURRENT`.
        let names = fs::names_in(fs, dir)?;
        let mut directory = Directory { recovered: read_current(fs, dir)?, ..Directory::default() };
        let most = directory.most_file_number();
        for name in names {
            directory.is_unfinished_copy |= name == names::UNFINISHED_COPY;
            if let Some(kind) = names::parse(&name)
                && let Some(number) = kind.number()
                && number <= most
            {
                directory.files.push((number, kind));
            }
        }
        directory.files.sort_by_key(|&(number, _)| number);
        Ok(directory)
    }

    /// The highest number that a file of the database may have.
    pub fn most_file_number(&self) -> u64 {
        match &self.recovered {
            Some(recovered) => recovered.most_file_number(),
            None => Recovered::default().most_file_number(),
        }
    }

    /// Rejects a directory that has no `CURRENT`, but has tables, a log with writes, or the file
    /// `UNFINISHED_COPY`. Such a directory held a database or a part of one, and its files would be
    /// deleted if a new database were created here. A directory without such files is new, or a
    /// crash interrupted the creation of its database.
    pub fn refuse_lost_current(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        if self.recovered.is_some() {
            return Ok(());
        }
        let current = names::current_path(dir);
        if self.is_unfinished_copy {
            let expected = "the name of a MANIFEST, because the directory has tables";
            let found = "a copy that was cut short; make it again, or remove the directory";
            return Err(Damage::new(0, expected, found).in_file(&current, 0));
        }
        for &(number, kind) in &self.files {
            let what = match kind {
                names::FileKind::Table(_) => "tables",
                names::FileKind::Wal(_) if holds_writes(fs, dir, number)? => "a log with writes",
                _ => continue,
            };
            let expected = format_args!(
                "the name of a MANIFEST, because the directory has {what} (a repair may save them)"
            );
            return Err(Damage::new(0, expected, "no such file").in_file(&current, 0));
        }
        Ok(())
    }

    /// The number of the next file. It is above the numbers of all files here, because some of them
    /// may be newer than what the MANIFEST records.
    fn next_number(&self) -> u64 {
        let known = self.recovered.as_ref().map_or(1, |recovered| recovered.next_file.max(1));
        self.files.iter().map(|&(number, _)| number + 1).fold(known, u64::max)
    }
}

/// Like [`Directory::refuse_lost_current`], but a directory that cannot be read is no error.
pub(in crate::db) fn refuse_lost_current(fs: &dyn Fs, dir: &Path) -> Result<()> {
    match Directory::read(fs, dir) {
        Ok(directory) => directory.refuse_lost_current(fs, dir),
        Err(_) => Ok(()),
    }
}

/// The error for a directory without a database.
pub(crate) fn no_database(dir: &Path) -> Error {
    Error::NoDatabase { path: dir.to_owned() }
}

/// Whether a WAL holds a record, or damage. It holds neither if a crash came during its creation.
fn holds_writes(fs: &dyn Fs, dir: &Path, number: u64) -> Result<bool> {
    let log = LogReader::open(fs, &names::wal_path(dir, number), LogKind::Wal, number);
    match log.and_then(|mut log| Ok(log.next()?.is_some())) {
        Err(Error::Corruption { .. }) => Ok(true),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        other => other,
    }
}

/// The [`TableStore`], which makes and opens the tables of a database. `keeps_tables_open`: see
/// [`TableStore::keeps_tables_open`].
pub(crate) fn table_store(
    options: &Builder,
    directory: &Directory,
    keeps_tables_open: bool,
) -> TableStore {
    let cache = match &options.cache {
        CacheChoice::Own(bytes) => BlockCache::new(*bytes),
        CacheChoice::Shared(cache) => Arc::clone(cache),
    };
    let counters = Arc::new(Counters::new());
    let db_identity = directory.recovered.as_ref().and_then(|it| it.db_identity.clone());
    TableStore {
        fs: Arc::clone(&options.fs),
        dir: options.path.clone(),
        descriptors: match options.max_open_files {
            Some(files) => DescriptorPool::new(files),
            None => DescriptorPool::shared(),
        },
        keeps_tables_open,
        context: TableContext {
            cache,
            counters: Arc::clone(&counters),
            pin_metadata: false,
            reads_every_filter: options.reads_every_filter,
            global_sequence: None,
            sequence_if_ingested: None,
            tail_bytes: 0,
            key_bounds: None,
            takes_leveldbs: false,
        },
        pin_metadata: options.pin_metadata,
        options: options.tree.tables.clone(),
        creator: Creator::new(db_identity.unwrap_or_else(new_db_identity)),
        next_file: Arc::new(AtomicU64::new(directory.next_number())),
        obsolete: Arc::new(ObsoleteFiles::new(counters)),
    }
}

/// Tables that are open, by number.
pub(crate) type OpenTables = BTreeMap<u64, Arc<TableFile>>;

/// Opens the tables that the MANIFEST lists, by keyspace, and compares each with its description
/// there. A table in `opened` is not opened again. Afterwards, even after an error, `opened` holds those listed
/// tables that are open.
pub(super) fn open_tables(
    store: &TableStore,
    recovered: &Recovered,
    opened: &mut OpenTables,
) -> Result<BTreeMap<KeyspaceId, Version>> {
    let listed = |file: &TableFile| recovered.files.get(&file.meta.number);
    opened.retain(|_, file| listed(file).is_some_and(|(_, meta)| file.is_described_by(meta)));
    let mut tables = BTreeMap::from([(0, Vec::new())]);
    for (&number, (level, meta)) in &recovered.files {
        let file = match opened.entry(number) {
            btree_map::Entry::Occupied(open) => open.into_mut(),
            btree_map::Entry::Vacant(new) => new.insert(store.open(meta.clone(), *level)?),
        };
        let of_keyspace: &mut Vec<_> = tables.entry(meta.keyspace).or_default();
        of_keyspace.push((*level, Arc::clone(file)));
    }
    let manifest = store.dir.join(names::manifest_name(recovered.manifest.0));
    let mut versions = BTreeMap::new();
    for (keyspace, tables) in tables {
        let version = Version::of(tables);
        check_disjoint(&version, &manifest)?;
        versions.insert(keyspace, version);
    }
    Ok(versions)
}

/// Rejects a tree in which two files of a level from 1 on overlap. `manifest` is the file that
/// lists them.
pub(in crate::db) fn check_disjoint(version: &Version, manifest: &Path) -> Result<()> {
    if let Some((level, one, other)) = version.overlap() {
        let range = |meta: &FileMeta| {
            let [from, to] =
                [&meta.smallest, &meta.largest].map(|key| user_key(key).escape_ascii());
            format!("{:06} from \"{from}\" to \"{to}\"", meta.number)
        };
        let expected = format_args!("tables of level {level} that share no key");
        let found = format_args!("{} and {}", range(one), range(other));
        return Err(Damage::new(0, expected, found).in_file(manifest, 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::fs::MemFs;
    use crate::version::{Manifest, ROLL_AFTER_BYTES, VersionEdit};

    /// Regression: a MANIFEST listed overlapping files in a level from 1 on. A lookup searches only
    /// one file of such a level, so it did not find an acknowledged write. Now the MANIFEST is
    /// rejected, and the error names it.
    #[test]
    fn a_manifest_whose_files_overlap_within_a_level_is_refused() {
        let fs: Arc<dyn fs::Fs> = Arc::new(MemFs::new());
        let (dir, open) = (Path::new("/db"), || Db::builder("/db").fs(Arc::clone(&fs)).open());
        let db = open().unwrap();
        for value in ["old", "new"] {
            ["a", "m", "z"].iter().for_each(|key| db.put(key, value).unwrap());
            db.flush().unwrap();
        }
        db.close().unwrap();
        for level in [0, 1, 6] {
            let found = read_current(&*fs, dir).unwrap().unwrap();
            let added: Vec<_> = found.files.into_values().map(|(_, meta)| (level, meta)).collect();
            assert_eq!(added.len(), 2);
            let tree = VersionEdit {
                next_file: Some(found.next_file + 10),
                flushed_sequence: Some(found.flushed_sequence),
                oldest_wal: Some(found.oldest_wal),
                added,
                ..VersionEdit::default()
            };
            Manifest::create(&fs, dir, found.next_file + 9, &tree, ROLL_AFTER_BYTES).unwrap();
            match (level, open()) {
                (0, Ok(db)) => assert_eq!(db.get("m").unwrap().unwrap(), b"new"),
                (1.., Err(Error::Corruption { file, found, .. })) => {
                    assert!(file.to_str().unwrap().contains("MANIFEST-"), "{file:?}");
                    assert!(found.contains("from \"a\" to \"z\""), "{found}");
                }
                (level, other) => panic!("level {level}: {other:?}"),
            }
        }
    }

    /// Regression: nothing bounded the numbers of new files, but readers reject those above 2^62. A
    /// database near this limit acknowledged writes, and then could not be opened. Now a call that
    /// needs a number fails when they are used up, and everything acknowledged stays readable.
    #[test]
    fn a_database_that_has_used_up_its_file_numbers_stays_readable() {
        /// The numbers from here on are not assigned.
        const END: u64 = (1 << 62) - 16;
        let (mut opened, dir) = (0, Path::new("/db"));
        for left in 0..12 {
            let fs: Arc<dyn fs::Fs> = Arc::new(MemFs::new());
            let builder = || Db::builder("/db").fs(Arc::clone(&fs));
            let db = builder().open().unwrap();
            db.put("0", "").unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            let found = read_current(&*fs, dir).unwrap().unwrap();
            let tree = VersionEdit {
                next_file: Some(END - left),
                flushed_sequence: Some(found.flushed_sequence),
                oldest_wal: Some(found.next_file + 9),
                added: found.files.into_values().collect(),
                ..VersionEdit::default()
            };
            Manifest::create(&fs, dir, found.next_file + 9, &tree, ROLL_AFTER_BYTES).unwrap();

            let mut keys = vec!["0".to_owned()];
            let error = loop {
                let db = match builder().open() {
                    Ok(db) => db,
                    Err(error) => break error,
                };
                opened += 1;
                for _ in 0..3 {
                    let key = keys.len().to_string();
                    if db.put(&key, "").is_ok() {
                        keys.push(key);
                    }
                    let _ = db.flush();
                }
                let _ = (db.keyspace("another"), db.compact_all(), db.close());
            };
            assert!(error.to_string().contains("file numbers are used up"), "{error}");
            let db = builder().open_read_only().unwrap();
            assert!(keys.iter().all(|key| db.get(key).unwrap().is_some()), "{keys:?}, {left} left");
            db.verify().unwrap();
            db.close().unwrap();

            // A repair does not make a database that cannot be opened.
            assert!(!builder().repair().unwrap().changed);
            fs.remove(&names::current_path(dir)).unwrap();
            let error = builder().repair().unwrap_err().to_string();
            assert!(error.contains("file numbers are used up"), "{error}");
            assert!(!fs.exists(&names::current_path(dir)).unwrap());
        }
        assert!(opened > 5, "{opened}");
    }

    /// Regression: a read-only opening opened the tables one by one. While a fast writer ran, one
    /// of them was always deleted before it was opened, so the opening dropped all open tables,
    /// tried again, and never succeeded. Now the next attempt keeps the tables that are open.
    #[test]
    fn a_table_that_was_opened_once_may_go() {
        let fs: Arc<dyn fs::Fs> = Arc::new(MemFs::new());
        let dir = Path::new("/db");
        let options = Db::builder("/db").fs(Arc::clone(&fs));
        let db = options.clone().open().unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, key).unwrap();
            db.flush().unwrap();
        }
        let directory = Directory::read(&*fs, dir).unwrap();
        let store = table_store(&options, &directory, true);
        let mut recovered = directory.recovered.unwrap();
        let numbers: Vec<u64> = recovered.files.keys().copied().collect();
        let [first, second, third] = numbers[..] else { panic!("{numbers:?}") };
        let away = |number: u64| {
            let path = names::table_path(dir, number);
            let aside = path.with_extension("aside");
            match fs.exists(&path).unwrap() {
                true => fs.rename(&path, &aside).unwrap(),
                false => fs.rename(&aside, &path).unwrap(),
            }
        };
        let mut opened = OpenTables::new();
        away(third);
        let error = open_tables(&store, &recovered, &mut opened).err().unwrap();
        assert!(error.to_string().contains(&format!("{third:06}.sst")), "{error}");
        assert_eq!(opened.len(), 2);
        // The third table is back, and the other two are gone.
        [first, second, third].into_iter().for_each(away);
        let version = open_tables(&store, &recovered, &mut opened).unwrap().remove(&0).unwrap();
        assert_eq!(version.metas()[0].len(), 3);
        // The MANIFEST does not list the first table any more, and describes the second
        // differently.
        recovered.files.remove(&first);
        recovered.files.get_mut(&second).unwrap().1.entries += 1;
        let error = open_tables(&store, &recovered, &mut opened).err().unwrap();
        assert!(error.to_string().contains(&format!("{second:06}.sst")), "{error}");
        assert_eq!(opened.into_keys().collect::<Vec<_>>(), [third]);
    }
}

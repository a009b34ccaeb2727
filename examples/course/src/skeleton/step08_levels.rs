//! Step 8: a tree of tables, a lookup through its levels, counters of its filters, and a
//! compaction.
//!
//! ```text
//! memtable   newest
//! level 0    tables of flushes: each may have any key, the newest comes first
//! level 1    one table at most: level 0 is merged into it, again and again
//! level 2    one table at most; and so on
//! ```
//!
//! Files are called `NUMBER.sst`. A [`Catalog`] knows which tables each level has. Of each key, all
//! versions in a source of this drawing are newer than all versions in the sources below it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use maypole::hash64;

use super::step04_block::KeyValue;
use super::step05_table::{Blocks, Table, Uncached};
use super::step06_rocksdb::ROCKSDB;
use super::step07_memtable::{Log, Memtable, read, replay, write_table};
use crate::disk;
use crate::given::{Entry, VALUE, damaged, split_key};

pub const LEVELS: usize = 4;

/// How often the filters of a level said no or maybe to lookups, and how often rightly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// The filter said no: the table was skipped.
    pub useful: u64,
    /// The filter said maybe.
    pub full_positive: u64,
    /// The filter said maybe, and the table had the key.
    pub full_true_positive: u64,
}

impl FilterCounts {
    /// The share of the queries for absent keys that the filters let through. `None` before the
    /// first query for an absent key.
    pub fn observed_rate(&self) -> Option<f64> {
        todo!("the false positives, divided by all queries for absent keys")
    }
}

/// The numbers of the tables of each level, the newest table first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub levels: [Vec<u64>; LEVELS],
    /// All entries up to this sequence number are in tables, so the log is not needed for them.
    pub flushed: u64,
}

/// A change of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    pub level: usize,
    /// A new table, which becomes the first of the level.
    pub added: Option<u64>,
    /// Tables that are removed from whatever levels they are in.
    pub removed: Vec<u64>,
    /// The new value of [`Listing::flushed`].
    pub flushed: u64,
}

impl Listing {
    pub fn apply(&mut self, edit: &Edit) {
        self.levels.iter_mut().for_each(|level| level.retain(|n| !edit.removed.contains(n)));
        self.levels[edit.level].splice(0..0, edit.added);
        self.flushed = edit.flushed;
    }
}

/// Where a database notes which tables it has.
pub trait Catalog {
    fn listing(&mut self) -> io::Result<Listing>;

    /// Notes a change. The new table is on the disk, and the removed ones still are. When this
    /// returns, `listing` has the change.
    fn change(&mut self, edit: &Edit) -> io::Result<()>;
}

/// A catalog that writes the whole listing at each change, as text: a line for each level, and one
/// for `flushed`.
pub struct ListFile(pub PathBuf);

impl Catalog for ListFile {
    fn listing(&mut self) -> io::Result<Listing> {
        let text = String::from_utf8(read(&self.0)?).unwrap_or_default();
        let mut listing = Listing::default();
        for (i, line) in text.lines().enumerate() {
            let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
            let numbers = numbers.map_err(|_| damaged("the list of tables"))?;
            match listing.levels.get_mut(i) {
                Some(level) => *level = numbers,
                None => listing.flushed = numbers.first().copied().unwrap_or_default(),
            }
        }
        Ok(listing)
    }

    fn change(&mut self, edit: &Edit) -> io::Result<()> {
        let mut listing = self.listing()?;
        listing.apply(edit);
        let mut text = String::new();
        for numbers in listing.levels.iter().chain([&vec![listing.flushed]]) {
            numbers.iter().for_each(|number| write!(text, "{number} ").expect("into a string"));
            text += "\n";
        }
        let temporary = self.0.with_extension("tmp");
        disk::write(&temporary, text.as_bytes())?;
        disk::rename(&temporary, &self.0)
    }
}

/// The path of the table with this number.
pub fn table_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.sst"))
}

/// The engine.
pub struct Db {
    directory: PathBuf,
    pub memtable: Memtable,
    pub log: Log,
    catalog: Box<dyn Catalog>,
    /// In each level the newest table first.
    pub levels: Vec<Vec<Table>>,
    /// Where lookups get blocks from: files, or the cache of step 9.
    pub blocks: Box<dyn Blocks>,
    /// Bits a key of the filters that are written from now on, by level.
    pub bits_per_key: [f64; LEVELS],
    counts: RefCell<[FilterCounts; LEVELS]>,
    /// The sequence number of the last write.
    pub last_sequence: u64,
    flushed: u64,
    last_number: u64,
}

impl Db {
    /// Opens or creates the database in `directory`, whose tables are listed in the file `LEVELS`.
    pub fn open(directory: &Path) -> io::Result<Db> {
        Db::open_with(directory, Box::new(ListFile(directory.join("LEVELS"))))
    }

    pub fn open_with(directory: &Path, mut catalog: Box<dyn Catalog>) -> io::Result<Db> {
        fs::create_dir_all(directory)?;
        let log_path = directory.join("log");
        let log = Log::open(&log_path)?;
        let listing = catalog.listing()?;
        let mut db = Db {
            directory: directory.to_path_buf(),
            memtable: Memtable::default(),
            log,
            catalog,
            levels: Vec::new(),
            blocks: Box::new(Uncached),
            bits_per_key: [10.0; LEVELS],
            counts: RefCell::default(),
            last_sequence: listing.flushed,
            flushed: listing.flushed,
            last_number: listing.levels.iter().flatten().copied().max().unwrap_or_default(),
        };
        for numbers in &listing.levels {
            let open = |&number| Table::open(&db.path(number), number, ROCKSDB);
            db.levels.push(numbers.iter().map(open).collect::<io::Result<_>>()?);
        }
        // A crash may have left a table that was not listed yet, or is not listed any more.
        for file in fs::read_dir(directory)? {
            let path = file?.path();
            let is_listed = db.levels.iter().flatten().any(|table| db.path(table.number) == path);
            if path.extension().is_some_and(|e| e == "sst" || e == "tmp") && !is_listed {
                disk::remove(&path)?;
            }
        }
        for (key, entry) in replay(&log_path)? {
            // A crash between a flush and the end of its log leaves entries in both.
            if entry.sequence > db.flushed {
                db.last_sequence = db.last_sequence.max(entry.sequence);
                db.memtable.insert(&key, entry);
            }
        }
        // The replayed entries become a table, and the log is emptied. If new records were appended
        // to it instead, the next replay could end at a torn record before them.
        db.flush()?;
        Ok(db)
    }

    pub fn path(&self, number: u64) -> PathBuf {
        table_path(&self.directory, number)
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.write(key, Some(value.to_vec()))
    }

    pub fn delete(&mut self, key: &[u8]) -> io::Result<()> {
        self.write(key, None)
    }

    fn write(&mut self, key: &[u8], value: Option<Vec<u8>>) -> io::Result<()> {
        self.last_sequence += 1;
        let entry = Entry { sequence: self.last_sequence, value };
        self.log.append(key, &entry)?;
        self.memtable.insert(key, entry);
        Ok(())
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.get_at(key, self.last_sequence)
    }

    /// The value that a key had when `sequence` was the number of the last write.
    pub fn get_at(&self, key: &[u8], sequence: u64) -> io::Result<Option<Vec<u8>>> {
        todo!("memtable; then level by level, newest table first: filter, table, counts")
    }

    /// The counts of all filter queries since the database was opened, by level.
    pub fn counts(&self) -> [FilterCounts; LEVELS] {
        *self.counts.borrow()
    }

    /// Writes the memtable to a table of level 0.
    pub fn flush(&mut self) -> io::Result<()> {
        let entries: Vec<KeyValue> = self.memtable.entries_from(b"", u64::MAX).collect();
        if !entries.is_empty() {
            self.flushed = self.last_sequence;
            self.replace(Vec::new(), 0, entries)?;
            self.memtable = Memtable::default();
        }
        self.log.clear()
    }

    /// Writes entries to a new table of `level`, unless there are none, and removes other tables:
    /// first from the catalog, then from the disk.
    pub fn replace(
        &mut self,
        removed: Vec<u64>,
        level: usize,
        entries: Vec<KeyValue>,
    ) -> io::Result<()> {
        let mut edit = Edit { level, added: None, removed, flushed: self.flushed };
        if !entries.is_empty() {
            self.last_number += 1;
            write_table(&self.path(self.last_number), entries, self.bits_per_key[level])?;
            edit.added = Some(self.last_number);
        }
        self.catalog.change(&edit)?;
        self.levels.iter_mut().for_each(|l| l.retain(|t| !edit.removed.contains(&t.number)));
        if let Some(number) = edit.added {
            let table = Table::open(&self.path(number), number, ROCKSDB)?;
            self.levels[level].insert(0, table);
        }
        edit.removed.iter().try_for_each(|&number| disk::remove(&self.path(number)))
    }

    /// Merges the tables of `level` and of the level below into one table of the level below, which
    /// has only the newest entry of each key. `level` is not the last.
    pub fn compact(&mut self, level: usize) -> io::Result<()> {
        let into = level + 1;
        todo!("of each key the newest entry; tombstones only if a deeper level has tables")
    }
}

//! Step 8: a tree of tables, a lookup through its levels, and counters of its filters.
//!
//! ```text
//! memtable   newest
//! level 0    tables of flushes: each may have any key, the newest comes first
//! level 1    one table at most: level 0 is merged into it, again and again
//! level 2    one table at most; and so on
//! ```
//!
//! A file is called `LEVEL-NUMBER.sst`, so the names of the files tell which tables each level has.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use maypole::hash64;

use super::step05_table::{Blocks, Table, Uncached, entry_of};
use super::step06_rocksdb::ROCKSDB;
use super::step07_memtable::{Log, Memtable, replay};
use crate::given::{Entry, split_key};

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

/// The engine.
pub struct Db {
    directory: PathBuf,
    memtable: Memtable,
    log: Log,
    /// In each level the newest table first.
    pub levels: Vec<Vec<Table>>,
    /// Where lookups get blocks from: files, or the cache of step 9.
    pub blocks: Box<dyn Blocks>,
    /// Bits a key of the filters that are written from now on, by level.
    pub bits_per_key: [f64; LEVELS],
    counts: RefCell<[FilterCounts; LEVELS]>,
    last_sequence: u64,
    last_number: u64,
}

impl Db {
    /// Opens or creates the database in `directory`.
    pub fn open(directory: &Path) -> io::Result<Db> {
        fs::create_dir_all(directory)?;
        let log_path = directory.join("log");
        let mut db = Db {
            directory: directory.to_path_buf(),
            memtable: Memtable::default(),
            log: Log::open(&log_path)?,
            levels: (0..LEVELS).map(|_| Vec::new()).collect(),
            blocks: Box::new(Uncached),
            bits_per_key: [10.0; LEVELS],
            counts: RefCell::default(),
            last_sequence: 0,
            last_number: 0,
        };
        let mut tables = Vec::new();
        for file in fs::read_dir(directory)? {
            let name = file?.file_name().into_string().unwrap_or_default();
            let parts = name.strip_suffix(".sst").and_then(|name| name.split_once('-'));
            let Some((level, number)) = parts else { continue };
            if let (Ok(level), Ok(number)) = (level.parse(), number.parse()) {
                tables.push((level, number));
            }
        }
        tables.sort();
        for (level, number) in tables.into_iter().filter(|&(level, _)| level < LEVELS) {
            db.open_table(level, number)?;
            for (key, _) in db.levels[level][0].entries()? {
                db.last_sequence = db.last_sequence.max(split_key(&key).1);
            }
        }
        for (key, entry) in replay(&log_path)? {
            db.last_sequence = db.last_sequence.max(entry.sequence);
            db.memtable.insert(&key, entry);
        }
        // The replayed entries become a table, and the log is emptied. If new records were appended
        // to it instead, the next replay could end at a torn record before them.
        db.flush()?;
        Ok(db)
    }

    fn path(&self, level: usize, number: u64) -> PathBuf {
        self.directory.join(format!("{level}-{number:06}.sst"))
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
        todo!("memtable; then level by level, newest table first: filter, table, counts")
    }

    /// The counts of all filter queries since the database was opened, by level.
    pub fn counts(&self) -> [FilterCounts; LEVELS] {
        *self.counts.borrow()
    }

    /// Writes the memtable to a table of level 0.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.memtable.is_empty() {
            self.last_number += 1;
            self.memtable.flush(&self.path(0, self.last_number), self.bits_per_key[0])?;
            self.open_table(0, self.last_number)?;
            self.memtable = Memtable::default();
        }
        self.log.clear()
    }

    fn open_table(&mut self, level: usize, number: u64) -> io::Result<()> {
        let table = Table::open(&self.path(level, number), number, ROCKSDB)?;
        self.levels[level].insert(0, table);
        self.last_number = self.last_number.max(number);
        Ok(())
    }

    /// Merges the tables of `level` and of the level below into one table of the level below.
    /// `level` is not the last.
    pub fn compact(&mut self, level: usize) -> io::Result<()> {
        let into = level + 1;
        let is_last = self.levels[into + 1..].iter().all(Vec::is_empty);
        let mut newest = BTreeMap::new();
        // Tables are read from the oldest to the newest, so that the newest entry of a key stays.
        for table in self.levels[into].iter().rev().chain(self.levels[level].iter().rev()) {
            for (key, value) in table.entries()? {
                newest.insert(split_key(&key).0.to_vec(), entry_of(&key, value));
            }
        }
        let mut merged = Memtable::default();
        for (key, entry) in newest {
            // A tombstone hides older entries in deeper levels. If no deeper level has a table, it
            // is dropped.
            if entry.value.is_some() || !is_last {
                merged.insert(&key, entry);
            }
        }
        let mut kept = 0;
        if !merged.is_empty() {
            self.last_number += 1;
            merged.flush(&self.path(into, self.last_number), self.bits_per_key[into])?;
            self.open_table(into, self.last_number)?;
            kept = 1;
        }
        // The oldest table is removed first, so an old value is removed before the entry that hides
        // it. If a crash ends this loop, no old value comes back.
        for (level, kept) in [(into, kept), (level, 0)] {
            while self.levels[level].len() > kept {
                let table = self.levels[level].pop().expect("it is not empty");
                fs::remove_file(self.path(level, table.number))?;
            }
        }
        Ok(())
    }
}

//! A database whose files were damaged or exchanged, or are not its own. It refuses to open with an
//! error that says what is wrong, or it opens and each result is right or an error. Only if the WAL
//! is damaged, the newest writes that were not synced may be missing without an error, as after a
//! power loss. The database never returns another wrong result and never panics.
//!
//! The tests here flip bits of the files of a whole database and truncate the files.
//! `src/table/tests/damage.rs` does the same to single tables, and `src/wal/tests.rs` to single
//! record logs.

mod bits;
mod engines;
mod entries;
mod exchanged;
mod foreign;
mod names;
mod tables;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use maypole::fs::{Fs, MemFs};
use maypole::{Db, Durability, Error, Result, WriteBatch};

const DIR: &str = "/db";

fn open(fs: &MemFs) -> Result<Db> {
    Db::builder(DIR)
        .fs(Arc::new(fs.clone()))
        .memtable_bytes(1 << 20)
        .table_bytes(16 << 10)
        .block_bytes(512)
        .block_cache_bytes(1 << 20)
        .compaction_threads(1)
        .open()
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entry that write number `n` puts; some keys repeat.
fn pair(n: u64) -> (Vec<u8>, Vec<u8>) {
    let value = format!("{n}:{}", "v".repeat(n as usize * 7 % 60));
    (format!("key{:03}", n * 31 % 200).into_bytes(), value.into_bytes())
}

/// What a database holds after the writes up to `n`.
fn model(n: u64) -> Map {
    (1..=n).map(pair).collect()
}

/// The database gets writes 1 to [`WRITES`]. Those up to [`FLUSHED`] are in tables, those up to
/// [`SYNCED`] in a synced WAL, and the rest unsynced in the same WAL. Then the process is killed.
const FLUSHED: u64 = 150;
const SYNCED: u64 = 220;
const WRITES: u64 = 240;

fn killed_database() -> MemFs {
    database(1, |value| value)
}

/// A database that was killed after the writes `first` to [`WRITES`], with each value changed by
/// `change`.
fn database(first: u64, change: fn(Vec<u8>) -> Vec<u8>) -> MemFs {
    let fs = MemFs::new();
    let db = open(&fs).unwrap();
    for n in first..=WRITES {
        let (key, value) = pair(n);
        let value = change(value);
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        let durability = if n == SYNCED { Durability::Sync } else { Durability::Buffered };
        db.write_opt(batch, durability).unwrap();
        if n == 70 || n == FLUSHED {
            db.flush().unwrap();
        }
    }
    // Without this, the last flush might not have removed its log yet.
    db.wait_for_compaction().unwrap();
    let killed = fs.kill();
    drop(db);
    killed
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// The names of files that contain `part`, in order.
fn named(fs: &dyn Fs, part: &str) -> Vec<String> {
    let mut names = fs.list(Path::new(DIR)).unwrap();
    names.retain(|name| name.contains(part));
    names.sort();
    names
}

/// The name of the database's MANIFEST, which CURRENT holds.
fn manifest(fs: &MemFs) -> String {
    String::from_utf8(fs.read(&path("CURRENT")).unwrap()).unwrap().trim_end().to_string()
}

/// The name of the WAL with the longest content.
fn wal(fs: &MemFs) -> String {
    let names = named(fs, ".wal");
    let bytes = |name: &String| content(&fs.read(&path(name)).unwrap()).len();
    names.into_iter().max_by_key(bytes).unwrap()
}

/// The bytes of a file up to the last one that is not zero. A log may end with zeros.
fn content(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

fn put_file(fs: &dyn Fs, name: &str, bytes: &[u8]) {
    let mut file = fs.create(&path(name)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

/// The number of damaged databases with each outcome.
#[derive(Debug, Default)]
struct Figures {
    tried: u64,
    refused: u64,
    errors: u64,
    right: u64,
    /// Databases that hold only a prefix of the writes, as after a power loss.
    cut: u64,
}

impl Figures {
    fn print(&self, what: &str) {
        let Figures { tried, refused, errors, right, cut } = self;
        println!(
            "{tried} {what}: {refused} refused at opening, {errors} errors of reads, {right} right, \
             {cut} without the newest writes, 0 wrong answers"
        );
    }

    /// Opens the database, reads all of it and counts the outcome. Panics if the result is wrong,
    /// or if a write up to number `at_least` is missing without an error.
    fn count(&mut self, fs: &MemFs, at_least: u64, what: &dyn Display) {
        self.tried += 1;
        let db = match open(fs) {
            Ok(db) => db,
            Err(error) => {
                self.refused += 1;
                return assert_says(&error, what);
            }
        };
        let found = match read(&db) {
            Ok(found) => found,
            Err(error) => {
                self.errors += 1;
                return assert_says(&error, what);
            }
        };
        match (at_least..=WRITES).rev().find(|&n| found == model(n)) {
            Some(WRITES) => self.right += 1,
            Some(_) => self.cut += 1,
            None => panic!("{what}: a wrong answer"),
        }
    }
}

/// Reads the database by a scan, and by lookups of every possible key, which must agree.
fn read(db: &Db) -> Result<Map> {
    let scanned = db.iter().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
    let scanned: Map = scanned.collect::<Result<_>>()?;
    for n in 0..210 {
        let key = format!("key{n:03}").into_bytes();
        let found = db.get(&key)?;
        assert_eq!(found.as_deref(), scanned.get(&key).map(Vec::as_slice), "{n}: get and scan");
    }
    Ok(scanned)
}

/// An error says on one line which file it is about.
fn assert_says(error: &Error, what: &dyn Display) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(DIR), "{what}: {text}");
}

//! Directories made by hand: what no version of RocksDB wrote for the fixtures of `tests/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::encoding::coding::{put_fixed32, put_fixed64, put_length_prefixed};
use crate::encoding::key::{internal_key, range_end};
use crate::fs::{Fault, FaultFs, FileLock, Fs, MemFs, RandomAccessFile, Target, WritableFile};
use crate::range_tombstones::RangeTombstone;
use crate::rocksdb::ListedTable;
use crate::rocksdb::fuzzing::{EditBytes, LogBytes, put_file};
use crate::table::{Dialect, TableBuilder, TableOptions};

const DIR: &str = "/rocks";

/// Writes a table of these entries (user key, sequence number, value) and range deletions.
fn table(
    fs: &MemFs,
    level: u32,
    number: u64,
    entries: &[(&str, u64, &str)],
    ranges: &[(&str, &str, u64)],
) -> ListedTable {
    let path = Path::new(DIR).join(format!("{number:06}.sst"));
    let dialect = Dialect::Database { file_number: number };
    let options = TableOptions::default();
    let mut builder = TableBuilder::new(fs.create(&path).unwrap(), options, dialect).unwrap();
    for (key, sequence, value) in entries {
        builder.add(&internal_key(key.as_bytes(), *sequence, 1), value.as_bytes()).unwrap();
    }
    for (start, end, sequence) in ranges {
        let (start, end) = (start.as_bytes(), end.as_bytes());
        builder.add_range(RangeTombstone { start, end, sequence: *sequence }).unwrap();
    }
    let summary = builder.finish().unwrap();
    ListedTable {
        level,
        number,
        file_bytes: summary.file_bytes,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_sequence: summary.smallest_sequence,
        largest_sequence: summary.largest_sequence,
        has_sequences: true,
        ..ListedTable::default()
    }
}

/// A MANIFEST that lists `tables`; logs count from number 30 on.
fn manifest(tables: &[ListedTable]) -> Vec<u8> {
    let mut edit = EditBytes::default();
    edit.text(1, "leveldb.BytewiseComparator").number(2, 30).number(3, 40).number(4, 100);
    for table in tables {
        edit.table(table);
    }
    let mut log = LogBytes::new(None);
    log.add(&edit.0);
    log.bytes
}

fn put_manifest(fs: &MemFs, tables: &[ListedTable]) {
    put_file(fs, &Path::new(DIR).join("CURRENT"), b"MANIFEST-000005\n");
    put_file(fs, &Path::new(DIR).join("MANIFEST-000005"), &manifest(tables));
}

fn directory() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs
}

fn open(fs: impl Fs) -> Result<RocksDb> {
    Db::builder(DIR).fs(Arc::new(fs)).open_rocksdb()
}

fn keys(db: &Db) -> Vec<String> {
    let key = |entry: Result<(crate::Slice, crate::Slice)>| {
        String::from_utf8(entry.unwrap().0.to_vec()).unwrap()
    };
    let forward: Vec<String> = db.iter().map(key).collect();
    let mut cursor = db.cursor();
    cursor.seek_to_last().unwrap();
    for expected in forward.iter().rev() {
        assert_eq!(cursor.key(), expected.as_bytes());
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    for expected in &forward {
        assert!(db.get(expected).unwrap().is_some(), "{expected}");
    }
    forward
}

/// RocksDB writes a range deletion whole into every table that it reaches, and only the bounds in
/// the MANIFEST cut it. A key beside such a table may be newer and have sequence number 0, since
/// nothing older is left of it. A reader that takes the range deletion as it stands in the table
/// hides that key. It counts within the bounds only: in lookups, in cursors, and after an import,
/// in compactions.
#[test]
fn a_range_deletion_ends_at_the_bounds_of_its_table() {
    for is_open in [false, true] {
        let fs = directory();
        let mut left = table(&fs, 1, 10, &[("b", 60, "1"), ("f", 61, "1")], &[("a", "z", 50)]);
        left.smallest = internal_key(b"b", 60, 1);
        left.largest = if is_open { range_end(b"h") } else { internal_key(b"f", 61, 1) };
        let right = table(&fs, 1, 11, &[("m", 0, "1"), ("p", 0, "1")], &[]);
        let older = ["a", "c", "f0", "g", "h", "x"].map(|key| (key, 0, "old"));
        let older = table(&fs, 2, 12, &older, &[]);
        put_manifest(&fs, &[left, right, older]);
        let rocks = open(fs.clone()).unwrap();
        let expected: &[&str] = match is_open {
            true => &["a", "b", "f", "h", "m", "p", "x"],
            false => &["a", "b", "f", "f0", "g", "h", "m", "p", "x"],
        };
        let db = rocks.column_family("default").unwrap();
        assert_eq!(keys(&db), expected);
        let found = db.multi_get(expected).unwrap();
        assert!(found.iter().all(Option::is_some));
        rocks.import("default", "/new").unwrap();
        let open_new = || Db::builder("/new").fs(Arc::new(fs.clone())).open().unwrap();
        let db = open_new();
        assert_eq!(keys(&db), expected);
        db.compact_range(..).unwrap();
        assert_eq!(keys(&db), expected);
        db.close().unwrap();
        assert_eq!(keys(&open_new()), expected);
    }
}

/// Level 0 of universal compaction: newest first by sequence numbers, also where the older table
/// has the higher number.
#[test]
fn level_0_is_searched_by_sequence_numbers() {
    let fs = directory();
    let newer = table(&fs, 0, 10, &[("k", 70, "new")], &[]);
    let older = table(&fs, 0, 20, &[("k", 60, "old"), ("l", 61, "old")], &[]);
    put_manifest(&fs, &[older, newer]);
    let db = open(fs).unwrap().column_family("default").unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), b"new");
    assert_eq!(db.get("l").unwrap().unwrap(), b"old");
}

/// Tables of level 0 that overlap in keys and in sequence numbers: neither is the newer one. What
/// the tables state of their numbers counts, and not a smallest one in the MANIFEST that is too
/// small.
#[test]
fn a_level_0_in_which_no_table_is_newer_is_refused() {
    let open_level_0 = |tables: [[(&str, u64, &str); 2]; 2], understated: bool| {
        let fs = directory();
        let mut listed: Vec<ListedTable> =
            (10..).zip(tables).map(|(number, it)| table(&fs, 0, number, &it, &[])).collect();
        if understated {
            listed.iter_mut().for_each(|table| table.smallest_sequence = 1);
        }
        put_manifest(&fs, &listed);
        open(fs).unwrap().column_family("default")
    };
    let (old, mixed) = ([("a", 1, ""), ("f", 9, "")], [("c", 5, ""), ("k", 20, "")]);
    for understated in [false, true] {
        let error = open_level_0([old, mixed], understated).unwrap_err();
        assert!(error.to_string().contains("tables 10 and 11 of level 0"), "{error}");
        let newer = [("c", 10, ""), ("k", 20, "")];
        assert_eq!(keys(&open_level_0([old, newer], understated).unwrap()), ["a", "c", "f", "k"]);
        let apart = [("g", 5, ""), ("k", 20, "")];
        assert_eq!(keys(&open_level_0([old, apart], understated).unwrap()), ["a", "f", "g", "k"]);
    }
}

/// A merge of tables of level 0 may have sequence numbers on both sides of those of a third table.
/// The epoch numbers say which is newer, and must say the same as the largest sequence numbers.
/// Without them an export of such a tree was refused here.
#[test]
fn epoch_numbers_say_which_table_of_level_0_is_newer() {
    for (epochs, is_read) in
        [((2, 3), true), ((3, 2), false), ((2, 2), false), ((0, 3), false), ((0, 0), false)]
    {
        let fs = directory();
        let older = table(&fs, 0, 10, &[("a", 4, ""), ("f", 9, "")], &[]);
        let newer = table(&fs, 0, 11, &[("b", 1, ""), ("c", 20, "")], &[]);
        let older = ListedTable { epoch: epochs.0, ..older };
        let newer = ListedTable { epoch: epochs.1, ..newer };
        put_manifest(&fs, &[older, newer]);
        let read = open(fs).unwrap().column_family("default");
        assert_eq!(read.is_ok(), is_read, "{epochs:?}");
        if let Ok(db) = read {
            assert_eq!(keys(&db), ["a", "b", "c", "f"]);
        }
    }
}

/// A tree that lookups would read wrongly is refused when its family is asked for; others are not.
#[test]
fn a_refused_family_keeps_no_other_from_being_read() {
    let fs = directory();
    let good = table(&fs, 1, 10, &[("k", 7, "v")], &[]);
    let deep = ListedTable { level: 7, ..table(&fs, 1, 11, &[("k", 7, "v")], &[]) };
    let mut bytes = LogBytes::new(None);
    let mut edit = EditBytes::default();
    edit.number(2, 30).number(3, 40).number(4, 100).table(&good);
    bytes.add(&edit.0);
    for (id, name, comparator) in [(1, "reversed", Some("rev:RocksDB_SE_v3.10")), (2, "deep", None)]
    {
        let mut edit = EditBytes::default();
        edit.number(200, id).text(201, name);
        if let Some(name) = comparator {
            edit.text(1, name);
        }
        bytes.add(&edit.0);
    }
    let mut edit = EditBytes::default();
    edit.number(200, 2).table(&deep);
    bytes.add(&edit.0);
    put_file(&fs, &Path::new(DIR).join("CURRENT"), b"MANIFEST-000005\n");
    put_file(&fs, &Path::new(DIR).join("MANIFEST-000005"), &bytes.bytes);
    let rocks = open(fs).unwrap();
    assert_eq!(keys(&rocks.column_family("default").unwrap()), ["k"]);
    for (name, reason) in [("reversed", "rev:RocksDB_SE_v3.10"), ("deep", "level 7")] {
        let error = rocks.column_family(name).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        let family = rocks.column_families().iter().find(|family| family.name == name).unwrap();
        assert!(family.not_supported.as_ref().unwrap().contains(reason));
    }
}

/// An operation of a log: kind, key and value.
fn log(first: u64, operations: &[(u8, &str, &str)]) -> Vec<u8> {
    let mut batch = Vec::new();
    put_fixed64(&mut batch, first);
    put_fixed32(&mut batch, operations.len() as u32);
    for (kind, key, value) in operations {
        batch.push(*kind);
        put_length_prefixed(&mut batch, key.as_bytes());
        if !matches!(kind, 0 | 7) {
            put_length_prefixed(&mut batch, value.as_bytes());
        }
    }
    let mut log = LogBytes::new(None);
    log.add(&batch);
    log.bytes
}

#[test]
fn entries_of_logs_hide_those_of_tables_and_unknown_kinds_are_named() {
    let fs = directory();
    let old = ["a", "b", "c", "d", "e"].map(|key| (key, 9, "old"));
    put_manifest(&fs, &[table(&fs, 3, 10, &old, &[])]);
    let operations = [
        (1, "a", "new"),
        (0, "b", ""),
        (7, "c", ""),
        (15, "d", "e"),
        (2, "m", "operand"),
        (22, "w", "columns"),
        (2, "x", "operand"),
        (15, "x", "y"),
        (2, "z", "operand"),
        (1, "z", "value"),
    ];
    put_file(&fs, &Path::new(DIR).join("000030.log"), &log(101, &operations));
    let rocks = open(fs.clone()).unwrap();
    let db = rocks.column_family("default").unwrap();
    let get = |key: &str| db.get(key).map(|value| value.map(|value| value.to_vec()));
    assert_eq!(get("a").unwrap().unwrap(), b"new");
    // Hidden by newer entries, whatever they are.
    for gone in ["b", "c", "d", "x"] {
        assert_eq!(get(gone).unwrap(), None, "{gone}");
    }
    assert_eq!(get("e").unwrap().unwrap(), b"old");
    assert_eq!(get("z").unwrap().unwrap(), b"value");
    for (key, kind) in [("m", "type 2 (merge operand)"), ("w", "type 22 (wide-column entity)")] {
        let error = get(key).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(kind), "{error}");
        let error = db.multi_get(&[key]).unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
        let error = db.range(key..).next().unwrap().unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
    }
    // Known before anything is written.
    let error = rocks.import("default", "/new").unwrap_err();
    assert!(error.to_string().contains("merge operand"), "{error}");
    assert!(!fs.exists(Path::new("/new")).unwrap());
}

#[test]
fn a_failed_import_leaves_an_empty_directory() {
    let fs = directory();
    put_manifest(&fs, &[table(&fs, 3, 10, &[("k", 9, "v")], &[])]);
    put_file(&fs, &Path::new(DIR).join("000030.log"), &log(101, &[(1, "a", "new")]));
    let faults = FaultFs::new(Arc::new(fs.clone()));
    let rocks = Db::builder(DIR).fs(Arc::new(faults.clone())).open_rocksdb().unwrap();
    let mut failures = 0;
    for n in 0.. {
        let dir = format!("/new{n}");
        let before = faults.faults();
        faults.fail_once(Target::Any, n, Fault::Io);
        let imported = rocks.import("default", &dir);
        faults.heal();
        if imported.is_ok() {
            // A link that is refused becomes a copy.
            let db = Db::builder(&dir).fs(Arc::new(fs.clone())).open().unwrap();
            assert_eq!(keys(&db), ["a", "k"], "{n}");
        } else {
            failures += 1;
            let left = fs.list(Path::new(&dir)).unwrap_or_default();
            assert!(left.is_empty(), "{n}: {left:?}");
        }
        if faults.faults() == before {
            break;
        }
    }
    assert!(failures > 10, "{failures}");
}

/// A directory whose writer does something at the n-th opening of a log.
#[derive(Debug, Clone)]
struct Busy {
    fs: MemFs,
    opened: Arc<AtomicUsize>,
    /// What the writer does, told the number of the opening.
    write: fn(&MemFs, usize),
}

impl Fs for Busy {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.fs.create(path)
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        if path.extension().is_some_and(|extension| extension == "log") {
            (self.write)(&self.fs, self.opened.fetch_add(1, Ordering::Relaxed) + 1);
        }
        self.fs.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.fs.rename(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.fs.remove(path)
    }
    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.fs.hard_link(existing, new)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.fs.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.fs.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.fs.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.fs.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.fs.lock(path)
    }
}

/// Flushes the log to a table, as a writer does: table, MANIFEST, and the log is written over.
fn flush_and_recycle(fs: &MemFs) {
    let flushed = table(fs, 0, 11, &[("a", 101, "new")], &[]);
    put_manifest(fs, &[flushed]);
    put_file(fs, &Path::new(DIR).join("000030.log"), b"");
}

/// A log that its writer flushes and writes over while it is read just looks as if it had ended.
/// The MANIFEST has grown then, and the reading begins again.
#[test]
fn a_reading_during_which_the_manifest_grew_is_made_again() {
    let busy = |write| {
        let fs = directory();
        put_manifest(&fs, &[]);
        put_file(&fs, &Path::new(DIR).join("000030.log"), &log(101, &[(1, "a", "new")]));
        Busy { fs, opened: Arc::default(), write }
    };
    let once = busy(|fs, opened| {
        if opened == 1 {
            flush_and_recycle(fs);
        }
    });
    let db = open(once.clone()).unwrap().column_family("default").unwrap();
    assert_eq!(keys(&db), ["a"]);
    assert_eq!(once.opened.load(Ordering::Relaxed), 2);
    // A writer that never rests.
    let always = busy(|fs, opened| {
        let mut bytes = manifest(&[]);
        bytes.resize(bytes.len() + 40_000 + opened, 0);
        put_file(fs, &Path::new(DIR).join("MANIFEST-000005"), &bytes);
    });
    let error = open(always.clone()).unwrap_err();
    assert!(error.to_string().contains("during each of 10 readings"), "{error}");
    assert_eq!(always.opened.load(Ordering::Relaxed), 10);
}

/// A table that is gone is looked for again from CURRENT on. Where the MANIFEST goes on to list it,
/// it is missing.
#[test]
fn a_missing_table_is_believed_after_three_readings() {
    let fs = directory();
    let path: PathBuf = Path::new(DIR).join("000010.sst");
    put_manifest(&fs, &[table(&fs, 1, 10, &[("k", 7, "v")], &[])]);
    fs.remove(&path).unwrap();
    let error = open(fs.clone()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("000010.sst"), "{error}");
}

//! Directories made by hand. They have contents that the fixtures of `tests/`, which RocksDB wrote,
//! do not have.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::RocksDb;
use crate::encoding::coding::{put_fixed32, put_fixed64, put_length_prefixed};
use crate::encoding::key::{internal_key, range_end};
use crate::error::{Error, Result};
use crate::fs::{Fault, FaultFs, FileLock, Fs, MemFs, RandomAccessFile, Target, WritableFile};
use crate::range_tombstones::RangeTombstone;
use crate::rocksdb::ListedTable;
use crate::rocksdb::fuzzing::{EditBytes, LogBytes, put_file};
use crate::table::{Dialect, TableBuilder, TableOptions};
use crate::version::names::manifest_name;
use crate::version::{LEVELS, read_current};
use crate::{Db, ImportReport};

pub(super) const DIR: &str = "/rocks";

/// Writes a table of these entries (user key, sequence number, value) and range deletions.
fn table(
    fs: &MemFs,
    level: u32,
    number: u64,
    entries: &[(&str, u64, &str)],
    ranges: &[(&str, &str, u64)],
) -> ListedTable {
    let entries: Vec<_> = entries.iter().map(|&(key, at, value)| (key, at, 1, value)).collect();
    table_of_kinds(fs, level, number, &entries, ranges)
}

/// Like [`table`], with the kind of each entry behind its sequence number.
fn table_of_kinds(
    fs: &MemFs,
    level: u32,
    number: u64,
    entries: &[(&str, u64, u8, &str)],
    ranges: &[(&str, &str, u64)],
) -> ListedTable {
    let path = Path::new(DIR).join(format!("{number:06}.sst"));
    let dialect = Dialect::Database { file_number: number };
    let options = TableOptions::default();
    let mut builder = TableBuilder::new(fs.create(&path).unwrap(), options, dialect).unwrap();
    for (key, sequence, kind, value) in entries {
        builder.add(&internal_key(key.as_bytes(), *sequence, *kind), value.as_bytes()).unwrap();
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

/// A MANIFEST that lists `tables`. Logs with numbers below 30 are obsolete.
fn manifest(tables: &[ListedTable]) -> Vec<u8> {
    manifest_with_next_file(40, tables)
}

fn manifest_with_next_file(next_file: u64, tables: &[ListedTable]) -> Vec<u8> {
    let mut edit = EditBytes::default();
    edit.text(1, "leveldb.BytewiseComparator").number(2, 30).number(3, next_file).number(4, 100);
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

pub(super) fn directory() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    fs
}

pub(super) fn open(fs: impl Fs) -> Result<RocksDb> {
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
/// the MANIFEST cut it. A key outside the bounds may be newer than the range deletion and yet have
/// sequence number 0, which compaction gives to a key's last version once nothing older is left. A
/// reader that applies the range deletion as it is stored hides that key. So a range deletion
/// counts within the bounds of its table only: in lookups, in cursors, and after an import, in
/// compactions.
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

/// Level 0 of universal compaction is searched newest first by sequence numbers, even where the
/// older table has the higher file number.
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

/// The entries of the database. Checks that every kind of read finds them.
fn pairs(db: &Db) -> Vec<(String, String)> {
    let keys = keys(db);
    let found = db.multi_get(&keys).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs: Vec<_> =
        keys.into_iter().zip(found.iter().map(|it| text(it.as_ref().unwrap()))).collect();
    for (key, value) in &pairs {
        assert_eq!(text(&db.get(key).unwrap().unwrap()), *value, "{key}");
        assert_eq!(text(db.explain(key).unwrap().value.as_deref().unwrap()), *value, "{key}");
        let prefix: Vec<_> = db.prefix(key).map(|entry| entry.unwrap().0.to_vec()).collect();
        assert!(prefix.contains(&key.as_bytes().to_vec()), "{key}");
    }
    assert_eq!(db.verify().unwrap().filter_misses, 0);
    pairs
}

/// Opens the directory read-only, imports it, and compacts the new database. Checks the entries
/// after each step. Returns the report and the number of files in each level of the new database.
pub(super) fn read_and_imported(
    fs: &MemFs,
    expected: &[(&str, &str)],
) -> (ImportReport, [usize; LEVELS]) {
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    let expected: Vec<(String, String)> = expected.iter().map(owned).collect();
    let rocks = open(fs.clone()).unwrap();
    let db = rocks.column_family("default").unwrap();
    assert_eq!(pairs(&db), expected);
    for absent in ["", "b", "c\0", "zz"] {
        assert_eq!(db.get(absent).unwrap(), None, "{absent}");
        assert_eq!(db.multi_get(&[absent]).unwrap(), [None]);
        assert!(db.explain(absent).unwrap().value.is_none());
    }
    let report = rocks.import("default", "/new").unwrap();
    let options = || Db::builder("/new").fs(Arc::new(fs.clone()));
    let db = options().open_read_only().unwrap();
    assert_eq!(pairs(&db), expected);
    let mut levels = [0; LEVELS];
    db.stats().levels.iter().for_each(|level| levels[level.level] = level.files);
    db.close().unwrap();
    let db = options().open().unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(pairs(&db), expected);
    db.close().unwrap();
    (report, levels)
}

/// Tables of level 0 that overlap in keys and in sequence numbers, as an ingestion during a
/// compaction within level 0 leaves them: neither is the newer one, and each has the newer entry of
/// some key. Such a tree was once rejected. Now a lookup searches both tables, and an import merges
/// them.
#[test]
fn a_level_0_in_which_no_table_is_newer_is_searched_and_merged() {
    for understated in [false, true] {
        let fs = directory();
        let entries = [
            ("a", 1, 1, "a"),
            ("c", 9, 1, "c9"),
            ("d", 8, 1, "d8"),
            ("f", 4, 1, "f4"),
            ("y", 3, 1, ""),
        ];
        let first = table_of_kinds(&fs, 0, 10, &entries, &[]);
        let entries = [("c", 5, 1, "c5"), ("d", 12, 0, ""), ("f", 6, 1, "f6"), ("k", 20, 1, "k")];
        let second = table_of_kinds(&fs, 0, 11, &entries, &[("a", "b", 7), ("y", "z", 2)]);
        // Besides these two tables, one is newer than both, one is older than both, and one is in a
        // deeper level.
        let newer = table(&fs, 0, 12, &[("b0", 30, "b0")], &[("k", "k1", 31)]);
        let older = table(&fs, 0, 9, &[("f", 0, "f0"), ("g", 0, "g")], &[]);
        let deeper = ["a", "d", "x"].map(|key| (key, 0, "old"));
        let deeper = table(&fs, 3, 8, &deeper, &[]);
        let mut listed = [first, second, newer, older, deeper];
        if understated {
            // The MANIFEST lists 1 as the smallest sequence number of both tables. This must change
            // nothing, because the smallest numbers that the tables themselves state count.
            listed[..2].iter_mut().for_each(|table| table.smallest_sequence = 1);
        }
        put_manifest(&fs, &listed);
        let expected =
            [("b0", "b0"), ("c", "c9"), ("f", "f6"), ("g", "g"), ("x", "old"), ("y", "")];
        let (report, levels) = read_and_imported(&fs, &expected);
        assert_eq!((report.rewritten, report.linked), (2, 3));
        assert_eq!(levels[..4], [3, 0, 0, 1]);
    }
}

/// Tables that overlap only in keys, or only in sequence numbers, are in order and stay as they
/// are.
#[test]
fn tables_of_level_0_with_an_order_are_linked() {
    for second in [[("c", 10, ""), ("k", 20, "")], [("g", 5, ""), ("k", 20, "")]] {
        let fs = directory();
        let first = table(&fs, 0, 10, &[("a", 1, ""), ("f", 9, "")], &[]);
        let listed = [first, table(&fs, 0, 11, &second, &[])];
        put_manifest(&fs, &listed);
        let expected = [("a", ""), ("f", ""), (second[0].0, ""), ("k", "")];
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let rocks = open(fs).unwrap();
        let db = rocks.column_family("default").unwrap();
        assert_eq!(keys(&db), expected.iter().map(|pair| pair.0).collect::<Vec<_>>());
        assert_eq!(rocks.import("default", "/new").unwrap().linked, 2);
    }
}

/// A directory with family 0, which has a table 10, and a family of this number and name with a
/// table of this number.
fn with_family(id: u64, name: &str, number: u64) -> MemFs {
    let fs = directory();
    let first = table(&fs, 0, 10, &[("a", 1, "of default")], &[]);
    let second = match number {
        10 => first.clone(),
        _ => table(&fs, 0, number, &[("a", 2, "of another"), ("b", 3, "")], &[]),
    };
    let mut of_default = EditBytes::default();
    of_default.text(1, "leveldb.BytewiseComparator").number(2, 30).number(3, 40).number(4, 100);
    of_default.table(&first);
    let mut another = EditBytes::default();
    another.number(200, id).text(201, name).number(2, 30).table(&second);
    let mut log = LogBytes::new(None);
    [of_default, another].iter().for_each(|edit| log.add(&edit.0));
    put_file(&fs, &Path::new(DIR).join("CURRENT"), b"MANIFEST-000005\n");
    put_file(&fs, &Path::new(DIR).join("MANIFEST-000005"), &log.bytes);
    fs
}

#[test]
fn families_of_any_number_become_keyspaces() {
    for id in [1, 7, u64::from(u32::MAX) - 1] {
        let fs = with_family(id, "another", 11);
        let reports = open(fs.clone()).unwrap().import_all("/new").unwrap();
        assert_eq!(reports.iter().map(|report| report.linked).collect::<Vec<_>>(), [1, 1]);
        let db = Db::builder("/new").fs(Arc::new(fs.clone())).open().unwrap();
        assert_eq!(db.snapshot().sequence(), 100, "the sequence of the source goes on");
        let another = db.keyspace("another").unwrap();
        assert_eq!(pairs(&db), [("a".into(), "of default".into())]);
        assert_eq!(another.get("a").unwrap().unwrap(), b"of another");
        // Tables of the family before and after the import have the same number and name.
        another.put("c", "").unwrap();
        another.compact_all().unwrap();
        db.close().unwrap();
    }
}

/// Regression: an import continued RocksDB's file numbers however close they came to 2^62. The new
/// database was opened and written to, and then had files with numbers above 2^62, which the next
/// opening rejected. Now such an import is refused, and an accepted one leaves 2^32 numbers.
#[test]
fn an_import_leaves_enough_file_numbers() {
    const MAX: u64 = 1 << 62;
    for next_file in [1 << 50, MAX - (1 << 32) - 1, MAX - (1 << 32), MAX - 2, MAX] {
        let fs = directory();
        let table = table(&fs, 3, 10, &[("k", 9, "v")], &[]);
        put_manifest(&fs, &[]);
        let manifest = manifest_with_next_file(next_file, &[table]);
        put_file(&fs, &Path::new(DIR).join("MANIFEST-000005"), &manifest);
        let rocks = open(fs.clone()).unwrap();
        assert_eq!(keys(&rocks.column_family("default").unwrap()), ["k"]);
        let imported = rocks.import_all("/new");
        if next_file >= MAX - (1 << 32) {
            let error = imported.unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
            assert!(error.to_string().contains("file numbers are used up"), "{error}");
            assert!(fs.list(Path::new("/new")).unwrap().is_empty());
            continue;
        }
        imported.unwrap();
        let open = || Db::builder("/new").fs(Arc::new(fs.clone())).open().unwrap();
        for key in ["a", "b", "c"] {
            let db = open();
            db.put(key, "").unwrap();
            db.flush().unwrap();
            db.compact_all().unwrap();
            db.close().unwrap();
        }
        assert_eq!(keys(&open()), ["a", "b", "c", "k"]);
    }
}

/// Regression: a repair took files with numbers above 2^40 for files of others unless a MANIFEST
/// was whole, so it lost the tables of a database whose numbers an import had taken from RocksDB.
/// Now the readable edits of a damaged MANIFEST count too.
#[test]
fn high_file_numbers_survive_a_damaged_manifest() {
    let fs = directory();
    let table = table(&fs, 3, 10, &[("k", 9, "v")], &[]);
    put_manifest(&fs, &[]);
    let manifest = manifest_with_next_file(1 << 50, &[table]);
    put_file(&fs, &Path::new(DIR).join("MANIFEST-000005"), &manifest);
    open(fs.clone()).unwrap().import_all("/new").unwrap();
    let builder = || Db::builder("/new").fs(Arc::new(fs.clone()));
    let db = builder().open().unwrap();
    for key in ["a", "b"] {
        db.put(key, "").unwrap();
        db.flush().unwrap();
    }
    db.put("c", "").unwrap();
    db.close().unwrap();
    let (number, _) = read_current(&fs, Path::new("/new")).unwrap().unwrap().manifest;
    let path = Path::new("/new").join(manifest_name(number));
    let file = fs.open(&path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    // The middle of the two edits behind the first one.
    let at = bytes.len() - 100;
    bytes[at] ^= 1;
    put_file(&fs, &path, &bytes);
    assert!(builder().open().is_err());
    let report = builder().repair().unwrap();
    assert!(report.changed && report.losses.is_empty(), "{report}");
    let db = builder().open().unwrap();
    assert_eq!(keys(&db), ["a", "b", "c", "k"], "{report}");
}

/// A name that no keyspace has is refused, and so is a table that two families list: its second link
/// would fail, and the copy in its place would overwrite the bytes of the source.
#[test]
fn families_that_cannot_be_keyspaces_are_refused_and_nothing_is_written() {
    let long = "n".repeat(256);
    let refused = [("", 11, "1 to 255"), (&long, 11, "1 to 255"), ("users", 10, "in two of them")];
    for (name, number, what) in refused {
        let fs = with_family(1, name, number);
        let source = fs.list(Path::new(DIR)).unwrap();
        let bytes = || source.iter().map(|name| fs.open(&Path::new(DIR).join(name)).unwrap().len());
        let before: Vec<u64> = bytes().collect();
        let rocks = open(fs.clone()).unwrap();
        let error = rocks.import_all("/new").unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert!(!fs.exists(Path::new("/new")).unwrap());
        assert!(bytes().eq(before));
        assert_eq!(rocks.import("default", "/one").unwrap().linked, 1);
    }
}

/// A merge keeps entries that are not understood, and all older versions of their keys.
#[test]
fn unknown_kinds_survive_a_merge() {
    let fs = directory();
    let first = [("a", 1, 1, "a"), ("w", 3, 1, "base"), ("x", 9, 1, "x")];
    let second = [("b", 5, 1, "b"), ("w", 7, 22, "columns"), ("z", 2, 1, "z")];
    let listed =
        [(10, first), (11, second)].map(|(n, entries)| table_of_kinds(&fs, 0, n, &entries, &[]));
    put_manifest(&fs, &listed);
    let rocks = open(fs.clone()).unwrap();
    assert_eq!(rocks.import("default", "/new").unwrap().rewritten, 2);
    let imported = Db::builder("/new").fs(Arc::new(fs)).open().unwrap();
    assert_eq!(imported.stats().files[0].entries, 6);
    for db in [rocks.column_family("default").unwrap(), imported] {
        let error = db.get("w").unwrap_err();
        assert!(error.to_string().contains("type 22 (wide-column entity)"), "{error}");
        assert_eq!(db.get("x").unwrap().unwrap(), b"x");
    }
}

/// A merge of tables of level 0 may make a table with both smaller and larger sequence numbers than
/// a third table. The epoch numbers say which is newer, and must say the same as the largest
/// sequence numbers. Without epoch numbers, an import merges such tables.
#[test]
fn epoch_numbers_say_which_table_of_level_0_is_newer() {
    for (epochs, is_ordered) in
        [((2, 3), true), ((3, 2), false), ((2, 2), false), ((0, 3), false), ((0, 0), false)]
    {
        let fs = directory();
        let older = table(&fs, 0, 10, &[("a", 4, ""), ("f", 9, "")], &[]);
        let newer = table(&fs, 0, 11, &[("b0", 1, ""), ("c", 20, "")], &[]);
        let older = ListedTable { epoch: epochs.0, ..older };
        let newer = ListedTable { epoch: epochs.1, ..newer };
        put_manifest(&fs, &[older, newer]);
        let expected = [("a", ""), ("b0", ""), ("c", ""), ("f", "")];
        let (report, _) = read_and_imported(&fs, &expected);
        assert_eq!((report.linked == 2, report.rewritten == 0), (is_ordered, is_ordered));
    }
}

/// Neighbours of a level from 1 on may share the user key at which they meet: old versions of
/// RocksDB cut tables between two versions of a key. Such a tree was once rejected. Now a lookup
/// searches both neighbours. An import makes one table of them, because a compaction could move one
/// of them alone to the next level, with the newer version below the older one.
#[test]
fn neighbours_that_share_a_key_are_both_searched_and_merged() {
    let tables = |newest: (&'static str, u64, u8, &'static str), stated: Option<u64>| {
        let fs = directory();
        let entries: Vec<_> = [("a", 7, 1, "a")].into_iter().chain([newest]).collect();
        let mut first = table_of_kinds(&fs, 1, 10, &entries, &[]);
        if let Some(sequence) = stated {
            first.largest = internal_key(b"f", sequence, 1);
        }
        let second = table(&fs, 1, 11, &[("f", 5, "f5"), ("f", 4, "f4")], &[]);
        let third = table(&fs, 1, 12, &[("f", 2, "f2"), ("k", 3, "k")], &[("g", "j", 8)]);
        let apart = table(&fs, 1, 13, &[("m", 3, "m")], &[]);
        let older = table(&fs, 2, 14, &[("a", 0, "old"), ("f", 0, "old"), ("h", 0, "old")], &[]);
        put_manifest(&fs, &[first, second, third, apart, older]);
        fs
    };
    let rest = [("k", "k"), ("m", "m")];
    for (fs, f) in [
        (tables(("f", 9, 1, "f9"), None), Some("f9")),
        (tables(("f", 9, 0, ""), None), None),
        // The bound in the MANIFEST is wider than the table.
        (tables(("e", 6, 0, ""), Some(9)), Some("f5")),
    ] {
        let f = f.map(|value| ("f", value));
        let expected: Vec<_> = [("a", "a")].into_iter().chain(f).chain(rest).collect();
        let (report, levels) = read_and_imported(&fs, &expected);
        assert_eq!((report.rewritten, report.linked), (3, 2));
        assert_eq!(levels[..3], [0, 2, 1]);
    }
}

/// RocksDB reads neighbours that share a key, too, with the same results.
#[test]
#[ignore = "needs RocksDB's ldb"]
fn ldb_reads_neighbours_that_share_a_key_alike() {
    let fs = directory();
    let entries = [("a", 7, 1, "a"), ("f", 9, 1, "f9"), ("f", 8, 1, "f8")];
    let first = table_of_kinds(&fs, 1, 10, &entries, &[]);
    let second =
        table(&fs, 1, 11, &[("f", 5, "f5"), ("k", 3, "k"), ("p", 2, "p")], &[("k", "n", 8)]);
    let third = table_of_kinds(&fs, 1, 12, &[("p", 1, 1, "p1"), ("q", 1, 1, "q")], &[]);
    let older = table(&fs, 2, 14, &[("f", 0, "old"), ("l", 0, "old"), ("x", 0, "x")], &[]);
    put_manifest(&fs, &[first, second, third, older]);
    let dir = tempfile::tempdir().unwrap();
    for name in fs.list(Path::new(DIR)).unwrap() {
        std::fs::write(dir.path().join(&name), fs.read(&Path::new(DIR).join(&name)).unwrap())
            .unwrap();
    }
    let db = format!("--db={}", dir.path().display());
    let scanned = std::process::Command::new("ldb").args([&db, "scan"]).output().unwrap();
    let line = |(key, value): &(String, String)| format!("{key} : {value}\n");
    let ours = pairs(&open(fs).unwrap().column_family("default").unwrap());
    let lines: String = ours.iter().map(line).collect();
    assert_eq!(String::from_utf8_lossy(&scanned.stdout), lines, "{scanned:?}");
}

/// Neighbours that overlap by more than the key at which they meet are damage.
#[test]
fn neighbours_that_overlap_further_are_damage() {
    let fs = directory();
    let first = table(&fs, 1, 10, &[("a", 7, "a"), ("f", 4, "f4")], &[]);
    let second = table(&fs, 1, 11, &[("f", 5, "f5"), ("k", 3, "k")], &[]);
    put_manifest(&fs, &[first, second]);
    let error = open(fs).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
}

/// Universal and FIFO compaction leave any number of tables in level 0. With 36 or more, an
/// imported database once stopped all writers until it had merged these tables. Now an import
/// leaves at most 19, so few that writers are not even delayed.
#[test]
fn a_full_level_0_is_moved_down_or_merged_at_an_import() {
    let fs = directory();
    let key = |n: u64| format!("{n:03}");
    let mut listed = Vec::new();
    for n in 1..=40 {
        // Each table holds "a", and shares a key with the table before it.
        let (own, before) = (key(n), key(n - 1));
        let value = n.to_string();
        let entries =
            [(&before[..], 2 * n, &value[..]), (&own, 2 * n, &value), ("a", 2 * n, &value)];
        listed.push(table(&fs, 0, 100 + n, &entries, &[]));
    }
    // Two tables of which neither is newer, and five that overlap nothing.
    listed.push(table(&fs, 0, 150, &[("a", 85, "85"), ("c", 90, "90")], &[]));
    listed.push(table(&fs, 0, 151, &[("a", 86, "86"), ("c", 89, "89")], &[]));
    for n in 0..5 {
        listed.push(table(&fs, 0, 160 + n, &[(&format!("x{n}"), 92 + n, "x")], &[]));
    }
    put_manifest(&fs, &listed);
    let mut expected: Vec<(String, String)> =
        (0..=40).map(|n| (key(n), 40.min(n + 1).to_string())).collect();
    expected.extend([("a".into(), "86".into()), ("c".into(), "90".into())]);
    expected.extend((0..5).map(|n| (format!("x{n}"), "x".into())));
    let expected: Vec<_> = expected.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let (report, levels) = read_and_imported(&fs, &expected);
    assert_eq!(levels[0], 19, "{levels:?}");
    assert!(report.rewritten > 2 && report.moved_down >= 5, "{report:?}");
}

/// A family whose tree would be read wrongly is rejected when it is requested. The other families
/// can be read.
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
        let family = rocks.column_families().iter().find(|it| it.name == name.as_bytes()).unwrap();
        assert!(family.not_supported.as_ref().unwrap().contains(reason));
    }
}

/// A log with one batch of these operations (kind, key, value), whose sequence numbers start at
/// `first`.
pub(super) fn log(first: u64, operations: &[(u8, &str, &str)]) -> Vec<u8> {
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
    // A deletion, a single deletion and range deletions hide older entries, even a merge operand.
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
    // The import fails before it writes anything.
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
            // Where a link failed, the import has made a copy.
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
    /// What the writer does; it gets the number of the opening.
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

/// Does what a writer does when it flushes the log: writes the table, changes the MANIFEST, and
/// writes over the log.
fn flush_and_recycle(fs: &MemFs) {
    let flushed = table(fs, 0, 11, &[("a", 101, "new")], &[]);
    put_manifest(fs, &[flushed]);
    put_file(fs, &Path::new(DIR).join("000030.log"), b"");
}

/// If a writer flushes a log and writes over it during the reading, the log only seems to end
/// early. But the MANIFEST has grown by then, so the reading begins again.
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
    // A writer that changes the MANIFEST during each reading.
    let always = busy(|fs, opened| {
        let mut bytes = manifest(&[]);
        bytes.resize(bytes.len() + 40_000 + opened, 0);
        put_file(fs, &Path::new(DIR).join("MANIFEST-000005"), &bytes);
    });
    let error = open(always.clone()).unwrap_err();
    assert!(error.to_string().contains("during each of 10 readings"), "{error}");
    assert_eq!(always.opened.load(Ordering::Relaxed), 10);
}

/// If a table is gone, the reading begins again at `CURRENT`. If the MANIFEST lists the table in
/// three readings, the table is missing, and the opening fails.
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

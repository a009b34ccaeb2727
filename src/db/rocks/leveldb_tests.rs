//! Directories of LevelDB, made byte by byte. Those that LevelDB made are in `tests/`.

use std::path::Path;

use super::tests::{DIR, directory, log, open, read_and_imported};
use crate::error::Error;
use crate::fs::{Fs, MemFs};
use crate::rocksdb::ListedTable;
use crate::rocksdb::fuzzing::{EditBytes, LogBytes, leveldbs_file, put_file};

/// Level, name, and entries: user key, sequence number, kind, value.
type Table<'a> = (u32, &'a str, &'a [(&'a str, u64, u8, &'a str)]);

/// A directory of these tables, and a log.
fn leveldb(comparator: &str, tables: &[Table], compression: u8) -> MemFs {
    let fs = directory();
    let mut edit = EditBytes::default();
    edit.text(1, comparator).number(2, 30).number(9, 0).number(3, 40).number(4, 90);
    for &(level, name, entries) in tables {
        let (bytes, [smallest, largest]) = leveldbs_file(entries, compression);
        put_file(&fs, &Path::new(DIR).join(name), &bytes);
        let number = name[..6].parse().unwrap();
        let file_bytes = bytes.len() as u64;
        let bounds = ListedTable { smallest, largest, ..ListedTable::default() };
        edit.leveldbs_table(&ListedTable { level, number, file_bytes, ..bounds });
    }
    let mut manifest = LogBytes::new(None);
    manifest.add(&edit.0);
    put_file(&fs, &Path::new(DIR).join("CURRENT"), b"MANIFEST-000005\n");
    put_file(&fs, &Path::new(DIR).join("MANIFEST-000005"), &manifest.bytes);
    let operations = [(1, "log", "in the log"), (0, "x", "")];
    put_file(&fs, &Path::new(DIR).join("000030.log"), &log(91, &operations));
    fs
}

const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// Level 0 of the directory has tables that overlap, whose file names end in `.ldb` and `.sst`.
/// LevelDB's repair has put one of them there, with a file number that says nothing of the table's
/// age. In level 1, neighbours share a key. There is also a log. LevelDB states no sequence numbers
/// of tables, so those of the entries decide which entry is newer.
#[test]
fn a_directory_of_leveldb_is_read_and_imported() {
    let tables: [Table; 6] = [
        (0, "000020.ldb", &[("a", 40, 1, "a40"), ("e", 41, 0, ""), ("m", 42, 1, "m")]),
        (0, "000021.sst", &[("a", 50, 1, "a50"), ("e", 43, 1, "e43"), ("x", 44, 1, "x")]),
        (0, "000025.ldb", &[("a", 10, 1, "a10"), ("d", 11, 1, "d11"), ("e", 12, 1, "e12")]),
        (1, "000010.ldb", &[("a", 5, 1, "a5"), ("f", 9, 1, "f9")]),
        (1, "000011.ldb", &[("f", 5, 1, "f5"), ("k", 3, 0, "")]),
        (2, "000009.ldb", &[("f", 1, 1, "f1"), ("k", 2, 1, "k2"), ("p", 1, 1, "p1")]),
    ];
    let fs = leveldb(BYTEWISE, &tables, 0);
    let expected = [
        ("a", "a50"),
        ("d", "d11"),
        ("e", "e43"),
        ("f", "f9"),
        ("log", "in the log"),
        ("m", "m"),
        ("p", "p1"),
    ];
    let (report, levels) = read_and_imported(&fs, &expected);
    assert_eq!((report.rewritten, report.linked, report.log_entries), (6, 0, 2));
    // The log has become a table of level 0, too.
    assert_eq!(levels[..4], [2, 1, 1, 0]);
    let db = crate::Db::builder("/new").fs(std::sync::Arc::new(fs)).open().unwrap();
    let files = db.stats().files;
    assert!(files.iter().all(|file| file.filter.is_some() && file.entries > 0), "{files:?}");
}

#[test]
fn what_leveldbs_relatives_have_is_refused_by_name() {
    let entries: &[_] = &[("a", 40, 1, "a"), ("b", 41, 1, "b")];
    let tables = [(2, "000010.ldb", entries)];
    // Browsers store IndexedDB with this comparator.
    let rocks = open(leveldb("idb_cmp1", &tables, 0)).unwrap();
    for error in
        [rocks.column_family("default").map(drop), rocks.import("default", "/new").map(drop)]
    {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("the comparator idb_cmp1"), "{error}");
    }
    // Minecraft stores its worlds with the first two of these compressions.
    for (compression, name) in [(2, "zlib"), (4, "raw deflate"), (9, "unknown")] {
        let fs = leveldb(BYTEWISE, &tables, compression);
        let rocks = open(fs.clone()).unwrap();
        let db = rocks.column_family("default").unwrap();
        for error in [db.get("a").map(drop), rocks.import("default", "/new").map(drop)] {
            let error = error.unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("000010.ldb") && text.contains(name), "{text}");
        }
        assert!(fs.list(Path::new("/new")).unwrap().is_empty());
    }
}

/// Damage is found by the checksums, as in RocksDB's tables.
#[test]
fn every_changed_byte_of_a_table_is_found_or_changes_nothing() {
    let entries: &[_] = &[("a", 40, 1, "a"), ("b", 41, 1, "b")];
    let path = Path::new(DIR).join("000010.ldb");
    let bytes = leveldb(BYTEWISE, &[(2, "000010.ldb", entries)], 0).read(&path).unwrap();
    for at in 0..bytes.len() {
        let fs = leveldb(BYTEWISE, &[(2, "000010.ldb", entries)], 0);
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        put_file(&fs, &path, &changed);
        let read = open(fs).and_then(|rocks| {
            let db = rocks.column_family("default")?;
            [db.get("a")?, db.get("b")?]
                .into_iter()
                .collect::<Option<Vec<_>>>()
                .map_or(Ok(false), |values| Ok(values[0] == b"a" && values[1] == b"b"))
        });
        match read {
            Ok(is_right) => assert!(is_right, "byte {at}"),
            Err(error) => assert!(
                matches!(error, Error::Corruption { .. } | Error::Unsupported { .. }),
                "byte {at}: {error}"
            ),
        }
    }
}

//! Fuzz targets of RocksDB's and LevelDB's databases, with any bytes as MANIFEST or log.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::databases::everything;
use crate::db::{Db, RocksDb};
use crate::encoding::coding::{put_fixed32, put_fixed64, put_length_prefixed, put_varint};
use crate::encoding::key::internal_key;
use crate::error::Result;
use crate::fs::{Fs, MemFs};
use crate::range_tombstones::RangeTombstone;
use crate::rocksdb::ListedTable;
use crate::rocksdb::fuzzing::{EditBytes, LogBytes, leveldbs_file, put_file, repaired};
use crate::table::{Dialect, TableBuilder, TableOptions};

const DIR: &str = "/rocks";
const MANIFEST: &str = "MANIFEST-000005";
const LOG: &str = "000030.log";

/// A RocksDB directory of two column families, five tables and a log. The MANIFEST does not tell
/// which of the tables 13 and 14 in level 0 is the newer one, because it gives them no epochs, and
/// their ranges of sequence numbers overlap.
static IMAGE: LazyLock<MemFs> = LazyLock::new(|| {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("memory");
    let tables = [(0, 10, 40), (1, 11, 20), (2, 12, 1)].map(|(l, n, s)| table(&fs, l, n, s));
    let mixed = [13, 14].map(|number| ListedTable {
        smallest_sequence: 50,
        epoch: 0,
        ..table(&fs, 0, number, number + 40)
    });
    let mut manifest = LogBytes::new(None);
    let mut edit = EditBytes::default();
    edit.text(1, "leveldb.BytewiseComparator").number(2, 30).number(3, 40).number(4, 99);
    for table in tables[..2].iter().chain(&mixed) {
        edit.table(table);
    }
    manifest.add(&edit.0);
    let mut edit = EditBytes::default();
    edit.number(200, 1).text(201, "second").number(2, 30);
    manifest.add(&edit.0);
    for (left, edit_of) in [(1, 0), (0, 1)] {
        let mut edit = EditBytes::default();
        edit.number(300, left).number(200, edit_of);
        if edit_of == 0 {
            edit.removed(1, 11).table(&ListedTable { level: 3, ..tables[1].clone() });
        } else {
            edit.table(&tables[2]);
        }
        manifest.add(&edit.0);
    }
    let mut log = LogBytes::new(Some(30));
    log.add(&batch(100, 0, &[(1, "key 5"), (0, "key 6"), (15, "key 7")]));
    log.add(&batch(103, 1, &[(1, "key 5"), (2, "key 9"), (7, "key 1")]));
    put_file(&fs, &Path::new(DIR).join("CURRENT"), format!("{MANIFEST}\n").as_bytes());
    put_file(&fs, &Path::new(DIR).join(MANIFEST), &manifest.bytes);
    put_file(&fs, &Path::new(DIR).join(LOG), &log.bytes);
    fs
});

/// A LevelDB directory: two overlapping tables of level 0, two neighbours in level 1 that share a
/// key, and a log.
static LEVELDBS_IMAGE: LazyLock<MemFs> = LazyLock::new(|| {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("memory");
    let mut edit = EditBytes::default();
    edit.text(1, "leveldb.BytewiseComparator").number(2, 30).number(9, 0);
    edit.number(3, 40).number(4, 99);
    for (level, number, entries) in [
        (0, 10, [("key 1", 40, 1, "10"), ("key 5", 41, 0, "")]),
        (0, 11, [("key 1", 50, 1, "11"), ("key 6", 51, 1, "11")]),
        (1, 12, [("key 0", 20, 1, "12"), ("key 3", 21, 1, "12")]),
        (1, 13, [("key 3", 10, 1, "13"), ("key 5", 11, 1, "13")]),
    ] {
        let (bytes, [smallest, largest]) = leveldbs_file(&entries, 0);
        put_file(&fs, &Path::new(DIR).join(format!("{number:06}.ldb")), &bytes);
        let file_bytes = bytes.len() as u64;
        let table =
            ListedTable { level, number, file_bytes, smallest, largest, ..ListedTable::default() };
        edit.leveldbs_table(&table);
    }
    let mut manifest = LogBytes::new(None);
    manifest.add(&edit.0);
    let mut log = LogBytes::new(None);
    log.add(&batch(100, 0, &[(1, "key 2"), (0, "key 6")]));
    put_file(&fs, &Path::new(DIR).join("CURRENT"), format!("{MANIFEST}\n").as_bytes());
    put_file(&fs, &Path::new(DIR).join(MANIFEST), &manifest.bytes);
    put_file(&fs, &Path::new(DIR).join(LOG), &log.bytes);
    fs
});

fn table(fs: &MemFs, level: u32, number: u64, sequence: u64) -> ListedTable {
    let file = fs.create(&Path::new(DIR).join(format!("{number:06}.sst"))).expect("memory");
    let dialect = Dialect::Database { file_number: number };
    let mut builder = TableBuilder::new(file, TableOptions::default(), dialect).expect("memory");
    for n in 0..10 {
        let key = internal_key(format!("key {n}").as_bytes(), sequence, 1);
        builder.add(&key, &[number as u8; 9]).expect("memory");
    }
    let range = RangeTombstone { start: b"key 3", end: b"key 4", sequence: sequence + 1 };
    builder.add_range(range).expect("memory");
    let summary = builder.finish().expect("memory");
    ListedTable {
        level,
        number,
        file_bytes: summary.file_bytes,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_sequence: summary.smallest_sequence,
        largest_sequence: summary.largest_sequence,
        has_sequences: true,
        epoch: number,
        ..ListedTable::default()
    }
}

fn batch(first: u64, family: u32, operations: &[(u8, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_fixed64(&mut out, first);
    put_fixed32(&mut out, operations.len() as u32);
    for &(kind, key) in operations {
        // RocksDB has a second tag for each kind of operation, for operations that name a column
        // family.
        out.push(match kind {
            7 => 8,
            15 => 14,
            kind => kind + 4,
        });
        put_varint(&mut out, family.into());
        put_length_prefixed(&mut out, key.as_bytes());
        if !matches!(kind, 0 | 7) {
            put_length_prefixed(&mut out, b"key 8");
        }
    }
    out
}

/// The MANIFEST and the log of [`IMAGE`], and those of [`LEVELDBS_IMAGE`]. Panics if one of these
/// directories does not open.
#[cfg(test)]
pub(super) fn samples() -> [[Vec<u8>; 2]; 2] {
    [&*IMAGE, &*LEVELDBS_IMAGE].map(|image| {
        open(image).and_then(|rocks| rocks.column_family("default")).expect("a sound directory");
        [MANIFEST, LOG].map(|name| image.read(&Path::new(DIR).join(name)).expect("memory"))
    })
}

/// Opens RocksDB's directory and LevelDB's, each with `data` as its MANIFEST. First repairs the
/// checksums of `data`.
pub fn rocksdb_manifest(data: &[u8]) {
    open_with(MANIFEST, &repaired(data));
}

/// Opens RocksDB's directory and LevelDB's, each with `data` as its log. First repairs the
/// checksums of `data`.
pub fn rocksdb_log(data: &[u8]) {
    open_with(LOG, &repaired(data));
}

/// Opens each directory with `bytes` as the file `name`, then reads and imports each column family,
/// and all together. A read may fail, but must end, and an imported database must open. The results
/// of lookups and scans are not compared, because they differ if the MANIFEST gives wrong bounds or
/// levels.
fn open_with(name: &str, bytes: &[u8]) {
    for image in [&*IMAGE, &*LEVELDBS_IMAGE] {
        let fs = image.kill();
        put_file(&fs, &Path::new(DIR).join(name), bytes);
        let Ok(rocks) = open(&fs) else { continue };
        for (i, family) in rocks.column_families().iter().enumerate() {
            let Ok(db) = rocks.column_family(&family.name) else { continue };
            let _ = everything(&db);
            for n in 0..10 {
                let _ = db.get(format!("key {n}"));
            }
            let target = format!("/new{i}");
            if rocks.import(&family.name, &target).is_ok() {
                let db = Db::builder(&target).fs(Arc::new(fs.clone())).compaction_threads(1).open();
                let _ = everything(&db.expect("what was imported opens"));
            }
        }
        if rocks.import_all("/all").is_ok() {
            let db = Db::builder("/all").fs(Arc::new(fs.clone())).compaction_threads(1).open();
            let db = db.expect("what was imported opens");
            for name in db.keyspaces() {
                let _ = everything(&db.keyspace(name).expect("it was imported"));
            }
        }
    }
}

fn open(fs: &MemFs) -> Result<RocksDb> {
    let options = Db::builder(DIR).fs(Arc::new(fs.clone()));
    options.block_cache_bytes(1 << 20).memtable_bytes(4096).open_rocksdb()
}

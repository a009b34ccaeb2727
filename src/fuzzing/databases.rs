//! Fuzz targets of whole databases. The input is a WAL, a MANIFEST, or a list of operations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::db::{Db, WriteBatch};
use crate::error::Result;
use crate::fs::{Fs, MemFs};
use crate::rocksdb::fuzzing::put_file;
use crate::wal::LogKind;

/// The files of a database whose process was killed: a few tables, and a WAL of newer entries. Also
/// the names of the MANIFEST and of the newest WAL.
pub(super) struct Image {
    pub fs: MemFs,
    pub manifest: String,
    pub wal: String,
}

pub(super) const DIR: &str = "/db";

fn open(fs: &MemFs) -> Result<Db> {
    Db::builder(DIR)
        .fs(Arc::new(fs.clone()))
        .filter("burr(7)")
        .memtable_bytes(4096)
        .block_bytes(256)
        .table_bytes(4096)
        .level_base_bytes(8192)
        .block_cache_bytes(1 << 20)
        .compaction_threads(1)
        .open()
}

pub(super) static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let fs = MemFs::new();
    let db = open(&fs).expect("memory");
    for n in 0..120u32 {
        db.put(format!("key{:03}", n * 7 % 100), [n as u8; 40]).expect("memory");
        if n % 40 == 39 {
            db.flush().expect("memory");
        }
    }
    db.delete_range("key030".."key040").expect("memory");
    db.wait_for_compaction().expect("memory");
    db.put("last", "one").expect("memory");
    db.persist().expect("memory");
    let killed = fs.kill();
    drop(db);
    let names = killed.list(Path::new(DIR)).expect("memory");
    let newest = |wanted: &str| {
        let mut named: Vec<_> = names.iter().filter(|name| name.contains(wanted)).collect();
        named.sort();
        named.last().expect("there is one").to_string()
    };
    Image { manifest: newest("MANIFEST-"), wal: newest(".wal"), fs: killed }
});

/// The number in a file's name.
fn number(name: &str) -> u64 {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("names of logs hold a number")
}

/// Opens a database whose MANIFEST is `data`, with a valid file header and valid checksums in most
/// records, so that the code behind the checksums is reached.
pub fn manifest(data: &[u8]) {
    let Image { fs, manifest, .. } = &*IMAGE;
    let bytes = crate::wal::fuzzing::repaired(data, LogKind::Manifest, number(manifest));
    open_with(fs.kill(), manifest, &bytes);
}

/// Opens a database whose WAL is `data`, with a valid file header and valid checksums in most
/// records.
pub fn wal(data: &[u8]) {
    let Image { fs, wal, .. } = &*IMAGE;
    let bytes = crate::wal::fuzzing::repaired(data, LogKind::Wal, number(wal));
    open_with(fs.kill(), wal, &bytes);
}

/// Replaces the file `name` by `bytes` and opens the database. If opening, reading and closing all
/// succeed, the database must open again with the same entries.
fn open_with(fs: MemFs, name: &str, bytes: &[u8]) {
    put_file(&fs, &Path::new(DIR).join(name), bytes);
    let Ok(db) = open(&fs) else { return };
    let first = everything(&db);
    if db.close().is_err() {
        return;
    }
    if let Ok(first) = first {
        let again = open(&fs).expect("what was opened and closed opens again");
        assert_eq!(everything(&again).expect("what was read is read again"), first);
    }
}

pub(super) fn everything(db: &Db) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut all, mut cursor) = (Vec::new(), db.cursor());
    cursor.seek_to_first()?;
    while cursor.valid() {
        all.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    Ok(all)
}

/// Runs the operations in `data` on a database and on a `BTreeMap`: writes, batches, range
/// deletions, flushes, compactions, and reopenings after a close and after a kill. Compares the
/// result of every read, and all entries at the end.
pub fn operations(data: &[u8]) {
    /// Limits the time that one input takes.
    const MAX_OPERATIONS: usize = 400;
    let mut fs = MemFs::new();
    let mut db = open(&fs).expect("memory");
    let mut map = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    let mut batch = WriteBatch::new();
    let mut in_batch: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    let key = |byte: u8| -> Vec<u8> {
        match byte % 8 {
            0 => vec![byte; usize::from(byte) / 16],
            _ => format!("key{:03}", byte % 200).into_bytes(),
        }
    };
    for &[operation, a, b] in data.as_chunks::<3>().0.iter().take(MAX_OPERATIONS) {
        match operation % 32 {
            0..12 => {
                let value = vec![b; usize::from(b) * 2];
                db.put(key(a), &value).expect("memory");
                map.insert(key(a), value);
            }
            12..15 => {
                db.delete(key(a)).expect("memory");
                map.remove(&key(a));
            }
            15 => {
                let (start, end) = (key(a).min(key(b)), key(a).max(key(b)));
                db.delete_range(&start..&end).expect("memory");
                map.retain(|key, _| *key < start || *key >= end);
            }
            16..20 => {
                batch.put(key(a), [b; 9]);
                in_batch.push((key(a), Some(vec![b; 9])));
            }
            20 => {
                batch.delete(key(a));
                in_batch.push((key(a), None));
            }
            21..23 => {
                db.write(std::mem::take(&mut batch)).expect("memory");
                for (key, value) in in_batch.drain(..) {
                    match value {
                        Some(value) => map.insert(key, value),
                        None => map.remove(&key),
                    };
                }
            }
            23..27 => {
                let found = db.get(key(a)).expect("memory");
                assert_eq!(found.as_deref(), map.get(&key(a)).map(Vec::as_slice), "{:?}", key(a));
            }
            27 => {
                let (start, end) = (key(a).min(key(b)), key(a).max(key(b)));
                let found: Vec<_> = db
                    .range(start.clone()..end.clone())
                    .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect::<Result<_>>()
                    .expect("memory");
                let expected = map.range(start..end).map(|(k, v)| (k.clone(), v.clone()));
                assert!(found.into_iter().eq(expected), "a range");
            }
            28 => db.flush().expect("memory"),
            29 => db.compact_range(key(a.min(b))..).expect("memory"),
            30 => {
                db.close().expect("memory");
                db = open(&fs).expect("a closed database opens");
            }
            _ => {
                // An acknowledged write outlives the process.
                let killed = fs.kill();
                drop(db);
                fs = killed;
                db = open(&fs).expect("a killed database opens");
            }
        }
    }
    let expected: Vec<_> = map.into_iter().collect();
    assert_eq!(everything(&db).expect("memory"), expected);
    assert_eq!(db.verify().expect("memory").filter_misses, 0);
}

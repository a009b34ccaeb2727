//! What iterators and cursors keep, and the figures that say so.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use maypole::fs::{Fs, MemFs};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Compression, Db, DbIterator};

use crate::device::eventually;

const MEMTABLE_BYTES: usize = 64 << 10;

fn open(fs: &Arc<MemFs>) -> Db {
    let builder = Db::builder("/db").fs(Arc::clone(fs) as Arc<dyn Fs>);
    let builder = builder.memtable_bytes(MEMTABLE_BYTES).table_bytes(32 << 10);
    builder.compression(Compression::None).open().unwrap()
}

/// An iterator that has read its first entry, so that it counts twice.
fn begun(db: &Db) -> DbIterator {
    let mut iterator = db.iter();
    iterator.next().unwrap().unwrap();
    iterator
}

fn table_bytes_on_disk(fs: &MemFs) -> u64 {
    let names = fs.list(Path::new("/db")).unwrap();
    let tables = names.into_iter().filter(|name| name.ends_with(".sst"));
    tables.map(|name| fs.open(&Path::new("/db").join(name)).unwrap().len()).sum()
}

/// A property that is a number.
fn property(db: &Db, name: &str) -> u64 {
    db.property(&format!("rocksdb.{name}")).unwrap().parse().unwrap()
}

/// Regression: 100 iterators were kept while all keys were overwritten many times. They held 428
/// MiB of flushed memtables and 119 MiB of obsolete tables, and no figure showed it: the properties
/// that RocksDB has for this had the values without the held bytes. Now the figures have what is
/// held, by how many, and for how long.
#[test]
fn the_memory_and_the_tables_that_iterators_keep_are_shown_while_they_are_kept() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let mut kept = Vec::new();
    for n in 0..20_000 {
        db.put(format!("key{:03}", n % 500), [b'v'; 100]).unwrap();
        if n % 1000 == 500 {
            kept.push(begun(&db));
        }
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let live = property(&db, "live-sst-files-size");
    let held_on_disk = || table_bytes_on_disk(&fs) - live;
    eventually(|| db.stats().held_by_cursors.table_bytes == held_on_disk());

    let stats = db.stats();
    let held = stats.held_by_cursors;
    assert_eq!(held.cursors, 2 * kept.len() as u64, "{held:?}");
    assert!(held.states > 10 && held.states <= kept.len() as u64, "{held:?}");
    // Every iterator holds a memtable of its own, and up to two that waited for their flush.
    let memtables = held.memtable_bytes / MEMTABLE_BYTES as u64;
    assert!((18..=70).contains(&memtables), "{held:?}");
    assert!(held.table_bytes > live, "{held:?}, {live} live");
    assert!(held.oldest > Duration::ZERO, "{held:?}");
    let text = stats.to_string();
    assert!(text.contains("of flushed memtables, kept for 40 cursors"), "{text}");
    assert!(text.contains("of obsolete tables, kept for 40 cursors"), "{text}");

    let current = property(&db, "cur-size-all-mem-tables");
    assert_eq!(current, stats.memtable_bytes as u64);
    assert_eq!(property(&db, "size-all-mem-tables"), current + held.memtable_bytes);
    assert_eq!(property(&db, "total-sst-files-size"), live + held.table_bytes);

    // The younger half holds less, and for less long.
    drop(kept.drain(..10));
    let younger = db.stats().held_by_cursors;
    assert!(younger.cursors == 20 && younger.memtable_bytes < held.memtable_bytes, "{younger:?}");
    assert!(younger.oldest < held.oldest + Duration::from_secs(1), "{younger:?}");
    drop(kept);
    eventually(|| db.stats().held_by_cursors == Default::default());
    assert_eq!(held_on_disk(), 0);
    assert!(!db.stats().to_string().contains("cursors "), "nothing is held");
}

/// Two states of the tree may share a memtable, which counts once. What is current is not held.
#[test]
fn a_memtable_of_two_states_counts_once_and_a_current_one_does_not_count() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    db.put("a", "").unwrap();
    db.flush().unwrap();
    db.put("b", [b'v'; 1000]).unwrap();
    let first = db.iter();
    assert_eq!(db.stats().held_by_cursors, Default::default(), "the state is the current one");
    let snapshot = db.snapshot();
    // The tree changes, but not the memtable, which has to stay because it holds nothing of the
    // ingested file's range.
    let as_fs = Arc::clone(&fs) as Arc<dyn Fs>;
    let mut writer = SstWriter::create_in(as_fs, "/table", TableOptions::default()).unwrap();
    writer.put(b"z", b"").unwrap();
    writer.finish().unwrap();
    db.ingest(&["/table"]).unwrap();
    let held = db.stats().held_by_cursors;
    assert_eq!((held.states, held.cursors, held.memtable_bytes, held.table_bytes), (1, 1, 0, 0));
    let second = snapshot.iter();
    let memtable_bytes = db.stats().memtable_bytes as u64;
    db.flush().unwrap();
    let held = db.stats().held_by_cursors;
    assert_eq!((held.states, held.cursors, held.table_bytes), (2, 2, 0));
    assert_eq!(held.memtable_bytes, memtable_bytes, "both hold the same memtable");
    assert_eq!(db.stats().snapshots, 1);
    drop((first, second));
    assert_eq!(db.stats().held_by_cursors, Default::default());
}

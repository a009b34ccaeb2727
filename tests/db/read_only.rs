//! Opening only to read: nothing is written, and the reader sees one state of an active writer.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use maypole::fs::{FaultFs, MemFs, Target};
use maypole::{Db, Durability, Error};

use super::crash::write;

#[test]
fn reading_only_writes_nothing_locks_nothing_and_refuses_to_write() {
    let mem = MemFs::new();
    let open = |fs| Db::builder("/db").fs(fs).memtable_bytes(8 << 10).open();
    let db = open(Arc::new(mem.clone())).unwrap();
    (1..=100).for_each(|n| db.write(write(n)).unwrap());
    let expected: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
    // The database is opened to read while its owner is active.
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let read = Db::builder("/db").fs(Arc::new(fs.clone())).open_read_only().unwrap();
    db.close().unwrap();
    assert!(read.iter().map(|entry| entry.unwrap()).eq(expected.iter().cloned()));
    assert_eq!(read.get("number").unwrap().unwrap(), b"100");
    assert_eq!(read.snapshot().get("number").unwrap().unwrap(), b"100");
    assert_eq!(read.verify().unwrap().filter_misses, 0);
    assert!(!read.stats().to_string().is_empty());
    let refusals = [
        read.put("a", "b"),
        read.write_opt(write(1), Durability::Sync),
        read.persist(),
        read.flush(),
        read.compact_range(..),
        read.wait_for_compaction(),
        read.ingest(&["/none.sst"]),
        read.checkpoint("/copy"),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(Error::OpenedReadOnly)), "{refused:?}");
    }
    read.close().unwrap();
    assert_eq!(fs.calls(Target::Changes), 0, "something was written or locked");
}

#[test]
fn a_directory_without_a_database_is_an_error_and_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let error = Db::open_read_only(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens a database `openings` times while a writer writes to it. The log is written through a
/// memory map, so a reader may see a half-copied record with a later record behind it. A flush or a
/// compaction may delete files that the opening is about to read. The opening must take neither for
/// damage.
fn beside_a_writer(openings: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = || Db::builder(&path).memtable_bytes(64 << 10).table_bytes(64 << 10);
    let db = options().open().unwrap();
    let (stop, written, next) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let n = next.load(Ordering::SeqCst);
                let durability = if n % 512 == 0 { Durability::Sync } else { Durability::Buffered };
                next.store(n + 1, Ordering::SeqCst);
                db.write_opt(write(n), durability).unwrap();
                written.store(n, Ordering::SeqCst);
            }
        });
        // Dropping this stops the writer. Without it a failed assertion would leave the writer
        // running, and the scope would wait for the writer for ever.
        let _stop = Stop(&stop);
        let mut last = 0;
        for opening in 0..openings {
            let acknowledged = written.load(Ordering::SeqCst);
            let read = options().open_read_only();
            let read = read.unwrap_or_else(|error| panic!("opening {opening}: {error}"));
            let begun = next.load(Ordering::SeqCst);
            let number = read
                .get("number")
                .unwrap()
                .map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap());
            assert!(number >= last, "opening {opening}: back from {last} to {number}");
            assert!((acknowledged..begun).contains(&number) || number == acknowledged);
            last = number;
            // The content must be that of all writes up to this number, with none missing in
            // between.
            super::crash::check_content(&read, number, &format!("opening {opening}"));
            if opening % 64 == 0 {
                assert_eq!(read.verify().unwrap().filter_misses, 0);
            }
        }
    });
    println!(
        "{openings} read-only openings during {} writes: one state each",
        next.into_inner() - 1
    );
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_reader_beside_a_writer_sees_one_moment() {
    beside_a_writer(300);
}

#[test]
#[ignore = "takes minutes: cargo test --release --test db ten_thousand -- --ignored --nocapture"]
fn ten_thousand_openings_beside_a_writer_each_see_one_moment() {
    beside_a_writer(super::env("MAYPOLE_OPENINGS", 10_000));
}

//! Tests of compactions: which of them run at the same time, that they change no result of a read,
//! and when writers wait for them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use maypole::fs::{FaultFs, Fs, MemFs, Operation};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, Ticker, WriteBatch, WriteStall, WriteStallCause};

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .memtable_bytes(16 << 10)
        .block_bytes(256)
        .table_bytes(4 << 10)
        .level_base_bytes(32 << 10)
}

/// Holds each thread that creates a table until three threads are held.
#[derive(Default)]
struct Meeting {
    threads: Mutex<HashMap<ThreadId, String>>,
    changed: Condvar,
}

impl Meeting {
    fn join(&self) {
        let mut threads = self.threads.lock().unwrap();
        let current = thread::current();
        threads.insert(current.id(), current.name().unwrap_or_default().to_owned());
        self.changed.notify_all();
        let patience = Duration::from_secs(60);
        let full = |threads: &mut HashMap<ThreadId, String>| threads.len() < 3;
        drop(self.changed.wait_timeout_while(threads, patience, full).unwrap());
    }
}

#[test]
fn a_flush_and_two_compactions_of_different_files_run_beside_each_other() {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    let db = builder(&fs).compaction_threads(2).open().unwrap();
    let ingest = |value: &str| {
        let paths = ["a", "b"].map(|first| {
            let path = format!("/db/{first}.outside");
            let mut writer =
                SstWriter::create_in(Arc::clone(&fs), Path::new(&path), TableOptions::default())
                    .unwrap();
            for n in 0..100 {
                writer.put(format!("{first}{n:03}").as_bytes(), value.as_bytes()).unwrap();
            }
            writer.finish().unwrap();
            path
        });
        db.ingest(&paths).unwrap();
    };
    // The first ingestion puts two files into the last level, and the second puts two files above
    // them into level 5. A tree as small as this needs no level 5, so two compactions merge each of
    // its files with the file below.
    ingest("old");
    let meeting = Arc::new(Meeting::default());
    faults.before_changes({
        let meeting = Arc::clone(&meeting);
        move |_, operation, path| {
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            let is_ours = thread::current().name().is_some_and(|name| name.starts_with("maypole-"));
            if operation == Operation::Create && is_table && is_ours {
                meeting.join();
            }
        }
    });
    ingest("new");
    db.put("c", "flushed").unwrap();
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let mut threads: Vec<_> = meeting.threads.lock().unwrap().values().cloned().collect();
    threads.sort();
    assert_eq!(threads, ["maypole-compact", "maypole-compact", "maypole-flush"]);
    assert_eq!(db.iter().count(), 201);
    assert_eq!(db.get("b099").unwrap().unwrap(), b"new");
}

#[test]
fn a_split_compaction_reads_as_one_that_was_not() {
    let read_after_compaction = |threads: usize| {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = builder(&fs).compaction_threads(threads).open().unwrap();
        let mut snapshots = Vec::new();
        for n in 0..6000u32 {
            let key = format!("{:05}", n.wrapping_mul(7919) % 2003);
            match n % 7 {
                0 => db.delete(key).unwrap(),
                _ => db.put(key, format!("value {n}")).unwrap(),
            }
            if n % 1999 == 0 {
                snapshots.push(db.snapshot());
            }
        }
        db.compact_range(..).unwrap();
        db.verify().unwrap();
        let parts = db.stats().tickers.get(Ticker::CompactionParts);
        let trees = snapshots.iter().map(|snapshot| snapshot.iter()).chain([db.iter()]);
        let entries = trees.flatten().map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())));
        (parts, entries.collect::<Result<Vec<_>, _>>().unwrap())
    };
    let (parts, whole) = read_after_compaction(1);
    assert!(parts == 0 && whole.len() > 2003);
    let (parts, split) = read_after_compaction(4);
    assert!(parts >= 2, "no compaction was split");
    assert!(split == whole, "the split tree reads otherwise");
}

#[test]
fn writers_slow_down_then_stop_while_level_0_grows_and_say_so() {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    let db = builder(&fs).memtable_bytes(4096).open().unwrap();
    // Each compaction waits at the creation of its first table until writers have been stopped.
    let held = Arc::new((Mutex::new(true), Condvar::new()));
    faults.before_changes({
        let held = Arc::clone(&held);
        move |_, operation, _| {
            let thread = thread::current();
            let compacts = thread.name().is_some_and(|name| !name.starts_with("maypole-flush"));
            let is_background = thread.name().is_some_and(|name| name.starts_with("maypole-"));
            if operation == Operation::Create && is_background && compacts {
                let held_now = held.0.lock().unwrap();
                drop(held.1.wait_while(held_now, |held| *held).unwrap());
            }
        }
    });
    let stopped = || db.stats().tickers.get(Ticker::StallL0Stops) > 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..100 {
                // These tables overlap, because tables that do not would move down without being
                // rewritten.
                let mut batch = WriteBatch::new();
                batch.put("first", [7; 100]);
                batch.put(format!("{n:03}"), [7; 4000]);
                db.write(batch).unwrap();
            }
        });
        let patience = Instant::now() + Duration::from_secs(60);
        while !stopped() && Instant::now() < patience {
            thread::yield_now();
        }
        let stats = db.stats();
        *held.0.lock().unwrap() = false;
        held.1.notify_all();
        assert_eq!(stats.write_stall, WriteStall::Stop(WriteStallCause::Level0));
        assert!(stats.to_string().contains("stopped by compactions of level 0"), "{stats}");
        assert!(stats.compaction_debt_bytes > 0);
    });
    db.wait_for_compaction().unwrap();
    let stats = db.stats();
    assert!(stats.tickers.get(Ticker::StallL0Delays) > 0, "no delay before the stop");
    assert_eq!((stats.write_stall, stats.compaction_debt_bytes), (WriteStall::None, 0));
    assert_eq!(db.iter().count(), 101);
}

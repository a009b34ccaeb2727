//! Manual compactions next to writers and automatic compactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fs, Operation};
use maypole::{Builder, Db, Error, Ticker};

use super::ingest::{Gate, faults, spawn};

const PATIENCE: Duration = Duration::from_secs(120);

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .memtable_bytes(8 << 10)
        .block_bytes(256)
        .table_bytes(4 << 10)
        .level_base_bytes(16 << 10)
}

fn key(n: u64) -> String {
    format!("{:05}", n * 7919 % 10_000)
}

/// A manual compaction kept every other one out, so that it ended. Now others bring new tables for
/// as long as it runs, and it must not follow them.
#[test]
fn a_manual_compaction_ends_although_writers_never_stop() {
    for threads in [1, 3] {
        let (_, faults, fs) = faults();
        let db = builder(&fs).compaction_threads(threads).open().unwrap();
        for n in 0..4000 {
            db.put(key(n), [7; 60]).unwrap();
            if n % 10 == 0 {
                db.delete(key(n + 1000)).unwrap();
            }
        }
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = spawn("writer", {
            let (db, stop, written) = (db.clone(), Arc::clone(&stop), Arc::clone(&written));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let n = written.fetch_add(1, Ordering::Relaxed);
                    db.put(key(n * 31), [8; 60]).unwrap();
                }
            }
        });
        for _ in 0..3 {
            let before = db.stats();
            let bytes: u64 = before.files.iter().map(|file| file.file_bytes).sum();
            let outputs = Arc::new(AtomicU64::new(0));
            faults.before_changes({
                let outputs = Arc::clone(&outputs);
                move |_, operation, path| {
                    let is_table = path.extension().is_some_and(|extension| extension == "sst");
                    let by_hand = thread::current().name() == Some("by-hand");
                    if by_hand && is_table && operation == Operation::Create {
                        outputs.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            let by_hand = spawn("by-hand", {
                let db = db.clone();
                move || db.compact_all()
            });
            by_hand.recv_timeout(PATIENCE).expect("it follows the writers").unwrap();
            // It moves each byte that was there at most once a level, together with what has come.
            let outputs = outputs.load(Ordering::Relaxed);
            let least_tables = bytes / (4 << 10) + 1;
            assert!(outputs <= 60 * least_tables, "{outputs} tables for {least_tables}");
        }
        stop.store(true, Ordering::Relaxed);
        writer.recv_timeout(PATIENCE).unwrap();
        db.wait_for_compaction().unwrap();
        let stats = db.stats();
        assert!(stats.tickers.get(Ticker::StallCount) < written.load(Ordering::Relaxed));
        // Now that nobody writes, everything goes down, and no deletion is left.
        db.compact_all().unwrap();
        let stats = db.stats();
        assert!(stats.files.iter().all(|file| file.level == 6), "{stats}");
        let entries: u64 = stats.files.iter().map(|file| file.entries).sum();
        assert_eq!(entries as usize, db.iter().count(), "an old version or a deletion is left");
        db.verify().unwrap();
    }
}

/// What was written before the call is in the deepest level afterwards, deletions are gone, and
/// each table of the deepest level was rewritten once, also where automatic compactions took part.
#[test]
fn a_manual_compaction_drops_what_was_deleted_before_it_although_others_run() {
    let (_, faults, fs) = faults();
    let gate = Gate::on(&faults, &["maypole-compact", "maypole-part"]);
    let db = builder(&fs).compaction_threads(2).open().unwrap();
    for n in 0..600 {
        db.put(key(n), [7; 60]).unwrap();
    }
    gate.wait_for_arrivals(1);
    (0..600).for_each(|n| db.delete(key(n)).unwrap());
    let by_hand = spawn("by-hand", {
        let db = db.clone();
        move || db.compact_all()
    });
    // The one that stands has the files of level 0.
    let ended = by_hand.recv_timeout(Duration::from_millis(100));
    assert!(ended.is_err(), "it did not wait for the compaction that has its files");
    gate.open();
    by_hand.recv_timeout(PATIENCE).unwrap().unwrap();
    db.wait_for_compaction().unwrap();
    assert_eq!(db.stats().files.len(), 0, "{}", db.stats());
}

#[test]
fn a_close_ends_the_wait_of_a_manual_compaction() {
    let (_, faults, fs) = faults();
    let gate = Gate::on(&faults, &["maypole-compact", "maypole-part"]);
    let db = builder(&fs).open().unwrap();
    for n in 0..600 {
        db.put(key(n), [7; 60]).unwrap();
    }
    gate.wait_for_arrivals(1);
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let db = db.clone();
            spawn("by-hand", move || db.compact_all())
        })
        .collect();
    // It may be before its flush yet, or wait already: either way it hears of the close.
    let closing = spawn("closing", move || db.close());
    for call in calls {
        let ended = call.recv_timeout(PATIENCE).expect("it waits for ever");
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    }
    assert!(closing.try_recv().is_err(), "it did not wait for the compaction that stands");
    gate.open();
    closing.recv_timeout(PATIENCE).unwrap().unwrap();
}

/// Two calls run one after the other, and neither waits for the other's claim.
#[test]
fn manual_compactions_of_several_threads_and_automatic_ones_all_end() {
    let (_, _, fs) = faults();
    let db = builder(&fs).compaction_threads(2).open().unwrap();
    let calls: Vec<_> = (0..3u64)
        .map(|thread| {
            let db = db.clone();
            spawn("by-hand", move || {
                for round in 0..15 {
                    for n in 0..200 {
                        db.put(key(thread + 3 * (round * 200 + n)), [7; 60]).unwrap();
                    }
                    let from = key(round * 77);
                    db.compact_range(from..).unwrap();
                }
            })
        })
        .collect();
    calls.iter().for_each(|call| call.recv_timeout(PATIENCE).expect("they wait for each other"));
    assert_eq!(db.iter().count(), 9000);
    db.verify().unwrap();
}

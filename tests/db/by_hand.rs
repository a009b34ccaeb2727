//! Manual compactions concurrent with writers and automatic compactions. A `Gate` stops threads of
//! the database when they are about to create a table, until the test opens it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::{Builder, Compression, Db, Error, Ticker};

use super::env;
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

/// A manual compaction once blocked every other compaction, because it would have compacted the new
/// tables of the others as well, without end. Now other compactions run at the same time, and the
/// manual compaction must leave alone the tables that hold only writes made after its call.
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
                    if is_output(operation, path) {
                        outputs.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            let by_hand = spawn("by-hand", {
                let db = db.clone();
                move || db.compact_all()
            });
            by_hand.recv_timeout(PATIENCE).expect("it follows the writers").unwrap();
            // A manual compaction rewrites each byte that existed at its call about once per level.
            // It also rewrites newer entries in the tables that its steps overlap, so the limit is
            // generous.
            let outputs = outputs.load(Ordering::Relaxed);
            let least_tables = bytes / (4 << 10) + 1;
            assert!(outputs <= 60 * least_tables, "{outputs} tables for {least_tables}");
        }
        stop.store(true, Ordering::Relaxed);
        writer.recv_timeout(PATIENCE).unwrap();
        db.wait_for_compaction().unwrap();
        let stats = db.stats();
        assert!(stats.tickers.get(Ticker::StallCount) < written.load(Ordering::Relaxed));
        // Without writers, everything moves down, and no deletion is left.
        db.compact_all().unwrap();
        let stats = db.stats();
        assert!(stats.files.iter().all(|file| file.level == 6), "{stats}");
        let entries: u64 = stats.files.iter().map(|file| file.entries).sum();
        assert_eq!(entries as usize, db.iter().count(), "an old version or a deletion is left");
        db.verify().unwrap();
    }
}

/// Whether a call creates a table in the thread of a manual compaction.
fn is_output(operation: Operation, path: &Path) -> bool {
    let is_table = path.extension().is_some_and(|extension| extension == "sst");
    thread::current().name() == Some("by-hand") && is_table && operation == Operation::Create
}

/// Regression: a manual compaction did not recognize its own new tables. First, it rewrote each
/// table that it had just moved to the deepest level. Second, the outputs of a compaction of the
/// deepest level stay in that level, so it rewrote them without end. Now a call writes each table
/// once.
#[test]
fn a_manual_compaction_does_not_rewrite_what_it_has_written() {
    let (_, faults, fs) = faults();
    // Two flushes start no automatic compaction.
    let options = builder(&fs).memtable_bytes(1 << 20).compression(Compression::None);
    // One thread, so that no compaction is split among threads.
    let options = options.compaction_threads(1);
    let db = options.open().unwrap();
    for from in [0, 100] {
        (from..from + 100).for_each(|n| db.put(key(n), [7; 200]).unwrap());
        db.flush().unwrap();
    }
    for call in ["from level 0 to the deepest", "in its place"] {
        let outputs = Arc::new(AtomicU64::new(0));
        faults.before_changes({
            let outputs = Arc::clone(&outputs);
            move |_, operation, path| {
                if is_output(operation, path) {
                    let outputs = outputs.fetch_add(1, Ordering::Relaxed);
                    assert!(outputs < 200, "it rewrites without end");
                }
            }
        });
        let by_hand = spawn("by-hand", {
            let db = db.clone();
            move || db.compact_all()
        });
        by_hand.recv_timeout(PATIENCE).expect("it rewrites without end").unwrap();
        let stats = db.stats();
        assert!(stats.files.iter().all(|file| file.level == 6), "{stats}");
        assert!(stats.files.len() > 5, "{stats}");
        assert_eq!(outputs.load(Ordering::Relaxed), stats.files.len() as u64, "{call}");
    }
}

/// A manual compaction notes the last sequence number at its call, and compacts only tables that
/// hold a write up to that number. If it compacted every table, it would never end while a writer
/// adds a new table for each compacted one.
#[test]
fn a_manual_compaction_leaves_what_was_written_since_its_call() {
    let (_, faults, fs) = faults();
    let db = builder(&fs).memtable_bytes(1 << 20).open().unwrap();
    (0..10).for_each(|n| db.put(key(n), [7; 20]).unwrap());
    let outputs = Arc::new(AtomicU64::new(0));
    faults.before_changes({
        let (db, outputs) = (db.clone(), Arc::clone(&outputs));
        move |_, operation, path| {
            if is_output(operation, path) {
                let outputs = outputs.fetch_add(1, Ordering::Relaxed);
                assert!(outputs < 20, "it follows the writer");
                // The table of this flush has the first and the last key of the compaction, so the
                // two overlap.
                db.put(key(0), [8; 20]).unwrap();
                db.put(key(9), [8; 20]).unwrap();
                db.flush().unwrap();
            }
        }
    });
    let by_hand = spawn("by-hand", {
        let db = db.clone();
        move || db.compact_all()
    });
    by_hand.recv_timeout(PATIENCE).expect("it follows the writer").unwrap();
    faults.before_changes(|_, _, _| {});
    assert_eq!(outputs.load(Ordering::Relaxed), 1);
    let levels: Vec<usize> = db.stats().files.iter().map(|file| file.level).collect();
    assert_eq!(levels, [0, 6], "{}", db.stats());
    assert_eq!(db.get(key(0)).unwrap().unwrap(), [8; 20]);
    assert_eq!(db.get(key(1)).unwrap().unwrap(), [7; 20]);
}

/// Entries that were deleted before the call are gone after it, and the deletions too. This holds
/// even if an automatic compaction runs at the call: it has claimed files that the manual
/// compaction needs, so the call waits for it.
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
    // The automatic compaction, which the gate stops, has claimed the files of level 0.
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
    // When the close begins, a manual compaction may not have flushed yet, or may be waiting for
    // the files of the automatic compaction. In either case the close ends it.
    let closing = spawn("closing", move || db.close());
    for call in calls {
        let ended = call.recv_timeout(PATIENCE).expect("it waits for ever");
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    }
    assert!(closing.try_recv().is_err(), "it did not wait for the compaction that stands");
    gate.open();
    closing.recv_timeout(PATIENCE).unwrap().unwrap();
}

/// Manual compactions run one after the other, and none waits for ever for files that another one
/// has claimed.
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

/// A workload of puts, which start automatic compactions, with manual compactions between some of
/// the puts. Returns the number of acknowledged puts, and the error that ended the workload, if
/// any.
fn work(fs: &Arc<dyn Fs>, open: &mut Option<Db>) -> (u64, maypole::Result<()>) {
    let mut acknowledged = 0;
    let done = (|| {
        let db = open.insert(builder(fs).memtable_bytes(4 << 10).compaction_threads(2).open()?);
        for n in 0..FAULTY_PUTS {
            db.put(key(n), format!("{n:060}"))?;
            acknowledged = n + 1;
            // The automatic compactions that earlier writes have started are not waited for, so
            // that they run in parallel with the manual ones.
            match n {
                90 => db.compact_all()?,
                150 => db.compact_range(..key(40))?,
                _ => {}
            }
        }
        db.wait_for_compaction()?;
        db.compact_all()?;
        open.take().expect("it is open").close()
    })();
    (acknowledged, done)
}

const FAULTY_PUTS: u64 = 240;

/// Manual and automatic compactions run in parallel. Each run of the workload lets the file system
/// fail at another point: in one call of any kind, or in one change and all later changes. The next
/// opening at the latest removes the outputs of failed compactions. No call hangs, and no
/// acknowledged write is lost, even if the disk was full.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_manual_compaction_that_fails_next_to_automatic_ones_loses_and_leaves_nothing() {
    let calls = |target| {
        let faults = FaultFs::new(Arc::new(MemFs::new()));
        let fs: Arc<dyn Fs> = Arc::new(faults.clone());
        work(&fs, &mut None).1.unwrap();
        faults.calls(target)
    };
    let (all, changes) = (calls(Target::Any), calls(Target::Changes));
    assert!(changes > 300, "{changes} changes");
    let step = env("MAYPOLE_FAULT_STEP", 11) as usize;
    let (mut runs, mut noticed) = (0, 0);
    for (kind, fault) in (0..).zip([Fault::Io, Fault::NoSpace]) {
        let once = (kind % step..all as usize).step_by(step).map(|nth| (nth as u64, false));
        let on = (kind % step..changes as usize).step_by(step).map(|nth| (nth as u64, true));
        for (nth, lasts) in once.chain(on) {
            let story = format!("{fault:?} at call {nth}, lasts: {lasts}");
            let mem = MemFs::new();
            let faults = FaultFs::new(Arc::new(mem.clone()));
            match lasts {
                false => faults.fail_once(Target::Any, nth, fault),
                true => faults.fail_from(Target::Changes, nth, fault),
            }
            let fs: Arc<dyn Fs> = Arc::new(faults.clone());
            let worked = spawn("worker", move || {
                let mut open = None;
                let (acknowledged, done) = work(&fs, &mut open);
                (acknowledged, done, open)
            });
            let (acknowledged, done, open) =
                worked.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{story}: it hangs"));
            runs += 1;
            noticed += u64::from(done.is_err());
            faults.heal();
            if let Some(db) = open {
                check(&db, acknowledged, &story);
                let fs: Arc<dyn Fs> = Arc::new(mem.kill());
                check_opened(&fs, acknowledged, &format!("{story}, killed"));
                // Work that waited for space continues, because the file system works again. After
                // any other failure the database is read-only.
                match db.compact_all() {
                    Ok(()) => check(&db, acknowledged, &format!("{story}, once more")),
                    Err(error) => assert!(matches!(error, Error::ReadOnly(_)), "{story}: {error}"),
                }
                let _ = db.close();
            }
            let fs: Arc<dyn Fs> = Arc::new(mem.clone());
            check_opened(&fs, acknowledged, &story);
        }
    }
    println!("{runs} runs of {all} calls, {changes} changes: {noticed} noticed");
    assert!(noticed > runs / 3, "{noticed} of {runs}");
}

/// Every acknowledged put is found, with its last value. At most one put that was not acknowledged
/// is found too.
fn check(db: &Db, acknowledged: u64, story: &str) {
    for n in 0..acknowledged {
        let found = db.get(key(n)).unwrap_or_else(|error| panic!("{story}: {error}"));
        assert_eq!(found.as_deref(), Some(format!("{n:060}").as_bytes()), "{story}: put {n}");
    }
    let count = db.iter().inspect(|item| assert!(item.is_ok(), "{story}: {item:?}")).count() as u64;
    assert!(count == acknowledged || count == acknowledged + 1, "{story}: {count}, {acknowledged}");
}

/// An opening finds all writes and removes files that no MANIFEST lists. A lookup in any database
/// of the process, in a thread that the system has suspended, may delay the removal of obsolete
/// tables until after the close. So the tables are counted only after a second opening.
fn check_opened(fs: &Arc<dyn Fs>, acknowledged: u64, story: &str) {
    if !fs.exists(Path::new("/db/CURRENT")).unwrap() {
        return assert_eq!(acknowledged, 0, "{story}");
    }
    let db = builder(fs).open().unwrap_or_else(|error| panic!("{story}: {error}"));
    check(&db, acknowledged, story);
    db.compact_all().unwrap();
    check(&db, acknowledged, story);
    assert_eq!(db.verify().unwrap().strays, Vec::<String>::new(), "{story}");
    db.close().unwrap();
    let db = builder(fs).open().unwrap_or_else(|error| panic!("{story}: {error}"));
    let names = fs.list(Path::new("/db")).unwrap();
    let found = names.iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(found, db.stats().files.len(), "{story}: {names:?}");
    db.close().unwrap();
}

//! Calls of `close` that meet: all of them keep the promise of `close`, and none waits for itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::{Builder, Db, Error};

/// Longer than any event for which a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a test gives a call that must wait the opportunity to return too early.
const OPPORTUNITY: Duration = Duration::from_millis(300);

fn builder(fs: Arc<dyn Fs>) -> Builder {
    Db::builder("/db").fs(fs).block_bytes(256)
}

fn faults() -> (MemFs, FaultFs, Arc<dyn Fs>) {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem.clone()));
    (mem, faults.clone(), Arc::new(faults))
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
}

/// Runs `work` in a thread.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || drop(sender.send(work())));
    receiver
}

/// Two threads close a database: the second one begins while the log is being synced for the first.
/// Returns whether the second one returned before the sync, and both results. `at_the_sync` runs
/// instead of the sync's first moment.
fn close_twice(
    fs: &Arc<dyn Fs>,
    faults: &FaultFs,
    at_the_sync: fn(),
) -> (bool, maypole::Result<()>, maypole::Result<()>) {
    let db = builder(Arc::clone(fs)).open().unwrap();
    db.put("key", "value").unwrap();
    let (second, returned) = (db.clone(), Arc::new(Mutex::new(None)));
    let second = Mutex::new(Some(second));
    let was_early = Arc::new(AtomicBool::new(false));
    faults.before_changes({
        let (returned, was_early) = (Arc::clone(&returned), Arc::clone(&was_early));
        move |_, operation, path| {
            if operation != Operation::Sync || !is_log(path) {
                return;
            }
            let Some(second) = second.lock().unwrap().take() else { return };
            let result = spawn(|| second.close());
            if let Ok(early) = result.recv_timeout(OPPORTUNITY) {
                was_early.store(true, Ordering::Relaxed);
                *returned.lock().unwrap() = Some(spawn(|| early));
            } else {
                *returned.lock().unwrap() = Some(result);
            }
            at_the_sync();
        }
    });
    let first = db.close();
    let second = returned.lock().unwrap().take().expect("the log is synced");
    let second = second.recv_timeout(PATIENCE).expect("the second call hangs");
    (was_early.load(Ordering::Relaxed), first, second)
}

/// Regression: the second of two threads that closed a database returned `Ok` at once. A power loss
/// could then lose its writes, and the next opening said that the database is in use. Now the
/// second call waits until the database is closed, and returns the same result.
#[test]
fn a_second_close_waits_for_the_first_and_returns_its_result() {
    let (mem, faults, fs) = faults();
    let (was_early, first, second) = close_twice(&fs, &faults, || {});
    assert!(!was_early, "the second call returned before the log was synced");
    first.unwrap();
    second.unwrap();
    for seed in 0..10 {
        let db = builder(Arc::new(mem.crash(seed))).open().unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    }
    drop(builder(Arc::new(mem)).open().unwrap());
}

#[test]
fn a_second_close_returns_the_failure_of_the_first() {
    let (mem, faults, fs) = faults();
    faults.fail_files_from(".wal", Target::Only(Operation::Sync), 0, Fault::Io);
    let (was_early, first, second) = close_twice(&fs, &faults, || {});
    assert!(!was_early, "the second call returned before the log was synced");
    let [first, second] = [first, second].map(|result| result.unwrap_err().to_string());
    assert_eq!(first, second);
    drop(builder(Arc::new(mem)).open().unwrap());
}

/// If the file system panics while the database is closed, no call waits for ever.
#[test]
fn a_second_close_returns_when_the_first_panics() {
    let (mem, faults, fs) = faults();
    let (_, first, second) = close_twice(&fs, &faults, || panic!("of the file system"));
    for result in [first, second] {
        assert!(matches!(result, Err(Error::Panicked(_))), "{result:?}");
    }
    drop(builder(Arc::new(mem)).open().unwrap());
}

/// Regression: see above. A job whose file system closes the database cannot wait for its own end,
/// so its call returns at once. The closing ends with the job. A call in another thread waits for
/// that, and a drop of the last handle does too.
#[test]
fn a_close_waits_for_the_closing_that_a_job_has_begun() {
    for drops in [false, true] {
        let (mem, faults, fs) = faults();
        let db = builder(fs).open().unwrap();
        db.put("key", "value").unwrap();
        let (in_job, begun) = (Mutex::new(Some(db.clone())), Arc::new(AtomicBool::new(false)));
        faults.before_changes({
            let begun = Arc::clone(&begun);
            move |_, operation, path| {
                let is_table = path.extension().is_some_and(|extension| extension == "sst");
                if operation != Operation::Create || !is_table {
                    return;
                }
                if let Some(db) = in_job.lock().unwrap().take() {
                    db.close().unwrap();
                    begun.store(true, Ordering::Release);
                    thread::sleep(OPPORTUNITY);
                }
            }
        });
        let flushing = db.clone();
        let flushed = spawn(move || flushing.flush());
        while !begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // `flush` ends with `Closed`, so that `db` is the last handle.
        let flushed = flushed.recv_timeout(PATIENCE).expect("the flush hangs");
        assert!(matches!(flushed, Err(Error::Closed)), "{flushed:?}");
        let closed = spawn(move || match drops {
            false => db.close(),
            true => {
                drop(db);
                Ok(())
            }
        });
        closed.recv_timeout(PATIENCE).expect("the second call hangs").unwrap();
        let db = builder(Arc::new(mem)).open().unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    }
}

/// The file system closes the database inside a call that the closing itself makes. That call cannot
/// wait for the closing.
#[test]
fn a_close_inside_the_closing_returns_at_once() {
    let (_, faults, fs) = faults();
    let db = builder(fs).open().unwrap();
    db.put("key", "value").unwrap();
    let inside = Mutex::new(Some(db.clone()));
    faults.before_changes(move |_, operation, path| {
        let inside = (operation == Operation::Sync && is_log(path)).then(|| inside.lock().unwrap());
        if let Some(db) = inside.and_then(|mut db| db.take()) {
            db.close().unwrap();
        }
    });
    spawn(|| db.close()).recv_timeout(PATIENCE).expect("the closing waits for itself").unwrap();
}

/// Regression: the file system panicked during a compaction that a caller had requested. The panic
/// unwound the caller, but the database still counted the compaction as running, so the next
/// request waited for ever. Now the database is read-only, as after a panic of a job, and the
/// request returns that error.
#[test]
fn a_panic_of_a_requested_compaction_leaves_no_call_waiting() {
    let (_, faults, fs) = faults();
    let db = builder(Arc::clone(&fs)).open().unwrap();
    for round in 0..2 {
        (0..100).for_each(|n| db.put(format!("{n:03}"), [round; 100]).unwrap());
        db.flush().unwrap();
    }
    let is_in_merge = |operation, path: &Path| {
        operation == Operation::Append && path.extension().is_some_and(|it| it == "sst")
    };
    faults.before_changes(move |_, operation, path| {
        assert!(!is_in_merge(operation, path), "a panic of the file system");
    });
    let first = db.clone();
    let panicked = thread::spawn(move || first.compact_all()).join();
    assert!(panicked.is_err(), "the merge wrote no table");
    faults.before_changes(|_, _, _| {});
    let again = db.clone();
    let again = spawn(move || again.compact_all()).recv_timeout(PATIENCE).expect("it waits");
    assert!(matches!(again, Err(Error::ReadOnly(_))), "{again:?}");
    assert_eq!(db.get("050").unwrap().unwrap(), [1; 100]);
    let closed = spawn(move || db.close()).recv_timeout(PATIENCE).expect("close waits");
    assert!(closed.is_err(), "{closed:?}");
}

//! A workload runs many times. In each run, one call to the file system fails, alone or with all
//! later calls. Another test loses power before each change of a file. No run panics or hangs. A
//! fault loses no acknowledged write, and a power loss no synced write.
//!
//! ```sh
//! MAYPOLE_FAULT_STEP=1 cargo test --release --test db faults:: -- --include-ignored --nocapture     # really every call
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::MetadataForm;
use maypole::{Compression, Db, Durability, Error};

use super::crash::{check, check_content, check_together, open_on, write};
use super::env;
use super::parts::{key, parts, tables_in_parts};

const WRITES: u64 = 120;

/// The numbers of the last write that was begun, of the last that was acknowledged, and of the last
/// that was acknowledged as synced.
#[derive(Default)]
struct Told {
    written: AtomicU64,
    acknowledged: AtomicU64,
    synced: AtomicU64,
}

/// Writes, flushes, compacts, closes and opens again, until a call fails. If a database is open
/// when the call fails, it is left in `open`.
fn work(fs: &Arc<dyn Fs>, told: &Told, open: &mut Option<Db>) -> maypole::Result<()> {
    let mut db = open.insert(open_on(Arc::clone(fs))?);
    for n in told.written.load(Ordering::SeqCst) + 1..=WRITES {
        let durability = if n % 9 == 0 { Durability::Sync } else { Durability::Buffered };
        told.written.store(n, Ordering::SeqCst);
        db.write_opt(write(n), durability)?;
        told.acknowledged.store(n, Ordering::SeqCst);
        if durability == Durability::Sync {
            told.synced.store(n, Ordering::SeqCst);
        }
        match n {
            40 => db.flush()?,
            60 => {
                open.take().expect("the database is open").close()?;
                db = open.insert(open_on(Arc::clone(fs))?);
            }
            // One `multi_get` reads many blocks, most of them for the first time since the opening.
            70 => check_together(db, n, "opened again")?,
            80 => db.compact_range(..)?,
            100 => db.wait_for_compaction()?,
            _ => {}
        }
    }
    open.take().expect("the database is open").close()
}

/// Runs the workload on a file system whose failures `fail` sets, and checks what is left. Returns
/// whether a call of the workload failed.
fn work_and_check(nth: u64, fail: impl Fn(&FaultFs), story: &str) -> bool {
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    fail(&fs);
    let (told, mut open) = (Told::default(), None);
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let failed = work(&shared, &told, &mut open).err();
    let acknowledged = told.acknowledged.load(Ordering::SeqCst);
    let written = told.written.load(Ordering::SeqCst);
    if let Some(error) = &failed {
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.contains("panicked"), "{story}: {text}");
        assert!(!matches!(error, Error::Corruption { .. }), "{story}: {text}");
    }
    if let Some(db) = open {
        // The device works again. Acknowledged writes are readable, and nothing else is visible.
        fs.heal();
        check_content(&db, acknowledged, story);
    }
    check(&mem.kill(), written, acknowledged, story);
    let synced = told.synced.load(Ordering::SeqCst);
    check(&mem.crash(nth), written, synced, &format!("{story}, then power loss"));
    failed.is_some()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn any_call_may_fail_once_or_from_then_on_and_nothing_acknowledged_is_lost() {
    let (calls, changes) = {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        work(&shared, &Told::default(), &mut None).unwrap();
        (fs.calls(Target::Any), fs.calls(Target::Changes))
    };
    assert!(calls > 300, "the workload makes {calls} calls");
    let step = env("MAYPOLE_FAULT_STEP", 4);
    let (mut runs, mut noticed) = (0, 0);
    for (kind, fault) in (0..).zip([Fault::Io, Fault::NoSpace, Fault::ShortWrite]) {
        // If `step` is above 1, only one call in `step` is made to fail. The kinds of fault begin
        // at different calls, so that most calls fail with at least one kind.
        for nth in (kind % step..calls).step_by(step as usize) {
            let once = |fs: &FaultFs| fs.fail_once(Target::Any, nth, fault);
            runs += 1;
            noticed += u64::from(work_and_check(nth, once, &format!("{fault:?} at call {nth}")));
        }
        for nth in (kind % step..changes).step_by(step as usize) {
            let from_then_on = |fs: &FaultFs| fs.fail_from(Target::Changes, nth, fault);
            let story = format!("{fault:?} from change {nth} on");
            runs += 1;
            noticed += u64::from(work_and_check(nth, from_then_on, &story));
        }
    }
    for nth in (3 % step..calls).step_by(step as usize) {
        let from_then_on = |fs: &FaultFs| fs.fail_from(Target::Any, nth, Fault::Io);
        runs += 1;
        noticed += u64::from(work_and_check(nth, from_then_on, &format!("Io from call {nth} on")));
    }
    println!(
        "{runs} runs of {calls} calls, {changes} of them changes, one in {step} failed: \
         {noticed} runs noticed, 0 panics, 0 acknowledged writes lost"
    );
    assert!(noticed > runs / 3);
}

/// Returns what `call` returns; `None` if it panics.
fn caught<T>(call: impl FnOnce() -> maypole::Result<T>) -> Option<maypole::Result<T>> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// A workload of calls of all kinds that catches panics and goes on with the next call, as long as
/// writes are accepted.
fn work_carelessly(fs: &Arc<dyn Fs>, told: &Told) {
    let Some(Ok(mut db)) = caught(|| open_on(Arc::clone(fs))) else { return };
    for n in 1..=WRITES {
        let durability = if n % 9 == 0 { Durability::Sync } else { Durability::Buffered };
        told.written.store(n, Ordering::SeqCst);
        let Some(Ok(())) = caught(|| db.write_opt(write(n), durability)) else { break };
        told.acknowledged.store(n, Ordering::SeqCst);
        if durability == Durability::Sync {
            told.synced.store(n, Ordering::SeqCst);
        }
        // The next write tells whether the database is still writable.
        let _ = caught(|| match n % 60 {
            10 | 35 => db.keyspace("k").map(drop),
            15 | 45 => db.keyspace("k").and_then(|k| k.put("in k", "")),
            20 => db.flush(),
            25 => db.keyspace("k").and_then(|k| k.flush()),
            30 | 50 => db.drop_keyspace("k").map(drop),
            40 => db.compact_range(..),
            55 => db.checkpoint(format!("/copy{n}")).map(drop),
            56 => db.apply_filter_policy().map(drop),
            57 => db.persist(),
            58 => db.wait_for_compaction(),
            _ => Ok(()),
        });
        if n == 60 {
            let _ = caught(|| db.clone().close());
            match caught(|| open_on(Arc::clone(fs))) {
                Some(Ok(opened)) => db = opened,
                _ => break,
            }
        }
    }
    let _ = caught(|| db.clone().close());
}

/// Regression: after a panic of the file system in `keyspace`, `drop_keyspace` or `persist`, writes were
/// accepted that the next opening did not find, or the database did not open. Now it is read-only after
/// a panic in any call that changes it.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn any_call_may_panic_and_nothing_acknowledged_is_lost() {
    let calls = {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let (shared, told): (Arc<dyn Fs>, _) = (Arc::new(fs.clone()), Told::default());
        work_carelessly(&shared, &told);
        assert_eq!(told.acknowledged.into_inner(), WRITES);
        fs.calls(Target::Any)
    };
    let step = env("MAYPOLE_FAULT_STEP", 4);
    let (mut runs, mut stopped) = (0, 0);
    for nth in (0..calls).step_by(step as usize) {
        let mem = MemFs::new();
        let fs = FaultFs::new(Arc::new(mem.clone()));
        fs.before_calls(Target::Any, move |number, operation, path| {
            if number == nth {
                // Without the text and the trace of `panic!`.
                resume_unwind(Box::new(format!("{operation:?} of {path:?} panics")));
            }
        });
        let (shared, told): (Arc<dyn Fs>, _) = (Arc::new(fs.clone()), Told::default());
        work_carelessly(&shared, &told);
        let [written, acknowledged, synced] =
            [told.written, told.acknowledged, told.synced].map(AtomicU64::into_inner);
        let story = format!("a panic at call {nth}");
        check(&mem.kill(), written, acknowledged, &story);
        check(&mem.crash(nth), written, synced, &format!("{story}, then power loss"));
        (runs, stopped) = (runs + 1, stopped + u64::from(acknowledged < WRITES));
    }
    println!(
        "{runs} runs with a panic at one of {calls} calls: {stopped} made the database read-only"
    );
    assert!(stopped > runs / 4, "{stopped} of {runs}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn power_may_be_lost_before_any_change() {
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let told = Arc::new(Told::default());
    let images = Arc::new(Mutex::new(Vec::new()));
    fs.before_changes({
        let (told, images) = (Arc::clone(&told), Arc::clone(&images));
        move |number, operation, path| {
            // `synced` is read before the image is taken, because the image need not have writes
            // that are acknowledged later.
            let synced = told.synced.load(Ordering::SeqCst);
            let image = mem.crash(number);
            let written = told.written.load(Ordering::SeqCst);
            let story = format!("power loss before change {number}, {operation:?} of {path:?}");
            images.lock().unwrap().push((image, written, synced, story));
        }
    });
    let shared: Arc<dyn Fs> = Arc::new(fs);
    work(&shared, &told, &mut None).unwrap();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 200, "the workload makes {} changes", images.len());

    for (image, written, synced, story) in images {
        check(&image, written, synced, &story);
    }
}

/// Repeats `work` until it succeeds. Only a lack of space may cause failures, and the lack ends
/// soon.
fn until_there_is_space<T>(story: &str, work: impl Fn() -> maypole::Result<T>) -> T {
    for _ in 0..10_000 {
        match work() {
            Ok(done) => return done,
            Err(error) => assert!(error.is_out_of_space(), "{story}: {error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{story}: there is space again, and it is not noticed");
}

/// The workload on a disk that is full from the `nth` call of `operation` on, until a little later.
fn fill_and_free(operation: Operation, nth: u64, fault: Fault) {
    let story = format!("{fault:?} from {operation:?} {nth} on, for a while");
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    fs.fail_from(Target::Only(operation), nth, fault);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while fs.faults() == 0 && !over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            // Waits, so that a second attempt fails too, and other parts of the database run out of
            // space.
            thread::sleep(Duration::from_millis(3));
            fs.heal();
        });
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        let open = || until_there_is_space(&story, || open_on(Arc::clone(&shared)));
        let mut db = open();
        for n in 1..=WRITES {
            let durability = if n % 9 == 0 { Durability::Sync } else { Durability::Buffered };
            until_there_is_space(&story, || db.write_opt(write(n), durability));
            match n {
                40 => until_there_is_space(&story, || db.flush()),
                60 => {
                    // If `close` fails for lack of space, the next opening still finds all writes.
                    if let Err(error) = db.close() {
                        assert!(error.is_out_of_space(), "{story}: {error}");
                    }
                    db = open();
                    check_content(&db, n, &story);
                }
                80 => until_there_is_space(&story, || db.compact_range(..)),
                100 => until_there_is_space(&story, || db.wait_for_compaction()),
                _ => {}
            }
        }
        check_content(&db, WRITES, &story);
        until_there_is_space(&story, || db.persist());
        check(&mem.crash(nth), WRITES, WRITES, &format!("{story}, then power loss"));
        db.close().unwrap_or_else(|error| panic!("{story}: {error}"));
        over.store(true, Ordering::SeqCst);
    });
    check(&mem.kill(), WRITES, WRITES, &story);
}

/// Regression: a disk that was full for a moment made the database read-only, although it was known
/// of each write whether it had succeeded. Now, whichever file-system call finds no space,
/// acknowledged writes stay, failed ones can be tried again, and the same database continues when
/// there is space.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_disk_may_be_full_at_any_write_and_writing_goes_on_when_there_is_space() {
    let kinds = [
        (Operation::Create, Fault::NoSpace),
        (Operation::Append, Fault::NoSpace),
        (Operation::Append, Fault::ShortWrite),
        (Operation::Flush, Fault::NoSpace),
        (Operation::Rename, Fault::NoSpace),
    ];
    let sound = FaultFs::new(Arc::new(MemFs::new()));
    let shared: Arc<dyn Fs> = Arc::new(sound.clone());
    work(&shared, &Told::default(), &mut None).unwrap();
    let step = env("MAYPOLE_FAULT_STEP", 4);
    let mut runs = 0;
    for (kind, (operation, fault)) in (0..).zip(kinds) {
        let calls = sound.calls(Target::Only(operation));
        for nth in (kind % step..calls).step_by(step as usize) {
            fill_and_free(operation, nth, fault);
            runs += 1;
        }
    }
    println!("{runs} runs of a disk that is full for a while: all went on, 0 writes lost");
}

/// The tables of the workload above are small: their filters and indexes are whole and fit into the
/// cache. Here they are in parts, or whole in a cache that is too small for them. Each read of a
/// table fails once. The call that needs the read returns the error or the right entries,
/// and the same call then returns the right entries.
#[test]
fn each_read_of_a_part_may_fail_once() {
    const KEYS: u32 = 30_000;
    for form in [MetadataForm::Parts, MetadataForm::Whole] {
        let mem: Arc<dyn Fs> = Arc::new(MemFs::new());
        let builder = |fs: &Arc<dyn Fs>, cache_bytes| {
            Db::builder("/db")
                .fs(Arc::clone(fs))
                .compression(Compression::None)
                .block_bytes(256)
                .block_cache_bytes(cache_bytes)
                .metadata(form)
        };
        {
            let db = builder(&mem, 64 << 20).open().unwrap();
            (0..KEYS).for_each(|i| db.put(key(i), i.to_le_bytes()).unwrap());
            db.compact_range(..).unwrap();
            // A newer table has every second key. A lookup of another key queries its filter first.
            (0..KEYS).step_by(2).for_each(|i| db.put(key(i), b"new").unwrap());
            db.flush().unwrap();
            assert_eq!(db.stats().files.len(), 2);
        }
        assert_eq!(tables_in_parts(&mem).0, if form == MetadataForm::Parts { 2 } else { 0 });
        let expected = |i: u32| match i % 2 {
            0 => b"new".to_vec(),
            _ => i.to_le_bytes().to_vec(),
        };
        let present: Vec<u32> = (1..KEYS).step_by(9001).collect();
        let absent = |i: u32| [&key(i)[..], b"?"].concat();
        for cache_bytes in [0, 64 << 10] {
            let (mut failed, mut harmless) = (0, 0);
            for nth in 0.. {
                let fs = FaultFs::new(Arc::clone(&mem));
                let shared: Arc<dyn Fs> = Arc::new(fs.clone());
                let db = builder(&shared, cache_bytes).open_read_only().unwrap();
                fs.fail_once(Target::Only(Operation::ReadExactAt), nth, Fault::Io);
                let mut attempt = |read: &dyn Fn() -> maypole::Result<()>| {
                    let before = fs.faults();
                    match read() {
                        Ok(()) => harmless += fs.faults() - before,
                        Err(Error::Io { .. }) if fs.faults() > before => {
                            failed += 1;
                            read().unwrap();
                        }
                        Err(error) => panic!("{form:?}, read {nth}: {error}"),
                    }
                };
                for &i in present.iter().flat_map(|i| [i; 2]) {
                    attempt(&|| {
                        assert_eq!(db.get(key(i))?.unwrap(), expected(i), "read {nth}");
                        Ok(())
                    });
                    attempt(&|| {
                        assert_eq!(db.get(absent(i))?, None, "read {nth}");
                        Ok(())
                    });
                }
                // Other keys, so that a batch reads parts that are not in memory.
                let others = (0..KEYS).step_by(4001);
                let keys: Vec<_> = others.clone().flat_map(|i| [key(i), absent(i)]).collect();
                attempt(&|| {
                    let found = db.multi_get(&keys)?;
                    let wanted = others.clone().flat_map(|i| [Some(expected(i)), None]);
                    let found = found.iter().map(|value| value.as_ref().map(|v| v.to_vec()));
                    assert!(found.eq(wanted), "read {nth}");
                    Ok(())
                });
                attempt(&|| {
                    for &i in &present {
                        let items =
                            db.range(key(i)..).take(3).collect::<maypole::Result<Vec<_>>>()?;
                        let found = items.iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
                        let wanted = (i..KEYS).take(3).map(|i| (key(i), expected(i)));
                        assert!(found.eq(wanted), "read {nth}");
                    }
                    Ok(())
                });
                if fs.faults() == 0 {
                    fs.heal();
                    let read: Vec<_> = present.iter().map(|&i| parts(&db, &key(i))).collect();
                    let has_parts = read.iter().all(|read| read.index > 2);
                    assert_eq!(has_parts, form == MetadataForm::Parts, "{form:?}: {read:?}");
                    break;
                }
            }
            // Most reads are of indexes and data blocks. A read of a filter may fail unnoticed.
            assert!(failed > 5 && harmless > 2, "{failed} and {harmless}");
        }
    }
}

//! What happens in the middle of a call: one call stands still between two of its calls of the file
//! system, and another one runs, or the file system panics there. Rules that hold for each call alone
//! must hold for both together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Compression, Db, Error, Result, Ticker, WriteBatch, WriteStall};

use super::noise;

/// How long a call may take that must not wait for the others.
const SOON: Duration = Duration::from_secs(30);

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .compression(Compression::None)
        .memtable_bytes(16 << 10)
        .block_bytes(512)
        .table_bytes(16 << 10)
        .level_base_bytes(64 << 10)
        .compaction_threads(1)
}

fn faults() -> (MemFs, FaultFs, Arc<dyn Fs>) {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem.clone()));
    (mem, faults.clone(), Arc::new(faults))
}

/// Runs `call` in a thread of its own. The receiver gets what it returns.
fn begin<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || drop(sender.send(call())));
    receiver
}

fn end<T>(call: &Receiver<T>, what: &str) -> T {
    call.recv_timeout(SOON).unwrap_or_else(|_| panic!("{what} waits"))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + 2 * SOON;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_manifest(path: &Path) -> bool {
    path.to_str().unwrap().contains("MANIFEST")
}

fn is_on(thread_name: &str) -> bool {
    thread::current().name() == Some(thread_name)
}

/// Calls pass it unless it is closed.
#[derive(Default)]
struct Gate {
    /// Whether it is closed, and whether a call waits at it.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn close(&self) {
        *self.state.lock().unwrap() = (true, false);
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        while state.0 {
            state.1 = true;
            state = self.changed.wait(state).unwrap();
        }
    }

    fn wait_for_a_call(&self, what: &str) {
        eventually(what, || self.state.lock().unwrap().1);
    }
}

/// A gate, at first open, before the calls for which `meets` holds.
fn gate(
    faults: &FaultFs,
    target: Target,
    meets: impl Fn(&Path) -> bool + Send + Sync + 'static,
) -> Arc<Gate> {
    let gate = Arc::new(Gate::default());
    let hooked = Arc::clone(&gate);
    faults.before_calls(target, move |_, _, path| {
        if meets(path) {
            hooked.pass();
        }
    });
    gate
}

/// The gate of a job that creates a table.
fn gate_of_tables(faults: &FaultFs, thread: &'static str) -> Arc<Gate> {
    gate(faults, Target::Only(Operation::Create), move |path| {
        path.extension().is_some_and(|end| end == "sst") && is_on(thread)
    })
}

/// The next call for which `meets` holds panics.
fn panic_once(
    faults: &FaultFs,
    operation: Operation,
    meets: impl Fn(&Path) -> bool + Send + Sync + 'static,
) -> Arc<AtomicBool> {
    let has_panicked = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&has_panicked);
    faults.before_calls(Target::Only(operation), move |_, _, path| {
        if meets(path) && !set.swap(true, Ordering::SeqCst) {
            panic!("a bug of the file system");
        }
    });
    has_panicked
}

/// So many files in level 0, unless compactions take them.
fn fill_level_0(db: &Db, files: u64) {
    for round in 0..files {
        (0..20).for_each(|n| db.put(format!("{n:03}-{round:03}"), noise(n, 20)).unwrap());
        db.flush().unwrap();
    }
}

fn stalls(db: &Db, ticker: Ticker) -> u64 {
    db.stats().tickers.get(ticker)
}

// -- the closing ------------------------------------------------------------------------------------

/// Regression: `close` did not wait for `keyspace`, and released the directory while that call
/// wrote a new MANIFEST. After the next owner of the directory had written and flushed, the call
/// went on and let `CURRENT` name its own MANIFEST. Then the database did not open any more.
#[test]
fn the_closing_waits_for_a_call_that_changes_a_keyspace() {
    // A new keyspace, and other options of one.
    for exists in [false, true] {
        let (_, faults, fs) = faults();
        let db = builder(&fs).open().unwrap();
        if exists {
            db.keyspace("k").unwrap();
        }
        db.persist().unwrap();
        let gate = gate(&faults, Target::Changes, is_manifest);
        gate.close();
        let changing = db.clone();
        let change = begin(move || changing.keyspace_with("k", |it| it.filter("none")).map(drop));
        gate.wait_for_a_call("the call changes the MANIFEST");
        let closing = begin(move || db.close());
        let closed = closing.recv_timeout(Duration::from_millis(300));
        assert!(closed.is_err(), "the closing does not wait");
        gate.open();
        end(&change, "the call").unwrap();
        end(&closing, "the closing").unwrap();
        assert_eq!(builder(&fs).open().unwrap().keyspaces().len(), 2);
    }
}

/// Regression: the closing kept open the tables of readers, but not those of readers of dropped
/// keyspaces. So an iterator of a dropped keyspace failed once another owner of the directory had
/// removed its tables.
#[test]
fn an_iterator_of_a_dropped_keyspace_goes_on_after_the_closing() {
    let dir = tempfile::tempdir().unwrap();
    // Many tables, and descriptors for few of them.
    let builder = || Db::builder(dir.path()).block_cache_bytes(0).max_open_files(1);
    let open = || builder().table_bytes(4 << 10).level_base_bytes(1 << 40).open().unwrap();
    for holds_handle in [false, true] {
        let db = open();
        let k = db.keyspace("k").unwrap();
        (0..1000).for_each(|n| k.put(format!("{n:04}"), noise(n, 200)).unwrap());
        k.compact_all().unwrap();
        assert!(k.stats().files.len() > 20);
        let mut entries = k.iter();
        entries.next().unwrap().unwrap();
        assert!(db.drop_keyspace("k").unwrap());
        let handle = holds_handle.then_some(k);
        db.close().unwrap();
        let next = open();
        let rest: Result<Vec<_>> = entries.collect();
        assert_eq!(rest.unwrap().len(), 999);
        drop((handle, next));
    }
}

// -- panics -----------------------------------------------------------------------------------------

/// Regression: a panic of the file system in `keyspace`, `drop_keyspace`, `persist` or `ingest`
/// left the database writable, although it was not known what was on the disk. After one in
/// `keyspace` the database did not open any more, and after one in `drop_keyspace` synced writes
/// were lost.
#[test]
fn a_panic_in_a_call_that_changes_the_database_makes_it_read_only() {
    type Call = fn(&Db) -> Result<()>;
    let calls: [(&str, Operation, &str, Call); 5] = [
        ("creation", Operation::Append, "MANIFEST", |db| db.keyspace("new").map(drop)),
        ("drop", Operation::Append, "MANIFEST", |db| db.drop_keyspace("k").map(drop)),
        ("persist", Operation::Sync, ".wal", Db::persist),
        ("flush", Operation::Create, ".wal", Db::flush),
        ("ingestion", Operation::Append, "MANIFEST", |db| db.ingest(&["/table"])),
    ];
    for (what, operation, file, call) in calls {
        let (mem, faults, fs) = faults();
        let db = builder(&fs).open().unwrap();
        let k = db.keyspace("k").unwrap();
        k.put("a", "1").unwrap();
        db.persist().unwrap();
        k.put("b", "1").unwrap();
        db.put("b", "1").unwrap();
        let options = TableOptions::default();
        let mut table = SstWriter::create_in(Arc::clone(&fs), "/table", options).unwrap();
        table.put(b"z", b"").unwrap();
        table.finish().unwrap();
        let has_panicked =
            panic_once(&faults, operation, move |path| path.to_str().unwrap().contains(file));
        assert!(catch_unwind(AssertUnwindSafe(|| call(&db))).is_err(), "{what}: no panic");
        assert!(has_panicked.load(Ordering::SeqCst));
        for error in [db.put("c", ""), k.put("c", ""), db.keyspace("other").map(drop)] {
            assert!(matches!(error, Err(Error::ReadOnly(_))), "{what}: {error:?}");
        }
        assert!(db.close().is_err(), "{what}");
        let again: Arc<dyn Fs> = Arc::new(mem);
        let db = builder(&again).open().unwrap();
        if db.keyspaces().contains(&b"k".to_vec()) {
            assert!(db.keyspace("k").unwrap().contains_key("a").unwrap(), "{what}");
        }
    }
}

/// Regression: after a panic of the file system while the timer looked whether a failed flush may
/// be tried again, there were no further looks. So writers got the error until somebody called
/// `flush`.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_panic_of_a_look_at_the_free_space_does_not_end_the_looks() {
    let (_, faults, fs) = faults();
    let db = builder(&fs).open().unwrap();
    let has_panicked = panic_once(&faults, Operation::FreeBytes, |_| is_on("maypole-timer"));
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    let failed = (0..).find_map(|n| db.put(format!("{n}"), noise(n, 1000)).err());
    assert!(failed.unwrap().is_out_of_space());
    eventually("the panic", || has_panicked.load(Ordering::SeqCst));
    faults.heal();
    eventually("a put succeeds", || db.put("x", "").is_ok());
}

// -- keyspaces and threads --------------------------------------------------------------------------

/// Regression: only a database with several keyspaces let a tree wait for its turn when all threads
/// were taken. When the last other keyspace was dropped while its compaction had the thread, the
/// compaction of `default` was forgotten: `wait_for_compaction` and stopped writers waited for
/// ever.
#[test]
fn what_became_due_during_the_compaction_of_a_dropped_keyspace_is_done() {
    for files in [6, 36] {
        let (_, faults, fs) = faults();
        let gate = gate_of_tables(&faults, "maypole-compact");
        let db = builder(&fs).open().unwrap();
        let k = db.keyspace("k").unwrap();
        gate.close();
        fill_level_0(&k, 4);
        gate.wait_for_a_call("the keyspace compacts");
        assert!(db.drop_keyspace("k").unwrap());
        fill_level_0(&db, files);
        let waiting = db.clone();
        let wait =
            begin(move || waiting.put("zzz", "").and_then(|()| waiting.wait_for_compaction()));
        thread::sleep(Duration::from_millis(100));
        gate.open();
        end(&wait, "the wait for compactions").unwrap();
    }
}

/// Regression: a keyspace left the list before the MANIFEST recorded its drop, and came back when
/// there was no space for the record. Meanwhile its turn to be flushed had passed, so `flush`
/// waited for ever, and writers were told that the keyspace was dropped.
#[test]
fn a_drop_that_finds_no_space_takes_no_turn_from_the_keyspace() {
    let (_, faults, fs) = faults();
    let (tables, manifest) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let hooked = (Arc::clone(&tables), Arc::clone(&manifest));
    faults.before_calls(Target::Any, move |_, operation, path| match operation {
        Operation::Create if is_on("maypole-flush") => hooked.0.pass(),
        Operation::Append if is_manifest(path) => hooked.1.pass(),
        _ => {}
    });
    let db = builder(&fs).open().unwrap();
    let [one, two] = ["one", "two"].map(|name| db.keyspace(name).unwrap());
    one.put("a", "1").unwrap();
    two.put("a", "1").unwrap();
    let flush = |db: &Db| {
        let db = db.clone();
        begin(move || db.flush())
    };
    tables.close();
    let first = flush(&one);
    tables.wait_for_a_call("the flush of the first keyspace");
    let second = flush(&two);
    thread::sleep(Duration::from_millis(100));
    db.persist().unwrap();
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    faults.fail_from(Target::Only(Operation::Append), 0, Fault::NoSpace);
    manifest.close();
    let dropping = db.clone();
    let dropped = begin(move || dropping.drop_keyspace("two"));
    manifest.wait_for_a_call("the drop");
    tables.open();
    assert!(end(&first, "the first flush").unwrap_err().is_out_of_space());
    assert_eq!(db.keyspaces().len(), 3, "the drop is not recorded yet");
    thread::sleep(Duration::from_millis(100));
    manifest.open();
    assert!(end(&dropped, "the drop").unwrap_err().is_out_of_space());
    faults.heal();
    let _ = end(&second, "the second flush");
    let mut batch = WriteBatch::new();
    batch.keyspace(&two).put("b", "1");
    db.write(batch).unwrap();
    two.flush().unwrap();
}

/// Regression: a write that was acknowledged between the sync of the WALs and the MANIFEST's record
/// of a new keyspace could be lost by a power loss that left the keyspace.
#[test]
fn no_power_loss_leaves_a_new_keyspace_without_an_earlier_write() {
    for is_first in [true, false] {
        let (mem, faults, fs) = faults();
        let db = builder(&fs).open().unwrap();
        if !is_first {
            db.keyspace("older").unwrap();
        }
        db.put("first", "").unwrap();
        // So that the next change of the MANIFEST is the record of the keyspace.
        db.persist().unwrap();
        let gate = gate(&faults, Target::Changes, is_manifest);
        gate.close();
        let creating = db.clone();
        let creation = begin(move || creating.keyspace("new").map(drop));
        gate.wait_for_a_call("the record");
        let writing = db.clone();
        let write = begin(move || writing.put("second", ""));
        let is_earlier = write.recv_timeout(Duration::from_millis(300)).is_ok();
        gate.open();
        end(&creation, "the creation").unwrap();
        for seed in 0..20 {
            let image: Arc<dyn Fs> = Arc::new(mem.crash(seed));
            let after = builder(&image).open().unwrap();
            assert!(after.contains_key("first").unwrap());
            assert!(!is_earlier || after.contains_key("second").unwrap(), "a hole");
        }
    }
}

/// Regression: a keyspace that a transaction had only read was dropped during its commit, and the
/// commit succeeded: its write appeared after the drop, though it had to come before it.
#[test]
fn a_transaction_notices_the_drop_of_a_keyspace_that_it_has_read() {
    let (_, faults, fs) = faults();
    let db = builder(&fs).block_cache_bytes(0).filter("none").open().unwrap();
    let locks = db.keyspace("locks").unwrap();
    locks.put("mine", "").unwrap();
    let mut transaction = db.transaction();
    assert!(transaction.keyspace(&locks).unwrap().get("mine").unwrap().is_some());
    transaction.put("y", "");
    // So that the validation reads a table.
    locks.put("a", "").unwrap();
    locks.put("z", "").unwrap();
    locks.flush().unwrap();
    let gate = gate(&faults, Target::Only(Operation::ReadExactAt), |_| true);
    gate.close();
    let commit = begin(move || transaction.commit());
    gate.wait_for_a_call("the validation reads");
    let dropping = db.clone();
    assert!(end(&begin(move || dropping.drop_keyspace("locks")), "the drop").unwrap());
    gate.open();
    let error = end(&commit, "the commit").unwrap_err();
    assert!(matches!(error, Error::KeyspaceDropped(_)), "{error}");
    assert!(!db.contains_key("y").unwrap());
}

// -- waits ------------------------------------------------------------------------------------------

/// Regression: a flush of one keyspace that succeeded ended the errors of all writers, although the
/// flushes of the others still waited for space. From then on writers waited for ever.
#[test]
fn a_small_flush_that_succeeds_does_not_let_writers_wait_for_the_others() {
    let mem = MemFs::with_capacity(4 << 20);
    let faults = FaultFs::new(Arc::new(mem.clone()));
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    let gate = gate_of_tables(&faults, "maypole-flush");
    let db = builder(&fs).open().unwrap();
    let large = |n: u32| db.keyspace_with(format!("{n}"), |it| it.memtable_bytes(1 << 20)).unwrap();
    let large: Vec<Db> = (0..4).map(large).collect();
    let small = db.keyspace("small").unwrap();
    gate.close();
    let writing = large.clone();
    let writer = begin(move || {
        let put = |n: u64| writing[n as usize % 4].put(format!("{n}"), noise(n, 1000)).err();
        (0..).find_map(put).unwrap()
    });
    gate.wait_for_a_call("a flush");
    eventually("the writer waits", || stalls(&db, Ticker::StallCount) > 0);
    let free = mem.free_bytes(Path::new("/")).unwrap().unwrap();
    let mut filler = mem.create(Path::new("/filler")).unwrap();
    filler.append(&vec![7; (free - (8 << 10)) as usize]).unwrap();
    filler.flush().unwrap();
    gate.open();
    assert!(end(&writer, "the writer").is_out_of_space());
    db.put("tiny", "").unwrap();
    end(&begin(move || db.flush()), "the small flush").unwrap();
    for db in [&large[0], &small] {
        let db = db.clone();
        let error = end(&begin(move || db.put("x", "")), "a put").unwrap_err();
        assert!(error.is_out_of_space(), "{error}");
    }
}

/// Regression: each `flush` froze the memtable although earlier ones could not be flushed. So a
/// program that flushed after each put left thousands of memtables and logs.
#[test]
fn flushes_that_fail_leave_no_more_than_a_few_memtables() {
    let (mem, faults, fs) = faults();
    let db = builder(&fs).open().unwrap();
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    for n in 0..200 {
        let _ = db.put(format!("{n}"), "");
        assert!(db.flush().unwrap_err().is_out_of_space());
    }
    let names = mem.list(Path::new("/db")).unwrap();
    let logs = names.iter().filter(|name| name.ends_with(".wal")).count();
    assert!(logs < 5, "{logs} logs");
    faults.heal();
    db.flush().unwrap();
    assert_eq!(db.len().unwrap(), 200);
}

/// Regression: a `flush` that found nothing to freeze waited until no memtable was frozen, and so
/// for all that others wrote meanwhile.
#[test]
fn a_flush_waits_only_for_what_was_written_before_it() {
    let (_, faults, fs) = faults();
    let gate = gate_of_tables(&faults, "maypole-flush");
    let db = builder(&fs).open().unwrap();
    db.put("a", "").unwrap();
    gate.close();
    let flush = || {
        let db = db.clone();
        begin(move || db.flush())
    };
    let first = flush();
    gate.wait_for_a_call("the first flush");
    let second = flush();
    thread::sleep(Duration::from_millis(100));
    // The flush of these stands still at a second table.
    db.put("b", "").unwrap();
    let third = flush();
    thread::sleep(Duration::from_millis(100));
    faults.before_calls(Target::Only(Operation::Create), |_, _, _| {});
    let later = gate_of_tables(&faults, "maypole-flush");
    later.close();
    gate.open();
    end(&first, "the first flush").unwrap();
    end(&second, "the second flush").unwrap();
    later.wait_for_a_call("the third flush");
    assert!(third.try_recv().is_err());
    later.open();
    end(&third, "the third flush").unwrap();
}

/// Regression: a delayed writer went on when the delay was over, but what it had not waited was
/// left to the next writers that were delayed. So a small put took half a minute.
#[test]
fn a_writer_leaves_no_wait_to_others_when_its_delay_is_over() {
    let (_, faults, fs) = faults();
    let gate = gate_of_tables(&faults, "maypole-compact");
    let builder = builder(&fs).memtable_bytes(64 << 20).level_base_bytes(64 << 20);
    let db = builder.table_bytes(8 << 20).open().unwrap();
    gate.close();
    fill_level_0(&db, 35);
    let before = stalls(&db, Ticker::StallCount);
    let writing = db.clone();
    let large = begin(move || {
        let mut batch = WriteBatch::new();
        for n in 0..160 {
            batch.put(format!("large{n}"), noise(n, 100_000));
        }
        writing.write(batch)
    });
    eventually("the large batch waits", || stalls(&db, Ticker::StallCount) > before);
    gate.open();
    end(&large, "the large batch").unwrap();
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    gate.close();
    fill_level_0(&db, 20);
    assert!(matches!(db.stats().write_stall, WriteStall::Delay { .. }));
    let before = stalls(&db, Ticker::StallMicros);
    db.put("small", "").unwrap();
    let waited = Duration::from_micros(stalls(&db, Ticker::StallMicros) - before);
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    gate.open();
}

/// Regression: `wait_for_compaction` let the timer look whether a failed compaction may be tried
/// again. The timer's thread may be waiting for the device of another database, and so did the
/// call.
#[test]
fn a_stalled_device_of_another_database_delays_no_wait_for_compactions() {
    let (_, stalled_faults, stalled_fs) = faults();
    let gate =
        gate(&stalled_faults, Target::Only(Operation::FreeBytes), |_| is_on("maypole-timer"));
    let stalled = builder(&stalled_fs).open().unwrap();
    stalled_faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    stalled.put("a", "").unwrap();
    gate.close();
    stalled.flush().unwrap_err();
    gate.wait_for_a_call("the timer asks for the free space");

    let (_, faults, fs) = faults();
    let compactions = gate_of_tables(&faults, "maypole-compact");
    let db = builder(&fs).open().unwrap();
    compactions.close();
    fill_level_0(&db, 5);
    compactions.wait_for_a_call("a compaction");
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    compactions.open();
    eventually("the compaction fails", || db.stats().out_of_space.is_some());
    faults.heal();
    end(&begin(move || db.wait_for_compaction()), "the wait for compactions").unwrap();
    gate.open();
}

/// Regression: while it waited for another manual compaction, `compact_all` of a tree returned the
/// failure of a flush, which it did not need.
#[test]
fn a_manual_compaction_that_waits_for_its_turn_returns_no_failure_of_a_flush() {
    let (_, faults, fs) = faults();
    let gate = gate_of_tables(&faults, "compacts");
    let db = builder(&fs).open().unwrap();
    fill_level_0(&db, 2);
    gate.close();
    let compacting = db.clone();
    let first = thread::Builder::new().name("compacts".into());
    let first = first.spawn(move || compacting.compact_all()).unwrap();
    gate.wait_for_a_call("the first compaction");
    let applying = db.clone();
    let second = begin(move || applying.apply_filter_policy());
    thread::sleep(Duration::from_millis(100));
    let failed = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&failed);
    faults.before_calls(Target::Only(Operation::Create), move |_, _, _| {
        set.fetch_or(is_on("maypole-flush"), Ordering::SeqCst);
    });
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    db.put("z", "").unwrap();
    assert!(db.flush().unwrap_err().is_out_of_space());
    assert!(failed.load(Ordering::SeqCst));
    assert!(second.recv_timeout(Duration::from_millis(100)).is_err(), "it returned already");
    faults.heal();
    gate.open();
    first.join().unwrap().unwrap();
    end(&second, "the second call").unwrap();
}

//! Several writers at once: each batch is seen whole, the batches of a writer stay in order, and no
//! writer waits for ever.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use maypole::fs::{FaultFs, Fs, MemFs, Operation};
use maypole::{Db, Durability, Error, Snapshot, Ticker, WriteBatch};

const WRITERS: u32 = 4;
const BATCHES: u32 = 400;
const FIELDS: [&str; 3] = ["first", "second", "third"];

fn open(fs: &MemFs) -> Db {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    Db::builder("/db").fs(fs).memtable_bytes(16 << 10).open().unwrap()
}

/// The number of the last batch of `writer` that the snapshot sees. Asserts that all keys of the
/// writer have the values of that batch.
fn last_batch(snapshot: &Snapshot, writer: u32) -> u32 {
    let numbers = FIELDS.map(|field| {
        let value = snapshot.get(format!("{field} of {writer}")).unwrap();
        value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
    });
    assert!(numbers.iter().all(|&number| number == numbers[0]), "half a batch: {numbers:?}");
    numbers[0]
}

#[test]
fn batches_of_concurrent_writers_are_whole_and_in_order_and_survive_a_kill() {
    let fs = MemFs::new();
    let db = open(&fs);
    let acknowledged: [AtomicU32; WRITERS as usize] = Default::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, acknowledged) = (&db, &acknowledged[writer as usize]);
                scope.spawn(move || {
                    for n in 1..=BATCHES {
                        let mut batch = WriteBatch::new();
                        FIELDS.iter().for_each(|field| {
                            batch.put(format!("{field} of {writer}"), n.to_string());
                        });
                        let sync = n % 32 == writer;
                        let durability = if sync { Durability::Sync } else { Durability::Buffered };
                        db.write_opt(batch, durability).unwrap();
                        acknowledged.store(n, Ordering::SeqCst);
                        // An acknowledged write is visible to its writer.
                        assert_eq!(last_batch(&db.snapshot(), writer), n);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut last = [0; WRITERS as usize];
            for look in 0u32.. {
                if done.load(Ordering::SeqCst) {
                    break;
                }
                let told = [0, 1, 2, 3].map(|i: usize| acknowledged[i].load(Ordering::SeqCst));
                // Every eighth look is at the database that a kill would leave, opened again. The
                // other looks are at the running database.
                let image = look.is_multiple_of(8).then(|| open(&fs.kill()));
                let snapshot = image.as_ref().unwrap_or(&db).snapshot();
                for writer in 0..WRITERS {
                    let i = writer as usize;
                    let number = last_batch(&snapshot, writer);
                    assert!(number >= told[i], "an acknowledged batch is missing");
                    // What a kill leaves may hold a batch that is in the log already, but that the
                    // running database does not show yet. So `last` counts only what snapshots of
                    // the running database have shown.
                    if image.is_none() {
                        assert!(number >= last[i], "a batch came and went");
                        last[i] = number;
                    }
                }
            }
        });
        let joined: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::SeqCst);
        joined.into_iter().for_each(|result| result.unwrap());
    });
    let tickers = db.stats().tickers;
    let batches = tickers.get(Ticker::WriteDoneBySelf) + tickers.get(Ticker::WriteDoneByOther);
    assert_eq!(batches, u64::from(WRITERS * BATCHES));
    assert_eq!(tickers.get(Ticker::NumberKeysWritten), u64::from(3 * WRITERS * BATCHES));
}

/// A database whose file system calls `hook` before it writes a record of the log.
fn hooked(mem: &MemFs, hook: impl Fn() + Send + Sync + 'static) -> Db {
    let faults = FaultFs::new(Arc::new(mem.clone()));
    let db = Db::builder("/db").fs(Arc::new(faults.clone())).open().unwrap();
    db.put("before", "value").unwrap();
    faults.before_changes(move |_, operation, path| {
        if operation == Operation::Flush && path.extension().is_some_and(|it| it == "wal") {
            hook();
        }
    });
    db
}

/// Checks a database in which a write panicked: it rejects writes, but still finds earlier ones.
/// After it is opened again, it finds them too, and accepts writes.
fn check_after_panic(db: Db, mem: &MemFs) {
    let error = db.put("later", "value").unwrap_err();
    let Error::ReadOnly(cause) = &error else { panic!("{error}") };
    assert!(matches!(&**cause, Error::Panicked(_)), "{error}");
    assert_eq!(db.get("before").unwrap().unwrap(), b"value");
    assert!(db.close().is_err());
    let again = open(mem);
    assert_eq!(again.get("before").unwrap().unwrap(), b"value");
    again.put("after", "value").unwrap();
}

/// Regression: a program's own file system panicked in a write. The next write used the log and the
/// memtable as the panic had left them. Now the database is read-only after such a panic.
#[test]
fn a_write_that_panics_latches_the_database() {
    let mem = MemFs::new();
    let db = hooked(&mem, || panic!("a bug of the caller"));
    let panic = thread::scope(|scope| scope.spawn(|| db.put("key", "value")).join().unwrap_err());
    assert_eq!(panic.downcast_ref(), Some(&"a bug of the caller"));
    check_after_panic(db, &mem);
}

/// Regression: a file system panicked while one thread wrote the batches of several threads. The
/// other threads waited for their results for ever. Now they get an error.
#[test]
fn all_whose_writes_were_taken_hear_of_a_panic() {
    let mem = MemFs::new();
    let calls = AtomicU32::new(0);
    let (says, first_writes) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let db = hooked(&mem, move || match calls.fetch_add(1, Ordering::SeqCst) {
        0 => {
            says.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap()
        }
        _ => panic!("a bug of the caller"),
    });
    let (answers, answered) = mpsc::channel();
    let write = |key: u32| {
        let (db, answers) = (db.clone(), answers.clone());
        thread::spawn(move || answers.send(db.put(key.to_string(), "value")))
    };
    let first = write(0);
    first_writes.recv_timeout(Duration::from_secs(60)).unwrap();
    let others: Vec<_> = (1..=WRITERS).map(write).collect();
    // Gives the other writers time to queue up behind the first. A writer that comes too late gets
    // the error that the database is read-only.
    thread::sleep(Duration::from_millis(50));
    go_on.send(()).unwrap();
    let heard = || answered.recv_timeout(Duration::from_secs(60)).expect("nobody waits for ever");
    // The first writer wrote before the panic, so it succeeds, but its result may arrive after the
    // errors. One of the other writers wrote for the whole group: its thread unwinds and sends no
    // result.
    let (written, failed): (Vec<_>, Vec<_>) =
        (0..WRITERS).map(|_| heard()).partition(Result::is_ok);
    assert_eq!(written.len(), 1);
    for error in failed.into_iter().map(Result::unwrap_err) {
        assert!(matches!(error, Error::Panicked(_) | Error::ReadOnly(_)), "{error}");
    }
    first.join().unwrap().unwrap();
    let unwound = others.into_iter().filter_map(|it| it.join().err()).count();
    assert_eq!(unwound, 1);
    check_after_panic(db, &mem);
}

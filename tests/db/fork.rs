//! A process forks while its threads write. The database stays that of the parent: the child can
//! neither use nor harm it, and may have databases of its own.

use std::ffi::{c_int, c_uint};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{panic, ptr, thread};

use maypole::fs::{
    DescriptorPool, FileLock, Fs, OverlappedReader, RandomAccessFile, ReadBuffer, ReadRequest,
    RealFs, WritableFile,
};
use maypole::table::{SstReader, SstWriter, TableOptions};
use maypole::{
    BlockCache, Db, DbCursor, DbIterator, Durability, Error, Slice, Snapshot, Transaction,
};

const DIRECTORY: &str = "MAYPOLE_FORK_TEST_DIRECTORY";
const WRITERS: u64 = 2;
const FORKS: u64 = 6;
/// A child that waits for a thread that it does not have is killed after this number of seconds.
const PATIENCE: c_uint = 100;

// SAFETY: the declarations of POSIX.
unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn alarm(seconds: c_uint) -> c_uint;
}

/// Everything that a child inherits.
struct Inherited {
    db: Db,
    read_only: Db,
    cache: std::sync::Arc<BlockCache>,
    snapshot: Snapshot,
    transaction: Option<Transaction>,
    iterator: DbIterator,
    fresh_iterator: DbIterator,
    cursor: DbCursor,
    backward: DbCursor,
    value: Slice,
    writer: SstWriter,
    reader: SstReader,
    pool: std::sync::Arc<DescriptorPool>,
    overlapped: OverlappedReader,
    file: std::sync::Arc<dyn RandomAccessFile>,
    log: Box<dyn WritableFile>,
    lock: Box<dyn FileLock>,
}

fn options(dir: &Path) -> maypole::Builder {
    let small = Db::builder(dir).memtable_bytes(32 << 10).table_bytes(32 << 10);
    small.publish_stats(std::time::Duration::from_millis(10))
}

fn key(writer: u64, n: u64) -> String {
    format!("{writer}/{n:08}")
}

fn forked<T>(call: &str, result: maypole::Result<T>) {
    match result {
        Err(Error::Forked) => {}
        Err(other) => panic!("{call}: {other}"),
        Ok(_) => panic!("{call} did something"),
    }
}

/// Makes every public call on what the child has inherited. Each must return [`Error::Forked`], or
/// an empty result if it cannot return an error.
fn calls(own: &mut Inherited, dir: &Path) {
    let db = &own.db;
    let keys = ["a", "b", "c"];
    forked("get", db.get("a"));
    forked("get_with", db.get_with("a", |_| ()));
    forked("contains_key", db.contains_key("a"));
    forked("explain", db.explain("a"));
    forked("multi_get", db.multi_get(&keys));
    db.multi_get_each(keys).into_iter().for_each(|got| forked("multi_get_each", got));
    forked("put", db.put("a", "b"));
    forked("delete", db.delete("a"));
    forked("delete_range", db.delete_range("a".."b"));
    forked("write_opt", db.write_opt(maypole::WriteBatch::new(), Durability::Sync));
    forked("pop_first", db.pop_first());
    forked("pop_last", db.pop_last());
    forked("clear", db.clear());
    forked("compare_and_swap", db.compare_and_swap("a", Some("b"), Some("c")));
    forked("fetch_update", db.fetch_update("a", |_| Some("b")));
    forked("update_fetch", db.update_fetch("a", |_| Some("b")));
    forked("take", db.take("a"));
    forked("persist", db.persist());
    forked("flush", db.flush());
    forked("compact_range", db.compact_range(..));
    forked("compact_all", db.compact_all());
    forked("wait_for_compaction", db.wait_for_compaction());
    forked("apply_filter_policy", db.apply_filter_policy());
    forked("warm_up", db.warm_up());
    forked("verify", db.verify());
    forked("ingest", db.ingest(&["none.sst"]));
    forked("checkpoint", db.checkpoint(dir.join("checkpoint")));
    forked("len", db.len());
    forked("is_empty", db.is_empty());
    forked("approximate_size", db.approximate_size(..));
    forked("first_key_value", db.first_key_value());
    forked("last_key_value", db.last_key_value());
    forked("iter", db.iter().next().unwrap());
    forked("range", db.range("a".."b").next().unwrap());
    forked("prefix", db.prefix("a").next_back().unwrap());
    forked("cursor", db.cursor().seek("a"));
    forked("range_cursor", db.range_cursor("0/1".."0/2").seek_to_last());
    forked("close", db.clone().close());
    assert_eq!((db.approximate_len(), db.property("rocksdb.stats")), (0, None));
    assert!(db.stats().files.is_empty() && db.path() == dir);
    forked("read-only get", own.read_only.get("a"));
    forked("read-only stats", own.read_only.verify());

    for snapshot in [&own.snapshot, &own.snapshot.clone(), &db.snapshot()] {
        forked("snapshot get", snapshot.get("a"));
        forked("snapshot multi_get", snapshot.multi_get(&keys));
        forked("snapshot explain", snapshot.explain("a"));
        forked("snapshot iter", snapshot.iter().next().unwrap());
        forked("snapshot cursor", snapshot.cursor().seek_to_first());
        forked("snapshot len", snapshot.len());
    }
    let mut transactions = vec![db.transaction()];
    transactions.extend(own.transaction.take());
    for mut tx in transactions {
        forked("transaction get", tx.get("a"));
        forked("transaction multi_get", tx.multi_get(&keys));
        forked("transaction iter", tx.iter().next().unwrap());
        forked("transaction cursor", tx.cursor().seek_to_last());
        forked("transaction pop_first", tx.pop_first());
        tx.put("a", "b");
        forked("commit", tx.commit());
    }
    let put = db.transact(|tx| -> maypole::Result<()> {
        tx.put("a", "b");
        Ok(())
    });
    forked("transact", put);
    forked("next of the iterator", own.iterator.next().unwrap());
    forked("first next of the iterator", own.fresh_iterator.next().unwrap());
    assert!(own.iterator.next().is_none());
    forked("next of the cursor", own.cursor.next());
    forked("prev of the cursor", own.backward.prev());
    for cursor in [&mut own.cursor, &mut own.backward] {
        assert!(!cursor.valid());
        forked("next", cursor.next());
        forked("prev", cursor.prev());
        forked("seek", cursor.seek("a"));
        forked("seek_for_prev", cursor.seek_for_prev("a"));
        forked("seek_to_first", cursor.seek_to_first());
        forked("seek_to_last", cursor.seek_to_last());
    }
    assert_eq!(own.value.len(), 100);

    forked("put of a table", own.writer.put(b"z", b""));
    forked("delete of a table", own.writer.delete(b"z"));
    forked("delete_range of a table", own.writer.delete_range(b"y", b"z"));
    forked("entries of a table", own.reader.entries().next_entry());
    forked("explain of a table", own.reader.explain(b"a"));
    forked("may_contain of a table", own.reader.may_contain(b"a"));
    forked("filters of a table", own.reader.filters());
    forked("verify of a table", own.reader.verify());

    forked("a cache", Db::builder(dir.join("other")).block_cache(own.cache.clone()).open());
    forked("a pool", RealFs.open_pooled(&dir.join("CURRENT"), &own.pool));
    assert_eq!((own.cache.usage(), own.pool.open_files()), (0, 0));
    let mut answers = 0;
    let requests =
        (0..2).map(|_| ReadRequest { file: &own.file, offset: 0, buffer: ReadBuffer::new(1) });
    own.overlapped.read_many(&mut requests.into_iter(), &mut |_, bytes| {
        forked("an overlapped read", bytes);
        answers += 1;
    });
    assert_eq!(answers, 2);
    forked("sync of a log", own.log.sync());
    match Db::open(dir) {
        Err(Error::Locked { path }) => assert_eq!(path, dir),
        other => panic!("the parent's directory: {other:?}"),
    }
}

/// Uses a database of the child's own: writes, flushes, compacts, reads many blocks from the device
/// at one time, closes it and opens it again.
fn own_database(dir: &Path) {
    let open = || options(dir).block_cache_bytes(64 << 10).open().unwrap();
    let db = open();
    for n in 0..3_000 {
        db.put(key(0, n), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_all().unwrap();
    db.persist().unwrap();
    let keys: Vec<_> = (0..3_000).map(|n| key(0, n)).collect();
    assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some));
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(db.len().unwrap(), 3_000));
        scope.spawn(|| assert!(db.get(key(0, 7)).unwrap().is_some()));
    });
    db.put("last", "").unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(db.verify().unwrap().strays, Vec::<String>::new());
    assert_eq!(db.len().unwrap(), 3_001);
}

/// Runs `work` in a child, and returns whether it succeeded.
fn in_child(work: impl FnOnce()) -> bool {
    // SAFETY: the child runs code of this program, and ends without returning from here.
    match unsafe { fork() } {
        0 => {
            // SAFETY: as above.
            unsafe {
                alarm(PATIENCE);
                let done = panic::catch_unwind(panic::AssertUnwindSafe(work));
                _exit(i32::from(done.is_err()))
            }
        }
        child => {
            assert!(child > 0);
            let mut status = -1;
            // SAFETY: `waitpid` writes only to `status`.
            let ended = unsafe { waitpid(child, &raw mut status, 0) };
            ended == child && status == 0
        }
    }
}

/// Runs the ignored test `half` in a new process, and returns whether it passed.
fn passes(half: &str, dir: &Path) -> bool {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", half, "--ignored", "--nocapture"]).env(DIRECTORY, dir);
    test.status().unwrap().success()
}

fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Regression: a forked child dropped its copy of the `Db` and ended. The drop unlocked the `LOCK`
/// file, which parent and child had open in common, truncated the log to the length that the child
/// knew, and deleted tables. Another process could open the directory, and later successful writes
/// of the parent were lost. In a child, `flush` waited for ever for a thread that the child did not
/// have.
///
/// Now every call in the child that returns a `Result` returns [`Error::Forked`], and dropping an
/// inherited object has no effect. For its own databases the child makes its own copies of what the
/// library keeps once per process, such as threads.
#[test]
fn a_forked_child_can_neither_use_nor_harm_what_it_inherits() {
    let dir = tempfile::tempdir().unwrap();
    assert!(passes("fork::parent", dir.path()));
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn third() {
    let Some(dir) = directory() else { return };
    assert!(matches!(Db::open(dir.join("db")), Err(Error::Locked { .. })));
    assert!(matches!(RealFs.lock(&dir.join("lock")), Err(Error::Locked { .. })));
}

fn inherit(dir: &Path) -> Inherited {
    let cache = BlockCache::new(80 << 20);
    let db = options(&dir.join("db")).block_cache(cache.clone()).open().unwrap();
    for n in 0..1_000 {
        db.put(key(9, n), [9; 100]).unwrap();
    }
    db.flush().unwrap();
    let table = dir.join("whole.sst");
    let mut writer = SstWriter::create(&table, TableOptions::default()).unwrap();
    writer.put(b"a", b"b").unwrap();
    writer.finish().unwrap();
    let mut writer =
        SstWriter::create(dir.join("unfinished.sst"), TableOptions::default()).unwrap();
    writer.put(b"a", b"b").unwrap();
    let mut iterator = db.prefix("9/");
    iterator.next().unwrap().unwrap();
    iterator.next_back().unwrap().unwrap();
    let (mut cursor, mut backward) = (db.cursor(), db.cursor());
    cursor.seek("9/").unwrap();
    backward.seek_to_last().unwrap();
    backward.prev().unwrap();
    let pool = DescriptorPool::new(100);
    let file = RealFs.open_pooled(&table, &pool).unwrap();
    let overlapped = OverlappedReader::new(&pool);
    let requests =
        (0..2).map(|n| ReadRequest { file: &file, offset: n, buffer: ReadBuffer::new(9) });
    overlapped.read_many(&mut requests.into_iter(), &mut |_, bytes| drop(bytes.unwrap()));
    let mut log = RealFs.create_log(&dir.join("log")).unwrap();
    log.append(b"begun").unwrap();
    Inherited {
        read_only: Db::open_read_only(dir.join("db")).unwrap(),
        snapshot: db.snapshot(),
        transaction: Some(db.transaction()),
        fresh_iterator: db.iter(),
        value: db.get(key(9, 5)).unwrap().unwrap(),
        reader: SstReader::open(&table).unwrap(),
        iterator,
        cursor,
        backward,
        cache,
        writer,
        pool,
        overlapped,
        file,
        log,
        lock: RealFs.lock(&dir.join("lock")).unwrap(),
        db,
    }
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn parent() {
    let Some(dir) = directory() else { return };
    let dir = &*dir;
    // The value is leaked, so that the parent's threads can borrow the database without end, while
    // each child takes its own copy out of the pointer, uses it and drops it.
    let own: &'static mut Inherited = Box::leak(Box::new(inherit(dir)));
    let own: *mut Inherited = own;
    // SAFETY: the parent's handle is not dropped before the threads have ended.
    let db: &'static Db = unsafe { &(*own).db };
    static STOP: AtomicBool = AtomicBool::new(false);
    static WRITTEN: [AtomicU64; WRITERS as usize] = [AtomicU64::new(0), AtomicU64::new(0)];
    let writers = (0..WRITERS).map(|writer| {
        thread::spawn(move || {
            for n in 0.. {
                if STOP.load(Ordering::Relaxed) {
                    return;
                }
                db.put(key(writer, n), n.to_string()).unwrap();
                WRITTEN[writer as usize].store(n + 1, Ordering::Relaxed);
                if n % 256 == 0 {
                    db.persist().unwrap();
                    let keys: Vec<_> = (0..=n).step_by(17).map(|n| key(writer, n)).collect();
                    assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some));
                    assert!(db.prefix("9/").count() == 1_000);
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for n in 0..FORKS {
        let went_well = in_child(|| {
            // SAFETY: the child has its own copy of the memory, and only one thread.
            let mut own = unsafe { ptr::read(own) };
            if n % 2 == 0 {
                own_database(&dir.join(format!("before {n}")));
            }
            calls(&mut own, &dir.join("db"));
            if n % 3 == 0 {
                // A grandchild, which inherits from the child and from the parent.
                let grandchild = own_database_of_grandchild(dir, n, &own);
                assert!(grandchild);
            }
            let Inherited { writer, lock, .. } = own;
            drop(lock);
            forked("finish of a table", writer.finish());
            own_database(&dir.join(format!("after {n}")));
        });
        assert!(went_well, "fork {n}: the child failed, or waited in vain");
        // The child's drops have released no lock: a third process finds the directory locked.
        assert!(passes("fork::third", dir));
        // And the parent continues.
        db.write_opt(maypole::WriteBatch::new(), Durability::Sync).unwrap();
        db.put(format!("fork {n}"), "").unwrap();
        db.persist().unwrap();
    }
    STOP.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    // SAFETY: the threads have ended, and the leaked handle is not used any more.
    let Inherited { db, cache, mut writer, mut log, mut cursor, value, .. } =
        unsafe { ptr::read(own) };
    cursor.next().unwrap();
    assert_eq!(cursor.key(), key(9, 1).as_bytes());
    writer.put(b"c", b"d").unwrap();
    assert_eq!(writer.finish().unwrap().entries, 2);
    log.append(b", went on").unwrap();
    drop((cursor, log, value));
    assert_eq!(std::fs::read(dir.join("log")).unwrap(), b"begun, went on");
    db.flush().unwrap();
    db.compact_all().unwrap();
    db.close().unwrap();
    drop(cache);

    let db = options(&dir.join("db")).open().unwrap();
    for writer in 0..WRITERS {
        let written = WRITTEN[writer as usize].load(Ordering::Relaxed);
        assert!(written > 100);
        for n in 0..written {
            assert_eq!(db.get(key(writer, n)).unwrap().unwrap(), n.to_string().as_bytes());
        }
    }
    assert!((0..FORKS).all(|n| db.contains_key(format!("fork {n}")).unwrap()));
    assert_eq!(db.verify().unwrap().strays, Vec::<String>::new());
}

fn own_database_of_grandchild(dir: &Path, n: u64, own: &Inherited) -> bool {
    let dir = dir.join(format!("grandchild {n}"));
    let db = Db::open(dir.join("child")).unwrap();
    db.put("a", "b").unwrap();
    let went_well = in_child(|| {
        forked("get", db.get("a"));
        forked("get", own.db.get("a"));
        own_database(&dir.join("grandchild"));
        assert!(matches!(Db::open(dir.join("child")), Err(Error::Locked { .. })));
    });
    db.put("c", "d").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.join("child")).unwrap();
    went_well && db.len().unwrap() == 2
}

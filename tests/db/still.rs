//! How much memory a suspended reader holds, and which memory. A reader is suspended while it runs
//! a callback of `get_with`, reads from a slow device, or calls `AsRef` of a key.
//!
//! The tests measure no time. They check the number of bytes that the process keeps for callbacks
//! (`Stats::held_by_readers_bytes`), and the content of the values that the callbacks read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use maypole::fs::{Fs, MemFs};
use maypole::{BlockCache, Db, Ticker};

use crate::device::{Gate, OpenedAtTheEnd, SlowFs, eventually};

const MEMTABLE_BYTES: usize = 64 << 10;
/// The bytes that are written while a reader is suspended.
const WRITTEN_BYTES: usize = 40 << 20;

/// Held bytes are counted for the whole process, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(fs: &Arc<dyn Fs>, path: &str, cache: &Arc<BlockCache>) -> Db {
    let builder = Db::builder(path).fs(Arc::clone(fs)).block_cache(Arc::clone(cache));
    builder.memtable_bytes(MEMTABLE_BYTES).block_bytes(1024).table_bytes(64 << 10).open().unwrap()
}

fn memory() -> Arc<dyn Fs> {
    Arc::new(MemFs::new())
}

/// Writes 40 MiB to the same 500 keys, and so fills hundreds of memtables.
fn write_much(db: &Db) {
    let value = vec![7; 4 << 10];
    for n in 0..WRITTEN_BYTES / value.len() {
        db.put(format!("key{:04}", n % 500), &value).unwrap();
    }
}

fn held(db: &Db) -> usize {
    db.stats().held_by_readers_bytes
}

/// Regression: a callback was suspended while 600 MB were written to another database. Memory grew
/// by 687 MB although `memtable_bytes` was 34 MB, because the guard of the lookup kept every
/// memtable and every block that the process retired. Now the callback holds only the memtable of
/// its value, and can read the value to the end although the database has retired this memtable.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_callback_in_a_memtable_that_stands_still_holds_this_memtable_and_nothing_else() {
    let _alone = alone();
    let cache = BlockCache::new(1 << 20);
    let (own, other) = (open(&memory(), "/own", &cache), open(&memory(), "/other", &cache));
    let value: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    own.put("key", &value).unwrap();
    // This runs on another thread. If the callback's thread wrongly kept its guard, a lookup on the
    // same thread would release the guard and so hide the fault.
    let goes_on = || {
        own.flush().unwrap();
        // Waits until the database has retired the callback's memtable, because only then its bytes
        // count as held. The flushes free retired memory that no reader holds.
        eventually(|| {
            other.put("key", "").unwrap();
            other.flush().unwrap();
            held(&other) > 0
        });
        write_much(&other);
        write_much(&own);
        own.flush().unwrap();
        other.flush().unwrap();
        eventually(|| held(&other) > 0);
        assert!(held(&own) <= 2 * MEMTABLE_BYTES, "{} bytes are held", held(&own));
    };
    let read = own.get_with("key", |bytes| {
        std::thread::scope(|scope| scope.spawn(goes_on).join().unwrap());
        assert_eq!(bytes, value);
        // The value is still at its address, although the memtable was replaced.
        bytes.to_vec()
    });
    assert_eq!(read.unwrap().unwrap(), value);
    eventually(|| held(&own) == 0);
}

/// A callback that reads a value in a table holds the block of the value and nothing else. It holds
/// the block also when the cache has evicted it, compactions have merged its table, and the
/// database has deleted the file.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_callback_in_a_block_that_stands_still_holds_this_block_and_nothing_else() {
    let _alone = alone();
    let cache = BlockCache::new(1 << 20);
    let (own, other) = (open(&memory(), "/own", &cache), open(&memory(), "/other", &cache));
    let value: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    own.put("key", &value).unwrap();
    own.flush().unwrap();
    own.get("key").unwrap();
    let read = own.get_with("key", |bytes| {
        write_much(&other);
        write_much(&own);
        own.put("key", "another").unwrap();
        own.compact_all().unwrap();
        (0..500).for_each(|n| drop(other.get(format!("key{n:04}")).unwrap()));
        eventually(|| held(&other) > 0);
        assert!(held(&own) < 8 << 10, "{} bytes are held", held(&own));
        assert_eq!(bytes, value);
        bytes.to_vec()
    });
    assert_eq!(read.unwrap().unwrap(), value);
    assert_eq!(own.get("key").unwrap().unwrap(), b"another");
    eventually(|| held(&own) == 0);
}

/// The cache drops the blocks of a deleted table at once, whereas other retired memory waits until
/// no lookup can use it. But the block that a callback reads stays until the callback ends.
#[test]
fn a_callback_outlives_the_table_of_its_block() {
    let _alone = alone();
    // The cache is so large that nothing is evicted.
    let db = open(&memory(), "/db", &BlockCache::new(8 << 20));
    db.put("key", vec![1; 1000]).unwrap();
    db.flush().unwrap();
    db.get("key").unwrap();
    let read = db.get_with("key", |bytes| {
        db.put("key", vec![2; 1000]).unwrap();
        db.flush().unwrap();
        db.compact_all().unwrap();
        eventually(|| {
            // At its end, a flush drops the *read states* (lists of the memtables and tables at one
            // moment) that no reader uses any more.
            db.put("other", "").unwrap();
            db.flush().unwrap();
            held(&db) > 0
        });
        assert!(held(&db) < 8 << 10, "{} bytes are held", held(&db));
        bytes.to_vec()
    });
    assert_eq!(read.unwrap().unwrap(), [1; 1000]);
    assert_eq!(db.get("key").unwrap().unwrap(), [2; 1000]);
    eventually(|| held(&db) == 0);
}

/// A callback makes a second lookup with a callback of its own. The inner callback writes so much
/// that the database retires the memtable that held both values. Both values can still be read to
/// their ends, even after the callback of a third lookup panics.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_callback_may_look_up_again_and_unwind() {
    let _alone = alone();
    let db = open(&memory(), "/db", &BlockCache::new(1 << 20));
    for n in 0..10 {
        db.put(format!("{n}"), vec![n; 500]).unwrap();
    }
    let sum = db.get_with("1", |outer| {
        let inner = db.get_with("2", |middle| {
            write_much(&db);
            db.flush().unwrap();
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                db.get_with("3", |_| panic!("in a callback")).unwrap()
            }));
            assert!(panicked.is_err());
            middle.to_vec()
        });
        assert_eq!(inner.unwrap().unwrap(), [2; 500]);
        assert_eq!(outer, [1; 500]);
        db.get_with("key0001", <[u8]>::len).unwrap().unwrap()
    });
    assert_eq!(sum.unwrap(), Some(4 << 10));
    eventually(|| held(&db) == 0);
}

/// Many threads are suspended, each in a block of its own.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn each_thread_that_stands_still_holds_one_block() {
    const THREADS: usize = 4;
    let _alone = alone();
    let cache = BlockCache::new(256 << 10);
    let db = open(&memory(), "/db", &cache);
    for n in 0..THREADS {
        db.put(format!("a{n}"), vec![n as u8; 2000]).unwrap();
    }
    db.flush().unwrap();
    (0..THREADS).for_each(|n| drop(db.get(format!("a{n}")).unwrap()));
    let (reached, done) =
        (std::sync::Barrier::new(THREADS + 1), std::sync::Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for n in 0..THREADS {
            let (db, reached, done) = (&db, &reached, &done);
            scope.spawn(move || {
                let read = db.get_with(format!("a{n}"), |bytes| {
                    reached.wait();
                    done.wait();
                    bytes.iter().all(|&byte| byte == n as u8)
                });
                assert_eq!(read.unwrap(), Some(true));
            });
        }
        reached.wait();
        write_much(&db);
        (0..THREADS).for_each(|n| db.delete(format!("a{n}")).unwrap());
        db.compact_all().unwrap();
        let bytes = held(&db);
        done.wait();
        assert!((THREADS * 2000..THREADS * 8000).contains(&bytes), "{bytes} bytes are held");
    });
    eventually(|| held(&db) == 0);
}

/// Regression: while a `get` or a `get_with` read from a slow device, no memory that the process
/// retired could be freed. So the cache kept nothing new, and memory grew. Now a lookup holds no
/// guard during a read, whether of a filter, an index or a block.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_device_that_stands_still_under_a_lookup_holds_nothing_of_another_database() {
    let _alone = alone();
    let other = open(&memory(), "/other", &BlockCache::new(1 << 20));
    write_much(&other);
    other.compact_all().unwrap();
    // The lookup reads the filter, then the index, then the block. The first `passes` of these
    // reads pass, and the next one is suspended.
    for passes in 0..3 {
        let gate = Arc::new(Gate::default());
        let slow: Arc<dyn Fs> = Arc::new(SlowFs::new(MemFs::new(), &gate));
        let own = open(&slow, "/own", &BlockCache::new(1 << 20));
        own.put("a", vec![1; 500]).unwrap();
        own.put("z", vec![2; 500]).unwrap();
        own.flush().unwrap();
        thread::scope(|scope| {
            let opened = OpenedAtTheEnd(&gate);
            gate.stop_after(passes);
            let stopped = scope.spawn(|| own.get_with("a", <[u8]>::to_vec).unwrap());
            eventually(|| gate.is_waited_at());
            // This is repeated, because guards of other tests may prevent the cache from keeping
            // blocks for a moment.
            eventually(|| {
                let mut kept = 0;
                for n in (0..500).rev() {
                    let key = format!("key{n:04}");
                    other.get(&key).unwrap().unwrap();
                    let before = misses(&other);
                    other.get(&key).unwrap().unwrap();
                    kept += usize::from(misses(&other) == before);
                }
                kept > 400
            });
            assert!(!stopped.is_finished(), "the device stands still");
            drop(opened);
            assert_eq!(stopped.join().unwrap().unwrap(), [1; 500]);
        });
    }
}

fn misses(db: &Db) -> u64 {
    db.stats().tickers.get(Ticker::BlockCacheDataMiss)
}

/// Regression: `multi_get` called `AsRef` under its guard, so a key whose `AsRef` was suspended
/// held all memory that the process retired. Now `AsRef` is called before the guard is taken.
#[test]
fn keys_that_stand_still_hold_nothing() {
    struct Key<'a>(&'a Db, &'a Db);

    impl AsRef<[u8]> for Key<'_> {
        fn as_ref(&self) -> &[u8] {
            // In debug builds, these calls also panic if this thread holds a guard.
            let Key(own, other) = self;
            other.put("k", vec![3; 100 << 10]).unwrap();
            other.flush().unwrap();
            own.flush().unwrap();
            b"key"
        }
    }

    let _alone = alone();
    let cache = BlockCache::new(1 << 20);
    let (own, other) = (open(&memory(), "/own", &cache), open(&memory(), "/other", &cache));
    own.put("key", "value").unwrap();
    let keys: Vec<_> = (0..3).map(|_| Key(&own, &other)).collect();
    let values = own.multi_get(&keys).unwrap();
    assert!(values.iter().all(|value| value.as_deref() == Some(b"value")));
    assert_eq!(held(&own), 0);
}

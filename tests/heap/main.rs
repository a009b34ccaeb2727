//! What the cache is allowed is what the heap holds. A binary of its own, since it replaces the
//! allocator and must be alone in its process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use maypole::{BlockCache, Db};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u64 = 300_000;
const MEMTABLE_BYTES: usize = 1 << 20;

/// Spreads the numbers over all 64 bits, so that neighbours lie in different blocks.
fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

#[test]
fn cache_slots_sidecars_and_open_tables_stay_within_the_capacity() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Db::builder(dir.path()).memtable_bytes(MEMTABLE_BYTES).table_bytes(256 << 10);
    {
        let db = options().open().unwrap();
        for n in 0..KEYS {
            db.put(key(n), [n as u8; 100]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        db.close().unwrap();
    }
    // What a database without tables holds: its memtable above all.
    let before = LIVE_BYTES.load(Relaxed);
    let empty_dir = tempfile::tempdir().unwrap();
    let empty = Db::builder(empty_dir.path()).memtable_bytes(MEMTABLE_BYTES).open().unwrap();
    let empty_bytes = LIVE_BYTES.load(Relaxed) - before;
    empty.close().unwrap();

    // Data is 35 MB, metadata 0.7 MB, and the forty open tables take 0.1 MB. (With tables of 1 MiB one
    // filter is 50 KB: what a load displaces is on its way out for a moment, beside what it brought in.)
    for capacity in [1 << 20, 8 << 20] {
        let before = LIVE_BYTES.load(Relaxed);
        let cache = BlockCache::new(capacity);
        let db = options().block_cache(cache.clone()).open().unwrap();
        let meet = Barrier::new(2);
        let held = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (db, meet, held) = (db.clone(), &meet, &held);
                scope.spawn(move || {
                    for n in 0..10_000 {
                        let n = n * 7919 + thread;
                        assert!(db.get(key(n % KEYS)).unwrap().is_some());
                        assert!(db.get(key(KEYS + n)).unwrap().is_none());
                        if n % 64 == thread {
                            // No load is under way.
                            meet.wait();
                            held.fetch_max(LIVE_BYTES.load(Relaxed) - before, Relaxed);
                            meet.wait();
                        }
                    }
                });
            }
        });
        let held = held.into_inner() - empty_bytes;
        assert!(held <= capacity + capacity / 20, "{held} bytes held of {capacity}");
        assert!(cache.usage() > capacity / 2);
        db.close().unwrap();
    }
}

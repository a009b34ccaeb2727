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

const MEMTABLE_BYTES: usize = 1 << 20;

/// Spreads the numbers over all 64 bits, so that neighbours lie in different blocks.
fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// Bytes of memory in mappings that were asked to be large pages (flag `hg` in
/// <https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html>): larger caches keep blocks there.
fn large_page_bytes() -> usize {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return 0 };
    let (mut total, mut resident_kb) = (0, 0);
    for line in maps.lines() {
        if let Some(kb) = line.strip_prefix("Rss:") {
            resident_kb = kb.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
        } else if line.strip_prefix("VmFlags:").is_some_and(|flags| flags.contains(" hg")) {
            total += resident_kb << 10;
        }
    }
    total
}

fn held_bytes() -> usize {
    LIVE_BYTES.load(Relaxed) + large_page_bytes()
}

/// Random lookups from two threads in a database of `keys` entries, with a cache of each capacity.
fn assert_bounded(keys: u64, value_bytes: usize, capacities: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let options = || Db::builder(dir.path()).memtable_bytes(MEMTABLE_BYTES).table_bytes(256 << 10);
    {
        let db = options().open().unwrap();
        for n in 0..keys {
            db.put(key(n), vec![n as u8; value_bytes]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        db.close().unwrap();
    }
    // What a database without tables holds: its memtable above all.
    let before = held_bytes();
    let empty_dir = tempfile::tempdir().unwrap();
    let empty = Db::builder(empty_dir.path()).memtable_bytes(MEMTABLE_BYTES).open().unwrap();
    let empty_bytes = held_bytes() - before;
    empty.close().unwrap();

    for &capacity in capacities {
        let before = held_bytes();
        let cache = BlockCache::new(capacity);
        let db = options().block_cache(cache.clone()).open().unwrap();
        let meet = Barrier::new(2);
        let held = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (db, meet, held) = (db.clone(), &meet, &held);
                scope.spawn(move || {
                    for round in 0..30_000 {
                        let n = round * 7919 + thread;
                        assert!(db.get(key(n % keys)).unwrap().is_some());
                        assert!(db.get(key(keys + n)).unwrap().is_none());
                        if round % 64 == 0 {
                            // No load is under way.
                            meet.wait();
                            // By one thread: measuring takes memory.
                            if thread == 0 {
                                held.fetch_max(held_bytes() - before, Relaxed);
                            }
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

#[test]
fn cache_slots_sidecars_and_open_tables_stay_within_the_capacity() {
    // Data is 35 MB, metadata 0.7 MB, and the forty open tables take 0.1 MB. (With tables of 1 MiB one
    // filter is 50 KB: what a load displaces is on its way out for a moment, beside what it brought in.)
    assert_bounded(300_000, 100, &[1 << 20, 8 << 20]);
    // A cache that keeps its blocks in large pages, and blocks of other sizes: one entry or two.
    assert_bounded(60_000, 2_500, &[64 << 20]);
}

//! The heap stays within its bounds: those for a cache, for a whole database, for many keyspaces, and
//! for reading hostile tables. Lookups reuse memory. The tests are a program of their own, because
//! they replace the allocator. They run one at a time.

mod budget;
mod cache;
mod hostile;
mod keyspaces;
mod misses;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The most live bytes since this was last reset.
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// How many allocations had at least [`LARGE_BYTES`] bytes.
static LARGE_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
const LARGE_BYTES: usize = 1 << 10;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live_bytes = LIVE_BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(live_bytes, Relaxed);
        LARGE_ALLOCATIONS.fetch_add(usize::from(layout.size() >= LARGE_BYTES), Relaxed);
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

/// One test at a time, because they share the counters.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resident bytes of the mappings for which large pages were requested (flag `hg` in
/// <https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html>). Large caches keep their blocks
/// there, and large memtables their entries.
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

/// The keys of adjacent numbers are far apart in the key order, so that they are in different
/// blocks.
fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

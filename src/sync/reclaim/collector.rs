//! The [`Collector`] of the process: the records of its threads, and the garbage.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;

#[cfg(not(loom))]
use super::super::PerProcess;
#[cfg(any(not(loom), test))]
use super::super::atomic::Ordering;
use super::super::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use super::super::{Mutex, barrier, lock, rank};
#[cfg(not(loom))]
use super::super::{process, thread_local};
use super::record::ThreadRecord;
use super::retired::{LentMemory, RetiredObject};

/// The state of the whole process: one set of readers, one heap of garbage. A forked child has its
/// own, because any of the parent's threads may have held a lock, and only the thread that forked
/// continues in the child.
pub(super) struct Collector {
    pub registry: Mutex<Registry, rank::Registry>,
    pub bags: Mutex<Bags, rank::Bags>,
}

pub(super) struct Registry {
    /// Every record ever created. New threads reuse the records of ended threads, so there are
    /// about as many records as the largest number of threads at one time. Records are never freed.
    pub records: Vec<&'static ThreadRecord>,
    /// Indexes into `records` that no live thread owns.
    free: Vec<usize>,
}

pub(super) struct Bags {
    pub open: Vec<RetiredObject>,
    pub open_bytes: usize,
    /// Bags in ascending order of their stamps.
    pub sealed: VecDeque<Bag>,
    /// Memory of dropped garbage that user code still reads.
    pub lent: Vec<LentMemory>,
}

pub(super) struct Bag {
    pub stamp: u64,
    pub items: Vec<RetiredObject>,
}

impl Collector {
    fn new() -> Collector {
        #[cfg(not(loom))]
        process::watch_forks(forget_thread);
        Collector {
            registry: Mutex::new(Registry { records: Vec::new(), free: Vec::new() }),
            bags: Mutex::new(Bags {
                open: Vec::new(),
                open_bytes: 0,
                sealed: VecDeque::new(),
                lent: Vec::new(),
            }),
        }
    }
}

#[cfg(not(loom))]
static COLLECTOR: PerProcess<Collector> = PerProcess::new(Collector::new);

#[cfg(loom)]
loom::lazy_static! {
    // One for each execution of a model.
    static ref COLLECTOR: Collector = Collector::new();
}

#[cfg(not(loom))]
pub(super) fn collector() -> &'static Collector {
    COLLECTOR.get()
}

#[cfg(loom)]
pub(super) fn collector() -> &'static Collector {
    &COLLECTOR
}

/// A small number that no other live thread has. Numbers of ended threads are reused: a thread that
/// takes over a number sees everything that the earlier thread did.
#[inline]
pub(crate) fn thread_index() -> usize {
    this_thread().index
}

#[cfg(not(loom))]
thread_local! {
    /// Has no destructor, so that reading it is one plain load.
    static RECORD: Cell<Option<&'static ThreadRecord>> = const { Cell::new(None) };
    /// Gives the record back when the thread ends.
    static AT_EXIT: ReleaseAtExit = const { ReleaseAtExit };
}

#[cfg(loom)]
loom::thread_local! {
    // loom destroys its statics before the thread locals, so the models end threads explicitly.
    static RECORD: Cell<Option<&'static ThreadRecord>> = Cell::new(None);
}

#[inline]
pub(super) fn this_thread() -> &'static ThreadRecord {
    // shuttle drops thread locals in the order in which they were first used.
    #[cfg(shuttle)]
    let _ = AT_EXIT.try_with(|_| ());
    match RECORD.with(Cell::get) {
        Some(record) => record,
        None => enter_thread(),
    }
}

#[cold]
fn enter_thread() -> &'static ThreadRecord {
    let record = {
        let mut registry = lock(&collector().registry);
        match registry.free.pop() {
            Some(index) => registry.records[index],
            None => {
                let record: &'static ThreadRecord = Box::leak(Box::new(ThreadRecord {
                    announced: AtomicU64::new(0),
                    marked: AtomicBool::new(!barrier::has_heavy()),
                    marked_pins: AtomicU32::new(0),
                    depth: AtomicU32::new(0),
                    lent: AtomicUsize::new(0),
                    index: registry.records.len(),
                }));
                registry.records.push(record);
                record
            }
        }
    };
    RECORD.with(|cell| cell.set(Some(record)));
    // If the destructor of another thread local runs after that of `AT_EXIT`, and pins, the thread
    // gets a second record, which is never given back. This is rare and costs one record.
    #[cfg(not(loom))]
    let _ = AT_EXIT.try_with(|_| ());
    record
}

/// Gives this thread's record to the next thread. If a guard was leaked, the record stays with the
/// dead thread for good: references taken under that guard may still be in use.
#[cfg(any(not(loom), test))]
pub(super) fn leave_thread() {
    let Some(record) = RECORD.with(Cell::take) else { return };
    if record.depth.load(Ordering::Relaxed) == 0 {
        lock(&collector().registry).free.push(record.index);
    }
}

/// Forgets the thread's record, in a forked child. When the thread next pins, it gets one of the
/// child's records. The old record belongs to the parent's collector, which the child leaks. Guards
/// from before the fork still use the old record.
#[cfg(not(loom))]
#[cfg_attr(not(unix), allow(dead_code))]
extern "C" fn forget_thread() {
    RECORD.with(|record| record.set(None));
}

#[cfg(not(loom))]
struct ReleaseAtExit;

#[cfg(not(loom))]
impl Drop for ReleaseAtExit {
    fn drop(&mut self) {
        leave_thread();
    }
}

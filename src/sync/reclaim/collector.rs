//! The [`Guard`] of a reader; the [`ThreadRecord`], in which a thread announces its guards, and the
//! global epoch; what can be [`Retired`]; and the [`Collector`] of the process: the records of its
//! threads, and the garbage.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

#[cfg(not(loom))]
use super::super::PerProcess;
use super::super::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use super::super::{Mutex, Padded, barrier, lock, rank};
#[cfg(not(loom))]
use super::super::{process, thread_local};

/// Keeps everything alive that its thread reaches through [`ArcCell`](crate::sync::ArcCell) and the
/// cache's slots. It cannot be sent to another thread. A thread may hold several guards; only the
/// outermost one counts.
pub(crate) struct Guard {
    pub(super) record: &'static ThreadRecord,
    /// Makes the guard neither `Send` nor `Sync`, because the record is its thread's.
    _on_this_thread: PhantomData<*const ()>,
}

/// Starts a lookup.
#[inline]
pub(crate) fn pin() -> Guard {
    let record = this_thread();
    let depth = record.depth.load(Ordering::Relaxed);
    record.depth.store(depth + 1, Ordering::Relaxed);
    if depth == 0 {
        record.announce();
    }
    Guard { record, _on_this_thread: PhantomData }
}

impl Guard {
    /// [`thread_index`] of the guard's thread.
    #[inline]
    pub fn thread_index(&self) -> usize {
        self.record.index
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        let depth = self.record.depth.load(Ordering::Relaxed) - 1;
        self.record.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.record.withdraw();
        }
    }
}

/// Call this before a step that may block for long. In debug builds, it panics if this thread holds
/// a guard.
#[inline]
pub(crate) fn assert_no_guard() {
    debug_assert_eq!(
        this_thread().depth.load(Ordering::Relaxed),
        0,
        "a guard would keep all that the process retires"
    );
}

/// Call this before the thread reads a file. Until the thread has pinned again, collections need no
/// barrier for it. Also calls [`assert_no_guard`] and [`rank::assert_may_wait`].
#[inline]
pub(crate) fn before_reading() {
    assert_no_guard();
    rank::assert_may_wait();
    let record = this_thread();
    // The next pin executes one fence, which is cheap compared with a system call, and clears the
    // mark.
    record.marked_pins.store(MARKED_PINS - 1, Ordering::Relaxed);
    record.marked.store(true, Ordering::Release);
}

/// The global epoch. It starts at 1, because 0 in a record means that the thread has announced
/// nothing yet. A forked child continues from its parent's value.
#[cfg(not(loom))]
pub(super) static EPOCH: Padded<AtomicU64> = Padded(AtomicU64::new(1));

#[cfg(loom)]
loom::lazy_static! {
    // One for each execution of a model.
    pub(super) static ref EPOCH: Padded<AtomicU64> = Padded(AtomicU64::new(1));
}

/// One thread's record, on cache lines of its own.
#[repr(align(128))]
pub(super) struct ThreadRecord {
    /// `epoch << 1 | held`: the epoch at which the thread took its latest outermost guard, and
    /// [`HELD`] while it holds that guard. Only the thread writes it.
    pub announced: AtomicU64,
    /// If set, each pin executes a full fence. Collectors set the mark before a heavy barrier, and
    /// the thread sets it before it reads a file. The thread clears it, or a collector whose
    /// barrier failed. On systems without a heavy barrier it is always set.
    pub marked: AtomicBool,
    /// The number of pins since a collector set the mark. If the thread sets the mark, it sets this
    /// count so high that its next pin clears the mark. No other thread uses the count, so loom
    /// does not model it.
    pub marked_pins: AtomicU32,
    /// How many guards the thread holds. Only the thread reads it.
    pub depth: AtomicU32,
    /// The address of the bytes that user code reads on this thread, or 0. Only the thread writes
    /// it. See [`super::lending`].
    pub lent: AtomicUsize,
    pub index: usize,
}

pub(super) const HELD: u64 = 1;

/// The number of pins after which a thread clears its mark. The fences of that many pins cost about
/// as much as the barrier that the next mark needs.
pub(super) const MARKED_PINS: u32 = if cfg!(loom) { 1 } else { 64 };

/// What a collector reads in a record.
#[derive(Clone, Copy)]
pub(super) struct Announcement {
    pub epoch: u64,
    pub held: bool,
}

impl ThreadRecord {
    /// Announces an outermost guard.
    #[inline]
    pub fn announce(&self) {
        // Acquire: a thread that reads epoch e + 1 sees everything unlinked before bag e was
        // sealed. Release: the accesses under this thread's previous guard are ordered before this
        // store.
        self.announced.store(EPOCH.0.load(Ordering::Acquire) << 1 | HELD, Ordering::Release);
        if barrier::light(&self.marked) {
            self.count_marked_pin();
        }
    }

    /// Announces the end of the guard, and keeps the announced epoch.
    #[inline]
    pub fn withdraw(&self) {
        self.announced.store(self.announced.load(Ordering::Relaxed) & !HELD, Ordering::Release);
    }

    #[cold]
    fn count_marked_pin(&self) {
        let pins = self.marked_pins.load(Ordering::Relaxed) + 1;
        self.marked_pins.store(pins % MARKED_PINS, Ordering::Relaxed);
        if pins == MARKED_PINS && barrier::has_heavy() {
            // This store comes after this pin's fence and before the release that ends the pin, as
            // the proof requires.
            self.marked.store(false, Ordering::Relaxed);
        }
    }

    /// Reads the announcement. Call this before [`is_marked`](ThreadRecord::is_marked), because the proof
    /// requires that the mark is read last.
    pub fn announcement(&self) -> Announcement {
        let announced = self.announced.load(Ordering::Acquire);
        Announcement { epoch: announced >> 1, held: announced & HELD != 0 }
    }

    pub fn is_marked(&self) -> bool {
        // Acquire: pairs with the release store in `before_reading`, so that the thread's accesses
        // under earlier guards happen before the drop.
        self.marked.load(Ordering::Acquire)
    }

    /// The address of the bytes that user code reads on this thread, or 0.
    pub fn lent(&self) -> usize {
        // Acquire, for the lending thread's release store: everything that this thread read before
        // it stored the value happens before the caller drops the memory.
        self.lent.load(Ordering::Acquire)
    }
}

/// An object whose drop waits for readers.
pub(super) type RetiredObject = Arc<dyn Retired>;

/// An object that can be retired.
pub(crate) trait Retired: Send + Sync + 'static {
    /// The memory that contains the byte at this address. `None` if the object does not own the
    /// byte, or if its memory is never lent.
    fn memory_at(&self, _address: usize) -> Option<OwnedMemory> {
        None
    }
}

impl Retired for () {}

/// Memory whose bytes stay in place while it has an owner.
pub(crate) struct OwnedMemory {
    pub owner: Arc<dyn Send + Sync>,
    pub heap_bytes: usize,
}

/// Memory that outlives its container because user code reads it.
pub(super) struct LentMemory {
    pub loan: Loan,
    pub memory: OwnedMemory,
}

/// The loan of a thread, whose user code reads the bytes at `address`.
pub(super) struct Loan {
    pub record: &'static ThreadRecord,
    pub address: usize,
}

impl Loan {
    pub fn is_on(&self) -> bool {
        self.record.lent() == self.address
    }
}

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

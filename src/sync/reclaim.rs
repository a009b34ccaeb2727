//! Reclamation: an object that a lock-free reader has reached stays alive until the reader is done.
//!
//! A reader holds a [`Guard`] during one lookup. A writer first *unlinks* an object, so that no new
//! reader finds it, and then [`retire`]s it. The object is dropped when every guard that was held
//! at that moment is gone.
//!
//! ```text
//! epoch     1 . . . . . 2 . . . . . . 3 . . . . . 4
//! reader A    [ active = 1 ................... ]
//! reader B                [ active = 2 .. ]
//! bag 1     x  x  x  x  |sealed 1                     waits for A; not for B, which came later
//! bag 2                   x  x  x  x  |sealed 2       waits for A and B
//! ```
//!
//! Sealing a bag of garbage ends the global epoch. The bag is stamped with that epoch. A thread's
//! record holds the epoch at which the thread pinned, or 0 while it holds no guard. [`collect`]
//! executes the heavy barrier, reads all records and drops the bags whose stamps lie below every
//! active epoch. If the records show before that that no bag can go, it saves the barrier.
//!
//! Why that is enough, for an object unlinked at U and a bag sealed with stamp e:
//!
//! - A record shows an epoch above e. The reader took it from an increment that came after U, so it
//!   sees U and never finds the object.
//! - A record shows e or less. It keeps the bag.
//! - A record still shows 0. The reader has not passed its barrier before the collector's, so its
//!   later loads see U.
//! - A record shows 0 or a later epoch because the reader has unpinned since, or pinned anew. It
//!   stored the new value with release, after its last access. The collector loads
//!   it with acquire, before the drop.
//!
//! Cost of a pin: two plain stores to a line that no other thread writes, and one load of the
//! epoch. No lock, no full fence, no write to a shared line. The reclaiming side pays
//! (`barrier.rs`).
//!
//! Alternatives. `crossbeam-epoch` fences at every pin, so neighbouring lookups cannot overlap.
//! `seize` 0.5 pins with a light barrier too, but unpins with an atomic exchange, a full fence on
//! x86; its readers drop garbage themselves, its batches are bounded by count, not by bytes, and
//! its loads are sequentially consistent, which loom cannot check. Hazard pointers need a barrier
//! for every object, this scheme needs one for each lookup.
//!
//! A guard delays the release of everything that is retired after it. Hold it for one lookup, not
//! while waiting for another thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::atomic::{AtomicU64, Ordering};
use super::{Mutex, Padded, barrier, lock};

/// An object whose drop waits for readers.
type Garbage = Arc<dyn Send + Sync>;

/// The state of the whole process: one set of readers, one heap of garbage.
struct Domain {
    /// Starts at 1: 0 in a record means "no guard".
    epoch: Padded<AtomicU64>,
    registry: Mutex<Registry>,
    garbage: Mutex<Bags>,
}

struct Registry {
    /// Every record ever made. New threads reuse those of ended ones, so there are only as many as
    /// threads ever lived at one time. Never freed.
    records: Vec<&'static Record>,
    /// Indexes into `records` that no live thread owns.
    free: Vec<usize>,
}

/// What one thread shows to collectors. Only that thread writes it.
#[repr(align(128))]
struct Record {
    /// The epoch at which the thread's outermost guard was taken; 0 while it holds none.
    active: AtomicU64,
    /// How many guards the thread holds. Only the thread reads it, so it is not part of the model.
    depth: AtomicU32,
    index: usize,
    /// [`barrier::light_needs_fence`], on the line that a pin touches anyway.
    fenced: bool,
}

struct Bags {
    open: Vec<Garbage>,
    open_bytes: usize,
    /// Stamps ascend.
    sealed: VecDeque<Bag>,
}

struct Bag {
    stamp: u64,
    items: Vec<Garbage>,
}

macro_rules! new_domain {
    () => {
        Domain {
            epoch: Padded(AtomicU64::new(1)),
            registry: Mutex::new(Registry { records: Vec::new(), free: Vec::new() }),
            garbage: Mutex::new(Bags { open: Vec::new(), open_bytes: 0, sealed: VecDeque::new() }),
        }
    };
}

#[cfg(not(loom))]
static DOMAIN: Domain = new_domain!();

#[cfg(loom)]
loom::lazy_static! {
    // One for each execution of a model.
    static ref DOMAIN: Domain = new_domain!();
}

/// Keeps alive all that its thread reaches through [`ArcCell`](super::ArcCell) and the cache's
/// slots. Stays on its thread. Guards nest; only the outermost one counts.
pub(crate) struct Guard {
    record: &'static Record,
    /// Neither `Send` nor `Sync`: the record is its thread's.
    _on_this_thread: PhantomData<*const ()>,
}

/// Starts a lookup.
#[inline]
pub(crate) fn pin() -> Guard {
    let record = this_thread();
    let depth = record.depth.load(Ordering::Relaxed);
    record.depth.store(depth + 1, Ordering::Relaxed);
    if depth == 0 {
        // Acquire: a thread that reads epoch e + 1 sees everything unlinked before bag e was
        // sealed. Release: the accesses under this thread's previous guard come before this store.
        record.active.store(DOMAIN.epoch.0.load(Ordering::Acquire), Ordering::Release);
        barrier::light(record.fenced);
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
            self.record.active.store(0, Ordering::Release);
        }
    }
}

/// Drops `object` when every guard that is held now is gone. The caller has unlinked the object: no
/// later guard can reach it.
///
/// The drop will free `heap_bytes`. If more than `limit_bytes` of garbage have gathered, this call
/// collects. A collection runs destructors: with a finite limit, hold no lock that one of them
/// could take.
pub(crate) fn retire(object: Garbage, heap_bytes: usize, limit_bytes: usize) {
    let full = {
        let mut bags = lock(&DOMAIN.garbage);
        bags.open.push(object);
        bags.open_bytes = bags.open_bytes.saturating_add(heap_bytes);
        bags.open_bytes > limit_bytes
    };
    if full {
        collect();
    }
}

/// Drops all garbage that no guard can reach, on this thread. Returns how many retired objects
/// still wait for a guard. Hold no lock that a destructor could take.
pub(crate) fn collect() -> usize {
    let (first, bound) = {
        let mut bags = lock(&DOMAIN.garbage);
        if !bags.open.is_empty() {
            // AcqRel: the unlinking of everything in the bag is published by the increment.
            let stamp = DOMAIN.epoch.0.fetch_add(1, Ordering::AcqRel);
            let items = std::mem::take(&mut bags.open);
            bags.open_bytes = 0;
            bags.sealed.push_back(Bag { stamp, items });
        }
        match (bags.sealed.front(), bags.sealed.back()) {
            (Some(first), Some(last)) => (first.stamp, last.stamp + 1),
            _ => return 0,
        }
    };
    // Bags that are sealed from here on have stamps of at least `bound`. This barrier and this scan
    // say nothing about them: they wait for another collection.
    //
    // A guard that shows without the barrier keeps its bags, barrier or not. The barrier interrupts
    // every processor, and while one thread stands still under its guard every miss of the others
    // may come here.
    let may_drop = oldest_active(bound) > first && barrier::heavy();
    let oldest_active = if may_drop { oldest_active(bound) } else { 0 };
    let mut unreachable = Vec::new();
    let waiting = {
        let mut bags = lock(&DOMAIN.garbage);
        while bags.sealed.front().is_some_and(|bag| bag.stamp < oldest_active) {
            unreachable.extend(bags.sealed.pop_front());
        }
        bags.open.len() + bags.sealed.iter().map(|bag| bag.items.len()).sum::<usize>()
    };
    drop(unreachable);
    waiting
}

/// Collects until everything that was retired before this call is out of the garbage. `false` if
/// that takes longer than `patience`: some thread holds its guard for long. Hold no guard, and no
/// lock that a destructor could take.
pub(crate) fn drain(patience: Duration) -> bool {
    let start = Instant::now();
    collect();
    // The open bag is sealed now. Later bags have stamps of at least `bound`.
    let bound = DOMAIN.epoch.0.load(Ordering::Acquire);
    loop {
        let front = lock(&DOMAIN.garbage).sealed.front().map(|bag| bag.stamp);
        if front.is_none_or(|stamp| stamp >= bound) {
            return true;
        }
        if start.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
        collect();
    }
}

/// The least epoch in which a thread is active, at most `bound`.
fn oldest_active(bound: u64) -> u64 {
    let registry = lock(&DOMAIN.registry);
    let active = registry.records.iter().map(|record| record.active.load(Ordering::Acquire));
    active.filter(|&epoch| epoch != 0).fold(bound, u64::min)
}

/// A small number that no other live thread has. Numbers of ended threads are used again: a thread
/// that takes one over sees everything that the earlier thread did.
#[inline]
pub(crate) fn thread_index() -> usize {
    this_thread().index
}

#[cfg(not(loom))]
thread_local! {
    /// Without a destructor, so that reading it is one plain load.
    static RECORD: Cell<Option<&'static Record>> = const { Cell::new(None) };
    /// Gives the record back when the thread ends.
    static AT_EXIT: ReleaseAtExit = const { ReleaseAtExit };
}

#[cfg(loom)]
loom::thread_local! {
    // loom tears its statics down before the thread locals: the models end threads by hand.
    static RECORD: Cell<Option<&'static Record>> = Cell::new(None);
}

#[inline]
fn this_thread() -> &'static Record {
    match RECORD.with(Cell::get) {
        Some(record) => record,
        None => enter_thread(),
    }
}

#[cold]
fn enter_thread() -> &'static Record {
    let record = {
        let mut registry = lock(&DOMAIN.registry);
        match registry.free.pop() {
            Some(index) => registry.records[index],
            None => {
                let record: &'static Record = Box::leak(Box::new(Record {
                    active: AtomicU64::new(0),
                    depth: AtomicU32::new(0),
                    index: registry.records.len(),
                    fenced: barrier::light_needs_fence(),
                }));
                registry.records.push(record);
                record
            }
        }
    };
    RECORD.with(|cell| cell.set(Some(record)));
    // A destructor that runs after `AT_EXIT`'s and pins gets a record that is never given back.
    // That is rare and costs one line.
    #[cfg(not(loom))]
    let _ = AT_EXIT.try_with(|_| ());
    record
}

/// Gives this thread's record to the next thread. If a guard was leaked, the record stays with the
/// dead thread for good: references taken under that guard may still be in use.
#[cfg(any(not(loom), test))]
fn leave_thread() {
    let Some(record) = RECORD.with(Cell::take) else { return };
    if record.depth.load(Ordering::Relaxed) == 0 {
        lock(&DOMAIN.registry).free.push(record.index);
    }
}

#[cfg(not(loom))]
struct ReleaseAtExit;

#[cfg(not(loom))]
impl Drop for ReleaseAtExit {
    fn drop(&mut self) {
        leave_thread();
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

//! Reclamation: an object that a lock-free reader has reached stays alive until the reader is done.
//!
//! A reader holds a [`Guard`] during one lookup. A writer first *unlinks* an object, so that no new
//! reader finds it, and then [`retire`]s it. The object is dropped when every guard that was held
//! at that moment is gone.
//!
//! ```text
//! epoch     1 . . . . . 2 . . . . . . 3 . . . . . 4
//! reader A    [ 1 ...... ]  [ 2 ................. ]      shows 2: bag 1 does not wait for it
//! reader B    [ 1 .. ]                                   shows 1 and is idle: gets a mark
//! bag 1     x  x  x  x  |sealed 1
//! bag 2                   x  x  x  x  |sealed 2          waits for A
//! ```
//!
//! Retired objects gather in an open bag. A collection seals this bag: it ends the current global
//! epoch, and stamps the bag with the epoch that ended. A thread *pins* when it takes a guard. Its
//! record announces the epoch at which it last pinned, and whether it still holds that guard. A
//! collection reads all records, and drops the bags whose stamps are below the epoch of every
//! thread that may still reach garbage. A thread that keeps doing lookups soon announces a later
//! epoch, so it does not keep a bag for long.
//!
//! The *light barrier* in a pin usually executes no fence (`barrier.rs`), so a collector may read a
//! record before the latest pin becomes visible. A thread that shows no guard but an old epoch may
//! therefore hold a guard. If such an *idle* thread keeps garbage, the collector marks its record
//! and executes the *heavy barrier*, a system call that makes all threads of the process execute a
//! fence. After that it can trust the record. A marked thread executes a fence in each pin, so
//! later collections need no barrier for it. After `MARKED_PINS` pins the thread clears the mark.
//!
//! A thread that is about to read a file will be idle meanwhile. So it marks itself
//! ([`before_reading`]), and clears this mark in its next pin. Threads whose lookups miss the cache
//! therefore cost no barriers.
//!
//! The proof that no object is dropped too early: an object is unlinked at U, and the bag that
//! holds it is sealed with stamp e. In each thread's record, a later collection finds one of the
//! following states. In each state, either the thread cannot reach the object any more, or its
//! record keeps the bag.
//!
//! - An epoch above e, held or idle. The thread read this epoch from an increment that came after
//!   U, so from there on it sees U and never finds the object. It announced the epoch with release,
//!   after its last access under older guards; the collector loads it with acquire, before the
//!   drop.
//! - An epoch of e or less, held. The record keeps the bag.
//! - An epoch of e or less, idle, after a heavy barrier. If the light barrier of the thread's next
//!   pin had come before the heavy one, the collector would have read that pin. So the light
//!   barrier comes later, and the thread's later loads see U. The end of its last guard is ordered
//!   before the drop by release and acquire, as in the first case.
//! - An epoch of e or less, idle, without a barrier, but with a mark. The collector executes a
//!   fence before it reads the records.
//!   - The next pin sees the mark, so it executes a fence. If this fence had come before the
//!     collector's, the collector would have read that pin. So the pin's fence comes later, and the
//!     thread's later loads see U.
//!   - A collector set the mark, and the next pin does not see it. This case cannot occur: that pin
//!     would have come before the barrier that followed the mark. Collectors mark, execute the
//!     barrier and read the records under one mutex, so the collector would have read that pin.
//!   - The thread marked itself, after pins that the collector may not have read yet. The thread
//!     stored the mark with release after its accesses under the guards of these pins; the
//!     collector loads the mark with acquire, before the drop. The thread's next pin sees the mark,
//!     as above.
//!   - The thread has cleared the mark. It did so under a guard, after the fence of that guard's
//!     pin. If this fence came after the collector's, the thread's later loads see U. Otherwise the
//!     collector reads that pin or a later value. If it reads the pin, the guard is held, so the
//!     record keeps the bag. If it reads a later value, it also reads that the mark is gone,
//!     because it reads the mark last; then another case of this proof applies.
//! - An epoch of e or less, idle, without a barrier and without a mark. The record keeps the bag.
//!
//! Cost of a pin: two plain stores to a line that other threads rarely write, and one load of the
//! epoch. A pin takes no lock and writes no shared line. It executes a full fence only if the
//! thread is marked. A collection costs a few loads for each thread, and a barrier if threads
//! became idle.
//!
//! Alternatives. `crossbeam-epoch` fences at every pin, so the processor cannot overlap successive
//! lookups. `seize` 0.5 pins with a light barrier too, but unpins with an atomic exchange, which is
//! a full fence on x86. Its readers drop garbage themselves, its batches are bounded by count and
//! not by bytes, and its loads are sequentially consistent, which loom cannot check. With hazard
//! pointers, a lookup announces each object that it reaches: it stores the object's address, and
//! then loads the pointer to the object again. The scheme of this file announces once for each
//! lookup, in the pin.
//!
//! A guard delays the release of everything that is retired while it is held. Hold it for one
//! lookup, but not while the thread waits for another thread or for a device. Do not hold it while
//! user code runs either: [`lending`] protects the bytes that user code reads. [`assert_no_guard`]
//! checks this where the crate reads files and calls user code.

mod collector;
mod lending;

use std::time::Duration;

use super::atomic::{Ordering, fence};
use super::time::Instant;
use super::{MutexGuard, barrier, lock, rank, thread};
use collector::{
    Announcement, Bag, Bags, EPOCH, Loan, Registry, RetiredObject, ThreadRecord, collector,
};

pub(crate) use collector::{
    Guard, OwnedMemory, Retired, assert_no_guard, before_reading, pin, thread_index,
};
pub(crate) use lending::{drop_at_once, held_by_readers};

/// Lets a collection drop `object` when every guard that is held now is gone. The caller has
/// unlinked the object, so no later guard can reach it.
///
/// The drop will free `heap_bytes`. If more than `limit_bytes` of garbage have gathered since the
/// last collection, this call collects. A collection runs destructors, so with a finite limit hold
/// no lock that one of them could take.
pub(crate) fn retire(object: RetiredObject, heap_bytes: usize, limit_bytes: usize) {
    let mut bags = lock(&collector().bags);
    bags.open.push(object);
    bags.open_bytes = bags.open_bytes.saturating_add(heap_bytes);
    if bags.open_bytes > limit_bytes {
        collect_bags(bags, 1);
    }
}

/// Drops, on this thread, all garbage that no guard can reach. Returns the number of retired
/// objects that still wait for a guard. Hold no lock that a destructor could take.
pub(crate) fn collect() -> usize {
    collect_bags(lock(&collector().bags), 0)
}

/// Like [`collect`], but executes no barrier for an idle thread that announced one of the
/// `patience` epochs that ended last. Such a thread was active a short time ago, and may announce a
/// later epoch before the next collection.
fn collect_bags(mut bags: MutexGuard<'_, Bags, rank::Bags>, patience: u64) -> usize {
    if !bags.open.is_empty() {
        // AcqRel: the increment publishes the unlinking of everything in the bag.
        let stamp = EPOCH.0.fetch_add(1, Ordering::AcqRel);
        let items = std::mem::take(&mut bags.open);
        bags.open_bytes = 0;
        bags.sealed.push_back(Bag { stamp, items });
    }
    let (Some(first), Some(last)) = (bags.sealed.front(), bags.sealed.back()) else {
        let ended = lending::take_ended(&mut bags.lent);
        drop(bags);
        drop(ended);
        return 0;
    };
    let (first, last) = (first.stamp, last.stamp);
    drop(bags);
    let (in_the_way, loans) = oldest_in_the_way(first, last, last - patience);
    let mut unreachable = Vec::new();
    let (waiting, ended) = {
        let mut bags = lock(&collector().bags);
        while bags.sealed.front().is_some_and(|bag| bag.stamp < in_the_way) {
            unreachable.extend(bags.sealed.pop_front());
        }
        let sealed = bags.sealed.iter().map(|bag| bag.items.len()).sum::<usize>();
        (bags.open.len() + sealed, lending::take_ended(&mut bags.lent))
    };
    if !loans.is_empty() {
        lending::keep(loans, unreachable.iter().flat_map(|bag| &bag.items).map(|item| &**item));
    }
    drop(unreachable);
    drop(ended);
    waiting
}

/// Returns the epoch below which bags may be dropped, and the loans of all threads ([`lending`]).
/// `first` and `last` are the stamps of the oldest and the newest sealed bag. The returned epoch is
/// the lowest that a thread which may still reach garbage has announced. It is at most `last + 1`,
/// because bags that are sealed from here on wait for another collection. Executes a barrier if the
/// epoch would otherwise be at most `urgent`, and if more bags may be dropped after the barrier.
fn oldest_in_the_way(first: u64, last: u64, urgent: u64) -> (u64, Vec<Loan>) {
    let registry = lock(&collector().registry);
    let in_the_way = oldest_in_registry(&registry, first, last, urgent);
    // Read after the announcements: see the proof in `lending`.
    (in_the_way, lending::loans(&registry))
}

fn oldest_in_registry(registry: &Registry, first: u64, last: u64, urgent: u64) -> u64 {
    let oldest = |in_the_way: fn(&ThreadRecord, Announcement) -> bool| {
        let announced = registry.records.iter().map(|record| (record, record.announcement()));
        let in_the_way = announced.filter(|&(record, announced)| in_the_way(record, announced));
        in_the_way.fold(last + 1, |oldest, (_, announced)| oldest.min(announced.epoch))
    };
    // The fence to which the proof refers. It precedes the loads of records whose marks are
    // trusted.
    fence(Ordering::SeqCst);
    let without_barrier = oldest(|record, announced| announced.held || !record.is_marked());
    if without_barrier > urgent {
        return without_barrier;
    }
    // A barrier interrupts every processor, so none is executed if it would free nothing. With or
    // without a barrier, a held guard keeps its bags. While the system suspends one thread that
    // holds a guard, every cache miss of other threads may reach this line, because it may retire a
    // block and collect.
    let held = |_: &ThreadRecord, announced: Announcement| announced.held;
    if oldest(held) <= without_barrier.max(first) {
        return without_barrier;
    }
    let mut marked_here = Vec::new();
    for record in &registry.records {
        let announced = record.announcement();
        if !announced.held && announced.epoch <= urgent && !record.is_marked() {
            record.marked.store(true, Ordering::Relaxed);
            marked_here.push(record);
        }
    }
    if barrier::heavy() {
        return oldest(held);
    }
    // No barrier followed these marks, so they prove nothing.
    for record in marked_here {
        record.marked.store(false, Ordering::Relaxed);
    }
    without_barrier
}

/// Begins a run of a schedule: no thread has announced an epoch.
#[cfg(shuttle)]
pub(super) fn begin_another() {
    EPOCH.0.store(1, Ordering::Relaxed);
}

/// Collects until no object that was retired before this call waits for a guard any more. The
/// collection of another thread may still be about to drop some of these objects. Returns `false`
/// if a guard still keeps one of them after `patience`. Hold no guard, and no lock that a
/// destructor could take.
pub(crate) fn drain(patience: Duration) -> bool {
    let start = Instant::now();
    collect();
    // The call above has sealed the open bag. Later bags have stamps of at least `bound`.
    let bound = EPOCH.0.load(Ordering::Acquire);
    loop {
        let front = lock(&collector().bags).sealed.front().map(|bag| bag.stamp);
        if front.is_none_or(|stamp| stamp >= bound) {
            return true;
        }
        if start.elapsed() >= patience {
            return false;
        }
        thread::sleep(Duration::from_micros(100));
        collect();
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

//! Tests of guards that other threads hold, of limits, of barriers, and of the indexes of threads.
//! [`super`] explains the barriers, and the marks that save them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;

use super::collector::{MARKED_PINS, this_thread};
use super::*;

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Retired for Dropped {}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn wait_for(counter: &AtomicUsize, count: usize) {
    while counter.load(Ordering::Acquire) < count {
        thread::yield_now();
    }
}

/// Collects until `done`. One collection may not be enough, because other tests of the process also
/// hold guards, each for a moment.
fn collect_until(done: impl Fn() -> bool) {
    while !done() {
        collect();
        thread::yield_now();
    }
}

#[test]
fn retired_objects_wait_for_the_outermost_guard_of_another_thread() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (pinned, wait_pinned) = mpsc::channel();
    let (unpin, wait_unpin) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let outer = pin();
        drop(pin());
        pinned.send(()).unwrap();
        wait_unpin.recv().unwrap();
        drop(outer);
    });
    wait_pinned.recv().unwrap();
    retire(Arc::new(Dropped(drops.clone())), 1, 0);
    for _ in 0..10 {
        assert!(collect() >= 1);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
    }
    unpin.send(()).unwrap();
    reader.join().unwrap();
    collect_until(|| drops.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_guard_keeps_only_what_was_retired_while_it_was_held() {
    let drops = Arc::new(AtomicUsize::new(0));
    retire(Arc::new(Dropped(drops.clone())), 1, usize::MAX);
    collect();
    let guard = pin();
    // This thread's own guard began after the bag was sealed, so it does not keep the object.
    collect_until(|| drops.load(Ordering::SeqCst) == 1);
    drop(guard);
}

/// Four threads that missed the cache on two processors were once slower than two threads. The
/// system suspended one thread under its guard, and each miss of the others executed a barrier,
/// which interrupted both processors and freed nothing. Now no barrier is executed if a guard would
/// keep all garbage nevertheless.
#[test]
fn while_a_reader_stands_still_collecting_costs_no_barrier() {
    const COLLECTIONS: usize = 1000;
    let guard = pin();
    let before = barrier::HEAVY_BARRIERS.get();
    for _ in 0..COLLECTIONS {
        retire(Arc::new(()), 1, 0);
    }
    // A collection may execute a barrier in order to drop older garbage of other tests.
    let barriers = barrier::HEAVY_BARRIERS.get() - before;
    assert!(barriers < COLLECTIONS / 2, "{barriers} barriers for nothing");
    drop(guard);
}

/// Two threads that missed a small cache were once only 1.4 times as fast as one, whereas two
/// threads that only read files were 1.9 times as fast. The reason was that each collection
/// interrupted both processors by a barrier. Now threads that keep doing lookups cost no barrier.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn readers_that_come_again_cost_no_barrier() {
    const COLLECTIONS: usize = 50;
    const ROUNDS: usize = 20;
    let (collected, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fewest = thread::scope(|scope| {
        scope.spawn(|| {
            for lookups in 1..=ROUNDS * COLLECTIONS {
                // They clear a mark that a collection has left, so no mark saves the next barrier.
                (0..=MARKED_PINS).for_each(|_| drop(pin()));
                ended.store(lookups, Ordering::Release);
                wait_for(&collected, lookups);
            }
        });
        let round = |round: usize| {
            let before = barrier::HEAVY_BARRIERS.get();
            for lookups in round * COLLECTIONS + 1..=(round + 1) * COLLECTIONS {
                wait_for(&ended, lookups);
                // The reader is idle, and has announced the epoch that this collection ends.
                retire(Arc::new(()), 1, 0);
                collected.store(lookups, Ordering::Release);
            }
            barrier::HEAVY_BARRIERS.get() - before
        };
        (0..ROUNDS).map(round).min()
    });
    // Other tests cost some barriers: their threads are idle, and their collections end epochs.
    assert!(fewest < Some(COLLECTIONS / 2), "{fewest:?} barriers in the round with the fewest");
}

/// Two threads that missed a small cache once took 1.7 times as long as with guards that were held
/// during each read. The reason was that each collection executed a barrier for the other thread,
/// which had dropped its guard in order to read. Now a thread marks itself before it reads.
#[test]
fn a_thread_that_reads_files_costs_no_barrier() {
    // A mark that a collector sets lasts `MARKED_PINS` pins, so it cannot save the barriers of a
    // whole round.
    const READS: usize = 4 * MARKED_PINS as usize;
    const ROUNDS: usize = 20;
    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fewest = thread::scope(|scope| {
        scope.spawn(|| {
            for read in 1..=ROUNDS * READS {
                drop(pin());
                before_reading();
                begun.store(read, Ordering::Release);
                wait_for(&ended, read);
            }
        });
        let round = |round: usize| {
            let before = barrier::HEAVY_BARRIERS.get();
            for read in round * READS + 1..=(round + 1) * READS {
                wait_for(&begun, read);
                for _ in 0..4 {
                    retire(Arc::new(()), 1, 0);
                }
                ended.store(read, Ordering::Release);
            }
            barrier::HEAVY_BARRIERS.get() - before
        };
        (0..ROUNDS).map(round).min()
    });
    // If `before_reading` counted pins but did not set the mark, each read would cost a barrier,
    // because the next pin would clear the mark that the collector set. Idle threads of other tests
    // cost some barriers.
    assert!(fewest < Some(READS / 2), "{fewest:?} barriers in the round with the fewest");
}

/// An example of an idle thread is a program's main thread that has filled the database and waits
/// for the other threads.
#[test]
fn an_idle_thread_costs_one_barrier_until_it_comes_again() {
    const COLLECTIONS: usize = 1000;
    let drops = Arc::new(AtomicUsize::new(0));
    let (idle, wait_idle) = mpsc::channel();
    let (wake, wait_wake) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        drop(pin());
        idle.send(()).unwrap();
        wait_wake.recv().unwrap();
        let was_marked = this_thread().is_marked();
        // Collections of other tests may mark this thread again.
        let cleared = (0..100_000).any(|_| {
            drop(pin());
            !this_thread().is_marked()
        });
        (was_marked, cleared)
    });
    wait_idle.recv().unwrap();
    let before = barrier::HEAVY_BARRIERS.get();
    for _ in 0..COLLECTIONS {
        retire(Arc::new(Dropped(drops.clone())), 1, 0);
    }
    let barriers = barrier::HEAVY_BARRIERS.get() - before;
    assert!(barriers < COLLECTIONS / 2, "{barriers} barriers for one idle thread");
    collect_until(|| drops.load(Ordering::SeqCst) == COLLECTIONS);
    wake.send(()).unwrap();
    let (was_marked, cleared) = sleeper.join().unwrap();
    assert!(was_marked);
    assert_eq!(cleared, barrier::has_heavy());
}

#[test]
fn draining_waits_for_guards_but_not_for_ever() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (pinned, wait_pinned) = mpsc::channel();
    let (unpin, wait_unpin) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let _guard = pin();
        pinned.send(()).unwrap();
        wait_unpin.recv().unwrap();
    });
    wait_pinned.recv().unwrap();
    retire(Arc::new(Dropped(drops.clone())), 1, usize::MAX);
    assert!(!drain(Duration::from_millis(5)));
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    unpin.send(()).unwrap();
    assert!(drain(Duration::from_secs(60)));
    reader.join().unwrap();
    // The collection of another test may have taken the object out of the garbage, and be about to
    // drop it.
    collect_until(|| drops.load(Ordering::SeqCst) == 1);
}

#[test]
fn garbage_is_collected_when_its_bytes_exceed_the_limit() {
    let drops = Arc::new(AtomicUsize::new(0));
    for _ in 0..100_000 {
        retire(Arc::new(Dropped(drops.clone())), 100, 1000);
        if drops.load(Ordering::SeqCst) > 0 {
            return;
        }
    }
    panic!("nothing was dropped");
}

#[test]
fn live_threads_have_distinct_indexes_and_ended_threads_give_theirs_back() {
    let alive = std::sync::Barrier::new(8);
    let round = || {
        let indexes: Vec<usize> = thread::scope(|scope| {
            let index = || {
                let index = thread_index();
                alive.wait();
                index
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(index)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: std::collections::BTreeSet<_> = indexes.iter().collect();
        assert_eq!(distinct.len(), 8);
        *indexes.iter().max().unwrap()
    };
    let highest = (0..100).map(|_| round()).max().unwrap();
    // Other tests' threads take some indexes. If the rounds did not reuse indexes, a hundred rounds
    // of 8 threads would take 800.
    assert!(highest < 400, "{highest}");
}

//! loom models of readers, writers, collectors, marks ([`super`] explains them), and threads that
//! end, in every order. The values that they read are canaries, which detect a read after their
//! drop.

use std::sync::Arc;

use loom::thread;

use super::super::canary::Canary;
use super::super::{ArcCell, check_model};
use super::collector::{leave_thread, this_thread};
use super::*;

/// A cell with one canary. The call of `collect` creates the process-wide state before the threads
/// start.
fn canary_cell() -> Arc<ArcCell<Canary>> {
    collect();
    Arc::new(ArcCell::new(Arc::new(Canary::new(0))))
}

fn read(cell: &ArcCell<Canary>) -> u64 {
    let guard = pin();
    let canary = cell.load(&guard);
    canary.touch();
    canary.id
}

/// A thread reads, calls `between` and reads again, while another thread replaces the value and
/// calls `collection`.
fn read_twice_beside_a_collection(between: fn(), collection: fn()) {
    check_model(move || {
        let cell = canary_cell();
        let reader = thread::spawn({
            let cell = cell.clone();
            move || {
                let first = read(&cell);
                between();
                assert!(read(&cell) >= first);
            }
        });
        cell.replace(Arc::new(Canary::new(1)));
        collection();
        reader.join().unwrap();
        assert_eq!(read(&cell), 1);
        assert_eq!(collect(), 0);
    });
}

#[test]
fn loom_a_reader_never_meets_a_dropped_value() {
    read_twice_beside_a_collection(
        || (),
        || {
            collect();
        },
    );
}

#[test]
fn loom_two_collectors_drop_each_value_once_and_none_too_early() {
    check_model(|| {
        let cell = canary_cell();
        let writers = [1, 2].map(|id| {
            let cell = cell.clone();
            thread::spawn(move || {
                cell.replace(Arc::new(Canary::new(id)));
                collect();
            })
        });
        read(&cell);
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(collect(), 0);
    });
}

#[test]
fn loom_a_thread_that_takes_over_a_record_is_seen_by_collectors() {
    check_model(|| {
        let cell = canary_cell();
        let readers = thread::spawn({
            let cell = cell.clone();
            move || {
                read(&cell);
                leave_thread();
                let next = thread::spawn(move || read(&cell));
                next.join().unwrap();
            }
        });
        cell.replace(Arc::new(Canary::new(1)));
        collect();
        readers.join().unwrap();
    });
}

/// Reads on a thread that was idle, while a writer retires a value and collects twice.
fn idle_reader_beside_a_collector(cell: &Arc<ArcCell<Canary>>) {
    let writer = thread::spawn({
        let cell = cell.clone();
        move || {
            cell.replace(Arc::new(Canary::new(1)));
            collect();
            collect();
        }
    });
    // The first read clears a mark, because `MARKED_PINS` is 1 in a model.
    read(cell);
    read(cell);
    writer.join().unwrap();
    assert_eq!(read(cell), 1);
}

#[test]
fn loom_a_marked_thread_needs_no_barrier_and_may_clear_its_mark() {
    check_model(|| {
        let cell = canary_cell();
        read(&cell);
        // Without a mark, this idle thread would keep the garbage. So the collection marks it, and
        // executes a barrier.
        retire(Arc::new(()), 0, usize::MAX);
        assert_eq!(collect(), 0);
        assert!(this_thread().is_marked());
        idle_reader_beside_a_collector(&cell);
        assert!(!this_thread().is_marked());
        assert_eq!(collect(), 0);
    });
}

#[test]
fn loom_a_thread_that_reads_a_file_between_its_pins_needs_no_barrier() {
    read_twice_beside_a_collection(before_reading, || {
        // The barrier fails. So the collection frees nothing, unless it can rely on the mark that
        // the thread gave itself before reading.
        barrier::HEAVY_FAILS.set(true);
        collect();
        barrier::HEAVY_FAILS.set(false);
    });
}

#[test]
fn loom_a_barrier_that_fails_frees_nothing_that_an_idle_thread_may_reach() {
    check_model(|| {
        let cell = canary_cell();
        read(&cell);
        barrier::HEAVY_FAILS.set(true);
        idle_reader_beside_a_collector(&cell);
        barrier::HEAVY_FAILS.set(false);
        assert_eq!(collect(), 0);
    });
}

/// A value with a byte that is lent to user code ([`Guard::lend`]). The canary detects a read after
/// the value was dropped.
struct Lent {
    canary: Canary,
    byte: [u8; 1],
}

/// A retired object that owns the lent memory itself, as a read state (`db/read_state.rs`) owns a
/// memtable. [`Retired::memory_at`] finds the [`Lent`] in it that has the lent byte, so that a
/// collection can keep this memory alive.
struct Holder(Arc<Lent>);

impl Holder {
    fn new(id: u64) -> Holder {
        Holder(Arc::new(Lent { canary: Canary::new(id), byte: [7] }))
    }
}

impl Retired for Holder {
    fn memory_at(&self, address: usize) -> Option<OwnedMemory> {
        let is_here = address == self.0.byte.as_ptr().addr();
        is_here.then(|| OwnedMemory { owner: self.0.clone(), heap_bytes: 1 })
    }
}

/// Like a table that holds its blocks: a collection drops only the container, whose destructor
/// drops the content with [`drop_at_once`].
struct Container(Option<Holder>);

impl Retired for Container {}

impl Drop for Container {
    fn drop(&mut self) {
        self.0.take().map(drop_at_once);
    }
}

/// Looks up the byte, and reads it as user code does.
fn read_lent<T: Retired>(cell: &ArcCell<T>, lent: fn(&T) -> &Lent) {
    let guard = pin();
    let lent = lent(cell.load(&guard));
    let read = |byte: &[u8]| {
        lent.canary.touch();
        assert_eq!(byte, [7]);
    };
    // SAFETY: only the byte and the canary are used, and both are in the memory that [`Holder`]
    // finds. A [`Container`] passes its `Holder` to [`drop_at_once`].
    unsafe { guard.lend(&lent.byte, read) }
}

/// Reads the lent byte while a writer replaces the value and collects.
fn lend_beside_a_collector<T: Retired>(new: fn() -> T, lent: fn(&T) -> &Lent) {
    check_model(move || {
        collect();
        let cell = Arc::new(ArcCell::new(Arc::new(new())));
        let reader = thread::spawn({
            let cell = cell.clone();
            move || read_lent(&cell, lent)
        });
        cell.replace(Arc::new(new()));
        collect();
        reader.join().unwrap();
        assert_eq!(collect(), 0);
        assert_eq!(held_by_readers(), 0);
    });
}

#[test]
fn loom_what_user_code_reads_outlives_its_guard() {
    lend_beside_a_collector(|| Holder::new(0), |holder| &holder.0);
}

#[test]
fn loom_what_user_code_reads_outlives_a_container_that_is_dropped_at_once() {
    fn lent(container: &Container) -> &Lent {
        &container.0.as_ref().unwrap().0
    }
    lend_beside_a_collector(|| Container(Some(Holder::new(0))), lent);
}

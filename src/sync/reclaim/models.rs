//! loom models: readers, writers, collectors, marks, and threads that end, in every order.

use loom::thread;

use super::super::canary::Canary;
use super::super::{ArcCell, check_model};
use super::*;

/// A cell of one canary, with the process-wide state made before the threads start.
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

#[test]
fn loom_a_reader_never_meets_a_dropped_value() {
    check_model(|| {
        let cell = canary_cell();
        let reader = thread::spawn({
            let cell = cell.clone();
            move || {
                let first = read(&cell);
                assert!(read(&cell) >= first);
            }
        });
        cell.replace(Arc::new(Canary::new(1)));
        collect();
        reader.join().unwrap();
        assert_eq!(read(&cell), 1);
        assert_eq!(collect(), 0);
    });
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

/// A reader that was idle, beside a writer that retires and collects twice.
fn idle_reader_beside_a_collector(cell: &Arc<ArcCell<Canary>>) {
    let writer = thread::spawn({
        let cell = cell.clone();
        move || {
            cell.replace(Arc::new(Canary::new(1)));
            collect();
            collect();
        }
    });
    // The first clears a mark.
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
        // This thread is idle, and so in the way of this garbage: it gets a mark.
        retire(Arc::new(()), 0, usize::MAX);
        assert_eq!(collect(), 0);
        assert!(this_thread().is_marked());
        idle_reader_beside_a_collector(&cell);
        assert!(!this_thread().is_marked());
        assert_eq!(collect(), 0);
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

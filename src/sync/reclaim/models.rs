//! loom models: readers, writers, collectors and threads that end, in every order.

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

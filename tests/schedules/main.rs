//! Whole small databases in schedules that a seed chooses.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --profile shuttle --package maypole \
//!     --target-dir target/shuttle --test schedules
//! ```
//!
//! | VARIABLE | DEFAULT | MEANING |
//! |---|---:|---|
//! | `MAYPOLE_SCHEDULES_SECONDS` | 20 | how long seeds are drawn |
//! | `MAYPOLE_SCHEDULES_FIRST` | 0 | the first seed |
//! | `MAYPOLE_SCHEDULES_TELL` | | if set, each act of each thread is printed |
//!
//! A seed draws a database with its options, and several *actors*, each a thread: writers, readers,
//! openings that only read, flushes, compactions, ingestions, checkpoints, images of a power loss
//! or of a killed process, faults of the file system. In the end two threads close the database at
//! the same time, and each opens it again. `maypole::schedules` chooses which thread goes on before
//! each access to what they share, so a seed replays its run. Each 16th run is made twice, and the
//! two must be the same.
//!
//! **What is checked.** Each writer has keys of its own. So a *view* of the database (a snapshot, an
//! iterator, an opening, a checkpoint, an image) must show, of each writer, what its first k writes
//! leave, where k is at least the number of writes that had been acknowledged (in an image of a power
//! loss: synced) before the view was begun, and at most the number that had been begun when it was
//! there. In every second run, the keys and accounts of odd numbers are in a second keyspace. And the
//! accounts, between which transactions move money, must have their sum.
#![cfg(shuttle)]

mod actors;
mod history;
mod setting;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use maypole::schedules;
use shuttle::thread;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

#[test]
fn no_schedule_loses_or_hides_a_write() {
    let time = Duration::from_secs(number("MAYPOLE_SCHEDULES_SECONDS", 20));
    let first = number("MAYPOLE_SCHEDULES_FIRST", 0);
    let (begun, mut steps, mut seed) = (Instant::now(), 0, first);
    while begun.elapsed() < time {
        steps += schedules::run(seed, seed % 16 == 0, move || actors::play(seed));
        seed += 1;
    }
    println!("{} schedules from seed {first}, {steps} steps: {}", seed - first, actors::counts());
}

/// A wait of an hour costs no time, and threads wake in the order of their times.
#[test]
fn sleepers_wake_in_order() {
    for seed in 0..100 {
        schedules::run(seed, true, || {
            let woken = Arc::new(Mutex::new(Vec::new()));
            let sleepers = [3600, 1, 60].map(|seconds| {
                let woken = Arc::clone(&woken);
                thread::spawn(move || {
                    schedules::sleep(Duration::from_secs(seconds));
                    woken.lock().unwrap().push(seconds);
                })
            });
            for sleeper in sleepers {
                sleeper.join().unwrap();
            }
            assert_eq!(*woken.lock().unwrap(), [1, 60, 3600]);
        });
    }
}

#[test]
#[should_panic(expected = "two runs differ")]
fn what_the_seed_does_not_decide_is_noticed() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    schedules::run(0, true, || {
        for _ in 0..RUNS.fetch_add(1, Ordering::Relaxed) {
            thread::yield_now();
        }
    });
}

//! The gain of a second reader thread, divided by the gain of a second thread of pure loads from
//! memory. The ratio is the share of the gain that the engine does not lose to cache lines that its
//! threads share.
//!
//! ```text
//! cycle     memory-1  get-1  memory-2  get-2     a slice each; every second cycle backwards
//! gain      two threads' operations a second over one thread's, of the same cycle
//! printed   medians of all cycles, and the median of the cycles' get gain / memory gain
//! ```
//!
//! A *cycle* consists of four *slices*, short stretches of time with one kind of work. Slices are
//! short, so that a disturbance of the machine affects all slices of a cycle, and there are many
//! cycles. The memory is as large as the tree's keys and values, and each load waits for the one
//! before, as the loads of a lookup do.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::engine::{Engine, Result};
use crate::keys::{Numbers, TOGETHER, mix};
use crate::memory::Memory;
use crate::server::Server;
use crate::{Options, median};

/// Operations between two readings of the clock.
const STEP: u64 = TOGETHER as u64;

/// The figures that [`run`] returns, in order.
const FIGURES: [&str; 7] =
    ["get-1 ns", "get-2 ns", "load-1 ns", "load-2 ns", "get gain", "load gain", "get / load"];

pub fn compare(options: &Options) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.as_deref().unwrap_or(scratch.path());
    print!("{:<12}", "medians");
    FIGURES.iter().for_each(|name| print!("{name:>12}"));
    println!();
    for &kind in &options.engines {
        let mut server = Server::start(kind, dir, options)?;
        server.ask("load", 1)?;
        let figures = server.ask_all("two-threads", 1)?;
        print!("{:<12}", kind.name());
        figures.iter().for_each(|figure| print!("{figure:>12.2}"));
        println!();
        server.stop()?;
        std::fs::remove_dir_all(dir.join(kind.name()))?;
    }
    Ok(())
}

/// Runs all cycles; returns the medians of [`FIGURES`].
pub fn run(engine: &Arc<dyn Engine>, options: &Options) -> Result<Vec<f64>> {
    let memory = Memory::new(options.entries as usize * (options.key_bytes + options.value_bytes));
    let load = |seed: u64, step: u64| -> Result<u64> {
        Ok(u64::from(memory.follow(mix(seed + step) as u32, step * STEP, STEP)))
    };
    let get = |seed: u64, step: u64| -> Result<u64> {
        let mut numbers = Numbers::new(seed << 32 | step);
        let mut bytes = 0;
        let keys = options.keys().random(0, options.entries, &mut numbers);
        for key in &keys.take(TOGETHER).collect::<Vec<_>>() {
            bytes += engine.get(key)?.ok_or("a present key was not found")?;
        }
        Ok(bytes as u64)
    };
    let slice = Duration::from_millis(options.slice_ms);
    let mut cycles = Vec::new();
    for cycle in 0..options.cycles {
        let mut ns = [0.0; 4];
        let mut order = [0, 1, 2, 3];
        if cycle % 2 == 1 {
            order.reverse();
        }
        for which in order {
            let threads = 1 + which as u64 / 2;
            ns[which] = match which % 2 {
                0 => ns_an_operation(threads, slice, 4 * cycle, &load)?,
                _ => ns_an_operation(threads, slice, 4 * cycle, &get)?,
            };
        }
        let [memory_1, get_1, memory_2, get_2] = ns;
        let (memory_gain, get_gain) = (memory_1 / memory_2, get_1 / get_2);
        cycles.push([
            get_1,
            get_2,
            memory_1,
            memory_2,
            get_gain,
            memory_gain,
            get_gain / memory_gain,
        ]);
    }
    Ok((0..FIGURES.len()).map(|i| median(cycles.iter().map(|cycle| cycle[i]).collect())).collect())
}

/// Repeats `step` in `threads` threads for the time of a slice. Returns the nanoseconds of an
/// operation, which are the inverse of the summed rates of the threads.
fn ns_an_operation(
    threads: u64,
    slice: Duration,
    seed: u64,
    step: &(impl Fn(u64, u64) -> Result<u64> + Sync),
) -> Result<f64> {
    let start = Barrier::new(threads as usize);
    let per_ns = std::thread::scope(|scope| -> Result<f64> {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let start = &start;
                scope.spawn(move || -> Result<f64> {
                    start.wait();
                    let began = Instant::now();
                    let mut steps = 0;
                    while began.elapsed() < slice {
                        black_box(step(seed + thread, steps)?);
                        steps += 1;
                    }
                    Ok((steps * STEP) as f64 / began.elapsed().as_nanos() as f64)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })?;
    Ok(1.0 / per_ns)
}

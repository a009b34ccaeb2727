//! The cost of memory alone: the time of a *load*, the read of one word from memory, if each load
//! waits for the result of the one before. No lookup can be faster than the loads for which it has
//! to wait. If two threads together make hardly more loads a second than one, two threads of
//! lookups that mostly wait for memory make hardly more lookups a second than one.

use std::hint::black_box;
use std::time::Instant;

use crate::keys::mix;

/// Memory to load from, filled with noise.
pub struct Memory(Vec<u32>);

impl Memory {
    pub fn new(bytes: usize) -> Memory {
        Memory((0..(bytes / 4).max(1) as u64).map(|i| mix(i) as u32).collect())
    }

    /// Makes `loads` loads, the first one from the position `at`. The loads are numbered from
    /// `first` on, because the number of a load takes part in the next position. Returns the
    /// position of the load that would follow.
    pub fn follow(&self, mut at: u32, first: u64, loads: u64) -> u32 {
        for i in first..first + loads {
            // The position depends on the value loaded last and on a counter. By the values alone,
            // the chain could return to an earlier position and run in a circle.
            let place = (u64::from(at) * self.0.len() as u64) >> 32;
            at = self.0[place as usize] ^ i as u32;
        }
        at
    }

    /// The elapsed nanoseconds of `loads` loads in each of `threads` threads at once, divided by
    /// the number of all loads.
    pub fn load_ns(&self, threads: u64, loads: u64, seed: u64) -> f64 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    black_box(self.follow(mix(seed + thread) as u32, 0, loads));
                });
            }
        });
        start.elapsed().as_nanos() as f64 / (threads * loads) as f64
    }
}

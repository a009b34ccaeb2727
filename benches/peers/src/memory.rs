//! The cost of memory itself: loads that wait for each other. No lookup can be faster than the
//! loads it has to wait for, and two threads cannot gain more than these do.

use std::hint::black_box;
use std::time::Instant;

use crate::keys::mix;

/// Memory to load from, filled with noise.
pub struct Memory(Vec<u32>);

impl Memory {
    pub fn new(bytes: usize) -> Memory {
        Memory((0..(bytes / 4).max(1) as u64).map(|i| mix(i) as u32).collect())
    }

    /// So many loads from the place `at` on, the first of which has the number `first`; where the next
    /// one would begin.
    pub fn follow(&self, mut at: u32, first: u64, loads: u64) -> u32 {
        for i in first..first + loads {
            // Where to load from depends on what was loaded; the counter breaks cycles.
            let place = (u64::from(at) * self.0.len() as u64) >> 32;
            at = self.0[place as usize] ^ i as u32;
        }
        at
    }

    /// Nanoseconds a load, of so many on each thread.
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

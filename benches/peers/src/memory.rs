//! The cost of memory itself: loads, each of which waits for the one before. No lookup can be
//! faster than the loads for which it has to wait, and two threads of lookups cannot gain more than
//! two threads of loads.

use std::hint::black_box;
use std::time::Instant;

use crate::keys::mix;

/// Memory to load from, filled with noise.
pub struct Memory(Vec<u32>);

impl Memory {
    pub fn new(bytes: usize) -> Memory {
        Memory((0..(bytes / 4).max(1) as u64).map(|i| mix(i) as u32).collect())
    }

    /// Makes `loads` loads, the first one from the position `at`. Each load has a number, from
    /// `first` on. Returns the position of the load that would follow.
    pub fn follow(&self, mut at: u32, first: u64, loads: u64) -> u32 {
        for i in first..first + loads {
            // The position depends on the loaded value; the counter breaks cycles.
            let place = (u64::from(at) * self.0.len() as u64) >> 32;
            at = self.0[place as usize] ^ i as u32;
        }
        at
    }

    /// Nanoseconds a load, of `loads` loads on each of `threads` threads.
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

//! What reading the clock costs.

use std::time::Instant;

/// Nanoseconds between two readings of the clock with nothing between them: the median of many. The
/// measured time of each lookup includes this time, so it is subtracted.
pub fn clock_ns() -> u64 {
    let mut samples: Vec<u64> =
        (0..10_001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

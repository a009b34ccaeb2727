//! What reading the clock costs.

use std::time::Instant;

/// Nanoseconds that reading the clock takes: the median time between two readings with nothing
/// between them. A measured operation lies between two readings, so this time is subtracted.
pub fn clock_ns() -> u64 {
    let mut samples: Vec<u64> =
        (0..10_001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

//! What a thread did and how long single operations took. Each thread has its own log, and the logs
//! are added up at the end.

use std::time::Instant;

use hdrhistogram::Histogram;

/// The writes of one or more threads: threads whose operations are measured, and a thread that
/// overwrites in the background of measured lookups.
#[derive(Clone, Copy, Default)]
pub struct Written {
    pub operations: u64,
    /// Bytes of the keys of all writes, deletions included, and of the values that were put.
    pub bytes: u64,
}

impl Written {
    pub fn add(&mut self, operations: u64, bytes: u64) {
        self.operations += operations;
        self.bytes += bytes;
    }
}

pub struct Log {
    pub operations: u64,
    /// Bytes of the keys and values that were written or found.
    pub bytes: u64,
    /// Lookups that found something.
    pub found: u64,
    pub written: Written,
    /// Nanoseconds of the operations that were timed.
    pub latency: Histogram<u64>,
    timed_one_in: u64,
    until_timed: u64,
    clock_ns: u64,
}

impl Log {
    /// A log that times one in `timed_one_in` operations, and subtracts the `clock_ns` that reading
    /// the clock takes.
    pub fn new(timed_one_in: u64, clock_ns: u64) -> Log {
        // Latencies of up to ten minutes, with three significant digits.
        let latency = Histogram::new_with_max(600_000_000_000, 3).expect("the bounds are in order");
        let (operations, bytes, found, written) = (0, 0, 0, Written::default());
        let until_timed = timed_one_in;
        Log { operations, bytes, found, written, latency, timed_one_in, until_timed, clock_ns }
    }

    /// Does an operation. One in `timed_one_in` operations is timed.
    #[inline]
    pub fn time<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        self.until_timed -= 1;
        if self.until_timed > 0 {
            return operation();
        }
        self.until_timed = self.timed_one_in;
        let start = Instant::now();
        let result = operation();
        let nanos = start.elapsed().as_nanos() as u64;
        self.latency.saturating_record(nanos.saturating_sub(self.clock_ns));
        result
    }

    /// The sum of this log and another.
    pub fn plus(mut self, other: Log) -> Log {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.found += other.found;
        self.written.add(other.written.operations, other.written.bytes);
        self.latency.add(&other.latency).expect("both have the same bounds");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_in_so_many_is_timed_and_all_threads_are_added_up() {
        let mut sum = Log::new(1, 0);
        for _ in 0..2 {
            let mut log = Log::new(8, 0);
            let done: u64 = (0..80).map(|i| log.time(|| i)).sum();
            assert_eq!(done, 3160);
            assert_eq!(log.latency.len(), 10);
            (log.operations, log.bytes, log.found) = (80, 8000, 60);
            sum = sum.plus(log);
        }
        assert_eq!(sum.latency.len(), 20);
        assert_eq!((sum.operations, sum.bytes, sum.found), (160, 16_000, 120));
    }
}

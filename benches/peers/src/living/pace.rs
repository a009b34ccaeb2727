//! Operations against a clock. A phase of a load ends with its last operation or when its time is
//! over, because some engines take quadratic time for some loads and would run for hours.

use std::time::{Duration, Instant};

use crate::engine::Result;

/// The number and the times of the operations of a phase.
pub struct Phase {
    pub done: u64,
    /// Nanoseconds an operation.
    pub ns: f64,
    /// Nanoseconds an operation in the first and in the last complete stretch, each a thousandth of
    /// the requested operations. If no stretch was completed, both are the mean of all operations.
    pub ns_at_start: f64,
    pub ns_at_end: f64,
}

/// Runs `operation` with the numbers from 0 on, `count` times or until `time` is over.
pub fn pace(
    time: Duration,
    count: u64,
    mut operation: impl FnMut(u64) -> Result<()>,
) -> Result<Phase> {
    let stretch = (count / 1000).max(1);
    // When each stretch began. The last element is the end of the last complete stretch.
    let mut begun = vec![Instant::now()];
    let start = begun[0];
    let mut now = start;
    let mut done = 0;
    while done < count && now - start < time {
        operation(done)?;
        done += 1;
        now = Instant::now();
        if done.is_multiple_of(stretch) {
            begun.push(now);
        }
    }
    let ns = |from: Instant, to: Instant, operations: u64| {
        (to - from).as_nanos() as f64 / operations.max(1) as f64
    };
    let whole = ns(start, now, done);
    let (ns_at_start, ns_at_end) = match begun[..] {
        [first, second, ..] => (
            ns(first, second, stretch),
            ns(begun[begun.len() - 2], begun[begun.len() - 1], stretch),
        ),
        _ => (whole, whole),
    };
    Ok(Phase { done, ns: whole, ns_at_start, ns_at_end })
}

/// A writer that is ahead of its rate sleeps for this time.
const TURN: Duration = Duration::from_millis(1);

/// Runs `operation` with the numbers from 0 up to, but not including, `count`, each as soon as it
/// is due at `per_second`, or at once if `per_second` is 0. After an operation that took long, the
/// operations that became due meanwhile follow at once, so that a stall does not reduce the work.
/// Returns how many operations ran a second.
pub fn at_rate(
    per_second: u64,
    count: u64,
    mut operation: impl FnMut(u64) -> Result<()>,
) -> Result<f64> {
    let start = Instant::now();
    for n in 0..count {
        while per_second > 0 && n as f64 > start.elapsed().as_secs_f64() * per_second as f64 {
            std::thread::sleep(TURN);
        }
        operation(n)?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_after_its_operations_or_its_time() {
        let mut sum = 0;
        let phase = pace(Duration::from_secs(600), 1000, |i| {
            sum += i;
            Ok(())
        })
        .unwrap();
        assert_eq!((phase.done, sum), (1000, 499_500));
        assert!(phase.ns > 0.0 && phase.ns_at_start > 0.0 && phase.ns_at_end > 0.0);

        let slow = |_| {
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        };
        let phase = pace(Duration::from_millis(20), 1000, slow).unwrap();
        assert!((1..=4).contains(&phase.done), "{}", phase.done);
        assert!(phase.ns >= 5e6);
    }

    #[test]
    fn operations_come_no_faster_than_their_rate_and_catch_up_after_a_stall() {
        let mut begun = Vec::new();
        let start = Instant::now();
        let achieved = at_rate(1000, 200, |n| {
            begun.push(start.elapsed());
            if n == 50 {
                std::thread::sleep(Duration::from_millis(40));
            }
            Ok(())
        })
        .unwrap();
        let due = |n: usize| Duration::from_millis(n as u64);
        assert!((0..200).all(|n| begun[n] + Duration::from_micros(10) >= due(n)), "{begun:?}");
        // The operations that the stall delayed run at once after it.
        assert!(begun[85] - begun[51] < Duration::from_millis(20), "{begun:?}");
        assert!(achieved <= 1010.0, "{achieved}");
    }
}

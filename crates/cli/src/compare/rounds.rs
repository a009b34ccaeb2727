//! Repetitions in rounds: every policy gets a turn in each round, so that other work of the machine
//! affects all of them equally. The differences between the rounds show how far a time can be
//! trusted.
//!
//! ```text
//! round 0   A B C       the work of each policy is divided between the rounds,
//! round 1   C B A       so that repetitions cost no time
//! round 2   A B C
//!
//! a figure of A:   ·  ├─ ·  · · | · · · ─┤  ·       median, and the second from either end
//! ```

use std::ops::Range;

/// How often each policy gets its turn.
pub const ROUNDS: usize = 10;

/// The order of the policies in a round. It is reversed in every second round, so that no policy
/// always follows the same other policy.
pub fn turns(round: usize, policies: usize) -> Vec<usize> {
    match round % 2 {
        0 => (0..policies).collect(),
        _ => (0..policies).rev().collect(),
    }
}

/// A round's part of `work` lookups.
pub fn part(round: usize, work: usize) -> Range<usize> {
    work * round / ROUNDS..work * (round + 1) / ROUNDS
}

/// The median of repetitions, and an interval that contains the true median with a confidence of at
/// least 95 %, whatever the distribution is. For ten repetitions the interval goes from the second
/// lowest to the second highest (97.9 %). For fewer than nine it is the whole range; for fewer than
/// six the confidence is lower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeated {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Repeated {
    pub fn of(figures: &[f64]) -> Repeated {
        let mut sorted = figures.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return Repeated { median: 0.0, low: 0.0, high: 0.0 };
        }
        let left_out = usize::from(n >= 9);
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Repeated { median, low: sorted[left_out], high: sorted[n - 1 - left_out] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_on_either_side_changes_no_interval() {
        let rounds = [5.0, 1.0, 6.0, 900.0, 4.0, 5.5, 4.5, 6.5, 5.2, 4.8];
        assert_eq!(Repeated::of(&rounds), Repeated { median: 5.1, low: 4.0, high: 6.5 });
        assert_eq!(Repeated::of(&[3.0, 1.0]), Repeated { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Repeated::of(&[]).median, 0.0);
    }

    #[test]
    fn rounds_divide_all_the_work_between_all_policies() {
        let parts: Vec<usize> = (0..ROUNDS).flat_map(|round| part(round, 37)).collect();
        assert_eq!(parts, (0..37).collect::<Vec<_>>());
        assert_eq!((turns(0, 3), turns(1, 3)), (vec![0, 1, 2], vec![2, 1, 0]));
    }
}

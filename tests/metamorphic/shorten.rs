//! Shortens a failing program to the fewest operations that still fail.
//!
//! First, pieces of the list of operations are left out, from large ones to single operations
//! (Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, 2002). Then each
//! operation, and the options of each opening, are replaced by simpler ones. Both are repeated until
//! nothing can be left out, or the time is over.
//!
//! Compactions run at the same time as the operations, so a program may fail in some of its runs
//! only. Therefore each candidate is run several times, unless compactions are waited for.

use std::time::{Duration, Instant};

use super::operation::{Operation, Program};
use super::run::{Failure, run};

/// How often a candidate is run before it counts as sound.
const ATTEMPTS: u32 = 3;

struct Shortening {
    shortest: Program,
    failure: Failure,
    deadline: Instant,
}

/// The shortest program that was found within `time`, and how it fails.
pub fn shorten(program: &Program, failure: Failure, time: Duration) -> (Program, Failure) {
    let mut shortening =
        Shortening { shortest: program.clone(), failure, deadline: Instant::now() + time };
    shortening.cut();
    loop {
        let before = shortening.shortest.clone();
        shortening.leave_out();
        shortening.simplify();
        let is_stable = format!("{before:?}") == format!("{:?}", shortening.shortest);
        if is_stable || shortening.is_over() {
            return (shortening.shortest, shortening.failure);
        }
    }
}

impl Shortening {
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// What follows the failing operation is not needed.
    fn cut(&mut self) {
        let end = (self.failure.at + 1).min(self.shortest.operations.len());
        self.shortest.operations.truncate(end);
    }

    /// Takes the candidate if it fails too.
    fn attempt(&mut self, candidate: Program) -> bool {
        let attempts = if candidate.is_calm { 1 } else { ATTEMPTS };
        for _ in 0..attempts {
            if self.is_over() {
                return false;
            }
            if let Err(failure) = run(&candidate) {
                (self.shortest, self.failure) = (candidate, failure);
                self.cut();
                return true;
            }
        }
        false
    }

    fn leave_out(&mut self) {
        let mut piece = self.shortest.operations.len().div_ceil(2);
        while piece > 0 {
            let mut start = 0;
            while start < self.shortest.operations.len() {
                let mut candidate = self.shortest.clone();
                let end = (start + piece).min(candidate.operations.len());
                candidate.operations.drain(start..end);
                if !self.attempt(candidate) {
                    start += piece;
                }
            }
            piece /= 2;
        }
    }

    fn simplify(&mut self) {
        if !self.shortest.is_calm {
            let calm = Program { is_calm: true, ..self.shortest.clone() };
            self.attempt(calm);
        }
        for settings in self.shortest.settings.simpler() {
            let candidate = Program { settings, ..self.shortest.clone() };
            self.attempt(candidate);
        }
        let mut index = 0;
        while index < self.shortest.operations.len() {
            let simpler: Vec<Operation> = self.shortest.operations[index].simpler();
            let is_simpler = simpler.into_iter().any(|operation| {
                let mut candidate = self.shortest.clone();
                candidate.operations[index] = operation;
                self.attempt(candidate)
            });
            // Once replaced, it may be replaced again.
            if !is_simpler || self.is_over() {
                index += 1;
            }
        }
    }
}

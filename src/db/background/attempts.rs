//! [`Work`]: whether the last attempts at a flush or a compaction of a tree have failed without a
//! change. It is plain data, the field `work` of `TreeState`.
//!
//! After a failed attempt the next one waits, each time twice as long, and then until what it needs
//! is free ([`Attempts::may_fit`]). The timer waits, and not a thread, which other work may
//! need. To look at the free space is cheap, so it is looked at often, while an attempt on a full disk
//! writes until the disk is full. So an idle database on a full disk writes nothing, and soon notices
//! free space.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::compaction::Plan;
use crate::db::stats::report::DamagedTable;
use crate::error::Error;

/// How long a job waits after its first failed attempt. Each further wait is twice as long, up to
/// `MAX_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How often the timer looks at the free space for work that waits for it.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The least growth of the free space after which work is tried again that seems not to fit.
const MIN_GROWTH_BYTES: u64 = 1 << 20;

/// What the jobs are doing for a tree.
#[derive(Default)]
pub(crate) struct Work {
    pub flushes: Attempts,
    pub compactions: Attempts,
    /// The one compaction that may run after another one has failed is running.
    pub(super) runs_carefully: bool,
    /// Damaged files, which compactions leave out. `TreeState::unavailable` lists them too.
    pub damaged: Vec<DamagedTable>,
    /// Files that the last compaction of them could not read. If the next one cannot read them
    /// either, they count as damaged.
    pub(super) unreadable: BTreeSet<u64>,
}

/// The attempts at one kind of work.
#[derive(Default)]
pub(crate) struct Attempts {
    /// How many attempts were started.
    pub(super) started: u64,
    /// The number and the error of the newest attempt that has failed without a change. `None` if an
    /// attempt has succeeded since, or if no work of this kind is due any more.
    failed: Option<(u64, Error)>,
    /// The length of the last wait after a failed attempt; 0 after a success.
    waited: Duration,
    /// The next flush starts before the wait is over, because a caller waits for its outcome, or
    /// because there may be space now. For compactions see [`super::compactions::look_at_once`].
    pub(super) retry_now: bool,
    /// How many bytes were free after the failed attempt. `None` if that is not known, or was not
    /// looked up yet.
    free_after_failure: Option<u64>,
    /// The error of the attempt since which compactions are *careful*: one at a time, each only if
    /// it fits into the free space. `None`: they are not.
    careful: Option<Error>,
}

impl Work {
    /// Called after the inputs of `plan` were read, or dropped unread.
    pub(super) fn could_read(&mut self, plan: &Plan) {
        for number in plan.inputs.iter().chain(&plan.output_inputs) {
            self.unreadable.remove(number);
        }
    }

    /// The error of a damaged file that compactions leave out.
    pub(super) fn damaged_error(&self, number: u64) -> Option<Error> {
        let damaged = self.damaged.iter().find(|damaged| damaged.number == number);
        damaged.map(|damaged| damaged.error.clone())
    }
}

impl Attempts {
    /// Starts an attempt, and returns its number.
    pub fn start(&mut self) -> u64 {
        self.retry_now = false;
        self.started += 1;
        self.started
    }

    /// Records that an attempt has succeeded.
    pub fn succeeded(&mut self) {
        let careful = self.careful.take();
        *self = Attempts { started: self.started, careful, ..Attempts::default() };
    }

    /// Records that no work is due any more, or that there is ample space again.
    pub fn is_over(&mut self) {
        *self = Attempts { started: self.started, ..Attempts::default() };
    }

    pub fn failed(&mut self, attempt: u64, error: Error) {
        if self.failed.as_ref().is_none_or(|&(newest, _)| newest < attempt) {
            self.careful = Some(error.clone());
            self.failed = Some((attempt, error));
            self.free_after_failure = None;
        }
    }

    /// Whether an attempt has failed since the last call of [`Attempts::is_over`].
    pub fn is_careful(&self) -> bool {
        self.careful.is_some()
    }

    /// Records that what is due does not fit, so that writers get the error again instead of a wait.
    pub fn does_not_fit(&mut self) {
        let again = || self.careful.clone().map(|error| (self.started, error));
        self.failed = self.failed.take().or_else(again);
    }

    /// Records how many bytes are free. Called after each failed attempt.
    pub fn note_free(&mut self, free: Option<u64>) {
        if self.failed.is_some() && self.free_after_failure.is_none() {
            self.free_after_failure = free;
        }
    }

    /// Whether an attempt that needs at most `needed` bytes should start when `free` bytes are free;
    /// `None` if that is not known. `needed` is an upper bound, so an attempt may succeed with less.
    /// But since the last attempt failed, another one should start only if clearly more is free.
    pub fn may_fit(&self, needed: u64, free: Option<u64>) -> bool {
        let Some(free) = free else { return true };
        let has_grown = |then: u64| free >= then.saturating_add((then / 4).max(MIN_GROWTH_BYTES));
        free >= needed || self.free_after_failure.is_some_and(has_grown)
    }

    /// Records an attempt whose job could not be started. No job is left that would try again, so the
    /// next one starts at once. While the database closes no job starts, which is no failure of the
    /// work.
    pub fn refused(&mut self, error: Error) {
        if !matches!(error, Error::Closed) {
            self.failed = Some((self.start(), error));
            self.retry_now = true;
        }
    }

    /// Whether the next attempt waits.
    pub fn is_waiting(&self) -> bool {
        self.failed.is_some() && !self.retry_now
    }

    /// The error of the last attempt, if it failed.
    pub fn last_error(&self) -> Option<&Error> {
        self.failed.as_ref().map(|(_, error)| error)
    }

    pub(super) fn failure_after(&self, attempt: u64) -> Option<&Error> {
        self.failed.as_ref().filter(|&&(failed, _)| failed > attempt).map(|(_, error)| error)
    }

    /// How long the next attempt must wait; 0 if the last one did not fail.
    pub(super) fn next_wait(&mut self) -> Duration {
        if self.failed.is_none() {
            return Duration::ZERO;
        }
        self.waited = (self.waited * 2).clamp(FIRST_WAIT, MAX_WAIT);
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_with(free: u64) -> Attempts {
        let mut attempts = Attempts::default();
        let attempt = attempts.start();
        attempts.failed(attempt, Error::Closed);
        attempts.note_free(Some(free));
        attempts
    }

    /// Regression: on a full disk a job tried again every second, and each time wrote until the disk
    /// was full.
    #[test]
    fn an_attempt_starts_when_it_fits_or_when_clearly_more_is_free_than_after_the_last() {
        let mut attempts = failed_with(40 << 20);
        assert!(!attempts.may_fit(100 << 20, Some(40 << 20)));
        assert!(!attempts.may_fit(100 << 20, Some(49 << 20)));
        assert!(attempts.may_fit(100 << 20, Some(50 << 20)));
        assert!(attempts.may_fit(30 << 20, Some(30 << 20)));
        assert!(attempts.may_fit(u64::MAX, None), "nobody knows");
        assert!(!failed_with(0).may_fit(10 << 20, Some(1 << 10)));
        // Only the first look after a failure counts.
        attempts.note_free(Some(20 << 20));
        assert!(!attempts.may_fit(100 << 20, Some(30 << 20)));
        attempts.succeeded();
        assert!(!attempts.may_fit(100 << 20, Some(90 << 20)));
    }

    #[test]
    fn waits_double_up_to_a_limit_and_begin_anew_after_a_success() {
        let mut attempts = failed_with(0);
        let waits: Vec<Duration> = (0..10).map(|_| attempts.next_wait()).collect();
        assert_eq!((waits[0], waits[1], waits[9]), (FIRST_WAIT, FIRST_WAIT * 2, MAX_WAIT));
        attempts.succeeded();
        assert_eq!(attempts.next_wait(), Duration::ZERO);
        assert!(attempts.is_careful(), "the next compaction may not fit either");
        // What is due does not fit: writers must not wait for it.
        attempts.does_not_fit();
        assert!(attempts.last_error().is_some());
        attempts.is_over();
        assert!(!attempts.is_careful() && attempts.last_error().is_none());
    }
}

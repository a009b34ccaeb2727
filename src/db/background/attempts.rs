//! [`Work`]: how many jobs a database has, and whether the last attempts at a flush or a compaction
//! found no space or no thread. It is plain data, the field `work` of `TreeState`.

use std::time::Duration;

use crate::db::stats::report::DamagedTable;
use crate::error::Error;

/// How long a job waits after its first attempt that found no space. Each further wait is twice as
/// long, up to `MAX_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// What the jobs of a database are doing.
#[derive(Default)]
pub(crate) struct Work {
    /// Jobs that were started and have not ended. A manual compaction counts as a job, and so does
    /// a running turn of the timer ([`super::timer`]).
    pub(super) jobs: usize,
    /// A job has begun to close the database. The last job to end finishes the closing.
    pub(super) closed_by_job: bool,
    pub flushes: Attempts,
    pub compactions: Attempts,
    /// A job waits to try a compaction again, or is trying it now.
    pub retrying_compaction: bool,
    /// Damaged files, which compactions leave out. `TreeState::unavailable` lists them too.
    pub damaged: Vec<DamagedTable>,
}

/// The attempts at one kind of work.
#[derive(Default)]
pub(crate) struct Attempts {
    /// How many attempts were started.
    pub(super) started: u64,
    /// The number and the error of the newest attempt that found no space or no thread. `None` if
    /// an attempt has succeeded since, or if no work of this kind is due any more.
    failed: Option<(u64, Error)>,
    /// The length of the last wait after a failed attempt; 0 after a success.
    waited: Duration,
    /// The next attempt starts before the wait is over, because a caller waits for its outcome, or
    /// because there may be space now.
    pub(super) retry_now: bool,
}

impl Work {
    #[cfg(all(test, not(loom)))]
    pub fn has_jobs(&self) -> bool {
        self.jobs > 0
    }

    /// Makes the next attempts start without further wait, because the success of a flush or a
    /// compaction shows that there may be space now.
    pub fn retry_now(&mut self) {
        self.flushes.retry_now = true;
        self.compactions.retry_now = true;
    }
}

impl Attempts {
    /// Starts an attempt, and returns its number.
    pub fn start(&mut self) -> u64 {
        self.retry_now = false;
        self.started += 1;
        self.started
    }

    /// Records that an attempt has succeeded, or that no work is due any more.
    pub fn succeeded(&mut self) {
        *self = Attempts { started: self.started, ..Attempts::default() };
    }

    pub fn failed(&mut self, attempt: u64, error: Error) {
        if self.failed.as_ref().is_none_or(|&(newest, _)| newest < attempt) {
            self.failed = Some((attempt, error));
        }
    }

    /// Records an attempt whose job could not be started.
    pub fn refused(&mut self, error: Error) {
        let attempt = self.start();
        self.failed(attempt, error);
    }

    /// The error of the last attempt, if it failed.
    pub fn last_error(&self) -> Option<&Error> {
        self.failed.as_ref().map(|(_, error)| error)
    }

    pub(super) fn failure_after(&self, attempt: u64) -> Option<&Error> {
        self.failed.as_ref().filter(|&&(failed, _)| failed > attempt).map(|(_, error)| error)
    }

    pub(super) fn next_wait(&mut self) -> Duration {
        self.waited = (self.waited * 2).clamp(FIRST_WAIT, MAX_WAIT);
        self.waited
    }
}

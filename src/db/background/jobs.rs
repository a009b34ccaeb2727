//! The jobs of one database: how they start, how they wait for space on the device, how they end.
//!
//! ```text
//!   state changes ─► schedule ─► a job on a thread of the pool ─► succeeded    ─► schedule
//!                                                              ─► no space     ─► wait, try again
//!                                                              ─► failed       ─► latched
//!                                                              ─► panicked     ─► latched
//! ```
//!
//! **No space.** The job changes nothing, and no error is latched. Readers continue. Writers
//! continue until they would have to wait for the job, and then get its error. While the job waits,
//! no other of its kind starts. A caller of [`Inner::wait_until`] makes it try again at once, and
//! gets the error if that attempt fails too.
//!
//! **Closing** waits until no job is left. A job may drop the last `Db`, because a file system may
//! hold one. Then the last job to end closes the database.
//!
//! What is absent: what the jobs do ([`crate::db::background`]), and threads ([`super::pool`]).

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::pool::Pool;
use super::timer;
use crate::db::stats::DamagedTable;
use crate::db::write::write_stall::WriteStallCause;
use crate::db::{Inner, TreeState};
use crate::error::{Error, Result};

/// How long a job without space waits before its next attempt. Each wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// What the jobs of a database are doing.
#[derive(Default)]
pub(crate) struct Work {
    /// Started jobs that have not ended, and manual compactions.
    jobs: usize,
    /// A job has closed the database. The last job to end finishes that.
    closed_by_job: bool,
    pub flushes: Attempts,
    pub compactions: Attempts,
    /// A job waits to try a compaction again, or is trying it.
    pub retrying_compaction: bool,
    /// Files that are set aside. `state.unavailable` has them too.
    pub damaged: Vec<DamagedTable>,
}

/// The attempts at one kind of work.
#[derive(Default)]
pub(crate) struct Attempts {
    /// How many were started.
    started: u64,
    /// The newest attempt that found no space or no thread, and its error. `None` after a later
    /// attempt has succeeded.
    failed: Option<(u64, Error)>,
    /// The last wait.
    waited: Duration,
    /// A caller waits for the outcome, so the next attempt starts at once.
    retry_now: bool,
}

impl Work {
    #[cfg(all(test, not(loom)))]
    pub fn has_jobs(&self) -> bool {
        self.jobs > 0
    }

    /// There may be space now.
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

    /// There is space again, or nothing needs it.
    pub fn succeeded(&mut self) {
        *self = Attempts { started: self.started, ..Attempts::default() };
    }

    pub fn failed(&mut self, attempt: u64, error: Error) {
        if self.failed.as_ref().is_none_or(|&(newest, _)| newest < attempt) {
            self.failed = Some((attempt, error));
        }
    }

    /// The attempt could not even start.
    pub fn refused(&mut self, error: Error) {
        let attempt = self.start();
        self.failed(attempt, error);
    }

    /// The error of the last attempt, if it failed.
    pub fn last_error(&self) -> Option<&Error> {
        self.failed.as_ref().map(|(_, error)| error)
    }

    fn failure_after(&self, attempt: u64) -> Option<&Error> {
        self.failed.as_ref().filter(|&&(failed, _)| failed > attempt).map(|(_, error)| error)
    }

    fn next_wait(&mut self) -> Duration {
        self.waited = (self.waited * 2).clamp(FIRST_WAIT, MAX_WAIT);
        self.waited
    }
}

/// Which work a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    Flushes,
    FlushesAndCompactions,
}

thread_local! {
    /// The databases that this thread works for, by address.
    static WORKS_FOR: RefCell<Vec<*const Inner>> = const { RefCell::new(Vec::new()) };
}

/// Counts as one of the database's jobs while it lives.
pub(crate) struct Working {
    inner: Arc<Inner>,
    /// Dropped after `inner`: closing waits for that.
    _holds: Arc<()>,
}

impl Working {
    /// For a job that [`Inner::start_job`] has counted.
    fn counted(inner: Arc<Inner>) -> Working {
        WORKS_FOR.with_borrow_mut(|works_for| works_for.push(Arc::as_ptr(&inner)));
        Working { _holds: Arc::clone(&inner.holds), inner }
    }

    pub fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        WORKS_FOR.with_borrow_mut(Vec::pop);
        let closes = {
            let mut state = self.inner.lock_state();
            state.work.jobs -= 1;
            self.inner.changed.notify_all();
            state.work.jobs == 0 && std::mem::take(&mut state.work.closed_by_job)
        };
        if closes {
            // No caller is left to receive an error.
            let _ = self.inner.finish_closing();
        }
    }
}

impl Inner {
    /// Starts `work` on a thread of `pool`. A panic in it latches the database.
    pub(crate) fn start_job(
        &self,
        state: &mut TreeState,
        pool: &'static Pool,
        work: impl FnOnce(&Inner) + Send + 'static,
    ) -> Result<()> {
        let Some(inner) = self.this.get().and_then(Weak::upgrade) else {
            return Err(Error::Closed);
        };
        let job = move || {
            let working = Working::counted(inner);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&working.inner))) {
                working.inner.latch(Error::Panicked(message_of(&*panic)));
            }
        };
        state.work.jobs += 1;
        pool.run(Box::new(job)).map_err(|error| {
            state.work.jobs -= 1;
            Error::io(&self.store.dir, "start a thread for", error)
        })
    }

    /// Counts the calling thread as a job until the returned value is dropped.
    pub(crate) fn work_in_this_thread(&self) -> Result<Working> {
        self.work_if(Inner::check_writable)
    }

    /// As [`Inner::work_in_this_thread`], also where a failure has made the database read-only.
    pub(crate) fn work_until_closed(&self) -> Result<Working> {
        self.work_if(Inner::check_open)
    }

    fn work_if(&self, check: fn(&Inner) -> Result<()>) -> Result<Working> {
        let inner = self.this.get().and_then(Weak::upgrade).ok_or(Error::Closed)?;
        let mut state = self.lock_state();
        check(self)?;
        state.work.jobs += 1;
        drop(state);
        Ok(Working::counted(inner))
    }

    pub(crate) fn close(&self) -> Result<()> {
        timer::cancel(self);
        let mut state = self.lock_state();
        self.changed.notify_all();
        if WORKS_FOR.with_borrow(|works_for| works_for.contains(&(self as *const Inner))) {
            state.work.closed_by_job = true;
            return Ok(());
        }
        while state.work.jobs > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        // A job drops its reference to the database shortly after it has ended. Without this wait,
        // files could still be open when `close` returns.
        while Arc::strong_count(&self.holds) > 1 {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.finish_closing()
    }

    /// Whether a job that failed with this error may try again: it has changed nothing.
    pub(crate) fn may_retry(&self, error: &Error) -> bool {
        error.is_out_of_space() && self.latched.get().is_none()
    }

    /// As [`Inner::latch`], but for an error after which the caller may try again.
    pub(crate) fn latch_unless_retried(&self, error: Error) -> Error {
        if self.may_retry(&error) { error } else { self.latch(error) }
    }

    /// Waits until the next attempt is due.
    pub(crate) fn wait_for_space(&self, attempts: fn(&mut Work) -> &mut Attempts) {
        let mut state = self.lock_state();
        let end = Instant::now() + attempts(&mut state.work).next_wait();
        while !self.is_stopping() && !attempts(&mut state.work).retry_now {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The error for a writer that would have to wait for `cause`, where that work itself waits for
    /// space, which may take for ever.
    pub(crate) fn error_instead_of_waiting(
        &self,
        state: &mut TreeState,
        cause: WriteStallCause,
    ) -> Option<Error> {
        let attempts = match cause {
            WriteStallCause::Memtables => &state.work.flushes,
            WriteStallCause::Level0 | WriteStallCause::Debt => &state.work.compactions,
        };
        let error = attempts.last_error()?.clone();
        // An attempt that got no thread has no job to try again.
        self.schedule(state);
        Some(error)
    }

    /// Waits until `done` holds of the state.
    ///
    /// # Errors
    ///
    /// The database is closed or latched, or the awaited work finds no space.
    pub(crate) fn wait_until(
        &self,
        awaited: Awaited,
        done: impl Fn(&TreeState) -> bool,
    ) -> Result<MutexGuard<'_, TreeState>> {
        let mut state = self.lock_state();
        let flushes = state.work.flushes.started;
        let compactions = state.work.compactions.started;
        if !done(&state) {
            state.work.flushes.retry_now = true;
            state.work.compactions.retry_now |= awaited == Awaited::FlushesAndCompactions;
            self.changed.notify_all();
            self.schedule(&mut state);
        }
        while !done(&state) {
            self.check_writable()?;
            let failure = state.work.flushes.failure_after(flushes);
            let failure = failure.or_else(|| match awaited {
                Awaited::Flushes => None,
                Awaited::FlushesAndCompactions => state.work.compactions.failure_after(compactions),
            });
            if let Some(error) = failure {
                return Err(error.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // Every error prints on one line.
    text.unwrap_or("no message").lines().collect::<Vec<_>>().join(" ")
}

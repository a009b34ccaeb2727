//! The jobs of one database: how they start, how callers wait for them, how they end.
//!
//! ```text
//!   state changes ─► schedule ─► a job on a thread of the pool ─► succeeded          ─► schedule
//!                                                              ─► changed nothing    ─► wait, try
//!                                                                                       again
//!                                                              ─► failed otherwise   ─► latched
//!                                                              ─► panicked           ─► latched
//! ```
//!
//! An error that is *latched* makes the database read-only.
//!
//! **No space, descriptors, memory or thread, or a failed read.** A job that fails because of these
//! changes nothing ([`Error::changed_nothing`]), and its error is not latched. Readers continue.
//! Writers continue until they would have to wait for the job, and then get its error. While the
//! job waits, no other job of its kind starts. A caller of [`Inner::wait_until`] makes the job try
//! again at once, and gets the error if that attempt fails too.
//!
//! **Closing** waits until no job is left. A job may drop the last `Db`, because the user's `Fs`,
//! which jobs call, may own that `Db`. The thread of such a job cannot wait for its own job, so the
//! last job to end finishes the closing.
//!
//! What the jobs do is in [`crate::db::background`], and their threads are in [`super::pool`].

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::pool::Pool;
use crate::db::inner::Inner;
use crate::db::inner::status::Status;
use crate::db::inner::tree::StateGuard;
use crate::db::inner::tree_state::TreeState;
use crate::db::write::write_stall::WriteStallCause;
use crate::error::{Error, Result};

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

/// Runs `work`, which must not panic. If it calls the user's `Fs`, and that closes the database, the
/// call does not wait, as in a job.
pub(crate) fn while_working_for<T>(inner: &Inner, work: impl FnOnce() -> T) -> T {
    WORKS_FOR.with_borrow_mut(|works_for| works_for.push(inner));
    let result = work();
    WORKS_FOR.with_borrow_mut(Vec::pop);
    result
}

/// While this value lives, its thread works for the database and counts as one of the database's
/// jobs.
pub(crate) struct Working {
    inner: Arc<Inner>,
    /// Dropped after `inner`, when the job holds no reference to the database any more. Closing
    /// waits for this drop.
    _holds: Arc<()>,
}

impl Working {
    /// The value for a job that [`Inner::start_job`] or `work_if` has counted already.
    fn counted(inner: Arc<Inner>) -> Working {
        WORKS_FOR.with_borrow_mut(|works_for| works_for.push(Arc::as_ptr(&inner)));
        Working { _holds: inner.background.hold(), inner }
    }

    pub fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        WORKS_FOR.with_borrow_mut(Vec::pop);
        let closes = {
            let mut state = self.inner.tree.lock();
            state.work.jobs -= 1;
            self.inner.tree.notify();
            state.work.jobs == 0 && std::mem::take(&mut state.work.closed_by_job)
        };
        if closes {
            // No caller is left to receive an error.
            let _ = self.inner.finish_closing();
        }
    }
}

impl Inner {
    /// Starts `work` on a thread of `pool`. A panic in `work` makes the database read-only.
    pub(crate) fn start_job(
        &self,
        state: &mut TreeState,
        pool: &'static Pool,
        work: impl FnOnce(&Inner) + Send + 'static,
    ) -> Result<()> {
        let Some(inner) = self.this() else { return Err(Error::Closed) };
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
        self.work_if(Status::check_writable)
    }

    /// Like [`Inner::work_in_this_thread`], but succeeds even if a failure has made the database
    /// read-only.
    pub(crate) fn work_until_closed(&self) -> Result<Working> {
        self.work_if(Status::check_open)
    }

    /// Like [`Inner::work_until_closed`], for a call that writes nothing. A database that was
    /// opened read-only has no jobs, and its closing releases no directory, so there the call does
    /// not count as a job.
    pub(crate) fn read_in_this_thread(&self) -> Result<Option<Working>> {
        self.status.check_open()?;
        self.this.get().map(|_| self.work_until_closed()).transpose()
    }

    fn work_if(&self, check: fn(&Status) -> Result<()>) -> Result<Working> {
        let inner = self.this().ok_or(Error::Closed)?;
        let mut state = self.tree.lock();
        check(&self.status)?;
        state.work.jobs += 1;
        drop(state);
        Ok(Working::counted(inner))
    }

    /// Whether this thread works for one of the jobs, or is closing the database.
    pub(crate) fn works_here(&self) -> bool {
        WORKS_FOR.with_borrow(|works_for| works_for.contains(&(self as *const Inner)))
    }

    /// Waits until no job is left. If this thread works for one of the jobs, returns false without
    /// a wait. Then the last job to end finishes the closing.
    pub(crate) fn wait_for_jobs(&self) -> bool {
        let mut state = self.tree.lock();
        self.tree.notify();
        if self.works_here() {
            state.work.closed_by_job = true;
            return false;
        }
        while state.work.jobs > 0 {
            state = self.tree.wait(state);
        }
        drop(state);
        // A job drops its reference to the database shortly after it has ended. Without the wait
        // below, files could still be open when `close` returns.
        while self.background.is_held() {
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// How many bytes flushes and compactions may use; `None` if that is not known. An eighth of the
    /// free space is left for WALs, and for tables that are a little larger than was estimated. The
    /// caller must hold no lock, because the call may wait for a device.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let free = self.store.fs.free_bytes(&self.store.dir).ok().flatten();
        free.map(|free| free - free / 8)
    }

    /// Called before a writer waits for the flush or the compaction that `cause` names. If the last
    /// attempt at this work has failed, the wait might never end, so the writer gets the error of
    /// that attempt instead. Otherwise returns `None`, and the writer may wait.
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
        // If the last attempt got no thread, no job is left that would try again, so one is started
        // here.
        self.schedule(state);
        Some(error)
    }

    /// Waits until `done` returns true for the state.
    ///
    /// # Errors
    ///
    /// The database is closed or read-only, or an attempt at the awaited work that began after this
    /// call has failed.
    pub(crate) fn wait_until(
        &self,
        awaited: Awaited,
        done: impl Fn(&TreeState) -> bool,
    ) -> Result<StateGuard<'_>> {
        let mut state = self.tree.lock();
        let flushes = state.work.flushes.started;
        let compactions = state.work.compactions.started;
        if !done(&state) {
            state.work.flushes.retry_now = true;
            state.work.compactions.retry_now |= awaited == Awaited::FlushesAndCompactions;
            self.tree.notify();
            self.schedule(&mut state);
        }
        while !done(&state) {
            self.status.check_writable()?;
            let failure = state.work.flushes.failure_after(flushes);
            let failure = failure.or_else(|| match awaited {
                Awaited::Flushes => None,
                Awaited::FlushesAndCompactions => state.work.compactions.failure_after(compactions),
            });
            if let Some(error) = failure {
                return Err(error.clone());
            }
            state = self.tree.wait(state);
        }
        Ok(state)
    }
}

/// The message of a caught panic, on one line.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // The lines of the message are joined, because every error prints on one line.
    text.unwrap_or("no message").lines().collect::<Vec<_>>().join(" ")
}

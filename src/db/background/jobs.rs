//! The jobs of one database: how they start, and how they end.
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
//! Writers continue until they would have to wait for the job, and then get its error. Until the work
//! is tried again, no other job of its kind starts for this tree, and it keeps no thread. A caller of
//! [`Inner::wait_until`] makes it be tried again at once, and gets the error if that attempt fails
//! too.
//!
//! **Closing** waits until no job is left. A job may drop the last `Db`, because the user's `Fs`,
//! which jobs call, may own that `Db`. The thread of such a job cannot wait for its own job, so the
//! last job to end finishes the closing.
//!
//! What the jobs do is in [`crate::db::background`], and their threads are in [`super::pool`].

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::pool::Pool;
use crate::db::inner::Inner;
use crate::db::inner::database::Database;
use crate::db::inner::status::Status;
use crate::error::{Error, Result};
use crate::sync::{thread, thread_local};

thread_local! {
    /// The databases that this thread works for, by address.
    static WORKS_FOR: RefCell<Vec<*const Database>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, which must not panic. If it calls the user's `Fs`, and that closes the database, the
/// call does not wait, as in a job.
pub(crate) fn while_working_for<T>(database: &Database, work: impl FnOnce() -> T) -> T {
    WORKS_FOR.with(|works_for| works_for.borrow_mut().push(database));
    let result = work();
    WORKS_FOR.with(|works_for| works_for.borrow_mut().pop());
    result
}

/// While this value lives, its thread works for the database and counts as one of the database's
/// jobs.
pub(crate) struct Working {
    inner: Inner,
    /// Dropped after `inner`, when the job holds no reference to the database any more. Closing
    /// waits for this drop.
    _holds: Arc<()>,
}

impl Working {
    /// The value for a job that [`start`] or `work_if` has counted already.
    fn counted(inner: Inner) -> Working {
        WORKS_FOR.with(|works_for| works_for.borrow_mut().push(Arc::as_ptr(&inner.database)));
        Working { _holds: inner.database.jobs.hold(), inner }
    }

    pub fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        WORKS_FOR.with(|works_for| works_for.borrow_mut().pop());
        if self.inner.database.jobs.end() {
            // No caller is left to receive an error.
            let _ = self.inner.finish_closing();
        }
    }
}

/// Starts `work` on a thread of `pool`. A panic in `work` makes the database read-only.
pub(super) fn start(
    inner: Inner,
    pool: &'static Pool,
    work: impl FnOnce(&Inner) + Send + 'static,
) -> Result<()> {
    let of_job = inner.clone();
    let job = move || {
        let working = Working::counted(of_job);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&working.inner))) {
            working.inner.latch(Error::Panicked(message_of(&*panic)));
        }
    };
    let database = &inner.database;
    database.jobs.begin(|| {
        database.status.check_open()?;
        let started = pool.run(Box::new(job));
        started.map_err(|error| Error::io(&database.store.dir, "start a thread for", error))
    })
}

/// Counts the calling thread as a job until the returned value is dropped.
pub(crate) fn work_in_this_thread(inner: &Inner) -> Result<Working> {
    work_if(inner, Status::check_writable)
}

/// Like [`work_in_this_thread`], but succeeds even if a failure has made the database read-only.
pub(crate) fn work_until_closed(inner: &Inner) -> Result<Working> {
    work_if(inner, Status::check_open)
}

/// Like [`work_until_closed`], for a call that may also be made of a database that was opened
/// read-only. Such a database has no jobs, and its closing releases no directory, so there the call
/// does not count as a job.
pub(crate) fn read_in_this_thread(inner: &Inner) -> Result<Option<Working>> {
    inner.database.status.check_open()?;
    inner.database.starts_jobs().then(|| work_until_closed(inner)).transpose()
}

fn work_if(inner: &Inner, check: fn(&Status) -> Result<()>) -> Result<Working> {
    if !inner.database.starts_jobs() {
        return Err(Error::Closed);
    }
    inner.database.jobs.begin(|| check(&inner.database.status))?;
    Ok(Working::counted(inner.clone()))
}

/// Whether this thread works for one of the jobs, or is closing the database.
pub(crate) fn works_here(database: &Database) -> bool {
    WORKS_FOR.with(|works_for| works_for.borrow().contains(&ptr::from_ref(database)))
}

/// Waits until no job is left. If this thread works for one of the jobs, returns false without a
/// wait. Then the last job to end finishes the closing.
pub(crate) fn wait_for_jobs(database: &Database) -> bool {
    if works_here(database) {
        database.jobs.close_with_last();
        return false;
    }
    database.jobs.wait_until(|running| running == 0);
    // A job drops its reference to the database shortly after it has ended. Without the wait below,
    // files could still be open when `close` returns.
    while database.jobs.is_held() {
        thread::sleep(Duration::from_micros(50));
    }
    true
}

/// Runs `work`, which changes the database in a thread of the user. A panic in it makes the database
/// read-only, as a panic in a job does, because it is not known what the call has changed.
pub(crate) fn latching_panics<T>(inner: &Inner, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        inner.latch(Error::Panicked(message_of(&*panic)));
        resume_unwind(panic)
    })
}

/// The message of a caught panic, on one line.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // The lines of the message are joined, because every error prints on one line.
    text.unwrap_or("no message").lines().collect::<Vec<_>>().join(" ")
}

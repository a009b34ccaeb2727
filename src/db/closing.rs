//! How a database is closed.
//!
//! ```text
//!   no more calls ─► timer's turns cancelled ─► jobs end ─► WALs synced ─► directory released
//! ```
//!
//! The first call closes the database. Every other call waits until the database is closed, and
//! returns the same result, because its caller relies on the same promises: after `Ok` every
//! acknowledged write is durable, and the directory is free.
//!
//! **Who does not wait.** The closing waits for the jobs of the database and for running deletions
//! of obsolete files. Both call the user's `Fs`, which may call `close`. The thread of such a call
//! cannot wait, because the closing may be waiting for this thread. So the call returns at once, and
//! the closing ends later. The same holds for calls of the `Fs` by the thread that is closing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::asked;
use super::background::install::READERS_PATIENCE;
use super::background::jobs::{message_of, wait_for_jobs, while_working_for, works_here};
use super::background::timer;
use super::inner::Inner;
use super::inner::database::Database;
use super::stats::publish;
use crate::error::{Error, Result};
use crate::sync::drain;

impl Inner {
    /// Closes the database, or waits until the call that has begun to close it is done.
    pub(super) fn close(&self) -> Result<()> {
        self.database.status.process().check()?;
        if !self.database.status.begin_closing() {
            return self.wait_until_closed();
        }
        timer::cancel(self);
        // Jobs and callers that wait for a tree notice the closing.
        self.database.wake_all();
        match wait_for_jobs(&self.database) {
            true => self.finish_closing(),
            false => Ok(()),
        }
    }

    /// The result of the closing that another call has begun. The head of this file says which
    /// threads do not wait for it.
    fn wait_until_closed(&self) -> Result<()> {
        let Database { status, store, jobs, .. } = &*self.database;
        let may_wait = !works_here(&self.database) && !store.obsolete.is_removing_here();
        if may_wait {
            jobs.wait_until(|_| status.closed().is_some());
        }
        status.closed().cloned().unwrap_or(Ok(()))
    }

    /// Ends the closing of the database, once no job is left. A panic of the user's `Fs` becomes
    /// the result too, so that no other call waits for ever.
    pub(super) fn finish_closing(&self) -> Result<()> {
        let release = || catch_unwind(AssertUnwindSafe(|| self.release()));
        let released = while_working_for(&self.database, release);
        let closed = released.unwrap_or_else(|panic| Err(Error::Panicked(message_of(&*panic))));
        self.database.status.set_closed(closed.clone());
        self.database.jobs.notify();
        closed
    }

    /// Syncs the WALs and releases the directory.
    fn release(&self) -> Result<()> {
        let trees = self.database.trees.all();
        for tree in &trees {
            // Its error is for the caller of `LookupRecording::finish`.
            let _ = tree.reading.recorder.end(None, self.database.counters());
        }
        // Frees the read states that were replaced, once running lookups have ended, so that
        // obsolete tables are deleted now rather than at the next opening.
        drain(READERS_PATIENCE);
        let synced = match self.database.status.failure() {
            Some(Error::OpenedReadOnly) => Ok(()),
            // The database could not take over its directory for lack of space
            // (`open/writable.rs`), so it has written nothing that a sync could save.
            None if self.database.writing.missing_space().is_some() => Ok(()),
            None => self.sync_wals(),
            Some(error) => Err(error.clone()),
        };
        self.database.writing.drop_wals();
        self.database.store.obsolete.close();
        self.database.trees.keep_tables_of_readers_open();
        publish::publish_stats(&self.database, false);
        asked::keep(&self.database);
        self.database.directory.release();
        synced
    }
}

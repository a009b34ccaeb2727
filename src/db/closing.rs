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

use super::background::install::READERS_PATIENCE;
use super::background::jobs::{message_of, while_working_for};
use super::background::timer;
use super::inner::Inner;
use crate::error::{Error, Result};
use crate::sync::drain;

impl Inner {
    /// Closes the database, or waits until the call that has begun to close it is done.
    pub(super) fn close(&self) -> Result<()> {
        self.status.process().check()?;
        if !self.status.begin_closing() {
            return self.wait_until_closed();
        }
        timer::cancel(self);
        match self.wait_for_jobs() {
            true => self.finish_closing(),
            false => Ok(()),
        }
    }

    /// The result of the closing that another call has begun. The head of this file says which
    /// threads do not wait for it.
    fn wait_until_closed(&self) -> Result<()> {
        let may_wait = !self.works_here() && !self.store.obsolete.is_removing_here();
        let mut state = self.tree.lock();
        loop {
            match self.status.closed() {
                Some(closed) => return closed.clone(),
                None if !may_wait => return Ok(()),
                None => state = self.tree.wait(state),
            }
        }
    }

    /// Ends the closing of the database, once no job is left. A panic of the user's `Fs` becomes
    /// the result too, so that no other call waits for ever.
    pub(super) fn finish_closing(&self) -> Result<()> {
        let release = || catch_unwind(AssertUnwindSafe(|| self.release()));
        let released = while_working_for(self, release);
        let closed = released.unwrap_or_else(|panic| Err(Error::Panicked(message_of(&*panic))));
        self.status.set_closed(closed.clone());
        let _state = self.tree.lock();
        self.tree.notify();
        closed
    }

    /// Syncs the WALs and releases the directory.
    fn release(&self) -> Result<()> {
        // Frees the read states that were replaced, once running lookups have ended, so that
        // obsolete tables are deleted now rather than at the next opening.
        drain(READERS_PATIENCE);
        let synced = match self.status.failure() {
            Some(Error::OpenedReadOnly) => Ok(()),
            // The database could not take over its directory for lack of space
            // (`open/writable.rs`), so it has written nothing that a sync could save.
            None if self.writing.missing_space().is_some() => Ok(()),
            None => self.sync_wals(),
            Some(error) => Err(error.clone()),
        };
        self.writing.drop_wals();
        self.store.obsolete.close();
        self.reading.keep_tables_of_readers_open();
        self.publish_stats(false);
        self.background.release_directory();
        synced
    }
}

//! How a database is closed.
//!
//! ```text
//!   no more calls ─► timer's turns cancelled ─► jobs end ─► WALs synced ─► directory released
//! ```

use super::background::install::READERS_PATIENCE;
use super::background::timer;
use super::inner::Inner;
use crate::error::{Error, Result};
use crate::sync::drain;

impl Inner {
    /// Closes the database, unless another call has begun to close it.
    pub(super) fn close(&self) -> Result<()> {
        self.status.process().check()?;
        if !self.status.begin_closing() {
            return Ok(());
        }
        timer::cancel(self);
        match self.wait_for_jobs() {
            true => self.finish_closing(),
            false => Ok(()),
        }
    }

    /// Ends the closing of the database, once no job is left.
    pub(super) fn finish_closing(&self) -> Result<()> {
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

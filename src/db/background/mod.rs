//! The work behind the database: flushes, one at a time, and compactions.
//!
//! ```text
//!   schedule ──► flushes.rs        frozen memtables become tables of level 0
//!            ──► compactions.rs    what the shape of the tree or the filter policy asks for
//!   a caller ──► manual.rs         compact_range, next to all of these
//!
//!   cursors  ──► cleanups.rs       where they passed much that is hidden
//!
//!   all of them ──► install.rs     a change of the tree, durable and then visible
//!   jobs.rs, pool.rs               how jobs start, wait for space and end; their threads
//!   timer.rs                       what is done at certain times
//!   rest.rs                        what is removed when the tree comes to rest
//! ```

pub(in crate::db) mod cleanups;
mod compactions;
mod flushes;
pub(crate) mod install;
pub(crate) mod jobs;
mod manual;
pub(crate) mod pool;
mod rest;
pub(crate) mod timer;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::pool::{COMPACTIONS, FLUSHES};
use super::{Inner, TreeState};

/// Lets the database start jobs.
pub(crate) fn start(inner: &Arc<Inner>) {
    let _ = inner.this.set(Arc::downgrade(inner));
    inner.marks.belong_to(Arc::downgrade(inner));
    inner.schedule(&mut inner.lock_state());
    if inner.publishing.is_some() {
        timer::add(inner, Duration::ZERO, Inner::publish_turn);
    }
    inner.await_rest();
}

impl Inner {
    /// Starts the jobs that `state` requires. Called after every change of it.
    pub(crate) fn schedule(&self, state: &mut TreeState) {
        if self.is_stopping() {
            return;
        }
        if !state.frozen.is_empty() && !state.flushing && !state.waits_for_space {
            state.flushing = true;
            if let Err(error) = self.start_job(state, &FLUSHES, Inner::flush_job) {
                state.flushing = false;
                state.work.flushes.refused(error);
            }
        }
        if state.work.compactions.last_error().is_some() {
            self.schedule_retry(state);
            return;
        }
        while let Some(compaction) = self.next_compaction(state) {
            let (plan, borrowed) = (compaction.plan.clone(), compaction.borrowed);
            let work = |inner: &Inner| inner.compaction_job(compaction, false);
            if let Err(error) = self.start_job(state, &COMPACTIONS, work) {
                state.release(&plan, borrowed);
                state.work.compactions.refused(error);
                return;
            }
        }
    }

    /// Schedules the attempts after a compaction found no space, one at a time.
    fn schedule_retry(&self, state: &mut TreeState) {
        if state.waits_for_space || state.work.retrying_compaction {
            return;
        }
        state.work.retrying_compaction = true;
        let started = self.start_job(state, &COMPACTIONS, Inner::retry_job);
        if let Err(error) = started {
            state.work.retrying_compaction = false;
            state.work.compactions.refused(error);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.latched.get().is_some()
    }
}

//! Which jobs start, and when.

use std::sync::Arc;
use std::time::Duration;

use super::pool::{COMPACTIONS, FLUSHES};
use super::timer::{self, TurnWork};
use crate::db::inner::Inner;
use crate::db::inner::tree_state::TreeState;

/// Lets the database start jobs, starts those that are due, and adds its turns to the timer.
pub(crate) fn start(inner: &Arc<Inner>) {
    inner.knows_itself();
    let itself = Arc::downgrade(inner);
    inner.reading.marks().belong_to(itself);
    inner.schedule(&mut inner.tree.lock());
    if inner.background.publishing.is_some() {
        static PUBLISH: TurnWork = TurnWork(Inner::publish_turn);
        timer::add(inner, Duration::ZERO, &PUBLISH);
    }
    inner.await_rest();
}

impl Inner {
    /// Shows readers and writers what `state` holds now, and starts the jobs that it requires.
    pub(crate) fn publish(&self, state: &mut TreeState) {
        self.show(state);
        self.schedule(state);
    }

    /// Starts the jobs that `state` requires. Called after each change that may require one.
    pub(crate) fn schedule(&self, state: &mut TreeState) {
        if self.status.is_stopping() {
            return;
        }
        if !state.frozen.is_empty() && !state.flushing && !state.waits_for_space {
            state.flushing = true;
            if let Err(error) = self.start_job(state, &FLUSHES, Inner::flush_job) {
                state.flushing = false;
                state.work.flushes.refused(error);
            }
        }
        if state.work.compactions.is_careful() {
            self.schedule_retry(state);
            return;
        }
        while let Some(compaction) = self.next_compaction(state) {
            let (plan, borrowed) = (compaction.plan.clone(), compaction.borrowed);
            let work = |inner: &Inner| inner.compaction_job(compaction);
            if let Err(error) = self.start_job(state, &COMPACTIONS, work) {
                state.release(&plan, borrowed);
                state.work.compactions.refused(error);
                return;
            }
        }
    }

    /// Starts the job that compacts again after a compaction has failed ([`Inner::retry_job`]).
    /// There is at most one such job.
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
}

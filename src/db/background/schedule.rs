//! Which jobs start, and when. How callers wait for them. What cursors request of them.

use std::sync::Arc;
use std::time::Duration;

use super::cleanups::Cleanup;
use super::pool::{FLUSHES, Pool};
use super::timer::TurnWork;
use super::{compactions, idle, jobs, timer};
use crate::db::inner::jobs::Threads;
use crate::db::inner::tree::StateGuard;
use crate::db::inner::tree_state::TreeState;
use crate::db::inner::{Inner, WeakInner};
use crate::db::iter::marks::Owner;
use crate::db::stats::publish;
use crate::db::write::write_stall::WriteStallCause;
use crate::error::{Error, Result};
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// Which work a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// None of the jobs below: for the turn of the caller.
    Nothing,
    Flushes,
    FlushesAndCompactions,
}

/// Lets the database start jobs, starts those that are due, and adds its turns to the timer. `inner`
/// has the tree of keyspace 0.
pub(crate) fn start(inner: &Inner) {
    inner.database.starts_jobs.store(true, Ordering::Release);
    for tree in inner.database.trees.all() {
        start_tree(&inner.with_tree(tree));
    }
    if inner.database.publishing.is_some() {
        static PUBLISH: TurnWork = TurnWork(publish::turn);
        timer::add(inner, Duration::ZERO, &PUBLISH);
    }
}

/// Starts the jobs that are due for a tree, which nobody has used before.
pub(crate) fn start_tree(inner: &Inner) {
    inner.tree.reading.marks().belong_to(Box::new(inner.downgrade()));
    inner.schedule(&mut inner.tree.lock());
    idle::watch_for_idle(inner);
}

impl Inner {
    /// Shows readers and writers what `state` holds now, and starts the jobs that it requires.
    pub(crate) fn publish(&self, state: &mut TreeState) {
        self.tree.publish(state);
        self.schedule(state);
    }

    /// Starts the jobs that `state` requires. Called after each change that may require one.
    pub(crate) fn schedule(&self, state: &mut TreeState) {
        if self.is_stopping() {
            return;
        }
        let threads = &self.database.jobs.flush_threads;
        let must_flush = !state.frozen.is_empty() && !state.flushing && !state.waits_for_space;
        let may_flush = !state.work.flushes.is_waiting();
        if must_flush && may_flush && threads.take(self.tree.id, 1) == 1 {
            state.flushing = true;
            if let Err(error) = self.start_job(&FLUSHES, Inner::flush_job) {
                threads.give_back(1);
                state.flushing = false;
                state.work.flushes.refused(error);
                self.database.flush_failed.store(true, Ordering::Relaxed);
            }
        }
        if state.work.compactions.is_careful() {
            // The timer starts one if it fits.
            return;
        }
        while let Some(compaction) = self.next_compaction(state) {
            if !self.start_compaction_job(state, compaction, Inner::compaction_job) {
                return;
            }
        }
    }

    /// Starts the jobs of the trees that wait for one of these threads, as long as one is idle. The
    /// caller holds no lock of a tree.
    pub(super) fn start_waiting(&self, threads: &Threads) {
        while let Some(keyspace) = threads.next_waiting() {
            if let Ok(tree) = self.database.trees.get(keyspace) {
                self.with_tree(Arc::clone(&tree)).schedule(&mut tree.lock());
            }
        }
    }

    /// Starts `work` on a thread of `pool`.
    pub(super) fn start_job(
        &self,
        pool: &'static Pool,
        work: impl FnOnce(&Inner) + Send + 'static,
    ) -> Result<()> {
        match self.database.starts_jobs() {
            true => jobs::start(self.clone(), pool, work),
            false => Err(Error::Closed),
        }
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
        let compacted = state.work.compactions.started;
        if awaited != Awaited::Nothing && !done(&state) {
            state.work.flushes.retry_now = true;
            self.tree.notify();
            self.schedule(&mut state);
            if awaited == Awaited::FlushesAndCompactions && state.work.compactions.is_careful() {
                drop(state);
                compactions::look_at_once(self);
                state = self.tree.lock();
            }
        }
        while !done(&state) {
            self.check_writable()?;
            let failed_flush = || state.work.flushes.failure_after(flushes);
            let failure = match awaited {
                Awaited::Nothing => None,
                Awaited::Flushes => failed_flush(),
                Awaited::FlushesAndCompactions => {
                    failed_flush().or_else(|| state.work.compactions.failure_after(compacted))
                }
            };
            if let Some(error) = failure {
                return Err(error.clone());
            }
            state = self.tree.wait(state);
        }
        Ok(state)
    }
}

/// What cursors request of the database: to take in the *marks* that they propose, which are
/// intervals of keys in which they saw nothing and over which later cursors jump (`iter/marks/`),
/// and to compact a range in which they passed many hidden entries.
impl Owner for WeakInner {
    fn take_in_marks(&self) {
        self.upgrade().iter().for_each(Inner::take_in_marks);
    }

    fn request_cleanup(&self, from: &[u8], end: Option<&[u8]>) {
        self.upgrade().iter().for_each(|inner| inner.request_cleanup(from, end));
    }
}

impl Inner {
    /// Accepts the proposed marks now, unless another thread leads the writers. Then that leader or
    /// the next one accepts them.
    fn take_in_marks(&self) {
        if let Some(mut writer) = self.database.writing.try_lead() {
            let last = writer.last_sequence;
            if let Ok(of_tree) = writer.of(self.tree.id) {
                of_tree.marks.take_in(self.tree.reading.marks(), last);
            }
        }
    }

    fn request_cleanup(&self, from: &[u8], end: Option<&[u8]>) {
        let next_file = self.database.store.next_file.load(Ordering::Relaxed);
        let (from, end) = (from.to_vec(), end.map(<[u8]>::to_vec));
        let cleanup = Cleanup { from, end, next_file };
        if lock(&self.tree.cleanups).request(cleanup) {
            self.schedule(&mut self.tree.lock());
        }
    }
}

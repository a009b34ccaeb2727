//! [`Jobs`]: how many jobs a database has, and which threads they may use. `background/jobs.rs`
//! starts and ends them.
//!
//! The trees of a database share its threads: those for compactions
//! ([`Builder::compaction_threads`](crate::Builder::compaction_threads)), and as many for flushes. A
//! tree that wants a thread when none is free waits in a queue, so that each tree gets its turn.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Result;
use crate::sync::{Condvar, Mutex, lock, rank};
use crate::version::KeyspaceId;

/// See the module.
#[derive(Default)]
pub(crate) struct Jobs {
    count: Mutex<Count, rank::Jobs>,
    /// Signalled when the last job has ended, and when the database is closed.
    changed: Condvar,
    /// Each job holds a clone of this, and closing waits until all clones are dropped.
    holds: Arc<()>,
    pub compaction_threads: Threads,
    pub flush_threads: Threads,
}

/// Threads that the trees share.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Shares, rank::Threads>);

#[derive(Default)]
struct Shares {
    idle: usize,
    /// The trees that wait for a thread, each once, and the longest wait first.
    waiting: VecDeque<KeyspaceId>,
}

impl Threads {
    pub fn new(idle: usize) -> Threads {
        Threads(Mutex::new(Shares { idle, waiting: VecDeque::new() }))
    }

    pub fn idle(&self) -> usize {
        lock(&self.0).idle
    }

    /// Takes up to `wanted` idle threads for a tree, and returns how many these are. If there is
    /// none, the tree waits for its turn.
    pub fn take(&self, keyspace: KeyspaceId, wanted: usize) -> usize {
        let mut shares = lock(&self.0);
        let taken = wanted.min(shares.idle);
        shares.idle -= taken;
        if taken == 0 && wanted > 0 && !shares.waiting.contains(&keyspace) {
            shares.waiting.push_back(keyspace);
        }
        taken
    }

    /// Like [`Threads::take`], but never waits.
    pub fn take_idle(&self, wanted: usize) -> usize {
        let mut shares = lock(&self.0);
        let taken = wanted.min(shares.idle);
        shares.idle -= taken;
        taken
    }

    pub fn give_back(&self, count: usize) {
        lock(&self.0).idle += count;
    }

    pub fn has_waiting(&self) -> bool {
        !lock(&self.0).waiting.is_empty()
    }

    /// The tree whose turn it is, if a thread is free.
    pub fn next_waiting(&self) -> Option<KeyspaceId> {
        let mut shares = lock(&self.0);
        match shares.idle {
            0 => None,
            _ => shares.waiting.pop_front(),
        }
    }
}

#[derive(Default)]
struct Count {
    /// Jobs that were started and have not ended. A manual compaction counts as a job, and so does
    /// a running turn of the timer (`background/timer.rs`).
    running: usize,
    /// A job has begun to close the database. The last job to end finishes the closing.
    closed_by_job: bool,
}

impl Jobs {
    /// `threads`: how many threads may compact at a time.
    pub fn new(threads: usize) -> Jobs {
        Jobs {
            compaction_threads: Threads::new(threads),
            flush_threads: Threads::new(threads),
            ..Jobs::default()
        }
    }

    /// Counts one more job if `start` succeeds. `start` fails once closing has begun, and closing
    /// waits for the jobs after it has begun, so it misses none.
    pub fn begin(&self, start: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut count = lock(&self.count);
        start()?;
        count.running += 1;
        Ok(())
    }

    /// Counts one job less. Returns whether the caller must finish the closing of the database.
    pub fn end(&self) -> bool {
        let mut count = lock(&self.count);
        count.running -= 1;
        if count.running > 0 {
            return false;
        }
        self.changed.notify_all();
        std::mem::take(&mut count.closed_by_job)
    }

    /// Lets the last job to end finish the closing. The caller is a job.
    pub fn close_with_last(&self) {
        lock(&self.count).closed_by_job = true;
    }

    /// Waits until `done` returns true for the number of running jobs. It is called again when the
    /// last job has ended, and after each [`Jobs::notify`].
    pub fn wait_until(&self, mut done: impl FnMut(usize) -> bool) {
        let mut count = lock(&self.count);
        while !done(count.running) {
            count = self.changed.wait(count);
        }
    }

    /// Wakes the threads that wait. Takes the lock, so that a thread that has just called its
    /// `done`, and is about to sleep, does not miss the call.
    pub fn notify(&self) {
        let _count = lock(&self.count);
        self.changed.notify_all();
    }

    /// Whether any job runs.
    #[cfg(all(test, not(loom)))]
    pub fn are_running(&self) -> bool {
        lock(&self.count).running > 0
    }

    /// What a job holds until it has dropped its reference to the database.
    pub fn hold(&self) -> Arc<()> {
        Arc::clone(&self.holds)
    }

    /// Whether a job still holds a reference to the database.
    pub fn is_held(&self) -> bool {
        Arc::strong_count(&self.holds) > 1
    }
}

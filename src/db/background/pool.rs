//! Threads for the jobs of all open databases of the process. A job takes an idle thread or a new
//! one, and a thread that stays idle ends.
//!
//! ```text
//!   run(job) ─► an idle thread takes it ─► it waits for the next ─► none came: it ends
//!           └─► none is idle: a new thread
//! ```
//!
//! Unless the system refuses another thread, no job waits for another job to end, so a database
//! whose device stalls delays no other database. Each database limits its own jobs. Flushes have a
//! pool of their own, so that they do not queue behind compactions even if the system refuses a
//! thread.
//!
//! The pool does not bound the number of threads, has no priorities, and returns no results of
//! jobs.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::sync::{Condvar, Mutex, PerProcess, lock, rank, thread};

/// How long a thread waits for its next job before it ends. A database that flushes every second or
/// two keeps its thread.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) static FLUSHES: Pool = Pool::new("maypole-flush", PATIENCE);
pub(crate) static COMPACTIONS: Pool = Pool::new("maypole-compact", PATIENCE);

pub(crate) type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct Pool {
    thread_name: &'static str,
    patience: Duration,
    /// A forked child has none of the threads, so it gets a pool of its own, without the parent's
    /// jobs.
    shared: PerProcess<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<PoolState, rank::JobPool>,
    /// Signalled for each job that an idle thread is to take.
    work: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
}

impl Pool {
    const fn new(thread_name: &'static str, patience: Duration) -> Pool {
        Pool { thread_name, patience, shared: PerProcess::new(Shared::default) }
    }

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    ///
    /// If the system refuses a thread, the job waits for a thread that the pool has. If the pool
    /// has none, the call fails and drops the job.
    pub fn run(&'static self, job: Job) -> io::Result<()> {
        let shared = self.shared.get();
        let mut state = lock(&shared.state);
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle {
            shared.work.notify_one();
            return Ok(());
        }
        match thread::spawn(self.thread_name, || self.work()) {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                state.jobs.pop_back();
                return Err(error);
            }
        }
        Ok(())
    }

    fn work(&'static self) {
        let shared = self.shared.get();
        let mut state = lock(&shared.state);
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                // The job itself reports its panic. The thread continues.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = lock(&shared.state);
            }
            state.idle += 1;
            let (woken, is_late) = shared.work.wait_timeout(state, self.patience);
            state = woken;
            state.idle -= 1;
            if is_late && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;
    use std::time::Instant;

    use super::*;

    fn run<T: Send + 'static>(
        pool: &'static Pool,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (sender, receiver) = mpsc::channel();
        pool.run(Box::new(move || drop(sender.send(job())))).unwrap();
        receiver
    }

    /// Waits until other threads have made `holds` true.
    fn eventually(pool: &'static Pool, holds: impl Fn(&PoolState) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(&lock(&pool.shared.get().state)) {
            assert!(Instant::now() < end, "waited in vain");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn ends_with_one_idle_thread(pool: &'static Pool) {
        eventually(pool, |state| state.idle == 1);
    }

    #[test]
    fn no_job_waits_for_another() {
        static POOL: Pool = Pool::new("test", Duration::from_millis(50));
        let (release, stalled) = mpsc::channel::<()>();
        let first = run(&POOL, move || stalled.recv().is_ok());
        // Each of these jobs ends while the first one still runs.
        let ids: Vec<ThreadId> =
            (0..20).map(|_| run(&POOL, || thread::current().id()).recv().unwrap()).collect();
        assert_eq!(ids.len(), 20);
        assert!(first.try_recv().is_err(), "the stalled job ended");
        drop(release);
        first.recv().unwrap();
        eventually(&POOL, |state| state.threads == 0);
    }

    #[test]
    fn a_thread_that_waits_takes_the_next_job_and_also_one_whose_job_panicked() {
        static POOL: Pool = Pool::new("test", Duration::from_secs(3600));
        let id = run(&POOL, || thread::current().id()).recv().unwrap();
        for panics in [true, false, true, false] {
            ends_with_one_idle_thread(&POOL);
            let next = run(&POOL, move || {
                assert!(!panics, "meant to panic");
                thread::current().id()
            });
            assert_eq!(next.recv().ok(), (!panics).then_some(id));
        }
        ends_with_one_idle_thread(&POOL);
        assert_eq!(lock(&POOL.shared.get().state).threads, 1);
    }
}

//! Reads by threads, where there is no ring.
//!
//! ```text
//!   caller ─► Batch: jobs ◄── helper threads: read into a buffer of their own, send it
//!     │         ▲
//!     └─────────┘  reads too while no answer has arrived, and calls `done` for all
//! ```
//!
//! The caller reads too. If the system has the bytes in memory, the caller reads most of them
//! before a thread has woken up. The price is that a result that arrives during such a read waits
//! until the read ends.
//!
//! A job owns its buffer and shares its file. A finished job no longer holds its file, so when
//! `read_all` has returned, no thread holds a file of its jobs.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Done, Part, ReadBuffer, ReadRequest};
use crate::error::Result;
use crate::fs::RandomAccessFile;
use crate::sync::{Process, lock};

/// The most threads of one reader.
const MAX_THREADS: usize = 16;
/// How long a thread waits for its next batch.
const PATIENCE: Duration = Duration::from_secs(3);

/// The threads of one reader. They start when needed, and end after [`PATIENCE`] without a batch,
/// or with the reader.
#[derive(Default)]
pub(super) struct Threads(pub(super) Arc<Shared>);

#[derive(Default)]
pub(super) struct Shared {
    /// A forked child has none of the threads.
    process: Process,
    state: Mutex<State>,
    /// Signalled when an idle thread should take a batch, and when the reader is dropped.
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Contains each batch once for each thread that should help with it.
    batches: VecDeque<Arc<Batch>>,
    /// Includes threads that have already ended.
    handles: Vec<JoinHandle<()>>,
    threads: usize,
    /// Threads that wait for a batch.
    idle: usize,
    is_closed: bool,
}

struct Batch {
    jobs: Mutex<VecDeque<Job>>,
    answers: Sender<Answer>,
}

struct Job {
    /// The number of the request.
    number: usize,
    file: Arc<dyn RandomAccessFile>,
    offset: u64,
    buffer: ReadBuffer,
}

/// A job's number, and what its read gave: the bytes, an error or a panic.
type Answer = (usize, thread::Result<Result<ReadBuffer>>);

/// When this value is dropped, also by a panic of `done`, it removes the jobs that have not begun.
struct Closing<'a>(&'a Batch);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        lock(&self.0.jobs).clear();
    }
}

impl Threads {
    /// Reads every part and passes the result to `done`. Parts that do not wait for a device come
    /// first, in their order.
    pub fn read_all(&self, parts: Vec<Part<'_>>, done: &mut Done<'_>) {
        // Usually there are no parts, because a ring has read them.
        if parts.len() < 2 {
            parts.into_iter().for_each(|part| part.read(done));
            return;
        }
        let (waiting, in_memory): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.request.file.waits_for_device());
        let (answers, received) = channel();
        let count = waiting.len();
        let jobs = waiting.into_iter().map(Job::of).collect();
        let batch = Arc::new(Batch { jobs: Mutex::new(jobs), answers });
        let _closing = Closing(&batch);
        self.help(&batch, count.saturating_sub(1));
        in_memory.into_iter().for_each(|part| part.read(done));
        for _ in 0..count {
            match next_answer(&batch, &received) {
                (number, Ok(bytes)) => done(number, bytes),
                (_, Err(panic)) => resume_unwind(panic),
            }
        }
    }

    pub fn check_process(&self) -> Result<()> {
        self.0.process.check()
    }

    #[cfg(all(test, not(loom)))]
    pub fn count(&self) -> usize {
        lock(&self.0.state).threads
    }

    /// Lets threads help with `batch`: at most `count`, at most [`MAX_THREADS`], and fewer if the
    /// system starts no more threads.
    fn help(&self, batch: &Arc<Batch>, count: usize) {
        let mut state = lock(&self.0.state);
        for _ in 0..count.min(MAX_THREADS) {
            state.batches.push_back(Arc::clone(batch));
            if state.batches.len() <= state.idle {
                self.0.work.notify_one();
            } else if state.threads < MAX_THREADS {
                let shared = Arc::clone(&self.0);
                let thread = thread::Builder::new().name("maypole-read".into());
                let Ok(handle) = thread.spawn(move || shared.work()) else { break };
                state.threads += 1;
                state.handles.retain(|handle| !handle.is_finished());
                state.handles.push(handle);
            }
        }
    }
}

/// Returns the next answer. Answers that have arrived come first, because the threads continue to
/// read while the caller processes these answers. If no answer has arrived, the caller does a job
/// that no thread has begun.
fn next_answer(batch: &Batch, received: &Receiver<Answer>) -> Answer {
    if let Ok(answer) = received.try_recv() {
        return answer;
    }
    let job = lock(&batch.jobs).pop_front();
    match job {
        Some(job) => (job.number, Ok(job.read())),
        None => received.recv().expect("the batch is alive and has a sender"),
    }
}

impl Batch {
    /// Reads until no job is left to begin.
    fn work(&self) {
        loop {
            let Some(job) = lock(&self.jobs).pop_front() else { return };
            let number = job.number;
            // The caller resumes the panic.
            let answer = catch_unwind(AssertUnwindSafe(|| job.read()));
            // This fails if the caller has ended by a panic, and then nobody needs the answer.
            let _ = self.answers.send((number, answer));
        }
    }
}

impl Job {
    fn of(part: Part<'_>) -> Job {
        let ReadRequest { file, offset, buffer } = part.request;
        Job { number: part.number, file: Arc::clone(file), offset, buffer }
    }

    fn read(mut self) -> Result<ReadBuffer> {
        self.file.read_exact_at(self.offset, &mut self.buffer)?;
        Ok(self.buffer)
    }
}

impl Shared {
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            while let Some(batch) = state.batches.pop_front() {
                drop(state);
                batch.work();
                state = lock(&self.state);
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, PATIENCE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.batches.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !self.0.process.is_current() {
            // A forked child drops nothing, not even a handle, because dropping a handle would
            // detach its thread, which does not exist in the child.
            return std::mem::forget(Arc::clone(&self.0));
        }
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        self.0.work.notify_all();
        for handle in handles {
            // These threads do not panic, because they catch the panics of reads.
            let _ = handle.join();
        }
    }
}

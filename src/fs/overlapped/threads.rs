//! Reads by threads: all reads of a call without a ring, and reads that the ring did not finish.
//!
//! ```text
//!   caller ─► Batch: jobs ◄── helper threads: read into a buffer of their own, send it
//!     │         ▲
//!     └─────────┘  reads too while no answer has arrived, and calls `done` for all
//! ```
//!
//! The caller reads too, because if the system has cached the bytes, the caller reads most of them
//! before a thread has woken up. The price is that the answer of a thread waits while the caller
//! reads.
//!
//! A *batch* consists of the reads of one call, and each of these reads is a *job*. A job owns its
//! buffer and holds a reference to its file, which it drops when it has finished. So when
//! `read_all` has returned, no thread holds a file of its jobs.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::buffer::ReadBuffer;
use super::request::{Done, NumberedRequest, ReadRequest};
use crate::error::Result;
use crate::fs::RandomAccessFile;
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, Process, lock, rank};

/// The most threads of one reader.
const MAX_THREADS: usize = 16;
/// How long a thread without a batch waits for the next one before it ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// The threads of one reader. They start when needed, and end after [`PATIENCE`] without a batch,
/// or with the reader.
#[derive(Default)]
pub(super) struct Threads(pub(super) Arc<Shared>);

#[derive(Default)]
pub(super) struct Shared {
    /// The process that has the threads. A forked child has none of them.
    process: Process,
    state: Mutex<State, rank::ReadThreads>,
    /// Signalled when an idle thread should take a batch, and when the reader is dropped.
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// The batches that wait for a thread. A batch is in the queue once for each thread that shall
    /// help with it.
    batches: VecDeque<Arc<Batch>>,
    /// Includes threads that have already ended.
    handles: Vec<JoinHandle<()>>,
    threads: usize,
    /// Threads that wait for a batch.
    idle: usize,
    is_closed: bool,
}

struct Batch {
    jobs: Mutex<VecDeque<Job>, rank::ReadJobs>,
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

/// When it is dropped, also by a panic of `done`, removes the jobs that no thread has begun.
struct Closing<'a>(&'a Batch);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        lock(&self.0.jobs).clear();
    }
}

impl Threads {
    /// Reads every part and passes the result to `done`. Parts that do not wait for a device come
    /// first, in their order.
    pub fn read_all(&self, parts: Vec<NumberedRequest<'_>>, done: &mut Done<'_>) {
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

    /// Lets up to `count` threads help with `batch`, but not more than [`MAX_THREADS`], and fewer
    /// if the system refuses to start a thread.
    fn help(&self, batch: &Arc<Batch>, count: usize) {
        let mut state = lock(&self.0.state);
        for _ in 0..count.min(MAX_THREADS) {
            state.batches.push_back(Arc::clone(batch));
            if state.batches.len() <= state.idle {
                self.0.work.notify_one();
            } else if state.threads < MAX_THREADS {
                let shared = Arc::clone(&self.0);
                let Ok(handle) = thread::spawn("maypole-read", move || shared.work()) else {
                    break;
                };
                state.threads += 1;
                // shuttle's handles do not say it.
                #[cfg(not(shuttle))]
                state.handles.retain(|handle| !handle.is_finished());
                state.handles.push(handle);
            }
        }
    }
}

/// Returns an answer that has arrived, so that the caller processes it while the threads continue
/// to read. If none has arrived, does a job that no thread has begun. If there is no such job,
/// waits for an answer.
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
            // Sending fails if a panic has ended the caller. The answer is then not needed.
            let _ = self.answers.send((number, answer));
        }
    }
}

impl Job {
    fn of(part: NumberedRequest<'_>) -> Job {
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
            let (woken, is_late) = self.work.wait_timeout(state, PATIENCE);
            state = woken;
            state.idle -= 1;
            if is_late && state.batches.is_empty() {
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

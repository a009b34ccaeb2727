//! The thread that has `STATS` written for all databases of the process that publish counters.
//!
//! ```text
//!   database   due at
//!   A          12:00:01.0   ◄── the thread sleeps until the earliest of them
//!   B          12:00:01.3
//!   C          12:00:10.0
//! ```
//!
//! One thread, however many databases publish; none while none does. At each turn it compares
//! counters in memory, and writes where they have changed. While it works for a database it counts
//! as one of its jobs, so closing waits for it, and nothing is written after the lock is given back.
//!
//! What is absent: threads for slow devices. A stalled device delays the figures of other databases.
//! It delays nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use crate::db::Inner;
use crate::sync::{PerProcess, lock};

/// A forked child has not the thread, and none of the databases.
static TIMER: PerProcess<Timer> = PerProcess::new(Timer::default);

#[derive(Default)]
struct Timer {
    state: Mutex<TimerState>,
    /// Signalled when `turns` changes.
    changed: Condvar,
}

#[derive(Default)]
struct TimerState {
    turns: Vec<Turn>,
    has_thread: bool,
}

/// A database that publishes, and when it is due.
struct Turn {
    at: Instant,
    inner: Weak<Inner>,
}

/// Has `STATS` of a database written from now on, if it publishes.
pub(crate) fn start(inner: &Arc<Inner>) {
    if inner.publishing.is_none() {
        return;
    }
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    state.turns.push(Turn { at: Instant::now(), inner: Arc::downgrade(inner) });
    if !state.has_thread {
        // Where the system refuses a thread, the next database that publishes tries again. The
        // last counters are written at closing, without it.
        let thread = thread::Builder::new().name("maypole-stats".into());
        state.has_thread = thread.spawn(work).is_ok();
    }
    timer.changed.notify_one();
}

/// The database is closing. Lock nothing of it: the thread locks its state after the turns.
pub(crate) fn stop(inner: &Inner) {
    if inner.publishing.is_some() {
        let timer = TIMER.get();
        let mut state = lock(&timer.state);
        state.turns.retain(|turn| !std::ptr::eq(turn.inner.as_ptr(), inner));
        timer.changed.notify_one();
    }
}

fn work() {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    while let Some(turn) = state.turns.iter_mut().min_by_key(|turn| turn.at) {
        let now = Instant::now();
        if turn.at > now {
            let left = turn.at - now;
            let waited = timer.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        // Under the lock: a database that is closing has no turn any more, or waits for this work.
        let working = turn.inner.upgrade().and_then(|inner| inner.work_until_closed().ok());
        let Some(working) = working else {
            let gone = turn.inner.clone();
            state.turns.retain(|turn| !turn.inner.ptr_eq(&gone));
            continue;
        };
        turn.at = now + working.inner().publish_interval();
        drop(state);
        // A file system of the caller may panic. The thread is not this database's alone.
        let publish = || working.inner().publish_stats(true);
        let _ = catch_unwind(AssertUnwindSafe(publish));
        drop(working);
        state = lock(&timer.state);
    }
    state.has_thread = false;
}

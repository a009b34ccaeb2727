//! The thread that wakes databases at certain times, to write `STATS` and to see whether the tree
//! has come to rest ([`super::rest`]).
//!
//! ```text
//!   database   due at
//!   A          12:00:01.0   ◄── the thread sleeps until the earliest of them
//!   B          12:00:01.3
//!   C          12:00:10.0
//! ```
//!
//! There is one thread while any database waits for its turn, and otherwise none. While the thread
//! works for a database it counts as one of that database's jobs. So closing waits for it, and
//! nothing is written after the lock of the directory is released.
//!
//! There are no threads for slow devices: a stalled device delays the turns of other databases, but
//! no other work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::db::inner::Inner;
use crate::sync::{PerProcess, lock};

/// A forked child has neither the thread nor the databases.
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

/// The work of a turn. The result is the wait until the next turn; `None` if there is no next turn.
pub(crate) type TurnWork = fn(&Inner) -> Option<Duration>;

/// A database that waits for its turn.
struct Turn {
    at: Instant,
    inner: Weak<Inner>,
    work: TurnWork,
}

/// Runs `work` after `delay`, and again after each wait that it returns. The caller must hold no
/// lock of the database, because the timer's thread locks the list of turns first and the
/// database's state after it.
pub(crate) fn add(inner: &Arc<Inner>, delay: Duration, work: TurnWork) {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    let at = Instant::now() + delay;
    state.turns.push(Turn { at, inner: Arc::downgrade(inner), work });
    if !state.has_thread {
        // If the system refuses a thread, the next turn that is added tries again.
        let thread = thread::Builder::new().name("maypole-timer".into());
        state.has_thread = thread.spawn(work_by_turns).is_ok();
    }
    timer.changed.notify_one();
}

/// Cancels the turns of a database that is closing. The caller must hold no lock of the database.
pub(crate) fn cancel(inner: &Inner) {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    state.turns.retain(|turn| !std::ptr::eq(turn.inner.as_ptr(), inner));
    timer.changed.notify_one();
}

fn work_by_turns() {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    while let Some(i) = (0..state.turns.len()).min_by_key(|&i| state.turns[i].at) {
        let now = Instant::now();
        if state.turns[i].at > now {
            let left = state.turns[i].at - now;
            let waited = timer.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let Turn { inner, work, .. } = state.turns.swap_remove(i);
        // The list is still locked here, so that a database that is closing either has no turn any
        // more or waits for this work.
        let working = inner.upgrade().and_then(|inner| inner.work_until_closed().ok());
        let Some(working) = working else { continue };
        drop(state);
        // The caller's file system may panic, and the thread serves other databases too.
        let next = catch_unwind(AssertUnwindSafe(|| work(working.inner())));
        state = lock(&timer.state);
        // If closing began during the work, `cancel` did not find this turn, so it must not be
        // added again.
        if let Ok(Some(wait)) = next
            && working.inner().status.check_open().is_ok()
        {
            state.turns.push(Turn { at: now + wait, inner, work });
        }
        // The lock of the list is released first, because dropping the last job of a closed
        // database finishes its closing.
        drop(state);
        drop(working);
        state = lock(&timer.state);
    }
    state.has_thread = false;
}

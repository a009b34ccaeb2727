//! The thread that wakes databases at certain times: to publish their counters in the file `STATS`,
//! to see whether their trees have come to rest ([`super::idle`]), and whether a flush or a compaction
//! that has failed may be tried again ([`super::attempts`]).
//!
//! ```text
//!   database   due at
//!   A          12:00:01.0   ◄── the thread sleeps until the earliest of them
//!   B          12:00:01.3
//!   C          12:00:10.0
//! ```
//!
//! A *turn* is one call of a database's work at its time. The thread exists only while some
//! database waits for a turn. While the thread works for a database, it counts as one of that
//! database's jobs. So closing waits for it, and nothing is written after the lock of the directory
//! is released.
//!
//! All databases share the one thread, so a stalled device delays the turns of other databases, also
//! the next attempts after failed ones, but no other work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::jobs::work_until_closed;
use crate::db::inner::{Inner, WeakInner};
use crate::sync::time::Instant;
use crate::sync::{Condvar, Mutex, PerProcess, lock, rank, thread};

/// How long a turn waits after a panic of the user's file system in it.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// A forked child has neither the parent's thread nor its databases, so it gets a timer of its own.
static TIMER: PerProcess<Timer> = PerProcess::new(Timer::default);

#[derive(Default)]
struct Timer {
    state: Mutex<TimerState, rank::Timer>,
    /// Signalled when `turns` changes.
    changed: Condvar,
}

#[derive(Default)]
struct TimerState {
    turns: Vec<Turn>,
    has_thread: bool,
}

/// The work of a turn. Its function returns the wait until the next turn; `None` if there is no
/// next turn. Each work is a `static`, whose address identifies it.
pub(crate) struct TurnWork(pub fn(&Inner) -> Option<Duration>);

/// A database that waits for its turn.
struct Turn {
    at: Instant,
    inner: WeakInner,
    work: &'static TurnWork,
}

impl TimerState {
    /// A tree has at most one turn for each work. If it has one already, the earlier of the two
    /// times counts.
    fn add(&mut self, turn: Turn) {
        let is_same = |other: &&mut Turn| {
            std::ptr::eq(other.work, turn.work) && other.inner.is_same(&turn.inner)
        };
        match self.turns.iter_mut().find(is_same) {
            Some(other) => other.at = other.at.min(turn.at),
            None => self.turns.push(turn),
        }
    }

    /// If the system refuses a thread, the next call tries again.
    fn ensure_thread(&mut self) {
        if !self.has_thread && !self.turns.is_empty() {
            self.has_thread = thread::spawn("maypole-timer", work_by_turns).is_ok();
        }
    }
}

/// Runs `work` when `delay` is over, or earlier if the database already has an earlier turn for it.
/// Each run returns the wait until the next one. The caller must hold no lock of the database,
/// because the timer's thread locks the list of turns first and the database's state after it.
pub(crate) fn add(inner: &Inner, delay: Duration, work: &'static TurnWork) {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    let at = Instant::now() + delay;
    state.add(Turn { at, inner: inner.downgrade(), work });
    state.ensure_thread();
    timer.changed.notify_one();
}

/// Tries again to start the thread if the system has refused it. Called where a call returns the
/// error of work that waits for its turn, because there may be no other call. The caller must hold
/// no lock of the database.
pub(crate) fn ensure_thread() {
    lock(&TIMER.get().state).ensure_thread();
}

/// Cancels the turns of a database that is closing. The caller must hold no lock of the database.
pub(crate) fn cancel(inner: &Inner) {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    state.turns.retain(|turn| !turn.inner.is_of(&inner.database));
    timer.changed.notify_one();
}

/// When the database's turns with this work are due.
#[cfg(test)]
pub(super) fn turns(inner: &Inner, work: &'static TurnWork) -> Vec<Instant> {
    let state = lock(&TIMER.get().state);
    let of_work = |turn: &&Turn| turn.inner.is_of(&inner.database) && std::ptr::eq(turn.work, work);
    state.turns.iter().filter(of_work).map(|turn| turn.at).collect()
}

/// Cancels all turns of the database, and adds one with this work at the end of `wait`.
#[cfg(test)]
pub(super) fn set(inner: &Inner, wait: Duration, work: &'static TurnWork) {
    cancel(inner);
    add(inner, wait, work);
}

fn work_by_turns() {
    let timer = TIMER.get();
    let mut state = lock(&timer.state);
    while let Some(i) = (0..state.turns.len()).min_by_key(|&i| state.turns[i].at) {
        let now = Instant::now();
        if state.turns[i].at > now {
            let left = state.turns[i].at - now;
            state = timer.changed.wait_timeout(state, left).0;
            continue;
        }
        let Turn { inner, work, .. } = state.turns.swap_remove(i);
        // The list stays locked until the work counts as a job, so that a closing database either
        // has removed this turn before or waits for the work.
        let upgraded = inner.upgrade();
        let working = upgraded.as_ref().and_then(|inner| work_until_closed(inner).ok());
        drop(state);
        // If this is the last reference to a closed database, its drop calls the user's file system.
        drop(upgraded);
        let Some(working) = working else {
            state = lock(&timer.state);
            continue;
        };
        // The user's file system may panic. The panic is caught, because the thread serves other
        // databases too. The turn comes again, because without it failed work would not be tried
        // again.
        let next = catch_unwind(AssertUnwindSafe(|| work.0(working.inner())));
        let next = next.unwrap_or(Some(AFTER_PANIC));
        state = lock(&timer.state);
        // If closing began during the work, `cancel` did not find this turn, so it must not be
        // added again.
        if let Some(wait) = next
            && working.inner().database.status.check_open().is_ok()
        {
            state.add(Turn { at: now + wait, inner, work });
        }
        // Dropping `working` may finish the closing of the database, which calls the user's file
        // system and may take long. So the lock of the list is released first.
        drop(state);
        drop(working);
        state = lock(&timer.state);
    }
    state.has_thread = false;
}

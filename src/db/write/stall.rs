//! Stalls: a writer waits before it queues, while the trees that it writes to cannot take more
//! ([`write_stall`](super::write_stall)).
//!
//! ```text
//!   memtable full, two frozen           waits until one is flushed       each change of the tree wakes
//!   level 0 or the debt at its stop     waits for compactions            it
//!   level 0 or the debt at its slow     pays for its bytes in time
//!   frozen memtables of all keyspaces   waits for any flush
//!     above their bound
//! ```
//!
//! **Delays.** Each delayed write moves the time until which writers of the tree must wait by the time
//! that its bytes take at the allowed speed, and waits until then. So all writers together keep to the
//! speed.
//!
//! **Work that has failed.** If the flush or the compaction that a writer would wait for has failed
//! for lack of space or a thread, the wait might never end, so the writer gets its error instead.
//! Writes that only delete pass compactions that have failed: they take little space, and compactions
//! free space with them.

use std::sync::Arc;
use std::time::Duration;

use super::batch::WriteBatch;
use super::write_stall::{Pressure, WriteStall, WriteStallCause, wait_for, write_stall_for};
use crate::db::background::timer;
use crate::db::events;
use crate::db::inner::Inner;
use crate::db::inner::tree::Tree;
use crate::db::inner::tree_state::TreeState;
use crate::error::Result;
use crate::stats::Ticker;
use crate::sync::atomic::Ordering;
use crate::sync::time::Instant;
use crate::sync::{lock, thread};

/// The shortest sleep of a delayed writer. Shorter sleeps take longer than requested.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// The longest sleep of a delayed writer, so that it notices the end of the delay.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// How long a stopped writer sleeps when nothing wakes it. Every change of the state wakes it, so
/// this only guards against a missed change.
const STOP_PATIENCE: Duration = Duration::from_millis(100);

/// Waits until the trees that the batch writes to can take it. The batch is resolved.
///
/// # Errors
///
/// That of the work that would have to be waited for; [`Error::KeyspaceDropped`](crate::Error).
#[inline(always)]
pub(super) fn wait_for_room(inner: &Inner, batch: &WriteBatch) -> Result<()> {
    if batch.names_keyspaces() {
        return wait_for_rooms(inner, batch);
    }
    let tree = match inner.tree.id {
        0 => &inner.tree,
        _ => inner.database.trees.default_tree(),
    };
    match tree.stalls_writers() {
        true => wait_while_stalled(&inner.with_tree(Arc::clone(tree)), batch),
        false => Ok(()),
    }
}

#[cold]
fn wait_for_rooms(inner: &Inner, batch: &WriteBatch) -> Result<()> {
    for &keyspace in batch.keyspaces() {
        if keyspace == inner.tree.id {
            if inner.tree.stalls_writers() {
                wait_while_stalled(inner, batch)?;
            }
            continue;
        }
        let tree = inner.database.trees.get(keyspace)?;
        if tree.stalls_writers() {
            wait_while_stalled(&inner.with_tree(tree), batch)?;
        }
    }
    while inner.database.has_too_many_frozen() {
        inner.check_writable()?;
        check_flushes(inner)?;
        // Each flush lowers the bytes, also one of another keyspace, which wakes nobody here.
        stalled(inner, Ticker::StallMemtableStops, || thread::sleep(MAX_WAIT));
    }
    Ok(())
}

/// # Errors
///
/// That of a tree whose last flush has failed.
fn check_flushes(inner: &Inner) -> Result<()> {
    let flush_failed = &inner.database.flush_failed;
    // Cleared before the look, so that a failure during the look is not forgotten.
    if !flush_failed.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    for tree in inner.database.trees.all() {
        let of_tree = inner.with_tree(tree);
        let mut state = of_tree.tree.lock();
        let failed = of_tree.error_instead_of_waiting(&mut state, WriteStallCause::Memtables);
        if let Some(error) = failed {
            flush_failed.store(true, Ordering::Relaxed);
            drop(state);
            timer::ensure_thread();
            return Err(error);
        }
    }
    Ok(())
}

#[cold]
fn wait_while_stalled(inner: &Inner, batch: &WriteBatch) -> Result<()> {
    let memtable_bytes = inner.tree.options().memtable_bytes;
    loop {
        inner.check_writable()?;
        let mut state = inner.tree.lock();
        if state.waits_for_space {
            // The leader tries the take-over of the directory again.
            return Ok(());
        }
        match current_stall(&state, memtable_bytes) {
            WriteStall::None => return Ok(()),
            WriteStall::Stop(cause) => {
                if let Some(error) = inner.error_instead_of_waiting(&mut state, cause) {
                    drop(state);
                    timer::ensure_thread();
                    let passes = cause != WriteStallCause::Memtables && batch.only_deletes();
                    return if passes { Ok(()) } else { Err(error) };
                }
                let ticker = match cause {
                    WriteStallCause::Memtables => Ticker::StallMemtableStops,
                    WriteStallCause::Level0 => Ticker::StallL0Stops,
                    WriteStallCause::Debt => Ticker::StallDebtStops,
                };
                stalled(inner, ticker, || drop(inner.tree.wait_at_most(state, STOP_PATIENCE)));
            }
            WriteStall::Delay { cause, bytes_per_second } => {
                drop(state);
                let ticker = match cause {
                    WriteStallCause::Debt => Ticker::StallDebtDelays,
                    _ => Ticker::StallL0Delays,
                };
                let until = pay(&inner.tree, batch.size_bytes() as u64, bytes_per_second);
                return wait_until_paid(inner, until, ticker);
            }
        }
    }
}

/// Sleeps until then, or until the tree delays no writer any more.
fn wait_until_paid(inner: &Inner, until: Instant, ticker: Ticker) -> Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left < MIN_WAIT {
            return Ok(());
        }
        if !inner.tree.stalls_writers() {
            // What no writer has to wait for any more is not left to later ones.
            *lock(&inner.tree.paid_until) = None;
            return Ok(());
        }
        stalled(inner, ticker, || thread::sleep(left.min(MAX_WAIT)));
        inner.check_writable()?;
    }
}

/// Runs `wait`. Counts this stall, by its cause and in total, and adds up its time.
fn stalled(inner: &Inner, cause: Ticker, wait: impl FnOnce()) {
    let start = Instant::now();
    wait();
    inner.database.counters().add(cause, 1);
    inner.database.counters().add(Ticker::StallCount, 1);
    inner.database.counters().add(Ticker::StallMicros, start.elapsed().as_micros() as u64);
    events::waited(&inner.database.store.dir, cause, start.elapsed());
}

fn current_stall(state: &TreeState, memtable_bytes: usize) -> WriteStall {
    let memtable_is_full = state.memtable.is_full(memtable_bytes);
    let frozen_memtables = state.frozen.len();
    write_stall_for(Pressure { memtable_is_full, frozen_memtables, ..state.pressure })
}

/// Until when the writer of so many bytes must wait at this speed.
fn pay(tree: &Tree, bytes: u64, bytes_per_second: u64) -> Instant {
    let now = Instant::now();
    let mut paid_until = lock(&tree.paid_until);
    let until = paid_until.map_or(now, |paid| paid.max(now)) + wait_for(bytes, bytes_per_second);
    *paid_until = Some(until);
    until
}

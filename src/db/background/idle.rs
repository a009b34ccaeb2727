//! When the tree counts as idle, and which dead entries compactions remove then.
//!
//! ```text
//!   a table with deletions or hidden versions enters the tree ──► the timer looks every 5 s
//!   no write since the last look                               ──► the tree is idle: a smaller
//!                                                                   dead share is worth a merge
//!   nothing is left to merge                                   ──► the next look is when a
//!                                                                   deletion is due
//!                                                                   (`max_deletion_age`)
//!   the last snapshot for which something was kept is released ──► what is due is picked at once
//! ```
//!
//! The *dead share* of a table is the part of its bytes, and of the bytes of the older tables that
//! overlap it, that a merge would free ([`dead`]). In a database without deletions and overwrites
//! the timer never looks at the tree.

use std::sync::Arc;
use std::time::Duration;

use super::timer::{self, TurnWork};
use crate::compaction::dead;
use crate::db::inner::Inner;
use crate::db::inner::tree::Tree;
use crate::encoding::key::SequenceNumber;

/// The time between two looks of the timer at the tree. The tree counts as idle after one to two of
/// these intervals without a write.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The longest time without a look while the timer waits for a deletion to become due
/// (`max_deletion_age`). It is bounded because the system's clock may be changed in the meantime.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

static LOOK: TurnWork = TurnWork(look);

/// Makes the timer look at the changed tree, if the tree may hold dead entries. The caller must
/// hold no locks.
pub(super) fn watch_for_idle(inner: &Inner) {
    if inner.tree.idle.is_awaited() || !may_hold_dead(&inner.tree) {
        return;
    }
    if inner.database.starts_jobs() && !inner.tree.idle.set_awaited(true) {
        timer::add(inner, LOOK_EVERY, &LOOK);
    }
}

/// Called by the timer. Returns the wait until the next call; `None` if there is to be none.
fn look(inner: &Inner) -> Option<Duration> {
    let mut state = inner.tree.lock();
    let last = match inner.database.trees.has_others() {
        // Writes to other keyspaces do not count.
        true => state.memtable.largest_sequence(),
        false => inner.database.sequences.visible(),
    };
    let is_idle = inner.tree.idle.look(last);
    state.is_idle = is_idle;
    if inner.is_stopping() {
        return None;
    }
    inner.schedule(&mut state);
    if !is_idle || state.compactions > 0 || state.flushing {
        return Some(LOOK_EVERY);
    }
    let conditions = inner.tree.conditions(&state);
    let version = &state.version;
    let due = version.files().filter_map(|(_, file)| dead::deadline(&file.meta, &conditions));
    let wait = due.min().map(|due| Duration::from_secs(due.saturating_sub(conditions.now)));
    // A deletion may stay overdue, for example because a snapshot needs it, because a table is
    // damaged, or for lack of space. A look at once would not help, so the wait is at least
    // `LOOK_EVERY`.
    let wait = wait.map(|wait| wait.clamp(LOOK_EVERY, MAX_WAIT));
    // If the next look is later than `LOOK_EVERY` from now, or if none is to come,
    // the look is not awaited any more, so that a change of the tree adds an earlier look
    // ([`watch_for_idle`]).
    if wait != Some(LOOK_EVERY) {
        inner.tree.idle.set_awaited(false);
    }
    wait
}

/// Called when a snapshot for which tables may have kept something was released.
pub(in crate::db) fn needed_snapshot_released(inner: &Inner, sequence: SequenceNumber) {
    let trees = inner.database.trees.all();
    for tree in trees.iter().filter(|tree| sequence <= tree.reading.needed_snapshot()) {
        look_for_freed(&inner.with_tree(Arc::clone(tree)));
    }
    let of_trees = || trees.iter().map(|tree| tree.reading.needed_snapshot()).max().unwrap_or(0);
    inner.database.sequences.snapshots.set_needed(of_trees);
}

/// Starts the compactions that may now drop what a snapshot kept.
fn look_for_freed(inner: &Inner) {
    let mut state = inner.tree.lock();
    inner.tree.reading.note_needed_snapshot(&state.version);
    // What a rewrite could not drop for this snapshot it may drop now.
    state.unavailable.vain.clear();
    inner.schedule(&mut state);
    inner.tree.notify();
    drop(state);
    watch_for_idle(inner);
}

fn may_hold_dead(tree: &Tree) -> bool {
    let version = tree.lock().version.clone();
    version.files().any(|(_, file)| dead::may_hold_dead(&file.meta))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Db;

    /// Regression: while the timer waited a day for a deletion to become due, it did not notice
    /// that a load of writes began and ended, so the tree did not count as idle until that day was
    /// over. Now a change of the tree shortens the wait.
    #[test]
    fn new_writes_are_looked_at_soon_although_a_deletion_is_due_much_later() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::builder(dir.path()).open().unwrap();
        for i in 0..1000_u32 {
            db.put(i.to_be_bytes(), [7; 100]).unwrap();
        }
        db.compact_range(..).unwrap();
        db.delete(500_u32.to_be_bytes()).unwrap();
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let inner = &db.inner;
        // The second look finds that nothing was written since the first.
        look(inner);
        let wait = look(inner);
        assert!(wait.is_some_and(|wait| wait > LOOK_EVERY), "{wait:?}");
        timer::set(inner, wait.unwrap(), &LOOK);
        db.put(7_u32.to_be_bytes(), [8; 100]).unwrap();
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let turns = timer::turns(inner, &LOOK);
        assert_eq!(turns.len(), 1);
        assert!(turns[0] <= Instant::now() + LOOK_EVERY);
    }
}

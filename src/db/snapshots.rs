//! [`SnapshotList`]: the sequence numbers of the live snapshots.
//!
//! For each of these numbers, and for each key, compaction keeps the newest version whose sequence
//! number is at most that number.

use crate::encoding::key::SequenceNumber;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::time::Instant;
use crate::sync::{Mutex, Process, lock, rank};

/// The sequence numbers of the live snapshots.
#[derive(Default)]
pub(crate) struct SnapshotList {
    /// By ascending numbers. Most snapshots are young, so they come and go at the end.
    live: Mutex<Vec<Live>, rank::Snapshots>,
    /// No snapshot with a larger sequence number keeps something in a table of any tree from being
    /// freed. Changed under the lock of `live`.
    needed: AtomicU64,
    /// A snapshot that a forked child makes is not listed, because it returns only errors.
    process: Process,
}

/// Snapshots of one sequence number.
struct Live {
    sequence: SequenceNumber,
    count: usize,
    /// When the first of them was made.
    since: Instant,
}

impl SnapshotList {
    /// Registers the number that `current` returns: that of the last visible write, or of another
    /// live snapshot. The last visible number must be loaded under the lock. Then a compaction that
    /// has read the list before this call drops only versions that are hidden by writes that were
    /// visible then. These writes are visible at this number too.
    pub fn register(&self, current: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        if !self.process.is_current() {
            return current();
        }
        let mut live = lock(&self.live);
        let sequence = current();
        match find(&live, sequence) {
            Ok(known) => live[known].count += 1,
            Err(place) => live.insert(place, Live { sequence, count: 1, since: Instant::now() }),
        }
        sequence
    }

    /// Releases a number. Returns whether tables may hold something that can be freed now. For most
    /// releases this is false, and they cost only one more comparison.
    pub fn release(&self, sequence: SequenceNumber) -> bool {
        let mut live = lock(&self.live);
        let Ok(place) = find(&live, sequence) else { return false };
        live[place].count -= 1;
        if live[place].count > 0 {
            return false;
        }
        live.remove(place);
        sequence <= self.needed.load(Ordering::Relaxed)
    }

    /// Notes the largest sequence number of a snapshot that keeps something in the tables of a tree
    /// from being freed. A snapshot that is made later has a larger number, and keeps nothing in the
    /// existing tables.
    pub fn note_needed(&self, sequence: SequenceNumber) {
        if sequence > self.needed.load(Ordering::Relaxed) {
            let _live = lock(&self.live);
            self.needed.fetch_max(sequence, Ordering::Relaxed);
        }
    }

    /// Sets the bound of all trees to what `of_trees` returns: the largest number that any tree has
    /// noted, which each tree stores before it notes it.
    pub fn set_needed(&self, of_trees: impl FnOnce() -> SequenceNumber) {
        let _live = lock(&self.live);
        self.needed.store(of_trees(), Ordering::Relaxed);
    }

    /// The number of live snapshots.
    pub fn len(&self) -> usize {
        lock(&self.live).iter().map(|live| live.count).sum()
    }

    /// When the oldest snapshot was made.
    pub fn oldest(&self) -> Option<Instant> {
        lock(&self.live).iter().map(|live| live.since).min()
    }

    /// All registered sequence numbers, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        lock(&self.live).iter().map(|live| live.sequence).collect()
    }
}

fn find(live: &[Live], sequence: SequenceNumber) -> Result<usize, usize> {
    live.binary_search_by_key(&sequence, |live| live.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_listed_until_its_last_holder_leaves() {
        let list = SnapshotList::default();
        for sequence in [7, 3, 7] {
            list.register(|| sequence);
        }
        assert_eq!(list.sequences(), [3, 7]);
        list.release(7);
        assert_eq!(list.sequences(), [3, 7]);
        list.set_needed(|| 5);
        assert!(!list.release(7), "nothing that 7 sees is needed by it alone");
        assert!(list.release(3));
        assert!(list.sequences().is_empty() && list.oldest().is_none());
    }
}

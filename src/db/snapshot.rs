//! Which old versions somebody can still see.
//!
//! A snapshot is a sequence number that stays registered while the handle lives. Compaction asks
//! for the registered numbers and keeps, for each of them, the newest version at or below it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::encoding::key::SequenceNumber;
use crate::sync::lock;

/// The sequence numbers that somebody holds, each with how many hold it.
#[derive(Default)]
pub(crate) struct SnapshotList {
    held: Mutex<BTreeMap<SequenceNumber, usize>>,
}

impl SnapshotList {
    /// Registers what `current` answers. It is asked under the lock, so a compaction that read
    /// the list before can only have dropped versions that were hidden at that moment already.
    pub fn register(&self, current: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        let mut held = lock(&self.held);
        let sequence = current();
        *held.entry(sequence).or_default() += 1;
        sequence
    }

    pub fn release(&self, sequence: SequenceNumber) {
        let mut held = lock(&self.held);
        if let Some(count) = held.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                held.remove(&sequence);
            }
        }
    }

    /// All held sequence numbers, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        lock(&self.held).keys().copied().collect()
    }
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
        list.release(7);
        list.release(3);
        assert!(list.sequences().is_empty());
    }
}

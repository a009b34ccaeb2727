//! [`NeededWals`]: the WALs that a replay would need, and where each begins.
//!
//! ```text
//!   WAL              3.wal          7.wal          9.wal (the writer's)
//!   first sequence   1              120            300
//!   unflushed        keyspace 0 from 310 on, keyspace 1 from 150 on
//!                                   ▲ the oldest WAL that is needed: 150 is in it
//! ```
//!
//! A WAL holds writes of all keyspaces. It is needed as long as any memtable has an entry from it.
//! So the oldest needed WAL follows from one number: the smallest sequence number of all entries
//! that are in no table.

use std::collections::VecDeque;

use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::sync::{Mutex, lock, rank};

/// See the module. The WALs are in a list, because a flush cannot look for them in the directory: it
/// may have any number of files, and then the time of the flushes would be quadratic.
pub(crate) struct NeededWals(Mutex<VecDeque<NeededWal>, rank::NeededWals>);

/// A WAL that is not obsolete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeededWal {
    pub number: u64,
    /// No record of it has a smaller sequence number.
    pub first: SequenceNumber,
    /// Its size; 0 as long as the writer uses it.
    pub bytes: u64,
}

impl NeededWals {
    /// `wals`: oldest first. The last one is the writer's.
    pub fn new(wals: Vec<NeededWal>) -> NeededWals {
        NeededWals(Mutex::new(wals.into()))
    }

    pub fn replace(&self, wals: Vec<NeededWal>) {
        *lock(&self.0) = wals.into();
    }

    /// Adds the writer's new WAL. The one before it has got `sealed_bytes`.
    pub fn push(&self, number: u64, first: SequenceNumber, sealed_bytes: u64) {
        let mut wals = lock(&self.0);
        if let Some(sealed) = wals.back_mut() {
            sealed.bytes = sealed_bytes;
        }
        wals.push_back(NeededWal { number, first, bytes: 0 });
    }

    /// Where the second WAL begins, if the sealed WALs have more than `most_bytes` together.
    pub fn second_if_larger_than(&self, most_bytes: u64) -> Option<SequenceNumber> {
        let wals = lock(&self.0);
        let bytes: u64 = wals.iter().map(|wal| wal.bytes).sum();
        wals.get(1).filter(|_| bytes > most_bytes).map(|wal| wal.first)
    }

    pub fn newest(&self) -> Option<NeededWal> {
        lock(&self.0).back().copied()
    }

    /// No write up to this number is in a later WAL than the write `sequence`.
    pub fn last_beside(&self, sequence: SequenceNumber) -> SequenceNumber {
        let wals = lock(&self.0);
        let later = wals.iter().find(|wal| wal.first > sequence);
        later.map_or(MAX_SEQUENCE, |wal| wal.first - 1)
    }

    /// The oldest WAL that a replay needs if the writes from `unflushed` on are in no table. `newest`
    /// was the newest WAL before `unflushed` was determined, so that later writes, which may be in
    /// `newest`, are not forgotten.
    pub fn oldest_needed(
        &self,
        newest: Option<NeededWal>,
        unflushed: SequenceNumber,
    ) -> Option<NeededWal> {
        let wals = lock(&self.0);
        let newest = newest?;
        let older =
            wals.iter().rev().find(|wal| wal.number <= newest.number && wal.first <= unflushed);
        older.or(wals.front()).copied()
    }

    /// Removes the WALs below `oldest` from the list, and returns their numbers.
    pub fn take_before(&self, oldest: u64) -> Vec<u64> {
        let mut wals = lock(&self.0);
        let obsolete = wals.partition_point(|wal| wal.number < oldest);
        wals.drain(..obsolete).map(|wal| wal.number).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wal_is_needed_for_as_long_as_one_entry_of_it_is_in_no_table() {
        let wal = |number, first| NeededWal { number, first, bytes: 0 };
        let wals = NeededWals::new(vec![wal(3, 1), wal(7, 120), wal(9, 300)]);
        let newest = wals.newest();
        let oldest = |unflushed| wals.oldest_needed(newest, unflushed).unwrap().number;
        assert_eq!([1, 119, 120, 299, 300, u64::MAX].map(oldest), [3, 3, 7, 7, 9, 9]);
        assert_eq!([1, 119, 120, 299].map(|it| wals.last_beside(it)), [119, 119, 299, 299]);
        assert_eq!(wals.last_beside(300), MAX_SEQUENCE);
        // A WAL that came after the look at the memtables may have writes that the look missed, and
        // so may the one before it.
        wals.push(12, 400, 1000);
        assert_eq!(oldest(u64::MAX), 9);
        assert_eq!(wals.take_before(9), [3, 7]);
        assert_eq!(oldest(5), 9, "what is before the first WAL is in tables");
    }
}

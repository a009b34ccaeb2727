//! [`RecentWrites`]: the keys that the last groups have written.
//!
//! ```text
//!   sequence numbers   ...  17      19        24
//!   noted                   since   a b       c [d, f)     19 and 24: last numbers of two groups
//! ```
//!
//! The leader notes the keys while a transaction commits that has met other writers. So the leader
//! can tell such a transaction what was written since it has checked its reads, without a search of
//! memtables or tables. The list is bounded. If it does not go back far enough, or if it lacks
//! something that was written since, the transaction checks again outside.
//!
//! Invariant: the list has every write from `since` to `last`. A group that is noted after one that
//! was not, or after an ingestion, begins a new list.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::batch::{BatchOperation, WriteBatch};
use crate::encoding::key::SequenceNumber;

/// The most bytes of noted keys. A leader compares at most these for a transaction, so other writers
/// wait for some ten microseconds.
const MOST_BYTES: usize = 32 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct RecentWrites {
    /// The numbers before the first noted write, and of the last one.
    since: SequenceNumber,
    last: SequenceNumber,
    /// The last sequence number of each group, and its writes without their values.
    groups: VecDeque<(SequenceNumber, WriteBatch)>,
    bytes: usize,
}

impl RecentWrites {
    /// Notes a group whose writes have the numbers after `before`, up to `last`.
    #[cold]
    pub fn note<'b>(
        &mut self,
        before: SequenceNumber,
        last: SequenceNumber,
        group: impl Iterator<Item = &'b WriteBatch>,
    ) {
        if self.last != before {
            self.begin_after(before);
        }
        self.last = last;
        let mut keys = WriteBatch::new();
        for (keyspace, write) in group.flat_map(WriteBatch::writes) {
            keys.aim(NonZeroU64::MIN, keyspace.unwrap_or(0));
            match write {
                BatchOperation::Put { key, .. } | BatchOperation::Delete { key } => {
                    keys.delete(key);
                }
                BatchOperation::DeleteRange { start, end: Some(end) } => {
                    keys.delete_range(start..end);
                }
                BatchOperation::DeleteRange { start, end: None } => {
                    keys.delete_range(start..);
                }
            }
            // A large group is not worth its copy: whoever asks checks again outside.
            if keys.size_bytes() > MOST_BYTES {
                return self.begin_after(last);
            }
        }
        self.bytes += keys.size_bytes();
        self.groups.push_back((last, keys));
        while self.bytes > MOST_BYTES
            && let Some((last, oldest)) = self.groups.pop_front()
        {
            self.since = last;
            self.bytes -= oldest.size_bytes();
        }
    }

    fn begin_after(&mut self, since: SequenceNumber) {
        self.groups.clear();
        (self.since, self.last, self.bytes) = (since, since, 0);
    }

    /// The writes after `sequence` up to `last`, which is the last write, without their values. `None`
    /// if they are not all noted.
    pub fn between(
        &self,
        sequence: SequenceNumber,
        last: SequenceNumber,
    ) -> Option<impl Iterator<Item = &WriteBatch>> {
        let are_noted = self.since <= sequence && self.last == last;
        let newer = self.groups.iter().rev().take_while(move |(number, _)| *number > sequence);
        are_noted.then(|| newer.map(|(_, keys)| keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_between(
        recent: &RecentWrites,
        sequence: SequenceNumber,
        last: SequenceNumber,
    ) -> Option<Vec<Vec<u8>>> {
        let batches: Vec<_> = recent.between(sequence, last)?.collect();
        let writes = batches.iter().rev().flat_map(|batch| batch.iter());
        let key = |write| match write {
            BatchOperation::Delete { key } => key.to_vec(),
            other => panic!("{other:?}"),
        };
        Some(writes.map(key).collect())
    }

    fn note(recent: &mut RecentWrites, number: SequenceNumber, key: impl AsRef<[u8]>) {
        let mut batch = WriteBatch::new();
        batch.put(key, vec![1; 100]);
        recent.note(number - 1, number, [batch].iter());
    }

    #[test]
    fn what_was_written_after_a_number_is_told_as_far_as_it_was_noted() {
        let mut recent = RecentWrites::default();
        for number in 7..10 {
            note(&mut recent, number, format!("key {number}"));
        }
        assert!(recent.between(5, 9).is_none());
        assert_eq!(keys_between(&recent, 6, 9).unwrap(), [b"key 7", b"key 8", b"key 9"]);
        assert_eq!(keys_between(&recent, 8, 9).unwrap(), [b"key 9"]);
        assert!(keys_between(&recent, 9, 9).unwrap().is_empty());
    }

    #[test]
    fn a_write_that_was_not_noted_is_never_passed_over() {
        let mut recent = RecentWrites::default();
        note(&mut recent, 7, "key 7");
        // Number 8 was not noted, whether or not something is noted after it.
        assert!(recent.between(6, 8).is_none());
        note(&mut recent, 9, "key 9");
        assert!(recent.between(6, 9).is_none() && recent.between(7, 9).is_none());
        assert_eq!(keys_between(&recent, 8, 9).unwrap(), [b"key 9"]);
    }

    #[test]
    fn the_list_is_bounded() {
        let mut recent = RecentWrites::default();
        let key = vec![b'k'; MOST_BYTES / 4];
        for number in 1..10 {
            note(&mut recent, number, &key);
            assert!(recent.bytes <= MOST_BYTES);
        }
        assert!(recent.between(5, 9).is_none());
        assert_eq!(keys_between(&recent, 7, 9).unwrap().len(), 2);
        note(&mut recent, 10, vec![b'k'; MOST_BYTES]);
        assert!(recent.between(9, 10).is_none());
        assert!(keys_between(&recent, 10, 10).unwrap().is_empty());
        note(&mut recent, 11, "k");
        assert_eq!(keys_between(&recent, 10, 11).unwrap().len(), 1);
    }
}

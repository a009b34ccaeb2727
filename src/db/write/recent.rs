//! [`RecentWrites`]: the keys that the last groups have written.
//!
//! ```text
//!   last_sequence  ...  17      19        24           24 = the last write
//!   noted               since   a b       c [d, f)     19 and 24: last numbers of two groups
//! ```
//!
//! The leader notes the keys while a transaction commits that has met other writers, and forgets them
//! otherwise. So the leader can tell such a transaction what was written since it has checked its
//! reads, without a search of memtables or tables. The list is bounded. If it does not go back far
//! enough, the transaction checks again outside.

use std::collections::VecDeque;

use super::batch::{BatchOperation, WriteBatch};
use crate::encoding::key::SequenceNumber;

/// The most bytes of noted keys. A leader compares at most these for a transaction, so other writers
/// wait for some ten microseconds.
const MOST_BYTES: usize = 32 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct RecentWrites {
    /// Every write after this one is in `groups`. `None`: nothing is noted.
    since: Option<SequenceNumber>,
    /// The last sequence number of each group, and its writes without their values.
    groups: VecDeque<(SequenceNumber, WriteBatch)>,
    bytes: usize,
}

impl RecentWrites {
    pub fn are_noted(&self) -> bool {
        self.since.is_some()
    }

    pub fn forget(&mut self) {
        *self = RecentWrites::default();
    }

    /// Notes a group whose writes have the numbers after `before`, up to `last`.
    pub fn note<'b>(
        &mut self,
        before: SequenceNumber,
        last: SequenceNumber,
        group: impl Iterator<Item = &'b WriteBatch>,
    ) {
        self.since.get_or_insert(before);
        let mut keys = WriteBatch::new();
        for write in group.flat_map(WriteBatch::iter) {
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
                (self.since, self.bytes) = (Some(last), 0);
                self.groups.clear();
                return;
            }
        }
        self.bytes += keys.size_bytes();
        self.groups.push_back((last, keys));
        while self.bytes > MOST_BYTES
            && let Some((last, oldest)) = self.groups.pop_front()
        {
            self.since = Some(last);
            self.bytes -= oldest.size_bytes();
        }
    }

    /// The writes after `sequence`, without their values; `None` if they are not all noted.
    pub fn after(&self, sequence: SequenceNumber) -> Option<impl Iterator<Item = &WriteBatch>> {
        let is_noted = self.since.is_some_and(|since| since <= sequence);
        let newer = self.groups.iter().rev().take_while(move |(last, _)| *last > sequence);
        is_noted.then(|| newer.map(|(_, keys)| keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_after(recent: &RecentWrites, sequence: SequenceNumber) -> Option<Vec<Vec<u8>>> {
        let batches: Vec<_> = recent.after(sequence)?.collect();
        let writes = batches.iter().rev().flat_map(|batch| batch.iter());
        Some(
            writes
                .map(|write| match write {
                    BatchOperation::Delete { key } => key.to_vec(),
                    other => panic!("{other:?}"),
                })
                .collect(),
        )
    }

    fn note(recent: &mut RecentWrites, number: SequenceNumber, key: impl AsRef<[u8]>) {
        let mut batch = WriteBatch::new();
        batch.put(key, vec![1; 100]);
        recent.note(number - 1, number, [batch].iter());
    }

    #[test]
    fn what_was_written_after_a_number_is_told_as_far_as_it_was_noted() {
        let mut recent = RecentWrites::default();
        assert!(recent.after(0).is_none() && !recent.are_noted());
        for number in 7..10 {
            note(&mut recent, number, format!("key {number}"));
        }
        assert!(recent.after(5).is_none());
        assert_eq!(keys_after(&recent, 6).unwrap(), [b"key 7", b"key 8", b"key 9"]);
        assert_eq!(keys_after(&recent, 8).unwrap(), [b"key 9"]);
        assert!(keys_after(&recent, 9).unwrap().is_empty());
        recent.forget();
        assert!(recent.after(9).is_none());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut recent = RecentWrites::default();
        let key = vec![b'k'; MOST_BYTES / 4];
        for number in 1..10 {
            note(&mut recent, number, &key);
            assert!(recent.bytes <= MOST_BYTES);
        }
        assert!(recent.after(5).is_none());
        assert_eq!(keys_after(&recent, 7).unwrap().len(), 2);
        note(&mut recent, 10, vec![b'k'; MOST_BYTES]);
        assert!(recent.after(9).is_none());
        assert!(keys_after(&recent, 10).unwrap().is_empty());
        note(&mut recent, 11, "k");
        assert_eq!(keys_after(&recent, 10).unwrap().len(), 1);
    }
}

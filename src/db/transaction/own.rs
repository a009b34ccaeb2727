//! [`OwnWrites`]: the writes of a transaction, which only it sees until it commits.
//!
//! ```text
//!   put, delete      an entry of `entries`, which replaces an earlier one of the key
//!   delete_range     removes the entries in its range, and joins `deleted`
//!   get              the entry of the key; else nothing, if `deleted` holds the key; else the
//!                    snapshot's value
//!   commit           one batch: the deleted ranges first, then the entries
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::db::write::batch::WriteBatch;
use crate::slice::Slice;

/// See the module. Allocates nothing before the first write.
#[derive(Default)]
pub(super) struct OwnWrites {
    /// `None`: the key is deleted.
    entries: BTreeMap<Vec<u8>, Option<Slice>>,
    /// Deleted ranges that neither overlap nor touch: the exclusive end by the start.
    deleted: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// An own write of a key. `None`: the key is deleted.
pub(super) type OwnEntry<'t> = (&'t [u8], Option<&'t Slice>);

impl OwnWrites {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.deleted.is_empty()
    }

    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.entries.insert(key.to_vec(), value.map(Slice::copy_from));
    }

    /// Deletes the keys from `start` (inclusive) to `end` (exclusive), which is not before `start`.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        if start >= end {
            return;
        }
        let in_range = (Bound::Included(start), Bound::Excluded(end));
        let covered: Vec<_> =
            self.entries.range::<[u8], _>(in_range).map(|it| it.0.clone()).collect();
        covered.iter().for_each(|key| drop(self.entries.remove(key)));
        let (mut start, mut end) = (start.to_vec(), end.to_vec());
        // The ranges that this one overlaps or touches join it.
        while let Some((first, last)) = self.deleted.range(..=end.clone()).next_back()
            && *last >= start
        {
            start = start.min(first.clone());
            end = end.max(last.clone());
            let first = first.clone();
            self.deleted.remove(&first);
        }
        self.deleted.insert(start, end);
    }

    /// What the writes make of `key`: its value, or `Some(None)` if they delete it. `None`: they do
    /// not concern it.
    pub fn get(&self, key: &[u8]) -> Option<Option<&Slice>> {
        if let Some(entry) = self.entries.get(key) {
            return Some(entry.as_ref());
        }
        self.deleted_around(key).map(|_| None)
    }

    /// The deleted range that holds `key`.
    pub fn deleted_around(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (start, end) = self.deleted.range::<[u8], _>(upto).next_back()?;
        (key < &end[..]).then_some((start, end))
    }

    /// The first entry of a range.
    pub fn first_in(&self, lower: Bound<&[u8]>, upper: Option<&[u8]>) -> Option<OwnEntry<'_>> {
        // A range that is empty or reversed would panic.
        let (key, value) = self.entries.range::<[u8], _>((lower, Bound::Unbounded)).next()?;
        let is_past = upper.is_some_and(|upper| &key[..] >= upper);
        (!is_past).then_some((key, value.as_ref()))
    }

    /// The last entry of a range. `upper`: exclusive.
    pub fn last_in(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Option<OwnEntry<'_>> {
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, value) = self.entries.range::<[u8], _>((Bound::Unbounded, upper)).next_back()?;
        let is_before = lower.is_some_and(|lower| &key[..] < lower);
        (!is_before).then_some((key, value.as_ref()))
    }

    /// The writes as one batch.
    pub fn to_batch(&self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for (start, end) in &self.deleted {
            batch.delete_range(start, end);
        }
        for (key, value) in &self.entries {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        batch
    }
}

//! [`OwnWrites`]: the writes of a transaction, which only it sees until it commits.
//!
//! ```text
//!   put, delete      an entry of `entries`, which replaces an earlier one of the key
//!   delete_range     removes the entries in its range, and joins `deleted`
//!   pop_first …      also joins the passed range to `empty`, which a later put cuts
//!   get              the entry of the key; else nothing, if `deleted` holds the key; else the
//!                    snapshot's value
//!   commit           one batch: the deleted ranges first, then the entries
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::db::iter::bounds::after;
use crate::db::write::batch::WriteBatch;
use crate::slice::Slice;

/// See the module. Allocates nothing before the first write.
#[derive(Default)]
pub(super) struct OwnWrites {
    /// `None`: the key is deleted.
    entries: BTreeMap<Vec<u8>, Option<Slice>>,
    deleted: Ranges,
    /// Ranges in which the transaction shows nothing, so that cursors need not pass what is deleted
    /// there.
    empty: Ranges,
}

/// An own write of a key. `None`: the key is deleted.
pub(super) type OwnEntry<'t> = (&'t [u8], Option<&'t Slice>);

impl OwnWrites {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.deleted.0.is_empty()
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.empty.remove(key);
        self.entries.insert(key.to_vec(), Some(Slice::copy_from(value)));
    }

    pub fn delete(&mut self, key: &[u8]) {
        self.entries.insert(key.to_vec(), None);
    }

    /// Deletes the keys from `start` (inclusive) to `end` (exclusive; `None`: to the last of all
    /// keys).
    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        let covered: Vec<_> =
            self.entries_from(Bound::Included(start), end).map(|it| it.0.to_vec()).collect();
        covered.iter().for_each(|key| drop(self.entries.remove(key)));
        self.deleted.add(start, end);
    }

    /// Notes that the transaction shows nothing from `start` to `end`, as [`Self::delete_range`] takes
    /// them.
    pub fn note_empty(&mut self, start: &[u8], end: Option<&[u8]>) {
        self.empty.add(start, end);
    }

    /// What the writes make of `key`: its value, or `Some(None)` if they delete it. `None`: they do
    /// not concern it.
    pub fn get(&self, key: &[u8]) -> Option<Option<&Slice>> {
        if let Some(entry) = self.entries.get(key) {
            return Some(entry.as_ref());
        }
        self.deleted_around(key).map(|_| None)
    }

    /// The deleted range that holds `key`. It may hold own entries, which are newer.
    pub fn deleted_around(&self, key: &[u8]) -> Option<RangeAround<'_>> {
        self.deleted.around(key)
    }

    /// The range around `key` in which nothing is shown.
    pub fn empty_around(&self, key: &[u8]) -> Option<RangeAround<'_>> {
        self.empty.around(key)
    }

    /// The entries from `lower` to before `upper` (`None`: to the last one).
    pub fn entries_from(
        &self,
        lower: Bound<&[u8]>,
        upper: Option<&[u8]>,
    ) -> impl Iterator<Item = OwnEntry<'_>> {
        // The upper bound is not passed to the map, which panics if it is before the lower one.
        let entries = self.entries.range::<[u8], _>((lower, Bound::Unbounded));
        let entries = entries.map(|(key, value)| (&key[..], value.as_ref()));
        entries.take_while(move |(key, _)| upper.is_none_or(|upper| *key < upper))
    }

    /// The last entry of a range. `upper`: exclusive.
    pub fn last_in(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Option<OwnEntry<'_>> {
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, value) = self.entries.range::<[u8], _>((Bound::Unbounded, upper)).next_back()?;
        let is_before = lower.is_some_and(|lower| &key[..] < lower);
        (!is_before).then_some((key, value.as_ref()))
    }

    /// Adds the writes to a batch.
    pub fn add_to(&self, batch: &mut WriteBatch) {
        for (start, end) in &self.deleted.0 {
            match end {
                Some(end) => batch.delete_range(start..end),
                None => batch.delete_range(start..),
            };
        }
        for (key, value) in &self.entries {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
    }
}

/// Ranges of keys that neither overlap nor touch: the exclusive end by the start. `None`: to the last
/// of all keys.
#[derive(Default)]
struct Ranges(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

/// The start and the end of a range.
pub(super) type RangeAround<'t> = (&'t [u8], Option<&'t [u8]>);

impl Ranges {
    /// Adds a range. It joins those that it overlaps or touches.
    fn add(&mut self, start: &[u8], end: Option<&[u8]>) {
        let (mut start, mut end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        while let Some((first, last)) = self.last_up_to(end.as_deref())
            && last.is_none_or(|last| last >= &start[..])
        {
            let first = first.to_vec();
            let last = self.0.remove(&first).expect("the range is there");
            end = end.zip(last).map(|(one, other)| one.max(other));
            start = start.min(first);
        }
        self.0.insert(start, end);
    }

    /// Removes one key.
    fn remove(&mut self, key: &[u8]) {
        let Some((start, _)) = self.around(key) else { return };
        let start = start.to_vec();
        let end = self.0.remove(&start).expect("the range is there");
        if start[..] < *key {
            self.0.insert(start, Some(key.to_vec()));
        }
        let rest = after(key);
        if end.as_ref().is_none_or(|end| rest < *end) {
            self.0.insert(rest, end);
        }
    }

    /// The last range that starts at `key` or before it (`None`: the last one).
    fn last_up_to(&self, key: Option<&[u8]>) -> Option<RangeAround<'_>> {
        let upto = (Bound::Unbounded, key.map_or(Bound::Unbounded, Bound::Included));
        let (start, end) = self.0.range::<[u8], _>(upto).next_back()?;
        Some((start, end.as_deref()))
    }

    /// The range that holds `key`.
    fn around(&self, key: &[u8]) -> Option<RangeAround<'_>> {
        let (start, end) = self.last_up_to(Some(key))?;
        end.is_none_or(|end| key < end).then_some((start, end))
    }
}

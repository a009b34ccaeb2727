//! A memtable in plain, safe code, with which tests compare the fast one.
//!
//! It is a sorted map behind a lock. Cursors copy their current entry.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, RwLock};

use crate::cursor::Cursor;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, SEEK_KIND, SequenceNumber};
use crate::error::Result;

/// A user key and its trailer, which holds sequence number and kind. Sorts as internal keys do.
type Key = (Vec<u8>, Reverse<u64>);
type Map = Arc<RwLock<BTreeMap<Key, Vec<u8>>>>;

#[derive(Default)]
pub struct ReferenceMemtable {
    points: Map,
    ranges: Map,
}

impl ReferenceMemtable {
    pub fn insert(&mut self, user_key: &[u8], sequence: SequenceNumber, kind: u8, value: &[u8]) {
        let map = if kind == EntryKind::RangeDeletion as u8 { &self.ranges } else { &self.points };
        let key = (user_key.to_vec(), Reverse(key::pack(sequence, kind)));
        assert!(map.write().unwrap().insert(key, value.to_vec()).is_none(), "inserted twice");
    }

    pub fn get(
        &self,
        user_key: &[u8],
        sequence: SequenceNumber,
    ) -> Option<(SequenceNumber, u8, Vec<u8>)> {
        let from = (user_key.to_vec(), Reverse(key::pack(sequence, SEEK_KIND)));
        let map = self.points.read().unwrap();
        let ((found, Reverse(trailer)), value) = map.range(from..).next()?;
        (found == user_key).then(|| (trailer >> 8, *trailer as u8, value.clone()))
    }

    pub fn cursor(&self) -> ReferenceCursor {
        ReferenceCursor { map: Arc::clone(&self.points), entry: None }
    }

    /// Like `Memtable::covering`, but compares every range.
    pub fn covering(&self, user_key: &[u8], sequence: SequenceNumber) -> SequenceNumber {
        let ranges = self.range_deletions().into_iter();
        let holding = ranges.filter(|(start, end, number)| {
            &start[..] <= user_key && user_key < &end[..] && *number <= sequence
        });
        holding.map(|(_, _, number)| number).max().unwrap_or(0)
    }

    /// Start, end and sequence number of each range deletion, in the order of the start's internal
    /// key.
    pub fn range_deletions(&self) -> Vec<(Vec<u8>, Vec<u8>, SequenceNumber)> {
        let ranges = self.ranges.read().unwrap();
        let item = |((start, Reverse(trailer)), end): (&Key, &Vec<u8>)| {
            (start.clone(), end.clone(), trailer >> 8)
        };
        ranges.iter().map(item).collect()
    }

    pub fn len(&self) -> usize {
        self.points.read().unwrap().len() + self.ranges.read().unwrap().len()
    }
}

pub struct ReferenceCursor {
    map: Map,
    /// Internal key and value.
    entry: Option<(Vec<u8>, Vec<u8>)>,
}

fn split(internal_key: &[u8]) -> Key {
    (key::user_key(internal_key).to_vec(), Reverse(key::trailer(internal_key)))
}

impl ReferenceCursor {
    fn stand_on(
        &mut self,
        pick: impl for<'m> FnOnce(&'m BTreeMap<Key, Vec<u8>>) -> Option<(&'m Key, &'m Vec<u8>)>,
    ) -> Result<()> {
        let map = self.map.read().unwrap();
        self.entry = pick(&map).map(|((user_key, Reverse(trailer)), value)| {
            (key::internal_key(user_key, trailer >> 8, *trailer as u8), value.clone())
        });
        Ok(())
    }
}

impl Cursor for ReferenceCursor {
    fn valid(&self) -> bool {
        self.entry.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.stand_on(|map| map.first_key_value())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.stand_on(|map| map.last_key_value())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let target = split(target);
        self.stand_on(|map| map.range(target..).next())
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        let target = split(target);
        self.stand_on(|map| map.range(..target).next_back())
    }

    fn next(&mut self) -> Result<()> {
        let here = split(self.key());
        self.stand_on(|map| map.range((Excluded(here), Unbounded)).next())
    }

    fn prev(&mut self) -> Result<()> {
        let here = self.key().to_vec();
        self.seek_before(&here)
    }

    fn key(&self) -> &[u8] {
        &self.entry.as_ref().expect("the cursor is on an entry").0
    }

    fn value(&self) -> &[u8] {
        &self.entry.as_ref().expect("the cursor is on an entry").1
    }
}

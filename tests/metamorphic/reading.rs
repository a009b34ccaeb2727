//! Every kind of read, compared with the map that it should show.
//!
//! All of them panic at the first difference. A read that returns an error is passed on: only the
//! caller knows whether the disk has failed.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use maypole::{Db, DbCursor, DbIterator, Result, Slice, Snapshot};

use super::keys::{Key, Universe, Value, show_value};
use super::model::Map;

/// What a database and a snapshot have in common.
pub trait Readable {
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;
    fn get_length(&self, key: &[u8]) -> Result<Option<usize>>;
    fn explain(&self, key: &[u8]) -> Result<Option<Slice>>;
    fn contains_key(&self, key: &[u8]) -> Result<bool>;
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Slice>>>;
    fn range(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> DbIterator;
    fn prefix(&self, prefix: &[u8]) -> DbIterator;
    fn cursor(&self) -> DbCursor;
    fn first(&self) -> Result<Option<(Slice, Slice)>>;
    fn last(&self) -> Result<Option<(Slice, Slice)>>;
    fn is_empty(&self) -> Result<bool>;
    fn len(&self) -> Result<u64>;
}

macro_rules! readable {
    ($($Type:ty)*) => {$(
        impl Readable for $Type {
            fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
                <$Type>::get(self, key)
            }
            fn get_length(&self, key: &[u8]) -> Result<Option<usize>> {
                <$Type>::get_with(self, key, <[u8]>::len)
            }
            fn explain(&self, key: &[u8]) -> Result<Option<Slice>> {
                Ok(<$Type>::explain(self, key)?.value)
            }
            fn contains_key(&self, key: &[u8]) -> Result<bool> {
                <$Type>::contains_key(self, key)
            }
            fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Slice>>> {
                <$Type>::multi_get(self, keys)
            }
            fn range(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> DbIterator {
                <$Type>::range(self, bounds)
            }
            fn prefix(&self, prefix: &[u8]) -> DbIterator {
                <$Type>::prefix(self, prefix)
            }
            fn cursor(&self) -> DbCursor {
                <$Type>::cursor(self)
            }
            fn first(&self) -> Result<Option<(Slice, Slice)>> {
                self.first_key_value()
            }
            fn last(&self) -> Result<Option<(Slice, Slice)>> {
                self.last_key_value()
            }
            fn is_empty(&self) -> Result<bool> {
                <$Type>::is_empty(self)
            }
            fn len(&self) -> Result<u64> {
                <$Type>::len(self)
            }
        }
    )*};
}

readable!(Db Snapshot);

/// One state, as a map and as the name that a failure calls it by.
pub struct Expected<'a> {
    pub keys: &'a Universe,
    pub map: &'a Map,
    pub name: &'a str,
}

impl Expected<'_> {
    fn same_value(&self, call: &str, key: Key, found: Option<&[u8]>) {
        let wanted = self.map.get(&key);
        let is_same = match (wanted, found) {
            (Some(wanted), Some(found)) => wanted.is(found),
            (wanted, found) => wanted.is_none() && found.is_none(),
        };
        if !is_same {
            let wanted = wanted.map(|value| value.bytes());
            panic!(
                "{call} of {}, {}: {} instead of {}",
                self.keys.show(key),
                self.name,
                show_value(found),
                show_value(wanted.as_deref())
            );
        }
    }

    fn same_entry(&self, call: &str, wanted: Option<Key>, found: Option<(&[u8], &[u8])>) {
        match (wanted, found) {
            (None, None) => {}
            (Some(key), Some((bytes, value))) if self.keys.bytes(key) == bytes => {
                self.same_value(call, key, Some(value));
            }
            (wanted, found) => {
                let key = |key| self.keys.show(key);
                let found = found.map(|(bytes, _)| {
                    let known = self.keys.find(bytes).map(key);
                    known.unwrap_or_else(|| format!("unknown key {}", bytes.escape_ascii()))
                });
                panic!(
                    "{call}, {}: at {} instead of {}",
                    self.name,
                    found.unwrap_or("the end".into()),
                    wanted.map_or("the end".into(), key)
                );
            }
        }
    }

    /// `get`, `get_with`, `contains_key` and `explain` of one key.
    pub fn get(&self, view: &impl Readable, key: Key) -> Result<u64> {
        let bytes = self.keys.bytes(key);
        self.same_value("get", key, view.get(bytes)?.as_deref());
        self.same_value("explain", key, view.explain(bytes)?.as_deref());
        let length = self.map.get(&key).map(|value| value.length as usize);
        let shown = self.keys.show(key);
        assert_eq!(view.get_length(bytes)?, length, "get_with of {shown}, {}", self.name);
        let contains = view.contains_key(bytes)?;
        assert_eq!(contains, length.is_some(), "contains_key of {shown}, {}", self.name);
        Ok(4)
    }

    pub fn multi_get(&self, view: &impl Readable, keys: &[Key]) -> Result<u64> {
        let bytes: Vec<&[u8]> = keys.iter().map(|&key| self.keys.bytes(key)).collect();
        let found = view.multi_get(&bytes)?;
        assert_eq!(found.len(), keys.len());
        for (&key, value) in keys.iter().zip(&found) {
            self.same_value("multi_get", key, value.as_deref());
        }
        Ok(keys.len() as u64)
    }

    /// The first and the last entry, and how many there are.
    pub fn ends(&self, view: &impl Readable) -> Result<u64> {
        let pair = |entry: &Option<(Slice, Slice)>, call: &str, wanted: Option<Key>| {
            self.same_entry(call, wanted, entry.as_ref().map(|(k, v)| (&k[..], &v[..])));
        };
        pair(&view.first()?, "first_key_value", self.map.keys().next().copied());
        pair(&view.last()?, "last_key_value", self.map.keys().next_back().copied());
        assert_eq!(view.is_empty()?, self.map.is_empty(), "is_empty, {}", self.name);
        assert_eq!(view.len()?, self.map.len() as u64, "len, {}", self.name);
        Ok(4)
    }

    /// A step of an iterator from its front or from its back. Its remaining entries are those of the
    /// keys in `left`. Returns whether there was one.
    pub fn step(
        &self,
        call: &str,
        iterator: &mut DbIterator,
        left: &mut Range<Key>,
        is_front: bool,
    ) -> Result<bool> {
        let mut rest = self.map.range(left.clone()).map(|(&key, _)| key);
        let (item, wanted) = match is_front {
            true => (iterator.next(), rest.next()),
            false => (iterator.next_back(), rest.next_back()),
        };
        let item = item.transpose()?;
        self.same_entry(call, wanted, item.as_ref().map(|(k, v)| (&k[..], &v[..])));
        match wanted {
            Some(key) if is_front => left.start = key + 1,
            Some(key) => left.end = key,
            None => left.end = left.start,
        }
        Ok(wanted.is_some())
    }

    /// An iterator over the keys from `from` to before `to`, from both ends until one of them is
    /// reached: `true` is a step from the front.
    fn both_ends(
        &self,
        call: &str,
        mut found: DbIterator,
        (from, to): (Key, Key),
        steps: impl Iterator<Item = bool>,
    ) -> Result<u64> {
        let mut left = from..to.max(from);
        let mut compared = 0;
        for step in steps {
            compared += 1;
            if !self.step(call, &mut found, &mut left, step)? {
                break;
            }
        }
        Ok(compared)
    }

    /// An iterator over the keys from `from` to before `to`, with one of the forms that the bounds
    /// may have.
    pub fn iterator(
        &self,
        view: &impl Readable,
        (from, to): (Key, Key),
        form: usize,
    ) -> DbIterator {
        let (count, key) = (self.keys.count(), |key| self.keys.bytes(key));
        let lower = match form % 3 {
            1 if from > 0 => Bound::Excluded(key(from - 1)),
            2 if from == 0 => Bound::Unbounded,
            _ => Bound::Included(key(from)),
        };
        let upper = match form / 3 % 3 {
            1 if to > 0 && to <= count => Bound::Included(key(to - 1)),
            2 if to == count => Bound::Unbounded,
            _ => Bound::Excluded(key(to)),
        };
        view.range((lower, upper))
    }

    pub fn range(
        &self,
        view: &impl Readable,
        (from, to): (Key, Key),
        form: usize,
        steps: &[bool],
    ) -> Result<u64> {
        let found = self.iterator(view, (from, to), form);
        self.both_ends("range", found, (from, to), steps.iter().copied())
    }

    pub fn prefix(&self, view: &impl Readable, key: Key, length: usize) -> Result<u64> {
        let bytes = self.keys.bytes(key);
        let prefix = &bytes[..length.min(bytes.len())];
        let keys = self.keys.with_prefix(prefix);
        let ends = (keys.start, keys.end);
        let forward = std::iter::repeat(true);
        let compared = self.both_ends("prefix", view.prefix(prefix), ends, forward)?;
        let backward = std::iter::repeat(false);
        let again = self.both_ends("prefix backward", view.prefix(prefix), ends, backward)?;
        Ok(compared + again)
    }

    /// Seeks a cursor; returns the key that it should be on.
    pub fn seek(&self, cursor: &mut DbCursor, start: Key, backward: bool) -> Result<Option<Key>> {
        let bytes = self.keys.bytes(start);
        let at = match backward {
            true => {
                cursor.seek_for_prev(bytes)?;
                self.map.range(..=start).next_back()
            }
            false => {
                cursor.seek(bytes)?;
                self.map.range(start..).next()
            }
        };
        let at = at.map(|(&key, _)| key);
        self.same_entry("seek", at, cursor.entry());
        Ok(at)
    }

    /// Moves a cursor that is on `at`, until it is past an end. `true` is a step forward.
    pub fn walk(
        &self,
        cursor: &mut DbCursor,
        mut at: Option<Key>,
        steps: &[bool],
    ) -> Result<(u64, Option<Key>)> {
        let mut compared = 0;
        for &forward in steps {
            let Some(key) = at else { break };
            at = match forward {
                true => {
                    cursor.next()?;
                    self.map.range(key + 1..).next()
                }
                false => {
                    cursor.prev()?;
                    self.map.range(..key).next_back()
                }
            }
            .map(|(&key, _)| key);
            self.same_entry(if forward { "next" } else { "prev" }, at, cursor.entry());
            compared += 1;
        }
        Ok((compared, at))
    }

    /// The whole content by iterators and cursors, and these keys by lookups too.
    pub fn all(&self, view: &impl Readable, keys: &[Key]) -> Result<u64> {
        let mut compared = self.ends(view)?;
        for &key in keys {
            self.same_value("get", key, view.get(self.keys.bytes(key))?.as_deref());
            compared += 1;
        }
        compared += self.multi_get(view, keys)?;
        let whole = (0, self.keys.count() + 1);
        let bounds = || (Bound::Unbounded, Bound::Unbounded);
        let forward = std::iter::repeat(true);
        compared += self.both_ends("iter", view.range(bounds()), whole, forward)?;
        let mut cursor = view.cursor();
        cursor.seek_to_last()?;
        let last = self.map.keys().next_back().copied();
        self.same_entry("seek_to_last", last, cursor.entry());
        let backward = vec![false; self.map.len()];
        compared += self.walk(&mut cursor, last, &backward)?.0;
        Ok(compared)
    }
}

/// Whether a key that should have this value, or none, has it.
pub fn is_value(wanted: Option<&Value>, found: Option<&Slice>) -> bool {
    match (wanted, found) {
        (Some(wanted), Some(found)) => wanted.is(found),
        (wanted, found) => wanted.is_none() && found.is_none(),
    }
}

/// The whole content as an iterator shows it, in any state.
pub type Content = BTreeMap<Key, Slice>;

pub fn content(view: &impl Readable, keys: &Universe) -> Result<Content> {
    view.range((Bound::Unbounded, Bound::Unbounded))
        .map(|item| {
            let (key, value) = item?;
            let known = keys.find(&key);
            let key = known.unwrap_or_else(|| panic!("unknown key {}", key.escape_ascii()));
            Ok((key, value))
        })
        .collect()
}

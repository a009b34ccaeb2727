//! Cursors and iterators that see what later operations change: each shows the state of its making,
//! also when the store is closed.

use std::ops::Range;

use maypole::{DbCursor, DbIterator, Result};

use super::keys::Key;
use super::model::Map;
use super::operation::Steps;
use super::reading::Expected;
use super::store::{Store, pick};

/// A cursor over a state, on the key `at`.
pub struct HeldCursor {
    cursor: DbCursor,
    map: Map,
    at: Option<Key>,
}

/// An iterator over a state, whose remaining entries are those of the keys in `left`.
pub struct HeldIterator {
    iterator: DbIterator,
    map: Map,
    left: Range<Key>,
}

impl Store {
    pub(super) fn hold_cursor(&mut self, start: Key) -> Result<()> {
        let mut cursor = self.db().cursor();
        let map = self.now().into_owned();
        let expected = Expected { keys: &self.keys, map: &map, name: "a held cursor" };
        let at = expected.seek(&mut cursor, start, false)?;
        self.tally.comparisons += 1;
        self.cursors.push(HeldCursor { cursor, map, at });
        Ok(())
    }

    /// Moves a held cursor. One that was past an end is placed anew.
    pub(super) fn move_cursor(&mut self, which: usize, steps: &Steps) -> Result<()> {
        let Some(which) = pick(&self.cursors, which) else { return Ok(()) };
        let mut held = self.cursors.swap_remove(which);
        let expected = Expected { keys: &self.keys, map: &held.map, name: "a held cursor" };
        if held.at.is_none() {
            let middle = self.keys.count() / 2;
            held.at = expected.seek(&mut held.cursor, middle, steps.len().is_multiple_of(2))?;
        }
        let (compared, at) = expected.walk(&mut held.cursor, held.at, steps)?;
        self.tally.comparisons += compared;
        self.cursors.push(HeldCursor { at, ..held });
        Ok(())
    }

    /// Makes an iterator. It reads nothing before it is moved.
    pub(super) fn hold_iterator(
        &mut self,
        (from, to): (Key, Key),
        form: usize,
        snapshot: Option<usize>,
    ) -> Result<()> {
        let held = snapshot.and_then(|which| pick(&self.snapshots, which));
        let map = match held {
            Some(which) => self.seen_of(&self.snapshots[which].1, self.space),
            None => self.now().into_owned(),
        };
        let expected = Expected { keys: &self.keys, map: &map, name: "a held iterator" };
        let iterator = match held {
            Some(which) => {
                let snapshot = self.snapshots[which].0.keyspace(self.db())?;
                expected.iterator(&snapshot, (from, to), form)
            }
            None => expected.iterator(self.db(), (from, to), form),
        };
        self.iterators.push(HeldIterator { iterator, map, left: from..to.max(from) });
        Ok(())
    }

    /// Moves a held iterator from its ends. After its last entry it has no other.
    pub(super) fn move_iterator(&mut self, which: usize, steps: &Steps) -> Result<()> {
        let Some(which) = pick(&self.iterators, which) else { return Ok(()) };
        let mut held = self.iterators.swap_remove(which);
        let HeldIterator { iterator, map, left } = &mut held;
        let expected = Expected { keys: &self.keys, map, name: "held" };
        for &is_front in steps {
            expected.step("an iterator", iterator, left, is_front)?;
            self.tally.comparisons += 1;
        }
        self.iterators.push(held);
        Ok(())
    }

    /// Moves everything that is held a little.
    pub(super) fn move_all(&mut self) -> Result<()> {
        // What was moved is the last one from then on, and the others before it stay.
        for which in (0..self.cursors.len()).rev() {
            self.move_cursor(which, &vec![true; 50])?;
        }
        for which in (0..self.iterators.len()).rev() {
            self.move_iterator(which, &vec![true, false, true, true])?;
        }
        Ok(())
    }
}

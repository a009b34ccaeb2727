//! [`TransactionCursor`]: walks the entries that a transaction sees, in key order.
//!
//! ```text
//!   stored (a cursor of the snapshot)   ant   bee         dog   eel
//!   own writes                                bee=2  cat   -          deleted: [e, f)
//!   shown                               ant   bee=2  cat
//! ```
//!
//! Going forward, `stored` is on the first stored entry at or after the cursor, and `own` is the
//! first own write there; the one with the smaller key is next. If both have the same key, the own
//! write hides the stored entry. Going backward, all of this is mirrored. A change of direction
//! seeks anew.
//!
//! **What was read** is the range of keys from where a seek began to where the cursor got. It is
//! remembered at the next seek and when the cursor is dropped.

use std::ops::Bound;

use super::own::OwnEntry;
use super::view::View;
use crate::db::iter::bounds::{Bounds, after};
use crate::db::iter::cursor::{DbCursor, cannot_step, on_no_entry};
use crate::db::iter::ends::entry_cursor;
use crate::error::Result;
use crate::slice::Slice;

/// A cursor over the entries that a [`Transaction`](crate::Transaction) sees: its snapshot and its own writes. The
/// transaction remembers the range of keys over which the cursor moves as read.
///
/// The methods and errors are those of [`DbCursor`].
pub struct TransactionCursor<'t> {
    view: &'t View,
    bounds: Bounds,
    stored: DbCursor,
    own: Option<OwnEntry<'t>>,
    shown: Shown,
    direction: Direction,
    /// What was read since the last seek; `None` before the first seek.
    read: Option<Covered>,
    /// The scan's number in the set of reads.
    scan: Option<usize>,
}

/// Which entry the cursor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Stored,
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The keys over which the cursor has moved since a seek.
struct Covered {
    /// The lowest one; `None`: the seek began at the end of all keys and has read nothing yet.
    low: Option<Vec<u8>>,
    /// The end, exclusive; `None`: the end of all keys.
    high: Option<Vec<u8>>,
}

impl std::fmt::Debug for TransactionCursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionCursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

impl<'t> TransactionCursor<'t> {
    pub(super) fn new(view: &'t View, bounds: Bounds) -> TransactionCursor<'t> {
        TransactionCursor {
            stored: view.snapshot.recent_cursor(bounds.clone()),
            view,
            bounds,
            own: None,
            shown: Shown::Nothing,
            direction: Direction::Forward,
            read: None,
            scan: None,
        }
    }

    /// Whether the cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.shown != Shown::Nothing
    }

    /// The key of the entry. Panics if the cursor is on no entry.
    pub fn key(&self) -> &[u8] {
        match self.shown {
            Shown::Stored => self.stored.key(),
            Shown::Own => self.own_entry().0,
            Shown::Nothing => on_no_entry(),
        }
    }

    /// The value of the entry. Panics if the cursor is on no entry.
    pub fn value(&self) -> &[u8] {
        match self.shown {
            Shown::Stored => self.stored.value(),
            Shown::Own => self.own_value(),
            Shown::Nothing => on_no_entry(),
        }
    }

    /// The value of the entry, to keep. Panics if the cursor is on no entry.
    pub fn value_slice(&self) -> Slice {
        match self.shown {
            Shown::Stored => self.stored.value_slice(),
            Shown::Own => self.own_value().clone(),
            Shown::Nothing => on_no_entry(),
        }
    }

    /// Key and value of the entry; `None` if the cursor is on no entry.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    fn own_entry(&self) -> OwnEntry<'t> {
        self.own.expect("the cursor is on an own write")
    }

    fn own_value(&self) -> &'t Slice {
        self.own_entry().1.expect("a deletion is not shown")
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek([])
    }

    /// Moves to the first entry whose key is at or after `key`.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref().max(self.bounds.lower().unwrap_or_default()).to_vec();
        self.start_seek(Direction::Forward, Some(&key));
        self.find_from(Bound::Included(&key))
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        let end = self.bounds.upper().map(<[u8]>::to_vec);
        self.start_seek(Direction::Backward, end.as_deref());
        self.find_before(end.as_deref())
    }

    /// Moves to the last entry whose key is at or before `key`.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        if self.bounds.is_past(key.as_ref()) {
            return self.seek_to_last();
        }
        let end = after(key.as_ref());
        self.start_seek(Direction::Backward, Some(&end));
        self.find_before(Some(&end))
    }

    /// Moves to the next entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor::next`].
    #[expect(clippy::should_implement_trait, reason = "a lending cursor is no Iterator")]
    pub fn next(&mut self) -> Result<()> {
        match (self.shown, self.direction) {
            (Shown::Nothing, _) => return Err(cannot_step()),
            (_, Direction::Backward) => {
                let key = self.turn(Direction::Forward);
                return self.find_from(Bound::Excluded(&key));
            }
            (Shown::Stored, _) => {
                self.shown = Shown::Nothing;
                self.stored.next()?;
            }
            (Shown::Own, _) => self.pass_own()?,
        }
        self.show()
    }

    /// Moves to the previous entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor::prev`].
    pub fn prev(&mut self) -> Result<()> {
        match (self.shown, self.direction) {
            (Shown::Nothing, _) => return Err(cannot_step()),
            (_, Direction::Forward) => {
                let key = self.turn(Direction::Backward);
                return self.find_before(Some(&key));
            }
            (Shown::Stored, _) => {
                self.shown = Shown::Nothing;
                self.stored.prev()?;
            }
            (Shown::Own, _) => self.pass_own()?,
        }
        self.show()
    }

    /// Notes what was read so far, and begins to note what is read from `key` on (`None`: the end
    /// of all keys).
    fn start_seek(&mut self, direction: Direction, key: Option<&[u8]>) {
        let mut reads = self.view.reads.borrow_mut();
        if self.scan.is_none() {
            self.view.begin_noting();
            self.scan = Some(reads.begin_scan(self.bounds.clone()));
        }
        drop(reads);
        self.note_read();
        self.direction = direction;
        let key = key.map(<[u8]>::to_vec);
        self.read = Some(Covered { low: key.clone(), high: key });
        self.shown = Shown::Nothing;
    }

    /// Changes the direction. Returns the key of the entry from which the cursor moves on.
    fn turn(&mut self, direction: Direction) -> Vec<u8> {
        self.extend_read();
        let key = self.key().to_vec();
        self.direction = direction;
        self.shown = Shown::Nothing;
        key
    }

    /// Forward: moves to the first entry at or after a bound.
    fn find_from(&mut self, lower: Bound<&[u8]>) -> Result<()> {
        self.own = self.view.writes.entries_from(lower, self.bounds.upper()).next();
        match lower {
            Bound::Excluded(key) => self.stored.seek(after(key))?,
            Bound::Included(key) => self.stored.seek(key)?,
            Bound::Unbounded => self.stored.seek_to_first()?,
        }
        self.show()
    }

    /// Backward: moves to the last entry before `end` (`None`: the last one).
    fn find_before(&mut self, end: Option<&[u8]>) -> Result<()> {
        self.own = self.view.writes.last_in(self.bounds.lower(), end);
        match end {
            Some(end) => self.stored.seek_before(end)?,
            None => self.stored.seek_to_last()?,
        }
        self.show()
    }

    /// Moves on from the own write `own`, and from the stored entry that it hides.
    fn pass_own(&mut self) -> Result<()> {
        self.shown = Shown::Nothing;
        let (key, _) = self.own_entry();
        let hides = self.stored.valid() && self.stored.key() == key;
        let writes = &self.view.writes;
        match self.direction {
            Direction::Forward => {
                self.own = writes.entries_from(Bound::Excluded(key), self.bounds.upper()).next();
                if hides { self.stored.next() } else { Ok(()) }
            }
            Direction::Backward => {
                self.own = writes.last_in(self.bounds.lower(), Some(key));
                if hides { self.stored.prev() } else { Ok(()) }
            }
        }
    }

    /// Shows the nearer one of `own` and `stored`. First passes own deletions and what they hide.
    fn show(&mut self) -> Result<()> {
        let writes = &self.view.writes;
        loop {
            let nearer = self.nearer();
            let key = match nearer {
                Shown::Nothing => return Ok(()),
                Shown::Own => self.own_entry().0,
                Shown::Stored => self.stored.key(),
            };
            if let Some((start, end)) = writes.empty_around(key) {
                self.leave_range(start, end)?;
            } else if nearer == Shown::Stored
                && let Some((start, end)) = writes.deleted_around(key)
            {
                self.leave_stored_range(start, end)?;
            } else if nearer == Shown::Own && self.own_entry().1.is_none() {
                self.pass_own()?;
            } else {
                self.shown = nearer;
                return Ok(());
            }
        }
    }

    /// Moves on to beyond a range in which nothing is shown.
    fn leave_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let writes = &self.view.writes;
        self.own = match (self.direction, end) {
            (Direction::Forward, None) => None,
            (Direction::Forward, Some(end)) => {
                writes.entries_from(Bound::Included(end), self.bounds.upper()).next()
            }
            (Direction::Backward, _) => writes.last_in(self.bounds.lower(), Some(start)),
        };
        self.leave_stored_range(start, end)
    }

    /// Moves the stored side on to beyond a range, if it is not there yet.
    fn leave_stored_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        if !self.stored.valid() {
            return Ok(());
        }
        match (self.direction, end) {
            (Direction::Forward, Some(end)) if self.stored.key() < end => self.stored.seek(end),
            (Direction::Forward, None) => {
                self.stored.leave();
                Ok(())
            }
            (Direction::Backward, _) if self.stored.key() >= start => {
                self.stored.seek_before(start)
            }
            _ => Ok(()),
        }
    }

    /// Which of `own` and `stored` comes first in the direction; of two with one key, `own`.
    fn nearer(&self) -> Shown {
        match (self.own, self.stored.valid()) {
            (None, false) => Shown::Nothing,
            (None, true) => Shown::Stored,
            (Some(_), false) => Shown::Own,
            (Some((key, _)), true) => {
                let is_nearer = match self.direction {
                    Direction::Forward => key <= self.stored.key(),
                    Direction::Backward => key >= self.stored.key(),
                };
                if is_nearer { Shown::Own } else { Shown::Stored }
            }
        }
    }

    /// Extends what was read to where the cursor is. If it is on no entry, it has reached the end of
    /// its bounds, or a seek has failed somewhere before that.
    fn extend_read(&mut self) {
        let current = self.valid().then(|| self.key().to_vec());
        let Some(Covered { low, high }) = &mut self.read else { return };
        match (self.direction, current) {
            (Direction::Forward, Some(key)) => {
                *high = high.take().map(|high| high.max(after(&key)));
            }
            (Direction::Forward, None) => *high = self.bounds.upper().map(<[u8]>::to_vec),
            (Direction::Backward, Some(key)) => {
                *low = Some(low.take().map_or(key.clone(), |low| low.min(key)));
            }
            (Direction::Backward, None) => {
                *low = Some(self.bounds.lower().unwrap_or_default().to_vec());
            }
        }
    }

    /// Adds what was read since the last seek to the set of reads.
    fn note_read(&mut self) {
        self.extend_read();
        if let Some(Covered { low: Some(low), high }) = self.read.take() {
            self.view.reads.borrow_mut().add_range(Bounds::between(&low, high.as_deref()));
        }
    }
}

impl Drop for TransactionCursor<'_> {
    fn drop(&mut self) {
        self.note_read();
        if let Some(scan) = self.scan {
            self.view.reads.borrow_mut().end_scan(scan);
        }
    }
}

entry_cursor!(TransactionCursor<'_>);

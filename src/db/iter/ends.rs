//! [`Ends`]: a double-ended iterator made of two cursors.
//!
//! ```text
//!   front ──► ant  bee  cat  dog  eel ◄── back         each made at its first use
//! ```

use crate::error::Result;
use crate::slice::{Slice, SlicePacker};

/// What [`Ends`] needs of a cursor. The methods are those of [`DbCursor`](super::cursor::DbCursor).
pub(crate) trait EntryCursor {
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    fn next(&mut self) -> Result<()>;
    fn prev(&mut self) -> Result<()>;
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn value_slice(&self) -> Slice;
}

/// Implements [`EntryCursor`] by the type's own methods.
macro_rules! entry_cursor {
    ($cursor:ty) => {
        impl crate::db::iter::ends::EntryCursor for $cursor {
            fn seek_to_first(&mut self) -> Result<()> {
                self.seek_to_first()
            }
            fn seek_to_last(&mut self) -> Result<()> {
                self.seek_to_last()
            }
            #[inline(always)]
            fn next(&mut self) -> Result<()> {
                self.next()
            }
            fn prev(&mut self) -> Result<()> {
                self.prev()
            }
            #[inline(always)]
            fn valid(&self) -> bool {
                self.valid()
            }
            #[inline(always)]
            fn key(&self) -> &[u8] {
                self.key()
            }
            #[inline(always)]
            fn value_slice(&self) -> Slice {
                self.value_slice()
            }
        }
    };
}
pub(crate) use entry_cursor;

/// See the module. Each cursor is on the last entry that it returned.
pub(crate) struct Ends<C> {
    front: Option<C>,
    back: Option<C>,
    keys: SlicePacker,
    finished: bool,
}

impl<C> Default for Ends<C> {
    fn default() -> Ends<C> {
        Ends { front: None, back: None, keys: SlicePacker::default(), finished: false }
    }
}

impl<C: EntryCursor> Ends<C> {
    /// The next entry from the front. `start` makes the cursor.
    #[inline(always)]
    pub fn next(&mut self, start: impl FnOnce() -> C) -> Option<Result<(Slice, Slice)>> {
        if self.finished {
            return None;
        }
        match self.next_entry(start) {
            Ok(Some(entry)) => Some(Ok(entry)),
            last => self.finish(last),
        }
    }

    /// The next entry from the back. `start` makes the cursor.
    pub fn next_back(&mut self, start: impl FnOnce() -> C) -> Option<Result<(Slice, Slice)>> {
        if self.finished {
            return None;
        }
        match self.next_back_entry(start) {
            Ok(Some(entry)) => Some(Ok(entry)),
            last => self.finish(last),
        }
    }

    #[inline(always)]
    fn next_entry(&mut self, start: impl FnOnce() -> C) -> Result<Option<(Slice, Slice)>> {
        let front = match &mut self.front {
            Some(front) => {
                front.next()?;
                front
            }
            None => {
                let front = self.front.insert(start());
                front.seek_to_first()?;
                front
            }
        };
        if !front.valid() || self.back.as_ref().is_some_and(|back| front.key() >= back.key()) {
            return Ok(None);
        }
        Ok(Some((self.keys.pack(front.key()), front.value_slice())))
    }

    fn next_back_entry(&mut self, start: impl FnOnce() -> C) -> Result<Option<(Slice, Slice)>> {
        let back = match &mut self.back {
            Some(back) => {
                back.prev()?;
                back
            }
            None => {
                let back = self.back.insert(start());
                back.seek_to_last()?;
                back
            }
        };
        if !back.valid() || self.front.as_ref().is_some_and(|front| back.key() <= front.key()) {
            return Ok(None);
        }
        Ok(Some((self.keys.pack(back.key()), back.value_slice())))
    }

    /// Ends the iterator, because an end ran out, met the other end, or failed.
    #[cold]
    fn finish(&mut self, last: Result<Option<(Slice, Slice)>>) -> Option<Result<(Slice, Slice)>> {
        self.finished = true;
        last.transpose()
    }
}

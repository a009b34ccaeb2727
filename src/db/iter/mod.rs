//! [`DbIterator`]: a double-ended iterator whose items own their bytes. It consists of two cursors.
//!
//! ```text
//!   front ──► ant  bee  cat  dog  eel ◄── back         each made at its first use
//! ```

pub(crate) mod bounds;
pub(crate) mod cursor;
pub(crate) mod marks;
pub(crate) mod range_del;
pub(crate) mod sources;
pub(crate) mod visible;

use self::bounds::Bounds;
use self::cursor::DbCursor;
use super::read_state::ReadPoint;
use crate::error::Result;
use crate::slice::{Slice, SlicePacker};

/// The entries of a database or of a snapshot, or of a range of their keys, in key order, from
/// either end. The iterator of a database shows the entries as they were when the iterator was
/// made. The iterator of a snapshot shows them as they were when the snapshot was made.
///
/// Short keys are copied to shared chunks of up to 4 KiB, and a chunk stays in memory as long as
/// the caller keeps one of its keys. A value from a table keeps its whole block in memory.
///
/// An iterator ends after an error. It continues to work when the database is closed. An iterator
/// made afterwards has [`Error::Closed`](crate::Error::Closed) as its only item.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// for key in ["ant", "bee", "cat"] {
///     db.put(key, "")?;
/// }
/// let mut entries = db.range("b"..);
/// assert_eq!(entries.next().unwrap()?.0, b"bee");
/// assert_eq!(entries.next_back().unwrap()?.0, b"cat");
/// assert!(entries.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DbIterator {
    point: ReadPoint,
    bounds: Bounds,
    /// The cursor of each end is on the last entry that it returned.
    front: Option<DbCursor>,
    back: Option<DbCursor>,
    keys: SlicePacker,
    fill_cache: bool,
    finished: bool,
}

impl std::fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbIterator").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl DbIterator {
    pub(crate) fn at(point: ReadPoint, bounds: Bounds) -> DbIterator {
        let keys = SlicePacker::default();
        let (fill_cache, finished) = (true, false);
        DbIterator { point, bounds, front: None, back: None, keys, fill_cache, finished }
    }

    /// Sets whether the blocks that the iterator reads enter the block cache: see
    /// [`DbCursor::fill_cache`]. Call this before the first entry.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let count = db.iter().fill_cache(false).count();
    /// # assert_eq!(count, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fill_cache(mut self, fill_cache: bool) -> DbIterator {
        self.fill_cache = fill_cache;
        self
    }

    /// The next entry from the front.
    #[inline(always)]
    fn next_entry(&mut self) -> Result<Option<(Slice, Slice)>> {
        let front = match &mut self.front {
            Some(front) => {
                front.next()?;
                front
            }
            None => {
                let front = self.front.insert(start(&self.point, &self.bounds, self.fill_cache));
                front.seek_to_first()?;
                front
            }
        };
        if !front.valid() || self.back.as_ref().is_some_and(|back| front.key() >= back.key()) {
            return Ok(None);
        }
        Ok(Some((self.keys.pack(front.key()), front.value_slice())))
    }

    /// The next entry from the back.
    fn next_back_entry(&mut self) -> Result<Option<(Slice, Slice)>> {
        let back = match &mut self.back {
            Some(back) => {
                back.prev()?;
                back
            }
            None => {
                let back = self.back.insert(start(&self.point, &self.bounds, self.fill_cache));
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

#[cold]
fn start(point: &ReadPoint, bounds: &Bounds, fill_cache: bool) -> DbCursor {
    DbCursor::at(point.clone(), bounds.clone()).fill_cache(fill_cache)
}

impl Iterator for DbIterator {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.next_entry() {
            Ok(Some(entry)) => Some(Ok(entry)),
            last => self.finish(last),
        }
    }
}

impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.next_back_entry() {
            Ok(Some(entry)) => Some(Ok(entry)),
            last => self.finish(last),
        }
    }
}

impl std::iter::FusedIterator for DbIterator {}

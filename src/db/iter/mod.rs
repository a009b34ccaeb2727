//! [`DbIterator`]: a double-ended iterator whose items own their bytes. It consists of two cursors
//! ([`ends`]).

pub(crate) mod bounds;
pub(crate) mod cursor;
pub(crate) mod ends;
pub(crate) mod marks;
pub(crate) mod range_del;
pub(crate) mod sources;
pub(crate) mod visible;

use self::bounds::Bounds;
use self::cursor::DbCursor;
use self::ends::{Ends, entry_cursor};
use super::read_state::ReadPoint;
use crate::error::Result;
use crate::slice::Slice;

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
    fill_cache: bool,
    ends: Ends<DbCursor>,
}

entry_cursor!(DbCursor);

impl std::fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbIterator").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl DbIterator {
    pub(crate) fn at(point: ReadPoint, bounds: Bounds) -> DbIterator {
        DbIterator { point, bounds, fill_cache: true, ends: Ends::default() }
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
}

#[cold]
fn start(point: &ReadPoint, bounds: &Bounds, fill_cache: bool) -> DbCursor {
    DbCursor::at(point.clone(), bounds.clone()).fill_cache(fill_cache)
}

impl Iterator for DbIterator {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ends.next(|| start(&self.point, &self.bounds, self.fill_cache))
    }
}

impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ends.next_back(|| start(&self.point, &self.bounds, self.fill_cache))
    }
}

impl std::iter::FusedIterator for DbIterator {}

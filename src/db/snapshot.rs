//! [`Snapshot`]: the database as of one write.
//!
//! A snapshot is a sequence number that stays registered while its handle lives. Compaction reads
//! the registered numbers. For each of these numbers, and for each key, it keeps the newest version
//! whose sequence number is at most that number.

use super::background::idle::needed_snapshot_released;
use super::explain::trace::LookupTrace;
use super::explain::watch::explain;
use super::get;
use super::inner::Inner;
use super::iter::DbIterator;
use super::iter::bounds::{Bounds, KeyBounds};
use super::iter::cursor::DbCursor;
use super::read_state::ReadPoint;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::Slice;

/// A snapshot is recent as long as at most this many writes are newer than it. Marks that older ones
/// propose are of no use: so many keys were written since that little of them would be left.
const RECENT_WRITES: u64 = 1 << 14;

/// The database as it was when the snapshot was made; see [`Db::snapshot`](crate::Db::snapshot).
///
/// Compaction keeps every version that a live snapshot sees, so a snapshot held for long costs
/// space. A snapshot does not keep the database open: after [`Db::close`](crate::Db::close) every
/// read returns [`Error::Closed`](crate::Error::Closed). An iterator returns this error as its only
/// item, and a cursor returns it from each seek. Iterators and cursors made before the closing
/// continue to work.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// db.put("key", "old")?;
/// let snapshot = db.snapshot();
/// db.put("key", "new")?;
/// assert_eq!(snapshot.get("key")?.unwrap(), b"old");
/// assert_eq!(snapshot.iter().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot {
    pub(super) inner: Inner,
    sequence: SequenceNumber,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// Makes another snapshot of the same state of the database. The two may be dropped in any order.
impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        self.of(self.inner.clone())
    }
}

impl Snapshot {
    pub(super) fn new(inner: &Inner) -> Snapshot {
        let inner = inner.clone();
        let sequence =
            inner.database.sequences.snapshots.register(|| inner.database.sequences.visible());
        Snapshot { inner, sequence }
    }

    /// The same moment of the tree of `inner`, which is of the same database.
    pub(super) fn of(&self, inner: Inner) -> Snapshot {
        let sequence = inner.database.sequences.snapshots.register(|| self.sequence);
        Snapshot { inner, sequence }
    }

    fn read_point(&self) -> ReadPoint {
        self.inner.read_point(Some(self.sequence))
    }

    /// Like [`Db::get`](crate::Db::get), but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        get::get(self.inner.open_reading()?, key.as_ref(), Some(self.sequence))
    }

    /// Like [`Db::get_with`](crate::Db::get_with), but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        get::get_with(self.inner.open_reading()?, key.as_ref(), Some(self.sequence), read)
    }

    /// Like [`Db::contains_key`](crate::Db::contains_key), but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        get::contains_key(self.inner.open_reading()?, key.as_ref(), Some(self.sequence))
    }

    /// Like [`Db::explain`](crate::Db::explain), but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<LookupTrace> {
        explain(self.inner.open_reading()?, key.as_ref(), Some(self.sequence))
    }

    /// Like [`Db::multi_get`](crate::Db::multi_get), but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        get::multi_get(self.inner.open_reading()?, keys, Some(self.sequence))
    }

    /// Like [`Db::iter`](crate::Db::iter), but reads the snapshot.
    pub fn iter(&self) -> DbIterator {
        self.range(..)
    }

    /// Like [`Db::range`](crate::Db::range), but reads the snapshot.
    pub fn range(&self, range: impl KeyBounds) -> DbIterator {
        DbIterator::at(self.read_point(), Bounds::of(range))
    }

    /// Like [`Db::prefix`](crate::Db::prefix), but reads the snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        DbIterator::at(self.read_point(), Bounds::of_prefix(prefix.as_ref()))
    }

    /// Like [`Db::cursor`](crate::Db::cursor), but reads the snapshot.
    pub fn cursor(&self) -> DbCursor {
        DbCursor::at(self.read_point(), Bounds::default())
    }

    /// Like [`Db::range_cursor`](crate::Db::range_cursor), but reads the snapshot.
    pub fn range_cursor(&self, range: impl KeyBounds) -> DbCursor {
        DbCursor::at(self.read_point(), Bounds::of(range))
    }

    /// A cursor that proposes marks ([`crate::db::iter::marks`]), as one without a snapshot does, if
    /// little has been written since the snapshot was made.
    pub(super) fn recent_cursor(&self, bounds: Bounds) -> DbCursor {
        let mut point = self.read_point();
        let newer = self.inner.database.sequences.visible() - self.sequence;
        point.is_snapshot = newer > RECENT_WRITES;
        DbCursor::at(point, bounds)
    }

    /// The sequence number of the last write that the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        match self.inner.database.status.process().is_current() {
            false => self.inner.leak(),
            true if self.inner.database.sequences.snapshots.release(self.sequence) => {
                needed_snapshot_released(&self.inner, self.sequence);
            }
            true => {}
        }
    }
}

//! [`Snapshot`], and the list of those that live.
//!
//! A snapshot is a sequence number that stays registered while its handle lives. Compaction asks
//! for the registered numbers and keeps, for each of them, the newest version at or below it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::iter::bounds::{Bounds, KeyBounds};
use super::read_state::ReadPoint;
use super::{DbCursor, DbIterator, Inner, LookupTrace};
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::Slice;
use crate::sync::{Process, lock};

/// The database as it was when the snapshot was made; see [`Db::snapshot`](crate::Db::snapshot).
///
/// Compaction keeps every version that a live snapshot sees, so a snapshot held for long costs
/// space. It does not keep the database open: after [`Db::close`](crate::Db::close) every read
/// answers [`Error::Closed`](crate::Error::Closed), an iterator as its only item, a cursor at each
/// seek. Iterators and cursors made before go on.
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
    inner: Arc<Inner>,
    sequence: SequenceNumber,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// A second handle of the same state of the database. Each may be dropped first.
impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        let sequence = self.inner.snapshots.register(|| self.sequence);
        Snapshot { inner: Arc::clone(&self.inner), sequence }
    }
}

impl Snapshot {
    pub(super) fn new(inner: &Arc<Inner>) -> Snapshot {
        let inner = Arc::clone(inner);
        let sequence = inner.snapshots.register(|| inner.visible.load(Ordering::Acquire));
        Snapshot { inner, sequence }
    }

    /// As [`Db::get`](crate::Db::get), at the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get(key.as_ref(), Some(self.sequence))
    }

    /// As [`Db::get_with`](crate::Db::get_with), at the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner.get_with(key.as_ref(), Some(self.sequence), read)
    }

    /// As [`Db::contains_key`](crate::Db::contains_key), at the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// As [`Db::explain`](crate::Db::explain), at the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<LookupTrace> {
        self.inner.explain(key.as_ref(), Some(self.sequence))
    }

    /// As [`Db::multi_get`](crate::Db::multi_get), at the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`](crate::Db).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get(keys, Some(self.sequence))
    }

    /// As [`Db::iter`](crate::Db::iter), at the snapshot.
    pub fn iter(&self) -> DbIterator {
        self.range(..)
    }

    /// As [`Db::range`](crate::Db::range), at the snapshot.
    pub fn range(&self, range: impl KeyBounds) -> DbIterator {
        DbIterator::over_range(&self.inner, Some(self.sequence), range)
    }

    /// As [`Db::prefix`](crate::Db::prefix), at the snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        DbIterator::over_prefix(&self.inner, Some(self.sequence), prefix.as_ref())
    }

    /// As [`Db::cursor`](crate::Db::cursor), at the snapshot.
    pub fn cursor(&self) -> DbCursor {
        DbCursor::new(&self.inner, Some(self.sequence))
    }

    /// As [`Db::range_cursor`](crate::Db::range_cursor), at the snapshot.
    pub fn range_cursor(&self, range: impl KeyBounds) -> DbCursor {
        DbCursor::at(ReadPoint::new(&self.inner, Some(self.sequence)), Bounds::of(range))
    }

    /// The sequence number of the last write that the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        match self.inner.process.is_current() {
            true => self.inner.snapshots.release(self.sequence),
            false => self.inner.leak(),
        }
    }
}

/// The sequence numbers of the snapshots that live, each with how many have it.
#[derive(Default)]
pub(crate) struct SnapshotList {
    counts: Mutex<BTreeMap<SequenceNumber, usize>>,
    /// A snapshot that a forked child makes is not listed: it answers errors only.
    process: Process,
}

impl SnapshotList {
    /// Registers what `current` answers. It is called under the lock: a compaction that read the
    /// list before drops only versions that were hidden then already.
    pub fn register(&self, current: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        if !self.process.is_current() {
            return current();
        }
        let mut counts = lock(&self.counts);
        let sequence = current();
        *counts.entry(sequence).or_default() += 1;
        sequence
    }

    pub fn release(&self, sequence: SequenceNumber) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&sequence);
            }
        }
    }

    /// How many snapshots live.
    pub fn len(&self) -> usize {
        lock(&self.counts).values().sum()
    }

    /// All registered sequence numbers, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        lock(&self.counts).keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_listed_until_its_last_holder_leaves() {
        let list = SnapshotList::default();
        for sequence in [7, 3, 7] {
            list.register(|| sequence);
        }
        assert_eq!(list.sequences(), [3, 7]);
        list.release(7);
        assert_eq!(list.sequences(), [3, 7]);
        list.release(7);
        list.release(3);
        assert!(list.sequences().is_empty());
    }
}

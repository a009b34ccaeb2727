//! [`Snapshot`], and the list of live snapshots.
//!
//! A snapshot is a sequence number that stays registered while its handle lives. Compaction asks
//! for the registered numbers and keeps, for each of them, the newest version at or below it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

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
/// returns [`Error::Closed`](crate::Error::Closed), an iterator as its only item, a cursor from
/// each seek. Iterators and cursors made before continue to work.
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
        self.inner.contains_key(key.as_ref(), Some(self.sequence))
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
            false => self.inner.leak(),
            true if self.inner.snapshots.release(self.sequence) => {
                self.inner.needed_snapshot_released();
            }
            true => {}
        }
    }
}

/// The sequence numbers of the live snapshots.
#[derive(Default)]
pub(crate) struct SnapshotList {
    live: Mutex<BTreeMap<SequenceNumber, Live>>,
    /// The largest number that keeps something in a table from being freed; 0: none does.
    needed: AtomicU64,
    /// A snapshot that a forked child makes is not listed: it returns errors only.
    process: Process,
}

/// Snapshots of one sequence number.
struct Live {
    count: usize,
    /// When the first of them was made.
    since: Instant,
}

impl SnapshotList {
    /// Registers the number that `current` returns. `current` is called under the lock, so a
    /// compaction that read the list before drops only versions that were already hidden then.
    pub fn register(&self, current: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        if !self.process.is_current() {
            return current();
        }
        let mut live = lock(&self.live);
        let sequence = current();
        live.entry(sequence).or_insert_with(|| Live { count: 0, since: Instant::now() }).count += 1;
        sequence
    }

    /// Releases a number. Returns whether tables hold something that may be freed now. Most
    /// releases free nothing, and cost only one more comparison.
    pub fn release(&self, sequence: SequenceNumber) -> bool {
        let mut live = lock(&self.live);
        let Entry::Occupied(mut entry) = live.entry(sequence) else { return false };
        entry.get_mut().count -= 1;
        if entry.get().count > 0 {
            return false;
        }
        entry.remove();
        sequence <= self.needed.load(Ordering::Relaxed)
    }

    /// Sets the largest number that keeps something from being freed. A snapshot that is made later
    /// has a larger one, and keeps nothing of the tables that exist.
    pub fn set_needed(&self, sequence: SequenceNumber) {
        self.needed.store(sequence, Ordering::Relaxed);
    }

    /// The number of live snapshots.
    pub fn len(&self) -> usize {
        lock(&self.live).values().map(|live| live.count).sum()
    }

    /// When the oldest snapshot was made.
    pub fn oldest(&self) -> Option<Instant> {
        lock(&self.live).values().map(|live| live.since).min()
    }

    /// All registered sequence numbers, ascending.
    pub fn sequences(&self) -> Vec<SequenceNumber> {
        lock(&self.live).keys().copied().collect()
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
        list.set_needed(5);
        assert!(!list.release(7), "nothing that 7 sees is needed by it alone");
        assert!(list.release(3));
        assert!(list.sequences().is_empty() && list.oldest().is_none());
    }
}

//! Calls that other maps and stores have: the number of entries, the first and the last entry,
//! sizes, properties. Each call is a few lines over an iterator, a cursor, other calls of [`Db`] or
//! the list of tables.

use std::path::Path;

use super::db::Db;
use super::inner::writing::Requirement;
use super::iter::DbIterator;
use super::iter::bounds::{Bounds, KeyBounds};
use super::iter::cursor::DbCursor;
use super::read_state::ReadState;
use super::snapshot::Snapshot;
use super::stats::properties::property;
use super::write::batch::WriteBatch;
use crate::error::Result;
use crate::slice::Slice;
use crate::sync::lock;
use crate::table::format::properties::names::DELETIONS;

/// The whole database.
impl Db {
    /// The directory of the database, as an absolute path.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = maypole::Db::open(dir.path())?;
    /// assert_eq!(db.path(), dir.path());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.inner.database.store.dir
    }

    /// How many keys have a value. The count is exact, but the call is slow, because it reads every
    /// table. [`Db::approximate_len`] is fast.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("ant", "")?;
    /// db.put("ant", "again")?;
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "count")]
    pub fn len(&self) -> Result<u64> {
        count(self.cursor())
    }

    /// About how many keys have a value. Reads no file.
    ///
    /// The result is the number of entries in tables and memtables, minus two for each tombstone in
    /// a table: one for the tombstone, and one for the entry that it is assumed to hide. So until
    /// it is compacted, a key that was written several times counts several times. A range deletion
    /// in a table counts like a tombstone of one key, and a tombstone in a memtable counts as a
    /// key.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("ant", "")?;
    /// assert_eq!(db.approximate_len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "estimate-num-keys")]
    pub fn approximate_len(&self) -> u64 {
        match self.inner.database.status.process().is_current() {
            true => self.inner.tree.reading.current().approximate_len(),
            false => 0,
        }
    }

    /// About how many bytes of the tables belong to keys in `range`. Memtables are not counted;
    /// [`Db::flush`] turns them into tables. The call reads the indexes of the tables that contain
    /// an end of the range, and no data.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("ant", "1")?;
    /// db.flush()?;
    /// assert!(db.approximate_size("a".."b")? > 0);
    /// assert_eq!(db.approximate_size("x"..)?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "GetApproximateSizes")]
    #[doc(alias = "disk_space")]
    pub fn approximate_size(&self, range: impl KeyBounds) -> Result<u64> {
        self.inner.open_reading()?.current().approximate_size(&Bounds::of(range))
    }

    /// Whether no key has a value. Reads up to the first entry.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = maypole::Db::open(dir.path())?;
    /// assert!(db.is_empty()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn is_empty(&self) -> Result<bool> {
        is_empty(self.cursor())
    }

    /// The entry with the smallest key, or `None`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("bee", "2")?;
    /// db.put("ant", "1")?;
    /// assert_eq!(db.first_key_value()?.unwrap().0, b"ant");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "first")]
    pub fn first_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// The entry with the largest key, or `None`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("bee", "2")?;
    /// db.put("ant", "1")?;
    /// assert_eq!(db.last_key_value()?.unwrap().0, b"bee");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "last")]
    pub fn last_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }

    /// Removes the entry with the smallest key and returns it, or `None` if there is no entry. The
    /// removal is as durable as a [`Db::delete`].
    ///
    /// Of several calls one returns an entry, and no value is removed without being returned,
    /// whatever other threads write meanwhile. A smaller key that is put during the call may be passed
    /// over. [`Transaction::pop_first`](crate::Transaction::pop_first) passes over none.
    ///
    /// If a queue is emptied this way, tombstones lie in front of its first entry until they are
    /// compacted. Cursors remember ranges in which they saw nothing but tombstones and jump over
    /// them, so the cost of a call usually does not grow with the number of tombstones. Opening the
    /// database forgets these ranges, so the first call after it passes all tombstones.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("job/1", "sweep")?;
    /// assert_eq!(db.pop_first()?.unwrap().1, b"sweep");
    /// assert_eq!(db.pop_first()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`]. If the removal fails, the entry may or may not be there.
    pub fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop(Iterator::next)
    }

    /// Like [`Db::pop_first`], but for the entry with the largest key.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("task/1", "sweep")?;
    /// db.put("task/2", "dust")?;
    /// assert_eq!(db.pop_last()?.unwrap().1, b"dust");
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::pop_first`].
    pub fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop(DoubleEndedIterator::next_back)
    }

    /// Removes and returns the entry at an end, as an update of its key (`update.rs`): if another
    /// write may have changed the key since the entry was read, it is read again.
    fn pop(
        &self,
        end: fn(&mut DbIterator) -> Option<<DbIterator as Iterator>::Item>,
    ) -> Result<Option<(Slice, Slice)>> {
        // This check makes each call on a read-only database fail, not only a call that finds an
        // entry to remove.
        self.inner.check_writable()?;
        // Without this, calls at the same time would find the same entry, and all but one would
        // read again.
        let _one_at_a_time = lock(&self.inner.tree.pops);
        loop {
            let read = self.inner.read_point(None);
            let mut entries = DbIterator::at(read.clone(), Bounds::default());
            let Some(entry) = end(&mut entries).transpose()? else { return Ok(None) };
            let mut batch = WriteBatch::new();
            batch.delete(&entry.0);
            let requires = Requirement::UnchangedKey(read);
            if self.inner.commit_if(batch, self.inner.database.durability, requires)? {
                return Ok(Some(entry));
            }
        }
    }

    /// The values of the keys that `keys` yields, in the same order, each as its own result. One
    /// key that cannot be read does not hide the others. All values are read from the same state of
    /// the database.
    ///
    /// Once the keys are collected, the call is as fast as [`Db::multi_get`], unless a read fails.
    /// Then it takes a snapshot and looks up all keys again, one by one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("user/2", "Ada")?;
    /// let users = (1..=3).map(|id| format!("user/{id}"));
    /// for result in db.multi_get_each(users) {
    ///     match result {
    ///         Ok(value) => println!("{value:?}"),
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Each result has those of [`Db::get`].
    pub fn multi_get_each<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Slice>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        match self.multi_get(&keys) {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(_) => get_each(&self.snapshot(), &keys),
        }
    }

    /// The value of the property that RocksDB gives this name, as text; `None` for an unknown name.
    /// [`Db::stats`] returns most of these values, and more, as numbers.
    ///
    /// The known names, each behind the prefix `rocksdb.`, are: `stats`, `levelstats`,
    /// `num-files-at-level0` to `num-files-at-level6`, `estimate-num-keys`, `total-sst-files-size`,
    /// `live-sst-files-size`, `cur-size-all-mem-tables`, `size-all-mem-tables`,
    /// `num-immutable-mem-table`, `num-entries-active-mem-table`, `num-entries-imm-mem-tables`,
    /// `estimate-pending-compaction-bytes`, `num-running-flushes`, `num-running-compactions`,
    /// `is-write-stopped`, `num-snapshots`, `block-cache-capacity` and `block-cache-usage`. The
    /// text of `stats` and `levelstats` has Maypole's own layout.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.property("rocksdb.estimate-num-keys").unwrap(), "1");
    /// assert_eq!(db.property("rocksdb.no-such-thing"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "GetProperty")]
    pub fn property(&self, name: &str) -> Option<String> {
        property(&self.inner.database, &self.inner.tree, name)
    }

    /// Compacts the whole tree: [`Db::compact_range`] over all keys.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// db.compact_all()?;
    /// assert_eq!(db.stats().files.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::compact_range`].
    #[doc(alias = "major_compaction")]
    pub fn compact_all(&self) -> Result<()> {
        self.inner.compact_range(Bounds::default())
    }
}

/// The whole of a snapshot.
impl Snapshot {
    /// Like [`Db::len`], but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn len(&self) -> Result<u64> {
        count(self.cursor())
    }

    /// Like [`Db::is_empty`], but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn is_empty(&self) -> Result<bool> {
        is_empty(self.cursor())
    }

    /// Like [`Db::multi_get_each`], but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Each result has those of [`Db::get`].
    pub fn multi_get_each<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Slice>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        match self.multi_get(&keys) {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(_) => get_each(self, &keys),
        }
    }

    /// Like [`Db::first_key_value`], but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn first_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// Like [`Db::last_key_value`], but reads the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn last_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }
}

fn get_each<K: AsRef<[u8]>>(snapshot: &Snapshot, keys: &[K]) -> Vec<Result<Option<Slice>>> {
    keys.iter().map(|key| snapshot.get(key)).collect()
}

fn count(mut cursor: DbCursor) -> Result<u64> {
    let mut count = 0;
    cursor.seek_to_first()?;
    while cursor.valid() {
        count += 1;
        cursor.next()?;
    }
    Ok(count)
}

fn is_empty(mut cursor: DbCursor) -> Result<bool> {
    cursor.seek_to_first()?;
    Ok(!cursor.valid())
}

impl ReadState {
    pub(super) fn approximate_len(&self) -> u64 {
        let in_memory = self.sources.memtables().map(|memtable| memtable.len() as u64).sum::<u64>();
        let (mut entries, mut deletions) = (in_memory, 0u64);
        for (_, file) in self.sources.version.files() {
            let of_file = file.table.properties().number(DELETIONS).unwrap_or(0);
            entries = file.meta.entries.saturating_add(entries);
            deletions = of_file.saturating_add(deletions);
        }
        entries.saturating_sub(deletions.saturating_mul(2))
    }

    fn approximate_size(&self, range: &Bounds) -> Result<u64> {
        let files = self.sources.version.files();
        files.map(|(_, file)| file.bytes_between(range.lower(), range.upper())).sum()
    }
}

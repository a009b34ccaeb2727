//! Updates of one key: a read, a decision and a write, atomic against every other write.
//!
//! ```text
//!   turn ──► updates of one key take turns, so that they rarely have to start again (write/turns.rs)
//!   read ──► the value, and the read point at which it was found
//!   decide   the closure, or the comparison, under no lock
//!   write ─► the leader of the writers writes only if nothing has changed the key since the read
//!            (`Inner::commit_if`); otherwise the update reads again
//! ```
//!
//! **The read point stays.** The update keeps the read state that it has read from, until the
//! leader has compared it with the current one. If it is no longer the current one, a flush or a
//! compaction may have dropped a newer version of the key together with the tombstone after it, so
//! that nothing tells that the key has changed, and the update reads again.
//!
//! **An update that reads again and finds the same value** does not call its closure again. So a
//! flush or a compaction during a long closure costs one more read.
//!
//! Rejected: a lock for each key. A put would have to take it too, and a closure that updates
//! another key could deadlock.

use super::db::Db;
use super::get::{ToSlice, ValueRef, Visit, lookup};
use super::inner::Inner;
use super::inner::writing::Requirement;
use super::read_state::{ReadPoint, ReadState};
use super::write::batch::WriteBatch;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::Slice;
use crate::sync::Held;

/// [`Db::compare_and_swap`] did not write, because the key did not have the expected value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key does not have the expected value")]
#[non_exhaustive]
pub struct CompareAndSwapError {
    /// The value that the key had instead; `None` if it had none.
    pub current: Option<Slice>,
}

/// Updates of one key: the value is read and written atomically.
///
/// No other write of the key comes between the read and the write of an update, whatever call makes
/// it: a put, a deletion, a batch, a range deletion, an ingestion or another update. The write is as
/// durable as a [`Db::put`]; [`Db::persist`] makes it survive a power loss.
///
/// Updates of one key from several threads take turns. An update whose key was changed meanwhile
/// reads again, so it waits for no lock and cannot deadlock, and its closure may use the database,
/// even update it.
impl Db {
    /// Sets `key` to `new` if its value is `expected`. `None` stands for no value: with `None` as
    /// `expected` the call only inserts, and with `None` as `new` it deletes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// // Only one of two users gets the name.
    /// let nobody = None::<&str>;
    /// assert!(db.compare_and_swap("name/ada", nobody, Some("user/1"))?.is_ok());
    /// let taken = db.compare_and_swap("name/ada", nobody, Some("user/2"))?.unwrap_err();
    /// assert_eq!(taken.current.unwrap(), b"user/1");
    ///
    /// // A value changes hands, and goes.
    /// db.compare_and_swap("name/ada", Some("user/1"), Some("user/2"))??;
    /// db.compare_and_swap("name/ada", Some("user/2"), None::<&str>)??;
    /// assert_eq!(db.get("name/ada")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The inner error if the key has another value, which it carries. Nothing is written then. The
    /// outer errors are those of [`Db::write_opt`].
    #[doc(alias = "cas")]
    #[doc(alias = "compare_exchange")]
    #[doc(alias = "put_if_absent")]
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
    ) -> Result<Result<(), CompareAndSwapError>> {
        let key = key.as_ref();
        let expected = expected.as_ref().map(AsRef::as_ref);
        let new = new.as_ref().map(AsRef::as_ref);
        self.inner.check_writable()?;
        let _turn = self.handle.turns.take(key);
        loop {
            let (read, current) = self.read_for_update(key)?;
            if current.as_deref() != expected {
                return Ok(Err(CompareAndSwapError { current }));
            }
            if self.write_update(key, &current, new, read)? {
                return Ok(Ok(()));
            }
        }
    }

    /// Changes the value of `key` to what `update` returns for it, and returns the old value. `None`
    /// stands for no value: `update` gets it for an absent key, and deletes the key by returning it.
    ///
    /// `update` is called again if the value has changed before the new one could be written. So it
    /// should compute the new value and have no other effect. It holds no lock. Another update of
    /// the key waits for it at most a millisecond, and may be written first. A panic in it leaves
    /// the database as it was.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let next = |id: Option<&[u8]>| {
    ///     let id = id.map_or(0, |id| u64::from_be_bytes(id.try_into().unwrap()));
    ///     Some((id + 1).to_be_bytes())
    /// };
    /// assert_eq!(db.fetch_update("next id", next)?, None);
    /// assert_eq!(db.fetch_update("next id", next)?.unwrap(), 1u64.to_be_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    #[doc(alias = "fetch_and_update")]
    #[doc(alias = "merge")]
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Slice>> {
        Ok(self.update(key.as_ref(), update)?.0)
    }

    /// Like [`Db::fetch_update`], but returns the new value, as `update` has made it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// use maypole::Db;
    ///
    /// fn visit(db: &Db, page: &str) -> maypole::Result<u64> {
    ///     let count = db.update_fetch(page, |count| {
    ///         let count = count.map_or(0, |count| u64::from_be_bytes(count.try_into().unwrap()));
    ///         Some((count + 1).to_be_bytes())
    ///     })?;
    ///     Ok(count.map_or(0, u64::from_be_bytes))
    /// }
    ///
    /// assert_eq!((visit(&db, "/index")?, visit(&db, "/index")?), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    #[doc(alias = "update_and_fetch")]
    #[doc(alias = "increment")]
    #[doc(alias = "upsert")]
    #[doc(alias = "merge")]
    pub fn update_fetch<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        Ok(self.update(key.as_ref(), update)?.1)
    }

    /// Removes `key` and returns the value that it had. Of several threads that take one value, one
    /// gets it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("coupon", "10 %")?;
    /// assert_eq!(db.take("coupon")?.unwrap(), b"10 %");
    /// assert_eq!(db.take("coupon")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.fetch_update(key, |_| None::<&[u8]>)
    }

    /// Returns the old value and the new one.
    fn update<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        mut update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<(Option<Slice>, Option<V>)> {
        self.inner.check_writable()?;
        let _turn = self.handle.turns.take(key);
        let mut updated: Option<(Option<Slice>, Option<V>)> = None;
        loop {
            let (read, old) = self.read_for_update(key)?;
            let new = match updated.take() {
                Some((same, new)) if same == old => new,
                _ => update(old.as_deref()),
            };
            let bytes = new.as_ref().map(AsRef::as_ref);
            if self.write_update(key, &old, bytes, read)? {
                return Ok((old, new));
            }
            updated = Some((old, new));
        }
    }

    /// The value of `key`, and the read point at which it was found.
    fn read_for_update(&self, key: &[u8]) -> Result<(ReadPoint, Option<Slice>)> {
        let mut read = None;
        let visit = NotesReadPoint { inner: &self.inner, read: &mut read };
        let value = lookup(self.inner.open_reading()?, key, None, visit)?;
        Ok((read.expect("a lookup tells what it reads"), value))
    }

    /// Writes the new value of an update, if nothing has changed `key` since `read` found `old`.
    /// Returns whether the update is done.
    fn write_update(
        &self,
        key: &[u8],
        old: &Option<Slice>,
        new: Option<&[u8]>,
        read: ReadPoint,
    ) -> Result<bool> {
        let mut batch = WriteBatch::new();
        match new {
            Some(new) => batch.put(key, new),
            // The key was absent at the read, and is to be absent: there is nothing to write.
            None if old.is_none() => return Ok(true),
            None => batch.delete(key),
        };
        self.inner.commit_if(batch, self.inner.database.durability, Requirement::UnchangedKey(read))
    }
}

/// Returns the value of a lookup like [`ToSlice`], and notes what the lookup reads.
struct NotesReadPoint<'a> {
    inner: &'a Inner,
    read: &'a mut Option<ReadPoint>,
}

impl Visit for NotesReadPoint<'_> {
    type Out = Slice;

    fn begin(&mut self, state: &Held<'_, ReadState>, sequence: SequenceNumber) {
        let status = &self.inner.database.status;
        *self.read = Some(ReadPoint::new(state.to_arc(), sequence, false, status));
    }

    fn visit(self, value: ValueRef<'_>) -> Slice {
        ToSlice.visit(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fs::{Fs, MemFs};
    use crate::table::{SstWriter, TableOptions};

    /// A read may come between the two steps by which an ingestion becomes visible: it has the read
    /// state with the ingested table, and the sequence number from before it.
    #[test]
    fn an_update_sees_an_ingestion_that_became_visible_during_its_read() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap();
        db.put("other", "").unwrap();
        let before = db.inner.read_point(None);
        let mut writer = SstWriter::create_in(fs, "/table", TableOptions::default()).unwrap();
        writer.put(b"key", b"ingested").unwrap();
        writer.finish().unwrap();
        db.ingest(&["/table"]).unwrap();
        let state = db.inner.tree.reading.current();
        let between = ReadPoint::new(state, before.sequence, false, &db.inner.database.status);
        assert!(!db.write_update(b"key", &None, Some(b"new"), between).unwrap());
        assert_eq!(db.get("key").unwrap().unwrap(), b"ingested");
    }
}

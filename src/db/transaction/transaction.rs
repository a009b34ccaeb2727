//! [`Transaction`]: the public type, and [`Db::transaction`] and [`Db::transact`], which make one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::commit::{Part, commit};
use super::cursor::TransactionCursor;
use super::view::View;
use crate::db::db::Db;
use crate::db::iter::bounds::{Bounds, KeyBounds, after, after_prefix, start_and_end};
use crate::db::iter::ends::Ends;
use crate::db::snapshot::Snapshot;
use crate::db::write::durability::Durability;
use crate::error::{Error, Result};
use crate::range_tombstones::reversed_range;
use crate::slice::Slice;
use crate::sync::thread;
use crate::version::KeyspaceId;

/// How often [`Db::transact`] runs its closure at most.
const MOST_RUNS: u32 = 100;

/// The longest pause between two runs. Each pause is twice as long as the one before it.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// Reads and writes that take effect together, as if nothing else had run meanwhile.
///
/// A transaction sees the database as it was at its beginning, and its own writes. Nobody else sees
/// these writes before [`Transaction::commit`]. The commit fails with [`Error::Conflict`], and writes
/// nothing, if something was written since that the transaction had read: a key, also one that was
/// absent, or a key of a range over which it moved. So transactions are *serializable*: those
/// that commit have the effect that they would have one after the other. Dropping a transaction
/// rolls it back.
///
/// No locks are held, and nothing waits for a transaction. [`Db::transact`] runs a closure again
/// after a conflict. `examples/service.rs` is a small service with unique names and counters.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use maypole::{Db, Error};
///
/// fn balance(value: Option<maypole::Slice>) -> u64 {
///     value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()))
/// }
///
/// fn transfer(db: &Db, from: &str, to: &str, amount: u64) -> maypole::Result<bool> {
///     db.transact(|tx| {
///         let (old, other) = (balance(tx.get(from)?), balance(tx.get(to)?));
///         if old < amount {
///             return Ok(false);
///         }
///         tx.put(from, (old - amount).to_be_bytes());
///         tx.put(to, (other + amount).to_be_bytes());
///         Ok(true)
///     })
/// }
///
/// db.put("ada", 10_u64.to_be_bytes())?;
/// assert!(transfer(&db, "ada", "mary", 7)?);
/// assert!(!transfer(&db, "ada", "mary", 7)?);
/// assert_eq!(balance(db.get("mary")?), 7);
///
/// // Without `transact`:
/// let mut tx = db.transaction();
/// let old = balance(tx.get("ada")?);
/// tx.put("ada", (old + 1).to_be_bytes());
/// db.put("ada", 0_u64.to_be_bytes())?;
/// assert!(matches!(tx.commit(), Err(Error::Conflict(_))));
/// # Ok::<(), Error>(())
/// ```
///
/// # What counts as a read
///
/// Every read through the transaction counts. A lookup of a key that the transaction has written
/// itself does not. A cursor or an iterator counts all keys from where it was positioned to where it
/// got, with its bounds as the ends. A read through [`Transaction::snapshot`] sees the same moment
/// and does not count; neither does a read through the [`Db`], which sees the present. So read
/// through the transaction whatever its writes depend on.
///
/// A transaction that writes nothing never conflicts, and a write of a key that was not read does
/// not conflict. A read conflicts with any later write of its keys, even of the same value.
///
/// Up to 8 MiB of keys and ranges are remembered. Reads beyond that are remembered as one range from
/// the first key to the last, so the commit may also conflict with writes between them.
///
/// # Writing while iterating
///
/// An iterator or a cursor borrows the transaction, so it must end before the next write. Collect the
/// keys first:
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// # db.put("draft/1", "")?;
/// let mut tx = db.transaction();
/// let keys: Vec<_> = tx.prefix("draft/").map(|entry| Ok(entry?.0)).collect::<maypole::Result<_>>()?;
/// keys.iter().for_each(|key| tx.delete(key));
/// tx.commit()?;
/// assert!(db.is_empty()?);
/// # Ok::<(), maypole::Error>(())
/// ```
///
/// # Cost
///
/// A transaction is a [`Snapshot`], so while it lives compactions keep what it sees; see
/// [`Stats::snapshots`](crate::Stats::snapshots). It does not keep the database open: after
/// [`Db::close`], and after the last [`Db`] is dropped, its reads and its commit return
/// [`Error::Closed`]. It may move to another thread, but not be shared between threads.
///
/// A commit searches what has been written since the beginning for the keys that were read, and
/// tables answer by their filters. If nothing has been written, it searches nothing. A range that was
/// read may be searched entry by entry, in memtables and tables that have newer entries.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct Transaction {
    view: View,
    /// The error of a write that cannot be part of a batch.
    refused: Option<Error>,
    /// What the transaction reads and writes in other keyspaces.
    others: BTreeMap<KeyspaceId, Transaction>,
    /// Whether this is one of the `others` of a transaction.
    is_part: bool,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("snapshot", &self.view.snapshot).finish_non_exhaustive()
    }
}

/// Transactions.
impl Db {
    /// Begins a transaction, which sees the database as it is now.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let mut tx = db.transaction();
    /// if !tx.contains_key("name/ada")? {
    ///     tx.put("name/ada", "user/1");
    ///     tx.put("user/1", "Ada");
    /// }
    /// tx.commit()?;
    /// # Ok::<(), maypole::Error>(())
    /// ```
    #[doc(alias = "begin")]
    #[doc(alias = "begin_write")]
    #[doc(alias = "OptimisticTransactionDB")]
    pub fn transaction(&self) -> Transaction {
        Transaction::of(self.snapshot())
    }

    /// Runs `body` in a transaction and commits it. After a conflict `body` runs again, in a new
    /// transaction, after a short pause. So it should have no effect but its writes.
    ///
    /// If `body` returns an error, the transaction is rolled back, `body` does not run again, and the
    /// call returns this error. The error is of any type that an [`Error`] converts to. A closure
    /// must name it, as in the example. A panic in `body` rolls back too.
    ///
    /// Read through the transaction, and not through the database: only those reads are checked. A
    /// transaction inside of `body` is independent of this one. If it writes what this one has read,
    /// this one conflicts each time.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let id = db.transact(|tx| -> maypole::Result<u32> {
    ///     let last = tx.last_key_value()?.map(|(key, _)| key);
    ///     let id = last.map_or(0, |key| u32::from_be_bytes(key[..].try_into().unwrap()) + 1);
    ///     tx.put(id.to_be_bytes(), "a new entry");
    ///     Ok(id)
    /// })?;
    /// assert_eq!(id, 0);
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `body`, and those of [`Transaction::commit`]. [`Error::Conflict`] is returned
    /// after 100 runs.
    pub fn transact<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact_opt(self.inner.database.durability, body)
    }

    /// Like [`Db::transact`], with a durability.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// use maypole::Durability;
    ///
    /// db.transact_opt(Durability::Sync, |tx| -> maypole::Result<()> {
    ///     tx.put("survives", "a power loss");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::transact`].
    pub fn transact_opt<T, E: From<Error>>(
        &self,
        durability: Durability,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut pause = Duration::from_micros(1);
        for run in 1.. {
            let mut transaction = self.transaction();
            let out = body(&mut transaction)?;
            match transaction.commit_opt(durability) {
                Ok(()) => return Ok(out),
                Err(Error::Conflict(_)) if run < MOST_RUNS => thread::sleep(pause),
                Err(error) => return Err(error.into()),
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        unreachable!("the last run returns")
    }
}

/// Reading. The errors are those of [`Db`].
impl Transaction {
    fn of(snapshot: Snapshot) -> Transaction {
        let others = BTreeMap::new();
        Transaction { view: View::of(snapshot), refused: None, others, is_part: false }
    }

    /// The part of the transaction that reads and writes another keyspace: that of `db`, a handle of
    /// the same database. All parts see the same moment, and are committed together by
    /// [`Transaction::commit`] of the whole.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let names = db.keyspace("names")?;
    /// db.transact(|tx| -> maypole::Result<()> {
    ///     if tx.keyspace(&names)?.get("ada")?.is_none() {
    ///         tx.keyspace(&names)?.put("ada", "user/1");
    ///         tx.put("user/1", "Ada");
    ///     }
    ///     Ok(())
    /// })?;
    /// assert!(names.contains_key("ada")? && db.contains_key("user/1")?);
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `db` is another database, or if this is a part itself.
    /// [`Error::KeyspaceDropped`] if the keyspace was dropped.
    pub fn keyspace(&mut self, db: &Db) -> Result<&mut Transaction> {
        let id = db.inner.tree.id;
        if id == self.view.snapshot.inner.tree.id {
            self.view.snapshot.check_same_database(db)?;
            return Ok(self);
        }
        if self.is_part {
            let text = "a part of a transaction has no parts: ask the whole transaction for them";
            return Err(Error::InvalidArgument(text.into()));
        }
        if !self.others.contains_key(&id) {
            db.inner.tree.check_exists()?;
            let part = Transaction::of(self.view.snapshot.keyspace(db)?);
            self.others.insert(id, Transaction { is_part: true, ..part });
        }
        self.view.snapshot.check_same_database(db)?;
        Ok(self.others.get_mut(&id).expect("the part is there"))
    }

    /// What the own writes make of `key`: its value, or nothing. `None`: they do not concern it. Then
    /// the caller reads the snapshot, which is remembered here.
    fn own_or_remembered(&self, key: &[u8]) -> Option<Option<&Slice>> {
        let own = self.view.writes.get(key);
        if own.is_none() {
            self.view.reads.borrow_mut().add_key(key);
        }
        own
    }

    /// Like [`Db::get`].
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        match self.own_or_remembered(key) {
            Some(own) => Ok(own.cloned()),
            None => self.view.snapshot.get(key),
        }
    }

    /// Like [`Db::get_with`].
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = key.as_ref();
        match self.own_or_remembered(key) {
            Some(own) => Ok(own.map(|value| read(value))),
            None => self.view.snapshot.get_with(key, read),
        }
    }

    /// Like [`Db::contains_key`].
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.own_or_remembered(key) {
            Some(own) => Ok(own.is_some()),
            None => self.view.snapshot.contains_key(key),
        }
    }

    /// Like [`Db::multi_get`].
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        let mut values = self.view.snapshot.multi_get(keys)?;
        for (key, value) in keys.iter().zip(&mut values) {
            if let Some(own) = self.own_or_remembered(key.as_ref()) {
                *value = own.cloned();
            }
        }
        Ok(values)
    }

    /// Whether there is no entry. Reads up to the first one.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first_key_value()?.is_none())
    }

    /// The entry with the smallest key, or `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn first_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// The entry with the largest key, or `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn last_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }

    /// Like [`Db::iter`].
    pub fn iter(&self) -> TransactionIterator<'_> {
        self.range(..)
    }

    /// Like [`Db::range`].
    pub fn range(&self, range: impl KeyBounds) -> TransactionIterator<'_> {
        TransactionIterator { view: &self.view, bounds: Bounds::of(range), ends: Ends::default() }
    }

    /// Like [`Db::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionIterator<'_> {
        let bounds = Bounds::of_prefix(prefix.as_ref());
        TransactionIterator { view: &self.view, bounds, ends: Ends::default() }
    }

    /// Like [`Db::cursor`].
    pub fn cursor(&self) -> TransactionCursor<'_> {
        self.range_cursor(..)
    }

    /// Like [`Db::range_cursor`].
    pub fn range_cursor(&self, range: impl KeyBounds) -> TransactionCursor<'_> {
        TransactionCursor::new(&self.view, Bounds::of(range))
    }

    /// The snapshot that the transaction sees, without its writes. What is read through it is not
    /// remembered, so it cannot cause a conflict: for what the writes do not depend on.
    pub fn snapshot(&self) -> &Snapshot {
        &self.view.snapshot
    }
}

/// Writing. Nobody else sees the writes before the commit.
impl Transaction {
    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.view.writes.put(key.as_ref(), value.as_ref());
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.view.writes.delete(key.as_ref());
    }

    /// Removes `key` and returns the value that it had.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn take(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let old = self.get(key.as_ref())?;
        self.delete(key);
        Ok(old)
    }

    /// Removes all keys in `range`. If the range ends before it starts, the commit fails.
    pub fn delete_range(&mut self, range: impl KeyBounds) {
        let (start, end) = start_and_end(&range);
        if let Some(end) = end.as_ref().filter(|end| **end < start) {
            self.refused.get_or_insert_with(|| reversed_range(&start, end));
        }
        self.view.writes.delete_range(&start, end.as_deref());
    }

    /// Removes all keys that start with `prefix`.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) {
        let prefix = prefix.as_ref();
        self.view.writes.delete_range(prefix, after_prefix(prefix).as_deref());
    }

    /// Removes the entry with the smallest key and returns it, or `None` if there is no entry.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn pop_first(&mut self) -> Result<Option<(Slice, Slice)>> {
        let first = self.first_key_value()?;
        if let Some((key, _)) = &first {
            self.delete(key);
            // So that many of these calls do not pass the keys that the earlier ones have removed.
            self.view.writes.note_empty(&[], Some(&after(key)));
        }
        Ok(first)
    }

    /// Removes the entry with the largest key and returns it, or `None` if there is no entry.
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn pop_last(&mut self) -> Result<Option<(Slice, Slice)>> {
        let last = self.last_key_value()?;
        if let Some((key, _)) = &last {
            self.delete(key);
            self.view.writes.note_empty(key, None);
        }
        Ok(last)
    }

    /// Writes everything, if nothing that was read was written since. The writes are as durable as a
    /// [`Db::put`].
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if something that was read was written since. Then the transaction writes
    /// nothing. Otherwise
    /// the errors of [`Db::write_opt`].
    pub fn commit(self) -> Result<()> {
        let durability = self.view.snapshot.inner.database.durability;
        self.commit_opt(durability)
    }

    /// Like [`Transaction::commit`], with a durability.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::commit`].
    pub fn commit_opt(self, durability: Durability) -> Result<()> {
        let (mut parts, mut notes) = (Vec::new(), None);
        let Transaction { view, refused, others, .. } = self;
        let others = others.into_values().map(|part| (part.view, part.refused));
        for (view, refused) in std::iter::once((view, refused)).chain(others) {
            if let Some(error) = refused {
                return Err(error);
            }
            let View { snapshot, reads, writes, notes: of_part } = view;
            notes = notes.or(of_part.into_inner());
            parts.push(Part { snapshot, reads: reads.into_inner(), writes });
        }
        commit(parts, notes, durability)
    }
}

/// The entries that a [`Transaction`] sees, or a range of them, in key order, from either end. The
/// transaction remembers what was passed as read.
pub struct TransactionIterator<'t> {
    view: &'t View,
    bounds: Bounds,
    ends: Ends<TransactionCursor<'t>>,
}

impl std::fmt::Debug for TransactionIterator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionIterator").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Iterator for TransactionIterator<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ends.next(|| TransactionCursor::new(self.view, self.bounds.clone()))
    }
}

impl DoubleEndedIterator for TransactionIterator<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ends.next_back(|| TransactionCursor::new(self.view, self.bounds.clone()))
    }
}

impl std::iter::FusedIterator for TransactionIterator<'_> {}

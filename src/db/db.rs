//! [`Db`]: the handle of an open database, its public API.
//!
//! The file is long because each method shows an example. It holds no logic: other files of this
//! folder implement the methods.

use std::path::Path;
use std::sync::Arc;

use super::background::FilterReport;
use super::background::refilter::apply_filter_policy;
use super::explain::trace::LookupTrace;
use super::explain::watch::explain;
use super::get;
use super::inner::Inner;
use super::iter::DbIterator;
use super::iter::bounds::{Bounds, KeyBounds};
use super::iter::cursor::DbCursor;
use super::maintenance::checkpoint::{checkpoint, copy_with_filters};
use super::maintenance::destroy::DestroyReport;
use super::maintenance::ingest::ingest;
use super::maintenance::verify::{VerifyReport, verify};
use super::maintenance::warm_up::{WarmUpReport, warm_up};
use super::options::Builder;
use super::repair::report::RepairReport;
use super::rocks::export::{ExportReport, export_rocksdb};
use super::snapshot::Snapshot;
use super::stats::collect::stats;
use super::stats::published::PublishedStats;
use super::stats::report::Stats;
use super::write::batch::WriteBatch;
use super::write::durability::Durability;
use super::write::turns::Turns;
use crate::error::Result;
use crate::filter_policy::FilterPolicy;
use crate::slice::Slice;
use crate::table::SstReader;

/// An open database, or one of its [keyspaces](Db::keyspace). Cheap to clone and to share between
/// threads. Dropping the last clone, of any keyspace, closes the database.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let db = maypole::Db::open(dir.path())?;
/// db.put("tree", "maypole")?;
/// assert_eq!(db.get("tree")?.unwrap(), b"maypole");
/// db.delete("tree")?;
/// assert_eq!(db.get("tree")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is guaranteed
///
/// - **Each write is atomic.** Readers, and the next opening after a crash, see all of it
///   or nothing: a put, a [`WriteBatch`], the deletion of a range, an ingestion, an update.
/// - **An acknowledged write survives a killed process.** It survives a power loss once it is
///   synced: by its call ([`Durability::Sync`]), by default ([`Builder::durability`]), or by a later
///   [`Db::persist`], [`Db::flush`] or [`Db::close`]. If a write survives, so does every write before
///   it.
/// - **A read sees every write that was acknowledged before it began.** A [`Snapshot`], an iterator,
///   a cursor and one [`Db::multi_get`] show the state of one moment. Reads never wait for writers.
/// - **An update loses nothing.** Between its read and its write of a key no other write of this key
///   comes, whichever call makes it: [`Db::update_fetch`], [`Db::compare_and_swap`], [`Db::take`].
/// - **Transactions are serializable.** Those that commit have the effect that they would have one
///   after the other ([`Db::transact`]).
/// - **Damaged bytes are found or harmless.** They cause an error that names the file, never a wrong
///   value.
/// - **One process writes.** While it has the database open, others can open it read-only.
///
/// `docs/reliability.md` has all promises, and how they are tested.
///
/// # Where to find what
///
/// - **Counters, unique names, queues**: [`Db::update_fetch`], [`Db::compare_and_swap`],
///   [`Db::pop_first`]; for several keys [`Db::transact`]. `examples/service.rs` has all of them.
/// - **Several kinds of data**: [`Db::keyspace`], each with its own filter policy; batches, snapshots
///   and transactions go across them.
/// - **Data that expires**: begin the keys with the time, as big-endian bytes, and delete the oldest
///   with [`Db::delete_range`], as one entry each time. [`Builder::max_deletion_age`] says when
///   deleted data leaves the disk.
/// - **Backups**: [`Db::checkpoint`].
/// - **Async programs**: `docs/moving.md` and `examples/from_async.rs`.
/// - **Coming from RocksDB, fjall, redb or sled**: `docs/moving.md` maps the calls.
/// - **Watching a running program**: [`Db::stats`], [`Stats::prometheus`] and `docs/monitoring.md`.
/// - **Choosing a filter**: [`Builder::filter`] and `docs/filters.md`; by what the program looks
///   up, [`Db::record_lookups`] and `docs/following.md`.
/// - **What a call costs, and what a large tree needs**: `docs/performance.md`.
///
/// # Keys
///
/// Keys are ordered by their bytes. So a key that is made of parts sorts by these parts if each part
/// is encoded in an order-preserving way:
///
/// - unsigned integers as `to_be_bytes`; signed ones too, with the sign bit flipped
///   (`(n ^ i64::MIN).to_be_bytes()`);
/// - a string that is followed by another part, with a byte after it that the string does not have,
///   for example 0. A string that may have this byte must be escaped, because otherwise `("a\0", "b")`
///   and `("a", "\0b")` would be the same key.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// /// The key of a user's visit. No name has a zero byte.
/// fn visit(user: &str, seconds: u64) -> Vec<u8> {
///     [user.as_bytes(), b"\0", &seconds.to_be_bytes()].concat()
/// }
///
/// db.put(visit("ada", 7), "home")?;
/// db.put(visit("ada", 300), "shop")?;
/// db.put(visit("adam", 5), "home")?;
/// assert_eq!(db.range(visit("ada", 100)..visit("ada", u64::MAX)).count(), 1);
/// assert_eq!(db.prefix("ada\0").count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The crate [`storekey`](https://docs.rs/storekey) does all this for tuples and structures, with
/// escapes: `storekey::encode_vec(&(7u32, "name", -1i64))`. To store a structure as a *value*,
/// serialize it with a crate such as [`postcard`](https://docs.rs/postcard) or
/// [`serde_json`](https://docs.rs/serde_json).
///
/// # What is absent on purpose
///
/// - **Merge operators.** [`Db::update_fetch`] reads, changes and writes a value atomically.
/// - **Custom comparators.** Keys are ordered by their bytes, so encode numbers big-endian.
/// - **Time to live, and compaction filters.** Delete old entries yourself, with
///   [`Db::delete_range`] where their keys are adjacent.
/// - **Replication, and a server.** [`Db::checkpoint`] copies the whole database.
///
/// # Errors
///
/// Any method may fail with one of these errors. The documentation of a method lists only its other
/// errors.
///
/// - [`Error::Io`](crate::Error::Io): the operating system returned an error. After a failed write
///   the database is read-only, unless the only cause was [missing
///   space](crate::Error::is_out_of_space), or missing descriptors or memory. After a failed sync
///   the database is always read-only.
/// - [`Error::Corruption`](crate::Error::Corruption): bytes on disk are damaged. The error names
///   the file and the offset. Other files stay readable.
/// - [`Error::Closed`](crate::Error::Closed): another clone called [`Db::close`].
/// - [`Error::Forked`](crate::Error::Forked): the parent of this process opened the database,
///   before a `fork`. In the child, the methods that return no `Result` return an empty value, and
///   iterators and cursors return this error.
/// - From methods that write: [`Error::ReadOnly`](crate::Error::ReadOnly) if an earlier failure has
///   made the database read-only, and [`Error::OpenedReadOnly`](crate::Error::OpenedReadOnly) if it
///   was opened read-only.
#[derive(Clone)]
pub struct Db {
    pub(super) inner: Inner,
    pub(super) handle: Arc<Handle>,
}

/// State that the clones of a [`Db`] share. Closes the database when the last clone is dropped.
pub(super) struct Handle {
    inner: Inner,
    /// What orders the updates of one key, such as [`Db::fetch_update`].
    pub(super) turns: Turns,
}

impl Drop for Handle {
    fn drop(&mut self) {
        match self.inner.database.status.process().is_current() {
            true => drop(self.inner.close()),
            false => self.inner.leak(),
        }
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.inner.database.store.dir).finish_non_exhaustive()
    }
}

/// Opening and closing.
impl Db {
    /// Opens the database in the directory `path` with default options. Creates it when there is
    /// none.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = maypole::Db::open(dir.path().join("new"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Options for opening the database in the directory `path`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = maypole::Db::builder(dir.path()).memtable_bytes(4 << 20).open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "Options")]
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens the database in the directory `path` read-only, with default options. See
    /// [`Builder::open_read_only`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let writer = maypole::Db::open(dir.path())?;
    /// # writer.put("key", "value")?;
    /// let reader = maypole::Db::open_read_only(dir.path())?;
    /// assert!(reader.contains_key("key")?);
    /// assert!(matches!(reader.put("key", "other"), Err(maypole::Error::OpenedReadOnly)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Builder::open_read_only`].
    #[doc(alias = "OpenForReadOnly")]
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open_read_only()
    }

    /// Repairs a database that cannot be opened, in the directory `path`. See [`Builder::repair`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # maypole::Db::open(dir.path())?.put("key", "value")?;
    /// let report = maypole::Db::repair(dir.path())?;
    /// println!("{report}");
    /// assert!(report.losses.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Builder::repair`].
    pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
        Db::builder(path).repair()
    }

    /// Removes the database in the directory `path`, and no other files in it. See
    /// [`Builder::destroy`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # maypole::Db::open(dir.path())?.put("key", "value")?;
    /// let report = maypole::Db::destroy(dir.path())?;
    /// assert!(report.left.is_empty());
    /// let again = maypole::Db::destroy(dir.path());
    /// assert!(matches!(again, Err(maypole::Error::NoDatabase { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Builder::destroy`].
    #[doc(alias = "DestroyDB")]
    pub fn destroy(path: impl AsRef<Path>) -> Result<DestroyReport> {
        Db::builder(path).destroy()
    }

    /// The counters that the owner of the database in the directory `path` has published; `None` if
    /// it has published none. The owner is the process that has the database open for writing, or
    /// the last process that had. See [`Builder::publish_stats`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # maypole::Db::open(dir.path())?;
    /// match maypole::Db::published_stats(dir.path())? {
    ///     Some(stats) => println!("{} filters said no", stats.counts().filter.useful),
    ///     None => println!("open it with Builder::publish_stats"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Builder::published_stats`].
    pub fn published_stats(path: impl AsRef<Path>) -> Result<Option<PublishedStats>> {
        Db::builder(path).published_stats()
    }

    pub(super) fn of(inner: Inner) -> Db {
        let handle = Handle { inner: inner.clone(), turns: Turns::new() };
        Db { inner, handle: Arc::new(handle) }
    }

    /// Ends running compactions and maintenance calls early, waits for a running flush, syncs the
    /// WAL and releases the directory. If the call succeeds, every acknowledged write is durable.
    /// The call waits until a file that another clone is copying or checking is done, unless the
    /// database was opened read-only.
    ///
    /// If another clone is being closed already, the call waits until that is done, and returns the
    /// same result.
    ///
    /// If the database's [`Fs`](crate::fs::Fs) calls `close` inside a job of the database, for
    /// example in a flush, the call returns before the directory is released. The last job to end
    /// releases it.
    ///
    /// From then on other clones and every [`Snapshot`] return
    /// [`Error::Closed`](crate::Error::Closed). Iterators and cursors made before the call continue
    /// to work, because they keep their tables and memtables.
    ///
    /// Dropping the last clone does the same, but cannot report an error.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = maypole::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// db.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a failure has made the database read-only, this failure; otherwise the failure of the
    /// sync. The directory is released even then. [`Error::Panicked`](crate::Error::Panicked) if the
    /// database's [`Fs`](crate::fs::Fs) panics meanwhile. Then the directory is released when the
    /// last handle is dropped.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }
}

/// Reading.
impl Db {
    /// The value of `key`, or `None` if it has none. The value may share the cached block it was
    /// found in: see [`Slice`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.get("key")?.unwrap(), b"value");
    /// assert_eq!(db.get("absent")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        get::get(self.inner.open_reading()?, key.as_ref(), None)
    }

    /// Calls `read` with the value of `key`. Faster than [`Db::get`], because nothing is copied and
    /// no reference is counted. While `read` runs, the call keeps nothing in memory but the block
    /// or the memtable of the value.
    /// [`Stats::held_by_readers_bytes`](crate::Stats::held_by_readers_bytes) counts what only such
    /// calls keep. If `read` calls this method again, that inner call copies its value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.get_with("key", |value| value.len())?, Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "get_pinned")]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        get::get_with(self.inner.open_reading()?, key.as_ref(), None, read)
    }

    /// Whether `key` has a value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// assert!(!db.contains_key("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "exists")]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        get::contains_key(self.inner.open_reading()?, key.as_ref(), None)
    }

    /// Looks up `key` like [`Db::get`] and reports each step: the result and the time of each
    /// memtable, range check, filter, index and block. The counters count the call as a lookup, and
    /// the call loads into the cache what `get` would load.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("a", "")?;
    /// # db.put("z", "")?;
    /// # db.flush()?;
    /// let trace = db.explain("absent")?;
    /// for table in trace.tables() {
    ///     println!("{}: {:?}", table.path.display(), table.filter.as_ref().map(|f| f.verdict));
    /// }
    /// assert!(trace.cost().blocks <= trace.cost_without_filters().blocks);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<LookupTrace> {
        explain(self.inner.open_reading()?, key.as_ref(), None)
    }

    /// The values of many keys, in the order of `keys`, all of the same state of the database.
    /// Faster than a [`Db::get`] for each key, because memory accesses and reads of different keys
    /// overlap.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("b", "2")?;
    /// let values = db.multi_get(&["a", "b"])?;
    /// assert_eq!(values[0], None);
    /// assert_eq!(values[1].as_ref().unwrap(), b"2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]. If one key cannot be read, the whole call fails.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        get::multi_get(self.inner.open_reading()?, keys, None)
    }

    /// A snapshot: the database as it is now, for as long as the snapshot lives.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let snapshot = db.snapshot();
    /// db.put("key", "value")?;
    /// assert!(!snapshot.contains_key("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner)
    }

    /// An iterator over all entries as of now, in key order, from either end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     db.put(key, "")?;
    /// }
    /// for entry in db.iter().rev() {
    ///     let (key, value) = entry?;
    ///     println!("{key:?} = {value:?}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> DbIterator {
        self.range(..)
    }

    /// An iterator over the entries as of now whose keys lie in `range`, in key order, from either
    /// end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     db.put(key, "")?;
    /// }
    /// assert_eq!(db.range("b"..="cat").count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(&self, range: impl KeyBounds) -> DbIterator {
        DbIterator::at(self.inner.read_point(None), Bounds::of(range))
    }

    /// An iterator over the entries as of now whose keys start with `prefix`, in key order, from
    /// either end. If the filters hold prefixes of keys ([`Builder::filter_keys`]), the iterator
    /// can skip tables whose filter denies the prefix.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("user/7/name", "Ada")?;
    /// assert_eq!(db.prefix("user/7/").count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "prefix_iterator")]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        DbIterator::at(self.inner.read_point(None), Bounds::of_prefix(prefix.as_ref()))
    }

    /// A cursor over all entries as of now. It lends keys and values instead of copying them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("bee", "buzz")?;
    /// let mut cursor = db.cursor();
    /// cursor.seek("b")?;
    /// assert_eq!((cursor.key(), cursor.value()), (&b"bee"[..], &b"buzz"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor(&self) -> DbCursor {
        DbCursor::at(self.inner.read_point(None), Bounds::default())
    }

    /// A cursor over the entries as of now whose keys lie in `range`. It visits no other entries.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     db.put(key, "")?;
    /// }
    /// let mut cursor = db.range_cursor(.."c");
    /// cursor.seek_to_last()?;
    /// assert_eq!(cursor.key(), b"bee");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "iterate_upper_bound")]
    pub fn range_cursor(&self, range: impl KeyBounds) -> DbCursor {
        DbCursor::at(self.inner.read_point(None), Bounds::of(range))
    }
}

/// Writing.
impl Db {
    /// Sets `key` to `value`. The write survives a killed process when this returns. For a write
    /// that survives a power loss see [`Db::put_opt`], [`Builder::durability`] and [`Db::persist`].
    ///
    /// Keys and values are bytes: strings, slices, vectors, arrays. A number is turned into bytes by
    /// `to_be_bytes`, because keys are ordered by their bytes, and big-endian numbers of one type
    /// have the order of their bytes. [`Db`] says more about [keys](Db#keys).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// db.put(42u64.to_be_bytes(), 7u32.to_be_bytes())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    #[doc(alias = "insert")]
    #[doc(alias = "set")]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(key, value, self.inner.database.durability)
    }

    /// Like [`Db::put`], but as durable as `durability` requires, whatever
    /// [`Builder::durability`] says.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put_opt("account/7", "100", maypole::Durability::Sync)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write_opt(batch, durability)
    }

    /// Removes `key`, whether it has a value or not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// db.delete("key")?;
    /// assert_eq!(db.get("key")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    #[doc(alias = "remove")]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(key, self.inner.database.durability)
    }

    /// Like [`Db::delete`], but as durable as `durability` requires.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.delete_opt("account/7", maypole::Durability::Sync)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write_opt(batch, durability)
    }

    /// Removes all keys in `range`, as one write. The write costs one entry, however many keys there
    /// are. Compaction frees the space of the keys. A range takes all forms that [`Db::range`]
    /// takes.
    ///
    /// A range without an end, such as `"a"..`, ends after the last key that was written before: no
    /// key that is there when the call begins survives, and each key that is put after the call has
    /// returned stays. An empty range, such as `"a".."a"`, removes nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// for key in ["log/1", "log/2", "log/3", "user/7"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete_range("log/1".."log/3")?;
    /// assert_eq!(db.prefix("log/").count(), 1);
    /// db.delete_range("u"..)?;
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) where the range ends before it
    /// starts; otherwise those of [`Db::write_opt`].
    #[doc(alias = "remove_range")]
    #[doc(alias = "retention")]
    #[doc(alias = "ttl")]
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(range);
        self.write(batch)
    }

    /// Removes all keys that start with `prefix`, as one write. See [`Db::delete_range`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("user/7/name", "Ada")?;
    /// db.put("user/8/name", "Mary")?;
    /// db.delete_prefix("user/7/")?;
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_prefix(prefix);
        self.write(batch)
    }

    /// Removes all keys, as one write: [`Db::delete_range`] of `..`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// db.clear()?;
    /// assert!(db.is_empty()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    #[doc(alias = "truncate")]
    #[doc(alias = "delete_all")]
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }

    /// Writes all of `batch` or nothing. The write survives a killed process when this returns, and
    /// a power loss too with [`Builder::durability`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let mut batch = maypole::WriteBatch::new();
    /// batch.put("new", "value");
    /// batch.delete("old");
    /// db.write(batch)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`].
    pub fn write(&self, batch: impl Into<WriteBatch>) -> Result<()> {
        self.write_opt(batch, self.inner.database.durability)
    }

    /// Writes all of `batch` or nothing, and returns when the write is as durable as `durability`
    /// requires. Waits while writers are [stalled](crate::WriteStall).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let mut batch = maypole::WriteBatch::new();
    /// batch.put("account/7", "100");
    /// db.write_opt(batch, maypole::Durability::Sync)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`], and [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a batch
    /// that is too large or holds a write that cannot be stored.
    #[doc(alias = "WriteOptions")]
    pub fn write_opt(&self, batch: impl Into<WriteBatch>, durability: Durability) -> Result<()> {
        self.inner.commit(batch.into(), durability)
    }

    /// Makes every acknowledged write survive a power loss.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// for i in 0..100u32 {
    ///     db.put(i.to_be_bytes(), "")?;
    /// }
    /// db.persist()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "flush_wal")]
    #[doc(alias = "sync")]
    pub fn persist(&self) -> Result<()> {
        self.inner.database.status.check_writable()?;
        self.inner.sync_wals()
    }
}

/// Maintenance. A database needs none of these calls; they are for tests, tools and backups.
impl Db {
    /// Writes all memtables of the keyspace to tables, and waits until this is done. Then all earlier
    /// writes are durable, also those of other keyspaces.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// assert_eq!(db.stats().files.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]. If there is no space, the database tries the flush again later.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Compacts `range`, and waits until this is done: everything that was written to the range
    /// before the call is then in the last level that holds data. Drops old versions and tombstones
    /// that no snapshot needs.
    ///
    /// Reads, writes and automatic compactions continue during the call. It first waits until all
    /// memtables are flushed. While running compactions use all files that it must still compact,
    /// it waits for these compactions. Calls from several threads run one after the other. The call
    /// ends even if other threads keep writing, and [`Db::close`] ends it early.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// db.compact_range(..)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]. If compactions have set a damaged table aside
    /// ([`Stats::damaged`](crate::Stats::damaged)), the call compacts all other tables and then
    /// returns the damage as an error.
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.inner.compact_range(Bounds::of(range))
    }

    /// Waits until no flush and no compaction runs or is due.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// db.wait_for_compaction()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`].
    #[doc(alias = "WaitForCompact")]
    pub fn wait_for_compaction(&self) -> Result<()> {
        self.inner.wait_for_compaction()
    }

    /// What the keyspace holds, and what its filters and the cache and files of the database have
    /// done so far; for `default`, also the sums of the other keyspaces. `Display` prints it as a
    /// report.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// println!("{}", db.stats());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "statistics")]
    #[doc(alias = "tablestats")]
    pub fn stats(&self) -> Stats {
        stats(&self.inner.database, &self.inner.tree)
    }

    /// A table of the database, for inspection, by its number in [`Stats::files`](crate::Stats);
    /// `None` if the tree has no table with this number. The reader shares the database's open
    /// file. If the file is deleted, the reader works until the database closes this file to open
    /// others ([`Builder::max_open_files`]). A database that is opened read-only keeps all its
    /// files open.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// # db.flush()?;
    /// for file in db.stats().files {
    ///     let table = db.table(file.number).expect("nothing was written since");
    ///     assert_eq!(table.properties().entries(), file.entries);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table(&self, number: u64) -> Option<SstReader> {
        if !self.inner.database.status.process().is_current() {
            return None;
        }
        let read_state = self.inner.tree.reading.current();
        let mut files = read_state.sources.version.files();
        let (_, file) = files.find(|(_, file)| file.meta.number == number)?;
        Some(SstReader::of_open(Arc::clone(&file.table)))
    }

    /// Gives every table the filter that the filter policy
    /// ([`Builder::filter`](crate::Builder::filter)) gives to its level, and rewrites nothing else:
    /// data blocks are read, checked and copied, but not merged, compressed or moved to another
    /// level, as in a compaction. Tables that have this filter already stay as they are, so a second
    /// call writes nothing. Of a policy with a budget, filters of about the right size count as
    /// fitting.
    ///
    /// Reads, writes, flushes and automatic compactions go on meanwhile. This call and
    /// [`Db::compact_range`] wait for each other. Each table is replaced by one step, for which
    /// there must be as much free space as the table takes. A call that ends early, by an error, a
    /// crash or [`Db::close`], leaves a sound database in which some tables have their new filters,
    /// and the next call does the rest.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let options = maypole::Db::builder(dir.path());
    /// let db = options.clone().filter("bloom(10)").open()?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// db.close()?;
    /// let db = options.filter("burr(7)").open()?;
    /// assert_eq!(db.apply_filter_policy()?.refiltered, 1);
    /// assert_eq!(db.apply_filter_policy()?.refiltered, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]. A table that is damaged, or that has something that only RocksDB writes, is
    /// no error: it keeps its filter, and the report names it.
    pub fn apply_filter_policy(&self) -> Result<FilterReport> {
        apply_filter_policy(&self.inner)
    }

    /// The filter policy of the keyspace, which gives new tables their filters.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let events = db.keyspace_with("events", |options| options.filter("burr(9)"))?;
    /// assert_eq!(events.filter_policy().to_string(), "burr(9)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn filter_policy(&self) -> FilterPolicy {
        self.inner.tree.options().filter.clone()
    }

    /// Loads the filter and the index of every table of all keyspaces into the block cache, shallow
    /// levels first, as far as the cache has room for them. So even the first lookups after opening
    /// find filters and indexes in memory. Such a lookup reads one block for a present key and none
    /// for an absent key, and one more block for each false positive.
    ///
    /// The call reads each table's filter and index, and evicts data blocks from the cache if it
    /// needs their space. A program may run it in a separate thread while it already serves
    /// lookups. [`Db::close`] ends it, with [`Error::Closed`](crate::Error::Closed).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// # db.flush()?;
    /// let report = db.warm_up()?;
    /// assert_eq!((report.tables, report.left_out), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]. The first failed read or damaged index ends the call; what was loaded
    /// stays.
    pub fn warm_up(&self) -> Result<WarmUpReport> {
        warm_up(&self.inner)
    }

    /// Reads every table of all keyspaces whole. Checks checksums, key order, and that no filter
    /// denies a key of its table. [`Db::close`] ends the call after the table that is being
    /// checked, with [`Error::Closed`](crate::Error::Closed).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("key", "value")?;
    /// db.flush()?;
    /// let report = db.verify()?;
    /// assert_eq!((report.tables, report.filter_misses), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]. The first damage ends the reading.
    pub fn verify(&self) -> Result<VerifyReport> {
        verify(&self.inner)
    }

    /// Copies table files into the database, as one write that is newer than all earlier ones. The
    /// files come from [`SstWriter`](crate::table::SstWriter) or from RocksDB's `SstFileWriter`:
    /// their own sequence numbers must be 0, and no two files may overlap.
    ///
    /// Reading and copying the files delays no other call. If no memtable has a write to the range
    /// of a file, the call waits for no flush and no compaction. Otherwise it first waits until
    /// these memtables are flushed. [`Db::close`] ends this wait, and the copying after the file
    /// that is being copied. Writers wait only while the copies are opened and the logs and the
    /// MANIFEST are synced. There is one exception: if the range is written to again during each of
    /// three such flushes, writers also wait for a fourth flush. When the call returns, the files
    /// and all writes before them survive a power loss. A [`Db::checkpoint`] at the same time may
    /// delay the call by a flush.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path().join("db"))?;
    /// use maypole::table::{SstWriter, TableOptions};
    ///
    /// let path = dir.path().join("sorted.sst");
    /// let mut writer = SstWriter::create(&path, TableOptions::default())?;
    /// for key in ["ant", "bee", "cat"] {
    ///     writer.put(key.as_bytes(), b"")?;
    /// }
    /// writer.finish()?;
    /// db.ingest(&[path])?;
    /// assert!(db.contains_key("bee")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`], [`Error::InvalidArgument`](crate::Error::InvalidArgument) for files that
    /// overlap each other or have no entries, and [`Error::Unsupported`](crate::Error::Unsupported)
    /// for files that were not made for ingestion, or were made for a keyspace of another name.
    #[doc(alias = "IngestExternalFile")]
    pub fn ingest<P: AsRef<Path>>(&self, files: &[P]) -> Result<()> {
        let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
        ingest(&self.inner, &files)
    }

    /// Copies the database to the directory `dir`, which is new or empty. The copy is an
    /// independent database. If the call fails, it leaves at most an empty directory, and can be
    /// repeated. The call replaces a copy that a killed process left unfinished. Tables are
    /// hard-linked if the file system can do this. Then the copy takes no space until compaction
    /// replaces tables of the original. [`Db::close`] ends the call after the table that is being
    /// copied, with [`Error::Closed`](crate::Error::Closed).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path().join("db"))?;
    /// # db.put("key", "value")?;
    /// let copy = dir.path().join("monday");
    /// db.checkpoint(&copy)?;
    /// assert!(maypole::Db::open(&copy)?.contains_key("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`], [`Error::InvalidArgument`](crate::Error::InvalidArgument) where `dir` is
    /// not empty or lies in the database's own directory, and
    /// [`Error::Locked`](crate::Error::Locked) while another copy is being made there.
    #[doc(alias = "backup")]
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        checkpoint(&self.inner, dir.as_ref())
    }

    /// Exports the database as a RocksDB database in the directory `dir`, which is new or empty, with
    /// a column family for each keyspace, all as they are at one moment. The export shares the tables
    /// by hard links, or copies them where linking fails, for example to another file system. RocksDB
    /// 6.27 and later can open the export and write to it. This database stays as it is.
    /// [`Db::close`] ends the call after the table that is being copied, with
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// If a table has a filter, the exported OPTIONS file names a filter policy, and the report
    /// repeats it. Open the export with these options, because without a filter policy RocksDB uses
    /// no filters. It ignores a filter of a family that it does not know.
    ///
    /// If `filter` is given, the tables are not shared but written again, each with the filter that
    /// this policy gives it. A table of RocksDB with a metadata block that Maypole does not know is
    /// still shared, and keeps its filter.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path().join("db"))?;
    /// # db.put("key", "value")?;
    /// let exported = dir.path().join("rocksdb");
    /// let report = db.export_rocksdb(&exported, None)?;
    /// assert_eq!(report.filter_policy.as_deref(), Some("bloomfilter:10:false"));
    /// let rocks = maypole::RocksDb::open_read_only(&exported)?;
    /// assert!(rocks.column_family("default")?.contains_key("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Those of [`Db::checkpoint`]. A call that fails leaves an empty directory at most.
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) where `filter` names a family
    ///   that RocksDB does not have.
    /// - [`Error::Unsupported`](crate::Error::Unsupported) where not all tables of a keyspace name the
    ///   same comparator. This happens if the database came from MyRocks, whose tables name its own
    ///   comparator, and Maypole has added tables since. The call also returns this error where
    ///   RocksDB could not order the tables of level 0 by their sequence numbers, because too many
    ///   of these tables belong to one write, for example to one ingestion.
    pub fn export_rocksdb(
        &self,
        dir: impl AsRef<Path>,
        filter: Option<&FilterPolicy>,
    ) -> Result<ExportReport> {
        export_rocksdb(&self.inner, dir.as_ref(), filter)
    }

    /// Like [`Db::checkpoint`], but each table of the copy is written again, with the filter that
    /// `policy` gives it. The data and the tree stay the same. `dir` may exist if it is empty. The
    /// method serves comparisons of policies. It is not tested against power losses, so it is not
    /// public.
    ///
    /// # Errors
    ///
    /// Those of [`Db`], and [`Error::InvalidArgument`](crate::Error::InvalidArgument) where `dir`
    /// has something in it.
    #[doc(hidden)]
    pub fn copy_with_filters(&self, dir: impl AsRef<Path>, policy: &FilterPolicy) -> Result<()> {
        copy_with_filters(&self.inner, dir.as_ref(), policy)
    }
}

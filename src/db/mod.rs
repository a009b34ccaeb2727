//! [`Db`]: the database, and what its parts share.
//!
//! ```text
//!   readers ──► view (ArcCell): memtable + frozen memtables + Version       no lock
//!   writers ──► writer (mutex): WAL, memtable, last sequence number         write.rs
//!   changes of the tree ──► manifest (mutex) ──► state (mutex) ──► view     background.rs
//! ```
//!
//! Locks are taken in the order writer, manifest, state; none is held while waiting for a device
//! but the writer's (the WAL) and the manifest's.
//!
//! What is absent: transactions, column families, merge operators, a server.

mod background;
mod flush;
mod get;
mod ingest;
mod iter;
mod open;
mod options;
mod repair;
mod snapshot;
mod stats;
mod verify;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};

pub use iter::DbIterator;
pub use iter::cursor::DbCursor;
pub use options::Builder;
pub use repair::{Loss, RepairReport};
pub use stats::{DamagedTable, FileStats, LevelStats, Stats};
pub use verify::VerifyReport;
pub use write::Durability;
pub use write::batch::WriteBatch;
pub use write::write_stall::{BrakeCause, WriteBrake};

use crate::compaction::{TreeShape, Unavailable};
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::{Error, Result};
use crate::filter_policy::FilterPolicy;
use crate::fs::FileLock;
use crate::memtable::Memtable;
use crate::slice::Slice;
use crate::stats::Counters;
use crate::sync::{ArcCell, drain, lock, pin};
use crate::version::{Manifest, TableStore, Version};
use snapshot::SnapshotList;
use write::{Pending, SealedWals, Writer};

/// What readers see: everything that was written, at one moment. Immutable but for the entries
/// that writers add to the memtable, which readers tell apart by sequence number.
pub(crate) struct View {
    pub memtable: Arc<Memtable>,
    /// Full memtables that are being flushed, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    pub version: Arc<Version>,
}

impl View {
    /// All memtables, newest first.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> + Clone {
        std::iter::once(&self.memtable).chain(&self.frozen)
    }

    /// Whether any memtable may have entries. The frozen ones nearly always have.
    #[inline]
    pub fn has_entries_in_memory(&self) -> bool {
        !self.memtable.is_empty() || !self.frozen.is_empty()
    }
}

/// A memtable that waits for its flush.
struct Frozen {
    memtable: Arc<Memtable>,
    /// The WAL that the writes after it went to: once it is flushed, older WALs can go.
    next_wal: u64,
}

/// What changes when the tree does.
pub(crate) struct State {
    memtable: Arc<Memtable>,
    /// Oldest first.
    frozen: VecDeque<Frozen>,
    version: Arc<Version>,
    /// What of `version` makes writers brake.
    pressure: write::write_stall::Pressure,
    /// What compactions must leave alone.
    held: Unavailable,
    flushing: bool,
    compactions: usize,
    /// Of the threads that compact, how many no compaction is using.
    idle_threads: usize,
    /// A manual compaction has the tree for itself.
    manual: bool,
    /// The directory is not taken over yet: nothing may be flushed.
    waits_for_space: bool,
    /// The jobs that work for this database, and what hinders them.
    work: background::jobs::Work,
}

/// How far the tables cover the writes, and which WALs hold the others: what the next MANIFEST starts
/// with.
#[derive(Default)]
struct Progress {
    flushed_sequence: SequenceNumber,
    oldest_wal: u64,
    /// WALs of which something is known to be durable, and how many bytes.
    durable_wals: BTreeMap<u64, u64>,
}

impl State {
    fn view(&self) -> View {
        View {
            memtable: Arc::clone(&self.memtable),
            frozen: self.frozen.iter().rev().map(|f| Arc::clone(&f.memtable)).collect(),
            version: Arc::clone(&self.version),
        }
    }
}

pub(crate) struct Inner {
    /// Itself, for the jobs it starts.
    this: OnceLock<Weak<Inner>>,
    /// Held once more by each job that holds this.
    holds: Arc<()>,
    store: TableStore,
    policy: FilterPolicy,
    shape: TreeShape,
    memtable_bytes: usize,
    manifest_roll_bytes: u64,
    counters: Arc<Counters>,

    view: ArcCell<View>,
    /// Every view that may still be held, for the closing.
    views: Mutex<Vec<Weak<View>>>,
    /// The last sequence number that readers may see.
    visible: AtomicU64,
    snapshots: SnapshotList,

    writer: Mutex<Writer>,
    queue: Mutex<VecDeque<Arc<Pending>>>,
    sealed_wals: Mutex<SealedWals>,
    /// `None`: the directory is not taken over.
    manifest: Mutex<Option<Manifest>>,
    /// Taken while holding the manifest.
    progress: Mutex<Progress>,
    /// What taking the directory over waits for.
    pending: Mutex<Option<open::take_over::Pending>>,
    state: Mutex<State>,
    /// Signalled whenever `state` changes, or `closing` or `latched` is set.
    changed: Condvar,
    /// Whether writers must ask `state` how hard to brake (`brake`).
    tree_brakes: AtomicBool,

    /// The failure that made the database read-only.
    latched: OnceLock<Error>,
    closing: AtomicBool,
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl Inner {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Makes the database read-only: after a failed write or sync nothing is known about what
    /// reached the disk, so nothing more may be built on it. Answers the error.
    fn latch(&self, error: Error) -> Error {
        if !matches!(error, Error::Closed) {
            let _ = self.latched.set(error.clone());
            // Under the lock, so that nobody who just checked goes to sleep and misses it.
            let _state = self.lock_state();
            self.changed.notify_all();
        }
        error
    }

    fn check_writable(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match self.latched.get() {
            None => Ok(()),
            Some(Error::OpenedReadOnly) => Err(Error::OpenedReadOnly),
            Some(error) => Err(Error::ReadOnly(Arc::new(error.clone()))),
        }
    }

    /// Tables that somebody can still ask for keep their descriptors from now on: when the lock is
    /// given up, the next owner of the directory may delete their names.
    fn keep_held_tables(&self) {
        let current = self.view.load_arc(&pin());
        for view in lock(&self.views).iter().filter_map(Weak::upgrade) {
            // The database itself holds the current view once; `current` and `view` are two more.
            let held = !Arc::ptr_eq(&view, &current) || Arc::strong_count(&view) > 3;
            if held {
                for (_, file) in view.version.files() {
                    // One that cannot be kept is opened when it is read, and says then what is wrong.
                    let _ = file.table.block_file().file().keep_open();
                }
            }
        }
    }

    fn check_open(&self) -> Result<()> {
        match self.closing.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::Closed),
        }
    }

    /// What is left to do once nobody works for the database any more.
    fn finish_closing(&self) -> Result<()> {
        // Tables that are no longer listed are deleted now, not after the next opening.
        drain(background::install::READERS_PATIENCE);
        let synced = match self.latched.get() {
            Some(Error::OpenedReadOnly) => Ok(()),
            // Nothing was written.
            None if self.missing_space().is_some() => Ok(()),
            None => self.sync_wals(),
            Some(error) => Err(error.clone()),
        };
        // A log that is written through memory is cut to its length when it goes. That must not be when
        // the last snapshot does: by then the file may be another opening's, which reads it.
        lock(&self.writer).wal = None;
        *lock(&self.sealed_wals) = SealedWals::default();
        self.store.obsolete.close();
        self.keep_held_tables();
        lock(&self.lock).take();
        synced
    }
}

/// Closes the database when the last [`Db`] goes.
struct Handle {
    inner: Arc<Inner>,
}

impl Handle {
    fn close(&self) -> Result<()> {
        match self.inner.closing.swap(true, Ordering::AcqRel) {
            true => Ok(()),
            false => self.inner.close(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// An open database. Cheap to clone and to share between threads; it closes when the last clone
/// is dropped.
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
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
    handle: Arc<Handle>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.inner.store.dir).finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in the directory `path` with default options, creating it when there is
    /// none. Errors as [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Options for opening the database in the directory `path`.
    #[doc(alias = "Options")]
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Makes a database of what is left in the directory `path`, where it does not open any more. See
    /// [`Builder::repair`].
    pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
        Db::builder(path).repair()
    }

    pub(crate) fn open_with(options: Builder) -> Result<Db> {
        let inner = Arc::new(open::take_over::open(options)?);
        background::start(&inner);
        Ok(Db { handle: Arc::new(Handle { inner: Arc::clone(&inner) }), inner })
    }

    pub(crate) fn read_with(options: Builder) -> Result<Db> {
        let inner = Arc::new(open::read_only::open(options)?);
        Ok(Db { handle: Arc::new(Handle { inner: Arc::clone(&inner) }), inner })
    }

    /// Opens the database in the directory `path` to read it, with default options: see
    /// [`Builder::open_read_only`].
    #[doc(alias = "OpenForReadOnly")]
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open_read_only()
    }

    /// Waits for flushes and compactions under way, syncs the WAL and gives up the lock. What writers
    /// were told is durable then.
    ///
    /// From now on other clones and every [`Snapshot`] answer [`Error::Closed`], to reads as to
    /// writes. Iterators and cursors that were made before go on: they keep the tables and memtables
    /// that they walk through.
    ///
    /// Dropping the last clone does the same, but cannot report an error.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }

    /// The value of `key`, or `None`. It may share the cached block it was found in: see [`Slice`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get(key.as_ref(), None)
    }

    /// Calls `read` with the value of `key`, without copying or counting anything.
    #[doc(alias = "get_pinned")]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner.get_with(key.as_ref(), None, read)
    }

    /// Whether `key` has a value.
    #[doc(alias = "exists")]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// The values of many keys, in the order asked, as of one moment. Faster than one by one: the
    /// filters, indexes and blocks of all of them are fetched together.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get(keys, None)
    }

    /// Sets `key` to `value`. When this returns the write survives a killed process; to survive a
    /// power loss too, see [`Db::write_opt`] and [`Db::persist`].
    #[doc(alias = "insert")]
    #[doc(alias = "set")]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(batch)
    }

    /// Removes `key`, whether it has a value or not.
    #[doc(alias = "remove")]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(batch)
    }

    /// Removes all keys from `begin` to before `end`, as one write: it costs one entry however many
    /// keys there are, and compaction gives their space back. Where `end` is `begin` there is
    /// nothing to remove; an `end` before it is refused.
    #[doc(alias = "delete_files_in_range")]
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(begin, end);
        self.write(batch)
    }

    /// Writes all of `batch` or nothing.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_opt(batch, Durability::Buffered)
    }

    /// Writes all of `batch` or nothing, as durably as asked.
    #[doc(alias = "WriteOptions")]
    pub fn write_opt(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.inner.commit(batch, durability)
    }

    /// Makes every acknowledged write survive a power loss.
    #[doc(alias = "flush_wal")]
    #[doc(alias = "sync")]
    pub fn persist(&self) -> Result<()> {
        self.inner.check_writable()?;
        self.inner.sync_wals()
    }

    /// The database as it is now, for as long as the snapshot lives.
    pub fn snapshot(&self) -> Snapshot {
        let inner = Arc::clone(&self.inner);
        let sequence = inner.snapshots.register(|| inner.visible.load(Ordering::Acquire));
        Snapshot { inner, sequence }
    }

    /// All entries in key order, from either end.
    pub fn iter(&self) -> DbIterator {
        self.range::<&[u8]>(..)
    }

    /// The entries whose keys lie in `range`, from either end, as of now.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> DbIterator {
        DbIterator::over_range(&self.inner, None, range)
    }

    /// The entries whose keys start with `prefix`, from either end, as of now.
    #[doc(alias = "prefix_iterator")]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        DbIterator::over_prefix(&self.inner, None, prefix.as_ref())
    }

    /// A cursor over all entries as of now: lends keys and values instead of handing them out, so
    /// it copies nothing.
    pub fn cursor(&self) -> DbCursor {
        DbCursor::new(&self.inner, None)
    }

    /// Writes the memtable to a table and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Compacts everything in `range` down to the last level that holds data, and drops what is no
    /// longer visible. Waits for it.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.inner.compact_range(iter::bounds::Bounds::of(range))
    }

    /// Waits until no flush and no compaction is running or asked for.
    #[doc(alias = "WaitForCompact")]
    pub fn wait_for_compaction(&self) -> Result<()> {
        self.inner.wait_for_compaction()
    }

    /// What the database holds and what its filters, cache and files have done so far. `Display`
    /// prints it as a report.
    #[doc(alias = "statistics")]
    #[doc(alias = "tablestats")]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Reads every table whole: checksums, key order, and that no filter misses a key.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.inner.verify()
    }

    /// Adds table files written by [`SstWriter`](crate::SstWriter) or by RocksDB's
    /// `SstFileWriter`, as one write that is newer than all before. The files are linked or
    /// copied; their own sequence numbers must be 0.
    #[doc(alias = "IngestExternalFile")]
    pub fn ingest<P: AsRef<Path>>(&self, files: &[P]) -> Result<()> {
        let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
        self.inner.ingest(&files)
    }

    /// A copy of the database as it is now in the new directory `dir`, which must not exist.
    /// Tables are hard-linked: it costs no space until they are compacted away here.
    #[doc(alias = "backup")]
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.inner.checkpoint(dir.as_ref())
    }
}

/// The database as it was at one moment; see [`Db::snapshot`].
///
/// While it lives, compaction keeps the versions it can see. It does not keep the database open:
/// once that is closed, or the last clone of [`Db`] is dropped, every read through the snapshot
/// answers [`Error::Closed`]: an iterator as its only item, a cursor at each seek. Iterators and
/// cursors that were made before go on.
pub struct Snapshot {
    inner: Arc<Inner>,
    sequence: SequenceNumber,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// As [`Db::get`], at the snapshot.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get(key.as_ref(), Some(self.sequence))
    }

    /// As [`Db::get_with`], at the snapshot.
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner.get_with(key.as_ref(), Some(self.sequence), read)
    }

    /// As [`Db::contains_key`], at the snapshot.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// As [`Db::multi_get`], at the snapshot.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.inner.multi_get(keys, Some(self.sequence))
    }

    /// As [`Db::iter`], at the snapshot.
    pub fn iter(&self) -> DbIterator {
        self.range::<&[u8]>(..)
    }

    /// As [`Db::range`], at the snapshot.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> DbIterator {
        DbIterator::over_range(&self.inner, Some(self.sequence), range)
    }

    /// As [`Db::prefix`], at the snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        DbIterator::over_prefix(&self.inner, Some(self.sequence), prefix.as_ref())
    }

    /// As [`Db::cursor`], at the snapshot.
    pub fn cursor(&self) -> DbCursor {
        DbCursor::new(&self.inner, Some(self.sequence))
    }

    /// The last write that the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner.snapshots.release(self.sequence);
    }
}

/// Sequence numbers must not run out; 2^56 writes are 2,000 years at a million a second.
fn sequence_after(last: SequenceNumber, count: u64) -> Result<SequenceNumber> {
    last.checked_add(count).filter(|&sequence| sequence < MAX_SEQUENCE).ok_or_else(|| {
        Error::InvalidArgument("the sequence numbers of this database are used up".into())
    })
}

//! [`Writing`] holds what writers use: the WALs, the queue of the writers, and what the leader
//! writes to.
//!
//! ```text
//!   field         lock             who changes it
//!   ingesting     mutex            guards no data: an ingestion     maintenance/ingest.rs
//!   writer        CombiningLock    the writer that leads a group    write/mod.rs
//!   pending       mutex            the take-over of the directory   open/writable.rs
//!   sealed_wals   mutex            the leader, and flushes
//! ```
//!
//! Locks are taken in this order.
//!
//! The writer that holds the lock `writer` *leads*: it also does the writes of the threads that
//! wait for this lock. A *sealed* WAL gets no more records. The *take-over* is the part of an
//! opening that makes the directory writable.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tree::Tree;
use super::wals::NeededWals;
use crate::db::iter::marks::Keeper;
use crate::db::open::recover::PendingWritable;
use crate::db::read_state::ReadPoint;
use crate::db::transaction::reads::ReadSet;
use crate::db::write::batch::WriteBatch;
use crate::db::write::durability::Durability;
use crate::db::write::recent::RecentWrites;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::{Error, Result};
use crate::memtable::MemtableWriter;
use crate::stats::Ticker;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{CombiningLock, Leading, Mutex, MutexGuard, lock, rank};
use crate::version::{KeyspaceId, TableStore, names};
use crate::wal::{LogKind, LogVersion, LogWriter};

/// What only the leader of the writers uses (`write/mod.rs`).
pub(crate) struct Writer {
    /// `None`: this process may not write to the directory, or not yet
    /// ([`crate::db::open::writable`]).
    pub wal: Option<LogWriter>,
    pub wal_number: u64,
    pub last_sequence: SequenceNumber,
    /// The sequence number of the last ingestion since the opening; 0 if there was none.
    pub last_ingestion: SequenceNumber,
    /// What was written last, while transactions want to know it.
    pub recent: RecentWrites,
    /// That of keyspace 0.
    pub tree: TreeWriter,
    /// About the bytes of the memtables that take writes, if there are several keyspaces.
    pub memtable_bytes: u64,
    /// Those of the other keyspaces that are open.
    pub others: BTreeMap<KeyspaceId, TreeWriter>,
}

impl TreeWriter {
    /// `memtable`: the writer of the memtable that takes writes.
    pub fn new(tree: &Arc<Tree>, memtable: MemtableWriter) -> TreeWriter {
        let memtable_bytes = tree.options().memtable_bytes;
        TreeWriter { tree: Arc::clone(tree), memtable_bytes, memtable, marks: Keeper::default() }
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.memtable.is_full(self.memtable_bytes)
    }
}

impl Writer {
    /// Like [`Writer::of`], to look at.
    pub fn get(&self, keyspace: KeyspaceId) -> Option<&TreeWriter> {
        match keyspace {
            0 => Some(&self.tree),
            other => self.others.get(&other),
        }
    }

    /// What the leader changes in the tree of a keyspace.
    ///
    /// # Errors
    ///
    /// [`Error::KeyspaceDropped`].
    #[inline(always)]
    pub fn of(&mut self, keyspace: KeyspaceId) -> Result<&mut TreeWriter> {
        match keyspace {
            0 => Ok(&mut self.tree),
            other => self.of_other(other),
        }
    }

    #[cold]
    fn of_other(&mut self, keyspace: KeyspaceId) -> Result<&mut TreeWriter> {
        let tree = self.others.get_mut(&keyspace);
        tree.ok_or_else(|| Error::KeyspaceDropped(format!("number {keyspace}")))
    }
}

/// What the leader changes in one tree.
pub(crate) struct TreeWriter {
    pub tree: Arc<Tree>,
    /// The size at which a memtable is full.
    pub memtable_bytes: usize,
    /// The memtable that takes writes.
    pub memtable: MemtableWriter,
    /// The intervals of keys that cursors jump over, because they show nothing there. Each put cuts
    /// its key out of them.
    pub marks: Keeper,
}

/// The request of one caller.
pub(crate) struct Write {
    pub batch: WriteBatch,
    pub durability: Durability,
    /// Of an update of one key, or of a transaction.
    pub precondition: Option<Arc<Precondition>>,
}

impl Write {
    /// Whether the leader must look at the write before it writes the group.
    #[inline]
    pub fn needs_preparation(&self) -> bool {
        self.precondition.is_some() | self.batch.has_open_end()
    }
}

/// The precondition of a write. The leader checks it and leaves the write out if it does not hold, or
/// if the leader cannot tell. That is no error of the write, because its caller reads or checks again.
pub(crate) struct Precondition {
    pub requires: Requirement,
    failed: AtomicBool,
}

/// What must hold at the moment of the write.
pub(crate) enum Requirement {
    /// Nothing has changed the key of the batch, which has one operation, since this read.
    UnchangedKey(ReadPoint),
    /// No write after `checked_to` has changed what a transaction has read (`transaction/`).
    UnchangedReads { reads: Arc<Vec<(KeyspaceId, ReadSet)>>, checked_to: SequenceNumber },
}

impl Precondition {
    pub fn new(requires: Requirement) -> Precondition {
        Precondition { requires, failed: AtomicBool::new(false) }
    }

    /// Called by the leader. The answer to the write orders this before the call of
    /// [`Precondition::has_failed`].
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Guards what only the leader uses, and queues the writes that wait for a leader.
type WriterLock = CombiningLock<Writer, Write>;
/// Keeps ingestions out.
pub(crate) type IngestionsGuard<'a> = MutexGuard<'a, (), rank::Ingesting>;
pub(crate) type LeadingWriter<'a> = Leading<'a, Writer, Write>;

struct SealedWals {
    /// WALs that get no more records, oldest first. A WAL leaves the list once it is synced, or
    /// once tables hold all of its writes.
    logs: Vec<(u64, LogWriter)>,
    /// The newest WAL whose name is durable.
    named: u64,
}

impl SealedWals {
    /// No sealed WALs yet. `named`: the writer's WAL, whose name is already durable.
    fn none(named: u64) -> SealedWals {
        SealedWals { logs: Vec::new(), named }
    }

    /// Makes the sealed WALs durable, oldest first, and their names. Returns them, each as its number
    /// and its durable bytes. `newest`: the newest WAL that there is.
    fn sync(&mut self, newest: u64, store: &TableStore) -> Result<Vec<(u64, u64)>> {
        let mut synced = Vec::new();
        for (number, log) in &mut self.logs {
            log.sync()?;
            synced.push((*number, log.synced_to()));
        }
        self.logs.clear();
        if self.named < newest {
            store.fs.sync_dir(&store.dir)?;
            self.named = newest;
        }
        Ok(synced)
    }
}

/// See the module.
pub(crate) struct Writing {
    writer: WriterLock,
    sealed_wals: Mutex<SealedWals, rank::SealedWals>,
    /// The take-over of the directory (`open/writable.rs`), if it waits for space on the disk;
    /// otherwise `None`.
    pending: Mutex<Option<PendingWritable>, rank::PendingTakeOver>,
    /// How many transactions want the leaders to note what they write.
    recent_wanted: AtomicUsize,
    /// An ingestion holds this lock while it enters the tree. Other threads lock it to keep
    /// ingestions out. Locked before the writer.
    ingesting: Mutex<(), rank::Ingesting>,
}

impl Writing {
    /// The name of the writer's WAL, if there is one, must already be durable.
    pub fn new(writer: Writer, pending: Option<PendingWritable>) -> Writing {
        let sealed_wals = SealedWals::none(writer.wal_number);
        Writing {
            writer: CombiningLock::new(writer),
            sealed_wals: Mutex::new(sealed_wals),
            pending: Mutex::new(pending),
            recent_wanted: AtomicUsize::new(0),
            ingesting: Mutex::default(),
        }
    }

    /// Waits until no other writer leads. Then the caller leads, until it drops the returned value.
    pub fn lead(&self) -> LeadingWriter<'_> {
        self.writer.lock()
    }

    #[inline(always)]
    pub fn try_lead(&self) -> Option<LeadingWriter<'_>> {
        self.writer.try_lead()
    }

    /// Queues a write, waits until a leader has done it, and returns the write's result. If this
    /// thread gets the lock before that, it is the leader and calls `lead`.
    pub fn submit(&self, write: Write, lead: impl FnMut(&mut LeadingWriter<'_>)) -> Result<()> {
        self.writer.submit(write, lead)
    }

    /// Lets the leaders note what they write ([`RecentWrites`]), until [`Writing::release_recent`] is
    /// called as often as this.
    pub fn want_recent(&self) {
        self.recent_wanted.fetch_add(1, Ordering::Relaxed);
    }

    pub fn release_recent(&self) {
        self.recent_wanted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a transaction wants the leaders to note what they write. A leader may see an older answer:
    /// then the list lacks its group, and says so.
    #[inline]
    pub fn is_recent_wanted(&self) -> bool {
        self.recent_wanted.load(Ordering::Relaxed) > 0
    }

    /// Keeps ingestions out of the tree until the returned guard is dropped.
    pub fn lock_ingestions(&self) -> IngestionsGuard<'_> {
        lock(&self.ingesting)
    }

    /// Seals the WAL. The next write goes to a new WAL, and to the same memtables. `wals` gets the new
    /// WAL.
    pub fn next_wal(
        &self,
        writer: &mut Writer,
        store: &TableStore,
        wals: &NeededWals,
        version: LogVersion,
    ) -> Result<()> {
        let number = store.new_number()?;
        let path = names::wal_path(&store.dir, number);
        let wal = LogWriter::create_in_version(&*store.fs, &path, LogKind::Wal, number, version)?;
        let mut sealed = lock(&self.sealed_wals);
        let mut sealed_bytes = 0;
        if let Some(old) = writer.wal.replace(wal) {
            sealed_bytes = old.len();
            sealed.logs.push((writer.wal_number, old));
        }
        wals.push(number, writer.last_sequence + 1, sealed_bytes);
        writer.wal_number = number;
        Ok(())
    }

    /// Makes all WALs durable that get no more records, oldest first, and so every write up to the
    /// newest one of any frozen memtable. Does not need the leader. Returns the WALs that the MANIFEST
    /// is to list, each as its number and its durable bytes.
    pub fn sync_sealed(&self, store: &TableStore) -> Result<Vec<(u64, u64)>> {
        let mut sealed = lock(&self.sealed_wals);
        let Some(newest) = sealed.logs.last().map(|(number, _)| *number) else {
            return Ok(Vec::new());
        };
        let synced = sealed.sync(newest, store)?;
        store.context.counters.add(Ticker::WalFileSynced, 1);
        Ok(synced)
    }

    /// Makes all WALs durable, oldest first. Returns those that the MANIFEST is to list, each as
    /// its number and its durable bytes: the sealed ones, and the current one if this is its first
    /// sync.
    pub fn sync_logs(&self, writer: &mut Writer, store: &TableStore) -> Result<Vec<(u64, u64)>> {
        let Some(wal) = &mut writer.wal else { return Err(Error::OpenedReadOnly) };
        let mut sealed = lock(&self.sealed_wals);
        if sealed.logs.is_empty() && wal.is_empty() {
            return Ok(Vec::new());
        }
        let mut first = sealed.sync(writer.wal_number, store)?;
        drop(sealed);
        store.context.counters.add(Ticker::WalFileSynced, 1);
        let is_first = wal.synced_to() == 0;
        wal.sync()?;
        if is_first {
            first.push((writer.wal_number, wal.synced_to()));
        }
        Ok(first)
    }

    /// Syncs the directory, so that the names of its files are durable, including the names of all
    /// WALs so far.
    pub fn sync_names(&self, store: &TableStore) -> Result<()> {
        let wal_number = self.lead().wal_number;
        store.fs.sync_dir(&store.dir)?;
        let mut sealed = lock(&self.sealed_wals);
        sealed.named = sealed.named.max(wal_number);
        Ok(())
    }

    /// Closes the WALs with smaller numbers than `oldest_needed`, because tables hold all of their
    /// writes.
    pub fn drop_wals_before(&self, oldest_needed: u64) {
        lock(&self.sealed_wals).logs.retain(|&(number, _)| number >= oldest_needed);
    }

    /// Locks the take-over of the directory (`open/writable.rs`), which is `None` unless it waits
    /// for space on the disk. Locked after the writer.
    pub fn pending(&self) -> MutexGuard<'_, Option<PendingWritable>, rank::PendingTakeOver> {
        lock(&self.pending)
    }

    /// The error because of which the take-over waits for space; `None` if it does not wait.
    pub fn missing_space(&self) -> Option<Error> {
        self.pending().as_ref().map(|pending| pending.error.clone())
    }

    /// Called after the take-over of the directory: sets the WAL that it has made, whose name is
    /// durable.
    pub fn take_over(&self, writer: &mut Writer, wal: (u64, LogWriter)) {
        let (number, wal) = wal;
        writer.wal = Some(wal);
        writer.wal_number = number;
        *lock(&self.sealed_wals) = SealedWals::none(number);
    }

    /// Drops the WALs. The closing of the database calls this, because a snapshot that outlives the
    /// closing keeps this value alive, so the WALs would otherwise be dropped only with the
    /// snapshot. The drop of a WAL that is written through a mapping of its file truncates the file
    /// to the bytes written. By then the next owner of the directory may be reading this file.
    pub fn drop_wals(&self) {
        self.lead().wal = None;
        lock(&self.sealed_wals).logs.clear();
    }
}

/// The sequence number of the last of `count` writes after `last`. Fails if no number is left: 2^56
/// writes take 2,000 years at a million a second.
pub(crate) fn sequence_after(last: SequenceNumber, count: u64) -> Result<SequenceNumber> {
    last.checked_add(count).filter(|&sequence| sequence < MAX_SEQUENCE).ok_or_else(|| {
        Error::InvalidArgument("the sequence numbers of this database are used up".into())
    })
}

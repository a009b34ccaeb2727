//! The take-over: the steps of an opening after which this process may write to the directory.
//!
//! ```text
//!   LOCK ─► what the directory holds (directory.rs, recover.rs)
//!        ─► many bytes in WALs:  write them to tables
//!           few bytes in WALs:   write them to a recovered WAL, and sync that
//!        ─► new WAL ─► new MANIFEST, which lists all of this; CURRENT names it
//!        ─► delete the files that the new MANIFEST does not list
//! ```
//!
//! A *recovered WAL* is a new WAL with the records of the old WALs. It is written where the records
//! have few bytes, so that a database that is often opened for a few writes does not get a table
//! each time.
//!
//! **A crash at any point** leaves the old state or the new one. Until `CURRENT` names the new
//! MANIFEST, the old MANIFEST and the old WALs count. The old MANIFEST lists neither the new tables
//! nor the recovered WAL. Once `CURRENT` names the new MANIFEST, the old WALs are obsolete,
//! including their torn tails and gaps.
//!
//! Rejected: to keep the old WALs. After a failed sync in an earlier process, a WAL may look whole in
//! the system's cache, and a second sync would succeed without writing anything.
//!
//! **Without space** for these steps, an existing database still opens for reading, with the
//! entries of the WALs in memory. Each write then tries the steps again
//! ([`take_over`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::directory::{Directory, OpenTables, no_database, table_store};
use super::recover::{Origin, PendingWritable, Replay, Replayed};
use crate::compaction::Unavailable;
use crate::db::asked;
use crate::db::inner::Inner;
use crate::db::inner::catalog::Catalog;
use crate::db::inner::database::{Database, DirectoryLock};
use crate::db::inner::jobs::Jobs;
use crate::db::inner::progress::{Progress, whole_tree};
use crate::db::inner::reading::Reading;
use crate::db::inner::sequences::Sequences;
use crate::db::inner::status::Status;
use crate::db::inner::tree::Tree;
use crate::db::inner::tree_state::{Frozen, TreeState};
use crate::db::inner::writing::{TreeWriter, Writer, Writing};
use crate::db::iter::marks::Keeper;
use crate::db::options::{Builder, TreeOptions};
use crate::db::stats::published::Publishing;
use crate::db::write::recent::RecentWrites;
use crate::db::write::write_stall::Pressure;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::fs;
use crate::fs::{FileLock, Fs};
use crate::memtable::Memtable;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::version::{Manifest, TableStore, Version, names};
use crate::wal::{LogKind, LogWriter};

/// What a take-over makes.
struct TakenOver {
    wal: LogWriter,
    wal_number: u64,
    manifest: Manifest,
    progress: Progress,
}

impl TakenOver {
    /// The numbers of the WALs that are not obsolete, oldest first: the recovered WAL, if there is
    /// one, and the new one.
    fn wals(&self) -> Vec<u64> {
        self.progress.durable_wals.keys().copied().chain([self.wal_number]).collect()
    }
}

pub(crate) fn open(options: Builder) -> Result<Inner> {
    let dir = options.path.clone();
    prepare_directory(&*options.fs, &dir, options.create_if_missing)?;
    let options = options.anchored()?;
    let fs = Arc::clone(&options.fs);
    let file_lock = fs.lock(&names::lock_path(&dir))?;
    let directory = Directory::read(&*fs, &dir)?;
    directory.refuse_lost_current(&*fs, &dir)?;
    let store = table_store(&options, &directory, false);
    let (mut replayed, _) =
        Replay::run(&store, &options, &directory, &mut OpenTables::new(), true)?;
    let taken =
        match open_writable(&store, &options.tree, options.manifest_roll_bytes, &[], &mut replayed)
        {
            Ok(taken) => Ok(taken),
            Err(error) if error.is_out_of_space() && directory.recovered.is_some() => Err(error),
            Err(error) => return Err(error),
        };
    Ok(assemble(options, store, replayed, taken.map_err(Some), Some(file_lock)))
}

/// Assembles a database that is opened read-only: nothing is written, no lock is taken.
pub(crate) fn only_read(options: Builder, store: TableStore, replayed: Replayed) -> Inner {
    assemble(options, store, replayed, Err(None), None)
}

/// Puts the parts of the database together. `taken` is `Err(Some(error))` where the take-over must
/// wait for space, and `Err(None)` where the database is opened read-only.
fn assemble(
    options: Builder,
    store: TableStore,
    replayed: Replayed,
    taken: Result<TakenOver, Option<Error>>,
    lock: Option<Box<dyn FileLock>>,
) -> Inner {
    let last_sequence = replayed.last_sequence;
    let version = Arc::clone(&replayed.version);
    let frozen: VecDeque<Frozen> = replayed
        .full
        .iter()
        .map(|memtable| Frozen { memtable: Arc::clone(memtable), next_wal: 0 })
        .collect();
    let (memtable, waits) = (Arc::clone(&replayed.memtable), taken.is_err());
    let is_read_only = matches!(taken, Err(None));
    let (taken, writing, pending) = match taken {
        Ok(taken) => (Some(taken), replayed.writer, None),
        Err(reason) => {
            // No write is possible before the take-over, so until then the database has the writer
            // of an unused memtable. The writer of the replayed memtable stays in `replayed`.
            let (_, nowhere) = Memtable::new(options.tree.memtable_bytes);
            match reason {
                Some(error) => (None, nowhere, Some(PendingWritable { replayed, error })),
                None => (None, nowhere, None),
            }
        }
    };
    let wals = taken.as_ref().map_or(Vec::new(), TakenOver::wals);
    let (wal, wal_number, manifest, progress) = match taken {
        Some(TakenOver { wal, wal_number, manifest, progress }) => {
            (Some(wal), wal_number, Some(manifest), progress)
        }
        None => (None, 0, None, Progress::default()),
    };
    let state = TreeState {
        memtable,
        frozen,
        pressure: Pressure::of_tree(&version, &options.tree.shape, &Unavailable::default()),
        version,
        unavailable: Unavailable::default(),
        flushing: false,
        compactions: 0,
        merging_bytes: 0,
        idle_threads: options.compaction_threads,
        settlers: 0,
        is_idle: false,
        deletion_hits: Default::default(),
        manual: false,
        claimed: None,
        waits_for_space: waits,
        work: Default::default(),
    };
    // Only the holder of the lock may write `STATS`, the file with the published counters.
    let publishing = lock.as_ref().and(options.publish_interval).map(Publishing::new);
    if lock.is_some() && options.tree.filter.learns() {
        asked::restore(&*store.fs, &store.dir, &state.version);
    }
    let sequences = Arc::new(Sequences::new(last_sequence));
    let reading = Reading::new(&store, &state, &sequences);
    let writer = Writer {
        wal,
        wal_number,
        last_sequence,
        last_ingestion: 0,
        recent: RecentWrites::default(),
        owed_wait: Duration::ZERO,
        tree: TreeWriter { memtable: writing, marks: Keeper::default() },
    };
    let database = Database {
        status: Status::new(is_read_only),
        store,
        sequences,
        writing: Writing::new(writer, wals, pending),
        catalog: Catalog::new(manifest, progress),
        jobs: Jobs::default(),
        starts_jobs: AtomicBool::new(false),
        durability: options.durability,
        publishing,
        manifest_roll_bytes: options.manifest_roll_bytes,
        directory: DirectoryLock::new(lock),
    };
    Inner::new(Tree::new(options.tree, state, reading), database)
}

/// Does the steps of a take-over after the replay: makes the replayed writes durable in tables or
/// in a recovered WAL, and starts a WAL and a MANIFEST. If the disk has no space, it may be called
/// again later.
fn open_writable(
    store: &TableStore,
    options: &TreeOptions,
    roll_after: u64,
    snapshots: &[SequenceNumber],
    replayed: &mut Replayed,
) -> Result<TakenOver> {
    if replayed.origin.is_too_much() {
        replayed.freeze(options.memtable_bytes);
    }
    replayed.flush_full(store, &options.filter, snapshots)?;
    let mut new = Vec::new();
    let taken = start_logs(store, roll_after, replayed, &mut new);
    if taken.as_ref().is_err_and(Error::is_out_of_space) {
        // No MANIFEST lists these logs. The next successful take-over deletes those that cannot be
        // removed now.
        new.iter().for_each(|path| store.remove_obsolete(path));
    }
    taken
}

/// Creates the WALs and the MANIFEST for [`open_writable`]. `new` gets the paths of new WALs.
fn start_logs(
    store: &TableStore,
    roll_after: u64,
    replayed: &Replayed,
    new: &mut Vec<PathBuf>,
) -> Result<TakenOver> {
    let recovered_wal = recovered_wal(store, &replayed.origin, new)?;
    let wal_number = store.new_number();
    let wal_path = names::wal_path(&store.dir, wal_number);
    let wal = LogWriter::create(&*store.fs, &wal_path, LogKind::Wal, wal_number)?;
    new.push(wal_path);
    let progress = Progress {
        flushed_sequence: replayed.flushed_sequence,
        oldest_wal: recovered_wal.map_or(wal_number, |(number, _)| number),
        durable_wals: BTreeMap::from_iter(recovered_wal),
        skipped: replayed.skipped.clone(),
    }
    .settled();
    let number = store.new_number();
    let tree = whole_tree(store, &replayed.version, &progress, number + 1);
    let manifest = Manifest::create(&store.fs, &store.dir, number, &tree, roll_after)?;
    remove_unlisted(store, &replayed.version, progress.oldest_wal, number);
    Ok(TakenOver { wal, wal_number, manifest, progress })
}

/// Returns the recovered WAL, which holds the records of `origin`, as its number and its durable
/// bytes; `None` if there are no records. Writes this WAL, unless an earlier opening has written
/// it. The name of a new WAL becomes durable with the MANIFEST that lists it.
fn recovered_wal(
    store: &TableStore,
    origin: &Origin,
    new: &mut Vec<PathBuf>,
) -> Result<Option<(u64, u64)>> {
    if origin.recovered_wal.is_some() || origin.records.is_empty() {
        return Ok(origin.recovered_wal);
    }
    let number = store.new_number();
    let path = names::wal_path(&store.dir, number);
    let mut wal = LogWriter::create(&*store.fs, &path, LogKind::RecoveredWal, number)?;
    new.push(path);
    origin.records.iter().try_for_each(|record| wal.append(&[record]).map(drop))?;
    wal.sync()?;
    Ok(Some((number, wal.synced_to())))
}

/// Deletes what a crash left behind: files of this database that the new MANIFEST does not list. A
/// file that cannot be deleted stays until the next opening.
fn remove_unlisted(store: &TableStore, version: &Version, oldest_wal: u64, manifest: u64) {
    let listed: BTreeSet<u64> = version.files().map(|(_, file)| file.meta.number).collect();
    let most = store.next_file.load(Ordering::Relaxed);
    for name in fs::names_in(&*store.fs, &store.dir).unwrap_or_default() {
        let keep = match names::parse(&name) {
            None => true,
            // No file of this database ever had such a number, so the file is not ours.
            Some(kind) if kind.number() > Some(most) => true,
            Some(names::FileKind::Table(number)) => listed.contains(&number),
            Some(names::FileKind::Wal(number)) => number >= oldest_wal,
            Some(names::FileKind::Manifest(number)) => number >= manifest,
            Some(names::FileKind::Temporary) => false,
        };
        if !keep {
            store.remove_obsolete(&store.dir.join(name));
        }
    }
}

fn prepare_directory(fs: &dyn Fs, dir: &Path, create: bool) -> Result<()> {
    if create {
        return fs::create_dir_durably(fs, dir);
    }
    match fs.exists(&names::current_path(dir))? {
        true => Ok(()),
        false => Err(no_database(dir)),
    }
}

/// Takes the directory over if the opening could not do so, and changes the tree to what the
/// take-over has made. If the disk still has no space, the call may be repeated. After another error
/// the caller makes the database read-only.
pub(crate) fn take_over(database: &Database, tree: &Tree, writer: &mut Writer) -> Result<()> {
    let mut pending = database.writing.pending();
    let Some(PendingWritable { replayed, error }) = &mut *pending else { return Ok(()) };
    let snapshots = database.sequences.snapshots.sequences();
    let roll_after = database.manifest_roll_bytes;
    let taken = open_writable(&database.store, &tree.options, roll_after, &snapshots, replayed);
    let taken = taken.inspect_err(|again| {
        if again.is_out_of_space() {
            *error = again.clone();
        }
    })?;
    let Some(PendingWritable { replayed, .. }) = pending.take() else { return Ok(()) };
    let wals = taken.wals();
    let wal = (taken.wal_number, taken.wal);
    database.writing.take_over(writer, wal, wals, replayed.writer);
    database.catalog.take_over(taken.manifest, taken.progress);
    let mut state = tree.lock();
    state.version = replayed.version;
    state.memtable = replayed.memtable;
    state.frozen.clear();
    state.waits_for_space = false;
    tree.publish(&mut state);
    Ok(())
}

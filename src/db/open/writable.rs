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

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{Directory, OpenTables, no_database, table_store};
use super::recover::{Origin, PendingWritable, Replay, Replayed, ReplayedTree};
use crate::db::asked;
use crate::db::inner::Inner;
use crate::db::inner::catalog::Catalog;
use crate::db::inner::database::{Database, DirectoryLock, next_database_number};
use crate::db::inner::jobs::Jobs;
use crate::db::inner::progress::{Progress, tables_of, whole_database};
use crate::db::inner::reading::Reading;
use crate::db::inner::sequences::Sequences;
use crate::db::inner::status::Status;
use crate::db::inner::tree::Tree;
use crate::db::inner::tree_state::{Frozen, TreeState};
use crate::db::inner::trees::Trees;
use crate::db::inner::wals::{NeededWal, NeededWals};
use crate::db::inner::writing::{TreeWriter, Writer, Writing};
use crate::db::options::Builder;
use crate::db::stats::published::Publishing;
use crate::db::write::recent::RecentWrites;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::fs;
use crate::fs::{FileLock, Fs};
use crate::memtable::Memtable;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::version::{KeyspaceId, KeyspaceRecord, Manifest, RecoveredKeyspace, TableStore, names};
use crate::wal::{LogKind, LogVersion, LogWriter};

/// What a take-over makes.
struct TakenOver {
    wal: LogWriter,
    wal_number: u64,
    manifest: Manifest,
    progress: Progress,
    /// The WALs that are not obsolete, oldest first: the recovered WAL, if there is one, and the new
    /// one.
    wals: Vec<NeededWal>,
}

/// What does not change while the opening is tried.
struct Opening<'a> {
    store: &'a TableStore,
    roll_after: u64,
    /// Sequence numbers that snapshots hold, ascending.
    snapshots: &'a [SequenceNumber],
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
    let roll_after = options.manifest_roll_bytes;
    let opening = Opening { store: &store, roll_after, snapshots: &[] };
    let keyspaces = replayed.records();
    let taken = match opening.open_writable(&mut replayed, keyspaces) {
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
    mut replayed: Replayed,
    taken: Result<TakenOver, Option<Error>>,
    lock: Option<Box<dyn FileLock>>,
) -> Inner {
    let last_sequence = replayed.last_sequence;
    let sequences = Arc::new(Sequences::new(last_sequence));
    let waits_for_space = taken.is_err();
    let tree = |id, it: &ReplayedTree| {
        let frozen = it.full.iter().map(|it| Frozen { memtable: Arc::clone(it) });
        let state = TreeState {
            frozen: frozen.collect(),
            waits_for_space,
            ..TreeState::new(Arc::clone(&it.memtable), Arc::clone(&it.version), &it.options)
        };
        let reading = Reading::new(&store, &state, &sequences);
        Arc::new(Tree::new(id, &it.name, it.options.clone(), state, reading))
    };
    let trees_and_writers: Vec<_> = match waits_for_space {
        false => {
            let trees = std::mem::take(&mut replayed.trees).into_iter();
            trees.map(|(id, it)| (tree(id, &it), it.writer)).collect()
        }
        // No write is possible before the take-over, so until then the database has the writers of
        // unused memtables. The others stay in `replayed`.
        true => {
            let unused = |it: &ReplayedTree| Memtable::new(it.options.memtable_bytes).1;
            replayed.trees.iter().map(|(&id, it)| (tree(id, it), unused(it))).collect()
        }
    };
    let (trees, writers): (Vec<_>, Vec<_>) = trees_and_writers.into_iter().unzip();
    if lock.is_some() {
        asked::restore(&*store.fs, &store.dir, &trees);
    }
    let (keyspaces, next_keyspace) = (replayed.keyspaces.clone(), replayed.next_keyspace);
    let is_read_only = matches!(taken, Err(None));
    let mut writers: BTreeMap<_, _> = trees
        .iter()
        .zip(writers)
        .map(|(tree, writer)| (tree.id, TreeWriter::new(tree, writer)))
        .collect();
    let (taken, pending) = match taken {
        Ok(taken) => (Some(taken), None),
        Err(Some(error)) => (None, Some(PendingWritable { replayed, error })),
        Err(None) => (None, None),
    };
    let (wal, wal_number, manifest, progress, wals) = match taken {
        Some(TakenOver { wal, wal_number, manifest, progress, wals }) => {
            (Some(wal), wal_number, Some(manifest), progress, wals)
        }
        None => (None, 0, None, Progress::default(), Vec::new()),
    };
    // Only the holder of the lock may write `STATS`, the file with the published counters.
    let publishing = lock.as_ref().and(options.publish_interval).map(Publishing::new);
    let default = Arc::clone(&trees[0]);
    let writer = Writer {
        wal,
        wal_number,
        last_sequence,
        last_ingestion: 0,
        recent: RecentWrites::default(),
        tree: writers.remove(&0).expect("keyspace 0 has a tree"),
        memtable_bytes: 0,
        others: writers,
    };
    let database = Database {
        number: next_database_number(),
        trees: Trees::new(Arc::clone(&default), keyspaces, next_keyspace, trees),
        status: Status::new(is_read_only),
        store,
        sequences,
        writing: Writing::new(writer, pending),
        wals: NeededWals::new(wals),
        catalog: Catalog::new(manifest, progress),
        frozen_bytes: AtomicU64::new(0),
        flush_failed: AtomicBool::new(false),
        jobs: Jobs::new(options.compaction_threads),
        starts_jobs: AtomicBool::new(false),
        durability: options.durability,
        publishing,
        options,
        directory: DirectoryLock::new(lock),
    };
    Inner { tree: default, database: Arc::new(database) }
}

impl Replayed {
    /// The keyspaces other than 0, as a MANIFEST lists them, and the number of the next new one.
    fn records(&self) -> (Vec<KeyspaceRecord>, Option<KeyspaceId>) {
        let record = |(&id, known): (&KeyspaceId, &RecoveredKeyspace)| {
            let RecoveredKeyspace { name, options } = known;
            KeyspaceRecord { id, name: name.to_vec(), options: options.to_string() }
        };
        let next = (self.next_keyspace > 0).then_some(self.next_keyspace);
        (self.keyspaces.iter().map(record).collect(), next)
    }
}

impl Opening<'_> {
    /// Does the steps of a take-over after the replay: makes the replayed writes durable in tables or
    /// in a recovered WAL, and starts a WAL and a MANIFEST. If the disk has no space, it may be called
    /// again later.
    fn open_writable(
        &self,
        replayed: &mut Replayed,
        keyspaces: (Vec<KeyspaceRecord>, Option<KeyspaceId>),
    ) -> Result<TakenOver> {
        if replayed.origin.is_too_much() {
            replayed.freeze_all();
        }
        replayed.flush_full(self.store, self.snapshots)?;
        let mut new = Vec::new();
        let taken = self.start_logs(replayed, keyspaces, &mut new);
        if taken.as_ref().is_err_and(Error::is_out_of_space) {
            // No MANIFEST lists these logs. The next successful take-over deletes those that cannot
            // be removed now.
            new.iter().for_each(|path| self.store.remove_obsolete(path));
        }
        taken
    }

    /// Creates the WALs and the MANIFEST for [`Opening::open_writable`]. `new` gets the paths of new
    /// WALs.
    fn start_logs(
        &self,
        replayed: &Replayed,
        keyspaces: (Vec<KeyspaceRecord>, Option<KeyspaceId>),
        new: &mut Vec<PathBuf>,
    ) -> Result<TakenOver> {
        let store = self.store;
        // The records may name dropped keyspaces.
        let version = match keyspaces.1 {
            None => LogVersion::OneKeyspace,
            Some(_) => LogVersion::WithKeyspaces,
        };
        let origin = &replayed.origin;
        let recovered_wal = recovered_wal(store, origin, version, new)?;
        let wal_number = store.new_number()?;
        let wal_path = names::wal_path(&store.dir, wal_number);
        let wal =
            LogWriter::create_in_version(&*store.fs, &wal_path, LogKind::Wal, wal_number, version)?;
        new.push(wal_path);
        let flushed = replayed.trees.iter().map(|(&id, tree)| (id, tree.flushed));
        let progress = Progress {
            flushed_sequence: match recovered_wal {
                Some(_) => origin.before,
                None => replayed.last_sequence,
            },
            oldest_wal: recovered_wal.map_or(wal_number, |(number, _)| number),
            durable_wals: BTreeMap::from_iter(recovered_wal),
            skipped: replayed.skipped.clone(),
            flushed: flushed.collect(),
        }
        .settled();
        let recovered = recovered_wal.map(|(number, bytes)| NeededWal {
            number,
            first: progress.flushed_sequence + 1,
            bytes,
        });
        let newest = NeededWal { number: wal_number, first: replayed.last_sequence + 1, bytes: 0 };
        let number = store.new_number()?;
        let tables = replayed.trees.iter().flat_map(|(&id, tree)| tables_of(id, &tree.version));
        let tables: Vec<_> = tables.collect();
        let listed = tables.iter().map(|(_, file)| file.number).collect();
        let whole = whole_database(store, tables, keyspaces, &progress, number + 1);
        let manifest = Manifest::create(&store.fs, &store.dir, number, &whole, self.roll_after)?;
        remove_unlisted(store, &listed, progress.oldest_wal, number);
        let wals = recovered.into_iter().chain([newest]).collect();
        Ok(TakenOver { wal, wal_number, manifest, progress, wals })
    }
}

/// Returns the recovered WAL, which holds the records of `origin`, as its number and its durable
/// bytes; `None` if there are no records. Writes this WAL, unless an earlier opening has written
/// it. The name of a new WAL becomes durable with the MANIFEST that lists it.
fn recovered_wal(
    store: &TableStore,
    origin: &Origin,
    version: LogVersion,
    new: &mut Vec<PathBuf>,
) -> Result<Option<(u64, u64)>> {
    if origin.recovered_wal.is_some() || origin.records.is_empty() {
        return Ok(origin.recovered_wal);
    }
    let number = store.new_number()?;
    let path = names::wal_path(&store.dir, number);
    let kind = LogKind::RecoveredWal;
    let mut wal = LogWriter::create_in_version(&*store.fs, &path, kind, number, version)?;
    new.push(path);
    origin.records.iter().try_for_each(|record| wal.append(&[record]).map(drop))?;
    wal.sync()?;
    Ok(Some((number, wal.synced_to())))
}

/// Deletes what a crash left behind: files of this database that the new MANIFEST does not list. A
/// file that cannot be deleted stays until the next opening. `listed`: the numbers of its tables.
fn remove_unlisted(store: &TableStore, listed: &BTreeSet<u64>, oldest_wal: u64, manifest: u64) {
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

/// Takes the directory over if the opening could not do so, and changes the trees to what the
/// take-over has made. If the disk still has no space, the call may be repeated. After another error
/// the caller makes the database read-only.
pub(crate) fn take_over(database: &Database, writer: &mut Writer) -> Result<()> {
    let mut pending = database.writing.pending();
    let Some(PendingWritable { replayed, error }) = &mut *pending else { return Ok(()) };
    let snapshots = &database.sequences.snapshots.sequences();
    let roll_after = database.options.manifest_roll_bytes;
    let opening = Opening { store: &database.store, roll_after, snapshots };
    let taken = opening.open_writable(replayed, database.trees.records());
    let taken = taken.inspect_err(|again| {
        if again.is_out_of_space() {
            *error = again.clone();
        }
    })?;
    let Some(PendingWritable { mut replayed, .. }) = pending.take() else { return Ok(()) };
    database.writing.take_over(writer, (taken.wal_number, taken.wal));
    database.wals.replace(taken.wals);
    database.catalog.take_over(taken.manifest, taken.progress);
    for tree in database.trees.all() {
        let mut state = tree.lock();
        state.waits_for_space = false;
        if let Some(replayed) = replayed.trees.remove(&tree.id) {
            writer.of(tree.id)?.memtable = replayed.writer;
            state.version = replayed.version;
            state.memtable = replayed.memtable;
            state.frozen.clear();
        }
        tree.publish(&mut state);
    }
    Ok(())
}

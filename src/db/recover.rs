//! Opening: from the files of a directory to a database, after a clean close or a crash.
//!
//! ```text
//!   LOCK ─► CURRENT ─► MANIFEST ─► open the tables it lists ─► replay the WALs it does not cover
//!        ─► write what they held to tables ─► new WAL, new MANIFEST ─► delete what nobody lists
//! ```
//!
//! The WALs are replayed in order of their numbers, and sequence numbers must follow each other
//! without a gap, within a WAL and from one to the next. Where they stop following, or a record is
//! torn, the rest was never promised to survive a power loss, and is dropped; a synced record in
//! that rest proves the opposite, so then the file is damaged and named.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use super::background::whole_tree;
use super::batch::parse_record;
use super::brake::{Pressure, WriteBrake, write_brake};
use super::builder::{Builder, CacheChoice};
use super::snapshot::SnapshotList;
use super::write::{SealedWals, Writer};
use super::{Inner, Progress, State};
use crate::cache::BlockCache;
use crate::compaction::pick::Held;
use crate::error::{Damage, Error, Result};
use crate::flush;
use crate::fs::{self, Fs};
use crate::key::SequenceNumber;
use crate::memtable::Memtable;
use crate::policy::FilterContext;
use crate::stats::Counters;
use crate::sync::ArcCell;
use crate::table::{TableContext, TableOptions};
use crate::version::{Manifest, Recovered, TableStore, Version, VersionEdit, names, read_current};
use crate::wal::{LogKind, LogReader, LogWriter};

pub(super) fn recover(options: Builder) -> Result<Inner> {
    let fs = Arc::clone(&options.fs);
    let dir = options.path.clone();
    prepare_directory(&*fs, &dir, options.create_if_missing)?;
    let lock = fs.lock(&names::lock_path(&dir))?;
    let recovered = read_current(&*fs, &dir)?;
    let files = list(&*fs, &dir)?;
    if recovered.is_none() {
        refuse_lost_current(&files, &dir, options.create_if_missing)?;
    }
    let Recovered { next_file, flushed_sequence, oldest_wal, files: tables, .. } =
        recovered.unwrap_or_default();

    let cache = match &options.cache {
        CacheChoice::Own(bytes) => BlockCache::new(*bytes),
        CacheChoice::Shared(cache) => Arc::clone(cache),
    };
    let counters = Arc::new(Counters::new());
    // Files that a crash left behind may have higher numbers than the MANIFEST knows.
    let next_file = files.iter().map(|(number, _)| number + 1).fold(next_file.max(1), u64::max);
    let store = TableStore {
        fs: Arc::clone(&fs),
        dir: dir.clone(),
        context: TableContext {
            cache,
            counters: Arc::clone(&counters),
            pin_metadata: false,
            assigned_sequence: None,
        },
        pin_metadata: options.pin_metadata,
        options: TableOptions {
            block_bytes: options.block_bytes,
            filter_keys: options.filter_keys,
            compression: options.compression,
            ..TableOptions::default()
        },
        next_file: AtomicU64::new(next_file),
        departed: Arc::default(),
    };

    let mut version = Version::default();
    let mut edit = VersionEdit::default();
    let mut opened = std::collections::HashMap::new();
    for (number, (level, meta)) in tables {
        opened.insert(number, store.open(meta.clone(), level)?);
        edit.added.push((level, meta));
    }
    version = version.apply(&edit, &opened);

    let mut replay = Replay { store: &store, options: &options, version, flushed_sequence };
    let last_sequence = replay.run(&files, oldest_wal)?;
    let version = Arc::new(replay.version);

    let wal_number = store.new_number();
    let wal_path = names::wal_path(&dir, wal_number);
    let wal = LogWriter::create(&*fs, &wal_path, LogKind::Wal, wal_number)?;
    let manifest_number = store.new_number();
    let tree = whole_tree(&version, last_sequence, wal_number, manifest_number + 1);
    let manifest = Manifest::create(&fs, &dir, manifest_number, &tree)?;
    remove_unlisted(&*fs, &dir, &version, wal_number, manifest_number)?;

    let (memtable, writing) = Memtable::new(options.memtable_bytes);
    let state = State {
        memtable,
        frozen: VecDeque::new(),
        pressure: Pressure::of_tree(&version, &options.shape, &Held::default()),
        version,
        held: Held::default(),
        flushing: false,
        compactions: 0,
        idle_threads: options.compaction_threads,
        manual: false,
        work: Default::default(),
    };
    Ok(Inner {
        this: OnceLock::new(),
        policy: options.filter,
        shape: options.shape,
        memtable_bytes: options.memtable_bytes,
        counters,
        view: ArcCell::new(Arc::new(state.view())),
        visible: AtomicU64::new(last_sequence),
        snapshots: SnapshotList::default(),
        writer: Mutex::new(Writer {
            wal,
            wal_number,
            memtable: writing,
            last_sequence,
            owed_wait: Duration::ZERO,
        }),
        queue: Mutex::default(),
        sealed_wals: Mutex::new(SealedWals::default()),
        manifest: Mutex::new(manifest),
        progress: Mutex::new(Progress { flushed_sequence: last_sequence, oldest_wal: wal_number }),
        tree_brakes: AtomicBool::new(write_brake(state.pressure) != WriteBrake::None),
        state: Mutex::new(state),
        changed: Condvar::new(),
        latched: OnceLock::new(),
        closing: AtomicBool::new(false),
        lock: Mutex::new(Some(lock)),
        store,
    })
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

fn no_database(dir: &Path) -> Error {
    Error::InvalidArgument(format!("{}: there is no database here", dir.display()))
}

/// A directory without `CURRENT` is a new database, or one whose creation a crash cut short. One
/// that holds tables was a database: creating another over it would lose them.
fn refuse_lost_current(files: &[(u64, names::FileKind)], dir: &Path, create: bool) -> Result<()> {
    if files.iter().any(|(_, kind)| matches!(kind, names::FileKind::Table(_))) {
        return Err(Error::Corruption {
            file: names::current_path(dir),
            offset: 0,
            expected: "the name of a MANIFEST, as the directory holds tables".into(),
            found: "no such file".into(),
        });
    }
    if create { Ok(()) } else { Err(no_database(dir)) }
}

fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<(u64, names::FileKind)>> {
    let mut files = Vec::new();
    for name in fs.list(dir)? {
        if let Some(kind) = names::parse(&name) {
            let number = match kind {
                names::FileKind::Table(n) | names::FileKind::Wal(n) => n,
                names::FileKind::Manifest(n) => n,
                names::FileKind::Temporary => continue,
            };
            files.push((number, kind));
        }
    }
    files.sort_by_key(|&(number, _)| number);
    Ok(files)
}

/// Where sequence numbers stop following each other.
struct Gap {
    path: PathBuf,
    offset: u64,
    expected: SequenceNumber,
    found: SequenceNumber,
}

struct Replay<'a> {
    store: &'a TableStore,
    options: &'a Builder,
    version: Version,
    flushed_sequence: SequenceNumber,
}

impl Replay<'_> {
    /// Replays the WALs from `oldest_wal` on into tables; answers the last sequence number.
    fn run(&mut self, files: &[(u64, names::FileKind)], oldest_wal: u64) -> Result<SequenceNumber> {
        let wals: Vec<u64> = files
            .iter()
            .filter(|&&(number, kind)| {
                number >= oldest_wal && matches!(kind, names::FileKind::Wal(_))
            })
            .map(|&(number, _)| number)
            .collect();
        let mut last = self.flushed_sequence;
        let (mut memtable, mut writer) = Memtable::new(self.options.memtable_bytes);
        for (index, &number) in wals.iter().enumerate() {
            let path = names::wal_path(&self.store.dir, number);
            let mut log = LogReader::open(&*self.store.fs, &path, LogKind::Wal, number)?;
            let mut is_first = true;
            while let Some(record) = log.next()? {
                let offset = record.payload_offset;
                let (first, count, operations) =
                    parse_record(record.payload).map_err(|damage| damage.in_file(&path, offset))?;
                if first != last + 1 {
                    let gap = Gap { path, offset, expected: last + 1, found: first };
                    self.check_gap(gap, is_first, &wals[index..])?;
                    // Writes before this log are missing: it and all after it never counted.
                    self.flush(&memtable)?;
                    return Ok(last);
                }
                is_first = false;
                for (sequence, operation) in (first..).zip(operations) {
                    let op = operation.map_err(|damage| damage.in_file(&path, offset))?;
                    writer.insert(op.key, sequence, op.kind as u8, op.value);
                    last = sequence;
                }
                if last != first + count - 1 {
                    let damage = Damage::new(
                        0,
                        format_args!("{count} operations"),
                        format_args!("{}", last + 1 - first),
                    );
                    return Err(damage.in_file(&path, offset));
                }
                if writer.bytes() >= self.options.memtable_bytes {
                    self.flush(&memtable)?;
                    (memtable, writer) = Memtable::new(self.options.memtable_bytes);
                }
            }
            // The log may end in a torn record. What follows in the next log then has a gap in
            // front, unless the torn record was never acknowledged.
        }
        self.flush(&memtable)?;
        Ok(last)
    }

    /// Tells lost tails from lost logs. A log is synced only after all before it, so behind a gap
    /// no log may say that any of it was.
    fn check_gap(&self, gap: Gap, at_start: bool, wals: &[u64]) -> Result<()> {
        let mut damaged = !at_start;
        for &number in wals {
            let path = names::wal_path(&self.store.dir, number);
            let mut log = LogReader::open(&*self.store.fs, &path, LogKind::Wal, number)?;
            while log.next()?.is_some() {}
            damaged |= log.synced_to() > 0;
        }
        if !damaged {
            return Ok(());
        }
        Err(Error::Corruption {
            file: gap.path,
            offset: gap.offset,
            expected: format!("the write with sequence number {}", gap.expected),
            found: format!("{}, in a log that was synced", gap.found),
        })
    }

    fn flush(&mut self, memtable: &Arc<Memtable>) -> Result<()> {
        let context = FilterContext::new(&self.version.metas(), 0, memtable.len() as u64);
        let filter = self.options.filter.spec_for(&context);
        let Some(file) = flush::flush(self.store, memtable, filter)? else { return Ok(()) };
        self.store.fs.sync_dir(&self.store.dir)?;
        let edit = VersionEdit { added: vec![(0, file.meta.clone())], ..VersionEdit::default() };
        let opened = [(file.meta.number, file)].into();
        self.version = self.version.apply(&edit, &opened);
        Ok(())
    }
}

/// Deletes what a crash left behind: files that the new MANIFEST does not list.
fn remove_unlisted(
    fs: &dyn Fs,
    dir: &Path,
    version: &Version,
    wal_number: u64,
    manifest_number: u64,
) -> Result<()> {
    let listed: HashSet<u64> = version.files().map(|(_, file)| file.meta.number).collect();
    for name in fs.list(dir)? {
        let keep = match names::parse(&name) {
            None => true,
            Some(names::FileKind::Table(number)) => listed.contains(&number),
            Some(names::FileKind::Wal(number)) => number >= wal_number,
            Some(names::FileKind::Manifest(number)) => number >= manifest_number,
            Some(names::FileKind::Temporary) => false,
        };
        if !keep {
            fs.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

//! What a directory holds: from the files of a clean close or a crash to a tree and its memtables.
//!
//! ```text
//!   CURRENT ─► MANIFEST ─► open the tables it lists ─► replay the WALs it does not cover
//! ```
//!
//! The WALs are replayed in order of their numbers, and sequence numbers must follow each other
//! without a gap, within a WAL and from one to the next. Where they stop following, or a record is
//! torn, the rest was never promised to survive a power loss, and is dropped; a synced record in
//! that rest proves the opposite, so then the file is damaged and named. So is a WAL that the MANIFEST says
//! was synced, and that is missing or shorter than that.
//!
//! Nothing that counts is written here: tables that hold what was replayed count only when
//! [`super::take_over`] has them listed. A database opened read-only ends here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::cache::BlockCache;
use crate::db::flush;
use crate::db::options::{Builder, CacheChoice};
use crate::db::write::batch::parse_record;
use crate::encoding::key::{SequenceNumber, user_key};
use crate::error::{Damage, Error, Result};
use crate::filter_policy::{FilterContext, FilterPolicy};
use crate::fs::{DescriptorPool, Fs};
use crate::memtable::{Memtable, MemtableWriter};
use crate::stats::Counters;
use crate::table::format::identity::{Creator, new_db_identity};
use crate::table::{TableContext, TableOptions};
use crate::version::{Recovered, TableStore, Version, VersionEdit, names, read_current};
use crate::wal::{LogKind, LogReader};

/// Replayed writes go to a memtable of at least this size, however small the database's own are: a long
/// log would become a heap of small tables else.
const REPLAY_MEMTABLE_BYTES: usize = 16 << 20;

/// Up to so many bytes of replayed records are written to a new WAL rather than to a table, so that a
/// database that is often opened for a few writes does not get a table each time.
const MOST_REWRITTEN_BYTES: usize = 1 << 20;

/// What is in a directory.
pub(crate) struct Directory {
    /// `None`: there is no `CURRENT`.
    pub recovered: Option<Recovered>,
    /// Files that can be this database's, by number. Others are left alone.
    pub files: Vec<(u64, names::FileKind)>,
}

impl Directory {
    pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Directory> {
        let recovered = read_current(fs, dir)?;
        let most = match &recovered {
            Some(recovered) => recovered.most_file_number(),
            None => Recovered::default().most_file_number(),
        };
        let mut files = Vec::new();
        for name in fs.list(dir)? {
            if let Some(kind) = names::parse(&name)
                && let Some(number) = kind.number()
                && number <= most
            {
                files.push((number, kind));
            }
        }
        files.sort_by_key(|&(number, _)| number);
        Ok(Directory { recovered, files })
    }

    /// A directory without `CURRENT` is a new database, or one whose creation a crash cut short. One
    /// that holds tables was a database: creating another over it would lose them.
    pub fn refuse_lost_current(&self, dir: &Path) -> Result<()> {
        let is_table = |kind| matches!(kind, names::FileKind::Table(_));
        if self.recovered.is_some() || !self.files.iter().any(|&(_, kind)| is_table(kind)) {
            return Ok(());
        }
        Err(Error::Corruption {
            file: names::current_path(dir),
            offset: 0,
            expected: "the name of a MANIFEST, as the directory holds tables".into(),
            found: "no such file".into(),
        })
    }

    /// A number above those of all files here: some may be younger than the MANIFEST.
    fn next_number(&self) -> u64 {
        let known = self.recovered.as_ref().map_or(1, |recovered| recovered.next_file.max(1));
        self.files.iter().map(|&(number, _)| number + 1).fold(known, u64::max)
    }
}

/// The part of a database that makes and opens tables. `keeps_tables_open`: see [`TableStore`].
pub(crate) fn table_store(
    options: &Builder,
    directory: &Directory,
    keeps_tables_open: bool,
) -> TableStore {
    let cache = match &options.cache {
        CacheChoice::Own(bytes) => BlockCache::new(*bytes),
        CacheChoice::Shared(cache) => Arc::clone(cache),
    };
    let db_identity = directory.recovered.as_ref().and_then(|it| it.db_identity.clone());
    TableStore {
        fs: Arc::clone(&options.fs),
        dir: options.path.clone(),
        descriptors: match options.max_open_files {
            Some(files) => DescriptorPool::new(files),
            None => DescriptorPool::shared(),
        },
        keeps_tables_open,
        context: TableContext {
            cache,
            counters: Arc::new(Counters::new()),
            pin_metadata: false,
            assigned_sequence: None,
            tail_bytes: 0,
        },
        pin_metadata: options.pin_metadata,
        options: TableOptions {
            block_bytes: options.block_bytes,
            filter_keys: options.filter_keys,
            compression: options.compression,
            ..TableOptions::default()
        },
        creator: Creator::new(db_identity.unwrap_or_else(new_db_identity)),
        next_file: AtomicU64::new(directory.next_number()),
        obsolete: Arc::default(),
    }
}

/// The tables that the MANIFEST lists, opened and compared with what it says of them.
fn open_tables(store: &TableStore, recovered: &Recovered) -> Result<Version> {
    let mut edit = VersionEdit::default();
    let mut opened = HashMap::new();
    for (&number, (level, meta)) in &recovered.files {
        let file = store.open(meta.clone(), *level)?;
        edit.added.push((*level, file.meta.clone()));
        opened.insert(number, file);
    }
    let version = Version::default().apply(&edit, &opened);
    if let Some((level, one, other)) = version.overlap() {
        let range = |meta: &crate::version::FileMeta| {
            let [from, to] =
                [&meta.smallest, &meta.largest].map(|key| user_key(key).escape_ascii());
            format!("{:06} from \"{from}\" to \"{to}\"", meta.number)
        };
        return Err(Error::Corruption {
            file: store.dir.join(names::manifest_name(recovered.manifest.0)),
            offset: 0,
            expected: format!("tables of level {level} that share no key"),
            found: format!("{} and {}", range(one), range(other)),
        });
    }
    Ok(version)
}

/// What the tables and the WALs of a directory hold together.
pub(crate) struct Replayed {
    pub version: Arc<Version>,
    /// Every write up to it is in tables of `version`.
    pub flushed_sequence: SequenceNumber,
    pub last_sequence: SequenceNumber,
    /// Full memtables, oldest first: read-only, or there was no space for their tables.
    pub full: Vec<Arc<Memtable>>,
    pub memtable: Arc<Memtable>,
    pub writer: MemtableWriter,
    /// What `memtable` was filled from.
    pub origin: Origin,
}

/// Where the entries of a memtable come from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// The records of WALs, oldest first; none where they are too many to be written again.
    pub records: Vec<Vec<u8>>,
    /// Bytes of all records.
    bytes: usize,
    /// The recovered WAL that all of them stand in, and its bytes, all of which are durable.
    pub recovered_wal: Option<(u64, u64)>,
}

impl Origin {
    fn add(&mut self, payload: &[u8], most_bytes: usize) {
        self.bytes += payload.len();
        self.recovered_wal = None;
        match self.bytes <= most_bytes {
            true => self.records.push(payload.to_vec()),
            false => self.records = Vec::new(),
        }
    }

    /// Whether there are more records than one would write again.
    pub fn is_too_much(&self) -> bool {
        self.bytes > 0 && self.records.is_empty()
    }
}

/// Where sequence numbers stop following each other.
pub(crate) struct Gap {
    path: PathBuf,
    offset: u64,
    expected: SequenceNumber,
    found: SequenceNumber,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Gap { path, offset, expected, found } = self;
        write!(f, "{} at {offset}: write {found} after {}", path.display(), expected - 1)
    }
}

/// Replays WALs.
pub(crate) struct Replay<'a> {
    store: &'a TableStore,
    policy: &'a FilterPolicy,
    memtable_bytes: usize,
    /// Whether full memtables become tables as soon as they are full.
    flushes: bool,
    state: Replayed,
    /// A memtable could not be written to a table, for want of space: the others wait, too.
    no_space: bool,
    /// Where the replay stopped before the last WAL, without proof of damage.
    gap: Option<Gap>,
}

impl<'a> Replay<'a> {
    /// Opens the tables and replays the WALs. `flushes`: memtables that are full on the way are written to
    /// tables; else all of them stay in memory.
    pub fn run(
        store: &'a TableStore,
        options: &'a Builder,
        directory: &Directory,
        flushes: bool,
    ) -> Result<(Replayed, Option<Gap>)> {
        let fresh = Recovered::default();
        let recovered = directory.recovered.as_ref().unwrap_or(&fresh);
        let version = Arc::new(open_tables(store, recovered)?);
        let (memtable, writer) = Memtable::new(options.memtable_bytes);
        let state = Replayed {
            version,
            flushed_sequence: recovered.flushed_sequence,
            last_sequence: recovered.flushed_sequence,
            full: Vec::new(),
            memtable,
            writer,
            origin: Origin::default(),
        };
        let (policy, memtable_bytes) = (&options.filter, options.memtable_bytes);
        let (no_space, gap) = (false, None);
        let mut replay = Replay { store, policy, memtable_bytes, flushes, state, no_space, gap };
        replay.wals(directory, recovered)?;
        Ok((replay.state, replay.gap))
    }

    fn wals(&mut self, directory: &Directory, recovered: &Recovered) -> Result<()> {
        let durable = &recovered.durable_wals;
        let is_wal = |kind| matches!(kind, names::FileKind::Wal(_));
        let found = directory.files.iter().filter(|&&(_, kind)| is_wal(kind));
        let found = found.map(|&(number, _)| number);
        let wals: Vec<u64> = found.filter(|&number| number >= recovered.oldest_wal).collect();
        if let Some((&number, bytes)) = durable.iter().find(|(number, _)| !wals.contains(number)) {
            return Err(Error::Corruption {
                file: names::wal_path(&self.store.dir, number),
                offset: 0,
                expected: format!("a log whose first {bytes} bytes were synced"),
                found: "no such file".into(),
            });
        }
        for (index, &number) in wals.iter().enumerate() {
            if !self.wal(number, &wals[index..], durable)? {
                // Writes before this log are missing: it and all after it never counted.
                break;
            }
        }
        Ok(())
    }

    /// Replays one WAL, the first of `rest`; `false`: there is a gap before it, or within it.
    fn wal(&mut self, number: u64, rest: &[u64], durable: &BTreeMap<u64, u64>) -> Result<bool> {
        let path = names::wal_path(&self.store.dir, number);
        let mut log = LogReader::open(&*self.store.fs, &path, LogKind::Wal, number)?;
        let durable_bytes = durable.get(&number).copied();
        if log.kind() == LogKind::RecoveredWal && durable_bytes.is_none() {
            // A crash left it behind: the WALs that it was made of are still here.
            return Ok(true);
        }
        let most_rewritten = MOST_REWRITTEN_BYTES.min(self.memtable_bytes / 2);
        let (begins, full_before) = (self.state.memtable.is_empty(), self.state.full.len());
        let mut is_first = true;
        while let Some(record) = log.next()? {
            let offset = record.payload_offset;
            let (first, count, operations) =
                parse_record(record.payload).map_err(|damage| damage.in_file(&path, offset))?;
            let state = &mut self.state;
            if first != state.last_sequence + 1 {
                let expected = state.last_sequence + 1;
                let gap = Gap { path, offset, expected, found: first };
                self.check_gap(gap, is_first, rest, durable)?;
                return Ok(false);
            }
            is_first = false;
            for (sequence, operation) in (first..).zip(operations) {
                let op = operation.map_err(|damage| damage.in_file(&path, offset))?;
                state.writer.insert(op.key, sequence, op.kind as u8, op.value);
                state.last_sequence = sequence;
            }
            if state.last_sequence != first + count - 1 {
                let damage = Damage::new(
                    0,
                    format_args!("{count} operations"),
                    format_args!("{}", state.last_sequence + 1 - first),
                );
                return Err(damage.in_file(&path, offset));
            }
            state.origin.add(record.payload, most_rewritten);
            if state.writer.bytes() >= self.memtable_bytes.max(REPLAY_MEMTABLE_BYTES) {
                self.memtable_is_full()?;
            }
        }
        // The log may end in a torn record. What follows in the next log then has a gap in front,
        // unless the torn record was never acknowledged.
        let end = log.end();
        if let Some(bytes) = durable_bytes.filter(|&bytes| end < bytes) {
            return Err(Error::Corruption {
                file: path,
                offset: end,
                expected: format!("intact records, as the first {bytes} bytes were synced"),
                found: "none".into(),
            });
        }
        let holds_all = begins && self.state.full.len() == full_before;
        if holds_all && log.kind() == LogKind::RecoveredWal && durable_bytes == Some(end) {
            self.state.origin.recovered_wal = Some((number, end));
        }
        Ok(true)
    }

    /// Tells lost tails from lost logs. A log is synced only after all before it, so behind a gap
    /// no log may say that any of it was.
    fn check_gap(
        &mut self,
        gap: Gap,
        at_start: bool,
        wals: &[u64],
        durable: &BTreeMap<u64, u64>,
    ) -> Result<()> {
        let mut damaged = !at_start;
        for &number in wals {
            let path = names::wal_path(&self.store.dir, number);
            let mut log = LogReader::open(&*self.store.fs, &path, LogKind::Wal, number)?;
            if log.kind() == LogKind::RecoveredWal && !durable.contains_key(&number) {
                continue;
            }
            while log.next()?.is_some() {}
            damaged |= log.synced_to() > 0 || durable.contains_key(&number);
        }
        if !damaged {
            self.gap = Some(gap);
            return Ok(());
        }
        Err(Error::Corruption {
            file: gap.path,
            offset: gap.offset,
            expected: format!("the write with sequence number {}", gap.expected),
            found: format!("{}, in a log that was synced", gap.found),
        })
    }

    fn memtable_is_full(&mut self) -> Result<()> {
        let (memtable, writer) = Memtable::new(self.memtable_bytes);
        self.state.full.push(std::mem::replace(&mut self.state.memtable, memtable));
        self.state.writer = writer;
        self.state.origin = Origin::default();
        if self.flushes && !self.no_space {
            match self.state.flush_full(self.store, self.policy) {
                Err(error) if error.is_out_of_space() => self.no_space = true,
                flushed => return flushed,
            }
        }
        Ok(())
    }
}

impl Replayed {
    /// Writes the full memtables to tables, which no MANIFEST lists yet.
    pub fn flush_full(&mut self, store: &TableStore, policy: &FilterPolicy) -> Result<()> {
        while let Some(memtable) = self.full.first() {
            let context = FilterContext::new(&self.version.metas(), 0, memtable.len() as u64);
            let file = flush::flush(store, memtable, policy.spec_for(&context))?;
            let memtable = self.full.remove(0);
            self.flushed_sequence = self.flushed_sequence.max(memtable.largest_sequence());
            let Some(file) = file else { continue };
            let edit =
                VersionEdit { added: vec![(0, file.meta.clone())], ..VersionEdit::default() };
            let opened = [(file.meta.number, file)].into();
            self.version = Arc::new(self.version.apply(&edit, &opened));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;
    use crate::version::{Manifest, ROLL_AFTER_BYTES};
    use crate::{Db, fs};

    /// A MANIFEST that listed overlapping files in a level from 1 on hid an acknowledged write: of a level
    /// a lookup asks one file. Now it is refused, by name.
    #[test]
    fn a_manifest_whose_files_overlap_within_a_level_is_refused() {
        let fs: Arc<dyn fs::Fs> = Arc::new(MemFs::new());
        let (dir, open) = (Path::new("/db"), || Db::builder("/db").fs(Arc::clone(&fs)).open());
        let db = open().unwrap();
        for value in ["old", "new"] {
            ["a", "m", "z"].iter().for_each(|key| db.put(key, value).unwrap());
            db.flush().unwrap();
        }
        db.close().unwrap();
        for level in [0, 1, 6] {
            let found = read_current(&*fs, dir).unwrap().unwrap();
            let added: Vec<_> = found.files.into_values().map(|(_, meta)| (level, meta)).collect();
            assert_eq!(added.len(), 2);
            let tree = VersionEdit {
                next_file: Some(found.next_file + 10),
                flushed_sequence: Some(found.flushed_sequence),
                oldest_wal: Some(found.oldest_wal),
                added,
                ..VersionEdit::default()
            };
            Manifest::create(&fs, dir, found.next_file + 9, &tree, ROLL_AFTER_BYTES).unwrap();
            match (level, open()) {
                (0, Ok(db)) => assert_eq!(db.get("m").unwrap().unwrap(), b"new"),
                (1.., Err(Error::Corruption { file, found, .. })) => {
                    assert!(file.to_str().unwrap().contains("MANIFEST-"), "{file:?}");
                    assert!(found.contains("from \"a\" to \"z\""), "{found}");
                }
                (level, other) => panic!("level {level}: {other:?}"),
            }
        }
    }
}

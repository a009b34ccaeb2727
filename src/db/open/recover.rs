//! Replay of the WALs that a clean close or a crash left: their writes go to memtables.
//!
//! ```text
//!   3.wal │ 1 2 3 │ 4 5 │ torn      4.wal │ 6 7 │ synced up to here │ 8 │
//!         sequence numbers follow each other, within a WAL and from one to the next;
//!         those of ingested tables are in no WAL: the MANIFEST lists them
//! ```
//!
//! WALs are replayed in order of their numbers. A power loss may take whatever was not synced. So
//! everything behind a torn record of a WAL is dropped. If the next WAL then does not continue the
//! sequence numbers, it and all later ones are dropped too. A bad record that was synced is damage
//! ([`crate::wal`]). Five other things also prove damage, and are errors that name the file:
//!
//! - a gap between two records of one WAL,
//! - a synced record behind a gap,
//! - a missing WAL that the MANIFEST calls synced,
//! - a WAL that is shorter than its synced bytes,
//! - a write missing before an ingestion, because an ingestion is recorded only after all writes
//!   before it are synced.
//!
//! Tables that a replay writes become part of the database only when the take-over of the directory
//! ([`super::writable`]) lists them in a MANIFEST. A read-only opening writes no tables, and ends
//! with the replay.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::{Directory, OpenTables, open_tables};
use crate::db::flush::Flush;
use crate::db::inner::trees::DEFAULT_NAME;
use crate::db::options::Builder;
use crate::db::tree_options::TreeOptions;
use crate::db::write::batch::parse_record;
use crate::encoding::key::SequenceNumber;
use crate::error::{Damage, Error, Result};
use crate::filter_policy::FilterContext;
use crate::memtable::{Memtable, MemtableWriter};
use crate::version::{
    KeyspaceId, Recovered, RecoveredKeyspace, Skipped, TableStore, Version, names,
};
use crate::wal::{LogKind, LogReader};

/// Replayed writes go to memtables of at least this size, even if the database's own memtables are
/// smaller, because a long log must not become many small tables.
const REPLAY_MEMTABLE_BYTES: usize = 16 << 20;

/// Replayed records of at most this many bytes, and of at most half a memtable, go to a new WAL.
/// Larger ones go to a table. So a database that is often opened for a few writes does not get a
/// table each time.
const MAX_REWRITTEN_BYTES: usize = 1 << 20;

/// What the tables and the WALs of a directory hold together.
pub(crate) struct Replayed {
    /// By keyspace. Keyspace 0 has a tree, and so has each one with a table, with an entry, or with
    /// writes that need no replay.
    pub trees: BTreeMap<KeyspaceId, ReplayedTree>,
    /// The keyspaces other than 0, and the number of the next new one; 0: there was never one.
    pub keyspaces: BTreeMap<KeyspaceId, RecoveredKeyspace>,
    pub next_keyspace: KeyspaceId,
    /// Sequence numbers above `origin.before` that no WAL holds: those of ingested tables.
    pub skipped: Skipped,
    pub last_sequence: SequenceNumber,
    /// What the memtables that are not full were filled from.
    pub origin: Origin,
}

/// What the tables and the WALs hold of one keyspace.
pub(crate) struct ReplayedTree {
    pub options: TreeOptions,
    pub name: Vec<u8>,
    pub version: Arc<Version>,
    /// Every write of the keyspace up to this one is in tables of `version`.
    pub flushed: SequenceNumber,
    /// Full memtables that did not become tables, because the opening is read-only or there was no
    /// space, oldest first.
    pub full: Vec<Arc<Memtable>>,
    pub memtable: Arc<Memtable>,
    pub writer: MemtableWriter,
}

/// A take-over of a directory ([`super::writable`]) that found no space on the disk, and will be
/// tried again.
pub(crate) struct PendingWritable {
    pub replayed: Replayed,
    pub error: Error,
}

/// Where the entries of a memtable come from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// The records of WALs, oldest first; empty where they have too many bytes to be written to a
    /// new WAL ([`MAX_REWRITTEN_BYTES`]).
    pub records: Vec<Vec<u8>>,
    /// Bytes of all records.
    bytes: usize,
    /// The sequence number before that of the first record. Every write up to it is in tables.
    pub before: SequenceNumber,
    /// Whether some of the records must not be written to a new WAL.
    is_exceeded: bool,
    /// The WAL to which an earlier opening wrote all of the records (a *recovered WAL*): its
    /// number, and its size in bytes, all durable.
    pub recovered_wal: Option<(u64, u64)>,
}

impl Origin {
    fn add(&mut self, payload: &[u8], most_bytes: usize) {
        self.bytes += payload.len();
        self.recovered_wal = None;
        match self.bytes <= most_bytes {
            true if !self.is_exceeded => self.records.push(payload.to_vec()),
            _ => self.exceed(),
        }
    }

    /// Whether there are no records.
    fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Called when the memtables are empty: forgets the records.
    fn begin_after(&mut self, before: SequenceNumber) {
        *self = Origin { before, ..Origin::default() };
    }

    /// Lets no record be written to a new WAL.
    fn exceed(&mut self) {
        (self.records, self.recovered_wal, self.is_exceeded) = (Vec::new(), None, true);
    }

    /// Whether the records have too many bytes to be written to a new WAL.
    pub fn is_too_much(&self) -> bool {
        self.is_exceeded
    }
}

/// A gap in the sequence numbers: the record of a WAL whose first sequence number does not follow
/// the previous write.
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
    options: &'a Builder,
    /// Whether full memtables become tables as soon as they are full.
    flushes: bool,
    state: Replayed,
    /// The disk had no space for the table of a memtable, so this and later memtables stay in
    /// memory.
    no_space: bool,
    /// How often a memtable became full.
    freezes: usize,
    /// The gap at which the replay stopped. It is no damage; `None` if there is no gap.
    gap: Option<Gap>,
}

impl<'a> Replay<'a> {
    /// Opens the tables that are not in `opened` and replays the WALs. With `flushes`, full
    /// memtables become tables; otherwise all stay in memory.
    pub fn run(
        store: &'a TableStore,
        options: &'a Builder,
        directory: &Directory,
        opened: &mut OpenTables,
        flushes: bool,
    ) -> Result<(Replayed, Option<Gap>)> {
        let fresh = Recovered::default();
        let recovered = directory.recovered.as_ref().unwrap_or(&fresh);
        let mut state = Replayed {
            trees: BTreeMap::new(),
            keyspaces: recovered.keyspaces.clone(),
            next_keyspace: recovered.next_keyspace,
            skipped: recovered.skipped.clone(),
            last_sequence: recovered.flushed_sequence,
            origin: Origin { before: recovered.flushed_sequence, ..Origin::default() },
        };
        let mut versions = open_tables(store, recovered, opened)?;
        // Compactions may have dropped all that was in the tables of a keyspace. Its writes must not be
        // replayed, because an ingested table, which is in no WAL, may have deleted them.
        for (&keyspace, &flushed) in &recovered.flushed {
            if flushed > recovered.flushed_sequence {
                versions.entry(keyspace).or_default();
            }
        }
        for (keyspace, version) in versions {
            let tree = state.new_tree(keyspace, options, version)?;
            let flushed = recovered.flushed.get(&keyspace).copied().unwrap_or(0);
            let flushed = flushed.max(recovered.flushed_sequence);
            state.trees.insert(keyspace, ReplayedTree { flushed, ..tree });
        }
        let no_space = false;
        let mut replay = Replay { store, options, flushes, state, no_space, freezes: 0, gap: None };
        replay.wals(directory, recovered)?;
        replay.check_end(recovered)?;
        Ok((replay.state, replay.gap))
    }

    fn wals(&mut self, directory: &Directory, recovered: &Recovered) -> Result<()> {
        let durable = &recovered.durable_wals;
        let is_wal = |kind| matches!(kind, names::FileKind::Wal(_));
        let found = directory.files.iter().filter(|&&(_, kind)| is_wal(kind));
        let found = found.map(|&(number, _)| number);
        let wals: Vec<u64> = found.filter(|&number| number >= recovered.oldest_wal).collect();
        if let Some((&number, bytes)) = durable.iter().find(|(number, _)| !wals.contains(number)) {
            let path = names::wal_path(&self.store.dir, number);
            let expected = format_args!("a log whose first {bytes} bytes were synced");
            return Err(Damage::new(0, expected, "no such file").in_file(&path, 0));
        }
        for (index, &number) in wals.iter().enumerate() {
            if !self.wal(number, &wals[index..], durable)? {
                // Writes before this log are missing, so neither this log nor any later one counts.
                // A recovered WAL would stay the oldest WAL if it were used again, and these logs,
                // which have larger numbers, would count at the next opening. So its records go to
                // a new recovered WAL, whose number is above theirs.
                self.state.origin.recovered_wal = None;
                break;
            }
        }
        Ok(())
    }

    /// Replays one WAL, the first of `later`. Returns false if its sequence numbers leave a gap.
    fn wal(&mut self, number: u64, later: &[u64], durable: &BTreeMap<u64, u64>) -> Result<bool> {
        let path = names::wal_path(&self.store.dir, number);
        let mut log = LogReader::open(&*self.store.fs, &path, LogKind::Wal, number)?;
        let durable_bytes = durable.get(&number).copied();
        if log.kind() == LogKind::RecoveredWal && durable_bytes.is_none() {
            // An earlier opening wrote this recovered WAL, and no MANIFEST lists it: the opening
            // crashed, or it had no space and could not remove the file. The log is skipped,
            // because the WALs from which it was made are still here.
            return Ok(true);
        }
        let most_rewritten = MAX_REWRITTEN_BYTES.min(self.options.tree.memtable_bytes / 2);
        let was_first = self.state.origin.is_empty();
        let freezes_before = self.freezes;
        let mut is_first = true;
        while let Some(record) = log.next()? {
            let offset = record.payload_offset;
            let (first, count, operations) =
                parse_record(record.payload).map_err(|damage| damage.in_file(&path, offset))?;
            let state = &mut self.state;
            state.last_sequence = state.skipped.after(state.last_sequence);
            if first != state.last_sequence + 1 {
                let expected = state.last_sequence + 1;
                let gap = Gap { path, offset, expected, found: first };
                self.check_gap(gap, is_first, later, durable)?;
                return Ok(false);
            }
            is_first = false;
            let mut full = Vec::new();
            for (sequence, operation) in (first..).zip(operations) {
                let op = operation.map_err(|damage| damage.in_file(&path, offset))?;
                state.last_sequence = sequence;
                let keyspace = op.keyspace.unwrap_or(0);
                if !state.has_keyspace(keyspace) {
                    if keyspace < state.next_keyspace {
                        // The keyspace was dropped.
                        continue;
                    }
                    let damage = Damage::new(0, "a keyspace that the MANIFEST lists", keyspace);
                    return Err(damage.in_file(&path, offset));
                }
                let tree = state.tree(keyspace, self.options)?;
                if sequence <= tree.flushed {
                    continue;
                }
                tree.writer.insert(op.key, sequence, op.kind as u8, op.value);
                let most_bytes = tree.options.memtable_bytes.max(REPLAY_MEMTABLE_BYTES);
                if tree.writer.is_full(most_bytes) && !full.contains(&keyspace) {
                    full.push(keyspace);
                }
            }
            if state.last_sequence != first + count - 1 {
                let found = state.last_sequence + 1 - first;
                let damage = Damage::new(0, format_args!("{count} operations"), found);
                return Err(damage.in_file(&path, offset));
            }
            state.origin.add(record.payload, most_rewritten);
            full.into_iter().try_for_each(|keyspace| self.memtable_is_full(keyspace))?;
        }
        // A torn record at the end of the log is dropped. If it was acknowledged, its sequence
        // numbers are missing before the next log, and the replay finds this gap there.
        let end = log.end();
        if let Some(bytes) = durable_bytes.filter(|&bytes| end < bytes) {
            let expected = format_args!("intact records, as the first {bytes} bytes were synced");
            return Err(Damage::new(0, expected, "none").in_file(&path, end));
        }
        let holds_all = was_first && self.freezes == freezes_before;
        if holds_all && log.kind() == LogKind::RecoveredWal && durable_bytes == Some(end) {
            self.state.origin.recovered_wal = Some((number, end));
        }
        Ok(true)
    }

    /// Checks that no write is missing that must have been durable: one before an ingestion, or one
    /// before a write that is in a table although an earlier one of another keyspace is not. These
    /// were synced before the MANIFEST recorded the ingestion, or the table.
    fn check_end(&mut self, recovered: &Recovered) -> Result<()> {
        let state = &mut self.state;
        state.last_sequence = state.skipped.after(state.last_sequence);
        let missing = |expected: std::fmt::Arguments<'_>| {
            let path = self.store.dir.join(names::manifest_name(recovered.manifest.0));
            let found = format_args!("logs that end at write {}", state.last_sequence);
            Err(Damage::new(0, expected, found).in_file(&path, 0))
        };
        let mut ranges = state.skipped.ranges();
        if let Some((first, _)) = ranges.find(|&(first, _)| first > state.last_sequence) {
            // If the sequence number of the ingestion directly follows the last replayed write, no
            // write before it is missing. If it is larger than that, at least one is missing.
            return missing(format_args!("logs with all writes before the ingestion {first}"));
        }
        match recovered.flushed.values().max() {
            Some(&flushed) if flushed > state.last_sequence => {
                missing(format_args!("logs with all writes up to {flushed}"))
            }
            _ => Ok(()),
        }
    }

    /// Tells whether a gap is a lost tail or damage, which is an error. After the loss of a tail,
    /// the gap is at the start of a log, and neither that log nor a later one has a synced byte,
    /// because a log is synced only after all logs before it.
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
        let expected = format_args!("the write with sequence number {}", gap.expected);
        let found = format_args!("{}, in a log that was synced", gap.found);
        Err(Damage::new(0, expected, found).in_file(&gap.path, gap.offset))
    }

    fn memtable_is_full(&mut self, keyspace: KeyspaceId) -> Result<()> {
        self.freezes += 1;
        self.state.freeze(keyspace);
        if self.flushes && !self.no_space {
            match self.state.flush_full(self.store, &[]) {
                Err(error) if error.is_out_of_space() => self.no_space = true,
                flushed => return flushed,
            }
        }
        Ok(())
    }
}

impl Replayed {
    /// What there is of a database with one tree, before any log is read.
    pub fn of_one(tree: ReplayedTree, last_sequence: SequenceNumber) -> Replayed {
        Replayed {
            trees: BTreeMap::from([(0, tree)]),
            keyspaces: BTreeMap::new(),
            next_keyspace: 0,
            skipped: Skipped::default(),
            last_sequence,
            origin: Origin { before: last_sequence, ..Origin::default() },
        }
    }

    fn has_keyspace(&self, keyspace: KeyspaceId) -> bool {
        keyspace == 0 || self.keyspaces.contains_key(&keyspace)
    }

    fn new_tree(
        &self,
        keyspace: KeyspaceId,
        options: &Builder,
        version: Version,
    ) -> Result<ReplayedTree> {
        Ok(match self.keyspaces.get(&keyspace) {
            Some(known) => {
                let options = TreeOptions::of_text(&known.options)?;
                ReplayedTree::new(options, &known.name, version)
            }
            None => ReplayedTree::new(options.tree.clone(), DEFAULT_NAME, version),
        })
    }

    /// The tree of a keyspace, which is made if there is none yet.
    fn tree(&mut self, keyspace: KeyspaceId, options: &Builder) -> Result<&mut ReplayedTree> {
        if !self.trees.contains_key(&keyspace) {
            let tree = self.new_tree(keyspace, options, Version::default())?;
            // It has no table, and every write of it is to be replayed.
            let flushed = self.origin.before;
            self.trees.insert(keyspace, ReplayedTree { flushed, ..tree });
        }
        Ok(self.trees.get_mut(&keyspace).expect("the tree was just made"))
    }

    /// Adds the memtable of a keyspace to the full ones, and starts another.
    fn freeze(&mut self, keyspace: KeyspaceId) {
        if let Some(tree) = self.trees.get_mut(&keyspace) {
            tree.freeze();
        }
        match self.trees.values().all(|tree| tree.memtable.is_empty()) {
            true => self.origin.begin_after(self.last_sequence),
            // The records are in several memtables, of which one becomes a table now. So the others
            // must become tables too.
            false => self.origin.exceed(),
        }
    }

    /// Adds all memtables to the full ones.
    pub fn freeze_all(&mut self) {
        self.trees.values_mut().filter(|tree| !tree.memtable.is_empty()).for_each(|it| it.freeze());
        self.origin.begin_after(self.last_sequence);
    }

    /// Writes the full memtables to tables. No MANIFEST lists them yet.
    pub fn flush_full(&mut self, store: &TableStore, snapshots: &[SequenceNumber]) -> Result<()> {
        for (&keyspace, tree) in &mut self.trees {
            let store = store.with_options(tree.options.tables.clone());
            tree.flush_full(&store.in_keyspace(keyspace, &tree.name), snapshots)?;
        }
        Ok(())
    }
}

impl ReplayedTree {
    /// A tree before the first log is read.
    pub fn new(options: TreeOptions, name: &[u8], version: Version) -> ReplayedTree {
        let (memtable, writer) = Memtable::new(options.memtable_bytes);
        ReplayedTree {
            options,
            name: name.to_vec(),
            version: Arc::new(version),
            flushed: 0,
            full: Vec::new(),
            memtable,
            writer,
        }
    }

    /// Adds the memtable to the full ones, and starts another.
    pub fn freeze(&mut self) {
        let (memtable, writer) = Memtable::new(self.options.memtable_bytes);
        self.full.push(std::mem::replace(&mut self.memtable, memtable));
        self.writer = writer;
    }

    fn flush_full(&mut self, store: &TableStore, snapshots: &[SequenceNumber]) -> Result<()> {
        while let Some(memtable) = self.full.first() {
            let context = FilterContext::new(&self.version.metas(), 0, memtable.len() as u64);
            let flush = Flush {
                store,
                older: Some(&self.version),
                snapshots: snapshots.to_vec(),
                filter: &self.options.filter.spec_for(&context),
            };
            let files = flush.run(memtable)?;
            let memtable = self.full.remove(0);
            self.flushed = self.flushed.max(memtable.largest_sequence());
            let older = self.version.files().map(|(level, file)| (level, Arc::clone(file)));
            let tables = older.chain(files.into_iter().map(|file| (0, file)));
            self.version = Arc::new(Version::of(tables));
        }
        Ok(())
    }
}

//! What the MANIFESTs of a directory say: all of it, or the parts that can be read.
//!
//! If bytes of a MANIFEST are unreadable, the edits behind them are read too, because each edit has
//! its own checksum, which covers its offset in the file. These edits do not tell the tree, because
//! a missing edit may have moved any table. But they tell which tables are obsolete: a table that
//! has left the tree stays obsolete, because file numbers are never used again. They also tell the
//! *global sequence number* of each ingested table, which all entries of the table have, and which
//! its file need not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::work::{open_readable, readable_records};
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::fs::Fs;
use crate::table::format::identity::TableIdentity;
use crate::version::names::FileKind;
use crate::version::{
    FileMeta, KeyspaceId, KeyspaceRecord, Recovered, RecoveredKeyspace, Skipped, VersionEdit,
    current_manifest, names, read_manifest,
};
use crate::wal::{FILE_HEADER_BYTES, LogKind, LogVersion, RECORD_HEADER_BYTES};

/// The highest number that a file of the database may have if no edit of a MANIFEST tells more.
/// Files with higher numbers are not taken for files of the database, and are left alone.
const MAX_UNKNOWN_NUMBER: u64 = 1 << 40;

/// What MANIFESTs say of the tree.
pub(super) enum ListedTree {
    /// A MANIFEST that is whole.
    Whole(Recovered),
    /// Parts of MANIFESTs, or nothing.
    Parts(Parts),
}

impl ListedTree {
    /// The highest number that a file of the database may have.
    pub(super) fn most_file_number(&self) -> u64 {
        match self {
            ListedTree::Whole(recovered) => recovered.most_file_number(),
            ListedTree::Parts(Parts { next_file, .. }) => {
                let known = Recovered { next_file: *next_file, ..Recovered::default() };
                known.most_file_number().max(MAX_UNKNOWN_NUMBER)
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Parts {
    /// Obsolete tables.
    pub removed: BTreeSet<u64>,
    /// The tables that readable edits have added to the tree, obsolete ones included.
    pub entered: BTreeMap<u64, FileMeta>,
    pub flushed_sequence: SequenceNumber,
    /// WALs with smaller numbers are obsolete.
    pub oldest_wal: u64,
    /// Sequence numbers that no WAL holds, because ingested tables have them.
    pub skipped: Skipped,
    pub next_file: u64,
    pub db_identity: Option<String>,
    /// The keyspaces other than 0 that were created and, as far as is known, not dropped.
    pub keyspaces: BTreeMap<KeyspaceId, RecoveredKeyspace>,
    pub dropped: BTreeSet<KeyspaceId>,
    /// 0: no part shows that the database ever had another keyspace than 0.
    pub next_keyspace: KeyspaceId,
}

impl Parts {
    /// The record of a table in the MANIFESTs: the one with its identity ([`TableIdentity`]), or
    /// else the one with its number. If the record with its number states another identity than the
    /// table has, it is the record of another table, and does not count.
    pub fn of(&self, number: u64, identity: Option<TableIdentity>) -> Option<&FileMeta> {
        let same = |meta: &&FileMeta| meta.identity.is_some() && meta.identity == identity;
        let by_number =
            || self.entered.get(&number).filter(|it| it.identity.is_none() || identity.is_none());
        self.entered.values().find(same).or_else(by_number)
    }
}

impl Recovered {
    /// Whether the MANIFEST seems to have lost its end. The reader of the MANIFEST takes such a
    /// loss for a torn tail, so the loss is recognised by the files of the directory: some that the
    /// MANIFEST lists are missing, and there are tables that it does not know.
    pub(super) fn is_of_the_past(&self, kinds: &[FileKind], parts: &Parts) -> bool {
        let tables: BTreeSet<u64> = kinds.iter().filter_map(|kind| kind.table()).collect();
        let misses_table = self.files.keys().any(|number| !tables.contains(number));
        let misses_log =
            self.durable_wals.keys().any(|&number| !kinds.contains(&FileKind::Wal(number)));
        let is_unknown = |number: &u64| {
            !self.files.contains_key(number)
                && !parts.removed.contains(number)
                && *number <= self.most_file_number()
        };
        (misses_table || misses_log) && tables.iter().any(is_unknown)
    }
}

/// Reads all MANIFESTs. `problems` gets a line for everything that is wrong.
pub(super) fn read(
    fs: &dyn Fs,
    dir: &Path,
    mut numbers: Vec<u64>,
    problems: &mut Vec<String>,
) -> Result<ListedTree> {
    numbers.sort_unstable();
    let named = match current_manifest(fs, dir) {
        Ok(Some(number)) => Some(number),
        Ok(None) => {
            problems.push(format!("{}: no such file", names::current_path(dir).display()));
            None
        }
        Err(error) if error.is_damage() => {
            problems.push(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    // The newest whole MANIFEST counts, but none older than the one that `CURRENT` names, because
    // an older one describes a tree of the past. If a newer one is whole, a crash came before
    // `CURRENT` could name it. Without `CURRENT`, only the newest MANIFEST counts.
    let least = named.or(numbers.last().copied()).unwrap_or(0);
    if named.is_some_and(|named| !numbers.contains(&named)) {
        problems.push(format!("{}: no such file", dir.join(names::manifest_name(least)).display()));
    }
    for &number in numbers.iter().rev().filter(|&&number| number >= least) {
        let path = dir.join(names::manifest_name(number));
        match read_manifest(fs, &path, number) {
            Ok(recovered) => {
                if named != Some(number) {
                    problems.push(format!("{}: treated as the current one", path.display()));
                }
                return Ok(ListedTree::Whole(recovered));
            }
            Err(error) if error.is_damage() => problems.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    read_parts(fs, dir, numbers).map(ListedTree::Parts)
}

/// Reads what can be read of all MANIFESTs, oldest first.
pub(super) fn read_parts(fs: &dyn Fs, dir: &Path, mut numbers: Vec<u64>) -> Result<Parts> {
    numbers.sort_unstable();
    let mut parts = Parts::default();
    for number in numbers {
        parts.add(fs, &dir.join(names::manifest_name(number)), number)?;
    }
    Ok(parts)
}

impl Parts {
    /// Adds all edits of a MANIFEST that can be read.
    fn add(&mut self, fs: &dyn Fs, path: &Path, number: u64) -> Result<()> {
        let mut log = open_readable(fs, path, LogKind::Manifest, number)?;
        // A higher number may come from a stray file, and a database that continued it could soon
        // run out of numbers. If the file is a MANIFEST of this database, its edits state a number
        // too.
        if number <= MAX_UNKNOWN_NUMBER {
            self.next_file = self.next_file.max(number + 1);
        }
        if log.version() == Some(LogVersion::WithKeyspaces) {
            self.name_keyspace(1);
        }
        readable_records(&mut log, |record| {
            let is_first =
                record.payload_offset == (FILE_HEADER_BYTES + RECORD_HEADER_BYTES) as u64;
            if let Ok(edit) = VersionEdit::decode(record.payload) {
                self.apply(edit, is_first);
            }
        })
    }

    /// Notes that the database had a keyspace of this number, if not a larger one.
    fn name_keyspace(&mut self, id: KeyspaceId) {
        self.next_keyspace = self.next_keyspace.max(id.saturating_add(1));
    }

    fn apply(&mut self, edit: VersionEdit, is_whole_tree: bool) {
        if is_whole_tree {
            // A table of an older MANIFEST that this one does not list is obsolete, and so is a
            // keyspace.
            let lists = |number| edit.added.iter().any(|(_, meta)| meta.number == number);
            self.removed.extend(self.entered.keys().copied().filter(|&number| !lists(number)));
            let lists = |id| edit.created.iter().any(|record| record.id == id);
            self.dropped.extend(self.keyspaces.keys().copied().filter(|&id| !lists(id)));
        }
        if edit.names_keyspaces() {
            let created = edit.created.iter().map(|record| record.id);
            let of_tables = edit.added.iter().map(|(_, meta)| meta.keyspace);
            let named = created.chain(of_tables).chain(edit.dropped.iter().copied());
            self.name_keyspace(named.max().unwrap_or(0).max(1));
            self.next_keyspace = self.next_keyspace.max(edit.next_keyspace.unwrap_or(0));
        }
        for KeyspaceRecord { id, name, options } in edit.created {
            // The name was free, so an older keyspace of this name was dropped.
            let older =
                self.keyspaces.iter().filter(|(other, it)| **other != id && *it.name == *name);
            self.dropped.extend(older.map(|(&other, _)| other));
            let (name, options) = (name.into(), options.into());
            self.keyspaces.insert(id, RecoveredKeyspace { name, options });
        }
        self.dropped.extend(edit.dropped);
        self.keyspaces.retain(|id, _| !self.dropped.contains(id));
        let of_dropped = self.entered.values().filter(|it| self.dropped.contains(&it.keyspace));
        self.removed.extend(of_dropped.map(|meta| meta.number));
        for (_, number) in edit.removed {
            self.removed.insert(number);
        }
        for (_, meta) in edit.added {
            // An edit that moves a table to another level removes and adds it, so the table is not
            // obsolete.
            self.removed.remove(&meta.number);
            self.next_file = self.next_file.max(meta.number + 1);
            self.entered.insert(meta.number, meta);
        }
        self.next_file = self.next_file.max(edit.next_file.unwrap_or(0));
        self.flushed_sequence = self.flushed_sequence.max(edit.flushed_sequence.unwrap_or(0));
        self.oldest_wal = self.oldest_wal.max(edit.oldest_wal.unwrap_or(0));
        edit.skipped.iter().for_each(|&(first, last)| self.skipped.add(first, last));
        self.db_identity = edit.db_identity.or(self.db_identity.take());
    }
}

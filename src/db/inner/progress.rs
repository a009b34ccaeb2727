//! [`Progress`]: which writes are in tables, and which WALs hold the other writes.

use std::collections::BTreeMap;

use crate::encoding::key::SequenceNumber;
use crate::version::{
    FileMeta, KeyspaceId, KeyspaceRecord, Skipped, TableStore, Version, VersionEdit,
};

/// Which writes are in tables, and which WALs hold the other writes. It is part of the first record
/// of a new MANIFEST ([`whole_database`]).
#[derive(Default, Clone)]
pub(crate) struct Progress {
    /// Every write up to this number is in a table.
    pub flushed_sequence: SequenceNumber,
    /// A replay reads only the WALs from this number on.
    pub oldest_wal: u64,
    /// The WALs that are synced up to some length, and that length in bytes.
    pub durable_wals: BTreeMap<u64, u64>,
    /// Sequence numbers above `flushed_sequence` that are in no WAL: those of ingested tables.
    pub skipped: Skipped,
    /// By keyspace: every write of it up to this number, which is above `flushed_sequence`, is in a
    /// table, although it may be in a WAL that a replay reads.
    pub flushed: BTreeMap<KeyspaceId, SequenceNumber>,
}

impl Progress {
    pub fn after(&self, edit: &VersionEdit) -> Progress {
        let mut after = self.clone();
        after.oldest_wal = edit.oldest_wal.unwrap_or(0).max(self.oldest_wal);
        after.durable_wals.extend(edit.durable_wals.iter().copied());
        let flushed = edit.flushed_sequence.unwrap_or(0);
        after.flushed_sequence = self.flushed_sequence.max(flushed);
        for &(keyspace, flushed) in &edit.flushed {
            let known = after.flushed.entry(keyspace).or_default();
            *known = flushed.max(*known);
        }
        after.flushed.retain(|keyspace, _| !edit.dropped.contains(keyspace));
        edit.skipped.iter().for_each(|&(first, last)| after.skipped.add(first, last));
        after.settled()
    }

    /// Removes the entries of WALs and of skipped numbers that no replay needs any more. If the
    /// number after `flushed_sequence` is that of an ingested table, that number counts as flushed
    /// too, because no WAL holds the entries of the table.
    pub fn settled(mut self) -> Progress {
        self.durable_wals.retain(|&number, _| number >= self.oldest_wal);
        self.flushed_sequence = self.skipped.after(self.flushed_sequence);
        self.skipped.forget(self.flushed_sequence);
        self.flushed.retain(|_, flushed| *flushed > self.flushed_sequence);
        self
    }
}

/// The tables of one keyspace, as a MANIFEST lists them.
pub(crate) fn tables_of(
    keyspace: KeyspaceId,
    version: &Version,
) -> impl Iterator<Item = (usize, FileMeta)> {
    version.files().map(move |(level, file)| (level, FileMeta { keyspace, ..file.meta.clone() }))
}

/// The first record of a MANIFEST, which makes the database with these tables out of nothing.
/// `keyspaces`: those other than 0, and the number of the next new one.
pub(crate) fn whole_database(
    store: &TableStore,
    tables: Vec<(usize, FileMeta)>,
    keyspaces: (Vec<KeyspaceRecord>, Option<KeyspaceId>),
    progress: &Progress,
    next_file: u64,
) -> VersionEdit {
    let (created, next_keyspace) = keyspaces;
    VersionEdit {
        next_file: Some(next_file),
        flushed_sequence: Some(progress.flushed_sequence),
        oldest_wal: Some(progress.oldest_wal),
        added: tables,
        db_identity: Some(store.creator.db.clone()),
        durable_wals: progress.durable_wals.clone().into_iter().collect(),
        skipped: progress.skipped.ranges().collect(),
        created,
        flushed: progress.flushed.clone().into_iter().collect(),
        next_keyspace,
        ..VersionEdit::default()
    }
}

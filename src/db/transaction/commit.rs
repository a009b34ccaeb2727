//! The commit of a transaction: validation, then a write with a precondition.

use std::sync::Arc;

use super::own::OwnWrites;
use super::reads::ReadSet;
use super::validate::find_changed;
use crate::db::inner::Inner;
use crate::db::inner::writing::Requirement;
use crate::db::snapshot::Snapshot;
use crate::db::write::batch::WriteBatch;
use crate::db::write::durability::Durability;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::stats::Ticker;

/// How often the leader may answer "check again". Each time, only what was written since the last
/// check is searched, so more than two are rare. After that the commit leads itself.
pub(super) const MOST_ATTEMPTS: usize = 4;

/// While it lives, leaders note what they write ([`crate::db::write::recent`]).
pub(super) struct NotesWrites(Inner);

impl NotesWrites {
    pub fn begin(snapshot: &Snapshot) -> NotesWrites {
        snapshot.inner.database.writing.want_recent();
        NotesWrites(snapshot.inner.clone())
    }
}

impl Drop for NotesWrites {
    fn drop(&mut self) {
        self.0.database.writing.release_recent();
    }
}

/// What a transaction has read and written of one keyspace.
pub(super) struct Part {
    /// Lives until the commit has ended.
    pub snapshot: Snapshot,
    pub reads: ReadSet,
    pub writes: OwnWrites,
}

/// Writes what the parts write if no write after the snapshot has changed what they have read. All
/// parts have the same sequence number, and keyspaces of one database. `notes`: from some moment of
/// the transaction on, leaders have noted what they wrote.
pub(super) fn commit(
    parts: Vec<Part>,
    notes: Option<NotesWrites>,
    durability: Durability,
) -> Result<()> {
    let database = Arc::clone(&parts[0].snapshot.inner.database);
    if parts.iter().all(|part| part.writes.is_empty()) {
        // Also on a database that was opened read-only.
        return database.status.check_open();
    }
    let committed = commit_if_unchanged(parts, notes, durability);
    match &committed {
        Ok(()) => database.counters().add(Ticker::TransactionCommits, 1),
        Err(Error::Conflict(_)) => database.counters().add(Ticker::TransactionConflicts, 1),
        Err(_) => {}
    }
    committed
}

fn commit_if_unchanged(
    parts: Vec<Part>,
    mut notes: Option<NotesWrites>,
    durability: Durability,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    let is_one = parts.len() == 1;
    let (mut trees, mut reads) = (Vec::new(), Vec::new());
    let mut snapshots = Vec::new();
    for Part { snapshot, reads: of_part, writes } in parts {
        let inner = snapshot.inner.clone();
        inner.tree.check_exists()?;
        if !is_one {
            batch.aim(inner.database.number, inner.tree.id);
        }
        writes.add_to(&mut batch);
        reads.push((inner.tree.id, of_part.sorted()));
        trees.push(inner);
        snapshots.push(snapshot);
    }
    let (inner, snapshot, reads) = (&trees[0], &snapshots[0], Arc::new(reads));
    let validate = |since: SequenceNumber| {
        let mut checked_to = SequenceNumber::MAX;
        for (inner, (_, reads)) in trees.iter().zip(&*reads) {
            checked_to = checked_to.min(validate_tree(inner, reads, since)?);
        }
        Ok(checked_to)
    };
    let mut checked_to = snapshot.sequence();
    // Without a search, if the leader may know all that was written since the snapshot.
    let mut must_search = notes.is_none();
    for _ in 0..MOST_ATTEMPTS {
        if must_search {
            checked_to = validate(checked_to)?;
        }
        let requires = Requirement::UnchangedReads { reads: Arc::clone(&reads), checked_to };
        if inner.commit_if(batch.clone(), durability, requires)? {
            return Ok(());
        }
        notes.get_or_insert_with(|| NotesWrites::begin(snapshot));
        must_search = true;
    }
    inner.commit_leading(batch, durability, || validate(checked_to).map(drop))
}

/// Checks that no write after `since` has changed the reads, up to the last visible write. Returns
/// the number of that write.
fn validate_tree(inner: &Inner, reads: &ReadSet, since: SequenceNumber) -> Result<SequenceNumber> {
    inner.database.status.check_open()?;
    inner.tree.check_exists()?;
    if inner.database.sequences.visible() <= since {
        return Ok(since);
    }
    let point = inner.read_point(None);
    match find_changed(reads, &point, since)? {
        Some(conflict) => Err(Error::Conflict(conflict)),
        None => Ok(point.sequence),
    }
}

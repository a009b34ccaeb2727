//! The commit of a transaction: validation, then a write with a precondition.

use std::sync::Arc;

use super::own::OwnWrites;
use super::reads::ReadSet;
use super::validate::find_changed;
use crate::db::inner::Inner;
use crate::db::inner::writing::Requirement;
use crate::db::snapshot::Snapshot;
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

impl Snapshot {
    /// Writes `writes` if no write after the snapshot has changed `reads`. `notes`: from some moment
    /// of the transaction on, leaders have noted what they wrote.
    pub(super) fn commit(
        &self,
        writes: &OwnWrites,
        reads: ReadSet,
        notes: Option<NotesWrites>,
        durability: Durability,
    ) -> Result<()> {
        if writes.is_empty() {
            // Also on a database that was opened read-only.
            return self.inner.database.status.check_open();
        }
        let committed = self.commit_if_unchanged(writes, reads, notes, durability);
        let counters = self.inner.database.counters();
        match &committed {
            Ok(()) => counters.add(Ticker::TransactionCommits, 1),
            Err(Error::Conflict(_)) => counters.add(Ticker::TransactionConflicts, 1),
            Err(_) => {}
        }
        committed
    }

    fn commit_if_unchanged(
        &self,
        writes: &OwnWrites,
        reads: ReadSet,
        mut notes: Option<NotesWrites>,
        durability: Durability,
    ) -> Result<()> {
        let inner = &self.inner;
        let reads = Arc::new(reads.sorted());
        let mut checked_to = self.sequence();
        // Without a search, if the leader may know all that was written since the snapshot.
        let mut must_search = notes.is_none();
        for _ in 0..MOST_ATTEMPTS {
            if must_search {
                checked_to = inner.validate(&reads, checked_to)?;
            }
            let requires = Requirement::UnchangedReads { reads: Arc::clone(&reads), checked_to };
            if inner.commit_if(writes.to_batch(), durability, requires)? {
                return Ok(());
            }
            notes.get_or_insert_with(|| NotesWrites::begin(self));
            must_search = true;
        }
        inner.commit_leading(writes.to_batch(), durability, || {
            inner.validate(&reads, checked_to).map(drop)
        })
    }
}

impl Inner {
    /// Checks that no write after `since` has changed the reads, up to the last visible write. Returns
    /// the number of that write.
    fn validate(&self, reads: &ReadSet, since: SequenceNumber) -> Result<SequenceNumber> {
        self.database.status.check_open()?;
        if self.database.sequences.visible() <= since {
            return Ok(since);
        }
        let point = self.read_point(None);
        match find_changed(reads, &point, since)? {
            Some(conflict) => Err(Error::Conflict(conflict)),
            None => Ok(point.sequence),
        }
    }
}

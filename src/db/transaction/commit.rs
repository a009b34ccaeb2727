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

impl Snapshot {
    /// Writes `writes` if no write after the snapshot has changed `reads`.
    pub(super) fn commit(
        &self,
        writes: &OwnWrites,
        reads: ReadSet,
        durability: Durability,
    ) -> Result<()> {
        if writes.is_empty() {
            return self.inner.commit(writes.to_batch(), durability);
        }
        let committed = self.inner.commit_if_unchanged(writes, reads, self.sequence(), durability);
        let counters = self.inner.database.counters();
        match &committed {
            Ok(()) => counters.add(Ticker::TransactionCommits, 1),
            Err(Error::Conflict(_)) => counters.add(Ticker::TransactionConflicts, 1),
            Err(_) => {}
        }
        committed
    }
}

impl Inner {
    fn commit_if_unchanged(
        &self,
        writes: &OwnWrites,
        reads: ReadSet,
        snapshot: SequenceNumber,
        durability: Durability,
    ) -> Result<()> {
        let reads = Arc::new(reads.sorted());
        let mut checked_to = snapshot;
        let mut noting = None;
        for _ in 0..MOST_ATTEMPTS {
            checked_to = self.validate(&reads, checked_to)?;
            let requires = Requirement::UnchangedReads { reads: Arc::clone(&reads), checked_to };
            if self.commit_if(writes.to_batch(), durability, requires)? {
                return Ok(());
            }
            // From now on the leaders note what they write.
            noting.get_or_insert_with(|| self.database.writing.want_recent());
        }
        self.commit_leading(writes.to_batch(), durability, || {
            self.validate(&reads, checked_to).map(drop)
        })
    }

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

//! [`KeyspaceStats`]: the sums of one keyspace, among the statistics of `default`.

use std::fmt;

use super::size::{bytes, percent};
use crate::encoding::text::escape;
use crate::stats::FileCounts;

/// So many keyspaces are named. A database may have ten thousand.
pub(in crate::db) const MOST_NAMED: usize = 100;

/// What a keyspace holds, and what lookups counted in its tables; see
/// [`Stats::keyspaces`](crate::Stats::keyspaces).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// let events = db.keyspace("events")?;
/// events.put("1", "user 7 came")?;
/// events.flush()?;
/// let stats = db.stats();
/// assert_eq!((&stats.keyspaces[0].name[..], stats.keyspaces[0].entries), (&b"events"[..], 1));
/// assert_eq!(events.stats().files.len(), 1);
/// # Ok::<(), maypole::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name; empty if these are the sums of several keyspaces that are not named.
    pub name: Vec<u8>,
    /// How many keyspaces these are the sums of: 1 for one that is named.
    pub keyspaces: usize,
    /// The number of tables.
    pub files: usize,
    /// Bytes of the tables.
    pub file_bytes: u64,
    /// Entries in the tables, tombstones and old versions included.
    pub entries: u64,
    /// Stored bytes of the tables' filters.
    pub filter_bytes: u64,
    /// Bytes of the memtables.
    pub memtable_bytes: u64,
    /// What lookups counted in the tables, obsolete ones included.
    pub counts: FileCounts,
}

impl KeyspaceStats {
    /// How busy the keyspace is: the tables that a filter saved a lookup from, and the data blocks
    /// that lookups searched. Lookups that a memtable answered are not counted by keyspace.
    pub(super) fn searches(&self) -> u64 {
        self.counts.filter.useful + self.counts.data_blocks_examined
    }

    /// The sums of both, without a name.
    pub(super) fn with(&self, other: &KeyspaceStats) -> KeyspaceStats {
        KeyspaceStats {
            name: Vec::new(),
            keyspaces: self.keyspaces + other.keyspaces,
            files: self.files + other.files,
            file_bytes: self.file_bytes + other.file_bytes,
            entries: self.entries + other.entries,
            filter_bytes: self.filter_bytes + other.filter_bytes,
            memtable_bytes: self.memtable_bytes + other.memtable_bytes,
            counts: self.counts + other.counts,
        }
    }

    /// A table of keyspaces, if there are any.
    pub(super) fn write_table(
        keyspaces: &[KeyspaceStats],
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        if keyspaces.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nOther keyspaces\n tables       size      entries  memtables    filters  observed       \
             useful full positive  name"
        )?;
        for of in keyspaces {
            let filter = of.counts.filter;
            writeln!(
                f,
                "{:>7} {:>10} {:>12} {:>10} {:>10} {:>9} {:>12} {:>13}  {of}",
                of.files,
                bytes(of.file_bytes),
                of.entries,
                bytes(of.memtable_bytes),
                bytes(of.filter_bytes),
                percent(filter.observed_fpr()),
                filter.useful,
                filter.full_positive,
            )?;
        }
        Ok(())
    }
}

/// The name, in which `\xNN` stands for a byte, or how many keyspaces these are.
impl fmt::Display for KeyspaceStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.is_empty() {
            true => write!(f, "and {} more", self.keyspaces),
            false => f.write_str(&escape(&self.name)),
        }
    }
}

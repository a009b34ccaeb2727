//! What a repair found, did, and could not bring back.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;

use crate::db::inner::trees::DEFAULT_NAME;
use crate::encoding::text::escape;

/// What [`Db::repair`](crate::Db::repair) found and did. `Display` prints it as a report.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # maypole::Db::open(dir.path())?.put("key", "value")?;
/// let report = maypole::Db::repair(dir.path())?;
/// assert!(!report.changed, "nothing was wrong");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether anything was changed. If nothing was, every byte was read and is sound.
    pub changed: bool,
    /// The number of tables of the database after the repair.
    pub tables: usize,
    /// The number of entries and range deletions in these tables, old versions included.
    pub entries: u64,
    /// Whether deleted keys may be back. This is so if no MANIFEST described the tree, because
    /// obsolete tables that a crash left over may then have been merged.
    pub deleted_keys_may_return: bool,
    /// What was wrong and what was done about it, one line each.
    pub problems: Vec<String>,
    /// One line for each table with entries of a kind that this build does not understand, such as
    /// merge operands. These entries were kept, with all older versions of their keys. A read that
    /// finds such an entry as the newest version of its key is an error.
    pub not_understood: Vec<String>,
    /// What could not be read. If this is empty and `deleted_keys_may_return` is false, every key
    /// has its last value.
    pub losses: Vec<Loss>,
    /// The new paths of the files that are no longer part of the database.
    pub moved: Vec<PathBuf>,
}

/// A part of the database that could not be read. Its keys may be missing, have an older value, or
/// be there again though they were deleted.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # maypole::Db::open(dir.path())?.put("key", "value")?;
/// let report = maypole::Db::repair(dir.path())?;
/// let is_sure = !report.losses.iter().any(|loss| loss.concerns(b"key"));
/// # assert!(is_sure);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The damaged file, by its name before the repair.
    pub file: PathBuf,
    /// Offset of the damage in the file.
    pub offset: u64,
    /// How many bytes of the file are lost. 0 if the loss is not a range of bytes, for example if a
    /// table is missing.
    pub bytes: u64,
    /// The name of the keyspace whose keys may be concerned; `None`: keys of any keyspace.
    pub keyspace: Option<Vec<u8>>,
    /// The first key that may be concerned.
    pub from: Bound<Vec<u8>>,
    /// The last key that may be concerned.
    pub to: Bound<Vec<u8>>,
    /// What the lost bytes were.
    pub what: String,
}

impl Loss {
    /// Whether a key of the keyspace may be concerned.
    pub fn concerns(&self, key: &[u8]) -> bool {
        let bounds = [&self.from, &self.to].map(|bound| bound.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&<(Bound<_>, Bound<_>)>::from(bounds), key)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)?;
        if self.bytes > 0 {
            write!(f, ", {} bytes at offset {}", self.bytes, self.offset)?;
        }
        write!(f, ": keys ")?;
        if let Some(name) = self.keyspace.as_ref().filter(|name| *name != DEFAULT_NAME) {
            write!(f, "of keyspace \"{}\" ", escape(name))?;
        }
        match &self.from {
            Bound::Unbounded => write!(f, "from the first")?,
            Bound::Included(key) => write!(f, "from \"{}\"", key.escape_ascii())?,
            Bound::Excluded(key) => write!(f, "after \"{}\"", key.escape_ascii())?,
        }
        match &self.to {
            Bound::Unbounded => write!(f, " to the last"),
            Bound::Included(key) => write!(f, " to \"{}\"", key.escape_ascii()),
            Bound::Excluded(key) => write!(f, " to before \"{}\"", key.escape_ascii()),
        }
    }
}

impl RepairReport {
    /// The numbers of tables and entries as text.
    fn holds(&self) -> String {
        let tables = if self.tables == 1 { "table" } else { "tables" };
        let entries = if self.entries == 1 { "entry" } else { "entries" };
        format!("{} {tables}, {} {entries}", self.tables, self.entries)
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.changed {
            writeln!(f, "sound: {}; nothing was changed", self.holds())?;
            return self.not_understood.iter().try_for_each(|line| writeln!(f, "{line}"));
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        match self.losses.as_slice() {
            [] => writeln!(f, "lost: nothing")?,
            losses => {
                writeln!(
                    f,
                    "lost: keys in these ranges may be missing or old, and deleted keys may be back"
                )?;
                losses.iter().try_for_each(|loss| writeln!(f, "  {loss}"))?;
            }
        }
        if self.deleted_keys_may_return {
            writeln!(
                f,
                "deleted keys may be back: no MANIFEST says which tables had left the tree"
            )?;
        }
        self.not_understood.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "the database has {}", self.holds())?;
        self.moved.iter().try_for_each(|path| writeln!(f, "moved to {}", path.display()))
    }
}

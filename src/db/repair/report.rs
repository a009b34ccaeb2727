//! What a repair found, did, and could not bring back.

use std::fmt;
use std::ops::Bound;
use std::path::PathBuf;

/// What [`Db::repair`](crate::Db::repair) found and did. `Display` prints it as a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether anything was changed. `false`: the database is sound, every byte of it was read.
    pub changed: bool,
    /// Tables of the database, now.
    pub tables: usize,
    /// Entries and range deletions in them, old versions included.
    pub entries: u64,
    /// Whether keys that were deleted may be there again: no MANIFEST told which tables had left the
    /// tree, so tables count that a crash may have left over.
    pub deleted_keys_may_return: bool,
    /// What was wrong, and what became of it, one line each.
    pub problems: Vec<String>,
    /// What could not be brought back. Empty: every key has its last value.
    pub losses: Vec<Loss>,
    /// Files that are no longer part of the database, where they are now.
    pub moved: Vec<PathBuf>,
}

/// A part of the database that could not be read. Keys in it may be missing, have an older value, or
/// be there again though they were deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The damaged file, by the name it had.
    pub file: PathBuf,
    /// Where in it the damage begins.
    pub offset: u64,
    /// How many bytes of it are lost.
    pub bytes: u64,
    /// The first of the keys that are concerned.
    pub from: Bound<Vec<u8>>,
    /// The last of them.
    pub to: Bound<Vec<u8>>,
    /// What it was.
    pub what: String,
}

impl Loss {
    /// Whether a key may be concerned.
    pub fn concerns(&self, key: &[u8]) -> bool {
        let from = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
        };
        let to = match &self.to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
        };
        from && to
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)?;
        if self.bytes > 0 {
            write!(f, ", {} bytes at offset {}", self.bytes, self.offset)?;
        }
        write!(f, ": keys ")?;
        match &self.from {
            Bound::Unbounded => write!(f, "from the first")?,
            Bound::Included(key) => write!(f, "from \"{}\"", key.escape_ascii())?,
            Bound::Excluded(key) => write!(f, "behind \"{}\"", key.escape_ascii())?,
        }
        match &self.to {
            Bound::Unbounded => write!(f, " to the last"),
            Bound::Included(key) => write!(f, " to \"{}\"", key.escape_ascii()),
            Bound::Excluded(key) => write!(f, " to before \"{}\"", key.escape_ascii()),
        }
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.changed {
            let (tables, entries) = (self.tables, self.entries);
            return writeln!(f, "sound: {tables} tables, {entries} entries; nothing was changed");
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        match self.losses.as_slice() {
            [] => writeln!(f, "lost: nothing")?,
            losses => {
                writeln!(
                    f,
                    "lost: keys in these ranges may be missing, old, or deleted ones back"
                )?;
                losses.iter().try_for_each(|loss| writeln!(f, "  {loss}"))?;
            }
        }
        if self.deleted_keys_may_return {
            writeln!(
                f,
                "deleted keys may be there again: no MANIFEST tells which tables had left the tree"
            )?;
        }
        writeln!(f, "the database has {} tables, {} entries", self.tables, self.entries)?;
        self.moved.iter().try_for_each(|path| writeln!(f, "moved to {}", path.display()))
    }
}

//! A directory of RocksDB's: which files count, what is in the MANIFEST and in the write-ahead
//! logs, what OPTIONS asks for; and the files that make a new one of tables.
//!
//! ```text
//! directory   CURRENT ─► MANIFEST ─► files that count          Directory
//! manifest    version edits ─► column families and tables      Manifest, Family
//! edit        one version edit                                 Edit, ListedTable
//! log         the record log that MANIFEST and WAL are         RecordLog
//! batch       a write batch, the payload of a WAL's record     Batch, Operation
//! replay      WALs ─► operations in order                      replay_logs
//! options     the text of OPTIONS                              OptionsText
//! write       a new MANIFEST, CURRENT, IDENTITY, OPTIONS       NewDatabase, LogBytes
//! ```
//!
//! Invariants:
//!
//! - Only `write` writes, to a directory without a database. No file is locked, and none is opened
//!   twice for what one reading gives.
//! - Bytes from disk are input. They are refused, never asserted, and no read allocates more than
//!   the file has (for a compressed record: what its bytes can stand for, and a window of 8 MiB).
//! - What this build does not understand is [`Error::Unsupported`] and names itself. What the
//!   format does not allow is [`Error::Corruption`].
//!
//! Absent: tables (`table/` reads them), what an operation means (memtables and lookups know),
//! changes of a directory that is there, and WALs that are written.

mod batch;
pub(crate) mod directory;
mod edit;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod log;
mod manifest;
mod options;
mod replay;
mod write;

use std::path::Path;

pub(crate) use directory::Directory;
pub(crate) use edit::ListedTable;
pub(crate) use manifest::{Family, Manifest};
pub(crate) use options::OptionsText;
pub(crate) use replay::{LogEntry, replay_logs};
pub(crate) use write::{NewDatabase, is_rocksdbs_own};

use crate::error::{Damage, Error};

/// Why bytes cannot be used, said by a decoder that knows no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// They are not what the format says.
    Damage(Damage),
    /// They are well formed and ask for what this build does not have: a noun phrase.
    Unsupported(String),
}

impl From<Damage> for Refusal {
    fn from(damage: Damage) -> Refusal {
        Refusal::Damage(damage)
    }
}

impl Refusal {
    /// Adds the file, and the offset of the decoded bytes in it.
    pub fn in_file(self, file: &Path, offset: u64) -> Error {
        match self {
            Refusal::Damage(damage) => damage.in_file(file, offset),
            Refusal::Unsupported(what) => Error::Unsupported {
                file: file.to_owned(),
                what: format!("{what}, at offset {offset}"),
            },
        }
    }
}

pub(super) fn unsupported(what: impl Into<String>) -> Refusal {
    Refusal::Unsupported(what.into())
}

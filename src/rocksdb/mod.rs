//! Reads a RocksDB directory: which files are current, and the contents of MANIFEST, write-ahead
//! logs and OPTIONS. Also writes the files that turn tables into a new database.
//!
//! ```text
//! directory   CURRENT ─► MANIFEST ─► current files             Directory
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
//! - Only `write` writes files, and only into a directory without a database. Reading takes no lock
//!   on a file, so RocksDB may write at the same time. [`Directory::has_changed`] detects this.
//! - Invalid bytes from disk never cause a panic. No read allocates more bytes than the file has,
//!   except for a compressed record. For such a record, a read allocates at most the size to which
//!   the record's bytes can expand, and 8 MiB for the decompression's window.
//! - A feature that this build does not understand is [`Error::Unsupported`], which names it.
//!   Content that the format does not allow is [`Error::Corruption`].
//!
//! Absent on purpose: reading tables (`table/` does that), applying the logged operations to keys
//! (memtables and lookups do that), changes to existing databases, and writing WALs.

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

pub(crate) use batch::Operation;
pub(crate) use directory::Directory;
pub(crate) use edit::ListedTable;
pub(crate) use manifest::{Family, Manifest};
pub(crate) use options::OptionsText;
pub(crate) use replay::replay_logs;
pub(crate) use write::{NewDatabase, NewFamily, is_rocksdbs_own};

use crate::error::{Damage, Error};

/// Why a decoder, which does not know the file, cannot use some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The bytes violate the format.
    Damage(Damage),
    /// The bytes are well formed, but need a feature that this build does not have. The string
    /// names it by a noun phrase.
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

//! Errors that carry evidence: which file, which offset, what was expected, what was found.
//!
//! Two kinds, because two kinds of code fail. A decoder sees bytes and knows no file: it answers
//! `Damage`. Whoever opened the file adds its name and the place where the bytes began, which
//! makes an [`Error`]. Every [`Error`] prints on one line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// The result of every fallible public call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and where. Cheap to clone, so that a background failure can be reported to
/// every later caller.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused `operation` on `path`.
    #[error("{path}: cannot {operation}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// A verb phrase: "open", "read", "sync", …
        operation: &'static str,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what their format says. The file is named; the rest of the
    /// database stays readable.
    #[error("{file}: damaged at offset {offset}: expected {expected}, found {found}", file = file.display())]
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Byte offset of the first byte that is wrong, as near as can be told.
        offset: u64,
        /// What the format asks for.
        expected: String,
        /// What is there instead.
        found: String,
    },
    /// The file is well formed, but needs something this build cannot do.
    #[error("{file}: not supported: {what}", file = file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The feature that is missing, and what to do about it.
        what: String,
    },
    /// An option or an argument is out of its range; nothing was changed.
    #[error("{0}")]
    InvalidArgument(String),
    /// Another `Db`, in this process or another one, has the directory open.
    #[error("{path}: the database is already open elsewhere", path = path.display())]
    Locked {
        /// The database directory.
        path: PathBuf,
    },
    /// An earlier failure made the database read-only. What was durable stays readable.
    #[error("the database is read-only after an earlier failure: {0}")]
    ReadOnly(Arc<Error>),
    /// The database was opened to be read only, by [`Builder::open_read_only`](crate::Builder::open_read_only).
    #[error("the database was opened read-only")]
    OpenedReadOnly,
    /// Work in the background panicked: a bug, here or in what was plugged in, such as a file system.
    /// The message is the panic's. Open the database again to go on.
    #[error("work in the background panicked: {0}")]
    Panicked(String),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
}

impl Error {
    /// An operating system error with the path and what was being done to it.
    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), operation, source: Arc::new(source) }
    }

    /// The same, about the file `known` where it is about `own`, a copy of it that is gone.
    pub(crate) fn in_place_of(mut self, own: &Path, known: &Path) -> Error {
        match &mut self {
            Error::Io { path: file, .. }
            | Error::Corruption { file, .. }
            | Error::Unsupported { file, .. }
                if file == own =>
            {
                *file = known.to_owned();
            }
            Error::InvalidArgument(message) => {
                let (own, known) = (own.display().to_string(), known.display().to_string());
                *message = message.replace(&own, &known);
            }
            _ => {}
        }
        self
    }

    /// Whether room was missing: on the device, in a quota, or under the limit of a file's size.
    /// Nothing is in doubt then, and the same call may succeed when there is room again.
    ///
    /// A failed sync is never of this kind, whatever its reason: what it was to make durable may be
    /// lost, and no second sync tells.
    pub fn is_out_of_space(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Error::Io { operation, source, .. } => {
                !operation.starts_with("sync")
                    && matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            }
            Error::ReadOnly(cause) => cause.is_out_of_space(),
            _ => false,
        }
    }
}

/// Bytes that are not what their format says, seen by a decoder that knows no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Byte offset within the buffer that was decoded.
    pub offset: u64,
    pub expected: String,
    pub found: String,
}

impl Damage {
    pub fn new(offset: usize, expected: impl fmt::Display, found: impl fmt::Display) -> Damage {
        Damage { offset: offset as u64, expected: expected.to_string(), found: found.to_string() }
    }

    /// The same, in a buffer in which the decoded one begins at `start`.
    pub fn moved_by(self, start: usize) -> Damage {
        Damage { offset: self.offset.saturating_add(start as u64), ..self }
    }

    /// Names the file, and where in it the decoded buffer began.
    pub fn in_file(self, file: &Path, buffer_offset: u64) -> Error {
        Error::Corruption {
            file: file.to_owned(),
            offset: buffer_offset.saturating_add(self.offset),
            expected: self.expected,
            found: self.found,
        }
    }
}

//! Errors that carry evidence: which file, which offset, what was expected, what was found.
//!
//! There are two kinds. A decoder sees bytes and knows no file, so it returns `Damage`. The code
//! that opened the file adds its name and the offset of the bytes, which makes an [`Error`]. Every
//! [`Error`] prints on one line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// The result of every fallible public call.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::Db;
///
/// fn visits(db: &Db, page: &str) -> maypole::Result<usize> {
///     Ok(db.get(page)?.map_or(0, |value| value.len()))
/// }
///
/// let db = Db::open(dir.path())?;
/// db.put("/index", "|||")?;
/// assert_eq!((visits(&db, "/index")?, visits(&db, "/none")?), (3, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and where. A clone is cheap, so that every call after a failed flush or
/// compaction can return the same failure.
///
/// ```
/// use maypole::{Db, Error};
///
/// # let dir = tempfile::tempdir()?;
/// let missing = Db::builder(dir.path().join("none")).create_if_missing(false).open();
/// match missing {
///     Err(Error::NoDatabase { path }) => println!("nothing in {}", path.display()),
///     Err(error) if error.is_out_of_space() => println!("free some space: {error}"),
///     Err(error) => return Err(error.into()),
///     Ok(_) => unreachable!(),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system returned an error for `operation` on `path`.
    #[error("{}", io_text(path, operation, source))]
    Io {
        /// The file or directory. Empty in an error that was converted from an [`io::Error`].
        path: PathBuf,
        /// A verb phrase: "open", "read", "sync", … Empty if `path` is empty.
        operation: &'static str,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// Damage: bytes on disk are not what their format says. The rest of the database stays
    /// readable. [`Db::repair`](crate::Db::repair) helps if the database cannot be opened.
    #[error("{file}: damaged at offset {offset}: expected {expected}, found {found}", file = file.display())]
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Offset of the first wrong byte, as exactly as it is known.
        offset: u64,
        /// What the format requires.
        expected: String,
        /// What is there instead.
        found: String,
    },
    /// The file is well formed, but needs something that this build cannot do.
    #[error("{file}: not supported: {what}", file = file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The feature that is missing, and what to do about it.
        what: String,
    },
    /// An option or an argument is out of its range. Nothing was changed.
    #[error("{0}")]
    InvalidArgument(String),
    /// The directory has no database or does not exist, and the call does not create one.
    #[error("{path}: there is no database here", path = path.display())]
    NoDatabase {
        /// The directory.
        path: PathBuf,
    },
    /// Another `Db`, in this process or another one, has the directory open.
    #[error("{path}: the database is already open elsewhere", path = path.display())]
    Locked {
        /// The database directory.
        path: PathBuf,
    },
    /// An earlier failure made the database read-only. Reads continue. To write, open the database
    /// again, which recovers the durable data.
    #[error("the database is read-only after an earlier failure: {0}")]
    ReadOnly(Arc<Error>),
    /// The call would write, but the database was opened by
    /// [`Builder::open_read_only`](crate::Builder::open_read_only) or
    /// [`RocksDb::open_read_only`](crate::RocksDb::open_read_only).
    #[error("the database was opened read-only")]
    OpenedReadOnly,
    /// A flush, a compaction or a write of another thread panicked, with this message. The panic is
    /// a bug, in Maypole or in the caller's [`Fs`](crate::fs::Fs). The database is read-only from
    /// then on. To write, open it again.
    #[error("work for the database panicked: {0}")]
    Panicked(String),
    /// The keyspace was dropped ([`Db::drop_keyspace`](crate::Db::drop_keyspace)), so nothing can be
    /// written to it. Handles, snapshots and iterators that there are can still read it.
    #[error("the keyspace was dropped: {0}")]
    KeyspaceDropped(String),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// A transaction was not committed, because something that it had read was written since, even if
    /// with the same value. Nothing was written by the transaction. Run the transaction again, as [`Db::transact`](crate::Db::transact) does.
    #[error("the transaction conflicts with a later write: {0} was written since it was read")]
    Conflict(Conflict),
    /// The object was created by the parent of this process, before a `fork`. It belongs to the
    /// parent alone: in the child every call that can fail returns this error, and a drop does
    /// nothing. The parent is not affected by its child. The child may open other databases, and
    /// also this database once the parent has closed it.
    #[error(
        "it was opened by the parent of this process: a forked child must open databases of its own"
    )]
    Forked,
}

/// What a transaction had read and another call has written since; see [`Error::Conflict`].
#[derive(Clone, PartialEq, Eq)]
pub enum Conflict {
    /// The value of this key, or that the key had none.
    Key(Vec<u8>),
    /// The entries from `start` (inclusive) to `end` (exclusive; `None`: to the last of all keys).
    Range {
        /// The first key of the range.
        start: Vec<u8>,
        /// The first key after the range.
        end: Option<Vec<u8>>,
    },
}

/// Like the `Display`, because lists of numbers are hard to read as keys.
impl fmt::Debug for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Key(key) => write!(f, "the key \"{}\"", key.escape_ascii()),
            Conflict::Range { start, end: None } => {
                write!(f, "the range from \"{}\" on", start.escape_ascii())
            }
            Conflict::Range { start, end: Some(end) } => {
                let (start, end) = (start.escape_ascii(), end.escape_ascii());
                write!(f, "the range from \"{start}\" to \"{end}\"")
            }
        }
    }
}

impl Error {
    /// An operating system error, with the path and the operation on it.
    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), operation, source: Arc::new(source) }
    }

    /// Replaces the name `own` in an error by `known`. The error is about a temporary copy, `own`,
    /// which was deleted; `known` is the file that was copied.
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

    /// Whether the error is that a file is damaged or missing. A repair can mend either. Opening
    /// read-only may also meet this error for a moment, while the writer of the database replaces
    /// files.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Error::Corruption { .. } => true,
            Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether the cause was a lack of space: on the device, in a quota, or because a file reached
    /// its size limit. If so, the failed write has certainly not happened, and the same call may
    /// succeed once there is space again.
    ///
    /// Returns `false` for every failed sync, even one that failed for lack of space. Such a sync
    /// may have lost bytes. A second sync may succeed without them, so a failed sync must not be
    /// tried again.
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

    /// Whether the failed call has certainly changed nothing, so that the work that made the call
    /// may be tried again:
    ///
    /// ```text
    ///   the call                failed because of          may be tried again
    ///   a sync                  anything                   no: it may have lost bytes
    ///   a read, an opening      anything                   yes
    ///   a write, a creation, …  no space                   yes
    ///   a write, a creation     no descriptors, no memory  yes
    ///   any other               anything else              no
    /// ```
    ///
    /// A write that has failed in this way may have left a part of its bytes in the file. So the
    /// file must get no further bytes: a table is discarded, and a log ends before the failed
    /// record.
    pub(crate) fn changed_nothing(&self) -> bool {
        let Error::Io { operation, source, .. } = self else {
            return matches!(self, Error::KeyspaceDropped(_));
        };
        self.is_out_of_space()
            || READING.contains(operation)
            || (WRITING.contains(operation) && is_exhaustion(source))
    }

    /// The file that could not be read: it is damaged, or the system returned an error for the
    /// file itself, rather than because something was used up that has nothing to do with the file.
    pub(crate) fn unreadable_file(&self) -> Option<&Path> {
        match self {
            Error::Corruption { file, .. } => Some(file),
            Error::Io { path, operation, source } => {
                (READING.contains(operation) && !is_exhaustion(source)).then_some(path)
            }
            _ => None,
        }
    }
}

/// The operations of [`Error::Io`] that change no file.
const READING: &[&str] = &["open", "open again", "read", "list", "look up", "get memory to read"];

/// The operations of [`Error::Io`] that create a file or write to one. No sync is among them.
const WRITING: &[&str] = &["create", "write"];

/// Whether a call failed because something was used up or because it was interrupted, so that it
/// may soon succeed: descriptors, memory, threads.
fn is_exhaustion(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, WouldBlock};
    lacks_descriptors(error) || matches!(error.kind(), OutOfMemory | Interrupted | WouldBlock)
}

/// Whether the process or the system has no descriptor left.
pub(crate) fn lacks_descriptors(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}

/// The error codes if the process or the system has no descriptor left: EMFILE and ENFILE.
#[cfg(unix)]
pub(crate) const NO_DESCRIPTORS: &[i32] =
    &[rustix::io::Errno::MFILE.raw_os_error(), rustix::io::Errno::NFILE.raw_os_error()];
/// The error code if the process has no handle left: ERROR_TOO_MANY_OPEN_FILES.
#[cfg(windows)]
pub(crate) const NO_DESCRIPTORS: &[i32] = &[4];

/// Lets a caller's function that returns this crate's [`Result`] use `?` on an [`io::Error`] of its
/// own. The resulting error names no file, whereas Maypole's own errors do.
impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        Error::io(Path::new(""), "", source)
    }
}

fn io_text(path: &Path, operation: &str, source: &io::Error) -> String {
    match path.as_os_str().is_empty() && operation.is_empty() {
        true => source.to_string(),
        false => format!("{}: cannot {operation}: {source}", path.display()),
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

    /// The same damage with its offset in a larger buffer, in which the decoded buffer begins at
    /// `start`.
    pub fn moved_by(self, start: usize) -> Damage {
        Damage { offset: self.offset.saturating_add(start as u64), ..self }
    }

    /// The error that names the file, for a decoded buffer that begins at `buffer_offset` in the
    /// file.
    pub fn in_file(self, file: &Path, buffer_offset: u64) -> Error {
        Error::Corruption {
            file: file.to_owned(),
            offset: buffer_offset.saturating_add(self.offset),
            expected: self.expected,
            found: self.found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: every error but a lack of space made the database read-only, also one that had
    /// changed nothing, such as a moment without descriptors or one failed read.
    #[test]
    fn what_has_changed_nothing_may_be_tried_again_and_a_sync_never() {
        let no_descriptor = || io::Error::from_raw_os_error(NO_DESCRIPTORS[0]);
        let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let no_space = || io::Error::from(io::ErrorKind::StorageFull);
        let device = || io::Error::other("the device fails");
        let of = |operation, source| Error::io(Path::new("a"), operation, source);
        for sync in ["sync", "sync the directory"] {
            for source in [no_descriptor(), no_memory(), no_space(), device()] {
                assert!(!of(sync, source).changed_nothing(), "{sync}");
            }
        }
        for reading in READING {
            assert!(of(reading, device()).changed_nothing(), "{reading}");
            assert!(of(reading, device()).unreadable_file().is_some(), "{reading}");
            assert!(of(reading, no_descriptor()).unreadable_file().is_none(), "{reading}");
        }
        for writing in WRITING {
            for source in [no_descriptor(), no_memory(), no_space()] {
                assert!(of(writing, source).changed_nothing(), "{writing}");
            }
            assert!(!of(writing, device()).changed_nothing(), "{writing}");
            assert!(of(writing, device()).unreadable_file().is_none(), "{writing}");
        }
        // A rename may have happened although it reports an error.
        assert!(!of("rename", no_memory()).changed_nothing());
        assert!(of("rename", no_space()).changed_nothing());
        // An error of a caller's file system that does not say what failed.
        assert!(!Error::from(no_memory()).changed_nothing());
    }
}

//! Limits of the operating system for this process: open files, and the length of a file.

use std::io;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};

/// How many descriptors this process may have; `u64::MAX` without a limit.
///
/// ```
/// let limit = maypole::fs::open_files_limit();
/// assert!(limit.soft <= limit.hard);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// What the system enforces.
    pub soft: u64,
    /// How far the process may raise the soft limit.
    pub hard: u64,
}

impl From<Rlimit> for OpenFilesLimit {
    fn from(limit: Rlimit) -> OpenFilesLimit {
        let or_none = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        OpenFilesLimit { soft: or_none(limit.current), hard: or_none(limit.maximum) }
    }
}

/// How many descriptors this process may have.
pub fn open_files_limit() -> OpenFilesLimit {
    getrlimit(Resource::Nofile).into()
}

/// Raises the soft limit to the hard one, for the whole process, and answers the limits after that.
/// If the system refuses, they do not change.
///
/// Not for programs that call `select`, which cannot handle descriptors from 1024 on.
pub fn raise_open_files_limit() -> OpenFilesLimit {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    open_files_limit()
}

/// Refuses to make a file longer than the process may. The system would return the same error, but
/// send SIGXFSZ first, which ends the process.
pub(super) fn check_file_length(path: &Path, bytes: u64) -> Result<()> {
    match longest_file_bytes() {
        Some(most) if bytes > most => {
            let error = io::Error::from(rustix::io::Errno::FBIG);
            Err(Error::io(path, "write", error))
        }
        _ => Ok(()),
    }
}

/// How many bytes a file may have; `None` without a limit. Asked each time: the limit may change,
/// and the call takes less than a tenth of a `write`.
pub(super) fn longest_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

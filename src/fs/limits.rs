//! Limits of the operating system for this process: open files, and the length of a file.

use std::path::Path;

use super::system;
use crate::error::{Error, Result};

/// The limits on the number of descriptors of this process; `u64::MAX` means no limit.
///
/// ```
/// let limit = maypole::fs::open_files_limit();
/// assert!(limit.soft <= limit.hard);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// The limit that the system enforces.
    pub soft: u64,
    /// The highest value to which the process may raise the soft limit.
    pub hard: u64,
}

/// The number of descriptors that this process may have.
pub fn open_files_limit() -> OpenFilesLimit {
    let (soft, hard) = system::open_files_limits();
    OpenFilesLimit { soft, hard }
}

/// Raises the soft limit to the hard limit, for the whole process. Returns the limits after the
/// call, which are unchanged if the system refuses.
///
/// Do not call this in a program that uses `select`, which cannot handle descriptors from 1024 on.
pub fn raise_open_files_limit() -> OpenFilesLimit {
    system::raise_open_files_limit();
    open_files_limit()
}

/// Returns an error if the process may not make a file this long. The system would return the same
/// error, but would first send SIGXFSZ, which ends the process.
pub(super) fn check_file_length(path: &Path, bytes: u64) -> Result<()> {
    match system::longest_file_bytes() {
        Some(most) if bytes > most => Err(Error::io(path, "write", system::file_too_long())),
        _ => Ok(()),
    }
}

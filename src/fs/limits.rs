//! The limits that the operating system sets to this process: how many files it may have open, how
//! long a file may become.

use std::io;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};

/// How many descriptors this process may have; `u64::MAX` where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// What the system enforces.
    pub soft: u64,
    /// How far the process may raise that.
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

/// Raises the soft limit to the hard one, for the whole process; answers what holds afterwards. Where
/// the system refuses, both are what they were.
///
/// A program that calls `select` must not: that knows no descriptor from 1024 on.
pub fn raise_open_files_limit() -> OpenFilesLimit {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    open_files_limit()
}

/// Refuses to make a file longer than it may become. The system would send SIGXFSZ, which ends the
/// process, before it answers the same.
pub(super) fn check_file_length(path: &Path, bytes: u64) -> Result<()> {
    match longest_file_bytes() {
        Some(most) if bytes > most => {
            let error = io::Error::from(rustix::io::Errno::FBIG);
            Err(Error::io(path, "write", error))
        }
        _ => Ok(()),
    }
}

/// The bytes that a file may have; `None` where there is no limit. Asked anew each time: the limit
/// may change, and the question takes less than a tenth of a `write`.
pub(super) fn longest_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

//! [`SystemFs`]: the operating system's files, reached by name or through an open directory.
//!
//! ```text
//!   opened:    /data/db ──► directory 17 ── 000007.sst, CURRENT, …
//!   moved:     /data/old ─► directory 17        the handle continues to use it
//!   restored:  /data/db ──► directory 23        and never touches this
//! ```
//!
//! An anchor is a directory that is held open. The path by which it was opened then refers to this
//! directory, and the path with a file name appended refers to a file in it, even if another
//! directory has the path now. Every other path has its usual meaning. Errors show each path as it
//! was given.
//!
//! If the anchor's directory is removed, nothing can be created in it any more. The sync of a file
//! that has lost its last name fails, because the file is lost when the process ends
//! (`real/file.rs`).

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::descriptors::with_descriptor;
use super::system::{self, Anchor, Descriptor};

/// The operating system's files: the common part of [`super::RealFs`] and [`super::DirectFs`]. Its
/// operations are in `real/mod.rs`.
#[derive(Debug, Clone)]
pub(super) struct SystemFs {
    /// The directory that is held open; `None` if all files are reached by name.
    pub anchor: Option<Arc<Anchor>>,
    /// Whether reads bypass the system's cache. Never set on systems other than Linux.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub is_direct: bool,
}

impl SystemFs {
    pub const THROUGH_CACHE: SystemFs = SystemFs { anchor: None, is_direct: false };
    pub const PAST_CACHE: SystemFs =
        SystemFs { anchor: None, is_direct: cfg!(target_os = "linux") };

    pub fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_deref()
    }

    /// Opens a regular file for reading.
    pub fn open_read_only(&self, path: &Path) -> io::Result<(Descriptor, Metadata)> {
        check_regular(with_descriptor(|| {
            #[cfg(target_os = "linux")]
            if self.is_direct {
                return system::open_directly(self.anchor(), path);
            }
            system::open_unnoted(self.anchor(), path)
        })?)
    }
}

fn check_regular(file: File) -> io::Result<(Descriptor, Metadata)> {
    let metadata = file.metadata()?;
    // Unix opens a directory for reading, but the reads would fail.
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((file.into(), metadata))
}

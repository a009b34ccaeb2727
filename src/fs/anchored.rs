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
//! (`real/mod.rs`).

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::descriptors::{DescriptorPool, PooledFile, with_descriptor};
#[cfg(target_os = "linux")]
use super::direct::linux::DirectFile;
#[cfg(target_os = "linux")]
use super::mapped::{Mapped, is_safe_to_map};
use super::real::{RealRandomAccessFile, RealWritableFile, lock_file};
use super::system::{self, Anchor, Descriptor};
use super::{FileLock, Fs, RandomAccessFile, WritableFile};
use crate::error::{Error, Result};

/// The operating system's files: the common part of [`super::RealFs`] and [`super::DirectFs`].
#[derive(Debug, Clone)]
pub(super) struct SystemFs {
    /// The directory that is held open; `None` if all files are reached by name.
    anchor: Option<Arc<Anchor>>,
    /// Whether reads bypass the system's cache. Never set on systems other than Linux.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    is_direct: bool,
}

impl SystemFs {
    pub const THROUGH_CACHE: SystemFs = SystemFs { anchor: None, is_direct: false };
    pub const PAST_CACHE: SystemFs =
        SystemFs { anchor: None, is_direct: cfg!(target_os = "linux") };

    fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_deref()
    }

    /// Opens a regular file for reading.
    pub fn open_to_read(&self, path: &Path) -> io::Result<(Descriptor, Metadata)> {
        check_regular(with_descriptor(|| {
            #[cfg(target_os = "linux")]
            if self.is_direct {
                return system::open_directly(self.anchor(), path);
            }
            system::open_unnoted(self.anchor(), path)
        })?)
    }
}

impl Fs for SystemFs {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|error| Error::io(path, "find the directory of", error))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(RealWritableFile::create(self.anchor(), path)?))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let plain = RealWritableFile::create(self.anchor(), path)?;
        #[cfg(target_os = "linux")]
        if is_safe_to_map(plain.file()) {
            return Ok(Box::new(Mapped::new(plain)?));
        }
        Ok(Box::new(plain))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = Arc::new(RealRandomAccessFile::open(path, self)?);
        #[cfg(target_os = "linux")]
        if self.is_direct {
            return Ok(Arc::new(DirectFile { inner: file }));
        }
        Ok(file)
    }

    fn open_pooled(
        &self,
        path: &Path,
        pool: &Arc<DescriptorPool>,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let file = Arc::new(PooledFile::open(path, pool, self)?);
        #[cfg(target_os = "linux")]
        if self.is_direct {
            // A table that was just written has cached pages. Dropping them is a hint to the
            // system, so a failure does not matter.
            let _ = file.drop_page_cache();
            return Ok(Arc::new(DirectFile { inner: file }));
        }
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let renamed = system::rename(self.anchor(), from, to);
        renamed.map_err(|error| Error::io(from, "rename", error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = system::remove(self.anchor(), path);
        removed.map_err(|error| Error::io(path, "remove", error))
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        let linked = system::hard_link(self.anchor(), existing, new);
        linked.map_err(|error| Error::io(new, "link", error))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let exists = system::exists(self.anchor(), path);
        exists.map_err(|error| Error::io(path, "look up", error))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let names = with_descriptor(|| system::list(self.anchor(), dir));
        names.map_err(|error| Error::io(dir, "list", error))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).map_err(|error| {
            // If a part of the path is a file, the system reports "file exists". That would
            // mislead, because the directory does not exist.
            let error = match error.kind() {
                ErrorKind::AlreadyExists => ErrorKind::NotADirectory.into(),
                _ => error,
            };
            Error::io(dir, "create the directory", error)
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let synced = with_descriptor(|| system::sync_dir(self.anchor(), dir));
        synced.map_err(|error| Error::io(dir, "sync the directory", error))
    }

    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        let free = system::free_bytes(self.anchor(), dir);
        free.map_err(|error| Error::io(dir, "look up the free space of", error))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock_file(self.anchor(), path)?))
    }

    #[cfg(unix)]
    fn anchored(&self, dir: &Path) -> Result<Option<Arc<dyn Fs>>> {
        if self.anchor.is_some() {
            return Ok(None);
        }
        let anchor = with_descriptor(|| Anchor::open(dir));
        let anchor = anchor.map_err(|error| Error::io(dir, "open the directory", error))?;
        Ok(Some(Arc::new(SystemFs { anchor: Some(Arc::new(anchor)), ..*self })))
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

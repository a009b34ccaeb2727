//! [`AnchoredFs`]: files that are reached through an open directory, not through its name.
//!
//! ```text
//!   opened:    /data/db ──► directory 17 ── 000007.sst, CURRENT, …
//!   moved:     /data/old ─► directory 17        the handle continues to use it
//!   restored:  /data/db ──► directory 23        and never touches this
//! ```
//!
//! The path by which the directory was opened refers to the open directory, and a path with this
//! parent refers to a file in it, even if another directory has that path now. Every other path is
//! as in [`RealFs`]. Errors show each path as it was given.
//!
//! A removed directory contains no files any more: nothing can be created there, and the sync of a
//! file that has lost its last name fails (`real/mod.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::descriptors::{DescriptorPool, PooledFile, with_descriptor};
#[cfg(target_os = "linux")]
use super::direct::linux;
use super::real::{OpenToRead, Opening, RealWritableFile, create_log, lock_file, open_by};
use super::system::{self, Anchor};
use super::{FileLock, Fs, RandomAccessFile, RealFs, WritableFile};
use crate::error::{Error, Result};

/// The operating system's files, with one directory held open.
#[derive(Debug)]
pub(super) struct AnchoredFs {
    anchor: Arc<Anchor>,
    /// The function that opens a file for reading.
    open: OpenToRead,
    /// Whether reads bypass the system's cache, as in [`super::DirectFs`].
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    is_direct: bool,
}

impl AnchoredFs {
    pub fn open(dir: &Path, open: OpenToRead, is_direct: bool) -> Result<Option<Arc<dyn Fs>>> {
        let anchor = with_descriptor(|| Anchor::open(dir));
        let anchor = Arc::new(anchor.map_err(|error| Error::io(dir, "open the directory", error))?);
        Ok(Some(Arc::new(AnchoredFs { anchor, open, is_direct })))
    }

    fn opening(&self) -> Opening {
        Opening::within(&self.anchor, self.open)
    }
}

impl Fs for AnchoredFs {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        RealFs.absolute(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(RealWritableFile::create(Some(&self.anchor), path)?))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        create_log(Some(&self.anchor), path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        #[cfg(target_os = "linux")]
        if self.is_direct {
            return linux::open(&self.opening(), path);
        }
        open_by(&self.opening(), path)
    }

    fn open_pooled(
        &self,
        path: &Path,
        pool: &Arc<DescriptorPool>,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        #[cfg(target_os = "linux")]
        if self.is_direct {
            return linux::open_pooled(self.opening(), path, pool);
        }
        Ok(Arc::new(PooledFile::open(path, pool, self.opening())?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let renamed = system::rename(Some(&self.anchor), from, to);
        renamed.map_err(|error| Error::io(from, "rename", error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = system::remove(Some(&self.anchor), path);
        removed.map_err(|error| Error::io(path, "remove", error))
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        let linked = system::hard_link(Some(&self.anchor), existing, new);
        linked.map_err(|error| Error::io(new, "link", error))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let exists = system::exists(Some(&self.anchor), path);
        exists.map_err(|error| Error::io(path, "look up", error))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        match self.anchor.is(dir) {
            true => with_descriptor(|| self.anchor.list())
                .map_err(|error| Error::io(dir, "list", error)),
            false => RealFs.list(dir),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        RealFs.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        match self.anchor.is(dir) {
            true => self.anchor.sync().map_err(|error| Error::io(dir, "sync the directory", error)),
            false => RealFs.sync_dir(dir),
        }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock_file(Some(&self.anchor), path)?))
    }
}

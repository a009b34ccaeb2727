//! The operating system's files. [`super::anchored`] finds them, [`mod@file`] reads and writes them,
//! [`super::descriptors`] decides which table files have a descriptor at the moment, and
//! [`super::system`] handles differences between systems.

pub(super) mod file;
mod lock;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::anchored::SystemFs;
use super::descriptors::{DescriptorPool, PooledFile, with_descriptor};
#[cfg(target_os = "linux")]
use super::direct::linux::DirectFile;
#[cfg(target_os = "linux")]
use super::mapped::{Mapped, is_safe_to_map};
use super::system;
#[cfg(unix)]
use super::system::Anchor;
use super::{FileLock, Fs, RandomAccessFile, WritableFile};
use crate::error::{Error, Result};
use file::{RealRandomAccessFile, RealWritableFile};
use lock::lock_file;

/// The operating system's file system.
///
/// ```
/// use maypole::fs::{Fs, RealFs};
///
/// let dir = tempfile::tempdir()?;
/// let mut file = RealFs.create(&dir.path().join("a"))?;
/// file.append(b"bytes")?;
/// file.sync()?;
/// RealFs.sync_dir(dir.path())?;
/// assert_eq!(RealFs.list(dir.path())?, ["a"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl Fs for RealFs {
    pass_on! { SystemFs::THROUGH_CACHE =>
        fn absolute(&self, path: &Path) -> Result<PathBuf>;
        fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
        fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
        fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;
        fn open_pooled(
            &self, path: &Path, pool: &Arc<DescriptorPool>
        ) -> Result<Arc<dyn RandomAccessFile>>;
        fn rename(&self, from: &Path, to: &Path) -> Result<()>;
        fn remove(&self, path: &Path) -> Result<()>;
        fn hard_link(&self, existing: &Path, new: &Path) -> Result<()>;
        fn exists(&self, path: &Path) -> Result<bool>;
        fn list(&self, dir: &Path) -> Result<Vec<String>>;
        fn create_dir_all(&self, dir: &Path) -> Result<()>;
        fn sync_dir(&self, dir: &Path) -> Result<()>;
        fn free_bytes(&self, dir: &Path) -> Result<Option<u64>>;
        fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
        fn anchored(&self, dir: &Path) -> Result<Option<Arc<dyn Fs>>>;
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

#[cfg(test)]
mod tests;

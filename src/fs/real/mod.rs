//! The operating system's files. [`super::anchored`] finds them, and this module reads and writes
//! them.
//!
//! A buffer gathers writes, so that one system call writes many blocks of a table, or all parts of
//! a log record. Reads are positioned (`pread`), so that threads can share a descriptor.
//! [`super::descriptors`] decides which table files have a descriptor at the moment, and
//! [`super::system`] handles differences between systems.
//!
//! A write that would exceed the process's limit on file length (RLIMIT_FSIZE) is rejected before
//! the system call, because the system would end the process by the signal SIGXFSZ.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::anchored::SystemFs;
use super::descriptors::{DescriptorPool, HeldDescriptor, with_descriptor};
use super::limits::check_file_length;
use super::system::{self, Anchor, Borrowed, Descriptor, LockKey};
use super::{FileLock, Fs, RandomAccessFile, WRITE_BUFFER_BYTES, WritableFile, parent, past_end};
use crate::error::{Error, Result};
use crate::sync::{Mutex, PerProcess, Process, lock, rank};

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

#[derive(Debug)]
pub(super) struct RealWritableFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Bytes passed to the operating system.
    written_bytes: u64,
    /// The process that created the file. A forked child writes nothing, because its parent may
    /// write to the same position of the file.
    process: Process,
}

fn create_new(anchor: Option<&Anchor>, path: &Path) -> Result<File> {
    let create_new = || with_descriptor(|| system::create_new(anchor, path));
    let file = match create_new() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            system::remove(anchor, path).and_then(|()| create_new())
        }
        result => result,
    };
    file.map_err(|error| Error::io(path, "create", error))
}

impl RealWritableFile {
    /// Creates an empty file, which replaces an older one of this name.
    pub fn create(anchor: Option<&Anchor>, path: &Path) -> Result<RealWritableFile> {
        let file = create_new(anchor, path)?;
        let path = path.to_owned();
        let process = Process::current();
        Ok(RealWritableFile { path, file, buffer: Vec::new(), written_bytes: 0, process })
    }

    /// Passes `bytes` to the operating system, after the bytes that were passed before.
    fn write(&self, bytes: &[u8]) -> Result<()> {
        self.process.check()?;
        check_file_length(&self.path, self.written_bytes + bytes.len() as u64)?;
        system::write_all_at(&self.file, bytes, self.written_bytes)
            .map_err(|error| Error::io(&self.path, "write", error))
    }
}

/// The methods that `mapped.rs` needs to write the file through a mapping.
#[cfg(target_os = "linux")]
impl RealWritableFile {
    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Counts `bytes` bytes that reached the file through a mapping, so that the next write starts
    /// after them.
    pub fn skip(&mut self, bytes: u64) {
        debug_assert!(self.buffer.is_empty());
        self.written_bytes += bytes;
    }

    /// Durably cuts the file to its first `bytes` bytes.
    pub fn cut(&mut self, bytes: u64) -> Result<()> {
        self.process.check()?;
        self.buffer.clear();
        let cut = self.file.set_len(bytes).and_then(|()| self.file.sync_data());
        cut.map_err(|error| Error::io(&self.path, "sync the shortened file", error))?;
        self.written_bytes = bytes;
        Ok(())
    }
}

impl WritableFile for RealWritableFile {
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            // The number of bytes from the end of the file to the next multiple of the buffer's
            // size. If the file ends at a multiple, this is the whole size.
            let room = WRITE_BUFFER_BYTES - self.len() as usize % WRITE_BUFFER_BYTES;
            if bytes.len() < room {
                self.buffer.extend_from_slice(bytes);
                return Ok(());
            }
            let (front, rest) = bytes.split_at(room);
            if self.buffer.is_empty() {
                self.write(front)?;
                self.written_bytes += front.len() as u64;
            } else {
                self.buffer.extend_from_slice(front);
                self.flush()?;
            }
            bytes = rest;
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.write(&self.buffer)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn discard_unflushed(&mut self) -> Result<()> {
        self.buffer.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.process.check()?;
        self.flush()?;
        // `fdatasync` makes the bytes and the length of the file durable, and leaves the time
        // stamps out of the journal.
        let synced = self.file.sync_data().and_then(|()| match system::has_name(&self.file)? {
            true => Ok(()),
            // The file has no name any more, so it is lost when this process ends, and nothing can
            // make it durable.
            false => Err(io::Error::new(ErrorKind::NotFound, NO_NAME)),
        });
        synced.map_err(|error| Error::io(&self.path, "sync", error))
    }

    fn len(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A file that keeps its descriptor.
#[derive(Debug)]
pub(super) struct RealRandomAccessFile {
    path: PathBuf,
    descriptor: Descriptor,
    len: u64,
}

impl RealRandomAccessFile {
    pub fn open(path: &Path, fs: &SystemFs) -> Result<RealRandomAccessFile> {
        let opened = fs.open_to_read(path);
        let (descriptor, metadata) = opened.map_err(|error| Error::io(path, "open", error))?;
        let len = metadata.len();
        Ok(RealRandomAccessFile { path: path.to_owned(), descriptor, len })
    }
}

impl RandomAccessFile for RealRandomAccessFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(system::borrow(&self.descriptor), self, offset, buffer)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn descriptor(&self) -> Option<HeldDescriptor<'_>> {
        Some(HeldDescriptor::lent(system::borrow(&self.descriptor)))
    }

    fn drop_page_cache(&self) -> Result<()> {
        drop_page_cache(system::borrow(&self.descriptor), &self.path)
    }
}

/// Reads from `file` through its descriptor.
///
/// Linux enables a mitigation on many AMD processors (speculative return stack overflow) with which
/// each system call spoils the processor's return stack. The processor then mispredicts the return
/// from each stack frame between the system call and the lookup. To save frames, this function is
/// inlined, like each other function between the lookup and the system call that has only one
/// caller on the path of a cache miss.
#[inline(always)]
pub(super) fn read_exact_at(
    descriptor: Borrowed<'_>,
    file: &impl RandomAccessFile,
    offset: u64,
    buffer: &mut [u8],
) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset.saturating_add(filled as u64);
        match system::read_at(descriptor, &mut buffer[filled..], at) {
            Ok(0) => return Err(past_end(file.path(), offset, buffer.len(), filled as u64)),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The system rejects an offset that is impossible for any file. Such an offset may come
            // from a damaged file, so it is reported like any other offset past the end.
            Err(error) if error.kind() == ErrorKind::InvalidInput && offset >= file.len() => {
                return Err(past_end(file.path(), offset, buffer.len(), 0));
            }
            Err(error) => return Err(Error::io(file.path(), "read", error)),
        }
    }
    Ok(())
}

/// See [`RandomAccessFile::drop_page_cache`].
pub(super) fn drop_page_cache(descriptor: Borrowed<'_>, path: &Path) -> Result<()> {
    system::drop_page_cache(descriptor)
        .map_err(|error| Error::io(path, "drop the cached pages", error))
}

const NO_NAME: &str = "the file was removed while it was being written, with its directory perhaps";

/// The registry of the lock files that this process holds. The operating system's lock excludes
/// other processes, but on some file systems it does not exclude a second descriptor of the same
/// process. So the registry excludes this second descriptor. A forked child starts with an empty
/// registry, but the system's locks that its parent holds still exclude the child.
static HELD_LOCKS: PerProcess<Mutex<BTreeSet<LockKey>, rank::HeldLocks>> =
    PerProcess::new(Mutex::default);

pub(super) fn lock_file(anchor: Option<&Anchor>, path: &Path) -> Result<RealFileLock> {
    let io_error = |error| Error::io(path, "lock", error);
    let held_elsewhere = || Error::Locked { path: parent(path).to_owned() };

    // The registry is checked before the file is opened. If the lock is a POSIX one, as flock on
    // NFS is, closing any descriptor of the file releases the lock that this process holds. So the
    // file must not be opened while this process holds its lock.
    let mut held = lock(HELD_LOCKS.get());
    let key = || system::lock_key(anchor, path).map_err(io_error);
    if key()?.is_some_and(|key| held.contains(&key)) {
        return Err(held_elsewhere());
    }
    let file = with_descriptor(|| system::open_lock(anchor, path)).map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held_elsewhere()),
        Err(TryLockError::Error(error)) => return Err(io_error(error)),
    }
    // `Db::destroy` removes the lock file last, perhaps after this call has opened it. A lock on
    // the removed file does not exclude a process that creates a new lock file. So the lock counts
    // only if the path still names the locked file.
    let Some(key) = key()?.filter(|_| system::is_at(&file, anchor, path).unwrap_or(false)) else {
        return Err(held_elsewhere());
    };
    held.insert(LockKey::clone(&key));
    Ok(RealFileLock { key, file, process: Process::current() })
}

#[derive(Debug)]
pub(super) struct RealFileLock {
    /// The key in the registry.
    key: LockKey,
    file: File,
    process: Process,
}

impl FileLock for RealFileLock {}

impl Drop for RealFileLock {
    fn drop(&mut self) {
        // A forked child shares the lock with its parent, so the child must not release the lock.
        if !self.process.is_current() {
            return;
        }
        // The file is unlocked before it is closed, because closing ends the lock only with the
        // last descriptor of the open file, and a forked child that has not yet executed its
        // program has one too. If unlocking fails, the lock ends when the child closes its
        // descriptor.
        let _ = self.file.unlock();
        lock(HELD_LOCKS.get()).remove(&self.key);
    }
}

#[cfg(test)]
mod tests;

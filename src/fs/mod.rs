//! The seam to the operating system: every byte that the store reads or writes passes here.
//!
//! ```text
//!            Fs  (names, directories, locks)
//!           /  \
//! WritableFile  RandomAccessFile        append only   ·   read at an offset, from many threads
//!
//! RealFs    the operating system
//! MemFs     memory; loses power on demand, with all that had not been synced in doubt
//! FaultFs   wraps another: fails the n-th call, counts calls, stops at every change
//! ```
//!
//! What the store may rely on, and nothing more:
//!
//! * `append` may keep bytes in this process. `flush` hands them to the operating system: they
//!   survive a killed process. `sync` makes them durable: they survive a power loss.
//! * Syncing a file does not make its **name** durable. `sync_dir` of its directory does, for every
//!   creation, rename and removal in that directory so far.
//! * A rename within one directory happens as a whole or not at all.
//! * After an error from a [`WritableFile`] nothing is known about its unsynced bytes. The only
//!   right thing to do with it is to drop it: after a failed sync Linux marks the lost pages clean,
//!   so a second sync can falsely succeed (Rebello et al., "Can Applications Recover from fsync
//!   Failures?", USENIX ATC 2020).
//!
//! Absent on purpose: overwriting, truncating, seeking, asynchronous I/O; memory mapping but for
//! logs, whose `flush` it makes cheap ([`Fs::create_log`]).

mod descriptors;
mod fault;
mod limits;
#[cfg(target_os = "linux")]
mod mapped;
mod mem;
mod real;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

pub use descriptors::DescriptorPool;
pub use fault::{Fault, FaultFs, Operation, Target};
pub use limits::{OpenFilesLimit, open_files_limit, raise_open_files_limit};
pub use mem::MemFs;
pub use real::RealFs;

/// Bytes that a file being written gathers before it hands them on, from a multiple of their number on.
/// The system's cache keeps what was written together in one piece, if it lies so, and finds it sooner:
/// reads of 4 KiB at random places take a third less time than from a file that was written by any 60 KiB.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// A file system. Every error names the path and the operation.
pub trait Fs: Send + Sync + fmt::Debug + 'static {
    /// The path by which `path` is found also when the process has changed its directory. What is
    /// used more than once is made absolute first.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// A new, empty file. One that stood under this name before is unlinked, not truncated: who has
    /// it open, and its other hard links, keep its bytes.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// As [`Fs::create`], for a file that is flushed after every small append. After a crash, zeros
    /// may follow what was appended.
    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create(path)
    }

    /// Opens an existing file for reading. What is open stays readable when its name is gone.
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;

    /// As [`Fs::open`], for a file that keeps its name and its bytes for as long as it is read. Where
    /// open files cost descriptors, it takes one of `pool` when it is read, and may lose it to
    /// another file afterwards.
    fn open_pooled(
        &self,
        path: &Path,
        _pool: &Arc<DescriptorPool>,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        self.open(path)
    }

    /// The whole of a small file.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Gives `from` the name `to`, replacing what `to` was.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes the name of a file. Open handles keep working.
    fn remove(&self, path: &Path) -> Result<()>;

    /// A second name for the same file. `new` must not exist.
    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()>;

    /// Whether the path names a file or a directory.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The names in a directory, in any order. Names that are not UTF-8 are left out: no file of
    /// the store has one.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Creates a directory and its missing parents; none of them is durable yet
    /// (see [`create_dir_durably`]).
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in `dir` durable, as they are now.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the lock file at `path`, creating it where it is missing. Held until dropped, by one
    /// holder over all processes and within this one; the others get [`Error::Locked`].
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
}

/// A file being written, front to back.
#[expect(clippy::len_without_is_empty, reason = "a file is no collection")]
pub trait WritableFile: Send + Sync + fmt::Debug {
    /// Adds `bytes` at the end. They may stay in this process until `flush` or `sync`; dropping the
    /// file loses those.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Hands everything appended to the operating system.
    fn flush(&mut self) -> Result<()>;

    /// Forgets what was appended and is still in this process: after an `append` or a `flush` for which there
    /// was no space, so that no later sync brings back what was reported as failed. A part of
    /// it may be in the file; nothing may be appended behind that.
    fn discard_unflushed(&mut self);

    /// Makes everything appended durable. A failure is final: drop the file, do not retry.
    fn sync(&mut self) -> Result<()>;

    /// Bytes appended so far.
    fn len(&self) -> u64;

    /// The path the file was created under.
    fn path(&self) -> &Path;
}

/// A file open for reading, shared by any number of threads.
#[expect(clippy::len_without_is_empty, reason = "a file is no collection")]
pub trait RandomAccessFile: Send + Sync + fmt::Debug {
    /// Fills `buffer` from `offset`. [`Error::Corruption`] when the file ends before that.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The length in bytes when the file was opened.
    fn len(&self) -> u64;

    /// The path the file was opened under.
    fn path(&self) -> &Path;

    /// For a file of [`Fs::open_pooled`] whose name may soon be gone: it keeps its descriptor from now
    /// on, and no pool counts it. `false`: a quarter of the descriptors that the process may have
    /// are kept so already; the file stays in its pool.
    fn keep_open(&self) -> Result<bool> {
        Ok(true)
    }

    /// Asks the operating system to forget its cached pages of this file, so that the next reads
    /// reach the device. A hint: it works on Linux, for pages that were synced, and does nothing
    /// elsewhere.
    fn drop_page_cache(&self) -> Result<()> {
        Ok(())
    }
}

/// A held lock; dropping it gives the lock back.
pub trait FileLock: Send + Sync + fmt::Debug {}

/// Replaces the file at `path` by one that holds `bytes`, durably: after a crash there is the old
/// file or the new one, whole.
///
/// The bytes go to `path` with `.tmp` appended. One caller a path at a time.
pub fn write_atomic(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = OsString::from(path);
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let mut file = fs.create(&temporary)?;
    file.append(bytes)?;
    // Before the rename: else the new name could point to bytes that a crash takes away.
    file.sync()?;
    fs.rename(&temporary, path)?;
    fs.sync_dir(parent(path))
}

/// Creates a directory and its missing parents, and makes their names durable.
pub fn create_dir_durably(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut ancestor = dir;
    // The empty path, and `.` where the process's directory was removed, have no ancestor that
    // exists: the creation below says what is wrong with them.
    while !fs.exists(ancestor)? && !missing.contains(&ancestor) {
        missing.push(ancestor);
        ancestor = parent(ancestor);
    }
    fs.create_dir_all(dir)?;
    missing.into_iter().rev().try_for_each(|created| fs.sync_dir(parent(created)))
}

/// The directory that holds the name `path`; `.` for a bare file name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// What a read past the end of a file answers.
fn past_end(path: &Path, offset: u64, expected_bytes: usize, found_bytes: u64) -> Error {
    Error::Corruption {
        file: path.to_owned(),
        offset,
        expected: format!("{expected_bytes} bytes"),
        found: format!("{found_bytes} bytes before the end of the file"),
    }
}

#[cfg(test)]
mod tests;

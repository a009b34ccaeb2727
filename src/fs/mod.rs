//! The interface to the operating system, through which the store reads and writes every byte.
//!
//! ```text
//!            Fs  (names, directories, locks)
//!           /  \
//! WritableFile  RandomAccessFile        append only   ·   read at an offset, from many threads
//!
//! RealFs    the operating system
//! DirectFs  like RealFs, but reads bypass the system's cache
//! MemFs     memory; simulates power losses, which may lose all or some of the unsynced bytes
//! FaultFs   wraps another Fs: fails the n-th call, counts calls, runs a hook before calls
//!
//! OverlappedReader   reads many ranges of many files at one time: a kernel ring, or threads
//! ```
//!
//! The store relies on these promises and on no others:
//!
//! * `append` may keep bytes in this process. `flush` hands them to the operating system: they
//!   survive a killed process. `sync` makes them durable: they survive a power loss.
//! * `sync` of a file does not make its **name** durable. `sync_dir` of its directory does, for
//!   every creation, rename and removal in that directory so far.
//! * A rename within one directory happens as a whole or not at all.
//! * After an error from a [`WritableFile`] it is unknown which of the unsynced bytes are in the
//!   file. After a failed `sync` the caller must drop the file: Linux marks the lost pages clean,
//!   so a second sync can falsely succeed (Rebello et al., "Can Applications Recover from fsync
//!   Failures?", USENIX ATC 2020).
//!
//! The interface deliberately has no overwriting, truncating, seeking or asynchronous I/O. Although
//! [`OverlappedReader`] has many reads in flight, its call returns only when all of them have
//! ended. No file is mapped into memory except logs, whose mapping makes `flush` cheap
//! ([`Fs::create_log`]).

/// Defines methods that pass their arguments on to the same method of `$to`.
macro_rules! pass_on {
    ($to:expr => $($(#[$about:meta])*
        fn $name:ident(&$me:ident $(, $arg:ident: $Type:ty)*) -> $Out:ty;)+) => {
        $($(#[$about])* fn $name(&$me $(, $arg: $Type)*) -> $Out {
            $to.$name($($arg),*)
        })+
    };
}

mod anchored;
#[cfg(target_os = "linux")]
mod block_buffer;
mod descriptors;
mod direct;
mod fault;
mod limits;
#[cfg(target_os = "linux")]
mod mapped;
mod mem;
mod overlapped;
mod real;
mod system;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use crate::error::{Damage, Error, Result};

pub use descriptors::{DescriptorPool, HeldDescriptor};
pub use direct::DirectFs;
pub use fault::{Fault, FaultFs, Operation, Target};
pub use limits::{OpenFilesLimit, open_files_limit, raise_open_files_limit};
pub use mem::MemFs;
pub use overlapped::{OverlappedReader, ReadBuffer, ReadRequest};
pub use real::RealFs;

/// The size of the pieces in which a writable file passes its bytes to the operating system, unless
/// it is flushed earlier. Each piece starts at a multiple of this size. Linux then keeps the file
/// in large units of its page cache, and finds a page faster: random reads of 4 KiB take a third
/// less time than if the file was written in pieces of 60 KiB
/// (`docs/measurements/small-cache.md`).
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// A file system.
///
/// ```
/// use maypole::fs::{Fs, MemFs};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// let mut file = fs.create(Path::new("/a"))?;
/// file.append(b"bytes")?;
/// file.sync()?;
/// fs.sync_dir(Path::new("/"))?;
/// assert_eq!(fs.read(Path::new("/a"))?, b"bytes");
/// # Ok::<(), maypole::Error>(())
/// ```
///
/// # Errors
/// Every method returns [`Error::Io`], with the path and the operation, when the system refuses the
/// call. Methods that return other errors say so.
pub trait Fs: Send + Sync + fmt::Debug + 'static {
    /// An absolute path for `path`, which stays valid when the process changes its current
    /// directory.
    ///
    /// # Errors
    /// If the current directory cannot be found.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// Creates an empty file. An older file of this name is unlinked, not truncated: open handles
    /// and other hard links keep its bytes.
    ///
    /// # Errors
    /// If the system refuses, for example for lack of permission or space.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Like [`Fs::create`], but makes `flush` cheap, for a file that is flushed after every small
    /// append. After a crash zeros may follow the appended bytes.
    ///
    /// # Errors
    /// The same as for [`Fs::create`].
    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create(path)
    }

    /// Opens an existing file for reading. The file stays readable after its name is removed.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be read.
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;

    /// Like [`Fs::open`], but the file shares the descriptors of `pool` with other files. It takes
    /// a descriptor when it is opened or read, and may later lose it to another file. The file may
    /// then be opened again by its path. So while the returned value lives, the bytes of the file
    /// must not change, and the file must keep its name until [`RandomAccessFile::keep_open`] has
    /// returned `true`. File systems without descriptors ignore `pool`.
    ///
    /// # Errors
    /// The same as for [`Fs::open`].
    fn open_pooled(
        &self,
        path: &Path,
        _pool: &Arc<DescriptorPool>,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        self.open(path)
    }

    /// Reads the whole of a small file.
    ///
    /// # Errors
    /// The errors of [`Fs::open`] and [`RandomAccessFile::read_exact_at`], and [`Error::Io`] if
    /// there is not enough memory.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        let (mut bytes, length) = (Vec::new(), file.len() as usize);
        if bytes.try_reserve_exact(length).is_err() {
            return Err(Error::io(path, "get memory to read", io::ErrorKind::OutOfMemory.into()));
        }
        bytes.resize(length, 0);
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Renames `from` to `to`. If a file already has the name `to`, replaces it.
    ///
    /// # Errors
    /// If there is no `from`, or the system refuses.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes the name of a file. Open handles keep working.
    ///
    /// # Errors
    /// If there is no such file, or the system refuses.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Gives a file a second name, `new`.
    ///
    /// # Errors
    /// If `new` exists, or the file system has no hard links.
    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()>;

    /// Whether there is a file or a directory with this path.
    ///
    /// # Errors
    /// If that cannot be determined.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The names in a directory, in any order. Names that are not UTF-8 are left out, because no
    /// file of the store has such a name.
    ///
    /// # Errors
    /// If there is no such directory, or it cannot be read.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Creates a directory and its missing parents. Their names are not durable yet: see
    /// [`create_dir_durably`].
    ///
    /// # Errors
    /// If a part of the path is a file, or the system refuses.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in `dir` durable, as they are now.
    ///
    /// # Errors
    /// If the directory cannot be synced. It is then unknown which of the names are durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// How many more bytes the files of `dir` may take, as far as that is known. `None` if it is not
    /// known. The number is an estimate: a quota, or other programs, may leave less space.
    ///
    /// # Errors
    /// If there is no such directory, or the system refuses.
    fn free_bytes(&self, _dir: &Path) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Takes the lock of the file at `path`, which is created if it is missing. Until the returned
    /// value is dropped, every other attempt to take the lock fails, in this process or another.
    ///
    /// # Errors
    /// [`Error::Locked`] if the lock is already held.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// Returns this file system with `dir` held open. In it, the paths of `dir` and of the files in
    /// `dir` refer to the open directory, even if the directory is renamed or another directory
    /// gets its name. An open database uses such a file system. The default is `None`, for a file
    /// system that finds files by name only.
    ///
    /// # Errors
    /// If `dir` is not a directory, or cannot be read.
    fn anchored(&self, _dir: &Path) -> Result<Option<Arc<dyn Fs>>> {
        Ok(None)
    }
}

/// A file being written, front to back.
///
/// ```
/// use maypole::fs::{Fs, MemFs};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// let mut file = fs.create(Path::new("a"))?;
/// file.append(b"some ")?;
/// file.append(b"bytes")?;
/// file.flush()?;
/// assert_eq!((file.len(), fs.kill().read(Path::new("a"))?), (10, b"some bytes".to_vec()));
/// # Ok::<(), maypole::Error>(())
/// ```
#[expect(clippy::len_without_is_empty, reason = "a file is no collection")]
pub trait WritableFile: Send + Sync + fmt::Debug {
    /// Adds `bytes` at the end. They may stay in this process until `flush` or `sync`, and are lost
    /// if the file is dropped before that.
    ///
    /// # Errors
    /// [`Error::Io`] if the bytes cannot be written, for example for lack of space.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Passes all appended bytes to the operating system.
    ///
    /// # Errors
    /// The same as for [`WritableFile::append`].
    fn flush(&mut self) -> Result<()>;

    /// Discards the appended bytes that are still in this process, and ends the file. Call this
    /// method after an `append` or `flush` that failed for lack of space, because a later sync must
    /// not write bytes that were reported as failed. Some of the failed bytes may already be in the
    /// file, so append nothing afterwards. When this method returns, no zeros follow these bytes any
    /// more ([`Fs::create_log`]), not even after a crash: they could be taken for the bytes that
    /// are missing.
    ///
    /// # Errors
    /// [`Error::Io`] if the device fails. Then the failed bytes may be in the file, as after a
    /// failed `sync`.
    fn discard_unflushed(&mut self) -> Result<()>;

    /// Makes all appended bytes durable.
    ///
    /// # Errors
    /// [`Error::Io`] if the device fails. Then drop the file: a second sync may falsely succeed.
    fn sync(&mut self) -> Result<()>;

    /// The number of bytes appended so far.
    fn len(&self) -> u64;

    /// The path that the file was created with.
    fn path(&self) -> &Path;
}

/// A file open for reading. Any number of threads may share it.
///
/// ```
/// use maypole::fs::{Fs, MemFs, write_atomic};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// write_atomic(&fs, Path::new("a"), b"some bytes")?;
/// let (file, mut buffer) = (fs.open(Path::new("a"))?, [0; 5]);
/// file.read_exact_at(5, &mut buffer)?;
/// assert_eq!((file.len(), &buffer), (10, b"bytes"));
/// assert!(file.read_exact_at(6, &mut buffer).is_err());
/// # Ok::<(), maypole::Error>(())
/// ```
#[expect(clippy::len_without_is_empty, reason = "a file is no collection")]
pub trait RandomAccessFile: Send + Sync + fmt::Debug {
    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file ends too early, [`Error::Io`] if it cannot be read.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The length in bytes at the time of opening.
    fn len(&self) -> u64;

    /// The path that the file was opened with.
    fn path(&self) -> &Path;

    /// The descriptor through which an [`OverlappedReader`] may read the file. The file keeps it
    /// open until the returned value is dropped. `None` if files of this kind have no descriptor,
    /// or if the file lost its descriptor and cannot be opened again. The reader then calls
    /// [`RandomAccessFile::read_exact_at`] instead.
    fn descriptor(&self) -> Option<HeldDescriptor<'_>> {
        None
    }

    /// Whether reads of this file may wait for a device, so that an [`OverlappedReader`] should
    /// have many of them in flight. If not, the reader executes the reads one after the other, in
    /// the order of the requests.
    fn waits_for_device(&self) -> bool {
        true
    }

    /// Lets a file of [`Fs::open_pooled`] keep its descriptor from now on, outside its pool. Call
    /// this method before the name of the file is removed, because the file cannot be opened again
    /// afterwards. Returns `false`, and leaves the file in its pool, if the files that keep their
    /// descriptors already hold a quarter of the descriptors that the process may have.
    ///
    /// # Errors
    /// The errors of [`Fs::open`], if the file must be opened again.
    fn keep_open(&self) -> Result<bool> {
        Ok(true)
    }

    /// Requests that the operating system drop its cached pages of this file, so that the next
    /// reads reach the device. Linux drops only pages that are already written to the device. On
    /// other systems the call does nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses the hint.
    fn drop_page_cache(&self) -> Result<()> {
        Ok(())
    }
}

/// A lock that is held. Dropping it releases the lock.
///
/// ```
/// use maypole::fs::{Fs, MemFs};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// let lock = fs.lock(Path::new("LOCK"))?;
/// assert!(fs.lock(Path::new("LOCK")).is_err());
/// drop(lock);
/// assert!(fs.lock(Path::new("LOCK")).is_ok());
/// # Ok::<(), maypole::Error>(())
/// ```
pub trait FileLock: Send + Sync + fmt::Debug {}

/// Replaces the file at `path` by one that holds `bytes`, durably: a crash leaves either the old
/// file or the new one, complete.
///
/// First writes a temporary file, whose path is `path` with `.tmp` appended. So two callers must
/// not replace the same file at the same time.
///
/// # Errors
/// The errors of the methods of [`Fs`] and [`WritableFile`]. After an error `path` names either the
/// old file or the new one, which is then complete but may not be durable.
pub fn write_atomic(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let mut file = fs.create(&temporary)?;
    file.append(bytes)?;
    // The sync comes before the rename, because otherwise the new name could point to bytes that a
    // crash loses.
    file.sync()?;
    fs.rename(&temporary, path)?;
    fs.sync_dir(parent(path))
}

/// Like [`write_atomic`], but not durably. Removes the temporary file after a failure.
pub(crate) fn replace_unsynced(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let write = || {
        let mut file = fs.create(&temporary)?;
        file.append(bytes)?;
        file.flush()?;
        drop(file);
        fs.rename(&temporary, path)
    };
    write().inspect_err(|_| {
        tidy_away(fs, &temporary);
    })
}

/// The path with `suffix` appended to the name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Creates a directory and its missing parents, and makes their names durable.
///
/// # Errors
/// The errors of [`Fs::create_dir_all`] and [`Fs::sync_dir`].
pub fn create_dir_durably(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut ancestor = dir;
    // The loop ends at an ancestor that exists. If no ancestor exists, as for the empty path and
    // for `.` in a removed directory, `parent` returns the same path again. So the loop also ends
    // at a path that is in `missing` already, and `create_dir_all` then returns the error.
    while !fs.exists(ancestor)? && !missing.contains(&ancestor) {
        missing.push(ancestor);
        ancestor = parent(ancestor);
    }
    fs.create_dir_all(dir)?;
    missing.into_iter().rev().try_for_each(|created| fs.sync_dir(parent(created)))
}

/// The names in a directory, sorted, each of them once. A system may list a name twice, above all
/// while the directory changes, and a file that counted twice would be replayed or removed twice.
pub(crate) fn names_in(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    let mut names = fs.list(dir)?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Removes a file, for a caller that needs its name to be gone. A file that is gone already is no
/// error.
pub(crate) fn remove_if_present(fs: &dyn Fs, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a file that nothing needs any more. Returns whether it is gone. Destructors call this
/// function, perhaps while a panic unwinds their thread. So a panic of `fs` counts as a failure and
/// ends here, because otherwise it would end the process.
pub(crate) fn tidy_away(fs: &dyn Fs, path: &Path) -> bool {
    let removed = catch_unwind(AssertUnwindSafe(|| remove_if_present(fs, path)));
    matches!(removed, Ok(Ok(())))
}

/// `path` with the symbolic links of its existing part resolved. A path of which no part exists in
/// the operating system's file system, such as most paths in a `MemFs`, stays unchanged.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|ancestor| {
        let real = std::fs::canonicalize(ancestor).ok()?;
        Some(real.join(path.strip_prefix(ancestor).ok()?))
    });
    existing.unwrap_or_else(|| path.to_owned())
}

/// The directory of `path`; `.` for a bare file name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// The first bytes of a file: at most `most`.
pub(crate) fn head(fs: &dyn Fs, path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = fs.open(path)?;
    let mut bytes = vec![0; file.len().min(most) as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The error of a read past the end of a file.
fn past_end(path: &Path, offset: u64, expected_bytes: usize, found_bytes: u64) -> Error {
    let found = format_args!("{found_bytes} bytes before the end of the file");
    Damage::new(0, format_args!("{expected_bytes} bytes"), found).in_file(path, offset)
}

#[cfg(test)]
mod tests;

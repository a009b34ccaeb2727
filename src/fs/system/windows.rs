//! Windows, and the promises that it does not make.
//!
//! * **Names.** Microsoft documents no call that makes the names of a directory durable.
//!   `FlushFileBuffers` accepts the handle of a directory on NTFS and ReFS, and [`sync_dir`] calls
//!   it. Other file systems reject such a handle, so [`sync_dir`] does nothing there. NTFS logs
//!   changes of names in order, so a power loss leaves all names as they were at one earlier
//!   moment. It is not known whether a name survives if it was flushed just before the power loss.
//! * **Open files.** Every file is opened so that other programs may rename and remove it. When an
//!   open file is removed, Windows 10 since version 1809 removes its name at once on NTFS. On FAT,
//!   and in earlier versions of Windows, the name stays until the last handle of the file is
//!   closed, and until then no other file can take the name.
//! * **Limits.** A process may have sixteen million handles, and Windows does not limit the length
//!   of its files, so there are no limits to query.
//! * **Logs** are not mapped, because Windows can neither truncate nor replace a mapped file.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};

/// An open file, closed when it is dropped.
pub type Descriptor = OwnedHandle;
/// An open file that something else owns.
pub type Borrowed<'a> = BorrowedHandle<'a>;

// From `winerror.h`.
const INVALID_FUNCTION: i32 = 1;
const ACCESS_DENIED: i32 = 5;
const INVALID_HANDLE: i32 = 6;
const NOT_SUPPORTED: i32 = 50;
const INVALID_PARAMETER: i32 = 87;
/// The error codes of a failing device and of a full one.
pub const DEVICE_ERROR: i32 = 1117;
pub const NO_SPACE: i32 = 112;

/// `FILE_FLAG_BACKUP_SEMANTICS`: without it no directory can be opened.
const OPEN_DIRECTORIES: u32 = 0x0200_0000;

pub fn borrow(descriptor: &Descriptor) -> Borrowed<'_> {
    descriptor.as_handle()
}

/// Reads bytes from `offset` on, perhaps fewer than the buffer holds. Returns 0 at the end of the
/// file, and `InvalidInput` for an offset that is impossible for a file.
pub fn read_at(descriptor: Borrowed<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    // The system interprets some negative offsets as commands. For example, −2 means "where the
    // last read ended". So offsets beyond the range of `i64` must not reach it.
    if i64::try_from(offset).is_err() {
        return Err(ErrorKind::InvalidInput.into());
    }
    // SAFETY: the handle is open while it is borrowed, and is not closed here.
    let file = unsafe { File::from_raw_handle(descriptor.as_raw_handle()) };
    ManuallyDrop::new(file).seek_read(buffer, offset)
}

/// Writes all bytes: continues after short writes.
pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// A type without values, because on Windows files are always found by their paths, and no
/// directory is held open.
#[derive(Debug)]
pub enum Anchor {}

pub fn create_new(_: Option<&Anchor>, path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

pub fn open_lock(_: Option<&Anchor>, path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

pub fn remove(_: Option<&Anchor>, path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

pub fn rename(_: Option<&Anchor>, from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

pub fn hard_link(_: Option<&Anchor>, existing: &Path, new: &Path) -> io::Result<()> {
    fs::hard_link(existing, new)
}

pub fn exists(_: Option<&Anchor>, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// The names in a directory, without those that are not Unicode.
pub fn list(_: Option<&Anchor>, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// The identity of a locked file: its canonical path.
pub type LockKey = PathBuf;

pub fn lock_key(_: Option<&Anchor>, path: &Path) -> io::Result<Option<LockKey>> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    Ok(Some(fs::canonicalize(dir)?.join(name)))
}

/// Whether the path names the open file. Returns `true` without a check, because Maypole assumes
/// that nobody renames or removes its open files.
pub fn is_at(_: &File, _: Option<&Anchor>, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Whether the file still has a name. Returns `true` without a check, because the store assumes
/// that an open file keeps its name.
pub fn has_name(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// Opens a file for reading. A setting of Windows, and not this call, decides whether reads change
/// the file's time of last access.
pub fn open_unnoted(_: Option<&Anchor>, path: &Path) -> io::Result<File> {
    File::open(path).map_err(|error| match error.kind() {
        // Windows refuses to open a directory, but reports only that permission is denied.
        ErrorKind::PermissionDenied if path.is_dir() => ErrorKind::IsADirectory.into(),
        _ => error,
    })
}

/// Requests that the names in `dir` be made durable. Returns `Ok` without an effect on file systems
/// that reject the handle of a directory (see the module documentation).
pub fn sync_dir(_: Option<&Anchor>, dir: &Path) -> io::Result<()> {
    // Flushing requires the right to write.
    let open = OpenOptions::new().write(true).custom_flags(OPEN_DIRECTORIES).open(dir);
    match open.and_then(|dir| dir.sync_all()) {
        Err(error) if dir.is_dir() && cannot_be_asked(&error) => Ok(()),
        result => result,
    }
}

fn cannot_be_asked(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(INVALID_FUNCTION | ACCESS_DENIED | INVALID_HANDLE | NOT_SUPPORTED | INVALID_PARAMETER)
    )
}

/// Not known, because the standard library has no call for it.
pub fn free_bytes(_: Option<&Anchor>, _dir: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Does nothing, because Windows has no call that drops the cached pages of a file.
pub fn drop_page_cache(_descriptor: Borrowed<'_>) -> io::Result<()> {
    Ok(())
}

/// Shows whether a file that is opened again is still the same, or another one of the same name, by
/// its length and two times in Windows' own units. The number that NTFS gives each file would be
/// better, but the standard library does not provide it. The time of creation alone is not enough:
/// if a file is created within seconds under the name of a removed file, Windows gives it the
/// removed file's time of creation.
///
/// Only files of a descriptor pool have identities. Nothing writes to them any more, so neither
/// time changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    created: u64,
    changed: u64,
    pub bytes: u64,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Identity {
        Identity {
            created: metadata.creation_time(),
            changed: metadata.last_write_time(),
            bytes: metadata.file_size(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "created {}, changed {}, {} bytes", self.created, self.changed, self.bytes)
    }
}

/// The soft and the hard limit on the handles of this process. `u64::MAX` means no limit.
pub fn open_files_limits() -> (u64, u64) {
    (u64::MAX, u64::MAX)
}

pub fn raise_open_files_limit() {}

/// The greatest length of a file in bytes; `None` if there is no limit.
pub fn longest_file_bytes() -> Option<u64> {
    None
}

/// The error for a file that exceeds [`longest_file_bytes`].
pub fn file_too_long() -> io::Error {
    ErrorKind::FileTooLarge.into()
}

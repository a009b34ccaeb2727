//! Linux, macOS and the BSDs.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// An open file, closed when it is dropped.
pub type Descriptor = OwnedFd;
/// An open file that something else owns.
pub type Borrowed<'a> = BorrowedFd<'a>;

/// The error codes of a failing device and of a full one.
pub const DEVICE_ERROR: i32 = Errno::IO.raw_os_error();
pub const NO_SPACE: i32 = Errno::NOSPC.raw_os_error();

#[inline]
pub fn borrow(descriptor: &Descriptor) -> Borrowed<'_> {
    descriptor.as_fd()
}

/// Reads bytes from `offset` on, perhaps fewer than the buffer holds. Returns 0 at the end of the
/// file, and `InvalidInput` for an offset that is impossible for a file.
#[inline]
pub fn read_at(descriptor: Borrowed<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(descriptor, buffer, offset)?)
}

/// Writes all bytes: continues after short writes and interruptions.
#[inline]
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// A directory that is held open, and the path by which it was opened. Functions that get an anchor
/// find this path, and the path with a file name appended, in the open directory, even if another
/// directory has the path now. Every other path has its usual meaning.
#[derive(Debug)]
pub struct Anchor {
    dir: PathBuf,
    file: File,
}

impl Anchor {
    pub fn open(dir: &Path) -> io::Result<Anchor> {
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(OFlags::DIRECTORY.bits() as i32).open(dir)?;
        Ok(Anchor { dir: dir.to_owned(), file })
    }

    fn is(&self, path: &Path) -> bool {
        path == self.dir
    }
}

/// The first two arguments of `openat` and similar calls: a directory, and a path relative to it.
fn locate<'a>(anchor: Option<&'a Anchor>, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
    let Some(anchor) = anchor else { return (CWD, path) };
    match path.file_name() {
        _ if anchor.is(path) => (anchor.file.as_fd(), Path::new(".")),
        Some(name) if path.parent() == Some(&anchor.dir) => (anchor.file.as_fd(), name.as_ref()),
        _ => (CWD, path),
    }
}

fn open_at(anchor: Option<&Anchor>, path: &Path, flags: OFlags) -> io::Result<File> {
    let (dir, name) = locate(anchor, path);
    let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
    Ok(File::from(retry_on_intr(|| rustix::fs::openat(dir, name, flags, mode))?))
}

/// Creates a file for writing and for reading, because a mapping needs both.
pub fn create_new(anchor: Option<&Anchor>, path: &Path) -> io::Result<File> {
    open_at(anchor, path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
}

/// Opens a lock file, and creates it if it is missing.
pub fn open_lock(anchor: Option<&Anchor>, path: &Path) -> io::Result<File> {
    open_at(anchor, path, OFlags::RDWR | OFlags::CREATE)
}

pub fn remove(anchor: Option<&Anchor>, path: &Path) -> io::Result<()> {
    let (dir, name) = locate(anchor, path);
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

pub fn rename(anchor: Option<&Anchor>, from: &Path, to: &Path) -> io::Result<()> {
    let ((old, from), (new, to)) = (locate(anchor, from), locate(anchor, to));
    Ok(rustix::fs::renameat(old, from, new, to)?)
}

pub fn hard_link(anchor: Option<&Anchor>, existing: &Path, new: &Path) -> io::Result<()> {
    let ((from, existing), (to, new)) = (locate(anchor, existing), locate(anchor, new));
    Ok(rustix::fs::linkat(from, existing, to, new, AtFlags::empty())?)
}

pub fn exists(anchor: Option<&Anchor>, path: &Path) -> io::Result<bool> {
    let (dir, name) = locate(anchor, path);
    match rustix::fs::statat(dir, name, AtFlags::empty()) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The identity of a locked file: device and inode. Its path does not identify it, because several
/// paths may lead to the same directory.
pub type LockKey = (u64, u64);

/// The key of the lock file that has this path; `None` if there is no such file.
pub fn lock_key(anchor: Option<&Anchor>, path: &Path) -> io::Result<Option<LockKey>> {
    file_at(anchor, path)
}

/// Whether the path names the open file.
pub fn is_at(file: &File, anchor: Option<&Anchor>, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(file_at(anchor, path)? == Some((metadata.dev(), metadata.ino())))
}

/// Device and inode of the file that has this path; `None` if there is no such file.
fn file_at(anchor: Option<&Anchor>, path: &Path) -> io::Result<Option<(u64, u64)>> {
    let (dir, name) = locate(anchor, path);
    match rustix::fs::statat(dir, name, AtFlags::empty()) {
        // The types of the two fields differ between systems.
        #[allow(clippy::unnecessary_cast)]
        Ok(stat) => Ok(Some((stat.st_dev as u64, stat.st_ino as u64))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the file still has a name in any directory. A file without a name is deleted with its
/// last descriptor.
pub fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// Opens a file or a directory for reading. On Linux, reads through the returned file do not update
/// its time of last access, if the process owns the file. The update would take a tenth of the
/// duration of a read of 4 KiB. If the file is a pipe, the call does not wait for its writer.
pub fn open_unnoted(anchor: Option<&Anchor>, path: &Path) -> io::Result<File> {
    let open = |flags: OFlags| open_at(anchor, path, OFlags::RDONLY | flags);
    #[cfg(target_os = "linux")]
    match open(OFlags::NOATIME | OFlags::NONBLOCK) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        opened => return opened.inspect(|file| wait_for_reads(file, OFlags::NOATIME)),
    }
    open(OFlags::NONBLOCK).inspect(|file| wait_for_reads(file, OFlags::empty()))
}

/// Like [`open_unnoted`], but the reads of the file bypass the system's cache. Their offset, length
/// and address must be multiples of the device's block size. If the file system does not support
/// such reads, they go through the cache.
#[cfg(target_os = "linux")]
pub fn open_directly(anchor: Option<&Anchor>, path: &Path) -> io::Result<File> {
    let file = open_unnoted(anchor, path)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    // A file system that cannot bypass the cache rejects the flag. The file then keeps its old
    // flags, and its reads go through the cache.
    let _ = rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT);
    Ok(file)
}

/// From now on reads of the descriptor go through the system's cache.
#[cfg(target_os = "linux")]
pub fn read_through_cache(descriptor: Borrowed<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags - OFlags::DIRECT)?)
}

/// Sets the descriptor's flags to `flags`, which removes `NONBLOCK`. Only opening the file needed
/// `NONBLOCK`, so that it did not wait for the writer of a pipe. On some file systems a read by
/// `io_uring` obeys `NONBLOCK` and returns "try again" instead of waiting for the device. `pread`
/// of a regular file ignores it.
fn wait_for_reads(file: &File, flags: OFlags) {
    let _ = rustix::fs::fcntl_setfl(file, flags);
}

/// The names in a directory, without those that are not UTF-8.
pub fn list(anchor: Option<&Anchor>, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::new(open_at(anchor, dir, OFlags::RDONLY | OFlags::DIRECTORY)?)? {
        let name = entry?.file_name().to_owned().into_string();
        names.extend(name.ok().filter(|name| name != "." && name != ".."));
    }
    Ok(names)
}

pub fn sync_dir(anchor: Option<&Anchor>, dir: &Path) -> io::Result<()> {
    match anchor.filter(|anchor| anchor.is(dir)) {
        Some(anchor) => anchor.file.sync_all(),
        None => File::open(dir)?.sync_all(),
    }
}

/// The bytes that this user may still write to the file system of `dir`.
pub fn free_bytes(anchor: Option<&Anchor>, dir: &Path) -> io::Result<Option<u64>> {
    let space = match anchor.filter(|anchor| anchor.is(dir)) {
        Some(anchor) => rustix::fs::fstatvfs(&anchor.file)?,
        None => rustix::fs::statvfs(dir)?,
    };
    Ok(Some(space.f_bavail.saturating_mul(space.f_frsize)))
}

/// Requests that Linux drop the cached pages of a file. Does nothing on other systems.
pub fn drop_page_cache(descriptor: Borrowed<'_>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(descriptor, 0, None, rustix::fs::Advice::DontNeed)?;
    #[cfg(not(target_os = "linux"))]
    let _ = descriptor;
    Ok(())
}

/// Shows whether a file that is opened again is still the same, or another one of the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    pub bytes: u64,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Identity {
        Identity { device: metadata.dev(), inode: metadata.ino(), bytes: metadata.len() }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}, inode {}, {} bytes", self.device, self.inode, self.bytes)
    }
}

/// The soft and the hard limit on the descriptors of this process. `u64::MAX` means no limit.
pub fn open_files_limits() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    let or_none = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    (or_none(limit.current), or_none(limit.maximum))
}

/// Raises the soft limit to the hard one, if the system allows this.
pub fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The greatest length in bytes of a file that this process may write; `None` if there is no limit.
/// The limit is read from the system at each call, because it may change and reading it is cheap.
pub fn longest_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// The error for a file that exceeds [`longest_file_bytes`].
pub fn file_too_long() -> io::Error {
    Errno::FBIG.into()
}

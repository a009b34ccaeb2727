//! A log file that is written through memory: handing a record to the operating system is a copy.
//!
//! ```text
//!   file     | written, unmapped … | written ▸ · · · · · |           allocated ahead, zeros
//!                                  └── window, mapped ───┘
//! ```
//!
//! What is copied into a shared mapping is in the page cache at once, as after `write`: it survives
//! a killed process, and `fdatasync` makes it durable. A `write` of 150 bytes takes about 1,000 ns
//! on the machine of `docs/performance.md`, most of it the way into the kernel and back; the copy,
//! with allocating, mapping and touching the pages, 150.
//!
//! * A window is allocated on the device and its pages are made writable before it is used. So a
//!   full disk is an error of `append`, not a signal at the copy.
//! * Behind what was written the file holds zeros, to the end of the window. They are cut off when
//!   the file is dropped; after a kill the reader of the log takes them for a torn tail.
//!
//! [`Mapped::create`] declines where the file system cannot allocate ahead; the plain file of
//! [`super::real`] does then, and is the oracle in the tests.
//!
//! What can still raise SIGBUS: a device that fails to read back a page that was written out and
//! evicted within the window's short life, and another process that truncates the file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::WritableFile;
use crate::error::{Error, Result};

/// Bytes of the first window, a multiple of every page size; the next ones double.
const FIRST_WINDOW_BYTES: usize = 64 << 10;
const MOST_WINDOW_BYTES: usize = 256 << 10;

/// Pages of the file in this process's memory.
///
/// Invariant: `start` is a mapping of `bytes` bytes, readable and writable, that is nobody else's
/// until this is dropped.
#[derive(Debug)]
struct Window {
    start: NonNull<u8>,
    bytes: usize,
    /// Bytes from the start that are written.
    filled: usize,
}

// SAFETY: the mapping is reached through this value only, and belongs to no thread.
unsafe impl Send for Window {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Window {}

impl Window {
    /// Allocates and maps `bytes` bytes of `file` from `offset` on.
    fn new(file: &File, offset: u64, bytes: usize) -> rustix::io::Result<Window> {
        retry_on_intr(|| fallocate(file, FallocateFlags::empty(), offset, bytes as u64))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, offset) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let window = Window { start, bytes, filled: 0 };
        // SAFETY: the mapping made above. The advice changes no byte.
        match unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
            // Before Linux 5.14 the copy touches the pages.
            Ok(()) | Err(Errno::INVAL) => Ok(window),
            Err(errno) => Err(errno),
        }
    }

    /// Copies as much of `from` as has room; answers the rest.
    fn fill<'a>(&mut self, from: &'a [u8]) -> &'a [u8] {
        let (now, later) = from.split_at(from.len().min(self.bytes - self.filled));
        // SAFETY: the bytes from `filled` to `filled + now.len() <= bytes` are in the mapping, which
        // is this value's alone, so `now` is elsewhere.
        unsafe {
            let to = self.start.as_ptr().add(self.filled);
            std::ptr::copy_nonoverlapping(now.as_ptr(), to, now.len());
        }
        self.filled += now.len();
        later
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping of this value, which nobody uses after it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[derive(Debug)]
pub(super) struct Mapped {
    path: PathBuf,
    file: File,
    window: Window,
    /// Where the window begins in the file.
    window_offset: u64,
}

impl Mapped {
    /// Takes over `file`, which is empty and open for reading and writing; gives it back where it
    /// cannot be mapped.
    pub fn create(path: &Path, file: File) -> Result<std::result::Result<Mapped, File>> {
        match Window::new(&file, 0, FIRST_WINDOW_BYTES) {
            Ok(window) => Ok(Ok(Mapped { path: path.to_owned(), file, window, window_offset: 0 })),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL) => Ok(Err(file)),
            Err(errno) => Err(Error::io(path, "write", errno.into())),
        }
    }

    fn next_window(&mut self) -> Result<()> {
        let offset = self.window_offset + self.window.bytes as u64;
        let bytes = (2 * self.window.bytes).min(MOST_WINDOW_BYTES);
        let window = Window::new(&self.file, offset, bytes);
        self.window = window.map_err(|errno| Error::io(&self.path, "write", errno.into()))?;
        self.window_offset = offset;
        Ok(())
    }
}

impl WritableFile for Mapped {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = self.window.fill(bytes);
        while !rest.is_empty() {
            self.next_window()?;
            rest = self.window.fill(rest);
        }
        Ok(())
    }

    /// The operating system has what was appended.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn discard_unflushed(&mut self) {}

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io(&self.path, "sync", error))
    }

    fn len(&self) -> u64 {
        self.window_offset + self.window.filled as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A longer file costs space and nothing else.
        let _ = self.file.set_len(self.len());
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::{Fs, RealFs};
    use super::*;

    fn create(path: &Path) -> Mapped {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(path).unwrap();
        Mapped::create(path, file).unwrap().expect("the file system allocates ahead")
    }

    #[test]
    fn a_mapped_file_holds_what_a_plain_one_holds() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, mapped) = (dir.path().join("plain"), dir.path().join("mapped"));
        let mut rng = StdRng::seed_from_u64(1);
        let mut one = RealFs.create(&plain).unwrap();
        let mut other = create(&mapped);
        let mut bytes = vec![0; 3 << 20];
        rng.fill(&mut bytes[..]);
        for step in 0..3000 {
            let most = if step % 500 == 7 { bytes.len() } else { 2000 };
            let start = rng.random_range(0..bytes.len());
            let end = bytes.len().min(start + rng.random_range(0..most));
            one.append(&bytes[start..end]).unwrap();
            other.append(&bytes[start..end]).unwrap();
            assert_eq!(other.len(), one.len());
            if step % 700 == 0 {
                other.sync().unwrap();
            }
        }
        one.flush().unwrap();
        assert!(one.len() > 4 * MOST_WINDOW_BYTES as u64);
        // Before it is dropped, as after a kill: the same bytes, then zeros.
        let (expected, found) = (std::fs::read(&plain).unwrap(), std::fs::read(&mapped).unwrap());
        assert!(found.starts_with(&expected), "what was appended is not in the file");
        assert!(found[expected.len()..].iter().all(|&byte| byte == 0));
        drop(other);
        assert!(std::fs::read(&mapped).unwrap() == expected, "the zeros stayed");
    }

    #[test]
    fn a_small_file_allocates_little_and_what_is_open_elsewhere_sees_each_append() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = create(&path);
        file.append(b"header").unwrap();
        let reader = RealFs.open(&path).unwrap();
        assert_eq!(reader.len(), FIRST_WINDOW_BYTES as u64);
        for n in 0..100u8 {
            file.append(&[n]).unwrap();
            let mut last = [0];
            reader.read_exact_at(6 + u64::from(n), &mut last).unwrap();
            assert_eq!(last, [n]);
        }
    }
}

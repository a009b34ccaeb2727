//! A log file that is written through mapped memory, so that passing a record to the operating
//! system takes only a copy.
//!
//! ```text
//!   file     | written, unmapped … | written ▸ · · · · |                    |
//!                                  |    ready: zeros   | not allocated yet  |
//!                                  └────────── window, mapped ──────────────┘
//! ```
//!
//! Bytes that are copied into a shared mapping are in the page cache at once, as after `write`:
//! they survive a killed process, and `fdatasync` makes them durable. A `write` of 150 bytes was
//! measured at about 1,000 ns. Copying them into the mapping took 150 ns, including the shares of
//! allocating, mapping and touching the pages (`docs/measurements/writes.md`).
//!
//! * The mapped part of the file, the *window*, is made ready in *steps* of 64 KiB. The space of a
//!   step is allocated on the device, and its pages are made writable, before bytes are copied to
//!   it. So a full disk is an error of `append`, not a signal during the copy. An append makes a
//!   step ready only when its bytes reach the step.
//! * After the written bytes the file holds zeros, up to the end of the steps that are ready.
//!   Dropping the [`Mapped`] cuts the zeros off, and so does [`WritableFile::discard_unflushed`]. If
//!   the process is killed, the zeros remain, and the reader of the log takes them for a torn tail.
//! * If no window is available, the rest of the file is written with `write`, as by
//!   [`super::real`]. This happens, for example, if the file system cannot allocate space ahead, if
//!   memory for the mapping is short (`ulimit -v`), or if the step would exceed the limit on the
//!   length of files (`ulimit -f`). The tests compare a mapped file with a file written this way.
//!
//! # Where it is safe
//!
//! Small records share a page, so a record often changes a page that was already written back. A
//! copy-on-write file system writes the changed page to another place on the device. It needs new
//! space for that when bytes are copied into the mapping, and can report a lack of space only by
//! SIGBUS. So a log is mapped only on file systems that always rewrite an allocated block in place
//! ([`is_safe_to_map`]):
//!
//! * **ext2, ext3, ext4 and tmpfs are used.** They share no blocks between files, so no block needs
//!   a copy.
//! * **btrfs is not used.** It writes changed blocks to another place. When it is full, copying
//!   bytes into the mapping ends in a SIGBUS.
//! * **XFS is not used.** A reflinked copy of the live log (`cp --reflink`) shares the blocks of
//!   the log, and XFS then copies each shared block that changes. Any user may make such a copy at
//!   any time.
//! * **All others are not used**: overlays, network file systems, file systems in user space, and
//!   unknown ones.
//!
//! SIGBUS is still possible if the device cannot read back a page that was evicted within the
//! window's short life, if the file system turned read-only after an error of its device, or if
//! another process truncates the file.

use std::fs::File;
use std::io::IoSlice;
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::{Errno, pwritev, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::WritableFile;
use super::real::file::RealWritableFile;
use super::system::longest_file_bytes;
use crate::error::{Error, Result};

/// Bytes of a window. The whole window is mapped at once, but only its ready steps are usable.
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of a step, the part of a window that is made ready at once. It is a multiple of every page
/// size, and divides [`WINDOW_BYTES`].
const STEP_BYTES: usize = 64 << 10;

/// The source of the zeros of a step. One `pwritev` writes the whole step from 16 references to
/// this array.
static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// The size of the pages in which the system's cache holds a step. If the file system supports
/// large pages (ext4 since Linux 6.16), Linux makes a page as large as the write that creates it.
/// Linux writes back whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Small pages, each created by touching it. A sync of one small record writes one small page.
    Small,
    /// One large page, created by writing zeros. It is ready sooner than many small pages, but a
    /// sync of one record writes the whole large page.
    Large,
}

/// A range of the file that is mapped into this process's memory.
///
/// Invariant: `start` is a mapping of [`WINDOW_BYTES`] bytes, exclusive to this value until it is
/// dropped. Its first `ready` bytes are in the file, readable and writable. `filled <= ready`.
#[derive(Debug)]
struct MappedWindow {
    start: NonNull<u8>,
    ready: usize,
    /// The number of bytes written, from the start on.
    filled: usize,
}

// SAFETY: the mapping is reached through this value only, and is not tied to a thread.
unsafe impl Send for MappedWindow {}
// SAFETY: shared references give no access to the mapping.
unsafe impl Sync for MappedWindow {}

impl MappedWindow {
    /// Maps `file` from `offset` on, with no step ready. Returns `None` if the file cannot be
    /// mapped.
    fn new(file: &File, offset: u64) -> Option<MappedWindow> {
        let (anywhere, access) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address, so the new mapping replaces no other.
        let mapped =
            unsafe { mmap(anywhere, WINDOW_BYTES, access, MapFlags::SHARED, file, offset) };
        let start = NonNull::new(mapped.ok()?.cast())?;
        Some(MappedWindow { start, ready: 0, filled: 0 })
    }

    /// Makes the next step of the window ready, which starts at `offset` in `file`. Returns `false`
    /// if the step cannot be mapped although a plain write may still succeed. Returns an error if
    /// the space cannot be allocated, for example because the disk is full.
    fn step(&mut self, file: &File, offset: u64, pages: Pages) -> rustix::io::Result<bool> {
        let bytes = STEP_BYTES as u64;
        if longest_file_bytes().is_some_and(|most| offset + bytes > most) {
            return Ok(false);
        }
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), offset, bytes)) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        if pages == Pages::Large {
            let zeros = [IoSlice::new(&ZEROS); STEP_BYTES / ZEROS.len()];
            // If the write was short, `madvise` below creates the pages of the rest.
            retry_on_intr(|| pwritev(file, &zeros, offset))?;
        }
        // SAFETY: the step is inside the mapping: `ready` is less than `WINDOW_BYTES`, and both are
        // multiples of `STEP_BYTES`. The advice changes no byte.
        let touched = unsafe {
            let start = self.start.as_ptr().add(self.ready);
            madvise(start.cast(), STEP_BYTES, Advice::LinuxPopulateWrite)
        };
        // Linux before 5.14 does not know this advice. There the copy in `fill` creates the pages.
        let ready = matches!(touched, Ok(()) | Err(Errno::INVAL));
        if ready {
            self.ready += STEP_BYTES;
        }
        Ok(ready)
    }

    /// Copies as much of `from` as the ready steps have room for. Returns the rest.
    fn fill<'a>(&mut self, from: &'a [u8]) -> &'a [u8] {
        let (now, later) = from.split_at(from.len().min(self.ready - self.filled));
        // SAFETY: the bytes from `filled` to `filled + now.len() <= ready` are in the mapping, to
        // which this value has exclusive access, so `now` does not overlap them.
        unsafe {
            let to = self.start.as_ptr().add(self.filled);
            std::ptr::copy_nonoverlapping(now.as_ptr(), to, now.len());
        }
        self.filled += now.len();
        later
    }
}

impl Drop for MappedWindow {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, which is not used afterwards.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), WINDOW_BYTES) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// The type of ext2, ext3 and ext4 in `statfs`.
const EXT_MAGIC: u32 = 0xef53;
const TMPFS_MAGIC: u32 = 0x0102_1994;

/// Whether an allocated page of `file` can be written again without further space.
pub(super) fn is_safe_to_map(file: &File) -> bool {
    // The numbers of file-system types have 32 bits, but `f_type` is wider on some systems.
    fstatfs(file).is_ok_and(|system| matches!(system.f_type as u32, EXT_MAGIC | TMPFS_MAGIC))
}

#[derive(Debug)]
pub(super) struct Mapped {
    /// The file, whose `written_bytes` do not include the bytes in the window.
    plain: RealWritableFile,
    /// `None` if `plain` writes all further bytes.
    window: Option<MappedWindow>,
    /// The pages of the next step. They are small for the first step of the file, and after a step
    /// in which the file was synced, because more syncs are then likely.
    next_pages: Pages,
    /// The length of the file at the last flush.
    flushed_to: u64,
}

impl Mapped {
    /// Takes over an empty file that is open for reading and writing.
    pub fn new(plain: RealWritableFile) -> Result<Mapped> {
        let window = MappedWindow::new(plain.file(), 0);
        let mut mapped = Mapped { plain, window, next_pages: Pages::Small, flushed_to: 0 };
        mapped.make_room()?;
        Ok(mapped)
    }

    /// Makes the next step ready, in this window or, if it is full, in a new one. If that is
    /// impossible, sets `window` to `None`.
    fn make_room(&mut self) -> Result<()> {
        if self.filled() == WINDOW_BYTES as u64 {
            self.plain.skip(WINDOW_BYTES as u64);
            self.window = MappedWindow::new(self.plain.file(), self.plain.written_bytes());
        }
        let Some(window) = &mut self.window else { return Ok(()) };
        let offset = self.plain.written_bytes() + window.ready as u64;
        let stepped = window.step(self.plain.file(), offset, self.next_pages);
        if !stepped.map_err(|errno| Error::io(self.plain.path(), "write", errno.into()))? {
            self.plain.skip(self.filled());
            self.window = None;
        }
        self.next_pages = Pages::Large;
        Ok(())
    }

    fn filled(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.filled as u64)
    }
}

impl WritableFile for Mapped {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while let Some(window) = &mut self.window {
            rest = window.fill(rest);
            if rest.is_empty() {
                return Ok(());
            }
            self.make_room()?;
        }
        self.plain.append(rest)
    }

    /// Flushes only `plain`, because the operating system already has the bytes in a window.
    fn flush(&mut self) -> Result<()> {
        self.plain.flush()?;
        self.flushed_to = self.len();
        Ok(())
    }

    /// Cuts the file behind the last flush, because this window and earlier ones may hold a part of
    /// the failed bytes, and zeros follow. The cut is synced, because this part may be on the device
    /// already: the system writes pages back at any time.
    fn discard_unflushed(&mut self) -> Result<()> {
        self.window = None;
        self.plain.cut(self.flushed_to)
    }

    fn sync(&mut self) -> Result<()> {
        self.next_pages = Pages::Small;
        self.plain.sync()?;
        self.flushed_to = self.len();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.plain.len() + self.filled()
    }

    fn path(&self) -> &Path {
        self.plain.path()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A forked child must not truncate the file, which its parent may have extended since the
        // fork.
        if !self.plain.is_of_this_process() {
            return;
        }
        // If this fails, the zeros stay, which costs only space.
        let _ = self.plain.file().set_len(self.plain.written_bytes() + self.filled());
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::super::{Fs, RealFs};
    use super::*;

    fn create(path: &Path) -> Mapped {
        let file = Mapped::new(RealWritableFile::create(None, path).unwrap()).unwrap();
        assert!(file.window.is_some(), "the file system allocates ahead");
        file
    }

    /// Regression: without a window, a record that was reported as failed for lack of space stayed
    /// in the buffer, and a later sync wrote it.
    #[test]
    fn without_a_window_unflushed_bytes_are_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = create(&path);
        file.append(b"before").unwrap();
        file.flush().unwrap();
        // As `make_room` does if there is no space for another window.
        file.plain.skip(file.filled());
        file.window = None;
        file.append(b"failed").unwrap();
        file.discard_unflushed().unwrap();
        file.sync().unwrap();
        drop(file);
        assert_eq!(std::fs::read(path).unwrap(), b"before");
    }

    /// Regression: a record was whole in the window when the flush after it failed for lack of
    /// space, in a file system that wraps another. It stayed in the file, the next log began with
    /// the same sequence number, and the database could not be opened any more.
    ///
    /// The long record was not whole, and began in an earlier window, where its part stayed. If the
    /// process was killed, zeros of the next window followed this part and could complete it.
    #[test]
    fn unflushed_bytes_in_windows_are_discarded_with_the_zeros_behind_them() {
        let dir = tempfile::tempdir().unwrap();
        for failed_bytes in [10_000, WINDOW_BYTES, 3 * WINDOW_BYTES] {
            let path = dir.path().join("log");
            let mut file = create(&path);
            file.append(b"before").unwrap();
            file.flush().unwrap();
            file.append(&vec![7; failed_bytes]).unwrap();
            file.discard_unflushed().unwrap();
            // The file is read before it is dropped, so it is as after a kill.
            assert_eq!(std::fs::read(&path).unwrap(), b"before");
            assert_eq!(file.len(), 6);
            file.sync().unwrap();
            drop(file);
            assert_eq!(std::fs::read(path).unwrap(), b"before");
        }
    }

    #[test]
    fn bytes_that_were_synced_without_a_flush_are_not_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = create(&path);
        file.append(b"synced").unwrap();
        file.sync().unwrap();
        file.append(b"failed").unwrap();
        file.discard_unflushed().unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"synced");
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
        assert!(one.len() > 4 * WINDOW_BYTES as u64);
        // `mapped` is read before `other` is dropped, so it is as after a kill: it holds the bytes
        // of `plain`, then zeros.
        let (expected, found) = (std::fs::read(&plain).unwrap(), std::fs::read(&mapped).unwrap());
        assert!(found.starts_with(&expected), "appended bytes are not in the file");
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
        assert_eq!(reader.len(), STEP_BYTES as u64);
        for n in 0..100u8 {
            file.append(&[n]).unwrap();
            let mut last = [0];
            reader.read_exact_at(6 + u64::from(n), &mut last).unwrap();
            assert_eq!(last, [n]);
        }
    }

    /// A sync writes whole pages, so with large pages each sync of a small record would write 64
    /// KiB.
    #[test]
    fn a_log_that_is_synced_has_small_pages() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = create(&dir.path().join("log"));
        let step = vec![7; STEP_BYTES];
        file.append(&step).unwrap();
        assert_eq!(file.next_pages, Pages::Large);
        // The file is synced after its second and third step, and not after its fourth.
        for synced in [true, true, false] {
            file.append(&step).unwrap();
            if synced {
                file.sync().unwrap();
            }
            assert_eq!(file.next_pages == Pages::Small, synced);
        }
    }

    /// A log that could not be mapped because memory was short once made the database read-only.
    /// Now such a log is written as a plain file.
    #[test]
    fn without_memory_for_a_window_the_log_is_written_plainly() {
        let dir = tempfile::tempdir().unwrap();
        // The limit applies to a whole process, so a child process sets it.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fs::mapped::tests::child_without_memory", "--ignored"])
            .env("MAYPOLE_MAPPED_TEST_DIRECTORY", dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let expected: Vec<u8> = (0..1_200u32).flat_map(|n| [n as u8; 1000]).collect();
        for name in ["from the start", "from the second window"] {
            let found = std::fs::read(dir.path().join(name)).unwrap();
            assert!(found == expected, "{name}: {} bytes", found.len());
        }
    }

    #[test]
    #[ignore = "the other half of another test, which starts it"]
    fn child_without_memory() {
        let Some(dir) = std::env::var_os("MAYPOLE_MAPPED_TEST_DIRECTORY") else { return };
        let append = |file: &mut Mapped| {
            for n in 0..1_200u32 {
                file.append(&[n as u8; 1000]).unwrap();
                file.flush().unwrap();
            }
        };
        let path = |name: &str| Path::new(&dir).join(name);
        let empty = RealWritableFile::create(None, &path("from the start")).unwrap();
        let mut begun = create(&path("from the second window"));
        // The limit is less than the process already uses, so no further mapping is granted.
        let limit = getrlimit(Resource::As);
        setrlimit(Resource::As, Rlimit { current: Some(1 << 20), ..limit }).unwrap();
        let mut plain = Mapped::new(empty).unwrap();
        let was_mapped = plain.window.is_some();
        append(&mut plain);
        append(&mut begun);
        setrlimit(Resource::As, limit).unwrap();
        assert!(!was_mapped && begun.window.is_none(), "the limit had no effect");
        plain.sync().unwrap();
    }
}

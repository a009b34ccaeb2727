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
//! measured at about 1,000 ns. The copy takes 150 ns, including allocating, mapping and touching
//! the pages (`docs/measurements/2026-11-24-writes.md`).
//!
//! * The window is made ready in steps. The space of a step is allocated on the device, and its
//!   pages are made writable, before bytes are copied to it, so that a full disk is an error of
//!   `append`, not a signal during the copy. An append waits only for the steps that it needs
//!   ([`Pages`]).
//! * After the written bytes the file holds zeros, up to the end of the steps that are ready.
//!   Dropping the file cuts the zeros off. If the process was killed, the zeros remain, and the
//!   reader of the log takes them for a torn tail.
//! * If no window is available, the rest of the file is written as a plain file of [`super::real`].
//!   This happens, for example, if the file system does not allocate ahead, if memory for the
//!   mapping is short (`ulimit -v`), or if the file would exceed the limit on its length (`ulimit
//!   -f`). The plain file is also the oracle of the tests.
//!
//! # Where it is safe
//!
//! After a page was written back, the next record on this page changes it again. A file system that
//! writes the changed page elsewhere then needs space for it a second time, during the copy, and
//! can report a lack of space only by SIGBUS. So mappings are used only on file systems that
//! rewrite an allocated block in place, whatever else happens to the file ([`is_safe_to_map`]):
//!
//! * **ext2, ext3, ext4, tmpfs**: they share no blocks between files.
//! * **not btrfs**: it writes changed blocks elsewhere. When it is full, the copy ends in a SIGBUS.
//! * **not XFS**: a reflinked copy of the live log (`cp --reflink`) shares the blocks of the log.
//!   From then on changed blocks are written elsewhere too. Any user may make such a copy at any
//!   time.
//! * **nothing else**: no overlays, network file systems, file systems in user space, or unknown
//!   ones.
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
use super::real::RealWritableFile;
use super::system::longest_file_bytes;
use crate::error::{Error, Result};

/// Bytes of a window, which is only a range of addresses until its steps are ready.
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of a step, the part of a window that is made ready at once. It is a multiple of every page
/// size, and divides [`WINDOW_BYTES`].
const STEP_BYTES: usize = 64 << 10;

/// One system call writes the zeros of a whole step, because it can refer to this array many times.
static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// How the system's cache holds a step. Linux makes each page as large as the write that creates
/// it, if the file system supports this (ext4 since Linux 6.16), and writes back whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Small pages, each touched on its own. A sync of one record writes one small page.
    Small,
    /// One large page, created by writing zeros. This is faster, but a sync writes the whole large
    /// page.
    Large,
}

/// Pages of the file in this process's memory.
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
    /// if that is impossible. A plain write may then still succeed. If not, it returns the reason
    /// as its error.
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
        // Linux before 5.14 does not know this advice. There the copy touches the pages.
        let ready = matches!(touched, Ok(()) | Err(Errno::INVAL));
        if ready {
            self.ready += STEP_BYTES;
        }
        Ok(ready)
    }

    /// Copies as much of `from` as fits. Returns the rest.
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
    /// The file. Its `written_bytes` are those before the window.
    plain: RealWritableFile,
    /// `None` if `plain` writes all further bytes.
    window: Option<MappedWindow>,
    /// The pages of the next step. They are small after a step with a sync, because more syncs are
    /// likely.
    next_pages: Pages,
}

impl Mapped {
    /// Takes over an empty file that is open for reading and writing.
    pub fn new(plain: RealWritableFile) -> Result<Mapped> {
        let window = MappedWindow::new(plain.file(), 0);
        let mut mapped = Mapped { plain, window, next_pages: Pages::Small };
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
        self.plain.flush()
    }

    fn discard_unflushed(&mut self) {}

    fn sync(&mut self) -> Result<()> {
        self.next_pages = Pages::Small;
        self.plain.sync()
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
        // `mapped` is read before the file is dropped, as after a kill: it has the bytes of
        // `plain`, then zeros.
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
        // Each of the first two steps is synced, and the third is not.
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

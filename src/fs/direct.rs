//! [`DirectFs`]: files whose reads bypass the system's cache (`O_DIRECT`, Linux).
//!
//! The system reads the device's blocks straight into a program's memory, so the offset, length and
//! address of a read must be multiples of the block size. [`DirectFs`] therefore reads the blocks
//! around the wanted bytes into a `BlockBuffer`, and copies the wanted bytes from there. The copy
//! takes little time compared with the read from the device.
//!
//! This is a file system and not an option of a database, because nothing above the files needs to
//! know of it.
//!
//! If the file system cannot bypass its cache, or has blocks larger than `BLOCK_BYTES`, files are
//! read through the cache. So a database with `DirectFs` works on every file system, but files that
//! are read through the cache take memory there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::anchored::SystemFs;
use super::{DescriptorPool, FileLock, Fs, RandomAccessFile, WritableFile};
use crate::error::Result;

/// The operating system's file system, with reads that bypass the system's cache. With it, the
/// block cache is the database's only cache, so give the block cache the memory that the system's
/// cache would use.
///
/// Each block cache miss waits for the device, and the system does not read ahead for a scan. Files
/// are written as by [`RealFs`](super::RealFs), through the system's cache. So when a database that
/// is open for writing opens a table, it drops the pages of the table that the system has cached.
/// On systems other than Linux, `DirectFs` is the same as `RealFs`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::Db;
/// use maypole::fs::DirectFs;
/// use std::sync::Arc;
///
/// let db = Db::builder(dir.path())
///     .fs(Arc::new(DirectFs))
///     .block_cache_bytes(64 << 20)
///     .open()?;
/// db.put("key", "value")?;
/// db.flush()?;
/// assert_eq!(db.get("key")?.unwrap(), b"value");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectFs;

impl Fs for DirectFs {
    pass_on! { SystemFs::PAST_CACHE =>
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

#[cfg(target_os = "linux")]
pub(super) mod linux {
    use std::cell::RefCell;
    use std::io::{self, ErrorKind};
    use std::path::Path;
    use std::sync::Arc;

    use crate::error::{Error, Result};
    use crate::fs::block_buffer::{BlockBuffer, BlockRange};
    use crate::fs::descriptors::HeldDescriptor;
    use crate::fs::system::{self, Borrowed};
    use crate::fs::{RandomAccessFile, past_end};

    /// The assumed block size. Common devices have no larger blocks.
    const BLOCK_BYTES: usize = 4096;
    /// A read of at most this many bytes, counted from the start of its first block, uses the
    /// buffer that the thread keeps. A longer read gets a buffer of its own.
    const MAX_KEPT_BYTES: usize = 64 << 10;

    /// A file whose descriptors read whole blocks of the device.
    #[derive(Debug)]
    pub struct DirectFile {
        pub inner: Arc<dyn RandomAccessFile>,
    }

    impl RandomAccessFile for DirectFile {
        fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            let Some(held) = self.descriptor() else {
                // The file could not be opened again. `inner` tries again, and returns the reason
                // if it fails too.
                return self.inner.read_exact_at(offset, buffer);
            };
            let wanted = buffer.len();
            if wanted == 0 {
                return Ok(());
            }
            let past_end = |filled| past_end(self.path(), offset, wanted, filled);
            if offset.checked_add(wanted as u64).is_none_or(|end| end > self.len()) {
                return Err(past_end(self.len().saturating_sub(offset)));
            }
            let range = BlockRange::new(offset, wanted, BLOCK_BYTES);
            with_kept_buffer(range, |kept| {
                let filled = read_blocks(held.descriptor(), range, kept.blocks(range))
                    .map_err(|error| Error::io(self.path(), "read", error))?;
                if filled < range.needed() {
                    return Err(past_end(filled.saturating_sub(range.skipped()) as u64));
                }
                buffer.copy_from_slice(kept.wanted(range));
                Ok(())
            })
        }

        fn descriptor(&self) -> Option<HeldDescriptor<'_>> {
            Some(self.inner.descriptor()?.in_blocks_of(BLOCK_BYTES))
        }

        pass_on! { self.inner =>
            fn len(&self) -> u64;
            fn path(&self) -> &Path;
            fn keep_open(&self) -> Result<bool>;
            fn drop_page_cache(&self) -> Result<()>;
        }
    }

    /// Reads whole blocks until the bytes that `range` needs are read or the file ends. Returns the
    /// number of bytes read.
    fn read_blocks(
        descriptor: Borrowed<'_>,
        range: BlockRange,
        blocks: &mut [u8],
    ) -> io::Result<usize> {
        let mut filled = 0;
        let mut is_direct = true;
        while filled < range.needed() {
            let next = range.next(filled);
            match system::read_at(descriptor, &mut blocks[next..], range.start() + next as u64) {
                Ok(count) if next + count <= filled => break,
                Ok(count) => filled = next + count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The device's blocks are larger than assumed, so the descriptor's reads go through
                // the cache from now on.
                Err(error) if error.kind() == ErrorKind::InvalidInput && is_direct => {
                    system::read_through_cache(descriptor)?;
                    is_direct = false;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Runs `work` with the buffer that the thread keeps. If the range is longer than
    /// [`MAX_KEPT_BYTES`], runs `work` with a new buffer.
    fn with_kept_buffer<R>(range: BlockRange, work: impl FnOnce(&mut BlockBuffer) -> R) -> R {
        thread_local! {
            static KEPT: RefCell<BlockBuffer> = RefCell::default();
        }
        match range.needed() > MAX_KEPT_BYTES {
            true => work(&mut BlockBuffer::default()),
            false => KEPT.with_borrow_mut(work),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::fs::{RealFs, write_atomic};

    fn random_file(dir: &Path, bytes: usize) -> PathBuf {
        let mut content = vec![0; bytes];
        StdRng::seed_from_u64(bytes as u64).fill(&mut content[..]);
        let path = dir.join(format!("{bytes}"));
        write_atomic(&RealFs, &path, &content).unwrap();
        path
    }

    /// The number of bytes that devices have read for this thread so far. `None` where the system
    /// does not report this number.
    fn device_bytes() -> Option<u64> {
        let io = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
    }

    #[test]
    #[ignore = "takes seconds; .ci/run runs it"]
    fn every_range_is_answered_as_through_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let pool = DescriptorPool::shared();
        let mut rng = StdRng::seed_from_u64(5);
        for bytes in [0, 1, 511, 4095, 4096, 4097, 8192, 200_001] {
            let path = random_file(dir.path(), bytes);
            let plain = RealFs.open(&path).unwrap();
            for direct in [DirectFs.open(&path), DirectFs.open_pooled(&path, &pool)] {
                let direct = direct.unwrap();
                assert_eq!((direct.len(), direct.path()), (bytes as u64, &*path));
                for _ in 0..500 {
                    let offset = rng.random_range(0..=bytes as u64 + 5);
                    let len = match rng.random_range(0..3) {
                        0 => rng.random_range(0..20),
                        1 => rng.random_range(0..10_000),
                        _ => (bytes as u64).saturating_sub(offset) as usize,
                    };
                    let (mut expected, mut found) = (vec![0; len], vec![0; len]);
                    let through_cache = plain.read_exact_at(offset, &mut expected);
                    let past_cache = direct.read_exact_at(offset, &mut found);
                    // After an error the buffer may hold anything.
                    let answer = |result: Result<()>, bytes: Vec<u8>| {
                        result.map(|()| bytes).map_err(|error| error.to_string())
                    };
                    let (past_cache, through_cache) =
                        (answer(past_cache, found), answer(through_cache, expected));
                    assert!(past_cache == through_cache, "{offset} {len} of {bytes}");
                }
                for offset in [u64::MAX, u64::MAX - 4096, i64::MAX as u64] {
                    assert!(direct.read_exact_at(offset, &mut [0; 10]).is_err());
                }
            }
        }
        assert!(DirectFs.open(&dir.path().join("none")).is_err());
        assert!(DirectFs.open(dir.path()).is_err());
    }

    #[test]
    fn nothing_stays_in_the_systems_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = random_file(dir.path(), 1 << 20);
        let file = DirectFs.open_pooled(&path, &DescriptorPool::shared()).unwrap();
        let read = || {
            let before = device_bytes()?;
            file.read_exact_at(70_000, &mut [0; 5000]).unwrap();
            Some(device_bytes()? - before)
        };
        match (read(), read(), read()) {
            (Some(0), ..) | (None, ..) => {
                println!("not tested: no device behind {}", path.display())
            }
            reads => assert_eq!(reads, (Some(8192), Some(8192), Some(8192))),
        }
    }

    #[test]
    fn a_file_that_lost_its_descriptor_is_opened_past_the_cache_again() {
        let dir = tempfile::tempdir().unwrap();
        let pool = DescriptorPool::new(1);
        let paths = [random_file(dir.path(), 50_000), random_file(dir.path(), 60_000)];
        let files = paths.each_ref().map(|path| DirectFs.open_pooled(path, &pool).unwrap());
        for round in 0..20 {
            for (path, file) in paths.iter().zip(&files) {
                let (mut found, expected) = ([0; 100], std::fs::read(path).unwrap());
                file.read_exact_at(4090 + round, &mut found).unwrap();
                assert_eq!(found, expected[4090 + round as usize..][..100]);
            }
        }
    }
}

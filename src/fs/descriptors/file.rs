//! [`PooledFile`]: a file that may lose its descriptor, and is then opened again for the next read.
//!
//! Each file has a *slot*, which holds its descriptor while the file is open. The pool's *ring*
//! lists the open slots.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::held::HeldDescriptor;
use super::pool::{DescriptorPool, MAX_FILES, Slot};
use crate::error::{Damage, Error, Result};
use crate::fs::RandomAccessFile;
use crate::fs::anchored::SystemFs;
use crate::fs::limits::open_files_limit;
use crate::fs::real::file::{drop_page_cache, read_exact_at};
use crate::fs::system::{self, Descriptor, Identity};
use crate::sync::{Mutex, lock, rank};

/// The number of files of the process that keep their descriptors until they are dropped.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A file for reading. Its pool may close the descriptor between two reads.
pub(in crate::fs) struct PooledFile {
    path: PathBuf,
    fs: SystemFs,
    identity: Identity,
    slot: Arc<Slot>,
    pool: Arc<DescriptorPool>,
    /// Whether the file keeps its descriptor until the file is dropped, because of
    /// [`RandomAccessFile::keep_open`]. A thread that opens the file again holds the mutex, so that
    /// other threads do not open it too.
    kept: Mutex<bool, rank::FileOpening>,
}

impl PooledFile {
    /// Opens the file in `fs`. Later reads may open it again in `fs`.
    pub fn open(path: &Path, pool: &Arc<DescriptorPool>, fs: &SystemFs) -> Result<PooledFile> {
        let slot = Arc::new(Slot::closed());
        let (_, identity) = pool.open_into(&slot, || {
            let (descriptor, metadata) =
                fs.open_read_only(path).map_err(|error| Error::io(path, "open", error))?;
            Ok((descriptor, Identity::from(&metadata)))
        })?;
        let kept = Mutex::new(false);
        Ok(PooledFile {
            path: path.to_owned(),
            fs: fs.clone(),
            identity,
            pool: Arc::clone(pool),
            kept,
            slot: Arc::clone(&slot),
        })
    }

    /// The descriptor, which the pool does not close while the caller has it.
    #[inline]
    fn open_descriptor(&self) -> Result<Arc<Descriptor>> {
        // In a forked child the lock below may be locked for ever.
        self.pool.process.check()?;
        // `used` is written only if it is not set, because a write would take the flag's cache line
        // from the other threads that read the file.
        if !self.slot.used.load(Ordering::Relaxed) {
            self.slot.used.store(true, Ordering::Relaxed);
        }
        match self.slot.descriptor() {
            Some(descriptor) => Ok(descriptor),
            None => self.open_again(),
        }
    }

    #[cold]
    fn open_again(&self) -> Result<Arc<Descriptor>> {
        let _one_at_a_time = lock(&self.kept);
        self.open_alone()
    }

    /// Like [`PooledFile::open_descriptor`], but the caller holds the lock of `kept`.
    fn open_alone(&self) -> Result<Arc<Descriptor>> {
        if let Some(descriptor) = self.slot.descriptor() {
            return Ok(descriptor);
        }
        let (descriptor, ()) = self.pool.open_into(&self.slot, || {
            let (descriptor, metadata) = self
                .fs
                .open_read_only(&self.path)
                .map_err(|error| Error::io(&self.path, "open again", error))?;
            let found = Identity::from(&metadata);
            if found != self.identity {
                let expected = format_args!("the file that was opened first ({})", self.identity);
                let damage =
                    Damage::new(0, expected, format_args!("another in its place ({found})"));
                return Err(damage.in_file(&self.path, 0));
            }
            Ok((descriptor, ()))
        })?;
        self.pool.reopened.fetch_add(1, Ordering::Relaxed);
        Ok(descriptor)
    }
}

impl RandomAccessFile for PooledFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let descriptor = self.open_descriptor()?;
        read_exact_at(system::borrow(&descriptor), self, offset, buffer)
    }

    fn len(&self) -> u64 {
        self.identity.bytes
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn descriptor(&self) -> Option<HeldDescriptor<'_>> {
        self.open_descriptor().ok().map(HeldDescriptor::pooled)
    }

    fn drop_page_cache(&self) -> Result<()> {
        let descriptor = self.open_descriptor()?;
        drop_page_cache(system::borrow(&descriptor), &self.path)
    }

    fn keep_open(&self) -> Result<bool> {
        self.pool.process.check()?;
        let mut kept = lock(&self.kept);
        if *kept {
            return Ok(true);
        }
        if !keep_one() {
            return Ok(false);
        }
        // The hand does not take the descriptor before the slot has left the ring, because this
        // function has it.
        let _descriptor = self.open_alone().inspect_err(|_| {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        })?;
        self.pool.forget(&self.slot);
        *kept = true;
        Ok(true)
    }
}

/// Counts one more file that keeps its descriptor. Returns `false` if such files already take a
/// quarter of the process's limit on descriptors.
fn keep_one() -> bool {
    let most = (open_files_limit().soft.min(4 * MAX_FILES) / 4) as usize;
    let one_more = |kept| (kept < most).then_some(kept + 1);
    KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        if !self.pool.process.is_current() {
            return;
        }
        if *lock(&self.kept) {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
        // After this call the slot is not in the ring and belongs to this value alone. So its
        // descriptor is closed with this value.
        self.pool.forget(&self.slot);
    }
}

impl fmt::Debug for PooledFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledFile").field("path", &self.path).finish_non_exhaustive()
    }
}

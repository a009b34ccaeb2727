//! Which table files have a descriptor: at most so many of a pool, those that were read lately.
//!
//! ```text
//!   PooledFile   path, length, device and inode as first seen        any number
//!     └─ Slot    a Descriptor, there or not (word.rs)
//!   DescriptorPool
//!     └─ ring    the slots that have one, swept by a clock's hand    at most `capacity`
//! ```
//!
//! * A read of a file that has its descriptor takes no lock. A read of one that has none opens it
//!   again, under a lock of that file alone.
//! * Room is made before a file is opened: the hand takes the first descriptor that was not used
//!   since it last came by, and that nobody is using. Where all are in use the pool exceeds its
//!   capacity, by as many as threads are reading: a read never waits for another's.
//! * A file that is opened again is the one that was opened first: device, inode and length are
//!   compared.
//! * [`RandomAccessFile::keep_open`] takes a file out of the ring for good, with its descriptor.
//!
//! A process that has no descriptor left closes idle ones of every pool before it gives up
//! ([`with_descriptor`]).
//!
//! Absent on purpose: waiting for a descriptor; knowing what is in the files.

mod word;

use std::fs::Metadata;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::{fmt, io};

use rustix::io::Errno;

use super::RandomAccessFile;
use super::limits::open_files_limit;
use super::real::{drop_page_cache, open_to_read, read_exact_at};
use crate::error::{Error, Result};
use crate::sync::lock;
use word::{Descriptor, Pinned};

/// More would be of no use, and tables of the system grow with it.
const MOST_FILES: u64 = 1 << 20;

/// Descriptors given up when the system has none left.
const WAY: usize = 16;
/// How often that is tried: others may take what was given up.
const ATTEMPTS: usize = 64;

/// How many descriptors table files may have together; shared by any number of files.
pub struct DescriptorPool {
    capacity: AtomicUsize,
    ring: Mutex<Ring>,
    reopened: AtomicU64,
}

#[derive(Default)]
struct Ring {
    /// Those that have a descriptor; each knows its place.
    slots: Vec<Arc<Slot>>,
    hand: usize,
    /// Files that are being opened: room was made for them.
    opening: usize,
}

struct Slot {
    descriptor: Descriptor,
    /// Since the hand last came by.
    used: AtomicBool,
    /// The place in the ring, for who holds the ring.
    place: AtomicUsize,
}

/// Every pool of the process, for who needs a descriptor at any cost.
static POOLS: Mutex<Vec<Weak<DescriptorPool>>> = Mutex::new(Vec::new());
static SHARED: OnceLock<Arc<DescriptorPool>> = OnceLock::new();
/// Files of the process that have their descriptor for good.
static KEPT: AtomicUsize = AtomicUsize::new(0);

impl DescriptorPool {
    /// A pool for `capacity` descriptors.
    pub fn new(capacity: usize) -> Arc<DescriptorPool> {
        let pool = Arc::new(DescriptorPool {
            capacity: AtomicUsize::new(capacity),
            ring: Mutex::default(),
            reopened: AtomicU64::new(0),
        });
        let mut pools = lock(&POOLS);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        pool
    }

    /// The pool of all who do not have their own. Each call sets its capacity to half of what the
    /// process may have open at that moment.
    pub fn shared() -> Arc<DescriptorPool> {
        let capacity = (open_files_limit().soft.min(2 * MOST_FILES) / 2).max(1) as usize;
        let shared = SHARED.get_or_init(|| DescriptorPool::new(capacity));
        shared.capacity.store(capacity, Ordering::Relaxed);
        Arc::clone(shared)
    }

    /// The most descriptors its files have, but for those that are being read at one moment.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Descriptors that its files have, those that are kept not counted.
    pub fn open_files(&self) -> usize {
        lock(&self.ring).slots.len()
    }

    /// How often a file that had lost its descriptor was opened again.
    pub fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// Opens `open`'s file within the capacity, into `slot`, which has no descriptor.
    fn open_into<'s, T>(
        &self,
        slot: &'s Arc<Slot>,
        open: impl FnOnce() -> Result<(OwnedFd, T)>,
    ) -> Result<(Pinned<'s>, T)> {
        let room = Room::new(self);
        let (descriptor, value) = open()?;
        // Pinned before it is in the ring, so that it is not taken before its first use.
        let Ok(pinned) = slot.descriptor.install(descriptor) else {
            unreachable!("a slot is opened by one thread at a time, when it is closed")
        };
        room.fill(Arc::clone(slot));
        Ok((pinned, value))
    }

    /// Takes the slot out of the ring, if it is there.
    fn forget(&self, slot: &Arc<Slot>) {
        let mut ring = lock(&self.ring);
        let place = slot.place.load(Ordering::Relaxed);
        if ring.slots.get(place).is_some_and(|there| Arc::ptr_eq(there, slot)) {
            ring.remove(place);
        }
    }

    /// Closes up to `count` descriptors that nobody is using; answers how many.
    fn close_idle(&self, count: usize) -> usize {
        let mut closed = Vec::new();
        {
            let mut ring = lock(&self.ring);
            closed.extend(std::iter::from_fn(|| ring.take_idle()).take(count));
        }
        closed.len()
    }
}

impl fmt::Debug for DescriptorPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorPool")
            .field("capacity", &self.capacity())
            .field("open_files", &self.open_files())
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// A descriptor that nobody is using, if there is one: the hand goes round twice, since the first
    /// time it may only find that each was used.
    fn take_idle(&mut self) -> Option<OwnedFd> {
        for _ in 0..2 * self.slots.len() {
            self.hand %= self.slots.len();
            let slot = &self.slots[self.hand];
            if !slot.used.swap(false, Ordering::Relaxed)
                && let Some(descriptor) = slot.descriptor.take_idle()
            {
                self.remove(self.hand);
                return Some(descriptor);
            }
            self.hand += 1;
        }
        None
    }

    fn add(&mut self, slot: Arc<Slot>) {
        slot.place.store(self.slots.len(), Ordering::Relaxed);
        self.slots.push(slot);
    }

    fn remove(&mut self, place: usize) {
        self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            moved.place.store(place, Ordering::Relaxed);
        }
    }
}

/// Room for one descriptor of a pool, while its file is being opened.
struct Room<'a>(&'a DescriptorPool);

impl<'a> Room<'a> {
    fn new(pool: &'a DescriptorPool) -> Room<'a> {
        let mut closed = Vec::new();
        {
            let mut ring = lock(&pool.ring);
            ring.opening += 1;
            while ring.slots.len() + ring.opening > pool.capacity() {
                match ring.take_idle() {
                    Some(descriptor) => closed.push(descriptor),
                    None => break,
                }
            }
        }
        // What is closed is closed here, not under the lock.
        Room(pool)
    }

    fn fill(self, slot: Arc<Slot>) {
        let mut ring = lock(&self.0.ring);
        ring.add(slot);
        ring.opening -= 1;
        drop(ring);
        std::mem::forget(self);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        lock(&self.0.ring).opening -= 1;
    }
}

/// Runs `open`, which takes a descriptor. Where the process or the system has none left, table files
/// that nobody is reading give theirs up.
pub(super) fn with_descriptor<T>(open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    while_others_give_way(open, || {
        let pools: Vec<_> = lock(&POOLS).iter().filter_map(Weak::upgrade).collect();
        pools.iter().map(|pool| pool.close_idle(WAY)).sum::<usize>() > 0
    })
}

fn while_others_give_way<T>(
    mut open: impl FnMut() -> io::Result<T>,
    give_way: impl Fn() -> bool,
) -> io::Result<T> {
    for _ in 0..ATTEMPTS {
        match open() {
            Err(error) if is_exhausted(&error) && give_way() => {}
            done => return done,
        }
    }
    open()
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// What tells one file from another that has its name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
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

/// A file that is open for reading, with a descriptor when it needs one.
pub(super) struct PooledFile {
    path: PathBuf,
    identity: Identity,
    slot: Arc<Slot>,
    pool: Arc<DescriptorPool>,
    /// Held while the file is opened. Whether it keeps its descriptor for good.
    kept: Mutex<bool>,
}

impl PooledFile {
    pub fn open(path: &Path, pool: &Arc<DescriptorPool>) -> Result<PooledFile> {
        let slot = Arc::new(Slot {
            descriptor: Descriptor::closed(),
            used: AtomicBool::new(true),
            place: AtomicUsize::new(usize::MAX),
        });
        let (_pinned, identity) = pool.open_into(&slot, || {
            let (descriptor, metadata) =
                open_to_read(path).map_err(|error| Error::io(path, "open", error))?;
            Ok((descriptor, Identity::from(&metadata)))
        })?;
        let kept = Mutex::new(false);
        Ok(PooledFile {
            path: path.to_owned(),
            identity,
            pool: Arc::clone(pool),
            kept,
            slot: Arc::clone(&slot),
        })
    }

    #[inline]
    fn pin(&self) -> Result<Pinned<'_>> {
        // Not written where it is set: the line may be read by many.
        if !self.slot.used.load(Ordering::Relaxed) {
            self.slot.used.store(true, Ordering::Relaxed);
        }
        match self.slot.descriptor.pin() {
            Some(pinned) => Ok(pinned),
            None => self.open_again(),
        }
    }

    #[cold]
    fn open_again(&self) -> Result<Pinned<'_>> {
        let _one_at_a_time = lock(&self.kept);
        self.pin_alone()
    }

    /// For who holds the file's lock.
    fn pin_alone(&self) -> Result<Pinned<'_>> {
        if let Some(pinned) = self.slot.descriptor.pin() {
            return Ok(pinned);
        }
        let (pinned, ()) = self.pool.open_into(&self.slot, || {
            let (descriptor, metadata) = open_to_read(&self.path)
                .map_err(|error| Error::io(&self.path, "open again", error))?;
            let found = Identity::from(&metadata);
            if found != self.identity {
                return Err(Error::Corruption {
                    file: self.path.clone(),
                    offset: 0,
                    expected: format!("the file that was opened first ({})", self.identity),
                    found: format!("another in its place ({found})"),
                });
            }
            Ok((descriptor, ()))
        })?;
        self.pool.reopened.fetch_add(1, Ordering::Relaxed);
        Ok(pinned)
    }
}

impl RandomAccessFile for PooledFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&self.pin()?, self, offset, buffer)
    }

    fn len(&self) -> u64 {
        self.identity.bytes
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn drop_page_cache(&self) -> Result<()> {
        drop_page_cache(&self.pin()?, &self.path)
    }

    fn keep_open(&self) -> Result<bool> {
        let mut kept = lock(&self.kept);
        if *kept {
            return Ok(true);
        }
        if !keep_one() {
            return Ok(false);
        }
        let pinned = self.pin_alone().inspect_err(|_| {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        })?;
        self.pool.forget(&self.slot);
        pinned.forever();
        *kept = true;
        Ok(true)
    }
}

/// Counts one more that is kept, while they are less than a quarter of what the process may have.
fn keep_one() -> bool {
    let most = (open_files_limit().soft.min(4 * MOST_FILES) / 4) as usize;
    let one_more = |kept| (kept < most).then_some(kept + 1);
    KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        if *lock(&self.kept) {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
        // The slot is this value's alone then, and its descriptor is closed with it.
        self.pool.forget(&self.slot);
    }
}

impl fmt::Debug for PooledFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledFile")
            .field("path", &self.path)
            .field("has_descriptor", &self.slot.descriptor.is_open())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

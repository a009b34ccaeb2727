//! [`DescriptorPool`]: decides which of its files have a descriptor open.
//!
//! The slots of the open files form a *ring*. Its *hand* goes from slot to slot and closes the
//! descriptor of the first one that is idle and was not used since the hand last passed it. The
//! kernel rings ([`super::urings`]) take descriptors of the pool too.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::error::Result;
use crate::fs::limits::open_files_limit;
use crate::fs::overlapped::Uring;
use crate::fs::system::Descriptor;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, PerProcess, Process, lock, rank};

/// The greatest capacity that is derived from the process's limit. A larger capacity would have no
/// use, and the kernel's descriptor table would grow with it.
pub(super) const MAX_FILES: u64 = 1 << 20;

/// A bound on the descriptors that table files have open together. Any number of files can share a
/// pool.
///
/// ```
/// use maypole::fs::{DescriptorPool, Fs, RealFs};
///
/// let dir = tempfile::tempdir()?;
/// let pool = DescriptorPool::new(2);
/// let mut files = Vec::new();
/// for name in ["a", "b", "c"] {
///     std::fs::write(dir.path().join(name), name)?;
///     files.push(RealFs.open_pooled(&dir.path().join(name), &pool)?);
/// }
/// assert_eq!(pool.open_files(), 2);
/// // The file that lost its descriptor is opened again.
/// files[0].read_exact_at(0, &mut [0; 1])?;
/// assert_eq!((pool.open_files(), pool.reopened()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DescriptorPool {
    capacity: AtomicUsize,
    /// The process that made the pool. A forked child opens nothing through the pool, because
    /// another thread may have held the pool's lock at the fork.
    pub(super) process: Process,
    pub(super) ring: Mutex<Ring, rank::DescriptorRing>,
    /// Whether the pool has exceeded its capacity since [`DescriptorPool::has_room`] last returned
    /// `true`. The flag is read without the lock of `ring`, so it is only a hint.
    crowded: AtomicBool,
    pub(super) reopened: AtomicU64,
}

#[derive(Default)]
pub(super) struct Ring {
    /// The open slots. Each stores its index in this vector.
    pub(super) slots: Vec<Arc<Slot>>,
    hand: usize,
    /// The number of files that are being opened. They count towards the capacity.
    pub(super) opening: usize,
    pub(super) urings: Urings,
}

/// The kernel rings of a pool ([`super::urings`]).
#[derive(Default)]
pub(super) struct Urings {
    pub idle: Vec<Uring>,
    pub lent: usize,
    pub readers: usize,
    pub refused: bool,
}

impl Urings {
    pub fn count(&self) -> usize {
        self.idle.len() + self.lent
    }

    pub fn take_idle(&mut self, count: usize) -> Vec<Uring> {
        let left = self.idle.len().saturating_sub(count);
        self.idle.split_off(left)
    }
}

pub(super) struct Slot {
    /// The descriptor while the file is open. A reader takes a clone, and the pool closes a
    /// descriptor only while no reader has one.
    descriptor: Mutex<Option<Arc<Descriptor>>, rank::DescriptorSlot>,
    /// Whether the slot was used since the hand last passed it.
    pub used: AtomicBool,
    /// The slot's index in the ring. Guarded by the ring's mutex.
    position: AtomicUsize,
}

/// Every pool of the process, so that [`with_descriptor`](super::with_descriptor) can close idle
/// descriptors of all pools.
pub(super) static POOLS: PerProcess<Mutex<Vec<Weak<DescriptorPool>>, rank::DescriptorPools>> =
    PerProcess::new(Mutex::default);
static SHARED: PerProcess<Arc<DescriptorPool>> = PerProcess::new(|| DescriptorPool::new(1));

impl Slot {
    /// A slot that is in no ring.
    pub fn closed() -> Slot {
        Slot {
            descriptor: Mutex::default(),
            used: AtomicBool::new(true),
            position: AtomicUsize::new(usize::MAX),
        }
    }

    /// The descriptor, if it is open.
    #[inline]
    pub fn descriptor(&self) -> Option<Arc<Descriptor>> {
        lock(&self.descriptor).clone()
    }

    /// Takes the descriptor out if no reader has it. It is closed when the returned value is
    /// dropped.
    fn take_idle(&self) -> Option<Arc<Descriptor>> {
        // No reader gets a clone during the check, because the lock is held.
        lock(&self.descriptor).take_if(|descriptor| Arc::strong_count(descriptor) == 1)
    }
}

impl DescriptorPool {
    /// A pool of at most `capacity` descriptors.
    pub fn new(capacity: usize) -> Arc<DescriptorPool> {
        let pool = Arc::new(DescriptorPool {
            capacity: AtomicUsize::new(capacity),
            process: Process::current(),
            ring: Mutex::default(),
            crowded: AtomicBool::new(false),
            reopened: AtomicU64::new(0),
        });
        let mut pools = lock(POOLS.get());
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        pool
    }

    /// The pool of all databases that have no pool of their own. Each call sets its capacity to
    /// half of the process's limit on descriptors at that moment, but at most to 2^20.
    pub fn shared() -> Arc<DescriptorPool> {
        let capacity = (open_files_limit().soft.min(2 * MAX_FILES) / 2).max(1) as usize;
        let shared = SHARED.get();
        shared.capacity.store(capacity, Ordering::Relaxed);
        Arc::clone(shared)
    }

    /// The number of descriptors that the files and kernel rings of the pool may have. While many
    /// files are being read at the same time, the pool may exceed this number.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The number of descriptors of the pool's files, without those that files keep for good
    /// ([`keep_open`](crate::fs::RandomAccessFile::keep_open)). 0 in a forked child.
    pub fn open_files(&self) -> usize {
        if !self.process.is_current() {
            return 0;
        }
        lock(&self.ring).slots.len()
    }

    /// How many times a file was opened again after it had lost its descriptor.
    pub fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// Makes room, runs `open`, and puts the descriptor into `slot`. `slot` must be closed before
    /// the call.
    pub(super) fn open_into<T>(
        &self,
        slot: &Arc<Slot>,
        open: impl FnOnce() -> Result<(Descriptor, T)>,
    ) -> Result<(Arc<Descriptor>, T)> {
        self.process.check()?;
        let room = Room::new(self);
        let (descriptor, value) = open()?;
        let descriptor = Arc::new(descriptor);
        *lock(&slot.descriptor) = Some(Arc::clone(&descriptor));
        room.fill(Arc::clone(slot));
        Ok((descriptor, value))
    }

    /// Whether the pool is within its capacity, if necessary after closing idle descriptors. If
    /// not, a caller that holds descriptors must give up one of them before it takes another.
    pub(in crate::fs) fn has_room(&self) -> bool {
        if !self.crowded.load(Ordering::Relaxed) {
            return true;
        }
        let mut closed = Vec::new();
        let mut ring = lock(&self.ring);
        let has_room = ring.make_room(self.capacity(), &mut closed);
        self.crowded.store(!has_room, Ordering::Relaxed);
        drop(ring);
        has_room
    }

    /// Takes the slot out of the ring, if it is there.
    pub(super) fn forget(&self, slot: &Arc<Slot>) {
        let mut ring = lock(&self.ring);
        let position = slot.position.load(Ordering::Relaxed);
        if ring.slots.get(position).is_some_and(|there| Arc::ptr_eq(there, slot)) {
            ring.remove(position);
        }
    }

    /// Closes up to `count` descriptors that are not in use, those of idle kernel rings first.
    /// Returns the number of closed descriptors.
    pub(in crate::fs) fn close_idle(&self, count: usize) -> usize {
        let mut closed = Vec::new();
        let mut ring = lock(&self.ring);
        let urings = ring.urings.take_idle(count);
        closed.extend(std::iter::from_fn(|| ring.take_idle()).take(count - urings.len()));
        drop(ring);
        urings.len() + closed.len()
    }
}

impl Drop for DescriptorPool {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The memory of kernel rings is not mapped in a forked child, so the child must not
            // drop them.
            std::mem::forget(std::mem::take(self.ring.get_mut()));
        }
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
    /// The number of descriptors that count towards the capacity.
    fn descriptors(&self) -> usize {
        self.slots.len() + self.opening + self.urings.count()
    }

    /// Moves idle descriptors of files to `closed` until the remaining descriptors fit into
    /// `capacity`. Returns `false` if they do not fit because every open file is in use. The caller
    /// drops `closed`, which closes the descriptors, after it has released the lock.
    pub(super) fn make_room(&mut self, capacity: usize, closed: &mut Vec<Arc<Descriptor>>) -> bool {
        while self.descriptors() > capacity {
            match self.take_idle() {
                Some(descriptor) => closed.push(descriptor),
                None => return false,
            }
        }
        true
    }

    /// Takes a descriptor that is not in use out of the ring, if there is one. The hand goes round
    /// twice, because the first round may only clear the `used` flags.
    fn take_idle(&mut self) -> Option<Arc<Descriptor>> {
        for _ in 0..2 * self.slots.len() {
            self.hand %= self.slots.len();
            let slot = &self.slots[self.hand];
            if !slot.used.swap(false, Ordering::Relaxed)
                && let Some(descriptor) = slot.take_idle()
            {
                self.remove(self.hand);
                return Some(descriptor);
            }
            self.hand += 1;
        }
        None
    }

    fn add(&mut self, slot: Arc<Slot>) {
        slot.position.store(self.slots.len(), Ordering::Relaxed);
        self.slots.push(slot);
    }

    fn remove(&mut self, position: usize) {
        self.slots.swap_remove(position);
        if let Some(moved) = self.slots.get(position) {
            moved.position.store(position, Ordering::Relaxed);
        }
    }
}

/// A reservation for one descriptor of a pool, held while the file is being opened.
struct Room<'a>(&'a DescriptorPool);

impl<'a> Room<'a> {
    fn new(pool: &'a DescriptorPool) -> Room<'a> {
        let mut closed = Vec::new();
        {
            let mut ring = lock(&pool.ring);
            ring.opening += 1;
            if !ring.make_room(pool.capacity(), &mut closed) {
                pool.crowded.store(true, Ordering::Relaxed);
            }
        }
        // `closed` is dropped here, which closes its descriptors after the lock is released.
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

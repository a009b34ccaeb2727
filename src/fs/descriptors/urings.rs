//! The kernel rings (`io_uring`) that the [`OverlappedReader`](crate::fs::OverlappedReader)s of a
//! pool share. Each ring costs a descriptor. The pool's field `ring` is not a kernel ring, but the
//! list of the pool's open files.
//!
//! ```text
//!   lend ─► an idle ring                                  ─► LentUring ─► reusable: idle again
//!       └─► none is idle: a new one, within the bound               └─► a panic, a failure: closed
//!       └─► the bound is reached, or the kernel refuses: none
//! ```
//!
//! * A ring serves one call of `read_many` at a time. No call waits for a ring, because the waiting
//!   call could hold descriptors that the ring's user needs to continue. A call that gets no ring
//!   reads by threads.
//! * After the kernel or a sandbox has refused a ring, the pool requests no further one. A lack of
//!   descriptors is temporary and does not count as a refusal.
//! * When the last `OverlappedReader` of the pool is dropped, the idle rings are dropped too.

use std::io;

use super::pool::DescriptorPool;
use super::with_descriptor;
use crate::error::lacks_descriptors;
use crate::fs::overlapped::Uring;
use crate::sync::lock;

/// The most rings of one pool. Together they allow 2048 reads in flight.
const MAX_URINGS: usize = 32;
/// A pool has at most one ring for each eight descriptors of its capacity, and none if its capacity
/// is below eight. The other descriptors are for files.
const DESCRIPTORS_PER_URING: usize = 8;

/// The function that creates a ring: [`Uring::new`], except in tests.
pub(in crate::fs) type MakeUring = fn() -> io::Result<Uring>;

/// A kernel ring for exclusive use by the caller until this value is dropped.
pub(in crate::fs) struct LentUring<'a> {
    pool: &'a DescriptorPool,
    uring: Option<Uring>,
}

impl DescriptorPool {
    /// Counts one more reader, which may request rings.
    pub(in crate::fs) fn add_reader(&self) {
        if self.process.is_current() {
            lock(&self.ring).urings.readers += 1;
        }
    }

    pub(in crate::fs) fn remove_reader(&self) {
        if !self.process.is_current() {
            return;
        }
        let mut ring = lock(&self.ring);
        ring.urings.readers -= 1;
        let idle = match ring.urings.readers {
            0 => ring.urings.take_idle(usize::MAX),
            _ => Vec::new(),
        };
        drop(ring);
        drop(idle);
    }

    /// Lends an idle ring, or a new one from `make`. Returns `None` if neither is available.
    pub(in crate::fs) fn lend_uring(&self, make: MakeUring) -> Option<LentUring<'_>> {
        let mut closed = Vec::new();
        let mut ring = lock(&self.ring);
        let uring = ring.urings.idle.pop();
        let is_new = uring.is_none();
        let most = MAX_URINGS.min(self.capacity() / DESCRIPTORS_PER_URING);
        if is_new && (ring.urings.refused || ring.urings.count() >= most) {
            return None;
        }
        ring.urings.lent += 1;
        if is_new {
            ring.make_room(self.capacity(), &mut closed);
        }
        drop(ring);
        drop(closed);
        let mut lent = LentUring { pool: self, uring };
        if is_new {
            lent.uring = Some(self.make_uring(make)?);
        }
        Some(lent)
    }

    /// The number of rings, idle and lent.
    #[cfg(all(test, not(loom), target_os = "linux"))]
    pub(in crate::fs) fn urings(&self) -> usize {
        lock(&self.ring).urings.count()
    }

    #[cold]
    fn make_uring(&self, make: MakeUring) -> Option<Uring> {
        let made = with_descriptor(make);
        if made.as_ref().is_err_and(|error| !lacks_descriptors(error)) {
            lock(&self.ring).urings.refused = true;
        }
        made.ok()
    }
}

impl LentUring<'_> {
    /// Passes the ring to `work`, which returns it if it is reusable.
    pub fn use_for(mut self, work: impl FnOnce(Uring) -> Option<Uring>) {
        self.uring = self.uring.take().and_then(work);
    }
}

impl Drop for LentUring<'_> {
    fn drop(&mut self) {
        let mut ring = lock(&self.pool.ring);
        ring.urings.lent -= 1;
        ring.urings.idle.extend(self.uring.take());
    }
}

//! The asymmetric barrier: the effect of a full fence on both sides, at the cost of one side.
//!
//! ```text
//! reader:   store mine;  light();  load theirs        (a compiler fence: nothing at run time)
//! other:    store theirs;  heavy();  load mine        (one system call)
//! ```
//!
//! At least one of the two loads sees the other side's store. On Linux `membarrier(2)` with
//! `PRIVATE_EXPEDITED` makes every running thread of the process execute a full fence. Other
//! threads execute one when they are switched in. On other systems, if the kernel refuses, and
//! under loom and Miri, both sides execute a sequentially consistent fence instead.

use super::atomic::{Ordering, fence};

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod system {
    use std::sync::OnceLock;

    use rustix::thread::{MembarrierCommand, membarrier};

    /// Whether this process may use the barrier. Asked once, so that all threads agree.
    pub fn available() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
    }

    pub fn barrier() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod system {
    pub fn available() -> bool {
        false
    }

    pub fn barrier() -> bool {
        false
    }
}

/// Whether the reading side must execute a real fence. The answer never changes in a process.
pub(super) fn light_needs_fence() -> bool {
    !system::available()
}

/// The reading side. `fenced` is [`light_needs_fence`], which the caller keeps where it is cheap to
/// read.
#[inline(always)]
pub(super) fn light(fenced: bool) {
    if fenced {
        fence(Ordering::SeqCst);
    } else {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// How often this thread called [`heavy`].
    pub(super) static HEAVY_BARRIERS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The other side. `false` if the barrier did not happen: then the next loads prove nothing. After
/// the registration the kernel promises success, but a filter on system calls that is installed
/// later can break the promise.
#[must_use]
pub(super) fn heavy() -> bool {
    #[cfg(all(test, not(loom)))]
    HEAVY_BARRIERS.set(HEAVY_BARRIERS.get() + 1);
    if light_needs_fence() {
        fence(Ordering::SeqCst);
        return true;
    }
    system::barrier()
}

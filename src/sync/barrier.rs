//! The asymmetric barrier: it has the effect of a full fence on both sides, but only one side pays
//! the cost.
//!
//! ```text
//! reader:   store mine;  light();  load theirs        (a compiler fence: nothing at run time)
//! other:    store theirs;  heavy();  load mine        (one system call)
//! ```
//!
//! At least one of the two loads sees the other side's store. On Linux `membarrier(2)` with
//! `PRIVATE_EXPEDITED` makes every running thread of the process execute a full fence. A thread
//! that is not running executes one when it is switched in.
//!
//! A reader whose flag `fenced` is set, its *mark*, executes a full fence itself, so a fence on the
//! other side is enough. The other side is a collector ([`super::reclaim`]). It marks idle readers,
//! and a reader marks itself before it reads a file. The flag is always set on systems other than
//! Linux, under Miri, and if the kernel refuses the barrier.

use super::atomic::{AtomicBool, Ordering, fence};

#[cfg(all(target_os = "linux", not(any(loom, miri, shuttle))))]
mod system {
    use rustix::thread::{MembarrierCommand, membarrier};

    use crate::sync::PerProcess;

    /// Whether the kernel accepts barriers. Registers the process once, so that all threads get the
    /// same answer.
    pub fn available() -> bool {
        static REGISTERED: PerProcess<bool> =
            PerProcess::new(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());
        *REGISTERED.get()
    }

    pub fn barrier() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

/// A schedule has only sequentially consistent executions, in which each thread sees every store at
/// once.
#[cfg(shuttle)]
mod system {
    pub fn available() -> bool {
        true
    }

    pub fn barrier() -> bool {
        true
    }
}

#[cfg(not(any(all(target_os = "linux", not(miri)), loom, shuttle)))]
mod system {
    pub fn available() -> bool {
        false
    }

    pub fn barrier() -> bool {
        false
    }
}

/// The barrier in loom's models. Both sides write one word, so the side that writes second sees
/// every store that the other side made before it wrote. A collector, which is the other side, may
/// execute a fence instead of [`barrier`]. Then it does not write the word, so the model does not
/// order it with a reader that executes no fence.
#[cfg(loom)]
mod system {
    use super::{AtomicBool, Ordering};

    loom::lazy_static! {
        static ref WORD: AtomicBool = AtomicBool::new(false);
    }

    pub fn available() -> bool {
        true
    }

    pub fn barrier() -> bool {
        WORD.swap(true, Ordering::AcqRel);
        true
    }

    pub fn light() {
        WORD.swap(true, Ordering::AcqRel);
    }
}

/// Whether this process can use [`heavy`]. The result never changes.
pub(super) fn has_heavy() -> bool {
    system::available()
}

/// The reader's side of the barrier. Executes a full fence if `fenced` is set, and returns whether
/// it did.
#[inline(always)]
pub(super) fn light(fenced: &AtomicBool) -> bool {
    // The flag must be read after the reader's store. Otherwise the reader could miss a mark, and a
    // collector that trusts the mark could miss the store (`reclaim/mod.rs`).
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    system::light();
    let fenced = fenced.load(Ordering::Relaxed);
    if fenced {
        fence(Ordering::SeqCst);
    } else {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
    fenced
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// How often this thread called [`heavy`].
    pub(super) static HEAVY_BARRIERS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(all(test, loom))]
thread_local! {
    /// Lets [`heavy`] fail in the model that this thread runs.
    pub(super) static HEAVY_FAILS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The other side of the barrier. Returns `false` if the barrier did not happen; then the loads
/// that follow may miss a reader's store. `membarrier(2)` cannot fail once the process has
/// registered for it ([`system::available`]), unless the program later installs a filter of system
/// calls (seccomp) that rejects the call.
#[must_use]
pub(super) fn heavy() -> bool {
    #[cfg(all(test, not(loom)))]
    HEAVY_BARRIERS.set(HEAVY_BARRIERS.get() + 1);
    #[cfg(all(test, loom))]
    if HEAVY_FAILS.get() {
        return false;
    }
    system::barrier()
}

//! The [`ThreadRecord`], in which a thread announces its guards, and the global epoch.

use std::sync::atomic::AtomicU32;

use super::super::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use super::super::{Padded, barrier};

/// The global epoch. It starts at 1, because 0 in a record means that the thread has announced
/// nothing yet. A forked child continues from its parent's value.
#[cfg(not(loom))]
pub(super) static EPOCH: Padded<AtomicU64> = Padded(AtomicU64::new(1));

#[cfg(loom)]
loom::lazy_static! {
    // One for each execution of a model.
    pub(super) static ref EPOCH: Padded<AtomicU64> = Padded(AtomicU64::new(1));
}

/// One thread's record, on cache lines of its own.
#[repr(align(128))]
pub(super) struct ThreadRecord {
    /// `epoch << 1 | held`: the epoch at which the thread took its latest outermost guard, and
    /// [`HELD`] while it holds that guard. Only the thread writes it.
    pub announced: AtomicU64,
    /// If set, each pin executes a full fence. Collectors set the mark before a heavy barrier, and
    /// the thread sets it before it reads a file. The thread clears it, or a collector whose
    /// barrier failed. On systems without a heavy barrier it is always set.
    pub marked: AtomicBool,
    /// The number of pins since a collector set the mark. If the thread sets the mark, it sets this
    /// count so high that its next pin clears the mark. No other thread uses the count, so loom
    /// does not model it.
    pub marked_pins: AtomicU32,
    /// How many guards the thread holds. Only the thread reads it.
    pub depth: AtomicU32,
    /// The address of the bytes that user code reads on this thread, or 0. Only the thread writes
    /// it. See [`super::lending`].
    pub lent: AtomicUsize,
    pub index: usize,
}

pub(super) const HELD: u64 = 1;

/// The number of pins after which a thread clears its mark. The fences of that many pins cost about
/// as much as the barrier that the next mark needs.
pub(super) const MARKED_PINS: u32 = if cfg!(loom) { 1 } else { 64 };

/// What a collector reads in a record.
#[derive(Clone, Copy)]
pub(super) struct Announcement {
    pub epoch: u64,
    pub held: bool,
}

impl ThreadRecord {
    /// Announces an outermost guard.
    #[inline]
    pub fn announce(&self) {
        // Acquire: a thread that reads epoch e + 1 sees everything unlinked before bag e was
        // sealed. Release: the accesses under this thread's previous guard are ordered before this
        // store.
        self.announced.store(EPOCH.0.load(Ordering::Acquire) << 1 | HELD, Ordering::Release);
        if barrier::light(&self.marked) {
            self.count_marked_pin();
        }
    }

    /// Announces the end of the guard, and keeps the announced epoch.
    #[inline]
    pub fn withdraw(&self) {
        self.announced.store(self.announced.load(Ordering::Relaxed) & !HELD, Ordering::Release);
    }

    #[cold]
    fn count_marked_pin(&self) {
        let pins = self.marked_pins.load(Ordering::Relaxed) + 1;
        self.marked_pins.store(pins % MARKED_PINS, Ordering::Relaxed);
        if pins == MARKED_PINS && barrier::has_heavy() {
            // This store comes after this pin's fence and before the release that ends the pin, as
            // the proof requires.
            self.marked.store(false, Ordering::Relaxed);
        }
    }

    /// Reads the announcement. Call this before [`is_marked`](ThreadRecord::is_marked), because the proof
    /// requires that the mark is read last.
    pub fn announcement(&self) -> Announcement {
        let announced = self.announced.load(Ordering::Acquire);
        Announcement { epoch: announced >> 1, held: announced & HELD != 0 }
    }

    pub fn is_marked(&self) -> bool {
        // Acquire: pairs with the release store in `before_reading`, so that the thread's accesses
        // under earlier guards happen before the drop.
        self.marked.load(Ordering::Acquire)
    }

    /// The address of the bytes that user code reads on this thread, or 0.
    pub fn lent(&self) -> usize {
        // Acquire, for the lending thread's release store: everything that this thread read before
        // it stored the value happens before the caller drops the memory.
        self.lent.load(Ordering::Acquire)
    }
}

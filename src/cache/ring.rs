//! The clock: entries in a ring, a hand, and a bit that says "used since the hand last passed".
//!
//! ```text
//!   places  [ a | b | – | c | d ]      – a hole, on the free list
//!                 ▲ hand               the place it freed is filled next: a new entry
//!                                      gets a whole turn before the hand meets it
//! ```
//!
//! Not an LRU list, since a hit would have to write to a structure that all readers share. A hit
//! here sets a bit in the entry, which the reader has in its hands anyway, when it is not yet set.

use std::sync::Arc;

use crate::memory::prefetch;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{BlockKind, Priority};

/// Entries that one search passes over because they were used. Beyond it the next one leaves,
/// used or not, so that one miss never waits for a turn around a large ring.
const MAX_SECOND_CHANCES: usize = 64;

/// How many entries before the hand comes to one it and its slot are asked for.
const ENTRY_AHEAD: usize = 4;
const SLOT_AHEAD: usize = 2;

/// Where the position of an entry that is in no ring would stand.
const NOWHERE: u32 = u32::MAX;

/// What the cache knows of a value.
pub(super) struct Header {
    referenced: AtomicBool,
    pub kind: BlockKind,
    pub priority: Priority,
    /// The place in its ring. Written under the cache's mutex.
    position: AtomicU32,
    /// Heap bytes of the value and its bookkeeping.
    pub charge_bytes: usize,
}

/// A value the cache owns, of whatever type.
pub(super) trait Entry: Send + Sync {
    fn header(&self) -> &Header;

    /// Lets no new reader find the value.
    ///
    /// # Safety
    ///
    /// The caller holds the cache's mutex, and a ring owned the value when it took the mutex or
    /// later.
    unsafe fn empty_slot(&self);

    /// Starts to fetch the slot.
    fn prefetch_slot(&self);
}

impl Header {
    pub fn new(kind: BlockKind, priority: Priority, charge_bytes: usize) -> Header {
        Header {
            referenced: AtomicBool::new(false),
            kind,
            priority,
            position: AtomicU32::new(NOWHERE),
            charge_bytes,
        }
    }

    /// Asks for a second chance. Writes only when the bit is not set, so a value in steady use
    /// stays readable in every processor's cache.
    #[inline]
    pub fn mark_used(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the cache has ever taken the value in.
    pub fn was_cached(&self) -> bool {
        self.position.load(Ordering::Relaxed) != NOWHERE
    }

    /// Whether it was used since the last call.
    fn take_used(&self) -> bool {
        let used = self.referenced.load(Ordering::Relaxed);
        if used {
            self.referenced.store(false, Ordering::Relaxed);
        }
        used
    }
}

/// One ring. Guarded by the cache's mutex.
#[derive(Default)]
pub(super) struct Ring {
    places: Vec<Option<Arc<dyn Entry>>>,
    /// Holes in `places`; the last one is filled first.
    free: Vec<u32>,
    hand: usize,
}

impl Ring {
    /// Heap bytes that one entry may cost a ring, with vectors that have just doubled.
    pub const ENTRY_BYTES: usize = 2 * (size_of::<Option<Arc<dyn Entry>>>() + size_of::<u32>());

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn push(&mut self, entry: Arc<dyn Entry>) {
        let position = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        entry.header().position.store(position, Ordering::Relaxed);
        self.places[position as usize] = Some(entry);
    }

    /// Takes out an entry that is in this ring.
    pub fn take(&mut self, entry: &dyn Entry) -> Arc<dyn Entry> {
        self.take_at(entry.header().position.load(Ordering::Relaxed))
    }

    /// Takes out the next entry that was not used since the hand last passed, or, after many that
    /// were, the next one. `None` when the ring is empty.
    pub fn sweep(&mut self) -> Option<Arc<dyn Entry>> {
        let mut steps = MAX_SECOND_CHANCES;
        match self.next_unused(&mut steps) {
            Some(entry) => Some(entry),
            None if self.len() == 0 => None,
            None => {
                let position = self.advance();
                Some(self.take_at(position))
            }
        }
    }

    /// Looks at up to `steps` entries for one that was not used, and takes it out.
    pub fn next_unused(&mut self, steps: &mut usize) -> Option<Arc<dyn Entry>> {
        if self.len() == 0 {
            return None;
        }
        while *steps > 0 {
            *steps -= 1;
            let position = self.advance();
            let entry = self.places[position as usize].as_ref().expect("the hand skips holes");
            if !entry.header().take_used() {
                return Some(self.take_at(position));
            }
        }
        None
    }

    /// Starts to fetch what the next sweeps will touch: entries that nobody touched for a whole turn, and
    /// then their slots.
    pub fn prefetch_next(&self) {
        let place = |ahead: usize| self.places.get(self.hand + ahead).and_then(Option::as_ref);
        if let Some(entry) = place(SLOT_AHEAD) {
            entry.prefetch_slot();
        }
        if let Some(entry) = place(ENTRY_AHEAD) {
            let start = Arc::as_ptr(entry).cast::<u8>();
            // The counts, and the header's last line.
            prefetch(start.wrapping_sub(2 * size_of::<usize>()));
            prefetch(start.wrapping_add(size_of::<Header>()));
        }
    }

    /// Moves the hand past the next entry and returns its place. The ring is not empty.
    fn advance(&mut self) -> u32 {
        loop {
            if self.hand >= self.places.len() {
                self.hand = 0;
            }
            let position = self.hand;
            self.hand += 1;
            if self.places[position].is_some() {
                return position as u32;
            }
        }
    }

    fn take_at(&mut self, position: u32) -> Arc<dyn Entry> {
        let entry = self.places[position as usize].take().expect("the entry is in this ring");
        self.free.push(position);
        entry
    }
}

//! The clock: entries in a ring, a hand, and a bit that says "used since the hand last passed".
//!
//! ```text
//!   entries [ a | b | – | c | d ]      – a hole, on the free list
//!                 ▲ hand               a new entry fills the newest hole: the hand meets
//!                                      it after a whole turn
//! ```
//!
//! Not an LRU list: there a hit writes to a structure that all readers share. Here a hit sets a bit
//! in the entry, which the reader uses anyway, and only if the bit is not set.

use std::sync::Arc;

use crate::memory::{LineBuf, prefetch};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::BlockKind;
use super::eviction::RingName;

/// One search passes over this many used entries at most. Then the next one leaves, used or not: a
/// miss never waits for a whole turn around a large ring.
pub(super) const MAX_SECOND_CHANCES: usize = 64;

/// An entry is fetched when the hand is this many entries before it.
const ENTRY_AHEAD: usize = 4;
/// The same for its slot.
const SLOT_AHEAD: usize = 2;

/// The position of an entry that the cache has never taken in.
const NOWHERE: u32 = u32::MAX;
/// The position of an entry that waits for a ring, or has waited in vain.
const FRESH: u32 = u32::MAX - 1;

/// What the cache knows of a value.
pub(super) struct Header {
    referenced: AtomicBool,
    pub kind: BlockKind,
    /// A [`RingName`]: where it is, or would be. Written under the cache's mutex.
    ring: AtomicU8,
    /// The index in its ring, or one of the above. Written under the cache's mutex; before that,
    /// under the lock of a lane.
    position: AtomicU32,
    /// Heap bytes of the value and its bookkeeping.
    pub charge_bytes: usize,
}

/// A value the cache owns, of whatever type.
pub(super) trait Entry: Send + Sync {
    fn header(&self) -> &Header;

    /// Lets no new reader find the value, and leaves `stamp` in its slot.
    ///
    /// # Safety
    ///
    /// The caller holds the cache's mutex, and a ring or a lane owned the value when it took the
    /// mutex or later.
    unsafe fn empty_slot(&self, stamp: usize);

    /// Starts to fetch the slot.
    fn prefetch_slot(&self);

    /// Drops the value, unless others hold it. What is left of it is memory for the next one.
    fn into_buffer(self: Arc<Self>) -> Option<LineBuf>;
}

impl Header {
    pub fn new(kind: BlockKind, ring: RingName, charge_bytes: usize) -> Header {
        Header {
            referenced: AtomicBool::new(false),
            kind,
            ring: AtomicU8::new(ring as u8),
            position: AtomicU32::new(NOWHERE),
            charge_bytes,
        }
    }

    /// Asks for a second chance. Writes only if the bit is not set: the line of a value in steady
    /// use stays in every processor's cache.
    #[inline]
    pub fn mark_used(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    pub fn ring(&self) -> RingName {
        RingName::ALL[self.ring.load(Ordering::Relaxed) as usize]
    }

    pub fn set_ring(&self, ring: RingName) {
        self.ring.store(ring as u8, Ordering::Relaxed);
    }

    /// The entry waits for a ring.
    pub fn set_fresh(&self) {
        self.position.store(FRESH, Ordering::Relaxed);
    }

    /// Whether the cache has ever taken the value in.
    pub fn was_cached(&self) -> bool {
        self.position.load(Ordering::Relaxed) != NOWHERE
    }

    /// Whether it was used since the last call.
    pub fn take_used(&self) -> bool {
        let used = self.referenced.load(Ordering::Relaxed);
        if used {
            self.referenced.store(false, Ordering::Relaxed);
        }
        used
    }
}

/// Starts to fetch the counts of an entry, and its header.
pub(super) fn prefetch_entry(entry: &Arc<dyn Entry>) {
    let start = Arc::as_ptr(entry).cast::<u8>();
    prefetch(start.wrapping_sub(2 * size_of::<usize>()));
    prefetch(start.wrapping_add(size_of::<Header>()));
}

/// One ring. Guarded by the cache's mutex.
#[derive(Default)]
pub(super) struct Ring {
    entries: Vec<Option<Arc<dyn Entry>>>,
    /// Holes in `entries`; the last one is filled first.
    free: Vec<u32>,
    hand: usize,
}

impl Ring {
    /// Heap bytes that one entry may cost a ring whose vectors have just doubled.
    pub const ENTRY_BYTES: usize = 2 * (size_of::<Option<Arc<dyn Entry>>>() + size_of::<u32>());

    pub fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    pub fn push(&mut self, entry: Arc<dyn Entry>) {
        let position = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        entry.header().position.store(position, Ordering::Relaxed);
        self.entries[position as usize] = Some(entry);
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
            None => self.next(),
        }
    }

    /// Takes out the entry that the hand meets next, used or not.
    pub fn next(&mut self) -> Option<Arc<dyn Entry>> {
        if self.is_empty() {
            return None;
        }
        let position = self.advance();
        Some(self.take_at(position))
    }

    /// Looks at up to `steps` entries for one that was not used, and takes it out.
    pub fn next_unused(&mut self, steps: &mut usize) -> Option<Arc<dyn Entry>> {
        if self.is_empty() {
            return None;
        }
        while *steps > 0 {
            *steps -= 1;
            let position = self.advance();
            let entry = self.entries[position as usize].as_ref().expect("the hand skips holes");
            if !entry.header().take_used() {
                return Some(self.take_at(position));
            }
        }
        None
    }

    /// Starts to fetch what the next sweeps will touch: entries that nobody used for a whole turn,
    /// and their slots.
    pub fn prefetch_next(&self) {
        let ahead = |count: usize| self.entries.get(self.hand + count).and_then(Option::as_ref);
        if let Some(entry) = ahead(SLOT_AHEAD) {
            entry.prefetch_slot();
        }
        if let Some(entry) = ahead(ENTRY_AHEAD) {
            prefetch_entry(entry);
        }
    }

    /// Moves the hand past the next entry and returns its index. The ring is not empty.
    fn advance(&mut self) -> u32 {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let position = self.hand;
            self.hand += 1;
            if self.entries[position].is_some() {
                return position as u32;
            }
        }
    }

    fn take_at(&mut self, position: u32) -> Arc<dyn Entry> {
        let entry = self.entries[position as usize].take().expect("the entry is in this ring");
        self.free.push(position);
        entry
    }
}

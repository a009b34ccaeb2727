//! The clock: entries in a ring, a hand, and in each entry a count of its uses.
//!
//! ```text
//!   hand ─► [ a | b | c | d ] ◄─ a new entry: the hand meets it after a whole turn
//!             │               ◄─ a, if its count is above 0, with a lower count
//!             └─► out, if the count is 0
//!
//!   the table of c is closed:   [ b | a | d ]
//! ```
//!
//! The ring is stored as a queue, whose first entry the hand meets next. The pointers to the
//! entries that follow are adjacent in memory, so these entries are prefetched before the hand
//! reaches them. If an entry leaves from the middle, the first entry takes its position. So the
//! first entry stays for longer, which does no harm because the removal has made room.
//!
//! The position of an entry is its index in the queue plus the number of entries that have left,
//! modulo 2^32. An entry in the ring gets another position only if it is the first one and takes
//! the place of an entry that leaves.
//!
//! A use of a filter or an index raises its count by one, up to [`MAX_USES`], and the hand lowers it
//! by one, so that those that are used most stay longest. Data has only the counts 0 and `MAX_USES`:
//! was it used since the hand last passed, or not? Data must follow a change of the load sooner.
//!
//! An LRU list is not used, because a hit in it writes to a structure that all readers share. Here
//! a hit writes to the entry, which the reader uses anyway, and only if the count can still rise.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::{LineBuf, prefetch};
use crate::sync::OwnedMemory;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::kind::BlockKind;

/// The largest count of uses.
const MAX_USES: u8 = 3;

/// A search for a data block to evict examines at most this many used entries, and then takes the
/// next one, used or not. Otherwise, it could take a whole turn around a large ring.
pub(super) const MAX_SECOND_CHANCES: usize = 64;

/// The same for a search for a filter or index to evict. It is larger, because the hand must pass a
/// filter [`MAX_USES`] times before it leaves.
pub(super) const MAX_METADATA_CHANCES: usize = MAX_USES as usize * MAX_SECOND_CHANCES;

/// How many entries ahead of the hand an entry is prefetched.
const ENTRY_AHEAD: usize = 4;
/// How many entries ahead of the hand the slot of an entry is prefetched. The entry, which holds
/// the address of its slot, is prefetched earlier.
const SLOT_AHEAD: usize = 2;

/// The ring that a value is in.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RingName {
    Probation,
    Protected,
    Metadata,
    Pinned,
}

impl RingName {
    pub const ALL: [RingName; 4] =
        [RingName::Probation, RingName::Protected, RingName::Metadata, RingName::Pinned];
}

/// The cache's bookkeeping for one value.
pub(super) struct Header {
    /// The count of uses.
    uses: AtomicU8,
    pub kind: BlockKind,
    /// A [`RingName`]: the ring that the value is in, or will enter. Written under the cache's
    /// mutex.
    ring: AtomicU8,
    was_cached: AtomicBool,
    /// The value's position in its ring. Used under the cache's mutex only.
    position: AtomicU32,
    /// Heap bytes of the value and its bookkeeping.
    pub charge_bytes: usize,
}

/// A value of any type that the cache owns.
pub(super) trait CacheEntry: Send + Sync + 'static {
    fn header(&self) -> &Header;

    /// Hides the value from new readers, and leaves `stamp` in its slot.
    ///
    /// # Safety
    ///
    /// The caller holds the cache's mutex. A ring or, if the value is new, a miss buffer
    /// ([`super::miss_buffers`]) owns the value, or did so until the caller took the value out
    /// under this mutex.
    unsafe fn empty_slot(&self, stamp: usize);

    fn prefetch_slot(&self);

    /// See [`Cached::holds`](super::slots::Cached::holds).
    fn holds(&self, address: usize) -> bool;

    /// Drops this reference to the value. If it was the last one, returns the value's memory if
    /// another value can use it.
    fn into_buffer(self: Arc<Self>) -> Option<LineBuf>;
}

impl Header {
    pub fn new(kind: BlockKind, ring: RingName, charge_bytes: usize) -> Header {
        Header {
            uses: AtomicU8::new(0),
            kind,
            ring: AtomicU8::new(ring as u8),
            was_cached: AtomicBool::new(false),
            position: AtomicU32::new(0),
            charge_bytes,
        }
    }

    /// Counts a use. Writes only if the count can still rise, so that the line of a value in steady
    /// use stays in every processor's cache.
    #[inline]
    pub fn mark_used(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MAX_USES {
            self.uses.store(uses + self.step(), Ordering::Relaxed);
        }
    }

    /// By how much a use raises the count, and the hand lowers it.
    fn step(&self) -> u8 {
        match self.kind {
            BlockKind::Filter | BlockKind::Index => 1,
            BlockKind::Data => MAX_USES,
        }
    }

    pub fn ring(&self) -> RingName {
        RingName::ALL[self.ring.load(Ordering::Relaxed) as usize]
    }

    pub fn set_ring(&self, ring: RingName) {
        self.ring.store(ring as u8, Ordering::Relaxed);
    }

    /// Records that a miss buffer or a ring owns the value.
    pub fn set_cached(&self) {
        self.was_cached.store(true, Ordering::Relaxed);
    }

    /// Whether a miss buffer or a ring has ever owned the value.
    pub fn was_cached(&self) -> bool {
        self.was_cached.load(Ordering::Relaxed)
    }

    fn set_position(&self, position: u32) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Whether the count of uses is above 0. Lowers it.
    pub fn take_used(&self) -> bool {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses > 0 {
            self.uses.store(uses - self.step(), Ordering::Relaxed);
        }
        uses > 0
    }
}

/// Returns the entry that holds the byte at this address.
pub(super) fn memory_at(entries: &[Arc<dyn CacheEntry>], address: usize) -> Option<OwnedMemory> {
    let owner = entries.iter().find(|entry| entry.holds(address))?;
    let heap_bytes = owner.header().charge_bytes;
    Some(OwnedMemory { owner: Arc::<dyn CacheEntry>::clone(owner), heap_bytes })
}

/// Prefetches the reference counts of an entry, and its header.
pub(super) fn prefetch_entry(entry: &Arc<dyn CacheEntry>) {
    let start = Arc::as_ptr(entry).cast::<u8>();
    prefetch(start.wrapping_sub(2 * size_of::<usize>()));
    prefetch(start.wrapping_add(size_of::<Header>()));
}

/// One ring. Guarded by the cache's mutex.
#[derive(Default)]
pub(super) struct Ring {
    /// The entries, from the hand on.
    queue: VecDeque<Arc<dyn CacheEntry>>,
    /// The position of the first entry.
    first: u32,
}

impl Ring {
    /// The most heap bytes that a ring takes for an entry: a queue that has just doubled is half
    /// empty.
    pub const ENTRY_BYTES: usize = 2 * size_of::<Arc<dyn CacheEntry>>();

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn push(&mut self, entry: Arc<dyn CacheEntry>) {
        let position = self.first.wrapping_add(self.queue.len() as u32);
        entry.header().set_position(position);
        self.queue.push_back(entry);
    }

    /// Takes `entry` out of this ring.
    pub fn take(&mut self, entry: &dyn CacheEntry) -> Arc<dyn CacheEntry> {
        let position = entry.header().position.load(Ordering::Relaxed);
        let index = position.wrapping_sub(self.first) as usize;
        let entry = self.queue.swap_remove_front(index).expect("the entry is in this ring");
        self.first = self.first.wrapping_add(1);
        if let Some(moved) = index.checked_sub(1).map(|index| &self.queue[index]) {
            moved.header().set_position(position);
        }
        entry
    }

    /// Takes out the next unused entry, or, after `chances` used entries, the next entry, used or
    /// not. `None` if the ring is empty.
    pub fn sweep(&mut self, mut chances: usize) -> Option<Arc<dyn CacheEntry>> {
        match self.next_unused(&mut chances) {
            Some(entry) => Some(entry),
            None => self.next(),
        }
    }

    /// Examines up to `steps` entries, and takes out the first unused one.
    pub fn next_unused(&mut self, steps: &mut usize) -> Option<Arc<dyn CacheEntry>> {
        while *steps > 0 {
            *steps -= 1;
            let entry = self.next()?;
            if !entry.header().take_used() {
                return Some(entry);
            }
            self.push(entry);
        }
        None
    }

    /// Takes out the entry that the hand meets next, used or not. Prefetches one of the entries
    /// that the hand meets soon, and the slot of another, because both may have left the
    /// processor's caches during a whole turn.
    pub fn next(&mut self) -> Option<Arc<dyn CacheEntry>> {
        let entry = self.queue.pop_front()?;
        self.first = self.first.wrapping_add(1);
        if let Some(soon) = self.queue.get(SLOT_AHEAD) {
            soon.prefetch_slot();
        }
        if let Some(soon) = self.queue.get(ENTRY_AHEAD) {
            prefetch_entry(soon);
        }
        Some(entry)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// An entry whose number is its charge.
    struct Numbered(Header);

    impl CacheEntry for Numbered {
        fn header(&self) -> &Header {
            &self.0
        }

        unsafe fn empty_slot(&self, _stamp: usize) {}

        fn prefetch_slot(&self) {}

        fn holds(&self, _address: usize) -> bool {
            false
        }

        fn into_buffer(self: Arc<Self>) -> Option<LineBuf> {
            None
        }
    }

    fn numbered(number: usize) -> Arc<Numbered> {
        Arc::new(Numbered(Header::new(BlockKind::Data, RingName::Probation, number)))
    }

    fn filter(number: usize) -> Arc<Numbered> {
        Arc::new(Numbered(Header::new(BlockKind::Filter, RingName::Metadata, number)))
    }

    fn number(entry: &dyn CacheEntry) -> usize {
        entry.header().charge_bytes
    }

    #[test]
    fn the_hand_meets_entries_in_turn_and_what_was_used_once_more() {
        let mut ring = Ring::default();
        let entries: Vec<_> = (0..5).map(numbered).collect();
        entries.iter().for_each(|entry| ring.push(entry.clone()));
        entries[0].0.mark_used();
        entries[2].0.mark_used();
        let order: Vec<_> =
            std::iter::from_fn(|| ring.sweep(MAX_SECOND_CHANCES)).map(|it| number(&*it)).collect();
        assert_eq!(order, [1, 3, 4, 0, 2]);
        assert!(ring.is_empty());
    }

    /// Filter `n` is used `n` times. The one that was used 4 times counts as used 3 times.
    #[test]
    fn the_filters_that_are_used_most_stay_longest_and_of_other_values_the_used_ones() {
        for (make, expected) in [
            (filter as fn(usize) -> Arc<Numbered>, [0, 1, 2, 4, 3]),
            (numbered as fn(usize) -> Arc<Numbered>, [0, 4, 3, 2, 1]),
        ] {
            let mut ring = Ring::default();
            for number in (0..5).rev() {
                let entry = make(number);
                (0..number).for_each(|_| entry.0.mark_used());
                ring.push(entry);
            }
            let sweep = || ring.sweep(MAX_SECOND_CHANCES);
            let order: Vec<_> = std::iter::from_fn(sweep).map(|it| number(&*it)).collect();
            assert_eq!(order, expected);
        }
    }

    #[test]
    fn a_search_ends_after_its_steps_and_a_sweep_takes_a_used_entry_then() {
        let mut ring = Ring::default();
        let entries: Vec<_> = (0..MAX_SECOND_CHANCES + 10).map(numbered).collect();
        for entry in &entries {
            entry.0.mark_used();
            ring.push(entry.clone());
        }
        let mut steps = 4;
        assert!(ring.next_unused(&mut steps).is_none());
        assert_eq!(steps, 0);
        let swept = ring.sweep(MAX_SECOND_CHANCES).unwrap();
        assert_eq!(number(&*swept), 4 + MAX_SECOND_CHANCES);
    }

    /// Closing a table once removed a block of another table from the ring: the entry to remove was
    /// found by its index in the queue, which became wrong when entries left at the front. Now it
    /// is found by its position, which stays right.
    #[test]
    fn any_entry_can_leave_at_any_time_and_all_others_stay() {
        let mut ring = Ring { first: u32::MAX - 500, ..Ring::default() };
        let mut inside = Vec::new();
        let mut rng = StdRng::seed_from_u64(1);
        for step in 0..10_000 {
            match rng.random_range(0..4) {
                // More entries are added than leave, until there are many.
                0 | 1 if inside.len() < 100 => {
                    inside.push(numbered(step));
                    ring.push(inside.last().unwrap().clone());
                }
                2 if !inside.is_empty() => {
                    let entry = inside.swap_remove(rng.random_range(0..inside.len()));
                    assert_eq!(number(&*ring.take(&*entry)), number(&*entry));
                }
                3 => {
                    inside.iter().step_by(3).for_each(|entry| entry.0.mark_used());
                    let swept = ring.sweep(MAX_SECOND_CHANCES).map(|it| number(&*it));
                    assert_eq!(swept.is_none(), inside.is_empty());
                    inside.retain(|entry| Some(number(&**entry)) != swept);
                }
                _ => {}
            }
            assert_eq!(ring.queue.len(), inside.len());
        }
        assert!(ring.first < u32::MAX / 2, "the positions never wrapped around");
        while let Some(entry) = inside.pop() {
            assert_eq!(number(&*ring.take(&*entry)), number(&*entry));
        }
        assert!(ring.is_empty());
    }
}

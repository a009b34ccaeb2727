//! Building a binary fuse filter by *peeling*: a key that has a slot to itself is taken out of the
//! array, which may leave another key alone in one of its slots. Seeds are tried until all keys can
//! be taken out.
//!
//! ```text
//! hashes ─► sorted, equal ones once   two equal keys have equal slots: neither could be taken out
//!        ─► taken out                 by a queue of the slots that only one key has; if keys are
//!                                     left, the next seed
//!        ─► slots set                 in the opposite order: each key sets the slot by which it
//!                                     was taken out
//! ```
//!
//! For each slot, the build keeps the number of keys that have this slot, and the exclusive or of
//! their hashes. When one key is left, the exclusive or is its hash. A larger hash never has a
//! lower first slot. So if the keys are in the order of their hashes, they access these values from
//! low slots to high ones, within three segments at a time.
//!
//! Memory: 8 bytes a key for the sorted hashes, and 8 + 1 + 4 bytes a slot. With 1.13 slots a key
//! that is 23 bytes a key, in addition to the list of hashes.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::{BITS, Layout, SEEDS, TRAILER_BYTES, first_slot, place, seed};
use super::sizing;
use crate::family::Target;
use crate::hashes::{HashList, group};
use crate::memory::LineBuf;

/// Hashes are sorted in groups that fit into the first-level cache. The average group has about
/// this many hashes or fewer, except in two cases: in a filter of fewer than about 1,000 keys it
/// has up to twice as many, and from 4 million keys on it grows with the filter.
const GROUP_HASHES: usize = 256;

/// The filter of `hashes`. `None` when a Bloom filter should be built instead: there are no hashes
/// or too many, [`sizing::fit`] finds no array for them, or no seed lets all keys be taken out.
pub fn build(hashes: &HashList, target: Target) -> Option<LineBuf> {
    if hashes.is_empty() || hashes.len() > u32::MAX as usize {
        return None;
    }
    let keys = hashes.len();
    // Duplicates are removed first, because the distinct hashes need fewer slots. So their array
    // may meet the target although an array for all hashes would be too large.
    let distinct = sorted_distinct(hashes);
    let layout = sizing::fit(target, keys, distinct.len())?;
    let mut work = Work::new(&layout);
    let seed_number = (0..SEEDS).find(|&number| work.take_out(&distinct, &layout, seed(number)))?;
    drop(distinct);
    Some(work.store(&layout, seed_number))
}

/// The hashes in order, each once. They are grouped by their highest bits, then each group is
/// sorted.
fn sorted_distinct(hashes: &HashList) -> Vec<u64> {
    let groups = (hashes.len() / GROUP_HASHES).clamp(1, 1 << 14).next_power_of_two();
    let group_of = |hash: u64| ((u128::from(hash) * groups as u128) >> 64) as usize;
    let (mut sorted, mut ends) = (Vec::new(), Vec::new());
    group(hashes.iter(), groups, group_of, &mut sorted, &mut ends);
    let mut start = 0;
    for end in ends.into_iter().map(|end| end as usize) {
        sorted[start..end].sort_unstable();
        start = end;
    }
    sorted.dedup();
    sorted
}

/// The tables of a build, reused for each seed.
struct Work {
    /// The exclusive or of the hashes of the slot's keys that are not taken out yet. If a key was
    /// taken out by this slot, the hash of that key.
    hashes: Vec<u64>,
    /// The number of the slot's keys that are not taken out yet.
    counts: Vec<u8>,
    /// Slots that had one key when they were queued. At the front, in order, those by which keys
    /// were taken out; at the end, those that are still to be checked. Entries between the two are
    /// no longer used.
    queue: Vec<u32>,
}

impl Work {
    fn new(layout: &Layout) -> Work {
        let slots = layout.slots() as usize;
        Work { hashes: vec![0; slots], counts: vec![0; slots], queue: Vec::with_capacity(slots) }
    }

    /// Takes out all keys; `false` if that is impossible with this seed.
    fn take_out(&mut self, keys: &[u64], layout: &Layout, seed: u64) -> bool {
        self.hashes.fill(0);
        self.counts.fill(0);
        self.queue.clear();
        let first_slots = layout.first_slots();
        let slots_of =
            |hash| place(hash, seed, first_slot(hash, first_slots), layout.log2_slots).slots;
        for &hash in keys {
            for slot in slots_of(hash) {
                self.hashes[slot as usize] ^= hash;
                let count = &mut self.counts[slot as usize];
                // More than 255 keys in a slot cannot be chance: the hashes are not random.
                let Some(more) = count.checked_add(1) else { return false };
                *count = more;
            }
        }
        let alone = self.counts.iter().enumerate().filter(|&(_, &count)| count == 1);
        self.queue.extend(alone.map(|(slot, _)| slot as u32));
        let (mut next, mut taken) = (0, 0);
        while next < self.queue.len() {
            let slot = self.queue[next];
            next += 1;
            // The slot's only key may have been taken out by another of the key's slots.
            if self.counts[slot as usize] == 0 {
                continue;
            }
            self.queue[taken] = slot;
            taken += 1;
            let hash = self.hashes[slot as usize];
            for other in slots_of(hash) {
                let count = &mut self.counts[other as usize];
                *count -= 1;
                if other != slot {
                    self.hashes[other as usize] ^= hash;
                    if *count == 1 {
                        self.queue.push(other);
                    }
                }
            }
        }
        self.queue.truncate(taken);
        taken == keys.len()
    }

    /// Sets the slots and writes the filter. The seed with number `seed_number` must have taken out
    /// all keys.
    fn store(self, layout: &Layout, seed_number: u32) -> LineBuf {
        let Work { hashes, counts, queue } = self;
        drop(counts);
        let mut block = LineBuf::zeroed(layout.total_bytes() as usize);
        let (seed, first_slots) = (seed(seed_number), layout.first_slots());
        for &slot in queue.iter().rev() {
            let hash = hashes[slot as usize];
            let place = place(hash, seed, first_slot(hash, first_slots), layout.log2_slots);
            // The sum includes the slot itself, which is still 0.
            let others = place.slots.iter().map(|&slot| read(&block, slot, layout.bits));
            let found = others.fold(0, |sum, value| sum ^ value);
            let fingerprint = place.fingerprint & ((1 << layout.bits) - 1);
            write(&mut block, slot, layout.bits, found ^ fingerprint);
        }
        let end = block.len() - TRAILER_BYTES;
        block[end..].copy_from_slice(&layout.trailer(seed_number));
        block
    }
}

/// The offset of the four bytes that contain a slot, and the slot's first bit in them.
#[inline(always)]
fn bytes_of(slot: u32, bits: u32) -> (usize, u32) {
    let bit = u64::from(slot) * u64::from(bits);
    ((bit / 8) as usize, (bit % 8) as u32)
}

/// The value of a slot. A slot outside the filter reads as 0.
#[inline(always)]
pub(super) fn read(block: &[u8], slot: u32, bits: u32) -> u32 {
    const { assert!(*BITS.end() + 7 <= 32) };
    let (at, shift) = bytes_of(slot, bits);
    let bytes = block.get(at..).and_then(<[u8]>::first_chunk);
    let word = bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    word >> shift & ((1 << bits) - 1)
}

/// Sets a slot that is 0.
fn write(block: &mut [u8], slot: u32, bits: u32, value: u32) {
    let (at, shift) = bytes_of(slot, bits);
    if let Some(bytes) = block[at..].first_chunk_mut() {
        *bytes = (u32::from_le_bytes(*bytes) | value << shift).to_le_bytes();
    }
}

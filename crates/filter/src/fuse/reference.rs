//! The binary fuse filter as its definition says: the version to read first. It shares the trailer,
//! the seeds and the sizes with the fast version, but no arithmetic, so tests compare the fast
//! version with this one. Traces are made with this version too.

use super::layout::{Layout, seed};
use crate::inspect::trace::{ProbedBit, QueryTrace};

/// The slots of a key and its fingerprint, by the definition in [`layout`](super::layout).
fn slots_and_fingerprint(hash: u64, layout: &Layout, seed_number: u32) -> ([u32; 3], u32) {
    let segment_slots = 2u64.pow(layout.log2_slots);
    let all_first_slots = u64::from(layout.segments) * segment_slots;
    let first = (u128::from(hash) * u128::from(all_first_slots) / (1 << 64)) as u64;
    let product = u128::from(hash ^ seed(seed_number)) * 0x9e37_79b9_7f4a_7c15;
    let mixed = (product % (1 << 64)) as u64 ^ (product / (1 << 64)) as u64;
    let (segment, place) = (first / segment_slots, first % segment_slots);
    let second = (segment + 1) * segment_slots + (place ^ (mixed % segment_slots));
    let third = (segment + 2) * segment_slots + (place ^ ((mixed >> 18) % segment_slots));
    let fingerprint = (mixed >> 48) % 2u64.pow(layout.bits);
    ([first as u32, second as u32, third as u32], fingerprint as u32)
}

/// Bit `bit` of slot `slot`.
fn bit_of(block: &[u8], layout: &Layout, slot: u32, bit: u32) -> bool {
    let position = slot as usize * layout.bits as usize + bit as usize;
    block[position / 8] >> (position % 8) & 1 == 1
}

/// Queries a key. Returns each bit of its fingerprint, as found in the slots and as wanted; or why
/// the bytes are not a filter.
pub fn trace(block: &[u8], hash: u64) -> Result<QueryTrace, &'static str> {
    let (layout, seed_number) = Layout::parse(block)?;
    let (slots, fingerprint) = slots_and_fingerprint(hash, &layout, seed_number);
    let bits = (0..layout.bits).map(|bit| {
        let ones = slots.iter().filter(|&&slot| bit_of(block, &layout, slot, bit)).count();
        ProbedBit { number: bit, found: ones % 2 == 1, wanted: fingerprint >> bit & 1 == 1 }
    });
    Ok(QueryTrace::Fingerprint { slots, of: layout.slots() as u32, bits: bits.collect() })
}

/// The filter of `hashes`, which must be distinct, with the first seed that works; `None` if none
/// does.
#[cfg(any(test, doc))]
pub fn build(hashes: &[u64], layout: &Layout) -> Option<Vec<u8>> {
    use alloc::collections::{BTreeSet, VecDeque};
    for seed_number in 0..super::layout::SEEDS {
        let place = |hash| slots_and_fingerprint(hash, layout, seed_number);
        // The keys of each slot.
        let mut keys = vec![BTreeSet::new(); layout.slots() as usize];
        for &hash in hashes {
            for slot in place(hash).0 {
                keys[slot as usize].insert(hash);
            }
        }
        let alone = (0..layout.slots() as u32).filter(|&slot| keys[slot as usize].len() == 1);
        let mut queue: VecDeque<u32> = alone.collect();
        let mut taken_out = Vec::new();
        while let Some(slot) = queue.pop_front() {
            let Some(hash) = keys[slot as usize].first().copied() else { continue };
            taken_out.push((slot, hash));
            for other in place(hash).0 {
                keys[other as usize].remove(&hash);
                if other != slot && keys[other as usize].len() == 1 {
                    queue.push_back(other);
                }
            }
        }
        if taken_out.len() < hashes.len() {
            continue;
        }
        let mut block = vec![0; layout.slot_bytes() as usize];
        for (slot, hash) in taken_out.into_iter().rev() {
            let (slots, fingerprint) = place(hash);
            for bit in 0..layout.bits {
                let wanted = fingerprint >> bit & 1 == 1;
                if slots.iter().fold(wanted, |sum, &s| sum ^ bit_of(&block, layout, s, bit)) {
                    let position = (slot * layout.bits + bit) as usize;
                    block[position / 8] |= 1 << (position % 8);
                }
            }
        }
        block.extend(layout.trailer(seed_number));
        return Some(block);
    }
    None
}

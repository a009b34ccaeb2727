//! The stored form of a binary fuse filter, its checks, and the slots of a key.
//!
//! ```text
//! slots    `(segments + 2) << log2 slots` slots of `bits` bits. Slot i has the bits i * bits to
//!          (i + 1) * bits - 1, and bit j is bit j % 8 of byte j / 8. The last byte is filled with zeros.
//!
//! the trailer, from the end of the filter
//! OFFSET  SIZE  MEANING
//!  -16     4    segments: those in which the first slot of a key can lie, at least 1
//!  -12     1    log2 slots: of a segment, 2 to 18
//!  -11     1    bits of a slot, 4 to 16
//!  -10     1    number of the seed, 0 to 99
//!   -9     1    0, reserved
//!   -8     4    check: a sum over the eight bytes before it
//!   -4     3    magic: "fus"
//!   -1     1    version: 1
//! ```
//!
//! Integers are little-endian. A filter is trusted only if its length is the one that follows from
//! the trailer, and if the check matches. The check detects damage to several fields that leaves
//! this length the same.
//!
//! ```text
//! slot 0        mulhi(hash, segments << log2 slots)
//! mixed         both halves of the product (hash ^ seed) * 0x9e3779b97f4a7c15, one xored to the other
//! slot 1        slot 0 + a segment; the low bits are xored with the lowest bits of `mixed`
//! slot 2        slot 0 + two segments; the low bits are xored with the bits of `mixed` from 18 on
//! fingerprint   the highest 16 bits of `mixed`, of which the lowest `bits` count
//! seed          number n has the value mix((n + 1) * 0x9e3779b97f4a7c15)
//! ```
//!
//! Invariant: a [`Layout`] describes exactly the bytes it was decoded from. It has fewer than 2^32
//! slots, and four bytes from any slot's first byte on are inside the filter.

use core::ops::RangeInclusive;

use crate::hashes::mix;

/// The possible numbers of bits of a slot, and of a stored fingerprint.
pub const BITS: RangeInclusive<u32> = 4..=16;

/// The binary logarithm of the largest number of slots in a segment.
pub const MAX_LOG2_SLOTS: u32 = 18;

/// The binary logarithm of the smallest number of slots in a segment.
pub const MIN_LOG2_SLOTS: u32 = 2;

/// The number of seeds that a build tries at most.
pub const SEEDS: u32 = 100;

/// Bytes of the trailer, which follows the slots. Reading a slot loads four bytes, so for the last
/// slot up to three bytes of the trailer are loaded too.
pub const TRAILER_BYTES: usize = 16;

const MAGIC_AND_VERSION: [u8; 4] = *b"fus\x01";

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The array of a filter: everything that determines a key's slots and fingerprint, except the
/// seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Segments in which the first slot of a key can lie.
    pub segments: u32,
    pub log2_slots: u32,
    /// Bits of a slot.
    pub bits: u32,
}

/// The slots of a key and its fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub slots: [u32; 3],
    /// 16 bits, of which the filter stores only the lowest [`Layout::bits`].
    pub fingerprint: u32,
}

/// The value of the seed with this number, from a fixed sequence, so that the same keys always make
/// the same bytes.
pub fn seed(number: u32) -> u64 {
    mix((u64::from(number) + 1).wrapping_mul(MULTIPLIER))
}

/// The first slot of a key: one of the lowest `first_slots` slots.
#[inline(always)]
pub fn first_slot(hash: u64, first_slots: u32) -> u32 {
    ((u128::from(hash) * u128::from(first_slots)) >> 64) as u32
}

/// The three slots of a key whose first slot is known, and its fingerprint.
#[inline(always)]
pub fn place(hash: u64, seed: u64, first: u32, log2_slots: u32) -> Place {
    let product = u128::from(hash ^ seed) * u128::from(MULTIPLIER);
    let mixed = product as u64 ^ (product >> 64) as u64;
    let segment = 1u32 << log2_slots;
    let low = segment - 1;
    let second = first.wrapping_add(segment) ^ (mixed as u32 & low);
    let third = first.wrapping_add(2 * segment) ^ ((mixed >> 18) as u32 & low);
    Place { slots: [first, second, third], fingerprint: (mixed >> 48) as u32 }
}

impl Layout {
    /// The number of slots that can be the first one of a key.
    pub fn first_slots(&self) -> u32 {
        self.segments << self.log2_slots
    }

    /// The number of all slots.
    pub fn slots(&self) -> u64 {
        (u64::from(self.segments) + 2) << self.log2_slots
    }

    /// Bytes of the slots.
    pub fn slot_bytes(&self) -> u64 {
        (self.slots() * u64::from(self.bits)).div_ceil(8)
    }

    /// Bytes of the whole filter.
    pub fn total_bytes(&self) -> u64 {
        self.slot_bytes() + TRAILER_BYTES as u64
    }

    fn is_possible(&self) -> bool {
        self.segments > 0
            && (MIN_LOG2_SLOTS..=MAX_LOG2_SLOTS).contains(&self.log2_slots)
            && BITS.contains(&self.bits)
            && self.slots() <= u64::from(u32::MAX)
    }

    /// The last bytes of the filter.
    pub fn trailer(&self, seed_number: u32) -> [u8; TRAILER_BYTES] {
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..4].copy_from_slice(&self.segments.to_le_bytes());
        trailer[4] = self.log2_slots as u8;
        trailer[5] = self.bits as u8;
        trailer[6] = seed_number as u8;
        let sum = check(&trailer);
        trailer[8..12].copy_from_slice(&sum.to_le_bytes());
        trailer[12..].copy_from_slice(&MAGIC_AND_VERSION);
        trailer
    }

    /// The layout of the filter in `block` and the number of its seed, or why the block is no
    /// filter.
    pub fn parse(block: &[u8]) -> Result<(Layout, u32), &'static str> {
        let Some((slots, trailer)) = block.split_last_chunk::<TRAILER_BYTES>() else {
            return Err("shorter than the trailer of a fuse filter");
        };
        if trailer[12..] != MAGIC_AND_VERSION {
            return Err("not a fuse filter of a known version");
        }
        if trailer[8..12] != check(trailer).to_le_bytes() {
            return Err("a fuse filter whose trailer is damaged");
        }
        let [s0, s1, s2, s3, log2_slots, bits, seed_number, reserved, ..] = *trailer;
        let layout = Layout {
            segments: u32::from_le_bytes([s0, s1, s2, s3]),
            log2_slots: log2_slots.into(),
            bits: bits.into(),
        };
        if !layout.is_possible() || u32::from(seed_number) >= SEEDS || reserved != 0 {
            return Err("a fuse filter with an impossible trailer");
        }
        if slots.len() as u64 != layout.slot_bytes() {
            return Err("a fuse filter whose length is not that of its slots");
        }
        Ok((layout, seed_number.into()))
    }
}

/// A sum over the first eight bytes of a trailer.
fn check(trailer: &[u8; TRAILER_BYTES]) -> u32 {
    let [a, b, c, d, e, f, g, h, ..] = *trailer;
    let fields = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    ((fields ^ MULTIPLIER).wrapping_mul(MULTIPLIER) >> 32) as u32
}

/// See [`FamilyInfo::repair`](crate::info::FamilyInfo::repair). Derives the number of
/// segments from the length of the block. Then cuts the block, or appends zeros, so that it has the
/// length of these segments.
#[cfg(any(test, fuzzing))]
pub fn repair(block: &mut Vec<u8>) {
    let Some((_, &trailer)) = block.split_last_chunk::<TRAILER_BYTES>() else { return };
    block.truncate(block.len() - TRAILER_BYTES);
    let bits = BITS.start() + u32::from(trailer[5]) % 13;
    // At most 64 slots a segment, so that a short input still has several segments.
    let log2_slots = MIN_LOG2_SLOTS + u32::from(trailer[4]) % 5;
    let segments = ((block.len() as u32 * 8 / bits) >> log2_slots).saturating_sub(2).max(1);
    let layout = Layout { segments, log2_slots, bits };
    block.resize(layout.slot_bytes() as usize, 0);
    block.extend(layout.trailer(u32::from(trailer[6]) % SEEDS));
}

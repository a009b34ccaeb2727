//! Step 2: double hashing, which computes all bits of a key from one hash. Its trap: with a bad
//! step, many of the positions are the same.

use super::step01_bloom::Bits;

/// The positions of a key's `k` bits, each below `bits`. The first is the start, and each other one
/// is a step further than the one before it, modulo `bits`.
///
/// `bits` is a multiple of 64, and `k` at most 64. The positions of a key must all be different.
pub fn positions(hash: u64, bits: u64, k: u32) -> Vec<u64> {
    todo!("start in the high half of the hash, step in the low half; what if the step is 0?")
}

/// A Bloom filter that needs only one hash of each key.
pub struct Bloom {
    pub bits: Bits,
    pub k: u32,
}

impl Bloom {
    pub fn new(bits: u64, k: u32) -> Bloom {
        Bloom { bits: Bits::new(bits), k }
    }

    /// Inserts the key with this hash.
    pub fn insert(&mut self, hash: u64) {
        todo!("set the key's positions")
    }

    /// `false`: no key with this hash was inserted.
    pub fn may_contain(&self, hash: u64) -> bool {
        todo!("maybe, if all of the key's positions are set")
    }
}

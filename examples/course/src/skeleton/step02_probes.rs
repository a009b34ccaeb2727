//! Step 2: all bits of a key from one hash, and the trap in this method.

use super::step01_bloom::Bits;

/// The positions of a key's `k` bits, below `bits`: a start, and then a step further each time.
///
/// `bits` is a multiple of 64, and `k` at most 64. The positions of a key are different from each
/// other.
pub fn positions(hash: u64, bits: u64, k: u32) -> Vec<u64> {
    todo!("start in the high half of the hash, step in the low half; what if the step is 0?")
}

/// A Bloom filter that hashes each key once.
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

//! Step 1: an array of bits, and a Bloom filter in it.
//!
//! Each key sets `k` bits, which `k` hash functions choose.

use maypole::hash64;

/// An array of bits, all clear at first. It has one or more whole words of 64 bits.
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// An array of at least `bits` bits: the number is rounded up to whole words of 64.
    pub fn new(bits: u64) -> Bits {
        Bits { words: vec![0; bits.div_ceil(64).max(1) as usize] }
    }

    /// The number of bits.
    pub fn len(&self) -> u64 {
        64 * self.words.len() as u64
    }

    pub fn set(&mut self, position: u64) {
        todo!("set one bit: its word, then its place in the word")
    }

    pub fn is_set(&self, position: u64) -> bool {
        todo!("read one bit")
    }

    /// The share of the bits that are set, from 0 to 1.
    pub fn fill(&self) -> f64 {
        todo!("count the ones, divide by the number of bits")
    }
}

/// Hash function number `i`: the hash of the key with the byte `i` appended.
pub fn hash_number(i: u32, key: &[u8]) -> u64 {
    hash64(&[key, &[i as u8]].concat())
}

/// A Bloom filter of `k` hash functions.
pub struct Bloom {
    pub bits: Bits,
    pub k: u32,
}

impl Bloom {
    pub fn new(bits: u64, k: u32) -> Bloom {
        Bloom { bits: Bits::new(bits), k }
    }

    pub fn insert(&mut self, key: &[u8]) {
        todo!("set the bit of each hash function, modulo the number of bits")
    }

    /// `false`: the key was certainly not inserted. `true`: maybe.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        todo!("maybe, if all bits of the key are set")
    }
}

/// The share of absent keys that pass a filter of `bits_per_key`, in which each key sets `k` bits.
pub fn expected_rate(bits_per_key: f64, k: u32) -> f64 {
    todo!("(1 - e^(-k / bits_per_key))^k")
}

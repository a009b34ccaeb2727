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
        // yours: set one bit: its word, then its place in the word
        self.words[(position / 64) as usize] |= 1 << (position % 64);
        // end
    }

    pub fn is_set(&self, position: u64) -> bool {
        // yours: read one bit
        self.words[(position / 64) as usize] >> (position % 64) & 1 == 1
        // end
    }

    /// The share of the bits that are set, from 0 to 1.
    pub fn fill(&self) -> f64 {
        // yours: count the ones, divide by the number of bits
        let ones: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        f64::from(ones) / self.len() as f64
        // end
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
        // yours: set the bit of each hash function, modulo the number of bits
        for i in 0..self.k {
            self.bits.set(hash_number(i, key) % self.bits.len());
        }
        // end
    }

    /// `false`: the key was certainly not inserted. `true`: maybe.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        // yours: maybe, if all bits of the key are set
        (0..self.k).all(|i| self.bits.is_set(hash_number(i, key) % self.bits.len()))
        // end
    }
}

/// The share of absent keys that pass a filter of `bits_per_key`, in which each key sets `k` bits.
pub fn expected_rate(bits_per_key: f64, k: u32) -> f64 {
    // yours: (1 - e^(-k / bits_per_key))^k
    let set = 1.0 - (-f64::from(k) / bits_per_key).exp();
    set.powi(k as i32)
    // end
}

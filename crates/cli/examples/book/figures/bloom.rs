//! A textbook Bloom filter in thirty lines, with which the first chapters experiment.

/// `m` bits, of which every key sets `k`.
pub struct Bloom {
    words: Vec<u64>,
    m: u64,
    k: u32,
}

impl Bloom {
    pub fn new(m: u64, k: u32) -> Bloom {
        Bloom { words: vec![0; m.div_ceil(64) as usize], m, k }
    }

    /// The bits of a key, by double hashing: all come from the two halves of one 64-bit hash.
    pub fn positions(&self, hash: u64) -> impl Iterator<Item = u64> + use<> {
        let (start, step, m) = (hash >> 32, hash & 0xffff_ffff | 1, self.m);
        (0..u64::from(self.k)).map(move |i| (start + i * step) % m)
    }

    pub fn insert(&mut self, hash: u64) {
        for position in self.positions(hash) {
            self.words[(position / 64) as usize] |= 1 << (position % 64);
        }
    }

    pub fn may_contain(&self, hash: u64) -> bool {
        self.positions(hash).all(|position| self.is_set(position))
    }

    pub fn is_set(&self, position: u64) -> bool {
        self.words[(position / 64) as usize] >> (position % 64) & 1 == 1
    }

    /// The share of the bits that are set.
    pub fn fill(&self) -> f64 {
        let ones: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        f64::from(ones) / self.m as f64
    }
}

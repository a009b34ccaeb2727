//! [`Doorkeeper`]: whether a data block, or a part of a filter or index, was used recently.
//!
//! ```text
//!   newer   [ 0110 0001 … ]   a bit for each block that was used since the generations changed
//!   older   [ 1010 1100 … ]   the bits of the previous generation
//! ```
//!
//! Where filters and indexes fill the cache, a data block is cached only at its second use, because
//! most blocks are used only once in such a cache. Caching every block would evict parts of filters
//! and indexes, and a hit on a part saves as much as a hit on a block. A part of a filter or index
//! is cached at its first use only if nothing must be evicted for it. So parts that are used once
//! evict no part that is used often, and the lookups that read them do not spend time on insertions
//! and evictions. The structure is the doorkeeper of TinyLFU (Einziger, Friedman and Manes,
//! "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions on Storage 13(4), 2017),
//! with two generations in place of the paper's reset.
//!
//! The number of a block or part selects its bit in each of two generations. A mark sets the bit of
//! the newer generation. When this generation has about as many marks as the cache could hold
//! blocks, the older generation is cleared and becomes the newer one. If two blocks share a bit,
//! the second of them is cached at its first use.

use std::sync::OnceLock;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The block size from which the number of blocks that the cache could hold is estimated.
const BLOCK_BYTES: usize = 4096;
/// How many bits a generation has for each block that the cache could hold. When a generation ends,
/// about 1/16 of its bits are set, which is the probability that it mistakes a new block for a
/// marked one.
const BITS_PER_BLOCK: usize = 16;
const MIN_BLOCKS: usize = 64;

/// Remembers which numbers were marked in this generation and the previous one. The first use
/// allocates its memory: 1/1024 to 1/512 of the capacity, and at least 256 bytes.
pub(super) struct Doorkeeper {
    /// How many blocks make a generation: a power of two.
    blocks: usize,
    /// The bits of both generations.
    words: OnceLock<Box<[AtomicU64]>>,
    /// The number of blocks marked so far, in all generations.
    marks: AtomicUsize,
}

impl Doorkeeper {
    pub fn new(capacity_bytes: usize) -> Doorkeeper {
        let blocks = (capacity_bytes / BLOCK_BYTES).max(MIN_BLOCKS).next_power_of_two();
        Doorkeeper { blocks, words: OnceLock::new(), marks: AtomicUsize::new(0) }
    }

    /// Marks `number`. Returns whether it may have been marked before, in this generation or in the
    /// previous one. The numbers must be distributed evenly over all `u64` values. Threads that
    /// mark at the same time may miss each other's marks.
    pub fn knows(&self, number: u64) -> bool {
        let words_each = self.blocks * BITS_PER_BLOCK / 64;
        let words =
            self.words.get_or_init(|| (0..2 * words_each).map(|_| AtomicU64::new(0)).collect());
        let newer = (self.marks.load(Ordering::Relaxed) / self.blocks) % 2 * words_each;
        let older = words_each - newer;
        let place = (number >> 6) as usize % words_each;
        let bit = 1 << (number % 64);
        let word = words[newer + place].load(Ordering::Relaxed);
        if word & bit != 0 {
            return true;
        }
        words[newer + place].store(word | bit, Ordering::Relaxed);
        let known = words[older + place].load(Ordering::Relaxed) & bit != 0;
        let marks = self.marks.fetch_add(1, Ordering::Relaxed) + 1;
        if marks.is_multiple_of(self.blocks) {
            // The next generation takes the words of the older one.
            let next = &words[older..older + words_each];
            next.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        known
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn a_number_is_known_for_one_generation_and_forgotten_after_two() {
        let doorkeeper = Doorkeeper::new(1 << 20);
        let blocks = doorkeeper.blocks;
        assert_eq!(blocks, 256);
        let mut rng = StdRng::seed_from_u64(1);
        let (mut early, mut late, mut unknown) = (0, 0, 0);
        for _ in 0..200 {
            let number: u64 = rng.random();
            unknown += usize::from(doorkeeper.knows(number));
            for _ in 0..blocks / 2 {
                doorkeeper.knows(rng.random());
            }
            early += usize::from(doorkeeper.knows(number));
            for _ in 0..3 * blocks {
                doorkeeper.knows(rng.random());
            }
            late += usize::from(doorkeeper.knows(number));
        }
        assert_eq!(early, 200);
        // Other numbers have set some of the bits.
        assert!(unknown < 40 && late < 40, "{unknown} and {late} of 200");
    }
}

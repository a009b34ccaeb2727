//! [`Doorkeeper`]: whether a data block, or a part of a filter or index, was used recently.
//!
//! ```text
//!   newer   [ 0110 0001 … ]   a bit for each block that was used since the generations changed
//!   older   [ 1010 1100 … ]   the bits of the previous generation
//! ```
//!
//! Where filters and indexes fill the cache, most data blocks are used only once before they are
//! evicted. Caching every block would evict parts of filters and indexes, and a hit on a part saves
//! as much as a hit on a block. So a data block is cached only if it was used in both of the last
//! two *generations* before this use. The same holds for a part of a filter or index that would
//! displace others of its kind: it is cached only if it is used about as often as those. If there is
//! something that is evicted earlier, a use in one of the two generations is enough, and if the
//! cache has room, none is needed. So parts that are used rarely evict no part that is used often,
//! and the lookups that read them do not spend time on insertions and evictions.
//!
//! The structure is the doorkeeper of TinyLFU (Einziger, Friedman and Manes, "TinyLFU: A Highly
//! Efficient Cache Admission Policy", ACM Transactions on Storage 13(4), 2017), with two
//! generations in place of the paper's reset.
//!
//! A generation is an array of bits. The number of a block or part selects one bit of each
//! generation, and a use *marks* the number: it sets this bit in the newer generation. When this
//! generation has about as many marks as the cache could hold blocks, the older generation is
//! cleared and becomes the newer one. If two parts have the same bit, the second one is cached at its
//! first use. This does no harm: if the part is not used again soon, it is evicted.

use std::sync::OnceLock;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The block size from which the number of blocks that the cache could hold is estimated.
const BLOCK_BYTES: usize = 4096;
/// How many bits a generation has for each block that the cache could hold. So about 1/32 of the
/// bits are set when a generation ends. With this probability, each of the two generations takes a
/// new block for a marked one. A data block that is kept for no reason displaces a part of a filter
/// or index, which would save more reads.
const BITS_PER_BLOCK: usize = 32;
const MIN_BLOCKS: usize = 64;

/// Remembers which numbers were marked in the newer and the older generation. The first use
/// allocates its memory: 1/512 to 1/256 of the capacity, and at least 512 bytes.
pub(super) struct Doorkeeper {
    /// The number of marks after which a generation ends: a power of two.
    blocks: usize,
    /// The bits of both generations.
    words: OnceLock<Box<[AtomicU64]>>,
    /// The number of marks so far, in all generations.
    marks: AtomicUsize,
}

/// In which generations a number may have been marked before.
#[derive(Clone, Copy)]
pub(super) struct Marked {
    in_newer: bool,
    in_older: bool,
}

impl Marked {
    /// In at least one generation.
    pub fn once(self) -> bool {
        self.in_newer || self.in_older
    }

    /// In both generations.
    pub fn twice(self) -> bool {
        self.in_newer && self.in_older
    }
}

impl Doorkeeper {
    pub fn new(capacity_bytes: usize) -> Doorkeeper {
        let blocks = (capacity_bytes / BLOCK_BYTES).max(MIN_BLOCKS).next_power_of_two();
        Doorkeeper { blocks, words: OnceLock::new(), marks: AtomicUsize::new(0) }
    }

    /// Marks `number`, and returns how it may have been marked before. The numbers must be
    /// distributed evenly over all `u64` values. Threads that mark at the same time may miss each
    /// other's marks.
    pub fn mark(&self, number: u64) -> Marked {
        let words_each = self.blocks * BITS_PER_BLOCK / 64;
        let words =
            self.words.get_or_init(|| (0..2 * words_each).map(|_| AtomicU64::new(0)).collect());
        let newer = (self.marks.load(Ordering::Relaxed) / self.blocks) % 2 * words_each;
        let older = words_each - newer;
        let place = (number >> 6) as usize % words_each;
        let bit = 1 << (number % 64);
        let word = words[newer + place].load(Ordering::Relaxed);
        let marked = Marked {
            in_newer: word & bit != 0,
            in_older: words[older + place].load(Ordering::Relaxed) & bit != 0,
        };
        if !marked.in_newer {
            words[newer + place].store(word | bit, Ordering::Relaxed);
        }
        let marks = self.marks.fetch_add(1, Ordering::Relaxed) + 1;
        if marks.is_multiple_of(self.blocks) {
            // The next generation takes the words of the older one.
            let next = &words[older..older + words_each];
            next.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        marked
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
            unknown += usize::from(doorkeeper.mark(number).once());
            for _ in 0..blocks / 2 {
                doorkeeper.mark(rng.random());
            }
            early += usize::from(doorkeeper.mark(number).once());
            for _ in 0..3 * blocks {
                doorkeeper.mark(rng.random());
            }
            late += usize::from(doorkeeper.mark(number).once());
        }
        assert_eq!(early, 200);
        // By chance, other numbers have set the bits of some numbers.
        assert!(unknown < 40 && late < 40, "{unknown} and {late} of 200");
    }
}

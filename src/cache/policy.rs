//! [`Policy`]: what a cache keeps, and which parts of filters are worth a read.
//!
//! *Metadata* are the filters and indexes of all open tables. If a cache has room for them, it keeps
//! them, and data blocks share the rest. If they *fill* the cache, they compete with each other and
//! with data blocks for its memory, and other rules apply:
//!
//! ```text
//!                           metadata fits          metadata fills the cache
//!   data block              kept, on probation     kept if it was used in the last two generations
//!   part of an index        kept                   kept
//!   part of a filter        read, kept             read if its credit pays for the read, kept
//!   whole filter or index   kept                   kept until its table is closed
//!   evicted first           data, then metadata    data that was not used since, then metadata and
//!                                                  used data, by one clock
//! ```
//!
//! Parts and data blocks have about the same size, and a hit of each saves about one read. So one
//! clock for all of them keeps those that save the most reads ([`super::eviction`]). A whole filter
//! or index has the size of many parts. To evict and read it again would cost far more than parts
//! cost, so it stays, as in RocksDB, until a compaction writes the data anew, with parts.
//!
//! **Credit.** Reading a part of a filter pays only if the table does not hold the key. So a lookup
//! may *pass* a part *by* that is not in memory: it searches the table as if there were no filter.
//! Each part has a [`Credit`], which begins at one read, and which a search in vain raises by the
//! read that the part would have saved. A lookup reads the part if the credit is at least the price
//! of the read:
//!
//! ```text
//!           passed by, a read in vain: + 1 read          read, and says no: + 1/8 read, up to 2
//!   credit ────────────────────────► price ── a lookup ──►
//!           passed by, otherwise: unchanged              read, and says maybe: − price
//! ```
//!
//! A part keeps its credit when it is evicted. The price is one read. If the part of the index that
//! leads to the key is not in memory either, and one *joint* read loads both, the price is an eighth
//! of a read, because the read is needed anyway and only becomes longer. At a credit of two reads
//! the keys for which the part was read lately were all absent. Then the part is read without the
//! index, which the lookup will probably not need.
//!
//! The credit also decides what counts as a use of a part in memory: a "no" always does, and a "maybe"
//! only at a credit of at least one read. So parts that only present keys need are evicted before
//! others, although each lookup queries them.
//!
//! This is the rule of the ski rental problem: rent until the rents would have bought the skis.
//! `docs/filters.md` proves what it costs at most.
//!
//! **The doorkeeper.** Where metadata fills the cache, most data blocks are used only once before
//! they are evicted. Keeping each of them would evict parts of filters and indexes. So a data block
//! is kept only if it was used in both of the last two *generations*:
//!
//! ```text
//!   newer   [ 0110 0001 … ]   a bit for each block that was used since the generations changed
//!   older   [ 1010 1100 … ]   the bits of the previous generation
//! ```
//!
//! The number of a block selects one bit of each generation, and a use sets this bit in the newer
//! one. When this generation has about as many marks as the cache could hold blocks, the older one
//! is cleared and becomes the newer one. If two blocks have the same bit, the second one is kept at
//! its first use, which does no harm: it is evicted if it is not used again. The structure is the
//! doorkeeper of TinyLFU (Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission
//! Policy", ACM Transactions on Storage 13(4), 2017), with two generations in place of the paper's
//! reset.
//!
//! Threads share the policy without a lock. Two threads may overwrite each other's mark or credit,
//! which costs at most one read.

use std::sync::OnceLock;

use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Metadata *fills* the cache if it would take more than this share of it (numerator and
/// denominator). If it would do so as whole filters and indexes, new ones are written in parts
/// (`table/parts.rs`). If it does so as it is stored, the rules of the right column above apply.
const METADATA_SHARE: (usize, usize) = (7, 8);

/// The block size from which the number of blocks that the cache could hold is estimated.
const BLOCK_BYTES: usize = 4096;

/// How many bits a generation has for each block that the cache could hold. So about 1/32 of the
/// bits are set when a generation ends. With this probability, each of the two generations takes a
/// new block for a marked one. A data block that is kept for no reason displaces a part of a filter
/// or index, which would save more reads.
const BITS_PER_BLOCK: usize = 32;

const MIN_BLOCKS: usize = 64;

/// How the cache keeps a value that was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    No,
    /// Kept. A data block enters the probation ring, from which it is evicted first unless it is
    /// used again.
    OnProbation,
    /// Kept. A data block enters the protected ring, as if it had been used again.
    Protected,
    /// Kept until its slot is dropped.
    Pinned,
}

/// The heap bytes of a table's filters and indexes, resident or not.
#[derive(Clone, Copy, Default)]
pub(crate) struct MetadataBytes {
    /// Their heap bytes in the form in which the table stores them, which is whole or in parts.
    pub as_stored: usize,
    /// Their bytes if they were whole.
    pub if_whole: usize,
}

/// See the module.
pub(crate) struct Policy {
    capacity_bytes: usize,
    /// The bytes that the filters and indexes of all open tables would take in memory, each in the
    /// form in which it is stored: whole or in parts.
    metadata_bytes: AtomicUsize,
    /// Like `metadata_bytes`, but as if no filter or index were stored in parts.
    whole_metadata_bytes: AtomicUsize,
    doorkeeper: Doorkeeper,
}

impl Policy {
    pub fn new(capacity_bytes: usize) -> Policy {
        Policy {
            capacity_bytes,
            metadata_bytes: AtomicUsize::new(0),
            whole_metadata_bytes: AtomicUsize::new(0),
            doorkeeper: Doorkeeper::new(capacity_bytes),
        }
    }

    /// Adds the metadata of a table that was opened.
    pub fn add(&self, metadata: MetadataBytes) {
        self.metadata_bytes.fetch_add(metadata.as_stored, Ordering::Relaxed);
        self.whole_metadata_bytes.fetch_add(metadata.if_whole, Ordering::Relaxed);
    }

    /// Takes back what [`Policy::add`] has added.
    pub fn subtract(&self, metadata: MetadataBytes) {
        self.metadata_bytes.fetch_sub(metadata.as_stored, Ordering::Relaxed);
        self.whole_metadata_bytes.fetch_sub(metadata.if_whole, Ordering::Relaxed);
    }

    /// About how many bytes the filters and indexes of all open tables would take in memory if all
    /// of them were whole.
    pub fn whole_metadata_bytes(&self) -> usize {
        self.whole_metadata_bytes.load(Ordering::Relaxed)
    }

    /// Whether the filters and indexes of all open tables, as they are stored, fill the cache.
    #[inline]
    pub fn metadata_fills(&self) -> bool {
        self.is_filled_by(self.metadata_bytes.load(Ordering::Relaxed))
    }

    /// Whether the filters and indexes of all open tables would fill the cache if all of them were
    /// whole. If so, new filters and indexes are split into parts.
    pub fn whole_metadata_fills(&self) -> bool {
        self.is_filled_by(self.whole_metadata_bytes())
    }

    fn is_filled_by(&self, bytes: usize) -> bool {
        let (part, whole) = METADATA_SHARE;
        bytes / part > self.capacity_bytes / whole
    }

    /// How to keep a data block that a lookup has read. `number` identifies the block, and must be
    /// distributed evenly over all `u64` values.
    #[inline]
    pub fn keeping_of_data(&self, number: impl FnOnce() -> u64) -> Keeping {
        match self.metadata_fills() {
            false => Keeping::OnProbation,
            true if self.doorkeeper.mark(number()) => Keeping::Protected,
            true => Keeping::No,
        }
    }

    /// How to keep a filter, an index or a part of one that a lookup has read.
    pub fn keeping_of_metadata(&self, is_whole: bool) -> Keeping {
        match is_whole && self.metadata_fills() {
            true => Keeping::Pinned,
            false => Keeping::OnProbation,
        }
    }
}

/// The price of one read. Credits and prices are counted in eighths of a read.
const READ: u32 = 8;

/// The price of a part that is read together with the index.
const JOINT_PRICE: u32 = 1;

/// The credit of a part that has said "no" each time that it was read lately. Such a part is read
/// without the index.
const ONLY_ABSENT: u32 = 2 * READ;

/// The credit of one part of a filter, in eighths of a read.
pub(crate) struct Credit(AtomicU32);

impl Credit {
    /// A credit of one read for each of `parts` parts.
    pub fn of(parts: usize) -> Box<[Credit]> {
        (0..parts).map(|_| Credit(AtomicU32::new(READ))).collect()
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn eighths(&self) -> u32 {
        self.get()
    }

    fn set(&self, credit: u32) {
        self.0.store(credit, Ordering::Relaxed);
    }

    /// Whether a lookup reads the part, which is not in memory. `is_joint`: one read would load both
    /// this part and the part of the index that the lookup needs.
    #[inline]
    pub fn pays(&self, is_joint: bool) -> bool {
        self.get() >= if is_joint { JOINT_PRICE } else { READ }
    }

    /// Whether each lookup that read the part lately was rejected by it, so that the part is read
    /// without the index.
    #[inline]
    pub fn only_rejects(&self) -> bool {
        self.get() >= ONLY_ABSENT
    }

    /// Notes what the part has said after it was read. `is_joint`: as in [`Credit::pays`].
    pub fn was_read(&self, maybe: bool, is_joint: bool) {
        let (credit, price) = (self.get(), if is_joint { JOINT_PRICE } else { READ });
        self.set(match maybe {
            true => credit.min(READ).saturating_sub(price),
            // The "no" has saved a read, and reading the part has cost `price`.
            false if credit < READ => (credit + READ - price).min(READ),
            false => (credit + 1).min(ONLY_ABSENT),
        });
    }

    /// Notes that a lookup has read something in vain because it passed the part by.
    pub fn was_missed(&self) {
        let credit = self.get();
        if credit < READ {
            self.set(READ);
        }
    }
}

/// Remembers which numbers were marked in the newer and the older generation. The first mark
/// allocates its memory: 1/512 to 1/256 of the capacity, and at least 512 bytes.
struct Doorkeeper {
    /// The number of marks after which a generation ends: a power of two.
    blocks: usize,
    /// The bits of both generations.
    words: OnceLock<Box<[AtomicU64]>>,
    /// The number of marks so far, in all generations.
    marks: AtomicUsize,
}

impl Doorkeeper {
    fn new(capacity_bytes: usize) -> Doorkeeper {
        let blocks = (capacity_bytes / BLOCK_BYTES).max(MIN_BLOCKS).next_power_of_two();
        Doorkeeper { blocks, words: OnceLock::new(), marks: AtomicUsize::new(0) }
    }

    /// Marks `number`. Returns whether it was marked in both generations before.
    fn mark(&self, number: u64) -> bool {
        let words_each = self.blocks * BITS_PER_BLOCK / 64;
        let words =
            self.words.get_or_init(|| (0..2 * words_each).map(|_| AtomicU64::new(0)).collect());
        let newer = (self.marks.load(Ordering::Relaxed) / self.blocks) % 2 * words_each;
        let older = words_each - newer;
        let place = (number >> 6) as usize % words_each;
        let bit = 1 << (number % 64);
        let word = words[newer + place].load(Ordering::Relaxed);
        let was_marked = word & words[older + place].load(Ordering::Relaxed) & bit != 0;
        if word & bit == 0 {
            words[newer + place].store(word | bit, Ordering::Relaxed);
        }
        let marks = self.marks.fetch_add(1, Ordering::Relaxed) + 1;
        if marks.is_multiple_of(self.blocks) {
            // The next generation takes the words of the older one.
            let next = &words[older..older + words_each];
            next.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        was_marked
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The cost of a part, in eighths of a read, counted as in `docs/filters.md`. A phase lasts from
    /// one eviction of the part to the next, and says of each lookup whether its key is present.
    /// `price`: [`READ`], or [`JOINT_PRICE`] if each read of the part is joined to one of the index.
    fn cost(price: u32, phases: &[Vec<bool>]) -> u32 {
        let (credit, is_joint) = (&Credit::of(1)[0], price == JOINT_PRICE);
        let mut cost = 0;
        for phase in phases {
            let mut is_resident = false;
            for &is_there in phase {
                if is_resident {
                    continue;
                }
                if credit.pays(is_joint) {
                    (cost, is_resident) = (cost + price, true);
                    credit.was_read(is_there, is_joint);
                } else if !is_there {
                    cost += READ;
                    credit.was_missed();
                }
            }
        }
        cost
    }

    /// The most that the rule may cost, in eighths of a read.
    fn bound(price: u32, phases: &[Vec<bool>]) -> u32 {
        let with_absent = phases.iter().filter(|phase| phase.contains(&false)).count() as u32;
        // The last 1 is for the first reads, for which the initial credit pays.
        2 * price * with_absent + (2 * READ - price) * (turns(phases) + 1)
    }

    /// How often a phase in which the part is queried for absent keys is followed by a phase in
    /// which it is queried for present keys only.
    fn turns(phases: &[Vec<bool>]) -> u32 {
        let used = phases.iter().filter(|phase| !phase.is_empty());
        let spares: Vec<bool> = used.map(|phase| phase.contains(&false)).collect();
        spares.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u32
    }

    #[test]
    fn a_part_costs_at_most_twice_the_best_and_a_fixed_price_a_turn() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..20_000 {
            let mut present = [0.0, 0.1, 0.5, 0.9, 1.0][rng.random_range(0..5)];
            let phases: Vec<Vec<bool>> = (0..rng.random_range(1..60))
                .map(|_| {
                    if rng.random_bool(0.1) {
                        present = 1.0 - present;
                    }
                    (0..rng.random_range(0..6)).map(|_| rng.random_bool(present)).collect()
                })
                .collect();
            for price in [READ, JOINT_PRICE] {
                let (cost, bound) = (cost(price, &phases), bound(price, &phases));
                assert!(cost <= bound, "{cost} above {bound} at {price}: {phases:?}");
            }
        }
        for price in [READ, JOINT_PRICE] {
            // The worst case: each turn finds a credit of one read, and ends with none.
            let mut turn = vec![vec![true]; (READ / price) as usize];
            turn.push(vec![false; 2]);
            let worst = vec![turn; 10].concat();
            assert_eq!(cost(price, &worst), bound(price, &worst));
            assert_eq!(cost(price, &vec![vec![true; 3]; 100]), READ, "one read in all");
            assert_eq!(cost(price, &vec![vec![false; 3]; 100]), 100 * price, "the best decision");
        }
        // A "no" after a joint read restores the credit, so that the part is never passed by.
        let mixed = vec![[vec![true], vec![false]]; 100].concat();
        assert_eq!(cost(JOINT_PRICE, &mixed), 200 * JOINT_PRICE);
    }

    #[test]
    fn a_number_is_known_if_it_was_marked_in_both_generations() {
        let doorkeeper = Doorkeeper::new(1 << 20);
        let blocks = doorkeeper.blocks;
        assert_eq!(blocks, 256);
        let mut rng = StdRng::seed_from_u64(1);
        let mut others = |count| (0..count).for_each(|_| _ = doorkeeper.mark(rng.random()));
        let mut numbers = StdRng::seed_from_u64(2);
        let (mut known, mut unknown, mut forgotten) = (0, 0, 0);
        for _ in 0..200 {
            let number: u64 = numbers.random();
            unknown += usize::from(doorkeeper.mark(number));
            others(blocks);
            unknown += usize::from(doorkeeper.mark(number));
            known += usize::from(doorkeeper.mark(number));
            others(3 * blocks);
            forgotten += usize::from(doorkeeper.mark(number));
        }
        assert_eq!(known, 200);
        // By chance, other numbers have set the bits of some numbers.
        assert!(unknown < 10 && forgotten < 10, "{unknown} and {forgotten} of 200");
    }
}

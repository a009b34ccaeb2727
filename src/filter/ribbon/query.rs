//! Queries: does the XOR of the slots that a key picks give its fingerprint?
//!
//! ```text
//! slots      |······ block b ······|······ block b+1 ····|
//! picks              1011…   near  | far …01             128 picks from slot `start` on
//!                    ^ start
//! ```
//!
//! The picks straddle two blocks, whose segments are neighbours in memory: `near`, the columns of
//! block b, then as many segments of block b+1 (of a wide block behind a narrow one the highest
//! column is left out). So a query reads one run of 2 × columns × 16 bytes, 3 to 5 cache lines at 7
//! columns. Starting in the first slot of a block, it picks nothing of the next; then `far` is
//! `near` once more, because behind the last block there is none.
//!
//! All columns are added up before the answer is looked at. Leaving at the first column that fails,
//! as one would, costs a mispredicted branch for nearly every absent key.

use super::equation::{Equation, raw_seed, rehash, start_of};
use super::grid::{BLOCK_SLOTS, Grid, SEGMENT_BYTES};
use super::solve::parity;
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::filter::{BATCH, Geometry, KeyHash};
use crate::memory::LINE_BYTES;
use crate::memory::LineBuf;

/// A stored Ribbon filter's shape, seed, and how its columns are added up.
#[derive(Clone, Copy)]
pub struct RibbonGeometry {
    grid: Grid,
    raw_seed: u32,
    kernel: Kernel,
}

/// Which instructions add up the columns.
#[derive(Debug, Clone, Copy)]
pub enum Kernel {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
}

/// What a key asks of the segments.
pub struct Query<'a> {
    /// The columns of the block in which the key starts, none to 32 segments.
    pub near: &'a [u8],
    /// The same columns of the next block; the same length.
    pub far: &'a [u8],
    /// Bit i picks slot `bit + i`, counted from the first slot of `near`.
    pub coefficients: u128,
    /// 0 to 127.
    pub bit: u32,
    /// Bit j is what the picks of column j must add up to; 0 where there is no column.
    pub fingerprint: u32,
}

impl Kernel {
    /// What this processor can run, the fastest last.
    fn available() -> impl Iterator<Item = Kernel> {
        let kernels = [Some(Kernel::Plain)].into_iter();
        #[cfg(target_arch = "x86_64")]
        let kernels = kernels.chain([
            x86::Avx2::detect().map(Kernel::Avx2),
            x86::Avx512::detect().map(Kernel::Avx512),
        ]);
        kernels.flatten()
    }
}

impl RibbonGeometry {
    /// The picks of a hash, from slot `start` on, with the bytes they pick from. `None` when there
    /// is no such slot.
    #[inline(always)]
    pub fn query<'a>(&self, block: &'a [u8], hash: KeyHash, start: u32) -> Option<Query<'a>> {
        let Equation { coefficients, result, .. } =
            Equation::new(rehash(hash, self.raw_seed), self.grid.starts());
        let (number, bit) = (start / BLOCK_SLOTS, start % BLOCK_SLOTS);
        let columns = self.grid.columns_of(number);
        let bytes = columns as usize * SEGMENT_BYTES;
        let near = self.grid.first_segment(number) * SEGMENT_BYTES;
        let far = if bit == 0 { near } else { near + bytes };
        Some(Query {
            near: block.get(near..near + bytes)?,
            far: block.get(far..far + bytes)?,
            coefficients,
            bit,
            fingerprint: result & ((1u64 << columns) - 1) as u32,
        })
    }

    /// Answers for many hashes; `finish` is [`Geometry::finish`] for the kernel at hand.
    #[inline(always)]
    pub fn many(
        &self,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
        finish: impl Fn(KeyHash, u32) -> bool,
    ) {
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut starts = [0; BATCH];
            for (start, &hash) in starts.iter_mut().zip(hashes) {
                *start = self.prepare(block, hash);
            }
            for ((answer, &hash), &start) in answers.iter_mut().zip(hashes).zip(&starts) {
                *answer = finish(hash, start);
            }
        }
    }
}

impl Query<'_> {
    /// Whether every column adds up: the plain version, oracle of the others.
    #[inline(always)]
    pub fn matches(&self) -> bool {
        let near_picks = self.coefficients << self.bit;
        // Two shifts, because one by 128 is none.
        let far_picks = self.coefficients >> 1 >> (BLOCK_SLOTS - 1 - self.bit);
        let columns = self.near.as_chunks::<SEGMENT_BYTES>().0.iter();
        let pairs = columns.zip(self.far.as_chunks::<SEGMENT_BYTES>().0);
        let sum = pairs.enumerate().fold(0, |sum, (column, (&near, &far))| {
            let near = u128::from_le_bytes(near) & near_picks;
            let far = u128::from_le_bytes(far) & far_picks;
            sum | parity(near ^ far) << column
        });
        sum == self.fingerprint
    }
}

impl Geometry for RibbonGeometry {
    fn parse(block: &LineBuf) -> Result<RibbonGeometry, &'static str> {
        let (grid, seed) = Grid::parse(block)?;
        let kernel = Kernel::available().last().unwrap_or(Kernel::Plain);
        Ok(RibbonGeometry { grid, raw_seed: raw_seed(seed), kernel })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let start = start_of(rehash(hash, self.raw_seed), self.grid.starts());
        let first = self.grid.first_segment(start / BLOCK_SLOTS) * SEGMENT_BYTES;
        // As if the block were wide: a loop of always the same length is not mispredicted.
        let bytes = 2 * self.grid.columns() as usize * SEGMENT_BYTES;
        for offset in (0..bytes).step_by(LINE_BYTES) {
            block.prefetch(first + offset);
        }
        block.prefetch(first + bytes - 1);
        start
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, start: u32) -> bool {
        match self.kernel {
            Kernel::Plain => self.query(block, hash, start).is_none_or(|query| query.matches()),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.finish(self, block, hash, start),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(avx512) => avx512.finish(self, block, hash, start),
        }
    }

    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        // Nothing to prefetch: the answer is wanted at once.
        let start = start_of(rehash(hash, self.raw_seed), self.grid.starts());
        self.finish(block, hash, start)
    }

    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        match self.kernel {
            Kernel::Plain => self.many(block, hashes, answers, |hash, start| {
                self.query(block, hash, start).is_none_or(|query| query.matches())
            }),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.may_contain_many(self, block, hashes, answers),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(avx512) => avx512.may_contain_many(self, block, hashes, answers),
        }
    }

    fn predicted_fpr(&self, _block: &LineBuf, _keys: u64) -> f64 {
        self.grid.false_positive_rate()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The definition: slot by slot, column by column.
    fn by_definition(grid: &Grid, segments: &[u8], equation: &Equation) -> bool {
        let bit_of = |slot: u32, column: u32| {
            let segment = grid.first_segment(slot / BLOCK_SLOTS) + column as usize;
            let byte = segment * SEGMENT_BYTES + (slot % BLOCK_SLOTS / 8) as usize;
            segments[byte] >> (slot % 8) & 1
        };
        (0..grid.columns_of(equation.start / BLOCK_SLOTS)).all(|column| {
            let picked = (0..BLOCK_SLOTS).filter(|&i| equation.coefficients >> i & 1 == 1);
            let sum = picked.fold(0, |sum, i| sum ^ bit_of(equation.start + i, column));
            u32::from(sum) == equation.result >> column & 1
        })
    }

    /// A block of random segments, and some hashes that start in its every corner.
    fn random_filter(rng: &mut StdRng, blocks: u32, segments: usize) -> (LineBuf, Vec<KeyHash>) {
        let grid = Grid::new(blocks, segments).unwrap();
        let mut block = LineBuf::zeroed(grid.stored_bytes());
        let (bytes, trailer) = block.split_at_mut(grid.segments() * SEGMENT_BYTES);
        // Mostly zeros where there are many columns, so that some keys pass.
        let ones = if grid.columns() > 8 { 0.02 } else { 0.5 };
        bytes.fill_with(|| if rng.random_bool(ones) { rng.random() } else { 0 });
        trailer.copy_from_slice(&grid.trailer(rng.random()));
        (block, (0..200).map(|_| rng.random()).collect())
    }

    #[test]
    fn every_kernel_answers_by_the_definition_on_every_grid() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut passed = 0;
        for blocks in [2, 3, 5] {
            for segments in 1..=32 * blocks as usize {
                let (block, hashes) = random_filter(&mut rng, blocks, segments);
                let shape = RibbonGeometry::parse(&block).unwrap();
                let starts = shape.grid.starts();
                // The corners: first and last start, and both sides of every block's edge.
                let corners = (0..blocks).flat_map(|b| [b * 128, b * 128 + 1, b * 128 + 127]);
                let corners: Vec<u32> =
                    corners.filter(|&s| s < starts).chain([starts - 1]).collect();
                for (i, &hash) in hashes.iter().enumerate() {
                    let mut equation = Equation::new(rehash(hash, shape.raw_seed), starts);
                    if let Some(&corner) = corners.get(i) {
                        equation.start = corner;
                    }
                    let expected = by_definition(&shape.grid, &block, &equation);
                    passed += usize::from(expected);
                    for kernel in Kernel::available() {
                        let shape = RibbonGeometry { kernel, ..shape };
                        let found = shape.finish(&block, hash, equation.start);
                        assert_eq!(found, expected, "{kernel:?} {:?} {equation:x?}", shape.grid);
                    }
                }
            }
        }
        assert!((1000..50_000).contains(&passed), "{passed} passed: the test says little");
    }

    #[test]
    fn every_kernel_answers_many_as_it_answers_one() {
        let mut rng = StdRng::seed_from_u64(2);
        let (block, hashes) = random_filter(&mut rng, 100, 250);
        for kernel in Kernel::available() {
            let shape = RibbonGeometry { kernel, ..RibbonGeometry::parse(&block).unwrap() };
            for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, hashes.len()] {
                let mut answers = vec![false; count];
                shape.may_contain_many(&block, &hashes[..count], &mut answers);
                for (&hash, answer) in hashes.iter().zip(answers) {
                    assert_eq!(shape.may_contain(&block, hash), answer, "{kernel:?}");
                    let start = shape.prepare(&block, hash);
                    assert_eq!(shape.finish(&block, hash, start), answer, "{kernel:?}");
                }
            }
        }
    }

    #[test]
    fn a_slot_that_does_not_exist_is_harmless() {
        let mut rng = StdRng::seed_from_u64(3);
        let (block, hashes) = random_filter(&mut rng, 2, 7);
        for kernel in Kernel::available() {
            let shape = RibbonGeometry { kernel, ..RibbonGeometry::parse(&block).unwrap() };
            for start in [shape.grid.slots(), shape.grid.slots() - 1, 1 << 31, u32::MAX] {
                assert!(shape.finish(&block, hashes[0], start));
            }
        }
    }
}

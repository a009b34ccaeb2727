//! Queries: they test whether the XOR of the slots that a key picks is its fingerprint.
//!
//! ```text
//! slots      |······ block b ······|······ block b+1 ····|
//! picks              1011…   near  | far …01             128 picks from slot `start` on
//!                    ^ start
//! ```
//!
//! The picks extend over two blocks, whose segments are neighbours in memory (a segment is 16
//! bytes: one column of one block). `near` has the columns of block b, and `far` as many columns of
//! block b+1. (If block b has one column fewer than block b+1, the highest column of block b+1 is
//! left out.) So a query reads one run of 2 × columns × 16 bytes, which is 4 or 5 cache lines at 7
//! columns. A key that starts in the first slot of a block picks no slot of the next block, which
//! need not exist. For such a key `far` is the same as `near`.

use super::kernel::{Ask, Kernels, Query};
use super::layout::{BLOCK_SLOTS, Layout, SEGMENT_BYTES};
use super::reference;
use super::row::{Equation, raw_seed, rehash, start_of};
use crate::cpu::{Isa, dispatch};
use crate::family::KeyHash;
use crate::geometry::{BATCH, Geometry};
use crate::inspect::trace::QueryTrace;
use crate::memory::{LINE_BYTES, LineBuf};

/// The parameters of a stored Ribbon filter.
#[derive(Clone, Copy)]
pub struct RibbonGeometry {
    layout: Layout,
    raw_seed: u32,
    isa: Isa,
}

impl RibbonGeometry {
    /// The query of a hash that starts in slot `start`. `None` when the filter has no such slot.
    #[inline(always)]
    pub fn query<'a>(&self, block: &'a [u8], hash: KeyHash, start: u32) -> Option<Query<'a>> {
        let Equation { coefficients, fingerprint, .. } =
            Equation::new(rehash(hash, self.raw_seed), self.layout.starts());
        let (number, bit) = (start / BLOCK_SLOTS, start % BLOCK_SLOTS);
        let columns = self.layout.columns_of(number);
        let bytes = columns as usize * SEGMENT_BYTES;
        let near = self.layout.first_segment(number) * SEGMENT_BYTES;
        let far = if bit == 0 { near } else { near + bytes };
        Some(Query {
            near: block.get(near..near + bytes)?,
            far: block.get(far..far + bytes)?,
            coefficients,
            bit,
            fingerprint: fingerprint & ((1u64 << columns) - 1) as u32,
        })
    }
}

impl Ask for RibbonGeometry {
    #[inline(always)]
    fn finish_with<K: Kernels>(&self, kernels: K, block: &[u8], hash: KeyHash, start: u32) -> bool {
        match self.query(block, hash, start) {
            Some(query) => kernels.matches(&query),
            None => true,
        }
    }

    #[inline(always)]
    fn finish_many_with<K: Kernels>(
        &self,
        kernels: K,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut starts = [0; BATCH];
            for (start, &hash) in starts.iter_mut().zip(hashes) {
                *start = self.prepare(block, hash);
            }
            for ((answer, &hash), &start) in answers.iter_mut().zip(hashes).zip(&starts) {
                *answer = self.finish_with(kernels, block, hash, start);
            }
        }
    }
}

impl Geometry for RibbonGeometry {
    fn parse(block: &LineBuf) -> Result<RibbonGeometry, &'static str> {
        let (layout, seed) = Layout::parse(block)?;
        Ok(RibbonGeometry { layout, raw_seed: raw_seed(seed), isa: Isa::detect() })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let start = start_of(rehash(hash, self.raw_seed), self.layout.starts());
        let first = self.layout.first_segment(start / BLOCK_SLOTS) * SEGMENT_BYTES;
        // Fetches as many bytes as two full blocks have, even if the key's blocks have fewer
        // columns. So the loop is equally long for every key of a filter, and its end is not
        // mispredicted.
        let bytes = 2 * self.layout.columns() as usize * SEGMENT_BYTES;
        for offset in (0..bytes).step_by(LINE_BYTES) {
            block.prefetch(first + offset);
        }
        block.prefetch(first + bytes - 1);
        start
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, start: u32) -> bool {
        dispatch!(self.isa, kernels => kernels.finish(self, block, hash, start))
    }

    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        // No prefetch, because the answer is needed at once.
        let start = start_of(rehash(hash, self.raw_seed), self.layout.starts());
        self.finish(block, hash, start)
    }

    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        dispatch!(self.isa, kernels => kernels.finish_many(self, block, hashes, answers));
    }

    fn predicted_fpr(&self, _block: &LineBuf, _keys: u64) -> f64 {
        self.layout.predicted_fpr()
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        reference::trace(block, hash).unwrap_or_else(QueryTrace::Untrusted)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::inspect::trace::ProbedBit;

    /// A block of random segments, and random hashes.
    fn random_filter(rng: &mut StdRng, blocks: u32, segments: usize) -> (LineBuf, Vec<KeyHash>) {
        let layout = Layout::new(blocks, segments).unwrap();
        let mut block = LineBuf::zeroed(layout.stored_bytes());
        let (bytes, trailer) = block.split_at_mut(layout.segments() * SEGMENT_BYTES);
        let ones = if layout.columns() > 8 { 0.02 } else { 0.5 };
        bytes.fill_with(|| if rng.random_bool(ones) { rng.random() } else { 0 });
        trailer.copy_from_slice(&layout.trailer(rng.random()));
        (block, (0..200).map(|_| rng.random()).collect())
    }

    #[test]
    fn every_kernel_answers_by_the_definition_on_every_grid() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut passed = 0;
        for blocks in [2, 3, 5] {
            for segments in 1..=32 * blocks as usize {
                let (block, hashes) = random_filter(&mut rng, blocks, segments);
                let geometry = RibbonGeometry::parse(&block).unwrap();
                let starts = geometry.layout.starts();
                // The corners: first and last start, and both sides of every block's edge.
                let corners = (0..blocks).flat_map(|b| [b * 128, b * 128 + 1, b * 128 + 127]);
                let corners: Vec<u32> =
                    corners.filter(|&s| s < starts).chain([starts - 1]).collect();
                for (i, &hash) in hashes.iter().enumerate() {
                    let mut equation = Equation::new(rehash(hash, geometry.raw_seed), starts);
                    if let Some(&corner) = corners.get(i) {
                        equation.start = corner;
                    }
                    let expected = reference::columns(&geometry.layout, &block, &equation)
                        .iter()
                        .all(ProbedBit::agrees);
                    passed += usize::from(expected);
                    for isa in Isa::available() {
                        let geometry = RibbonGeometry { isa, ..geometry };
                        let found = geometry.finish(&block, hash, equation.start);
                        assert_eq!(found, expected, "{isa:?} {:?} {equation:x?}", geometry.layout);
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
        for isa in Isa::available() {
            let geometry = RibbonGeometry { isa, ..RibbonGeometry::parse(&block).unwrap() };
            for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, hashes.len()] {
                let mut answers = vec![false; count];
                geometry.may_contain_many(&block, &hashes[..count], &mut answers);
                for (&hash, answer) in hashes.iter().zip(answers) {
                    assert_eq!(geometry.may_contain(&block, hash), answer, "{isa:?}");
                    let start = geometry.prepare(&block, hash);
                    assert_eq!(geometry.finish(&block, hash, start), answer, "{isa:?}");
                }
            }
        }
    }

    #[test]
    fn a_slot_that_does_not_exist_is_harmless() {
        let mut rng = StdRng::seed_from_u64(3);
        let (block, hashes) = random_filter(&mut rng, 2, 7);
        for isa in Isa::available() {
            let geometry = RibbonGeometry { isa, ..RibbonGeometry::parse(&block).unwrap() };
            for start in [geometry.layout.slots(), geometry.layout.slots() - 1, 1 << 31, u32::MAX] {
                assert!(geometry.finish(&block, hashes[0], start));
            }
        }
    }
}

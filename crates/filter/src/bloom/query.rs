//! The reader of a Bloom filter: a query tests the key's `k` bits in one line of 64 bytes.

use super::kernel::{Kernels, bit_seed, line_of};
use super::layout::{self, Line};
use super::reference;
use super::sizing;
use crate::cpu::{Isa, dispatch};
use crate::family::KeyHash;
use crate::geometry::{BATCH, Geometry};
use crate::inspect::trace::QueryTrace;
use crate::memory::{LINE_BYTES, LineBuf};

/// The parameters of a stored Bloom filter. Invariants: the block starts with `lines` lines, at
/// least one; `probes` is 1 to [`MAX_PROBES`](layout::MAX_PROBES).
#[derive(Clone, Copy)]
pub struct BloomGeometry {
    lines: u32,
    probes: u8,
    isa: Isa,
}

/// The lines of a block that `parse` has accepted.
#[inline(always)]
fn lines_of(block: &LineBuf) -> &[Line] {
    block.as_chunks().0
}

impl BloomGeometry {
    /// Bits that a key sets.
    pub fn probes(&self) -> u32 {
        self.probes.into()
    }
}

impl Geometry for BloomGeometry {
    fn parse(block: &LineBuf) -> Result<BloomGeometry, &'static str> {
        let (lines, probes) = layout::parse(block)?;
        Ok(BloomGeometry { lines, probes, isa: Isa::detect() })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let line = line_of(hash, self.lines);
        block.prefetch(line as usize * LINE_BYTES);
        line
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, line: u32) -> bool {
        let Some(line) = lines_of(block).get(line as usize) else { return true };
        dispatch!(self.isa, kernels => kernels.has_all_bits(line, bit_seed(hash), self.probes))
    }

    /// Always inlined, even with many callers, because around a call the lookup that calls this
    /// function would have to save its registers.
    #[inline(always)]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        let line = line_of(hash, self.lines);
        let Some(line) = lines_of(block).get(line as usize) else { return true };
        dispatch!(self.isa, kernels => kernels.has_all_bits_soon(line, bit_seed(hash), self.probes))
    }

    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        let lines = lines_of(block);
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut numbers = [0; BATCH];
            for (number, &hash) in numbers.iter_mut().zip(hashes) {
                *number = self.prepare(block, hash);
            }
            dispatch!(
                self.isa,
                kernels => kernels.finish_many(lines, hashes, &numbers, answers, self.probes)
            );
        }
    }

    fn predicted_fpr(&self, _block: &LineBuf, keys: u64) -> f64 {
        sizing::cache_line_bloom_fpr(keys as f64 / f64::from(self.lines), self.probes())
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        reference::trace(lines_of(block), hash, self.probes)
    }
}

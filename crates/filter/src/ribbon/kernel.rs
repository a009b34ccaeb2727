//! The hot loops of the Ribbon filter, in portable code: whether the slots that a key picks add up
//! to its fingerprint, and back substitution. A *segment* is one column of a block of 128 slots
//! ([`layout`](super::layout)).
//!
//! All columns are added up before the answer is tested. An early exit at the first column that
//! fails would cost a mispredicted branch for nearly every absent key.

use super::build::solve::{parity, solve};
use super::layout::{BLOCK_SLOTS, Layout, SEGMENT_BYTES};
use super::row::Row;
#[cfg(target_arch = "aarch64")]
use crate::cpu::Neon;
use crate::cpu::Portable;
use crate::family::KeyHash;
use crate::memory::LineBuf;

/// One query: the segments that it reads, and the values that it compares them with.
pub struct Query<'a> {
    /// The columns of the block in which the key starts: 0 to 32 segments.
    pub near: &'a [u8],
    /// As many columns of the next block. If `bit` is 0, the same bytes as `near`: the key picks no
    /// slot of the next block.
    pub far: &'a [u8],
    /// Bit i picks slot `bit + i`, counted from the first slot of `near`.
    pub coefficients: u128,
    /// The position in its block of the slot in which the key starts, 0 to 127.
    pub bit: u32,
    /// Bit j is the XOR that the picked slots must have in column j; 0 if there is no such column.
    pub fingerprint: u32,
}

/// The kernels of one instruction set. By default they are the portable code.
pub trait Kernels: Copy {
    /// Whether every column adds up to its bit of the fingerprint.
    #[inline(always)]
    fn matches(self, query: &Query) -> bool {
        let near_picks = query.coefficients << query.bit;
        // Two shifts, because for `bit` 0 a single shift would be by 128, which is invalid.
        let far_picks = query.coefficients >> 1 >> (BLOCK_SLOTS - 1 - query.bit);
        let columns = query.near.as_chunks::<SEGMENT_BYTES>().0.iter();
        let pairs = columns.zip(query.far.as_chunks::<SEGMENT_BYTES>().0);
        let sum = pairs.enumerate().fold(0, |sum, (column, (&near, &far))| {
            let near = u128::from_le_bytes(near) & near_picks;
            let far = u128::from_le_bytes(far) & far_picks;
            sum | parity(near ^ far) << column
        });
        sum == query.fingerprint
    }

    /// Back substitution: see [`solve`].
    fn solve(self, rows: &[Row], layout: &Layout, segments: &mut [u8]) {
        solve(rows, layout, segments);
    }

    /// [`Ask::finish_with`], compiled for these instructions.
    #[inline]
    fn finish<A: Ask>(self, reader: &A, block: &[u8], hash: KeyHash, start: u32) -> bool {
        reader.finish_with(self, block, hash, start)
    }

    /// [`Ask::finish_many_with`], compiled for these instructions.
    fn finish_many<A: Ask>(
        self,
        reader: &A,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        reader.finish_many_with(self, block, hashes, answers);
    }
}

/// A reader. Its whole query is compiled for each instruction set, so that the kernel is inlined in
/// the query. For this, implementations should mark both functions `#[inline(always)]`.
pub trait Ask {
    /// One query.
    fn finish_with<K: Kernels>(&self, kernels: K, block: &[u8], hash: KeyHash, start: u32) -> bool;

    /// Many queries.
    fn finish_many_with<K: Kernels>(
        &self,
        kernels: K,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    );
}

impl Kernels for Portable {}

/// The portable code, in which the compiler counts bits with NEON.
#[cfg(target_arch = "aarch64")]
impl Kernels for Neon {}

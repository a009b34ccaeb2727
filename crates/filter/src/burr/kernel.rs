//! The hot loops of the bumped ribbon, in portable code: whether a key's row matches, and back
//! substitution.

use super::build::solve::solve;
use super::row::Row;
#[cfg(target_arch = "x86_64")]
pub(super) use super::x86::lanes::Lanes;
#[cfg(target_arch = "aarch64")]
use crate::cpu::Neon;
use crate::cpu::Portable;
use crate::family::KeyHash;
use crate::memory::LineBuf;

/// The methods that the vector code of x86-64 needs of a row's coefficients, beyond those of
/// [`Word`](super::row::Word). Other processors need no such methods, so here the trait is empty.
#[cfg(not(target_arch = "x86_64"))]
pub(super) trait Lanes: super::row::Word {}
#[cfg(not(target_arch = "x86_64"))]
impl<W: super::row::Word> Lanes for W {}

/// Where in the filter the segments are that a query reads: those of the key's left block, in which
/// its row starts, and of the next block, the right one. A segment is one column of one block.
#[derive(Clone, Copy)]
pub(super) struct Segments {
    /// Byte offset of the left block's segments.
    pub at: usize,
    /// The number of segments of the left block. The right block's segments follow them directly. A
    /// query reads equally many of both, even where the right block has one more.
    pub columns: u32,
}

/// The kernels of one instruction set. By default they are the portable code.
pub(super) trait Kernels: Copy {
    /// Whether a key's row matches. `left` and `right` select the row's slots in the left and in
    /// the right block. In every column, the XOR of the selected slots' bits must be the column's
    /// bit of the fingerprint. `true` if the segments are not inside `filter`. No branch depends on
    /// the data.
    #[inline(always)]
    fn matches<W: Lanes>(
        self,
        filter: &[u8],
        segments: Segments,
        left: W,
        right: W,
        fingerprint: u32,
    ) -> bool {
        let bytes = segments.columns as usize * W::BYTES;
        let Some(both) = filter.get(segments.at..segments.at + 2 * bytes) else { return true };
        let (left_block, right_block) = both.split_at(bytes);
        let columns = left_block.chunks_exact(W::BYTES).zip(right_block.chunks_exact(W::BYTES));
        let mut wrong = 0;
        for (column, (l, r)) in columns.enumerate() {
            let parity = W::read(l).and(left).parity() ^ W::read(r).and(right).parity();
            wrong |= parity ^ (fingerprint >> column & 1);
        }
        wrong == 0
    }

    /// Back substitution: see [`solve`].
    fn solve<R: Row<Word: Lanes>>(
        self,
        rows: &[R],
        columns: u32,
        low_blocks: u32,
        segments: &mut [u8],
    ) {
        solve(rows, columns, low_blocks, segments);
    }

    /// [`Ask::finish_with`], compiled for this instruction set. The arguments are separate, so that
    /// they are passed in registers. A struct would be passed through memory, which is slower.
    #[inline(always)]
    fn finish<A: Ask>(self, reader: &A, block: &[u8], hash: KeyHash, start: u32) -> bool {
        reader.finish_with(self, block, hash, start)
    }

    /// [`Ask::finish_many_with`], compiled for this instruction set.
    #[inline(always)]
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

/// A reader whose queries are compiled as a whole for each instruction set, so that a query makes
/// no call to reach its kernel. Implementations should mark both functions `#[inline(always)]`.
pub(super) trait Ask {
    /// Answers one query, for a key whose row starts at `start` in layer 0: whether the key may
    /// have been added.
    fn finish_with<K: Kernels>(&self, kernels: K, block: &[u8], hash: KeyHash, start: u32) -> bool;

    /// Answers many queries, in the order of `hashes`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burr::row::{Row32, Row64, Word, equation, mix};
    use crate::burr::shape::MAX_COLUMNS;
    use crate::cpu::{Isa, dispatch};

    fn random_rows<R: Row>(count: u32) -> Vec<R> {
        let row = |slot| {
            let random = mix(u64::from(slot));
            let (coefficients, fingerprint) = equation(random);
            // One slot in eight is free.
            if random.is_multiple_of(8) {
                R::default()
            } else {
                R::new(coefficients, fingerprint, slot)
            }
        };
        (0..count).map(row).collect()
    }

    fn every_kernel_solves_alike<R: Row<Word: Lanes>>() {
        let rows = random_rows::<R>(5 * R::Word::BITS);
        for columns in 1..=MAX_COLUMNS {
            for low_blocks in 0..=5 {
                let mut expected = vec![0; rows.len() * columns as usize / 8];
                solve(&rows, columns, low_blocks, &mut expected);
                for isa in Isa::available() {
                    let mut found = vec![0; expected.len()];
                    dispatch!(isa, kernels => {
                        kernels.solve(&rows, columns, low_blocks, &mut found)
                    });
                    assert_eq!(found, expected, "{isa:?}, {columns} columns, {low_blocks} low");
                }
            }
        }
    }

    #[test]
    fn every_kernel_solves_like_the_plain_one() {
        every_kernel_solves_alike::<Row32>();
        every_kernel_solves_alike::<Row64>();
    }

    fn every_kernel_matches_alike<W: Lanes>() {
        let filter: Vec<u8> = (0..2000).map(|i| mix(i) as u8).collect();
        for columns in 0..=MAX_COLUMNS {
            let segments = Segments { at: 3 + columns as usize, columns };
            for seed in 0..100 {
                let (all, _) = equation::<W>(mix(seed));
                let (left, right) = all.split(seed as u32 % W::BITS);
                let parity = |column: u32| {
                    let at = |column| segments.at + column as usize * W::BYTES;
                    let left = W::read(&filter[at(column)..]).and(left).parity();
                    left ^ W::read(&filter[at(columns + column)..]).and(right).parity()
                };
                let right_one: u32 = (0..columns).map(|column| parity(column) << column).sum();
                // A query ignores the fingerprint's bits from bit `columns` on, and compares all
                // lower ones.
                let noise = if columns == 32 { 0 } else { (seed as u32) << columns };
                for isa in Isa::available() {
                    let answer = |fingerprint| {
                        dispatch!(isa, kernels => {
                            kernels.matches(&filter, segments, left, right, fingerprint)
                        })
                    };
                    assert!(answer(right_one | noise), "{isa:?} {columns} columns");
                    for column in 0..columns {
                        assert!(!answer(right_one ^ 1 << column), "{isa:?} {columns} columns");
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_matches_what_the_columns_say() {
        every_kernel_matches_alike::<u32>();
        every_kernel_matches_alike::<u64>();
    }

    #[test]
    fn segments_outside_the_filter_match_everything() {
        let filter = vec![0; 100];
        for isa in Isa::available() {
            for at in [37, 100, 101, 1 << 40] {
                let segments = Segments { at, columns: 8 };
                let answer =
                    dispatch!(isa, kernels => kernels.matches(&filter, segments, 1u32, 1, 1));
                assert!(answer, "{isa:?} at {at}");
            }
        }
    }
}

//! Vector kernels of the bumped ribbon for x86-64.
//!
//! A register holds the *columns* of a block next to each other, one in each lane: 8 segments of 32
//! bits, or 4 of 64. (A segment is one column of one block.) This is the purpose of interleaved
//! storage: the segments of a block are contiguous, so one load reads all these columns.
//!
//! ```text
//! match     x = (left segments & left coefficients) ^ (right segments & right coefficients)
//!
//!           lane           0         1         2       ...
//!           left block     column 0  column 1  column 2           & left in every lane
//!           right block    column 0  column 1  column 2           & right in every lane
//!           parity of x    0 or 1    0 or 1    0 or 1             = fingerprint bit 0, 1, 2?
//!
//! solve     two slots a step, s and s - 1: both parities are computed over the bits after s,
//!           and that of s - 1 is corrected by the bit of s (coefficient 1 of row s - 1).
//! ```
//!
//! Each kernel is one function for both widths: [`Lanes`] has the differences between them.
//!
//! Every load and store is checked against the slice that it accesses, whatever the trailer of the
//! filter says.

pub(super) mod lanes;

use super::kernel::{Ask, Kernels, Segments};
use super::layout::block_segments;
use super::row::{Row, Word};
use crate::cpu::Avx2;
use crate::family::KeyHash;
use crate::memory::LineBuf;
use lanes::{Lanes, REGISTER_BYTES, Register};

/// The operands of a query's comparison, each repeated in every lane.
struct Comparison {
    left: Register,
    right: Register,
    fingerprint: Register,
    columns: Register,
    one: Register,
}

impl Comparison {
    /// A register in which bit 0 of a lane is 1 if its column is wrong; the bits above it are
    /// arbitrary. `l` and `r` are the segments of the left and the right block, and `column` has
    /// the numbers of their columns.
    #[inline(always)]
    fn wrong<W: Lanes>(&self, l: Register, r: Register, column: Register) -> Register {
        // The XOR of the picked slots must be the fingerprint's bit of this column. So if the
        // column is right, this bit and the picked bits together have even parity.
        let bit = W::shift_right_each(self.fingerprint, column) & self.one;
        let x = bit ^ (l & self.left) ^ (r & self.right);
        // The lanes after the last column hold other segments, so they are cleared.
        W::parities(x) & W::greater(self.columns, column)
    }
}

/// [`Kernels::matches`].
#[inline(always)]
fn matches<W: Lanes>(
    proof: Avx2,
    filter: &[u8],
    Segments { at, columns }: Segments,
    left: W,
    right: W,
    fingerprint: u32,
) -> bool {
    let right_at = columns as usize * W::BYTES;
    let registers = columns.div_ceil(W::LANES).max(1) as usize;
    let end = at + right_at + registers * REGISTER_BYTES;
    let Some(filter) = filter.get(at..end) else { return true };
    let comparison = Comparison {
        left: W::splat(proof, left),
        right: W::splat(proof, right),
        fingerprint: W::splat_number(proof, fingerprint),
        columns: W::splat_number(proof, columns),
        one: W::splat_number(proof, 1),
    };
    let (mut l, mut r) = (filter.as_ptr(), filter.as_ptr().wrapping_add(right_at));
    let mut column = W::numbers(proof);
    // SAFETY: `filter` has the bytes of all registers, both from its start and from `right_at` on.
    let first = unsafe { (Register::load(proof, l), Register::load(proof, r)) };
    let mut wrong = comparison.wrong::<W>(first.0, first.1, column);
    for _ in 1..registers {
        column = W::add(column, W::splat_number(proof, W::LANES));
        (l, r) = (l.wrapping_add(REGISTER_BYTES), r.wrapping_add(REGISTER_BYTES));
        // SAFETY: as above.
        let next = unsafe { (Register::load(proof, l), Register::load(proof, r)) };
        wrong = wrong | comparison.wrong::<W>(next.0, next.1, column);
    }
    wrong.is_disjoint(comparison.one)
}

/// One pass of back substitution: the sizes of the layer, and the first column that the pass
/// solves.
#[derive(Clone, Copy)]
struct Pass {
    /// Columns of the layer.
    columns: u32,
    /// The layer's blocks with one column fewer.
    low_blocks: u32,
    /// The first column of the pass.
    first: u32,
}

/// [`Kernels::solve`] for the columns of `N` registers.
#[inline(always)]
fn solve_part<R: Row<Word: Lanes>, const N: usize>(
    proof: Avx2,
    rows: &[R],
    Pass { columns, low_blocks, first }: Pass,
    segments: &mut [u8],
) {
    let splat = |word| R::Word::splat(proof, word);
    let splat_number = |number| R::Word::splat_number(proof, number);
    let one = splat_number(1);
    // Lane j of register i holds the number of the column that it solves.
    let column: [Register; N] = core::array::from_fn(|i| {
        let first = splat_number(first + i as u32 * R::Word::LANES);
        R::Word::add(R::Word::numbers(proof), first)
    });
    let mut known = [Register::zero(proof); N];
    for (block, rows) in rows.chunks_exact(R::Word::BITS as usize).enumerate().rev() {
        for (pair, rows) in rows.as_chunks::<2>().0.iter().enumerate().rev() {
            let c = [0, 1].map(|i| rows[i].coefficients(2 * pair as u32 + i as u32));
            let [c0, c1] = c.map(splat);
            let c0_next = splat(c[0] >> 1);
            let [f0, f1] = [0, 1].map(|i: usize| splat_number(rows[i].fingerprint()));
            for i in 0..N {
                let behind_1 = R::Word::shift_left::<1>(known[i]);
                let behind_0 = R::Word::shift_left::<2>(known[i]);
                let parity_1 = R::Word::parities(behind_1 & c1);
                let parity_0 = R::Word::parities(behind_0 & c0);
                let bit_1 = (parity_1 ^ R::Word::shift_right_each(f1, column[i])) & one;
                let bit_0 = parity_0 ^ R::Word::shift_right_each(f0, column[i]);
                let bit_0 = (bit_0 ^ (bit_1 & c0_next)) & one;
                known[i] = behind_0 | (R::Word::shift_left::<1>(bit_1) | bit_0);
            }
        }
        let (at, stored) = block_segments::<R::Word>(block as u32, columns, low_blocks);
        for (i, known) in known.iter().enumerate() {
            let from = first + i as u32 * R::Word::LANES;
            let count = stored.saturating_sub(from).min(R::Word::LANES);
            let to = &mut segments[at + from as usize * R::Word::BYTES..];
            R::Word::store(*known, proof, count, to);
        }
    }
}

impl Kernels for Avx2 {
    #[inline(always)]
    fn matches<W: Lanes>(
        self,
        filter: &[u8],
        segments: Segments,
        left: W,
        right: W,
        fingerprint: u32,
    ) -> bool {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn inside<W: Lanes>(
            proof: Avx2,
            filter: &[u8],
            segments: Segments,
            left: W,
            right: W,
            fingerprint: u32,
        ) -> bool {
            matches(proof, filter, segments, left, right, fingerprint)
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(self, filter, segments, left, right, fingerprint) }
    }

    #[inline(always)]
    fn solve<R: Row<Word: Lanes>>(
        self,
        rows: &[R],
        columns: u32,
        low_blocks: u32,
        segments: &mut [u8],
    ) {
        #[target_feature(enable = "avx2")]
        fn inside<R: Row<Word: Lanes>, const N: usize>(
            proof: Avx2,
            rows: &[R],
            pass: Pass,
            segments: &mut [u8],
        ) {
            solve_part::<R, N>(proof, rows, pass, segments);
        }
        let mut first = 0;
        // Each column is solved independently of the others. A pass solves two registers of
        // columns. If the columns that are left fit into one register, the last pass solves
        // only one.
        while first < columns {
            let pass = Pass { columns, low_blocks, first };
            // SAFETY: `self` proves the features.
            unsafe {
                if columns - first > R::Word::LANES {
                    inside::<R, 2>(self, rows, pass, segments);
                    first += 2 * R::Word::LANES;
                } else {
                    inside::<R, 1>(self, rows, pass, segments);
                    first += R::Word::LANES;
                }
            }
        }
    }

    #[inline(always)]
    fn finish<A: Ask>(self, reader: &A, block: &[u8], hash: KeyHash, start: u32) -> bool {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn inside<A: Ask>(
            reader: &A,
            block: &[u8],
            hash: KeyHash,
            start: u32,
            proof: Avx2,
        ) -> bool {
            reader.finish_with(proof, block, hash, start)
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(reader, block, hash, start, self) }
    }

    #[inline(always)]
    fn finish_many<A: Ask>(
        self,
        reader: &A,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn inside<A: Ask>(
            proof: Avx2,
            reader: &A,
            block: &LineBuf,
            hashes: &[KeyHash],
            answers: &mut [bool],
        ) {
            reader.finish_many_with(proof, block, hashes, answers);
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(self, reader, block, hashes, answers) }
    }
}

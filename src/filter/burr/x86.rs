//! Vector kernels of the bumped ribbon for x86-64.
//!
//! A value of [`Avx2`] or [`Avx512`] exists only where the processor has the instructions, so their
//! safe methods need no further check. Every load and store is checked against the slice it falls
//! into, whatever the trailer of the filter said.
//!
//! The *columns* of a filter lie side by side in the lanes of a register: 8 segments of 32 bits or 4
//! of 64. That is what interleaved storage is for: a key's two blocks are two loads.
//!
//! ```text
//! match     x = (left segments & left coefficients) ^ (right segments & right coefficients)
//!           one parity bit a lane -> a mask of 8 (4) bits, equal to those of the fingerprint?
//! solve     two slots a step, s and s - 1: both parities are taken at once over the windows behind
//!           s, and the one of s - 1 is put right by the bit of s (coefficient 1 of row s - 1).
//! ```
//!
//! AVX-512 is used for its population count and for the rest as a wider AVX2: registers stay 256
//! bits wide, as 7 columns of 32 bits fill one, and a wider load would touch a further cache line.

use std::arch::x86_64::*;

use super::geometry::BurrGeometry;
use super::kernel::{Isa, Segments, Task};
use super::row::{Row, Word};
use super::solve::block_segments;
use crate::filter::{KeyHash, avx512_allowed};

/// Bytes of a register.
const REGISTER_BYTES: usize = 32;

/// Proof that the processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

/// Proof that the processor has AVX2, and of AVX-512 VL and VPOPCNTDQ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx2 {
    pub fn detect() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }
}

impl Avx512 {
    pub fn detect() -> Option<Avx512> {
        let found = avx512_allowed()
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq");
        found.then_some(Avx512(()))
    }
}

macro_rules! isa {
    ($isa:ty, $features:literal, $matches:ident, $solve:ident) => {
        impl $isa {
            /// Runs a task compiled for these instructions.
            #[inline(always)]
            pub fn enter<T: Task>(self, task: T) -> T::Output {
                #[inline]
                #[target_feature(enable = $features)]
                fn inside<T: Task>(isa: $isa, task: T) -> T::Output {
                    task.run(isa)
                }
                // SAFETY: `self` proves that the processor has these instructions.
                unsafe { inside(self, task) }
            }

            /// One query. A [`Task`] would do, but would travel through memory, and the answer with
            /// it: a nanosecond. These arguments are registers.
            #[inline(always)]
            pub fn finish(
                self,
                of: &BurrGeometry,
                block: &[u8],
                hash: KeyHash,
                start: u32,
            ) -> bool {
                #[inline]
                #[target_feature(enable = $features)]
                fn inside(
                    of: &BurrGeometry,
                    block: &[u8],
                    hash: KeyHash,
                    start: u32,
                    isa: $isa,
                ) -> bool {
                    of.finish_with(isa, block, hash, start)
                }
                // SAFETY: `self` proves that the processor has these instructions.
                unsafe { inside(of, block, hash, start, self) }
            }
        }

        impl Isa for $isa {
            #[inline(always)]
            fn matches<W: Vector>(
                self,
                filter: &[u8],
                segments: Segments,
                left: W,
                right: W,
                fingerprint: u32,
            ) -> bool {
                // SAFETY: `self` proves that the processor has the instructions.
                unsafe { W::$matches(filter, segments, left, right, fingerprint) }
            }

            #[inline(always)]
            fn solve<R: Row<Word: Vector>>(
                self,
                rows: &[R],
                columns: u32,
                low_blocks: u32,
                segments: &mut [u8],
            ) {
                let lanes = (REGISTER_BYTES / R::Word::BYTES) as u32;
                let mut first = 0;
                // Columns are independent: two registers of them at a time, then what is left.
                while first < columns {
                    let part = Part { columns, low_blocks, first };
                    // SAFETY: `self` proves that the processor has the instructions.
                    unsafe {
                        if columns - first > lanes {
                            R::Word::$solve::<R, 2>(rows, part, segments);
                            first += 2 * lanes;
                        } else {
                            R::Word::$solve::<R, 1>(rows, part, segments);
                            first += lanes;
                        }
                    }
                }
            }
        }
    };
}

isa!(Avx2, "avx2", matches_avx2, solve_avx2);
isa!(Avx512, "avx2,avx512f,avx512vl,avx512vpopcntdq", matches_avx512, solve_avx512);

/// The columns that one pass of back substitution solves.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Columns of the layer.
    columns: u32,
    /// Its blocks with one column fewer.
    low_blocks: u32,
    /// The first column of the pass.
    first: u32,
}

/// A word and its vector kernels.
///
/// # Safety
///
/// To call `*_avx2` the processor must have AVX2, to call `*_avx512` what [`Avx512`] proves.
/// Nothing else is asked of the caller.
pub(super) trait Vector: Word {
    unsafe fn matches_avx2(f: &[u8], s: Segments, left: Self, right: Self, print: u32) -> bool;
    unsafe fn matches_avx512(f: &[u8], s: Segments, left: Self, right: Self, print: u32) -> bool;
    unsafe fn solve_avx2<R: Row<Word = Self>, const N: usize>(r: &[R], p: Part, s: &mut [u8]);
    unsafe fn solve_avx512<R: Row<Word = Self>, const N: usize>(r: &[R], p: Part, s: &mut [u8]);
}

/// Shifts and XORs every lane so that its low four bits have the lane's parity; then looks that up.
macro_rules! fold_parity {
    ($x:expr, $srli:ident, $srlv:ident, $set1:ident, [$($by:literal),*]) => {{
        let mut x = $x;
        $(x = _mm256_xor_si256(x, $srli::<$by>(x));)*
        // Bit i of 0x6996 is the parity of i.
        $srlv($set1(0x6996), _mm256_and_si256(x, $set1(15)))
    }};
}

#[inline]
#[target_feature(enable = "avx2")]
fn parity32_avx2(x: __m256i) -> __m256i {
    fold_parity!(x, _mm256_srli_epi32, _mm256_srlv_epi32, _mm256_set1_epi32, [16, 8, 4])
}

#[inline]
#[target_feature(enable = "avx2")]
fn parity64_avx2(x: __m256i) -> __m256i {
    fold_parity!(x, _mm256_srli_epi64, _mm256_srlv_epi64, _mm256_set1_epi64x, [32, 16, 8, 4])
}

/// Whether no bit is set in both.
#[inline]
#[target_feature(enable = "avx2")]
fn disjoint_avx2(x: __m256i, y: __m256i) -> bool {
    _mm256_testz_si256(x, y) != 0
}

/// Whether no bit is set in both. Through a mask register: a cycle faster.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn disjoint_avx512(x: __m256i, y: __m256i) -> bool {
    _mm256_test_epi32_mask(x, y) == 0
}

/// The kernels for one width and one instruction set.
///
/// `$parity` maps a register to one whose lanes have the parity of the lane in bit 0, and anything
/// above it.
macro_rules! kernels {
    (
        $features:literal, $word:ty, $signed:ty, $matches:ident, $solve:ident, $parity:ident, $disjoint:ident,
        $set1:ident, $slli:ident, $srlv:ident, $add:ident, $cmpgt:ident, $maskstore:ident, $lane_numbers:expr
    ) => {
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $matches(
            filter: &[u8],
            Segments { at, columns }: Segments,
            left: $word,
            right: $word,
            fingerprint: u32,
        ) -> bool {
            const LANES: u32 = (REGISTER_BYTES / <$word>::BYTES) as u32;
            let right_at = columns as usize * <$word>::BYTES;
            let registers = columns.div_ceil(LANES).max(1) as usize;
            let end = at + right_at + registers * REGISTER_BYTES;
            let Some(filter) = filter.get(at..end) else { return true };
            let (left, right) = ($set1(left as $signed), $set1(right as $signed));
            let print = $set1(fingerprint as $signed);
            let (mut column, step) = ($lane_numbers, $set1(LANES as $signed));
            let end = $set1(columns as $signed);
            let check = |register: usize, column: __m256i| {
                let start = register * REGISTER_BYTES;
                // SAFETY: `filter` has the bytes of all registers, behind `right_at` too.
                let (l, r) = unsafe {
                    (
                        _mm256_loadu_si256(filter.as_ptr().add(start).cast()),
                        _mm256_loadu_si256(filter.as_ptr().add(right_at + start).cast()),
                    )
                };
                // One more bit of the parity: the column's bit of the fingerprint.
                let bit = _mm256_and_si256($srlv(print, column), $set1(1));
                let x = _mm256_xor_si256(bit, _mm256_and_si256(l, left));
                let x = _mm256_xor_si256(x, _mm256_and_si256(r, right));
                // The lanes behind the last column hold other segments.
                _mm256_and_si256($parity(x), $cmpgt(end, column))
            };
            let mut wrong = check(0, column);
            for register in 1..registers {
                column = $add(column, step);
                wrong = _mm256_or_si256(wrong, check(register, column));
            }
            $disjoint(wrong, $set1(1))
        }

        #[target_feature(enable = $features)]
        unsafe fn $solve<R: Row<Word = $word>, const N: usize>(
            rows: &[R],
            Part { columns, low_blocks, first }: Part,
            segments: &mut [u8],
        ) {
            const LANES: u32 = (REGISTER_BYTES / <$word>::BYTES) as u32;
            const WIDTH: usize = <$word>::BITS as usize;
            let lanes = $lane_numbers;
            let one = $set1(1);
            // In register i, lane j: the number of its column.
            let column: [__m256i; N] =
                std::array::from_fn(|i| $add(lanes, $set1((first + i as u32 * LANES) as $signed)));
            let mut window = [_mm256_setzero_si256(); N];
            for (block, rows) in rows.chunks_exact(WIDTH).enumerate().rev() {
                for (pair, rows) in rows.as_chunks::<2>().0.iter().enumerate().rev() {
                    let c = [0, 1].map(|i| rows[i].coefficients(2 * pair as u32 + i as u32));
                    let [c0, c1] = c.map(|c| $set1(c as $signed));
                    let c0_next = $set1((c[0] >> 1) as $signed);
                    let [f0, f1] = [0, 1].map(|i: usize| $set1(rows[i].fingerprint() as $signed));
                    for i in 0..N {
                        let behind_1 = $slli::<1>(window[i]);
                        let behind_0 = $slli::<2>(window[i]);
                        let parity_1 = $parity(_mm256_and_si256(behind_1, c1));
                        let parity_0 = $parity(_mm256_and_si256(behind_0, c0));
                        let bit_1 = _mm256_xor_si256(parity_1, $srlv(f1, column[i]));
                        let bit_1 = _mm256_and_si256(bit_1, one);
                        let bit_0 = _mm256_xor_si256(parity_0, $srlv(f0, column[i]));
                        let bit_0 = _mm256_xor_si256(bit_0, _mm256_and_si256(bit_1, c0_next));
                        let bit_0 = _mm256_and_si256(bit_0, one);
                        let bits = _mm256_or_si256($slli::<1>(bit_1), bit_0);
                        window[i] = _mm256_or_si256(behind_0, bits);
                    }
                }
                let (at, stored) = block_segments::<$word>(block as u32, columns, low_blocks);
                for i in 0..N {
                    let from = first + i as u32 * LANES;
                    let count = stored.saturating_sub(from).min(LANES);
                    let to = &mut segments[at + from as usize * <$word>::BYTES..];
                    let to = &mut to[..count as usize * <$word>::BYTES];
                    let mask = $cmpgt($set1(count as $signed), lanes);
                    // SAFETY: the mask lets only the first `count` lanes through, and `to` has as
                    // many words.
                    unsafe { $maskstore(to.as_mut_ptr().cast(), mask, window[i]) };
                }
            }
        }
    };
}

impl Vector for u32 {
    kernels!(
        "avx2",
        u32,
        i32,
        matches_avx2,
        solve_avx2,
        parity32_avx2,
        disjoint_avx2,
        _mm256_set1_epi32,
        _mm256_slli_epi32,
        _mm256_srlv_epi32,
        _mm256_add_epi32,
        _mm256_cmpgt_epi32,
        _mm256_maskstore_epi32,
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
    );
    kernels!(
        "avx2,avx512f,avx512vl,avx512vpopcntdq",
        u32,
        i32,
        matches_avx512,
        solve_avx512,
        _mm256_popcnt_epi32,
        disjoint_avx512,
        _mm256_set1_epi32,
        _mm256_slli_epi32,
        _mm256_srlv_epi32,
        _mm256_add_epi32,
        _mm256_cmpgt_epi32,
        _mm256_maskstore_epi32,
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
    );
}

impl Vector for u64 {
    kernels!(
        "avx2",
        u64,
        i64,
        matches_avx2,
        solve_avx2,
        parity64_avx2,
        disjoint_avx2,
        _mm256_set1_epi64x,
        _mm256_slli_epi64,
        _mm256_srlv_epi64,
        _mm256_add_epi64,
        _mm256_cmpgt_epi64,
        _mm256_maskstore_epi64,
        _mm256_setr_epi64x(0, 1, 2, 3)
    );
    kernels!(
        "avx2,avx512f,avx512vl,avx512vpopcntdq",
        u64,
        i64,
        matches_avx512,
        solve_avx512,
        _mm256_popcnt_epi64,
        disjoint_avx512,
        _mm256_set1_epi64x,
        _mm256_slli_epi64,
        _mm256_srlv_epi64,
        _mm256_add_epi64,
        _mm256_cmpgt_epi64,
        _mm256_maskstore_epi64,
        _mm256_setr_epi64x(0, 1, 2, 3)
    );
}

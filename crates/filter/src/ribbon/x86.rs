//! Vector kernels of the Ribbon filter for x86-64, eight columns at a time: queries on AVX2 and
//! AVX-512, back substitution on AVX-512.
//!
//! All `unsafe` code of the family is here. The proof that it is sound has two parts.
//!
//! 1. *The instructions exist.* An [`Avx2`] or [`Avx512`] proves it ([`cpu`](crate::cpu)).
//! 2. *Memory.* Loads are masked: the mask selects the 8-byte words that the slice has, and a word
//!    that is not selected is not accessed. Stores go to local arrays as long as the register.
//!
//! ```text
//! query, AVX-512   one register = 4 segments of 128 bits; two of them = 8 columns
//! query, AVX2      one register = 2 segments; four of them = 8 columns
//! solve            one register = the low (or high) 64 known bits of 8 columns
//! ```
//!
//! The known bits of a column are the last 128 bits that back substitution has computed
//! ([`solve`]).

use core::arch::x86_64::*;

use super::build::solve::solve;
use super::kernel::{Ask, Kernels, Query};
use super::layout::{BLOCK_SLOTS, Layout, SEGMENT_BYTES};
use super::row::Row;
use crate::cpu::{Avx2, Avx512};
use crate::family::KeyHash;
use crate::memory::LineBuf;

/// The columns that one step of a loop handles, in queries and in back substitution.
const REGISTER_COLUMNS: usize = 8;

impl Kernels for Avx512 {
    #[inline(always)]
    fn matches(self, query: &Query) -> bool {
        // SAFETY: `self` proves the features.
        unsafe { matches_avx512(query) }
    }

    fn solve(self, rows: &[Row], layout: &Layout, segments: &mut [u8]) {
        // SAFETY: `self` proves the features.
        unsafe {
            match layout.columns() {
                0..=8 => solve_avx512::<1>(rows, layout, segments),
                9..=16 => solve_avx512::<2>(rows, layout, segments),
                _ => solve_avx512::<4>(rows, layout, segments),
            }
        }
    }

    #[inline]
    fn finish<A: Ask>(self, reader: &A, block: &[u8], hash: KeyHash, start: u32) -> bool {
        #[inline]
        #[target_feature(enable = "avx512f,avx512vbmi2,avx512vpopcntdq,bmi2")]
        fn inside<A: Ask>(
            isa: Avx512,
            reader: &A,
            block: &[u8],
            hash: KeyHash,
            start: u32,
        ) -> bool {
            reader.finish_with(isa, block, hash, start)
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(self, reader, block, hash, start) }
    }

    fn finish_many<A: Ask>(
        self,
        reader: &A,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        #[target_feature(enable = "avx512f,avx512vbmi2,avx512vpopcntdq,bmi2")]
        fn inside<A: Ask>(
            isa: Avx512,
            reader: &A,
            block: &LineBuf,
            hashes: &[KeyHash],
            answers: &mut [bool],
        ) {
            reader.finish_many_with(isa, block, hashes, answers);
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(self, reader, block, hashes, answers) }
    }
}

impl Kernels for Avx2 {
    #[inline(always)]
    fn matches(self, query: &Query) -> bool {
        // SAFETY: `self` proves the features.
        unsafe { matches_avx2(query) }
    }

    fn solve(self, rows: &[Row], layout: &Layout, segments: &mut [u8]) {
        // SAFETY: `self` proves the features.
        unsafe { solve_popcnt(rows, layout, segments) }
    }

    #[inline]
    fn finish<A: Ask>(self, reader: &A, block: &[u8], hash: KeyHash, start: u32) -> bool {
        #[inline]
        #[target_feature(enable = "avx2,bmi2")]
        fn inside<A: Ask>(isa: Avx2, reader: &A, block: &[u8], hash: KeyHash, start: u32) -> bool {
            reader.finish_with(isa, block, hash, start)
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(self, reader, block, hash, start) }
    }

    fn finish_many<A: Ask>(
        self,
        reader: &A,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        #[target_feature(enable = "avx2,bmi2")]
        fn inside<A: Ask>(
            isa: Avx2,
            reader: &A,
            block: &LineBuf,
            hashes: &[KeyHash],
            answers: &mut [bool],
        ) {
            reader.finish_many_with(isa, block, hashes, answers);
        }
        // SAFETY: `self` proves the features.
        unsafe { inside(self, reader, block, hashes, answers) }
    }
}

/// [`Kernels::matches`].
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi2,avx512vpopcntdq,bmi2")]
fn matches_avx512(query: &Query) -> bool {
    let (near_picks, far_picks) = picks_avx512(query);
    // For each lane, the column whose sum the lane holds after the code below has added the two
    // halves of every segment.
    let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    let mut fingerprint = _mm512_srlv_epi64(_mm512_set1_epi64(query.fingerprint.into()), order);
    let (mut near, mut far) = (query.near, query.far);
    let mut wrong = _mm512_setzero_si512();
    loop {
        far = &far[..near.len()];
        // A bit for each of the first 16 words: 1 if the slices are long enough to have the word.
        let present = _bzhi_u32(0xffff, (near.len() / 8) as u32);
        // SAFETY: the slices are equally long, and only words with a bit in the mask are read.
        let (near_0, near_1, far_0, far_1) = unsafe {
            let (near, far) = (near.as_ptr().cast::<i64>(), far.as_ptr().cast::<i64>());
            (
                _mm512_maskz_loadu_epi64(present as u8, near),
                _mm512_maskz_loadu_epi64((present >> 8) as u8, near.wrapping_add(8)),
                _mm512_maskz_loadu_epi64(present as u8, far),
                _mm512_maskz_loadu_epi64((present >> 8) as u8, far.wrapping_add(8)),
            )
        };
        let pick = |near, far| {
            _mm512_xor_si512(_mm512_and_si512(near, near_picks), _mm512_and_si512(far, far_picks))
        };
        let (sum_0, sum_1) = (pick(near_0, far_0), pick(near_1, far_1));
        let halves = (_mm512_unpacklo_epi64(sum_0, sum_1), _mm512_unpackhi_epi64(sum_0, sum_1));
        // Only bit 0 of a lane counts: the parity of its column. In a lane without a column, the
        // sum and the fingerprint are both 0.
        let sum = _mm512_popcnt_epi64(_mm512_xor_si512(halves.0, halves.1));
        wrong = _mm512_or_si512(wrong, _mm512_xor_si512(sum, fingerprint));
        if near.len() <= REGISTER_COLUMNS * SEGMENT_BYTES {
            return _mm512_test_epi64_mask(wrong, _mm512_set1_epi64(1)) == 0;
        }
        near = &near[REGISTER_COLUMNS * SEGMENT_BYTES..];
        far = &far[REGISTER_COLUMNS * SEGMENT_BYTES..];
        fingerprint = _mm512_srli_epi64::<{ REGISTER_COLUMNS as u32 }>(fingerprint);
    }
}

/// The coefficients, shifted to their slots in the blocks `near` and `far`. Both results are
/// repeated in each quarter of a register.
///
/// ```text
/// words               0    0  low high   0    0         shifted up by bit mod 64
///                               near     far            where bit < 64
///                          near     far                 where bit >= 64
/// ```
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi2")]
fn picks_avx512(query: &Query) -> (__m512i, __m512i) {
    const HIGHER_WORDS: __mmask8 = 0b1010_1010;
    let low = _mm512_set1_epi64(query.coefficients as i64);
    let high = _mm512_set1_epi64((query.coefficients >> 64) as i64);
    let zero = _mm512_setzero_si512();
    let zero_low = _mm512_maskz_mov_epi64(HIGHER_WORDS, low);
    let low_high = _mm512_mask_mov_epi64(low, HIGHER_WORDS, high);
    let high_zero = _mm512_maskz_mov_epi64(!HIGHER_WORDS, high);

    let bit = _mm512_set1_epi64(query.bit.into());
    let by_a_word = _mm512_test_epi64_mask(bit, _mm512_set1_epi64(64));
    let choose = |below_64, from_64| _mm512_mask_mov_epi64(below_64, by_a_word, from_64);
    // The double shift takes its count modulo 64. It shifts each word of the first operand, and
    // fills its lowest bits with the highest bits of the same word of the second operand. So for
    // each word, the second operand has the next lower one.
    let near = _mm512_shldv_epi64(choose(low_high, zero_low), choose(zero_low, zero), bit);
    let far = _mm512_shldv_epi64(choose(zero, high_zero), choose(high_zero, low_high), bit);
    (near, far)
}

/// [`Kernels::matches`].
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn matches_avx2(query: &Query) -> bool {
    let (near_picks, far_picks) = picks_avx2(query);
    // For each lane, the column whose sum the lane holds after the code below has added the four
    // 32-bit words of every segment.
    let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    let mut fingerprint = _mm256_srlv_epi32(_mm256_set1_epi32(query.fingerprint as i32), order);
    let (mut near, mut far) = (query.near, query.far);
    let mut wrong = _mm256_setzero_si256();
    loop {
        far = &far[..near.len()];
        let words = _mm256_set1_epi64x((near.len() / 8) as i64);
        // The sums of columns 2·pair and 2·pair + 1, each still in four words.
        let sum = |pair: usize| {
            let lanes = _mm256_add_epi64(
                _mm256_set1_epi64x(4 * pair as i64),
                _mm256_setr_epi64x(0, 1, 2, 3),
            );
            let present = _mm256_cmpgt_epi64(words, lanes);
            // SAFETY: the slices are equally long, and only words that they have are read.
            let (near, far) = unsafe {
                let (near, far) = (near.as_ptr().cast::<i64>(), far.as_ptr().cast::<i64>());
                (
                    _mm256_maskload_epi64(near.wrapping_add(4 * pair), present),
                    _mm256_maskload_epi64(far.wrapping_add(4 * pair), present),
                )
            };
            _mm256_xor_si256(_mm256_and_si256(near, near_picks), _mm256_and_si256(far, far_picks))
        };
        let fold_128 =
            |a, b| _mm256_xor_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        let halves = (fold_128(sum(0), sum(1)), fold_128(sum(2), sum(3)));
        let halves = (_mm256_castsi256_ps(halves.0), _mm256_castsi256_ps(halves.1));
        let mut sums = _mm256_castps_si256(_mm256_xor_ps(
            _mm256_shuffle_ps::<0b10_00_10_00>(halves.0, halves.1),
            _mm256_shuffle_ps::<0b11_01_11_01>(halves.0, halves.1),
        ));
        sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<16>(sums));
        sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<8>(sums));
        sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<4>(sums));
        // Bit i of 0x6996 is the parity of i.
        let nibbles = _mm256_and_si256(sums, _mm256_set1_epi32(15));
        let parity = _mm256_srlv_epi32(_mm256_set1_epi32(0x6996), nibbles);
        // Only bit 0 of a lane counts: the parity of its column. In a lane without a column, the
        // sum and the fingerprint are both 0.
        wrong = _mm256_or_si256(wrong, _mm256_xor_si256(parity, fingerprint));
        if near.len() <= REGISTER_COLUMNS * SEGMENT_BYTES {
            return _mm256_testz_si256(wrong, _mm256_set1_epi32(1)) == 1;
        }
        near = &near[REGISTER_COLUMNS * SEGMENT_BYTES..];
        far = &far[REGISTER_COLUMNS * SEGMENT_BYTES..];
        fingerprint = _mm256_srli_epi32::<{ REGISTER_COLUMNS as i32 }>(fingerprint);
    }
}

/// Does the work of [`picks_avx512`], in each half of a register. AVX2 has no double shift, so each
/// result is the OR of three shifts. A shift whose count is not 0 to 63 gives 0, so that only the
/// shifts that apply to `bit` add to the result.
#[inline]
#[target_feature(enable = "avx2")]
fn picks_avx2(query: &Query) -> (__m256i, __m256i) {
    let low = _mm256_set1_epi64x(query.coefficients as i64);
    let high = _mm256_set1_epi64x((query.coefficients >> 64) as i64);
    let zero = _mm256_setzero_si256();
    // A bit of a blend's mask stands for 32 bits, so 0b1100_1100 selects the higher 64-bit word in
    // each half of the register.
    let zero_low = _mm256_blend_epi32::<0b1100_1100>(zero, low);
    let low_high = _mm256_blend_epi32::<0b1100_1100>(low, high);
    let high_zero = _mm256_blend_epi32::<0b1100_1100>(high, zero);

    let bit = _mm256_set1_epi64x(query.bit.into());
    let below = _mm256_sub_epi64(_mm256_set1_epi64x(64), bit);
    let above = _mm256_sub_epi64(bit, _mm256_set1_epi64x(64));
    let rest = _mm256_sub_epi64(_mm256_set1_epi64x(128), bit);
    let across =
        |words| _mm256_or_si256(_mm256_srlv_epi64(words, below), _mm256_sllv_epi64(words, above));
    let near = _mm256_or_si256(_mm256_sllv_epi64(low_high, bit), across(zero_low));
    let far = _mm256_or_si256(_mm256_srlv_epi64(low_high, rest), across(high_zero));
    (near, far)
}

/// The portable loop, compiled with the instruction that counts the bits of an integer. AVX2 has no
/// such instruction for vectors, and folding a register to its parity takes as many operations as
/// counting each of its words.
#[target_feature(enable = "bmi2,popcnt")]
fn solve_popcnt(rows: &[Row], layout: &Layout, segments: &mut [u8]) {
    solve(rows, layout, segments);
}

/// The known bits of eight columns, one column a lane: see [`solve`].
#[derive(Clone, Copy)]
struct Known {
    low: __m512i,
    high: __m512i,
}

/// Back substitution for `GROUPS` times eight columns.
///
/// Processes two slots a step: both rows are applied to the bits known before the step. Then the
/// bit of the lower slot is corrected by the bit of the upper one, if the lower row picks that
/// slot. This halves the chain of dependent operations.
#[target_feature(enable = "avx512f,avx512vbmi2,avx512vpopcntdq")]
fn solve_avx512<const GROUPS: usize>(rows: &[Row], layout: &Layout, segments: &mut [u8]) {
    let one = _mm512_set1_epi64(1);
    let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    let mut known = [Known { low: _mm512_setzero_si512(), high: _mm512_setzero_si512() }; GROUPS];
    for (block, rows) in rows.chunks(BLOCK_SLOTS as usize).enumerate().rev() {
        for pair in rows.as_chunks::<2>().0.iter().rev() {
            let [lower, upper] = pair;
            let upper_low = _mm512_set1_epi64(upper.coefficients_low as i64);
            let upper_high = _mm512_set1_epi64(upper.coefficients_high as i64);
            let lower_low = _mm512_set1_epi64(lower.coefficients_low as i64);
            let lower_high = _mm512_set1_epi64(lower.coefficients_high as i64);
            // The lower row's coefficient of the upper slot.
            let coupling = _mm512_set1_epi64((lower.coefficients_low >> 1 & 1) as i64);
            for (group, known) in known.iter_mut().enumerate() {
                let shift = _mm512_add_epi64(lanes, _mm512_set1_epi64(8 * group as i64));
                let fingerprint =
                    |row: &Row| _mm512_srlv_epi64(_mm512_set1_epi64(row.fingerprint.into()), shift);
                // The known bits shifted by one, for the upper slot, and by two, for the lower.
                let low_1 = _mm512_slli_epi64::<1>(known.low);
                let high_1 = _mm512_shldi_epi64::<1>(known.high, known.low);
                let low_2 = _mm512_slli_epi64::<2>(known.low);
                let high_2 = _mm512_shldi_epi64::<2>(known.high, known.low);
                let upper_sum = _mm512_popcnt_epi64(_mm512_xor_si512(
                    _mm512_and_si512(low_1, upper_low),
                    _mm512_and_si512(high_1, upper_high),
                ));
                let lower_sum = _mm512_popcnt_epi64(_mm512_xor_si512(
                    _mm512_and_si512(low_2, lower_low),
                    _mm512_and_si512(high_2, lower_high),
                ));
                let upper_bit =
                    _mm512_and_si512(_mm512_xor_si512(upper_sum, fingerprint(upper)), one);
                let lower_bit = _mm512_and_si512(
                    _mm512_xor_si512(
                        _mm512_xor_si512(lower_sum, fingerprint(lower)),
                        _mm512_and_si512(upper_bit, coupling),
                    ),
                    one,
                );
                known.low = _mm512_or_si512(
                    _mm512_or_si512(low_2, lower_bit),
                    _mm512_slli_epi64::<1>(upper_bit),
                );
                known.high = high_2;
            }
        }
        let columns = layout.columns_of(block as u32) as usize;
        let first = layout.first_segment(block as u32) * SEGMENT_BYTES;
        let bytes = &mut segments[first..first + columns * SEGMENT_BYTES];
        for (bytes, known) in bytes.chunks_mut(REGISTER_COLUMNS * SEGMENT_BYTES).zip(&known) {
            let (low, high) = (words(known.low), words(known.high));
            let halves = low.iter().zip(&high);
            for (segment, (low, high)) in bytes.chunks_exact_mut(SEGMENT_BYTES).zip(halves) {
                segment[..8].copy_from_slice(&low.to_le_bytes());
                segment[8..].copy_from_slice(&high.to_le_bytes());
            }
        }
    }
}

/// The lanes of a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(register: __m512i) -> [u64; 8] {
    let mut words = [0; 8];
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), register) };
    words
}

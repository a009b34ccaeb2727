//! Vector kernels of the Ribbon filter for x86-64: queries, eight columns at a time.
//!
//! All `unsafe` code of the family is here. The proof that it is sound has two parts.
//!
//! 1. *The instructions exist.* An [`Avx2`] proves it ([`cpu`](crate::cpu)).
//! 2. *Memory.* Loads are masked: the mask selects the 8-byte words that the slice has, and a word
//!    that is not selected is not accessed.
//!
//! One register holds 2 segments of 128 bits, and four registers 8 columns.

use core::arch::x86_64::*;

use super::build::solve::solve;
use super::kernel::{Ask, Kernels, Query};
use super::layout::{Layout, SEGMENT_BYTES};
use super::row::Row;
use crate::cpu::Avx2;
use crate::family::KeyHash;
use crate::memory::LineBuf;

/// The columns that one step of a query handles.
const REGISTER_COLUMNS: usize = 8;

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

/// The coefficients, shifted to their slots in the blocks `near` and `far`. Both results are
/// repeated in each half of a register.
///
/// ```text
/// words               0    0  low high   0    0         shifted up by bit mod 64
///                               near     far            where bit < 64
///                          near     far                 where bit >= 64
/// ```
///
/// AVX2 has no double shift, so each result is the OR of three shifts. A shift whose count is not 0 to 63 gives 0, so that only the
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

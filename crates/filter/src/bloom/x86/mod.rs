//! Vector kernels (hot loops) of the Bloom filter for x86-64. The module [`add`] adds keys, many at
//! a time.
//!
//! The kernels are methods of [`Avx2`]. A value of this type exists only if the processor has the
//! instructions, so it is the proof that a kernel may be called ([`cpu`](crate::cpu)). Registers are loaded and stored through references to whole
//! arrays ([`registers`]), so indexes are checked as usual.
//!
//! A query puts the probes of its key into the lanes of a register and tests them together. But
//! Intel's processors multiply lanes slowly. There, a query whose answer the program needs at once
//! ([`Kernels::has_all_bits_soon`](super::Kernels)) uses no vector instructions, and tests its
//! probes one after the other. Queries of many keys use the lanes on every processor.
//!
//! ```text
//! x      = seed * powers            lane i: probe i
//! words  = line[x >> 28]            one permutation of the line's sixteen 32-bit words
//! bit    = words >> (x >> 23 & 31)  then bit 0 of the first k lanes must all be 1
//! ```
//!
//! The seed is the high half of the key's hash, and the powers are those of a constant
//! ([`super::kernel`]); k is the number of probes.

mod add;
mod registers;

use core::arch::x86_64::*;

use super::kernel::{GOLDEN_POWERS, Kernels, add_portable, bit_seed, has_all_bits_by_words};
use super::layout::Line;
use crate::cpu::Avx2;
use crate::family::KeyHash;
use add::add_avx2;
use registers::load_256;

impl Kernels for Avx2 {
    fn add(self, lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
        // The vector code is compiled for each number of probes up to 12, because an unrolled loop
        // is faster. The few filters with more probes use the portable code.
        let add = match probes {
            1 => add_avx2::<1>,
            2 => add_avx2::<2>,
            3 => add_avx2::<3>,
            4 => add_avx2::<4>,
            5 => add_avx2::<5>,
            6 => add_avx2::<6>,
            7 => add_avx2::<7>,
            8 => add_avx2::<8>,
            9 => add_avx2::<9>,
            10 => add_avx2::<10>,
            11 => add_avx2::<11>,
            12 => add_avx2::<12>,
            _ => return add_portable(lines, hashes, probes),
        };
        let (batches, rest) = hashes.as_chunks();
        // SAFETY: `self` proves the features.
        unsafe { add(lines, batches) };
        add_portable(lines, rest, probes);
    }

    #[inline]
    fn has_all_bits(self, line: &Line, seed: u32, probes: u8) -> bool {
        // SAFETY: `self` proves the features.
        unsafe { has_all_bits_avx2(line, seed, probes) }
    }

    #[inline]
    fn has_all_bits_soon(self, line: &Line, seed: u32, probes: u8) -> bool {
        if !self.has_slow_products() {
            return self.has_all_bits(line, seed, probes);
        }
        // SAFETY: `self` proves the features.
        unsafe { has_all_bits_bmi2(line, seed, probes) }
    }

    fn finish_many(
        self,
        lines: &[Line],
        hashes: &[KeyHash],
        line_numbers: &[u32],
        answers: &mut [bool],
        probes: u8,
    ) {
        // SAFETY: `self` proves the features.
        unsafe { finish_avx2(lines, hashes, line_numbers, answers, probes) }
    }
}

/// [`has_all_bits_by_words`], which uses integers, compiled for BMI2, in which one instruction
/// shifts by a variable count.
#[target_feature(enable = "bmi2")]
fn has_all_bits_bmi2(line: &Line, seed: u32, probes: u8) -> bool {
    has_all_bits_by_words(line, seed, probes)
}

#[inline]
#[target_feature(enable = "avx2")]
fn has_all_bits_avx2(line: &Line, seed: u32, probes: u8) -> bool {
    let [low, high] = line.as_chunks::<32>().0 else { unreachable!("64 bytes") };
    let (low, high) = (load_256(low), load_256(high));
    let seed = _mm256_set1_epi32(seed as i32);
    // A bit for each of eight probes: 1 where the filter's bit is 0.
    let missing_of = |powers: &[u32; 8]| {
        let x = _mm256_mullo_epi32(seed, load_256(powers));
        // The permutations use the low three bits of the word's number. The blend uses the fourth
        // bit, which is the sign of `x`, to choose between the two halves of the line.
        let word = _mm256_srli_epi32::<28>(x);
        let words = _mm256_blendv_ps(
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, word)),
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, word)),
            _mm256_castsi256_ps(x),
        );
        // A shift by 31 - bit moves the bit to its lane's sign, and one instruction collects the
        // signs.
        let inverted = _mm256_xor_si256(x, _mm256_set1_epi32(-1));
        let from_top = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(inverted));
        let turned = _mm256_sllv_epi32(_mm256_castps_si256(words), from_top);
        !_mm256_movemask_ps(_mm256_castsi256_ps(turned)) as u32 & 0xff
    };
    let [first, rest @ ..] = GOLDEN_POWERS.as_chunks::<8>().0 else { unreachable!("32 powers") };
    let mut missing = missing_of(first);
    if probes > 8 {
        for (i, powers) in rest[..usize::from(probes - 1) / 8].iter().enumerate() {
            missing |= missing_of(powers) << (8 * (i + 1));
        }
    }
    missing & ((1 << probes) - 1) == 0
}

#[target_feature(enable = "avx2")]
fn finish_avx2(
    lines: &[Line],
    hashes: &[KeyHash],
    line_numbers: &[u32],
    answers: &mut [bool],
    probes: u8,
) {
    for ((answer, &hash), &number) in answers.iter_mut().zip(hashes).zip(line_numbers) {
        *answer = has_all_bits_avx2(&lines[number as usize], bit_seed(hash), probes);
    }
}

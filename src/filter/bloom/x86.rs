//! Vector kernels of the Bloom filter for x86-64. Adding, many keys at a time, is in [`add`].
//!
//! A value of [`Avx2`] or [`Avx512`] exists only where the processor has the instructions, so the
//! safe methods need no further check. All memory is reached through references to whole lines:
//! indexes are checked as anywhere else.
//!
//! Asking (one key): the probes side by side in the lanes of a register.
//!
//! ```text
//! x      = seed * powers            lane i: probe i
//! words  = line[x >> 28]            one permutation of the line's sixteen 32-bit words
//! bit    = words >> (x >> 23 & 31)  then bit 0 of the first k lanes must all be 1
//! ```

mod add;

use std::arch::x86_64::*;

use super::{GOLDEN_POWERS, Line, MAX_PROBES, add_plain, bit_seed};
use crate::filter::{KeyHash, avx512_allowed};
use add::{add_avx2, add_avx512};

/// [`GOLDEN_POWERS`], filled up with zeros to whole registers.
const POWERS: [u32; 32] = {
    let mut powers = [0; 32];
    let mut i = 0;
    while i < MAX_PROBES {
        powers[i] = GOLDEN_POWERS[i];
        i += 1;
    }
    powers
};

/// Proof that the processor has the AVX-512 instructions used here, GFNI and AVX2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(Avx2);

impl Avx512 {
    /// The proof, where it can be had: Intel since Ice Lake, AMD since Zen 4.
    pub fn detect() -> Option<Avx512> {
        let found = avx512_allowed()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("gfni");
        Avx2::detect().filter(|_| found).map(Avx512)
    }

    /// The kernel for one key: a register of twice the width makes nothing faster there.
    #[inline]
    pub fn avx2(self) -> Avx2 {
        self.0
    }

    /// Adds `hashes`.
    pub fn add(self, lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
        let (batches, rest) = hashes.as_chunks();
        // SAFETY: `self` proves the features.
        unsafe {
            match probes {
                0..=8 => add_avx512::<1>(lines, batches, probes),
                9..=16 => add_avx512::<2>(lines, batches, probes),
                _ => add_avx512::<4>(lines, batches, probes),
            }
        }
        add_plain(lines, rest, probes);
    }

    /// Asks for `hashes` at the lines `places`.
    pub fn finish(
        self,
        lines: &[Line],
        hashes: &[KeyHash],
        places: &[u32],
        answers: &mut [bool],
        probes: u8,
    ) {
        // SAFETY: `self` proves the features.
        unsafe { finish_avx512(lines, hashes, places, answers, probes) }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_512<T: Copy, const N: usize>(from: &[T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: `from` has 64 initialised bytes (integers without padding, everywhere here), and the
    // load asks for no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_512<T: Copy, const N: usize>(to: &mut [T; N], value: __m512i) {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: `to` has 64 bytes that may hold any bits (integers, everywhere here), and the store
    // asks for no alignment.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
}

#[target_feature(enable = "avx512f")]
fn finish_avx512(
    lines: &[Line],
    hashes: &[KeyHash],
    places: &[u32],
    answers: &mut [bool],
    probes: u8,
) {
    let ones = _mm512_set1_epi32(1);
    let [powers_front, powers_back] = POWERS.as_chunks::<16>().0 else { unreachable!("32 powers") };
    let lanes = (1u32 << probes) - 1;
    // The first lanes whose bit is 0.
    let unset = |line: __m512i, seed: u32, powers: &[u32; 16], lanes: u32| {
        let x = _mm512_mullo_epi32(_mm512_set1_epi32(seed as i32), load_512(powers));
        let words = _mm512_permutexvar_epi32(_mm512_srli_epi32::<28>(x), line);
        // A rotation takes its count modulo 32 and brings the bit to place 0.
        let turned = _mm512_rorv_epi32(words, _mm512_srli_epi32::<23>(x));
        _mm512_mask_testn_epi32_mask(lanes as __mmask16, turned, ones)
    };
    for ((answer, &hash), &place) in answers.iter_mut().zip(hashes).zip(places) {
        let line = load_512(&lines[place as usize]);
        let mut missing = unset(line, bit_seed(hash), powers_front, lanes);
        if probes > 16 {
            missing |= unset(line, bit_seed(hash), powers_back, lanes >> 16);
        }
        *answer = missing == 0;
    }
}

/// Proof that the processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    pub fn detect() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }

    /// Adds `hashes`.
    pub fn add(self, lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
        // Unrolled, a probe takes a sixth less; for numbers of probes that nobody uses, plain code.
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
            _ => return add_plain(lines, hashes, probes),
        };
        let (batches, rest) = hashes.as_chunks();
        // SAFETY: `self` proves that the processor has AVX2.
        unsafe { add(lines, batches) };
        add_plain(lines, rest, probes);
    }

    /// Whether the first `probes` bits are all set.
    #[inline]
    pub fn has_all_bits(self, line: &Line, seed: u32, probes: u8) -> bool {
        // SAFETY: `self` proves that the processor has AVX2.
        unsafe { has_all_bits_avx2(line, seed, probes) }
    }

    /// Asks for `hashes` at the lines `places`.
    pub fn finish(
        self,
        lines: &[Line],
        hashes: &[KeyHash],
        places: &[u32],
        answers: &mut [bool],
        probes: u8,
    ) {
        // SAFETY: `self` proves that the processor has AVX2.
        unsafe { finish_avx2(lines, hashes, places, answers, probes) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_256<T: Copy, const N: usize>(from: &[T; N]) -> __m256i {
    const { assert!(size_of::<[T; N]>() == 32) };
    // SAFETY: `from` has 32 initialised bytes (integers without padding, everywhere here), and the
    // load asks for no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_256<T: Copy, const N: usize>(to: &mut [T; N], value: __m256i) {
    const { assert!(size_of::<[T; N]>() == 32) };
    // SAFETY: `to` has 32 bytes that may hold any bits (integers, everywhere here), and the store
    // asks for no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn has_all_bits_avx2(line: &Line, seed: u32, probes: u8) -> bool {
    let [low, high] = line.as_chunks::<32>().0 else { unreachable!("64 bytes") };
    let (low, high) = (load_256(low), load_256(high));
    let seed = _mm256_set1_epi32(seed as i32);
    // A bit for each of eight probes: 1 where the filter has 0.
    let missing_of = |powers: &[u32; 8]| {
        let x = _mm256_mullo_epi32(seed, load_256(powers));
        // Of the word's number, the permutations take the low three bits and the blend the fourth,
        // the sign of `x`.
        let word = _mm256_srli_epi32::<28>(x);
        let words = _mm256_blendv_ps(
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, word)),
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, word)),
            _mm256_castsi256_ps(x),
        );
        // Shifted by 31 - bit, a bit becomes its lane's sign, and signs can be collected.
        let inverted = _mm256_xor_si256(x, _mm256_set1_epi32(-1));
        let from_top = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(inverted));
        let turned = _mm256_sllv_epi32(_mm256_castps_si256(words), from_top);
        !_mm256_movemask_ps(_mm256_castsi256_ps(turned)) as u32 & 0xff
    };
    let [first, rest @ ..] = POWERS.as_chunks::<8>().0 else { unreachable!("32 powers") };
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
    places: &[u32],
    answers: &mut [bool],
    probes: u8,
) {
    for ((answer, &hash), &place) in answers.iter_mut().zip(hashes).zip(places) {
        *answer = has_all_bits_avx2(&lines[place as usize], bit_seed(hash), probes);
    }
}

//! Vector kernels of the Bloom filter for x86-64: many keys at a time.
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
//!
//! Adding, AVX-512: the 512 bits of a line as the product of two matrices of bits. A probe's bit
//! number is in turn word, byte and bit, three bits each:
//!
//! ```text
//!            8 probes        8 bits                      line[byte][bit] = sum over the probes of
//!          +----------+    +--------+    +--------+        hit[byte][probe] * bit[probe][bit]
//! 64 bytes |   hit    | ×  |  bit   | =  |  line  |
//!          +----------+    +--------+    +--------+      hit[8 word + byte] = words[word] & bytes[byte]
//! ```
//!
//! A row of `hit` is the set of the probes that hit a byte: the probes of its word, and of its place
//! in the word. So a key is three words of 64 bits ([`Sets`]), made for eight keys at a time, and one
//! instruction multiplies (GFNI). Its sums are without carry: two probes of the same bit would cancel,
//! and so all but the first are struck out before.
//!
//! Adding, AVX2: eight keys side by side for the multiplications; then for each key the mask of its
//! line, one probe after the other: 1 shifted left by `bit - 32 * lane` in every lane, which is zero in
//! every lane but one, since shifts by 32 and more (negative ones wrap) give 0.

use std::arch::x86_64::*;

use super::super::lines::prefetch;
use super::super::{KeyHash, avx512_allowed};
use super::{GOLDEN_POWERS, LINE_BYTES, Line, MAX_PROBES, add_plain, bit_seed};

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

/// Keys that are added together: the 64-bit lanes of a 512-bit register, the 32-bit lanes of a
/// 256-bit one.
const KEYS: usize = 8;

/// Probes that are added together: the columns of a matrix of bits.
const GROUP: usize = 8;

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

/// Which of a group's eight probes hit what: for each key, byte i of a word is the set of the probes
/// whose number is i. (A set begins at its high bit: so the instruction orders rows.)
#[derive(Clone, Copy)]
struct Sets {
    /// By the word of the line.
    words: [u64; KEYS],
    /// By the byte in the word.
    bytes: [u64; KEYS],
    /// By the bit in the byte, the last one first.
    bits: [u64; KEYS],
}

/// Eight keys, ready to be added.
#[derive(Clone, Copy)]
struct Batch<const GROUPS: usize> {
    places: [u64; KEYS],
    groups: [Sets; GROUPS],
}

impl<const GROUPS: usize> Batch<GROUPS> {
    const EMPTY: Self = Batch {
        places: [0; KEYS],
        groups: [Sets { words: [0; KEYS], bytes: [0; KEYS], bits: [0; KEYS] }; GROUPS],
    };

    /// Takes the keys in, and starts to fetch their lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi,gfni")]
    fn fill(&mut self, lines: &[Line], hashes: &[KeyHash; KEYS], probes: u8) {
        let hashes = load_512(hashes);
        let count = _mm512_set1_epi64(lines.len() as i64);
        store_512(&mut self.places, _mm512_srli_epi64::<32>(_mm512_mul_epu32(hashes, count)));
        for &place in &self.places {
            prefetch(&lines[place as usize]);
        }
        let powers = POWERS.as_chunks().0;
        for (i, (sets, powers)) in self.groups.iter_mut().zip(powers).enumerate() {
            let left = usize::from(probes).saturating_sub(i * GROUP).min(GROUP);
            sets.fill(hashes, powers, (0xffu64 << left) as u8);
        }
    }
}

impl Sets {
    /// The sets of eight probes but those in `unused`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi,gfni")]
    fn fill(&mut self, hashes: __m512i, powers: &[u32; GROUP], unused: u8) {
        let powers = _mm512_broadcast_i64x4(load_256(powers));
        // Bit numbers of two keys: the probes of one, the probes of the other.
        let numbers = |key: i32| {
            let halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
            let of_key = _mm512_add_epi32(halves, _mm512_set1_epi32(2 * key + 1));
            let seeds = _mm512_permutexvar_epi32(of_key, hashes);
            _mm512_srli_epi32::<23>(_mm512_mullo_epi32(seeds, powers))
        };
        // Of two keys: the probes that no earlier one of the same key equals.
        let first_ones = |numbers| {
            let second_key = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
            let apart = _mm512_or_si512(numbers, _mm512_slli_epi32::<9>(second_key));
            let equal = _mm512_conflict_epi32(apart);
            u64::from(_mm512_testn_epi32_mask(equal, equal))
        };
        let (a, b, c, d) = (numbers(0), numbers(2), numbers(4), numbers(6));
        let used = first_ones(a) | first_ones(b) << 16 | first_ones(c) << 32 | first_ones(d) << 48;
        let used = used & !(u64::from(unused) * 0x0101_0101_0101_0101);

        // From here on a byte a probe, a word of 64 bits a key.
        let (even_words, even_bytes) = (load_512(&EVEN_WORDS), load_512(&EVEN_BYTES));
        let front = _mm512_permutex2var_epi16(a, even_words, b);
        let back = _mm512_permutex2var_epi16(c, even_words, d);
        let byte_and_bit = _mm512_permutex2var_epi8(front, even_bytes, back);
        let word = _mm512_permutex2var_epi8(
            _mm512_srli_epi16::<6>(front),
            even_bytes,
            _mm512_srli_epi16::<6>(back),
        );
        let seven = _mm512_set1_epi8(7);
        let byte = _mm512_and_si512(_mm512_srli_epi16::<3>(byte_and_bit), seven);
        let bit = _mm512_and_si512(byte_and_bit, seven);

        let one_bit = _mm512_set1_epi64(DIAGONAL);
        // Multiplying by a matrix from the left, of which this is one, transposes: from a byte a
        // probe to a byte a set.
        let sets = |of_probes| _mm512_gf2p8affine_epi64_epi8::<0>(one_bit, of_probes);
        let last_first = _mm512_set1_epi64(DIAGONAL.swap_bytes());
        let bit = _mm512_maskz_shuffle_epi8(used, one_bit, bit);
        store_512(&mut self.words, sets(_mm512_shuffle_epi8(one_bit, word)));
        store_512(&mut self.bytes, sets(_mm512_shuffle_epi8(one_bit, byte)));
        store_512(&mut self.bits, _mm512_gf2p8affine_epi64_epi8::<0>(last_first, bit));
    }
}

/// Byte i has bit i: the identity as a matrix, and `1 << i` as a table.
const DIAGONAL: i64 = 0x8040_2010_0804_0201_u64 as i64;

const EVEN_WORDS: [u16; 32] = {
    let mut numbers = [0; 32];
    let mut i = 0;
    while i < 32 {
        numbers[i] = 2 * i as u16;
        i += 1;
    }
    numbers
};

const EVEN_BYTES: [u8; 64] = {
    let mut numbers = [0; 64];
    let mut i = 0;
    while i < 64 {
        numbers[i] = 2 * i as u8;
        i += 1;
    }
    numbers
};

/// For each byte of a line, the 64-bit word it is in.
const WORD_OF_BYTE: [u8; LINE_BYTES] = {
    let mut words = [0; LINE_BYTES];
    let mut i = 0;
    while i < LINE_BYTES {
        words[i] = i as u8 / 8;
        i += 1;
    }
    words
};

#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi,gfni")]
fn add_avx512<const GROUPS: usize>(lines: &mut [Line], batches: &[[KeyHash; KEYS]], probes: u8) {
    let Some(first) = batches.first() else { return };
    // Two in turn: what is read was written a batch ago, and is in the cache by now. Read at once, it
    // would have to come from the queue of stores: 0.3 ns a key.
    let (mut batch, mut ahead) = (&mut { Batch::<GROUPS>::EMPTY }, &mut { Batch::EMPTY });
    batch.fill(lines, first, probes);
    for i in 0..batches.len() {
        ahead.fill(lines, batches.get(i + 1).unwrap_or(first), probes);
        for (key, &place) in batch.places.iter().enumerate() {
            let line = &mut lines[place as usize];
            let mut bits = load_512(line);
            for sets in &batch.groups {
                let words = _mm512_set1_epi64(sets.words[key] as i64);
                let bytes = _mm512_set1_epi64(sets.bytes[key] as i64);
                let matrix = _mm512_set1_epi64(sets.bits[key] as i64);
                let words = _mm512_shuffle_epi8(words, load_512(&WORD_OF_BYTE));
                let hit = _mm512_and_si512(words, bytes);
                bits = _mm512_or_si512(bits, _mm512_gf2p8affine_epi64_epi8::<0>(hit, matrix));
            }
            store_512(line, bits);
        }
        std::mem::swap(&mut batch, &mut ahead);
    }
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

/// Eight keys, ready to be added.
#[derive(Clone, Copy)]
struct Numbers<const PROBES: usize> {
    places: [u64; KEYS],
    /// Bit numbers: probe, key.
    bits: [[u32; KEYS]; PROBES],
}

impl<const PROBES: usize> Numbers<PROBES> {
    const EMPTY: Self = Numbers { places: [0; KEYS], bits: [[0; KEYS]; PROBES] };

    /// Takes the keys in, and starts to fetch their lines.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn fill(&mut self, lines: &[Line], hashes: &[KeyHash; KEYS]) {
        let [front, back] = hashes.as_chunks::<4>().0 else { unreachable!("8 keys") };
        let (front, back) = (load_256(front), load_256(back));
        let count = _mm256_set1_epi64x(lines.len() as i64);
        let [to_front, to_back] = self.places.as_chunks_mut::<4>().0 else {
            unreachable!("8 keys")
        };
        store_256(to_front, _mm256_srli_epi64::<32>(_mm256_mul_epu32(front, count)));
        store_256(to_back, _mm256_srli_epi64::<32>(_mm256_mul_epu32(back, count)));
        for &place in &self.places {
            prefetch(&lines[place as usize]);
        }
        // The high halves; shuffles keep to the halves of a register.
        let high = _mm256_shuffle_ps::<0b11_01_11_01>(
            _mm256_castsi256_ps(front),
            _mm256_castsi256_ps(back),
        );
        let seeds = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(high));
        for (bits, &power) in self.bits.iter_mut().zip(&POWERS) {
            let x = _mm256_mullo_epi32(seeds, _mm256_set1_epi32(power as i32));
            store_256(bits, _mm256_srli_epi32::<23>(x));
        }
    }
}

#[target_feature(enable = "avx2")]
fn add_avx2<const PROBES: usize>(lines: &mut [Line], batches: &[[KeyHash; KEYS]]) {
    let ones = _mm256_set1_epi32(1);
    // Minus the first bit of each lane, in the halves of a line.
    let low_lanes = _mm256_setr_epi32(0, -32, -64, -96, -128, -160, -192, -224);
    let high_lanes = _mm256_sub_epi32(low_lanes, _mm256_set1_epi32(256));
    let one_at = |bit, lanes| _mm256_sllv_epi32(ones, _mm256_add_epi32(bit, lanes));

    let Some(first) = batches.first() else { return };
    // Two in turn, as above.
    let (mut batch, mut ahead) = (&mut { Numbers::<PROBES>::EMPTY }, &mut { Numbers::EMPTY });
    batch.fill(lines, first);
    for i in 0..batches.len() {
        ahead.fill(lines, batches.get(i + 1).unwrap_or(first));
        for (key, &place) in batch.places.iter().enumerate() {
            let [low, high] = lines[place as usize].as_chunks_mut::<32>().0 else {
                unreachable!("64 bytes")
            };
            let (mut low_bits, mut high_bits) = (load_256(low), load_256(high));
            for bits in &batch.bits {
                let bit = _mm256_set1_epi32(bits[key] as i32);
                low_bits = _mm256_or_si256(low_bits, one_at(bit, low_lanes));
                high_bits = _mm256_or_si256(high_bits, one_at(bit, high_lanes));
            }
            store_256(low, low_bits);
            store_256(high, high_bits);
        }
        std::mem::swap(&mut batch, &mut ahead);
    }
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

//! Adding keys to a Bloom filter with vectors. The resulting lines equal those of `reference`.
//!
//! AVX-512: the 512 bits that a key adds to its line are the product of two matrices of bits. The
//! bit number of a probe consists of three numbers of three bits each: word, byte in the word, bit
//! in the byte.
//!
//! ```text
//!            8 probes        8 bits                      line[byte][bit] = sum over the probes of
//!          +----------+    +--------+    +--------+        hit[byte][probe] * bit[probe][bit]
//! 64 bytes |   hit    | ×  |  bit   | =  |  line  |
//!          +----------+    +--------+    +--------+      hit[8 word + byte] = words[word] & bytes[byte]
//! ```
//!
//! Row i of `hit` is the set of the probes that hit byte i of the line. It is the intersection of
//! two sets: the probes that hit the byte's word, and the probes that hit the byte's position in
//! any word. So three 64-bit values describe eight probes of a key: their sets by word, by byte and
//! by bit ([`Sets`]). The sets are computed for eight keys at a time. Then one instruction (GFNI)
//! multiplies the two matrices of a key. The product sums by exclusive or, so two probes that hit
//! the same bit would cancel: the bit would stay 0, and queries would miss the key. So only the
//! first probe of each bit enters the product.
//!
//! AVX2: the bit numbers of the probes are computed for eight keys at a time. Then the bits are
//! added to each key's line, one probe after the other, in lanes of 32 bits: every lane shifts 1
//! left by `bit - 32 * lane`. The result is zero in every lane but one, because shifts by 32 and
//! more give 0, and a negative count is taken as a large one.
//!
//! What limits the speed on AMD Zen 4: the AVX2 method does six vector operations for each probe,
//! and the processor executes four in a cycle. Registers of 512 bits would save little time,
//! because Zen 4 executes each of their operations as two halves. The matrix product takes a
//! handful of operations for up to eight probes together.

use core::arch::x86_64::*;

use super::registers::{load_256, load_512, store_256, store_512};
use crate::bloom::layout::Line;
use crate::bloom::probes::GOLDEN_POWERS;
use crate::family::KeyHash;
use crate::memory::{LINE_BYTES, prefetch};

/// The number of keys that are prepared together. A 512-bit register (AVX-512) has this many lanes
/// of 64 bits, and a 256-bit register (AVX2) this many lanes of 32 bits.
const KEYS: usize = 8;

/// The number of probes that one matrix product adds: a matrix of GFNI has eight columns.
const GROUP: usize = 8;

/// The sets of a group's eight probes, as a `u64` for each key. Byte i of the `u64` is a set: of
/// the probes whose word number (in `words`), byte number (in `bytes`) or bit number (in `bits`, in
/// reverse order) is i. In a set, the high bit stands for the first probe, because GFNI orders rows
/// so.
#[derive(Clone, Copy)]
struct Sets {
    /// Sets by the word of the line.
    words: [u64; KEYS],
    /// Sets by the byte in the word.
    bytes: [u64; KEYS],
    /// Sets by the bit in the byte: byte i is the set of the probes with bit number 7 - i.
    bits: [u64; KEYS],
}

/// Eight keys, ready to be added by [`add_avx512`].
#[derive(Clone, Copy)]
struct Batch<const GROUPS: usize> {
    line_numbers: [u64; KEYS],
    groups: [Sets; GROUPS],
}

impl<const GROUPS: usize> Batch<GROUPS> {
    const EMPTY: Self = Batch {
        line_numbers: [0; KEYS],
        groups: [Sets { words: [0; KEYS], bytes: [0; KEYS], bits: [0; KEYS] }; GROUPS],
    };

    /// Computes the lines and the sets of eight keys, and starts to fetch the lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi,gfni")]
    fn fill(&mut self, lines: &[Line], hashes: &[KeyHash; KEYS], probes: u8) {
        let hashes = load_512(hashes);
        let count = _mm512_set1_epi64(lines.len() as i64);
        store_512(&mut self.line_numbers, _mm512_srli_epi64::<32>(_mm512_mul_epu32(hashes, count)));
        for &number in &self.line_numbers {
            prefetch(&lines[number as usize]);
        }
        let powers = GOLDEN_POWERS.as_chunks().0;
        for (i, (sets, powers)) in self.groups.iter_mut().zip(powers).enumerate() {
            let left = usize::from(probes).saturating_sub(i * GROUP).min(GROUP);
            sets.fill(hashes, powers, (0xffu64 << left) as u8);
        }
    }
}

impl Sets {
    /// Fills the sets with eight probes of each key, except the probes in the set `unused`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi,gfni")]
    fn fill(&mut self, hashes: __m512i, powers: &[u32; GROUP], unused: u8) {
        let powers = _mm512_broadcast_i64x4(load_256(powers));
        // Bit numbers of two keys: first the probes of one key, then those of the other.
        let numbers = |key: i32| {
            let halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
            let of_key = _mm512_add_epi32(halves, _mm512_set1_epi32(2 * key + 1));
            let seeds = _mm512_permutexvar_epi32(of_key, hashes);
            _mm512_srli_epi32::<23>(_mm512_mullo_epi32(seeds, powers))
        };
        // One bit for each probe of two keys: 1 if no earlier probe of the same key in this group
        // hits the same bit of the line.
        let first_ones = |numbers| {
            let second_key = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
            let apart = _mm512_or_si512(numbers, _mm512_slli_epi32::<9>(second_key));
            let equal = _mm512_conflict_epi32(apart);
            u64::from(_mm512_testn_epi32_mask(equal, equal))
        };
        let (a, b, c, d) = (numbers(0), numbers(2), numbers(4), numbers(6));
        let used = first_ones(a) | first_ones(b) << 16 | first_ones(c) << 32 | first_ones(d) << 48;
        let used = used & !(u64::from(unused) * 0x0101_0101_0101_0101);

        // From here on, a byte of a register belongs to a probe, and 64 bits belong to a key.
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
        // This product with the identity transposes the probes' matrix, from a byte per probe to a
        // byte per set.
        let sets = |of_probes| _mm512_gf2p8affine_epi64_epi8::<0>(one_bit, of_probes);
        let last_first = _mm512_set1_epi64(DIAGONAL.swap_bytes());
        let bit = _mm512_maskz_shuffle_epi8(used, one_bit, bit);
        store_512(&mut self.words, sets(_mm512_shuffle_epi8(one_bit, word)));
        store_512(&mut self.bytes, sets(_mm512_shuffle_epi8(one_bit, byte)));
        store_512(&mut self.bits, _mm512_gf2p8affine_epi64_epi8::<0>(last_first, bit));
    }
}

/// Byte i has only bit i set: the identity as a matrix, and `1 << i` as a table.
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

const EVEN_BYTES: [u8; 64] = bytes(2, 1);

/// For each byte of a line, the number of its 64-bit word.
const WORD_OF_BYTE: [u8; LINE_BYTES] = bytes(1, 8);

/// Byte i is `i * times / parts`.
const fn bytes(times: usize, parts: usize) -> [u8; 64] {
    let mut numbers = [0; 64];
    let mut i = 0;
    while i < 64 {
        numbers[i] = (i * times / parts) as u8;
        i += 1;
    }
    numbers
}

/// Adds the keys of `batches`, each with `probes` probes. `probes` is at most `8 * GROUPS`.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi,gfni")]
pub(super) fn add_avx512<const GROUPS: usize>(
    lines: &mut [Line],
    batches: &[[KeyHash; KEYS]],
    probes: u8,
) {
    let Some(first) = batches.first() else { return };
    // Two batches alternate: a batch is read one iteration after it was written, when it has
    // reached the cache, and its lines have had time to arrive. If it were read at once, it would
    // come from the store queue, which takes longer.
    let (mut batch, mut ahead) = (&mut { Batch::<GROUPS>::EMPTY }, &mut { Batch::EMPTY });
    batch.fill(lines, first, probes);
    for i in 0..batches.len() {
        ahead.fill(lines, batches.get(i + 1).unwrap_or(first), probes);
        for (key, &number) in batch.line_numbers.iter().enumerate() {
            let line = &mut lines[number as usize];
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
        core::mem::swap(&mut batch, &mut ahead);
    }
}

/// Eight keys, ready to be added by [`add_avx2`].
#[derive(Clone, Copy)]
struct Numbers<const PROBES: usize> {
    line_numbers: [u64; KEYS],
    /// Bit numbers, by probe and key.
    bits: [[u32; KEYS]; PROBES],
}

impl<const PROBES: usize> Numbers<PROBES> {
    const EMPTY: Self = Numbers { line_numbers: [0; KEYS], bits: [[0; KEYS]; PROBES] };

    /// Computes the lines and the bit numbers of eight keys, and starts to fetch the lines.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn fill(&mut self, lines: &[Line], hashes: &[KeyHash; KEYS]) {
        let [front, back] = hashes.as_chunks::<4>().0 else { unreachable!("8 keys") };
        let (front, back) = (load_256(front), load_256(back));
        let count = _mm256_set1_epi64x(lines.len() as i64);
        let [to_front, to_back] = self.line_numbers.as_chunks_mut::<4>().0 else {
            unreachable!("8 keys")
        };
        store_256(to_front, _mm256_srli_epi64::<32>(_mm256_mul_epu32(front, count)));
        store_256(to_back, _mm256_srli_epi64::<32>(_mm256_mul_epu32(back, count)));
        for &number in &self.line_numbers {
            prefetch(&lines[number as usize]);
        }
        // The hashes' high halves. A shuffle moves values only within each half of a register, so a
        // permutation then restores the order of the keys.
        let high = _mm256_shuffle_ps::<0b11_01_11_01>(
            _mm256_castsi256_ps(front),
            _mm256_castsi256_ps(back),
        );
        let seeds = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(high));
        for (bits, &power) in self.bits.iter_mut().zip(&GOLDEN_POWERS) {
            let x = _mm256_mullo_epi32(seeds, _mm256_set1_epi32(power as i32));
            store_256(bits, _mm256_srli_epi32::<23>(x));
        }
    }
}

/// Adds the keys of `batches`, each with `PROBES` probes.
#[target_feature(enable = "avx2")]
pub(super) fn add_avx2<const PROBES: usize>(lines: &mut [Line], batches: &[[KeyHash; KEYS]]) {
    let ones = _mm256_set1_epi32(1);
    // For each lane of a line's low and high half, the number of the lane's first bit, negated.
    let low_lanes = _mm256_setr_epi32(0, -32, -64, -96, -128, -160, -192, -224);
    let high_lanes = _mm256_sub_epi32(low_lanes, _mm256_set1_epi32(256));
    let one_at = |bit, lanes| _mm256_sllv_epi32(ones, _mm256_add_epi32(bit, lanes));

    let Some(first) = batches.first() else { return };
    // Two batches alternate, for the reason given in [`add_avx512`].
    let (mut batch, mut ahead) = (&mut { Numbers::<PROBES>::EMPTY }, &mut { Numbers::EMPTY });
    batch.fill(lines, first);
    for i in 0..batches.len() {
        ahead.fill(lines, batches.get(i + 1).unwrap_or(first));
        for (key, &number) in batch.line_numbers.iter().enumerate() {
            let [low, high] = lines[number as usize].as_chunks_mut::<32>().0 else {
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
        core::mem::swap(&mut batch, &mut ahead);
    }
}

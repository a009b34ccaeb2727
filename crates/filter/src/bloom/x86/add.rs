//! Adding keys to a Bloom filter with vectors. The resulting lines equal those of `reference`.
//!
//! The bit numbers of the probes are computed for eight keys at a time. Then the bits are
//! added to each key's line, one probe after the other, in lanes of 32 bits: every lane shifts 1
//! left by `bit - 32 * lane`. The result is zero in every lane but one, because shifts by 32 and
//! more give 0, and a negative count is taken as a large one.
//!
//! What limits the speed on AMD Zen 4: there are six vector operations for each probe, and the
//! processor executes four in a cycle.

use core::arch::x86_64::*;

use super::registers::{load_256, store_256};
use crate::bloom::kernel::GOLDEN_POWERS;
use crate::bloom::layout::Line;
use crate::family::KeyHash;
use crate::memory::prefetch;

/// The number of keys that are prepared together. A register has this many lanes of 32 bits.
const KEYS: usize = 8;

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
    // Two batches alternate: a batch is read one iteration after it was written, when it has
    // reached the cache, and its lines have had time to arrive. If it were read at once, it would
    // come from the store queue, which takes longer.
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

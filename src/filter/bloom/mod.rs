//! RocksDB's Bloom filter ("FastLocalBloom"), bit for bit.
//!
//! A key sets `k` bits, all within one 64-byte line, so that a probe touches one cache line. The low
//! half of its hash picks the line, the high half the bits: multiplied by the golden ratio again and
//! again, its top 9 bits name the next of 512.
//!
//! ```text
//! OFFSET    SIZE  MEANING
//! 0         len   lines of 64 bytes; bit b of a line is bit b & 7 of its byte b >> 3
//! len       1     0xff: not a legacy filter
//! len + 1   1     0: the kind described here
//! len + 2   1     bits 5..7: log2(line bytes) - 6, must be 0; bits 0..4: k, 1 to 30
//! len + 3   2     0, reserved
//! ```
//!
//! Why one line: a filter is larger than the caches, so every line touched costs a trip to memory;
//! the price is 3 to 8 % more bits for the same rate (`sizing`). Format: table format, section 3.
//!
//! Three ways to do the same, chosen when the program starts ([`Kernel`]). None branches on data: half
//! of all absent keys would mispredict it. Measured (AMD Zen 4): in a chain of queries with nothing
//! between them plain code, unrolled by `k`, answers 1.5 ns sooner than AVX2; but its shifts and
//! multiplications fill two of the integer units, and among other work, as in a lookup, it takes 9.3
//! against 5.4 ns. So vectors serve single queries too. The plain code is their oracle.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::{BATCH, Geometry, HashList, KeyHash, sizing};
use crate::memory::LINE_BYTES;
use crate::memory::LineBuf;

/// Marks the filters that are not legacy.
pub(super) const MARKER: u8 = 0xff;

/// Bytes after the lines, in every filter of RocksDB's.
pub(super) const TRAILER_BYTES: usize = 5;

/// The most probes the format has room for.
const MAX_PROBES: usize = 30;

/// One cache line of the filter.
type Line = [u8; LINE_BYTES];

/// The line of a key: its hash's low half, scaled to `lines` (Lemire's multiply-shift).
#[inline(always)]
fn line_of(hash: KeyHash, lines: u32) -> u32 {
    ((u64::from(hash as u32) * u64::from(lines)) >> 32) as u32
}

/// What the bits of a key are drawn from: `bit i = (seed * GOLDEN_POWERS[i]) >> 23`.
#[inline(always)]
fn bit_seed(hash: KeyHash) -> u32 {
    (hash >> 32) as u32
}

/// The powers of the golden ratio (as a fraction of 2^32): the probes of a key do not wait for each
/// other.
const GOLDEN_POWERS: [u32; MAX_PROBES] = {
    let mut powers = [1u32; MAX_PROBES];
    let mut i = 1;
    while i < MAX_PROBES {
        powers[i] = powers[i - 1].wrapping_mul(0x9e37_79b9);
        i += 1;
    }
    powers
};

/// Whether the first `K` bits are all set. No branch depends on the data.
#[inline(always)]
fn has_bits<const K: usize>(line: &Line, seed: u32) -> bool {
    let mut all = 1;
    for power in &GOLDEN_POWERS[..K] {
        let x = seed.wrapping_mul(*power);
        all &= line[(x >> 26) as usize] >> ((x >> 23) & 7);
    }
    all & 1 != 0
}

/// Whether the first `probes` bits are all set: plain code, unrolled where filters are common.
#[inline(never)]
fn has_all_bits(line: &Line, seed: u32, probes: u8) -> bool {
    match probes {
        1 => has_bits::<1>(line, seed),
        2 => has_bits::<2>(line, seed),
        3 => has_bits::<3>(line, seed),
        4 => has_bits::<4>(line, seed),
        5 => has_bits::<5>(line, seed),
        6 => has_bits::<6>(line, seed),
        7 => has_bits::<7>(line, seed),
        8 => has_bits::<8>(line, seed),
        9 => has_bits::<9>(line, seed),
        10 => has_bits::<10>(line, seed),
        _ => GOLDEN_POWERS[..usize::from(probes)].iter().all(|power| {
            let x = seed.wrapping_mul(*power);
            line[(x >> 26) as usize] >> ((x >> 23) & 7) & 1 != 0
        }),
    }
}

/// Sets the first `probes` bits.
#[inline(always)]
fn set_bits(line: &mut Line, seed: u32, probes: u8) {
    for power in &GOLDEN_POWERS[..usize::from(probes)] {
        let x = seed.wrapping_mul(*power);
        line[(x >> 26) as usize] |= 1 << ((x >> 23) & 7);
    }
}

/// How many keys at once are served. A vector kernel exists only where the processor has it.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
}

impl Kernel {
    /// The best this processor has.
    fn detect() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(kernel) = x86::Avx512::detect() {
                return Kernel::Avx512(kernel);
            }
            if let Some(kernel) = x86::Avx2::detect() {
                return Kernel::Avx2(kernel);
            }
        }
        Kernel::Plain
    }

    /// Whether the first `probes` bits are all set.
    #[inline(always)]
    fn has_all_bits(self, line: &Line, seed: u32, probes: u8) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(kernel) => kernel.avx2().has_all_bits(line, seed, probes),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(kernel) => kernel.has_all_bits(line, seed, probes),
            Kernel::Plain => has_all_bits(line, seed, probes),
        }
    }

    /// Adds `hashes` to the filter. `probes <= MAX_PROBES`.
    fn add(self, lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(kernel) => kernel.add(lines, hashes, probes),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(kernel) => kernel.add(lines, hashes, probes),
            Kernel::Plain => add_plain(lines, hashes, probes),
        }
    }

    /// Asks for hashes whose lines are known (`places`) and on their way.
    fn finish(
        self,
        lines: &[Line],
        hashes: &[KeyHash],
        places: &[u32],
        answers: &mut [bool],
        probes: u8,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(kernel) => kernel.finish(lines, hashes, places, answers, probes),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(kernel) => kernel.finish(lines, hashes, places, answers, probes),
            Kernel::Plain => {
                for ((answer, &hash), &place) in answers.iter_mut().zip(hashes).zip(places) {
                    *answer = has_all_bits(&lines[place as usize], bit_seed(hash), probes);
                }
            }
        }
    }
}

/// Keys between fetching a line and writing it.
const FETCH_AHEAD: usize = 16;

fn add_plain(lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
    let count = lines.len() as u32;
    for (i, &hash) in hashes.iter().enumerate() {
        if let Some(&ahead) = hashes.get(i + FETCH_AHEAD) {
            crate::memory::prefetch(&lines[line_of(ahead, count) as usize]);
        }
        set_bits(&mut lines[line_of(hash, count) as usize], bit_seed(hash), probes);
    }
}

/// A filter of `millibits_per_key / 1000` bits for each of `hashes`, of which there is at least one.
pub(super) fn build(hashes: &HashList, millibits_per_key: u32) -> LineBuf {
    build_with(Kernel::detect(), hashes, millibits_per_key)
}

fn build_with(kernel: Kernel, hashes: &HashList, millibits_per_key: u32) -> LineBuf {
    let payload_bytes = sizing::bloom_bytes(hashes.len(), millibits_per_key);
    let probes = sizing::bloom_probes(millibits_per_key) as u8;
    let mut block = LineBuf::zeroed(payload_bytes + TRAILER_BYTES);
    let (lines, trailer) = block.as_chunks_mut();
    for chunk in hashes.chunks() {
        kernel.add(lines, chunk, probes);
    }
    trailer.copy_from_slice(&[MARKER, 0, probes, 0, 0]);
    block
}

/// A Bloom filter's shape. Invariants: the block begins with `lines` lines, at least one;
/// `1 <= probes <= MAX_PROBES`.
#[derive(Clone, Copy)]
pub(super) struct BloomGeometry {
    lines: u32,
    probes: u8,
    kernel: Kernel,
}

impl BloomGeometry {
    pub fn probes(&self) -> u32 {
        u32::from(self.probes)
    }

    /// The part of all bits that is set.
    pub fn fill(&self, block: &LineBuf) -> f64 {
        let lines = lines_of(block);
        let ones: u64 = lines.as_flattened().iter().map(|byte| u64::from(byte.count_ones())).sum();
        ones as f64 / (lines.len() * LINE_BYTES * 8) as f64
    }
}

/// The lines of a block that `parse` has accepted.
#[inline(always)]
fn lines_of(block: &LineBuf) -> &[Line] {
    block.as_chunks().0
}

impl Geometry for BloomGeometry {
    fn parse(block: &LineBuf) -> Result<BloomGeometry, &'static str> {
        let (lines, &[_, kind, packed, reserved_0, reserved_1]) = block.as_chunks::<LINE_BYTES>()
        else {
            return Err("a Bloom filter whose length is not a number of lines");
        };
        let probes = packed & 0x1f;
        if kind != 0 {
            return Err("a Bloom filter of an unknown kind");
        }
        if packed >> 5 != 0 {
            return Err("a Bloom filter whose lines are not 64 bytes");
        }
        if !(1..=MAX_PROBES as u8).contains(&probes) {
            return Err("a Bloom filter with an impossible number of probes");
        }
        if reserved_0 != 0 || reserved_1 != 0 {
            return Err("a Bloom filter with unknown extensions");
        }
        if lines.is_empty() {
            return Err("a Bloom filter without lines");
        }
        let lines = u32::try_from(lines.len())
            .map_err(|_| "a Bloom filter larger than its format allows")?;
        Ok(BloomGeometry { lines, probes, kernel: Kernel::detect() })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let line = line_of(hash, self.lines);
        block.prefetch(line as usize * LINE_BYTES);
        line
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, line: u32) -> bool {
        match lines_of(block).get(line as usize) {
            Some(line) => self.kernel.has_all_bits(line, bit_seed(hash), self.probes),
            None => true,
        }
    }

    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        self.finish(block, hash, line_of(hash, self.lines))
    }

    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut places = [0; BATCH];
            for (place, &hash) in places.iter_mut().zip(hashes) {
                *place = self.prepare(block, hash);
            }
            self.kernel.finish(lines_of(block), hashes, &places, answers, self.probes);
        }
    }

    fn predicted_fpr(&self, _block: &LineBuf, keys: u64) -> f64 {
        sizing::cache_line_bloom_fpr(keys as f64 / f64::from(self.lines), self.probes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn kernels() -> Vec<Kernel> {
        #[cfg(not(target_arch = "x86_64"))]
        let vector = [];
        #[cfg(target_arch = "x86_64")]
        let vector =
            [x86::Avx2::detect().map(Kernel::Avx2), x86::Avx512::detect().map(Kernel::Avx512)];
        std::iter::once(Kernel::Plain).chain(vector.into_iter().flatten()).collect()
    }

    /// The format's text, word for word: nothing shared with the code above but the layout.
    fn build_by_the_book(hashes: &[KeyHash], bytes: usize, probes: u8) -> Vec<u8> {
        let mut data = vec![0u8; bytes];
        let lines = (bytes / 64) as u64;
        for &hash in hashes {
            let base = 64 * (((hash & 0xffff_ffff) * lines) >> 32) as usize;
            let mut x = (hash >> 32) as u32;
            for _ in 0..probes {
                let bit = x >> 23;
                data[base + (bit >> 3) as usize] |= 1 << (bit & 7);
                x = x.wrapping_mul(0x9e3779b9);
            }
        }
        data.extend_from_slice(&[0xff, 0, probes, 0, 0]);
        data
    }

    #[test]
    fn every_kernel_builds_what_the_format_says_at_every_number_of_probes() {
        let mut rng = StdRng::seed_from_u64(1);
        for millibits in (1000..=60_000).step_by(900) {
            let count = rng.random_range(1..300);
            let hashes: Vec<u64> = (0..count).map(|_| rng.random()).collect();
            let bytes = sizing::bloom_bytes(count, millibits);
            let expected = build_by_the_book(&hashes, bytes, sizing::bloom_probes(millibits) as u8);
            let list: HashList = hashes.into_iter().collect();
            for kernel in kernels() {
                let block = build_with(kernel, &list, millibits);
                assert_eq!(*block, expected[..], "{kernel:?} {count} keys, {millibits} millibits");
            }
        }
    }

    #[test]
    fn probes_that_fall_on_the_same_bit_do_not_cancel() {
        let mut rng = StdRng::seed_from_u64(4);
        let bit = |hash, i: usize| bit_seed(hash).wrapping_mul(GOLDEN_POWERS[i]) >> 23;
        for millibits in [10_000, 12_000, 20_000] {
            let probes = sizing::bloom_probes(millibits) as usize;
            let distinct = |hash| (0..probes).map(|i| bit(hash, i)).collect::<HashSet<_>>().len();
            let hashes: Vec<u64> = std::iter::repeat_with(|| rng.random())
                .filter(|&hash| distinct(hash) < probes)
                .take(400)
                .collect();
            let list: HashList = hashes.iter().copied().collect();
            let bytes = sizing::bloom_bytes(hashes.len(), millibits);
            let expected = build_by_the_book(&hashes, bytes, probes as u8);
            for kernel in kernels() {
                assert_eq!(*build_with(kernel, &list, millibits), expected[..], "{kernel:?}");
            }
        }
    }

    #[test]
    fn every_kernel_answers_alike_at_every_number_of_probes() {
        let mut rng = StdRng::seed_from_u64(2);
        let hashes: Vec<u64> = (0..3000).map(|_| rng.random()).collect();
        for probes in 1..=MAX_PROBES as u8 {
            // Bits at random, most of them set, so that all answers occur at every depth.
            let fill = 0.5f64.powf(1.0 / f64::from(probes));
            let lines: Vec<Line> = (0..40)
                .map(|_| {
                    let mut line = [0; LINE_BYTES];
                    (0..512).filter(|_| rng.random_bool(fill)).for_each(|b| {
                        line[b / 8] |= 1 << (b % 8);
                    });
                    line
                })
                .collect();
            let places: Vec<u32> = hashes.iter().map(|&hash| line_of(hash, 40)).collect();
            let mut expected = vec![false; hashes.len()];
            Kernel::Plain.finish(&lines, &hashes, &places, &mut expected, probes);
            let yes = expected.iter().filter(|&&answer| answer).count();
            assert!((1000..2000).contains(&yes), "{probes} probes: {yes} of 3000");
            for kernel in kernels() {
                let mut answers = vec![false; hashes.len()];
                kernel.finish(&lines, &hashes, &places, &mut answers, probes);
                assert_eq!(answers, expected, "{kernel:?}, {probes} probes");
            }
        }
    }

    #[test]
    fn unrolled_and_looped_probes_agree() {
        let mut rng = StdRng::seed_from_u64(3);
        for probes in 1..=MAX_PROBES as u8 {
            let mut line = [0; LINE_BYTES];
            let seed = rng.random();
            set_bits(&mut line, seed, probes);
            assert!(has_all_bits(&line, seed, probes));
            // Each bit counts: without any one of them the answer is no.
            for byte in 0..LINE_BYTES {
                for bit in 0..8 {
                    let mut less = line;
                    less[byte] &= !(1 << bit);
                    assert_eq!(has_all_bits(&less, seed, probes), less == line);
                }
            }
        }
    }
}

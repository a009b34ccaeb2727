//! The *kernels* of the Bloom filter, which are its hot loops: their trait, and the portable
//! implementation. A key sets `k` bits in one *line* of 64 bytes. A query tests these bits, its
//! *probes*. Line and bits are computed from the key's hash:
//!
//! ```text
//! line  = (low half of the hash × lines) >> 32         Lemire's multiply-shift
//! bit i = (high half of the hash × golden^i) >> 23     modulo 2^32: the top 9 bits, 0 to 511
//! ```
//!
//! The definition in `reference.rs` computes each bit from the previous one, by a multiplication.
//! Here the powers are constants, so that the probes of a key need not wait for each other.
//!
//! No kernel branches on the bits that it finds. About half of the bits are set, so a branch on a
//! bit would be mispredicted for about half of all absent keys.
//!
//! A single query can test its bits with vectors, or with integers in a loop over the probes,
//! unrolled for each `k`. Which method is faster depends on the processor. The times are those of a
//! filter of 10,000 keys in RocksDB's `filter_bench` (`docs/filters.md`):
//!
//! - AMD Zen 4: 5.3 ns with AVX2, 9.9 ns with the loop, because only two of the integer units
//!   execute the loop's shifts and multiplications. The loop is faster only in a chain of queries,
//!   each of which waits for the answer of the one before. In `filter_bench` and in lookups the
//!   processor has other work at the same time, so on AMD single queries use vectors.
//! - Intel: 7.7 ns with AVX2, 4.4 ns with the loop, because a product of vectors takes three times
//!   as long as on AMD. So an *isolated* query, for whose answer the program waits, uses integers.
//!   Queries of many keys use vectors on Intel too: their lines are fetched ahead, so that the
//!   queries overlap and the latency of one product does not matter, and vectors take fewer
//!   instructions.

use super::layout::{Line, MAX_PROBES};
use crate::cpu::Portable;
use crate::family::KeyHash;
use crate::memory::prefetch;

/// 2^32 divided by the golden ratio.
pub const GOLDEN: u32 = 0x9e37_79b9;

/// `GOLDEN_POWERS[i]` is [`GOLDEN`] to the power i, modulo 2^32, for each of the [`MAX_PROBES`]
/// probes. The two zeros after them fill the last vector register.
pub const GOLDEN_POWERS: [u32; 32] = {
    let mut powers = [0u32; 32];
    powers[0] = 1;
    let mut i = 1;
    while i < MAX_PROBES {
        powers[i] = powers[i - 1].wrapping_mul(GOLDEN);
        i += 1;
    }
    powers
};

/// The line of a key.
#[inline(always)]
pub fn line_of(hash: KeyHash, lines: u32) -> u32 {
    ((u64::from(hash as u32) * u64::from(lines)) >> 32) as u32
}

/// The value from which the bits of a key are computed: bit i of the key has the number
/// `(seed * GOLDEN_POWERS[i]) >> 23` in the line. The product is taken modulo 2^32.
#[inline(always)]
pub fn bit_seed(hash: KeyHash) -> u32 {
    (hash >> 32) as u32
}

/// The kernels of one instruction set. The default methods add keys and query many hashes in plain
/// loops. `probes` is 1 to [`MAX_PROBES`].
pub trait Kernels: Copy {
    /// Adds `hashes`.
    fn add(self, lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
        add_portable(lines, hashes, probes);
    }

    /// Whether the first `probes` bits of a key are all set in its line. This function takes the
    /// fewest instructions, so it is for a query during which the processor has other work.
    fn has_all_bits(self, line: &Line, seed: u32, probes: u8) -> bool;

    /// Like [`Kernels::has_all_bits`], but with the lowest latency instead of the fewest
    /// instructions, for a query whose answer the program waits for.
    #[inline]
    fn has_all_bits_soon(self, line: &Line, seed: u32, probes: u8) -> bool {
        self.has_all_bits(line, seed, probes)
    }

    /// Queries `hashes`, and writes the results to `answers`. The bits of each hash are in the line
    /// whose number stands at the same index of `line_numbers`. The caller has started to fetch
    /// these lines.
    fn finish_many(
        self,
        lines: &[Line],
        hashes: &[KeyHash],
        line_numbers: &[u32],
        answers: &mut [bool],
        probes: u8,
    ) {
        for ((answer, &hash), &number) in answers.iter_mut().zip(hashes).zip(line_numbers) {
            *answer = self.has_all_bits(&lines[number as usize], bit_seed(hash), probes);
        }
    }
}

impl Kernels for Portable {
    #[inline(never)]
    fn has_all_bits(self, line: &Line, seed: u32, probes: u8) -> bool {
        has_all_bits_by_words(line, seed, probes)
    }
}

/// Whether the first `probes` bits of a key are all set in its line, tested one after the other.
/// The loop is unrolled for the usual numbers of probes.
#[inline(always)]
pub fn has_all_bits_by_words(line: &Line, seed: u32, probes: u8) -> bool {
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
        _ => has_many_bits(line, seed, probes),
    }
}

/// Whether the first `K` bits of a key are all set. No branch depends on the data.
#[inline(always)]
fn has_bits<const K: usize>(line: &Line, seed: u32) -> bool {
    GOLDEN_POWERS[..K].iter().fold(1, |all, &power| all & bit_of(line, seed, power)) & 1 != 0
}

/// [`has_bits`] for any number of probes. Never inlined, because the compiler would mix its loop
/// with the unrolled code.
#[inline(never)]
fn has_many_bits(line: &Line, seed: u32, probes: u8) -> bool {
    let powers = GOLDEN_POWERS.iter().take(probes.into());
    powers.fold(1, |all, &power| all & bit_of(line, seed, power)) & 1 != 0
}

/// The bit that the probe with this `power` tests, in the lowest position; the bits above it have
/// no meaning.
#[inline(always)]
fn bit_of(line: &Line, seed: u32, power: u32) -> u64 {
    let (words, _) = line.as_chunks();
    let x = seed.wrapping_mul(power);
    u64::from_le_bytes(words[(x >> 29) as usize]) >> (x >> 23 & 63)
}

/// A line is fetched this many keys before it is written.
const FETCH_AHEAD: usize = 16;

/// Adds `hashes`. The AVX2 kernel calls this function for the last few keys, which do not fill a
/// register, and for more than 12 probes. The NEON kernel
/// calls it for all keys.
pub fn add_portable(lines: &mut [Line], hashes: &[KeyHash], probes: u8) {
    let count = lines.len() as u32;
    for (i, &hash) in hashes.iter().enumerate() {
        if let Some(&ahead) = hashes.get(i + FETCH_AHEAD) {
            prefetch(&lines[line_of(ahead, count) as usize]);
        }
        set_bits(&mut lines[line_of(hash, count) as usize], bit_seed(hash), probes);
    }
}

/// Sets the first `probes` bits of a key in its line.
#[inline(always)]
fn set_bits(line: &mut Line, seed: u32, probes: u8) {
    for power in &GOLDEN_POWERS[..usize::from(probes)] {
        let x = seed.wrapping_mul(*power);
        line[(x >> 26) as usize] |= 1 << ((x >> 23) & 7);
    }
}

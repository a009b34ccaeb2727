//! How the line of a key, and the bits that the key probes in it, are computed from the key's hash.
//!
//! ```text
//! line  = (low half of the hash × lines) >> 32         Lemire's multiply-shift
//! bit i = (high half of the hash × golden^i) >> 23     modulo 2^32: the top 9 bits, 0 to 511
//! ```
//!
//! The definition in `reference.rs` computes each bit from the previous one, by a multiplication.
//! Here the powers are constants, so that the probes of a key need not wait for each other.

use super::layout::MAX_PROBES;
use crate::family::KeyHash;

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

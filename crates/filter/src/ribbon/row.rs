//! From a key's hash to its row of the linear system: which slots it reads, and their required sum.
//!
//! ```text
//! slots          0 … start … start + 127 … slots - 1
//! coefficients       1?????…????             128 bits, the lowest one is always 1
//! fingerprint                                up to 32 bits, one a column
//! ```
//!
//! A row is one equation over GF(2) in each column j: the XOR of bit j of the slots whose
//! coefficients are 1 must be bit j of the fingerprint. An absent key's sum is correct by chance,
//! with probability 1/2 in each column.
//!
//! Multiplications compute a row from the key's 64-bit hash and a seed. The constants are RocksDB's
//! (`util/ribbon_impl.h`, `StandardHasher`, `StandardRehasherAdapter`).

/// The seed that is stored as the number `ordinal`. Seeds of neighbouring numbers differ in many
/// bits.
pub fn raw_seed(ordinal: u8) -> u32 {
    let t = u64::from(ordinal).wrapping_mul(0xc782_19a2_3eea_dd03);
    (t ^ ((t & 0xf0f0_f0f0_f0f0_f0f0) >> 4)) as u32
}

/// One key's equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Equation {
    /// First slot of the 128.
    pub start: u32,
    /// Bit i belongs to slot `start + i`; bit 0 is set.
    pub coefficients: u128,
    /// Bit j is the required sum of column j.
    pub fingerprint: u32,
}

/// The seeded hash from which an [`Equation`] is made. A bijection of the key's hash.
#[inline(always)]
pub fn rehash(hash: u64, raw_seed: u32) -> u64 {
    (hash ^ u64::from(raw_seed)).wrapping_mul(0x6193_d459_236a_3a0d)
}

/// The first slot of the row that this seeded hash gives. A larger hash never gives a smaller slot.
#[inline(always)]
pub fn start_of(rehashed: u64, starts: u32) -> u32 {
    ((u128::from(rehashed) * u128::from(starts)) >> 64) as u32
}

impl Equation {
    #[inline(always)]
    pub fn new(rehashed: u64, starts: u32) -> Equation {
        let a = rehashed.wrapping_mul(0xc28f_8282_2b65_0bed);
        let low = (a ^ 0xc367_844a_6e52_731d) | 1;
        Equation {
            start: start_of(rehashed, starts),
            coefficients: u128::from(a) << 64 | u128::from(low),
            fingerprint: a.swap_bytes() as u32,
        }
    }
}

/// The content of a slot after banding, the elimination of [`build`](mod@super::build): the
/// coefficients of this slot and of the 127 slots after it, and the fingerprint. The lowest
/// coefficient of a row is 1. In an empty slot everything is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    pub coefficients_low: u64,
    pub coefficients_high: u64,
    pub fingerprint: u32,
}

impl Row {
    pub const EMPTY: Row = Row { coefficients_low: 0, coefficients_high: 0, fingerprint: 0 };

    /// Bit i belongs to the slot that is i slots after the row's own.
    pub fn coefficients(&self) -> u128 {
        u128::from(self.coefficients_high) << 64 | u128::from(self.coefficients_low)
    }
}

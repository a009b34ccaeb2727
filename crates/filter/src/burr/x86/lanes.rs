//! [`Register`], which holds columns of a filter next to each other, and [`Lanes`], the operations
//! on the columns in it.
//!
//! ```text
//! 256 bits    | column 0 | column 1 | ...             8 words of 32 bits, or 4 of 64
//! ```
//!
//! A [`Register`] can only be made with a value of [`Avx2`], which is the proof that the processor
//! has AVX2. So all functions but [`Register::load`] are safe to call. They are `#[inline(always)]`: in
//! a kernel that is compiled for these instructions, each function becomes one or a few
//! instructions.

use core::arch::x86_64::*;
use core::ops::{BitAnd, BitOr, BitXor, Shr};

use crate::burr::row::Word;
use crate::cpu::Avx2;

/// Bytes of a register.
pub const REGISTER_BYTES: usize = 32;

/// 256 bits. A value proves that the processor has AVX2.
#[derive(Clone, Copy)]
pub struct Register(__m256i);

impl Register {
    #[inline(always)]
    pub fn zero(_: Avx2) -> Register {
        // SAFETY: the argument proves the instruction.
        Register(unsafe { _mm256_setzero_si256() })
    }

    /// The 32 bytes at `from`.
    ///
    /// # Safety
    ///
    /// The 32 bytes at `from` must be readable.
    #[inline(always)]
    pub unsafe fn load(_: Avx2, from: *const u8) -> Register {
        // SAFETY: the caller promises the bytes, the argument proves the instruction.
        Register(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    /// Whether the AND of both registers is 0.
    #[inline(always)]
    pub fn is_disjoint(self, other: Register) -> bool {
        // SAFETY: a register proves AVX2.
        unsafe { _mm256_testz_si256(self.0, other.0) != 0 }
    }
}

impl BitAnd for Register {
    type Output = Register;
    #[inline(always)]
    fn bitand(self, other: Register) -> Register {
        // SAFETY: a register proves AVX2.
        Register(unsafe { _mm256_and_si256(self.0, other.0) })
    }
}

impl BitOr for Register {
    type Output = Register;
    #[inline(always)]
    fn bitor(self, other: Register) -> Register {
        // SAFETY: a register proves AVX2.
        Register(unsafe { _mm256_or_si256(self.0, other.0) })
    }
}

impl BitXor for Register {
    type Output = Register;
    #[inline(always)]
    fn bitxor(self, other: Register) -> Register {
        // SAFETY: a register proves AVX2.
        Register(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
}

/// A word, and the operations on a register of such words.
pub trait Lanes: Word + Shr<u32, Output = Self> {
    /// Words in a register.
    const LANES: u32 = (REGISTER_BYTES / Self::BYTES) as u32;

    /// Lane i has the number i.
    fn numbers(proof: Avx2) -> Register;
    /// `word` in every lane.
    fn splat(proof: Avx2, word: Self) -> Register;
    /// `number` in every lane.
    fn splat_number(proof: Avx2, number: u32) -> Register;
    /// Every lane of `x`, shifted left by `BY` bits.
    fn shift_left<const BY: i32>(x: Register) -> Register;
    /// Every lane of `x`, shifted right by the number of bits in the same lane of `by`.
    fn shift_right_each(x: Register, by: Register) -> Register;
    fn add(x: Register, y: Register) -> Register;
    /// Sets all bits of the lanes where `x` is greater than `y`, and clears the other lanes. Lanes
    /// are compared as signed numbers.
    fn greater(x: Register, y: Register) -> Register;
    /// The parity of every lane in its bit 0, with arbitrary bits above it.
    fn parities(x: Register) -> Register;
    /// Writes the first `count` lanes to the start of `to`. `count` is at most [`Lanes::LANES`].
    fn store(x: Register, proof: Avx2, count: u32, to: &mut [u8]);
}

// SAFETY of every block below: a register or a proof among the arguments proves the instructions.
//
// AVX2 has no population count. So each lane is shifted and XORed with itself until its low four
// bits have the lane's parity. A shift of 0x6996 then looks their parity up: bit i of this constant
// is the parity of i.

impl Lanes for u32 {
    #[inline(always)]
    fn numbers(_: Avx2) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) })
    }
    #[inline(always)]
    fn splat(_: Avx2, word: u32) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_set1_epi32(word as i32) })
    }
    #[inline(always)]
    fn splat_number(proof: Avx2, number: u32) -> Register {
        Self::splat(proof, number)
    }
    #[inline(always)]
    fn shift_left<const BY: i32>(x: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_slli_epi32::<BY>(x.0) })
    }
    #[inline(always)]
    fn shift_right_each(x: Register, by: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_srlv_epi32(x.0, by.0) })
    }
    #[inline(always)]
    fn add(x: Register, y: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_add_epi32(x.0, y.0) })
    }
    #[inline(always)]
    fn greater(x: Register, y: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_cmpgt_epi32(x.0, y.0) })
    }
    #[inline(always)]
    fn parities(x: Register) -> Register {
        // SAFETY: as above.
        unsafe {
            let x = _mm256_xor_si256(x.0, _mm256_srli_epi32::<16>(x.0));
            let x = _mm256_xor_si256(x, _mm256_srli_epi32::<8>(x));
            let x = _mm256_xor_si256(x, _mm256_srli_epi32::<4>(x));
            let nibble = _mm256_and_si256(x, _mm256_set1_epi32(15));
            Register(_mm256_srlv_epi32(_mm256_set1_epi32(0x6996), nibble))
        }
    }
    #[inline(always)]
    fn store(x: Register, proof: Avx2, count: u32, to: &mut [u8]) {
        let to = &mut to[..count as usize * Self::BYTES];
        let mask = Self::greater(Self::splat_number(proof, count), Self::numbers(proof));
        // SAFETY: as above. The mask selects `count` lanes, and `to` has as many words.
        unsafe { _mm256_maskstore_epi32(to.as_mut_ptr().cast(), mask.0, x.0) }
    }
}

impl Lanes for u64 {
    #[inline(always)]
    fn numbers(_: Avx2) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_setr_epi64x(0, 1, 2, 3) })
    }
    #[inline(always)]
    fn splat(_: Avx2, word: u64) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_set1_epi64x(word as i64) })
    }
    #[inline(always)]
    fn splat_number(proof: Avx2, number: u32) -> Register {
        Self::splat(proof, u64::from(number))
    }
    #[inline(always)]
    fn shift_left<const BY: i32>(x: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_slli_epi64::<BY>(x.0) })
    }
    #[inline(always)]
    fn shift_right_each(x: Register, by: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_srlv_epi64(x.0, by.0) })
    }
    #[inline(always)]
    fn add(x: Register, y: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_add_epi64(x.0, y.0) })
    }
    #[inline(always)]
    fn greater(x: Register, y: Register) -> Register {
        // SAFETY: as above.
        Register(unsafe { _mm256_cmpgt_epi64(x.0, y.0) })
    }
    #[inline(always)]
    fn parities(x: Register) -> Register {
        // SAFETY: as above.
        unsafe {
            let x = _mm256_xor_si256(x.0, _mm256_srli_epi64::<32>(x.0));
            let x = _mm256_xor_si256(x, _mm256_srli_epi64::<16>(x));
            let x = _mm256_xor_si256(x, _mm256_srli_epi64::<8>(x));
            let x = _mm256_xor_si256(x, _mm256_srli_epi64::<4>(x));
            let nibble = _mm256_and_si256(x, _mm256_set1_epi64x(15));
            Register(_mm256_srlv_epi64(_mm256_set1_epi64x(0x6996), nibble))
        }
    }
    #[inline(always)]
    fn store(x: Register, proof: Avx2, count: u32, to: &mut [u8]) {
        let to = &mut to[..count as usize * Self::BYTES];
        let mask = Self::greater(Self::splat_number(proof, count), Self::numbers(proof));
        // SAFETY: as above. The mask selects `count` lanes, and `to` has as many words.
        unsafe { _mm256_maskstore_epi64(to.as_mut_ptr().cast(), mask.0, x.0) }
    }
}

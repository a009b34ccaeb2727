//! Transfers whole registers to and from memory, through references: no pointer leaves this file.

use core::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx2")]
pub fn load_256<T: Copy, const N: usize>(from: &[T; N]) -> __m256i {
    const { assert!(size_of::<[T; N]>() == 32) };
    // SAFETY: `from` has 32 initialised bytes (all callers pass integers without padding), and the
    // load requires no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub fn store_256<T: Copy, const N: usize>(to: &mut [T; N], value: __m256i) {
    const { assert!(size_of::<[T; N]>() == 32) };
    // SAFETY: `to` has 32 bytes that may hold any bits (all callers pass integers), and the store
    // requires no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

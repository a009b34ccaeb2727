//! [`prefetch`]: fetches a line of memory before it is needed.

/// Starts to fetch the line at `address`, which may be any address. Does nothing on processors
/// without a known instruction for it.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    // Miri does not know the instruction.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing and cannot fault, whatever the address is.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above. The instruction writes no register and no flag.
    unsafe {
        use core::arch::asm;
        asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

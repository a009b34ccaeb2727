//! Which vector instructions the processor has: one detection and one dispatch for all families.
//!
//! A *kernel* is a hot loop. A family with vector code lists its kernels in a trait `Kernels` (its
//! `kernel.rs`). A type for each instruction set implements this trait:
//!
//! ```text
//! Portable   plain Rust, for every processor; the tests compare the others with it
//! Avx2       registers of 256 bits              Intel since Haswell, AMD since Excavator
//! Neon       registers of 128 bits              AArch64: Bloom's queries; the rest is portable
//! ```
//!
//! The instruction set is chosen at run time, so that one build of the library serves every x86-64
//! processor: a reader keeps an [`Isa`], and [`dispatch!`] maps it to one of these types.
//!
//! **Why calling a kernel is sound.** A function compiled for AVX2 must not run on a processor
//! without AVX2, so a call is `unsafe`. A value of `Avx2` or `Neon` is the proof: its
//! field is private, and a value is created only after the processor was checked. So code that
//! holds a value may call the kernels.
//!
//! Each type proves one list of features, which all families share.
//!
//! **There are no kernels of AVX-512.** They made filters alone faster, but whole lookups and whole
//! tables too little for their code.

#[cfg(target_arch = "x86_64")]
use core::sync::atomic::{AtomicU8, Ordering};

/// No requirements on the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Proof that the processor has AVX2, BMI2 and POPCNT.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2 {
    /// See [`Avx2::has_slow_products`].
    slow_products: bool,
}

/// Proof that the processor has NEON.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

/// An instruction set. A value exists only if the processor has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

/// Evaluates `$answer`, an expression that calls kernels on the name `$kernels`. The macro binds
/// this name to [`Portable`], or to the proof that the [`Isa`] `$isa` contains. All code that
/// chooses between kernels uses this macro.
macro_rules! dispatch {
    ($isa:expr, $kernels:ident => $answer:expr) => {
        match $isa {
            $crate::cpu::Isa::Portable => {
                let $kernels = $crate::cpu::Portable;
                $answer
            }
            #[cfg(target_arch = "x86_64")]
            $crate::cpu::Isa::Avx2($kernels) => $answer,
            #[cfg(target_arch = "aarch64")]
            $crate::cpu::Isa::Neon($kernels) => $answer,
        }
    };
}
pub(crate) use dispatch;

impl Isa {
    /// The best instruction set of this processor.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            return Isa::Avx2(avx2);
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(neon) = Neon::detect() {
            return Isa::Neon(neon);
        }
        Isa::Portable
    }

    /// All instruction sets of this processor, the best last: tests run every kernel, not only the
    /// fastest. AVX2 appears twice, because the kernels of [`Avx2`] depend on
    /// [`Avx2::has_slow_products`].
    #[cfg(test)]
    pub fn available() -> Vec<Isa> {
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let vector: [Option<Isa>; 0] = [];
        #[cfg(target_arch = "aarch64")]
        let vector = [Neon::detect().map(Isa::Neon)];
        #[cfg(target_arch = "x86_64")]
        let vector = [
            Avx2::detect().map(|_| Isa::Avx2(Avx2 { slow_products: true })),
            Avx2::detect().map(|_| Isa::Avx2(Avx2 { slow_products: false })),
        ];
        core::iter::once(Isa::Portable).chain(vector.into_iter().flatten()).collect()
    }
}

/// Whether the processor has a feature. This is cheap, because the standard library queries the
/// processor once and remembers the result. Without the standard library, the answer is "no" unless
/// the program is compiled for processors with the feature.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detected {
    ($feature:tt) => {{
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        let found = std::arch::is_x86_feature_detected!($feature);
        #[cfg(all(feature = "std", target_arch = "aarch64"))]
        let found = std::arch::is_aarch64_feature_detected!($feature);
        #[cfg(not(feature = "std"))]
        let found = cfg!(target_feature = $feature);
        found
    }};
}

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    fn detect() -> Option<Avx2> {
        (detected!("avx2") && detected!("bmi2") && detected!("popcnt"))
            .then(|| Avx2 { slow_products: is_intel() })
    }

    /// Whether multiplying eight 32-bit lanes is slow: 10 cycles on Intel's processors, 3 on AMD's
    /// Zen (VPMULLD at <https://uops.info>).
    #[inline(always)]
    pub fn has_slow_products(self) -> bool {
        self.slow_products
    }
}

/// The processor's manufacturer: [`UNKNOWN`], [`INTEL`] or [`ANOTHER`]. No lock guards the value,
/// because if a thread forked while another thread held the lock, the child process would wait for
/// the lock for ever. Without a lock two threads may both determine the manufacturer, with the same
/// result.
#[cfg(target_arch = "x86_64")]
static MAKER: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(target_arch = "x86_64")]
const UNKNOWN: u8 = 0;
#[cfg(target_arch = "x86_64")]
const INTEL: u8 = 1;
#[cfg(target_arch = "x86_64")]
const ANOTHER: u8 = 2;

/// Whether Intel made the processor. The answer of the `cpuid` instruction is kept, because in a
/// virtual machine the host executes this instruction, which takes microseconds.
#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    let mut maker = MAKER.load(Ordering::Relaxed);
    if maker == UNKNOWN {
        #[allow(unused_unsafe, reason = "safe in newer tool chains")]
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
        let answer = unsafe { core::arch::x86_64::__cpuid(0) };
        let name = [answer.ebx, answer.edx, answer.ecx].map(u32::to_le_bytes);
        maker = if name.as_flattened() == b"GenuineIntel" { INTEL } else { ANOTHER };
        MAKER.store(maker, Ordering::Relaxed);
    }
    maker == INTEL
}

#[cfg(target_arch = "aarch64")]
impl Neon {
    fn detect() -> Option<Neon> {
        detected!("neon").then_some(Neon(()))
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maker_is_the_one_that_the_system_names() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let maker = info.lines().find_map(|line| line.strip_prefix("vendor_id\t: "));
        // The second call returns the remembered result.
        for _ in 0..2 {
            assert_eq!(is_intel(), maker == Some("GenuineIntel"));
        }
    }
}

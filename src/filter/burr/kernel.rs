//! The two hot loops, once for each instruction set: does a key's row match, and back substitution.
//!
//! A [`Kernel`] says what the processor of this run has. [`Kernel::run`] enters a [`Task`] compiled
//! for it, so that a whole loop over many keys, not only its innermost step, is compiled with those
//! instructions. The plain code is the oracle of the vector code in `x86`.

use super::row::Row;
use super::solve;
#[cfg(target_arch = "x86_64")]
use super::x86::Avx2;
use super::x86::Avx512;
#[cfg(target_arch = "x86_64")]
pub(super) use super::x86::Vector;

/// Without vector instructions a word needs nothing more.
#[cfg(not(target_arch = "x86_64"))]
pub(super) trait Vector: super::row::Word {}
#[cfg(not(target_arch = "x86_64"))]
impl<W: super::row::Word> Vector for W {}

/// The left and the right block of a key: where their segments are.
#[derive(Clone, Copy)]
pub(super) struct Segments {
    /// Byte offset of the left block's segments.
    pub at: usize,
    /// Segments of the left block, and of the right one that count. The right block's follow.
    pub columns: u32,
}

/// An instruction set. A value exists only where the processor has it.
pub(super) trait Isa: Copy {
    /// Whether in every column the XOR of the slots that `left` and `right` select is the bit of the
    /// fingerprint. `true` if the segments are not inside `filter`. No branch depends on the data.
    fn matches<W: Vector>(
        self,
        filter: &[u8],
        segments: Segments,
        left: W,
        right: W,
        fingerprint: u32,
    ) -> bool;

    /// Back substitution: see [`solve::solve`].
    fn solve<R: Row<Word: Vector>>(
        self,
        rows: &[R],
        columns: u32,
        low_blocks: u32,
        segments: &mut [u8],
    );
}

/// Work that is compiled for every instruction set. `run` should be `#[inline(always)]`.
pub(super) trait Task {
    type Output;
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// What every processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

impl Isa for Plain {
    #[inline(always)]
    fn matches<W: Vector>(
        self,
        filter: &[u8],
        segments: Segments,
        left: W,
        right: W,
        fingerprint: u32,
    ) -> bool {
        let bytes = segments.columns as usize * W::BYTES;
        let Some(both) = filter.get(segments.at..segments.at + 2 * bytes) else { return true };
        let (left_block, right_block) = both.split_at(bytes);
        let columns = left_block.chunks_exact(W::BYTES).zip(right_block.chunks_exact(W::BYTES));
        let mut wrong = 0;
        for (column, (l, r)) in columns.enumerate() {
            let parity = W::read(l).and(left).parity() ^ W::read(r).and(right).parity();
            wrong |= parity ^ (fingerprint >> column & 1);
        }
        wrong == 0
    }

    fn solve<R: Row<Word: Vector>>(
        self,
        rows: &[R],
        columns: u32,
        low_blocks: u32,
        segments: &mut [u8],
    ) {
        solve::solve(rows, columns, low_blocks, segments);
    }
}

/// Which instruction set to use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Kernel {
    /// The best this processor has.
    pub fn detect() -> Kernel {
        Kernel::available().pop().unwrap_or(Kernel::Plain)
    }

    /// All that this processor has, the best last.
    pub fn available() -> Vec<Kernel> {
        #[allow(unused_mut)] // Elsewhere than on x86-64.
        let mut kernels = vec![Kernel::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(Avx2::detect().map(Kernel::Avx2));
            kernels.extend(Avx512::detect().map(Kernel::Avx512));
        }
        kernels
    }

    /// Runs a task compiled for this instruction set.
    #[inline(always)]
    pub fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            Kernel::Plain => task.run(Plain),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(isa) => isa.enter(task),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(isa) => isa.enter(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{MAX_COLUMNS, Row32, Row64, Word, equation, mix};
    use super::*;

    struct Solve<'a, R> {
        rows: &'a [R],
        columns: u32,
        low_blocks: u32,
    }

    impl<R: Row<Word: Vector>> Task for Solve<'_, R> {
        type Output = Vec<u8>;
        fn run<I: Isa>(self, isa: I) -> Vec<u8> {
            let mut segments = vec![0; self.rows.len() * self.columns as usize / 8];
            isa.solve(self.rows, self.columns, self.low_blocks, &mut segments);
            segments
        }
    }

    fn random_rows<R: Row>(count: u32) -> Vec<R> {
        let row = |slot| {
            let random = mix(u64::from(slot));
            let (coefficients, fingerprint) = equation(random);
            // One in eight is free.
            if random.is_multiple_of(8) {
                R::default()
            } else {
                R::new(coefficients, fingerprint, slot)
            }
        };
        (0..count).map(row).collect()
    }

    fn every_kernel_solves_alike<R: Row<Word: Vector>>() {
        let rows = random_rows::<R>(5 * R::Word::BITS);
        for columns in 1..=MAX_COLUMNS {
            for low_blocks in 0..=5 {
                let expected = Kernel::Plain.run(Solve { rows: &rows, columns, low_blocks });
                for kernel in Kernel::available() {
                    let found = kernel.run(Solve { rows: &rows, columns, low_blocks });
                    assert_eq!(found, expected, "{kernel:?}, {columns} columns, {low_blocks} low");
                }
            }
        }
    }

    #[test]
    fn every_kernel_solves_like_the_plain_one() {
        every_kernel_solves_alike::<Row32>();
        every_kernel_solves_alike::<Row64>();
    }

    struct Matches<'a, W> {
        filter: &'a [u8],
        segments: Segments,
        left: W,
        right: W,
        fingerprint: u32,
    }

    impl<W: Vector> Task for Matches<'_, W> {
        type Output = bool;
        fn run<I: Isa>(self, isa: I) -> bool {
            isa.matches(self.filter, self.segments, self.left, self.right, self.fingerprint)
        }
    }

    fn every_kernel_matches_alike<W: Vector>() {
        let filter: Vec<u8> = (0..2000).map(|i| mix(i) as u8).collect();
        for columns in 0..=MAX_COLUMNS {
            let segments = Segments { at: 3 + columns as usize, columns };
            for seed in 0..100 {
                let (all, _) = equation::<W>(mix(seed));
                let (left, right) = all.split(seed as u32 % W::BITS);
                let parity = |column: u32| {
                    let at = |column| segments.at + column as usize * W::BYTES;
                    let left = W::read(&filter[at(column)..]).and(left).parity();
                    left ^ W::read(&filter[at(columns + column)..]).and(right).parity()
                };
                let right_one: u32 = (0..columns).map(|column| parity(column) << column).sum();
                // The bits above the columns do not count; every one below does.
                let noise = if columns == 32 { 0 } else { (seed as u32) << columns };
                for kernel in Kernel::available() {
                    let answer = |fingerprint| {
                        kernel.run(Matches { filter: &filter, segments, left, right, fingerprint })
                    };
                    assert!(answer(right_one | noise), "{kernel:?} {columns} columns");
                    for column in 0..columns {
                        assert!(!answer(right_one ^ 1 << column), "{kernel:?} {columns} columns");
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_matches_what_the_columns_say() {
        every_kernel_matches_alike::<u32>();
        every_kernel_matches_alike::<u64>();
    }

    #[test]
    fn segments_outside_the_filter_match_everything() {
        let filter = vec![0; 100];
        for kernel in Kernel::available() {
            for at in [37, 100, 101, 1 << 40] {
                let segments = Segments { at, columns: 8 };
                let task =
                    Matches { filter: &filter, segments, left: 1u32, right: 1, fingerprint: 1 };
                assert!(kernel.run(task), "{kernel:?} at {at}");
            }
        }
    }
}

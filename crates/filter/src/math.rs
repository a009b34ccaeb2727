//! The functions of real numbers in the formulas of sizes and rates.
//!
//! They are `libm`'s on every system, with and without the standard library. The standard library
//! calls the C library of the system, whose last bit differs from system to system. Where a size is
//! rounded, that bit could decide the number of bytes. So the same keys and the same spec make the
//! same filter everywhere.

pub(crate) use libm::{ceil, exp, log as ln, log2, pow, round, sqrt};
#[cfg(feature = "textbook")]
pub(crate) use libm::{expm1, floor, log1p};

/// `base` multiplied by itself `exponent` times.
pub(crate) fn powi(base: f64, exponent: u32) -> f64 {
    let (mut square, mut rest, mut product) = (base, exponent, 1.0);
    while rest > 0 {
        if rest & 1 == 1 {
            product *= square;
        }
        square *= square;
        rest >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that were computed with the standard library's functions stay what they are.
    #[test]
    fn powers_are_those_of_the_standard_library() {
        for base in [0.0, 0.5, 0.9999, 1.0, 2.0, 1.0 / 3.0] {
            for exponent in [0, 1, 2, 7, 24, 64, 1001] {
                assert_eq!(powi(base, exponent), base.powi(exponent as i32), "{base}^{exponent}");
            }
        }
    }
}

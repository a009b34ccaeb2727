//! Text of bytes, counts and sizes, from [`maypole::text`], and of small numbers.

pub use maypole::text::{count, counted, escape, percent, size, unescape};

/// A number of blocks or reads, with four decimals, or with the two first digits if it is small.
pub fn small(number: f64) -> String {
    match number {
        0.0 => "0".into(),
        _ => {
            let decimals = 1 - number.abs().log10().floor() as i32;
            format!("{number:.*}", decimals.clamp(4, 12) as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Low rates gave columns of 0.0000.
    #[test]
    fn small_numbers_keep_two_digits() {
        let shown = [0.0, 1.0, 0.0957, 0.001_234, 0.000_012_34, 1e-7].map(small);
        assert_eq!(shown, ["0", "1.0000", "0.0957", "0.0012", "0.000012", "0.00000010"]);
    }
}

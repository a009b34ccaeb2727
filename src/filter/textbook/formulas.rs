//! The arithmetic of Bloom filters: how large, how many hashes, how often wrong.
//!
//! Literature: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM
//! 1970. P. Bose et al., "On the false-positive rate of Bloom filters", IPL 2008: the usual formula
//! is an approximation. K. Christensen, A. Roginsky, M. Jimeno, "A new analysis of the
//! false-positive rate of a Bloom filter", IPL 2010: how to compute it exactly.
//!
//! `n` keys set `k` bits each in an array of `m` bits. A bit stays 0 with probability
//! `(1 - 1/m)^(kn)`, nearly `e^(-kn/m)`. A key that is absent finds all its `k` bits set with about
//!
//! ```text
//!         (1 - e^(-kn/m))^k          smallest at k = ln 2 · m/n, where half of all bits are set
//!
//! 10 bits a key
//! hashes    1    2    3    4    5    6    7    8    9   10   13
//! rate %  9.5  3.3  1.7  1.2 0.94 0.84 0.82 0.85 0.92  1.0  1.6
//!                                  └ the best ┘
//! ```
//!
//! Around its minimum the curve is flat: one hash more or less changes little. At that minimum the
//! rate is `2^-k`, and a key takes `log2(1/rate) / ln 2 = 1.44 · log2(1/rate)` bits.

use std::f64::consts::LN_2;

/// Bits a key at the best number of hashes, if that could be a fraction: `-ln(rate) / (ln 2)²`.
pub fn bits_per_key(rate: f64) -> f64 {
    -rate.ln() / (LN_2 * LN_2)
}

/// The best number of hashes, as a fraction: `ln 2 · bits_per_key`.
pub fn best_hashes(bits_per_key: f64) -> f64 {
    LN_2 * bits_per_key
}

/// The best whole number of hashes. It is the better neighbour of [`best_hashes`], which rounding
/// does not always find. At most 1,000: no rate that a double can hold takes more.
pub fn whole_hashes(bits_per_key: f64) -> u32 {
    let down = best_hashes(bits_per_key).floor().clamp(1.0, 1000.0) as u32;
    let better_up = rate(bits_per_key, down + 1) < rate(bits_per_key, down);
    down + u32::from(better_up)
}

/// The usual approximation `(1 - e^(-k/b))^k`. It is a little low for small filters.
pub fn rate(bits_per_key: f64, hashes: u32) -> f64 {
    (1.0 - (-f64::from(hashes) / bits_per_key).exp()).powi(hashes as i32)
}

/// The exact rate when each hash has an array of its own, of `bits / hashes` bits: the arrays are
/// independent, so their rates multiply.
pub fn rate_of_split(bits: usize, keys: usize, hashes: u32) -> f64 {
    let array_bits = bits as f64 / f64::from(hashes);
    (1.0 - (1.0 - 1.0 / array_bits).powf(keys as f64)).powi(hashes as i32)
}

/// The exact rate of one shared array with independent hashes: the mean of `(set / m)^k` over how
/// many bits may be set. It takes `keys · hashes · bits` steps, so it is for small filters.
pub fn exact_rate(bits: usize, keys: usize, hashes: u32) -> f64 {
    let m = bits as f64;
    // likely[i]: the probability that i bits are set.
    let mut likely = vec![0.0; bits + 1];
    likely[0] = 1.0;
    for _ in 0..keys * hashes as usize {
        for set in (1..=bits).rev() {
            let (stays, grows) = (set as f64 / m, 1.0 - (set as f64 - 1.0) / m);
            likely[set] = likely[set] * stays + likely[set - 1] * grows;
        }
        likely[0] = 0.0;
    }
    likely.iter().enumerate().map(|(set, p)| p * (set as f64 / m).powi(hashes as i32)).sum()
}

/// The fewest bits for `keys` keys with a whole number of hashes, and that number. [`bits_per_key`]
/// falls short of it by up to 1 % at the usual rates, because hashes come in whole numbers.
pub fn whole_shape(keys: usize, rate_wanted: f64) -> (usize, u32) {
    let keys = keys.max(1) as f64;
    let best = |bits: usize| {
        let hashes = whole_hashes(bits as f64 / keys);
        (rate(bits as f64 / keys, hashes), hashes)
    };
    // One hash reaches every rate, with more bits than any better number.
    let enough = (-keys / (-rate_wanted).ln_1p()) as usize;
    let (mut too_few, mut enough) = (0, enough.saturating_add(1));
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if best(middle).0 <= rate_wanted {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    (enough, best(enough).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, relative: f64) {
        assert!((found / expected - 1.0).abs() < relative, "{found}, not {expected}");
    }

    #[test]
    fn the_figures_that_everybody_quotes() {
        close(bits_per_key(0.01), 9.585, 1e-3);
        close(bits_per_key(0.001), 14.378, 1e-3);
        close(best_hashes(bits_per_key(0.01)), 6.644, 1e-3);
        assert_eq!(
            [0.5, 0.01, 0.001, 0.0001].map(|r| whole_hashes(bits_per_key(r))),
            [1, 7, 10, 13]
        );
        close(rate(10.0, 7), 0.00819, 1e-2);
    }

    #[test]
    fn a_filter_so_small_that_it_can_be_counted_out() {
        // One key, one hash: one bit of two is set.
        assert_eq!(exact_rate(2, 1, 1), 0.5);
        // One key, two hashes, two bits: the same bit (1/2) or both (1/2).
        close(exact_rate(2, 1, 2), 0.5 * 0.25 + 0.5, 1e-12);
        assert_eq!(exact_rate(10, 0, 3), 0.0);
    }

    #[test]
    fn the_usual_formula_is_low_for_small_filters_and_right_for_large_ones() {
        let [small, large] = [10, 200].map(|keys| exact_rate(10 * keys, keys, 7) / rate(10.0, 7));
        assert!(small > 1.05 && large > 1.0 && large < 1.01, "{small} {large}");
        // Arrays of their own lose a little more.
        assert!(rate_of_split(1000, 100, 7) > exact_rate(1000, 100, 7));
        close(rate_of_split(7_000_000, 700_000, 7), rate(10.0, 7), 1e-4);
    }

    #[test]
    fn a_whole_shape_reaches_the_rate_and_is_the_smallest() {
        assert_eq!(whole_shape(1000, 0.99), (218, 1));
        for wanted in [0.3, 0.05, 0.01, 0.001] {
            let (bits, hashes) = whole_shape(10_000, wanted);
            assert!(rate(bits as f64 / 1e4, hashes) <= wanted);
            let fewer = (bits - 1) as f64 / 1e4;
            assert!(rate(fewer, whole_hashes(fewer)) > wanted);
            let fraction = bits as f64 / 1e4 / bits_per_key(wanted);
            assert!((0.9999..1.05).contains(&fraction), "{wanted}: {fraction}");
        }
    }
}

//! The arithmetic of Bloom filters: size, number of hashes, false-positive rate.
//!
//! Literature: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM
//! 1970). P. Bose et al., "On the false-positive rate of Bloom filters" (IPL 2008), shows that the
//! usual formula is an approximation. K. Christensen, A. Roginsky, M. Jimeno, "A new analysis of
//! the false-positive rate of a Bloom filter" (IPL 2010), shows how to compute it exactly.
//!
//! `n` keys set `k` bits each in an array of `m` bits. A bit stays 0 with probability
//! `(1 - 1/m)^(kn)`, nearly `e^(-kn/m)`. An absent key finds all its `k` bits set with a
//! probability of about
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
//! Near the best number of hashes the rate hardly changes: one hash more or less matters little. At
//! the best number the rate is `2^-k`, and a key takes `log2(1/rate) / ln 2 = 1.44 · log2(1/rate)`
//! bits.
//!
//! The formula treats the share of set bits as a fixed number. In fact the share is random, and the
//! rate is the mean of its `k`th power, which is higher than the power of its mean. In an array of
//! ten thousand bits the difference is small; in one of ten bits the rate is several times the
//! formula's. Filters are therefore sized by [`exact_rate`].

use core::f64::consts::LN_2;

use crate::bloom::sizing::bisect;
use crate::math::{exp, expm1, floor, ln, log1p, pow, powi};

/// The most hashes of a key.
pub const MAX_HASHES: u32 = 64;

/// The most bits of an array that is sized exactly: 2^53, because doubles represent every integer
/// up to it.
const MAX_EXACT_BITS: f64 = 9_007_199_254_740_992.0;

/// The number of bits for each key at this rate, if the number of hashes could be the best
/// fraction: `-ln(rate) / (ln 2)²`.
pub fn bits_per_key(rate: f64) -> f64 {
    -ln(rate) / (LN_2 * LN_2)
}

/// The best number of hashes, which is rarely whole: `ln 2 · bits_per_key`.
pub fn best_hashes(bits_per_key: f64) -> f64 {
    LN_2 * bits_per_key
}

/// The best whole number of hashes: of the two neighbours of [`best_hashes`] the one with the lower
/// rate, which is not always the nearer one. The result may be as high as 1,001, so a caller that
/// makes a filter limits it to [`MAX_HASHES`].
pub fn whole_hashes(bits_per_key: f64) -> u32 {
    let down = floor(best_hashes(bits_per_key)).clamp(1.0, 1000.0) as u32;
    let better_up = rate(bits_per_key, down + 1) < rate(bits_per_key, down);
    down + u32::from(better_up)
}

/// The usual approximation of the rate, `(1 - e^(-k/b))^k`, at `b` bits a key and `k` hashes. It is
/// too low for small filters.
pub fn rate(bits_per_key: f64, hashes: u32) -> f64 {
    powi(1.0 - exp(-f64::from(hashes) / bits_per_key), hashes)
}

/// The exact rate when each hash has a separate array of `bits / hashes` bits: the arrays are
/// independent, so their rates multiply.
pub fn rate_of_split(bits: usize, keys: usize, hashes: u32) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    let array_bits = bits as f64 / f64::from(hashes);
    let fill = -expm1(keys as f64 * log1p(-1.0 / array_bits));
    powi(fill, hashes)
}

/// The exact rate of one shared array with independent hashes: the mean of `(set / m)^k`, where
/// `set` is the random number of set bits.
///
/// The computation follows one query, which reads `d ≤ k` distinct bits, while the keys set their
/// `kn` bits one after the other. Each of these `kn` bits is, with probability `u / m`, one of the
/// `u` bits of the query that are still 0:
///
/// ```text
/// zeros among the bits of the query   3 ──3/m──► 2 ──2/m──► 1 ──1/m──► 0    wrong
/// ```
///
/// All terms are positive, so no precision is lost by cancellation, unlike in the sum over
/// inclusions and exclusions of Bose et al. The computation takes `k³ log(kn)` steps.
///
/// # Panics
/// Unless `hashes` is 1 to [`MAX_HASHES`].
pub fn exact_rate(bits: usize, keys: usize, hashes: u32) -> f64 {
    assert!((1..=MAX_HASHES).contains(&hashes), "1 to {MAX_HASHES} hashes, not {hashes}");
    const STATES: usize = MAX_HASHES as usize + 1;
    let m = bits.max(1) as f64;
    let most = (hashes as usize).min(bits.max(1));
    // zeros[u]: the probability that u bits of the query are 0. Before any key is added, u is the
    // number of the query's distinct bits.
    let mut zeros = [0.0; STATES];
    zeros[0] = 1.0;
    for _ in 0..hashes {
        for distinct in (1..=most).rev() {
            let (again, new) = (distinct as f64 / m, 1.0 - (distinct as f64 - 1.0) / m);
            zeros[distinct] = zeros[distinct] * again + zeros[distinct - 1] * new;
        }
        zeros[0] = 0.0;
    }
    // step[u][v]: the probability that v of u zeros are left after 2^i more bits were set, in round
    // i of the loop.
    let mut step = [[0.0; STATES]; STATES];
    step[0][0] = 1.0;
    for u in 1..=most {
        (step[u][u], step[u][u - 1]) = (1.0 - u as f64 / m, u as f64 / m);
    }
    let mut left = keys as u128 * u128::from(hashes);
    while left > 0 {
        if left % 2 == 1 {
            for v in 0..=most {
                zeros[v] = (v..=most).map(|u| zeros[u] * step[u][v]).sum();
            }
        }
        let once = step;
        for u in 0..=most {
            for v in 0..=u {
                step[u][v] = (v..=u).map(|between| once[u][between] * once[between][v]).sum();
            }
        }
        left /= 2;
    }
    zeros[0]
}

/// The fewest bits of one shared array, and its number of hashes, with which the mean rate over all
/// sets of `keys` keys, [`exact_rate`], is at most `rate_wanted`. `keys` counts as at least 1, and
/// the hashes are at most [`MAX_HASHES`]. The usual formula, [`bits_per_key`], gives up to 1 % too
/// few bits at the usual rates, because it assumes a fraction of a hash. For few keys its error is
/// larger.
///
/// # Panics
/// Unless `rate_wanted` is above 0 and below 1.
pub fn whole_shape(keys: usize, rate_wanted: f64) -> (usize, u32) {
    fewest(keys, rate_wanted, 1, |bits, hashes| exact_rate(bits, keys.max(1), hashes))
}

/// Like [`whole_shape`], but each hash has a separate array: the bits are a multiple of the hashes,
/// and the rate is [`rate_of_split`].
///
/// # Panics
/// Unless `rate_wanted` is above 0 and below 1.
pub fn split_shape(keys: usize, rate_wanted: f64) -> (usize, u32) {
    let arrays = MAX_HASHES;
    fewest(keys, rate_wanted, arrays, |bits, hashes| rate_of_split(bits, keys.max(1), hashes))
}

/// The fewest bits whose `rate` is at most `wanted`, and the number of hashes. The bits are a
/// multiple of the number of arrays: one for each hash, but at most `most_arrays`.
fn fewest(
    keys: usize,
    wanted: f64,
    most_arrays: u32,
    rate: impl Fn(usize, u32) -> f64,
) -> (usize, u32) {
    assert!(wanted > 0.0 && wanted < 1.0, "a rate between 0 and 1, not {wanted}");
    let keys = keys.max(1) as f64;
    // With few hashes, one hash more or less makes a difference, and the usual formula may choose a
    // wrong number. So the search starts at the formula's number and moves while the result
    // improves.
    let start = whole_hashes(bits_per_key(wanted)).min(MAX_HASHES);
    let with = |hashes: u32| {
        let arrays = f64::from(hashes.min(most_arrays));
        let fill = pow(wanted, 1.0 / f64::from(hashes));
        let guess = -f64::from(hashes) * keys / log1p(-fill) / arrays;
        let most = |array_bits: f64| (array_bits as usize).saturating_mul(arrays as usize);
        if guess >= MAX_EXACT_BITS {
            // No memory holds such a filter, and the usual formula is correct to all digits.
            return most(guess);
        }
        let rate = |array: usize| rate(array.saturating_mul(arrays as usize), hashes);
        // One step of Newton's method on the logarithms of bits and rate. Its slope is that of the
        // usual formula, from which the slope of the exact rate hardly differs. The remaining error
        // is a few bits.
        let guess = floor(guess.max(1.0));
        let per_bit = f64::from(hashes) * keys / arrays / guess;
        let slope = f64::from(hashes) * per_bit / expm1(per_bit);
        let better = guess * pow(rate(guess as usize) / wanted, 1.0 / slope);
        let guess = if better < 2.0 * guess { better } else { guess };
        most(first_that(guess as usize, |array| rate(array) <= wanted) as f64)
    };
    let mut best = (with(start), start);
    for hashes in (1..start).rev() {
        let bits = with(hashes);
        if bits > best.0 {
            break;
        }
        best = (bits, hashes);
    }
    for hashes in start + 1..=MAX_HASHES {
        let bits = with(hashes);
        if bits >= best.0 {
            break;
        }
        best = (bits, hashes);
    }
    best
}

/// The smallest number from 1 on for which `fits` holds; it must hold for all larger numbers too.
/// The search starts at `guess`, with steps that double.
fn first_that(guess: usize, fits: impl Fn(usize) -> bool) -> usize {
    // 0 counts as a number that does not fit.
    let (mut too_few, mut enough);
    let mut step = 1;
    if fits(guess.max(1)) {
        enough = guess.max(1);
        too_few = enough - 1;
        while too_few > 0 && fits(too_few) {
            enough = too_few;
            too_few = too_few.saturating_sub(step);
            step *= 2;
        }
    } else {
        too_few = guess.max(1);
        enough = too_few + 1;
        while !fits(enough) {
            too_few = enough;
            enough += step;
            step *= 2;
        }
    }
    bisect(too_few, enough, fits)
}

/// The bits and hashes by the usual formula, which gives too few bits for few keys. Layers of
/// scalable filters that were saved as `SBF1` have this shape, so the function must not change.
pub(super) fn classical_shape(keys: usize, rate_wanted: f64) -> (usize, u32) {
    let keys = keys.max(1) as f64;
    let best = |bits: usize| {
        let hashes = whole_hashes(bits as f64 / keys);
        (rate(bits as f64 / keys, hashes), hashes)
    };
    // `enough` starts as the number of bits that a single hash needs. One hash can reach every
    // rate, and the best number of hashes takes no more bits.
    let enough = (-keys / log1p(-rate_wanted)) as usize;
    let enough = bisect(0, enough.saturating_add(1), |bits| best(bits).0 <= rate_wanted);
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
        // One key, two hashes, two bits: with probability 1/2 both hashes set the same bit, and
        // with probability 1/2 they set both bits.
        close(exact_rate(2, 1, 2), 0.5 * 0.25 + 0.5, 1e-12);
        assert_eq!(exact_rate(10, 0, 3), 0.0);
    }

    #[test]
    fn the_usual_formula_is_low_for_small_filters_and_right_for_large_ones() {
        let [small, large] = [10, 200].map(|keys| exact_rate(10 * keys, keys, 7) / rate(10.0, 7));
        assert!(small > 1.05 && large > 1.0 && large < 1.01, "{small} {large}");
        // With separate arrays the rate is a little higher.
        assert!(rate_of_split(1000, 100, 7) > exact_rate(1000, 100, 7));
        close(rate_of_split(7_000_000, 700_000, 7), rate(10.0, 7), 1e-4);
    }

    /// The recurrence of Christensen et al. for the number of set bits, in `keys · hashes · bits`
    /// steps.
    fn plain_rate(bits: usize, keys: usize, hashes: u32) -> f64 {
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

    #[test]
    fn the_exact_rate_is_that_of_the_plain_recurrence() {
        for bits in [1, 2, 3, 7, 10, 64, 96, 300] {
            for keys in [1, 2, 3, 10, 31, 64] {
                for hashes in [1, 2, 3, 7, 13, 20, 64] {
                    let (fast, plain) =
                        (exact_rate(bits, keys, hashes), plain_rate(bits, keys, hashes));
                    close(fast, plain, 1e-9);
                }
            }
        }
        // These numbers are too large for the recurrence. But the variance of the number of set
        // bits, 0.25 (1 - ln 2) m, gives the first term of the error of the usual formula.
        let (keys, hashes) = (10_000_000, 10u32);
        let bits = (f64::from(hashes) * keys as f64 / LN_2) as usize;
        let lacks = exact_rate(bits, keys, hashes) / 0.5f64.powi(10) - 1.0;
        let k = f64::from(hashes);
        let expected = (k * (k - 1.0) / 2.0 * (0.25 - 0.25 * LN_2) + k / 2.0 * LN_2 / 2.0) * 4.0;
        assert!(lacks > 0.0 && lacks < 2.0 * expected / bits as f64 + 1e-6, "{lacks}");
    }

    /// The shape once came from the usual formula, which holds only for many keys. Filters of 1, 2
    /// and 10 keys were wrong 7, 4 and 1.5 times as often as intended. Now the exact rate decides
    /// the size, and no smaller array would be enough.
    #[test]
    fn a_whole_shape_reaches_the_exact_rate_and_is_the_smallest() {
        for keys in [1, 2, 3, 5, 10, 20] {
            for wanted in [0.9, 0.3, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-6] {
                let (bits, hashes) = whole_shape(keys, wanted);
                assert!(exact_rate(bits, keys, hashes) <= wanted, "{keys} {wanted}");
                let smaller = (1..=24).any(|k| exact_rate(bits - 1, keys, k) <= wanted);
                assert!(bits == 1 || !smaller, "{keys} {wanted}: {bits} {hashes}");
                let (bits, hashes) = split_shape(keys, wanted);
                assert!(rate_of_split(bits, keys, hashes) <= wanted && bits % hashes as usize == 0);
            }
        }
        assert!(classical_shape(1, 0.01).0 < whole_shape(1, 0.01).0);
        for wanted in [0.3, 0.05, 0.01, 0.001, 1e-9] {
            let (bits, hashes) = whole_shape(10_000, wanted);
            assert!(exact_rate(bits, 10_000, hashes) <= wanted);
            assert!(exact_rate(bits - 1, 10_000, hashes) > wanted);
            let fraction = bits as f64 / 1e4 / bits_per_key(wanted);
            assert!((0.9999..1.05).contains(&fraction), "{wanted}: {fraction}");
        }
        // For a filter that no memory holds, a size is returned without a long search.
        assert!(whole_shape(usize::MAX, f64::MIN_POSITIVE).0 > 1 << 60);
    }

    #[test]
    fn the_classical_shape_is_what_it_always_was() {
        assert_eq!(classical_shape(1000, 0.99), (218, 1));
        assert_eq!(classical_shape(100, 0.005), (1104, 8));
        for wanted in [0.3, 0.05, 0.01, 0.001] {
            let (bits, hashes) = classical_shape(10_000, wanted);
            assert!(rate(bits as f64 / 1e4, hashes) <= wanted);
            let fewer = (bits - 1) as f64 / 1e4;
            assert!(rate(fewer, whole_hashes(fewer)) > wanted);
        }
    }
}

//! The size of a Bloom filter and its false-positive rate: pure functions, each with its source.
//!
//! A textbook Bloom filter takes `log2(e) = 1.44` times the lower bound, the bits that any filter
//! with the same rate needs at least ([`filter::sizing`](crate::sizing)). A filter whose
//! probes stay within a 64-byte line takes a little more, because some lines get more keys than
//! others, and the fuller lines give more false positives.
//!
//! ```text
//! ε        bound   textbook Bloom   RocksDB's Bloom
//! 1 %      6.64         9.59              9.90
//! 0.1 %    9.97        14.38             15.5         bits a key
//! ```
//!
//! So the rule of thumb that 10 bits a key give a rate of 1 % is nearly true. Dividing the rate of
//! 1 % by ten costs 4.8 more bits a key in the textbook filter, and 5.6 in RocksDB's.

use alloc::vec;
use alloc::vec::Vec;

use crate::math::{exp, ln, log2, pow, powi, sqrt};
use crate::memory::LINE_BYTES;

/// Bits of a Bloom line.
const LINE_BITS: f64 = 8.0 * LINE_BYTES as f64;

/// The largest payload of a RocksDB Bloom filter: a multiple of 64 below 4 GiB.
const MAX_BLOOM_BYTES: u64 = 0xffff_ffc0;

/// Payload bytes of RocksDB's Bloom filter for `keys` keys (RocksDB's
/// `table/block_based/filter_policy.cc`).
pub fn bloom_bytes(keys: usize, millibits_per_key: u32) -> usize {
    let bits_times_1000 = (keys as u64).saturating_mul(u64::from(millibits_per_key));
    let bytes = (bits_times_1000.saturating_add(7999) / 8000).min(MAX_BLOOM_BYTES);
    (bytes as usize).next_multiple_of(LINE_BYTES)
}

/// The number of probes of RocksDB's Bloom filter. Its authors measured the break points, which are
/// the sizes where the number changes (`util/bloom_impl.h`, `ChooseNumProbes`). From 10.1 bits a
/// key on, the number is always below the textbook's `0.69 × bits`, because more probes would make
/// the fullest lines even fuller.
pub fn bloom_probes(millibits_per_key: u32) -> u32 {
    const UP_TO: [u32; 12] =
        [2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501];
    match UP_TO.iter().position(|&limit| millibits_per_key <= limit) {
        Some(i) => i as u32 + 1,
        None if millibits_per_key > 50_000 => 24,
        None => (millibits_per_key - 1) / 2000 - 1,
    }
}

/// The rate of a textbook Bloom filter: `(1 - e^(-k/b))^k` (Bloom 1970).
pub fn standard_bloom_fpr(bits_per_key: f64, probes: u32) -> f64 {
    powi(1.0 - exp(-f64::from(probes) / bits_per_key), probes)
}

/// RocksDB's estimate of the rate of its Bloom filter: the mean of the rates of two lines, one with
/// a standard deviation more keys than the average and one with a standard deviation fewer
/// (`util/bloom_impl.h`, `CacheLocalFpRate`). At 16 bits a key the estimate is about 4 % too low.
/// Maypole needs the estimate, because RocksDB sizes Ribbon filters by it.
pub fn rocksdb_bloom_fpr(millibits_per_key: u32) -> f64 {
    let probes = bloom_probes(millibits_per_key);
    let keys_per_line = LINE_BITS / (f64::from(millibits_per_key) / 1000.0);
    let deviation = sqrt(keys_per_line);
    let fuller = standard_bloom_fpr(LINE_BITS / (keys_per_line + deviation), probes);
    let emptier = standard_bloom_fpr(LINE_BITS / (keys_per_line - deviation), probes);
    (fuller + emptier) / 2.0
}

/// The rate of a Bloom filter whose keys fall on 512-bit lines at random: the number of keys on a
/// line is Poisson distributed, and each line is a small Bloom filter (Putze, Sanders, Singler, WEA
/// 2007, section 3).
pub fn cache_line_bloom_fpr(keys_per_line: f64, probes: u32) -> f64 {
    #[cfg(test)]
    tests::SUMS.with(|sums| sums.set(sums.get() + 1));
    if keys_per_line <= 0.0 {
        return 0.0;
    }
    // The sum is over the numbers of keys from twelve standard deviations below the mean to twelve
    // above. All others together add less than 1e-26.
    let reach = 12.0 * sqrt(keys_per_line) + 12.0;
    let first = (keys_per_line - reach).max(1.0) as u64;
    let last = (keys_per_line + reach) as u64;
    let mut ln_weight = -keys_per_line + first as f64 * ln(keys_per_line)
        - (1..=first).map(|i| ln(i as f64)).sum::<f64>();
    let mut fpr = 0.0;
    for keys in first..=last {
        let zero = pow((LINE_BITS - 1.0) / LINE_BITS, keys as f64 * f64::from(probes));
        fpr += exp(ln_weight) * powi(1.0 - zero, probes);
        ln_weight += ln(keys_per_line / (keys + 1) as f64);
    }
    fpr.min(1.0)
}

/// Returns the distribution of the number of set bits in a line of `line_bits` bits, which must be
/// at least 1. Index b holds the probability of exactly b set bits. The number of keys on the line
/// is Poisson distributed with mean `keys_per_line`, and each key sets `probes` bits at random.
pub fn bits_set_distribution(keys_per_line: f64, probes: u32, line_bits: usize) -> Vec<f64> {
    /// Smaller probabilities count as 0.
    const NEGLIGIBLE: f64 = 1e-15;
    let bits = line_bits as f64;
    // The mean number of keys is limited, so that the loop below ends soon. A larger mean would
    // change little, because a line with as many keys as the limit has nearly all bits set.
    let keys_per_line = keys_per_line.clamp(0.0, 12.0 * bits / f64::from(probes.max(1)));
    let last = (keys_per_line + 12.0 * sqrt(keys_per_line) + 12.0) as u64;
    // The distribution when exactly `keys` keys are on the line. Outside of `low..=high` it is 0.
    let mut exactly = vec![0.0; line_bits + 1];
    exactly[0] = 1.0;
    let (mut low, mut high) = (0, 0);
    let mut mixed = vec![0.0; line_bits + 1];
    let mut ln_weight = -keys_per_line;
    for keys in 0..=last {
        let weight = exp(ln_weight);
        for set in low..=high {
            mixed[set] += weight * exactly[set];
        }
        ln_weight += ln(keys_per_line / (keys + 1) as f64);
        for _ in 0..probes {
            high = (high + 1).min(line_bits);
            for set in (low..=high).rev() {
                let stays = exactly[set] * set as f64 / bits;
                let comes = if set > low { exactly[set - 1] } else { 0.0 };
                exactly[set] = stays + comes * (bits - set as f64 + 1.0) / bits;
            }
            while low < high && exactly[low] < NEGLIGIBLE {
                exactly[low] = 0.0;
                low += 1;
            }
            while high > low && exactly[high] < NEGLIGIBLE {
                exactly[high] = 0.0;
                high -= 1;
            }
        }
    }
    mixed
}

/// The rate of RocksDB's Bloom filter with the number of probes that [`bloom_probes`] chooses.
pub fn bloom_fpr(millibits_per_key: u32) -> f64 {
    let keys_per_line = LINE_BITS / (f64::from(millibits_per_key) / 1000.0);
    cache_line_bloom_fpr(keys_per_line, bloom_probes(millibits_per_key))
}

/// The fewest thousandths of a bit a key at which RocksDB's Bloom filter has at most the
/// false-positive rate `fpr`; the largest size allowed (100 bits a key) if no size is enough.
///
/// Bisection works because the rate falls as the size grows, except at some break points of
/// [`bloom_probes`], where it rises by up to 11 %. There the result may be up to 1 % too large.
pub fn bloom_millibits_for_fpr(fpr: f64) -> u32 {
    bisect(999, 100_000, |millibits| bloom_fpr(millibits as u32) <= fpr) as u32
}

/// Steps of [`MILLIBITS_FOR_RATES`] for each halving of the rate. The bits are nearly a line in the
/// logarithm of the rate, so a few are enough.
const STEPS: f64 = 4.0;

/// [`bloom_millibits_for_fpr`] of the rates 2^(-i / 4). The last rate, 2^-32, is lower than the
/// lowest rate of every family.
const MILLIBITS_FOR_RATES: [u32; 129] = [
    1000, 1000, 1000, 1108, 1443, 1834, 2216, 2540, 2889, 3265, 3652, 3990, 4346, 4720, 5111, 5460,
    5822, 6200, 6593, 6957, 7327, 7710, 8105, 8490, 8869, 9258, 9660, 10_071, 10_455, 10_855,
    11_264, 11_685, 12_096, 12_506, 12_927, 13_357, 13_799, 14_222, 14_655, 15_098, 15_551, 16_015,
    16_459, 16_916, 17_384, 17_862, 18_347, 18_821, 19_305, 19_799, 20_303, 20_818, 21_344, 21_881,
    22_360, 22_893, 23_438, 23_994, 24_561, 25_140, 25_982, 26_334, 26_950, 27_579, 28_028, 28_653,
    29_290, 29_941, 30_465, 31_115, 31_777, 32_387, 33_053, 33_731, 34_424, 35_107, 35_803, 36_577,
    37_281, 38_137, 38_853, 39_581, 40_516, 41_257, 42_269, 43_026, 43_796, 44_889, 45_677, 46_846,
    47_654, 48_900, 50_211, 51_052, 51_906, 52_775, 53_657, 54_554, 55_466, 56_393, 57_336, 58_294,
    59_268, 60_258, 61_265, 62_290, 63_331, 64_390, 65_468, 66_564, 67_679, 68_813, 69_966, 71_140,
    72_335, 73_550, 74_786, 76_045, 77_326, 78_629, 79_956, 81_306, 82_681, 84_081, 85_506, 86_956,
    88_433, 89_938, 91_469,
];

/// The bits a key that [`bloom_millibits_for_fpr`] finds, within 2 %, or 4 % for rates over 0.6.
/// They are interpolated: its bisection takes a tenth of a millisecond, and dividing a budget takes
/// hundreds of such estimates. Rates lower than 2^-32 count as 2^-32.
pub fn bloom_bits_for_rate(fpr: f64) -> f64 {
    let last = MILLIBITS_FOR_RATES.len() - 1;
    let at = (-STEPS * log2(fpr)).clamp(0.0, last as f64);
    let step = (at as usize).min(last - 1);
    let part = at - step as f64;
    let [from, to] = [step, step + 1].map(|step| f64::from(MILLIBITS_FOR_RATES[step]) / 1000.0);
    from * (1.0 - part) + to * part
}

/// Finds by bisection the smallest number for which `fits` returns true. The function takes for
/// granted that `fits` is false for `too_few` and true for `enough`, and calls it for neither of
/// these two. So the result is `enough` if no number between them fits.
pub(crate) fn bisect(mut too_few: usize, mut enough: usize, fits: impl Fn(usize) -> bool) -> usize {
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if fits(middle) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    enough
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::Family;

    std::thread_local! {
        /// How often this thread has called [`cache_line_bloom_fpr`].
        pub(super) static SUMS: Cell<usize> = const { Cell::new(0) };
    }

    fn close(found: f64, expected: f64, relative: f64) {
        assert!((found / expected - 1.0).abs() < relative, "{found}, not {expected}");
    }

    #[test]
    fn sizes_and_probes_are_rocksdbs() {
        assert_eq!(bloom_bytes(0, 10_000), 0);
        assert_eq!(bloom_bytes(1, 10_000), 64);
        assert_eq!(bloom_bytes(51, 10_000), 64);
        assert_eq!(bloom_bytes(52, 10_000), 128);
        assert_eq!(bloom_bytes(10_000_000_000, 10_000), MAX_BLOOM_BYTES as usize);
        for (millibits, probes) in [
            (1000, 1),
            (2080, 1),
            (2081, 2),
            (9900, 6),
            (10_000, 6),
            (10_112, 7),
            (16_000, 9),
            (25_501, 12),
            (25_502, 11),
            (50_000, 23),
            (50_001, 24),
            (100_000, 24),
        ] {
            assert_eq!(bloom_probes(millibits), probes, "{millibits}");
        }
    }

    #[test]
    fn rates_are_the_published_ones() {
        close(standard_bloom_fpr(10.0, 7), 0.00819, 0.01);
        close(rocksdb_bloom_fpr(5000), 0.09269, 0.001);
        close(rocksdb_bloom_fpr(10_000), 0.00953, 0.001);
        close(rocksdb_bloom_fpr(16_000), 0.000797, 0.001);
        close(bloom_fpr(5000), 0.09289, 0.002);
        close(bloom_fpr(10_000), 0.00958, 0.002);
        close(bloom_fpr(16_000), 0.000826, 0.002);
        assert_eq!(cache_line_bloom_fpr(0.0, 6), 0.0);
        assert_eq!(cache_line_bloom_fpr(1e6, 6), 1.0);
    }

    #[test]
    fn bits_set_are_those_of_balls_in_bins() {
        for (keys_per_line, probes, line_bits) in
            [(0.0, 6, 512), (0.3, 1, 512), (51.2, 6, 512), (5.0, 24, 512), (50.0, 7, 1024)]
        {
            let distribution = bits_set_distribution(keys_per_line, probes, line_bits);
            assert_eq!(distribution.len(), line_bits + 1);
            close(distribution.iter().sum(), 1.0, 1e-9);
            let bits = line_bits as f64;
            // A bit stays 0 if no key sets it: the number of keys is Poisson distributed, and each
            // key misses the bit `probes` times.
            let missed = (1.0 - 1.0 / bits).powi(probes as i32);
            let mean = bits * (1.0 - (-keys_per_line * (1.0 - missed)).exp());
            let found: f64 = distribution.iter().enumerate().map(|(b, p)| b as f64 * p).sum();
            assert!((found - mean).abs() < 1e-6, "{found}, not {mean}");
        }
        for full in [1e6, f64::INFINITY] {
            assert!(bits_set_distribution(full, 30, 512)[512] > 0.99, "{full}");
        }
    }

    /// The rate of a line with b bits set is (b / 512)^k, and the mean over all lines is the
    /// filter's rate.
    #[test]
    fn bits_set_explain_the_false_positive_rate() {
        let (keys_per_line, probes) = (51.2, 6);
        let lines = bits_set_distribution(keys_per_line, probes, 512);
        let rate = |b: usize| (b as f64 / 512.0).powi(probes as i32);
        let found: f64 = lines.iter().enumerate().map(|(b, p)| p * rate(b)).sum();
        close(found, cache_line_bloom_fpr(keys_per_line, probes), 0.02);
    }

    #[test]
    fn the_size_for_a_rate_is_the_smallest_that_reaches_it() {
        close(f64::from(bloom_millibits_for_fpr(0.01)), 9900.0, 0.01);
        close(f64::from(bloom_millibits_for_fpr(0.001)), 15_490.0, 0.01);
        for fpr in [0.5, 0.1, 0.02, 1e-3, 1e-5, 1e-8] {
            let millibits = bloom_millibits_for_fpr(fpr);
            assert!(bloom_fpr(millibits) <= fpr);
            assert!(bloom_fpr(millibits - 1) > fpr);
        }
        assert_eq!(bloom_millibits_for_fpr(1.0), 1000);
        assert_eq!(bloom_millibits_for_fpr(0.0), 100_000);
    }

    #[test]
    fn interpolated_bits_are_those_of_the_bisection() {
        for (step, &millibits) in MILLIBITS_FOR_RATES.iter().enumerate() {
            let rate = pow(2.0, -(step as f64) / STEPS);
            // The last bit of the rate may decide the last thousandth.
            assert!(bloom_millibits_for_fpr(rate).abs_diff(millibits) <= 1, "rate {rate}");
            close(bloom_bits_for_rate(rate), f64::from(millibits) / 1000.0, 1e-9);
        }
        for i in 0..1000 {
            let rate = 0.6 * pow(2.0, -31.0 * f64::from(i) / 1000.0);
            let exact = f64::from(bloom_millibits_for_fpr(rate)) / 1000.0;
            close(bloom_bits_for_rate(rate), exact, 0.02);
        }
        close(bloom_bits_for_rate(0.0), 91.469, 1e-9);
    }

    /// Regression: the bits for a rate were found by bisection over sums of hundreds of terms.
    /// Dividing a budget among the runs of a tree takes sixty such bits for each run, and
    /// `apply_filter_policy` divided it once for each table of level 0, under the lock that writers
    /// take. With four tables, writers waited for seconds. Now no estimate computes a sum.
    #[test]
    fn bits_for_a_rate_take_no_sums() {
        for family in Family::written() {
            let before = SUMS.get();
            let bits = [0.5, 0.01, 1e-4].map(|rate| family.bits_for_rate(rate));
            assert!(bits.is_sorted() && bits[0] > 0.9, "{family}: {bits:?}");
            assert_eq!(SUMS.get(), before, "{family}");
        }
    }
}

//! The standard Bloom filter: no key is lost, rates match the formulas, saved bytes can be loaded.

use super::super::shared::{keys, measured, share};
use super::*;

const LAYOUTS: [Layout; 2] = [Layout::Shared, Layout::Split];

fn filled(layout: Layout, bits: usize, hashes: u32, keys: &[u64]) -> BloomFilter {
    let mut filter = BloomFilter::new(layout, bits, hashes);
    keys.iter().for_each(|&key| {
        filter.insert(key);
    });
    filter
}

#[test]
fn no_key_is_lost_and_absent_keys_are_wrong_as_often_as_the_formulas_say() {
    let (present, absent) = (keys(1, 0..20_000), keys(2, 0..200_000));
    for layout in LAYOUTS {
        for rate in [0.1, 0.01] {
            let mut filter = BloomFilter::for_rate(layout, present.len(), rate);
            present.iter().for_each(|&key| {
                filter.insert(key);
            });
            assert!(present.iter().all(|&key| filter.contains(key)));
            let found = share(&absent, |key| filter.contains(key));
            // At least 2,000 absent keys pass, so a fifth of the rate is about nine standard
            // deviations.
            assert!((found / rate - 1.0).abs() < 0.2, "{layout:?} {rate}: {found}");
            let by_fill = filter.fill().powi(filter.hashes() as i32);
            assert!((by_fill / rate - 1.0).abs() < 0.1, "{layout:?} {rate}: {by_fill}");
        }
    }
}

/// `for_rate` once sized filters by the usual formula, and the `k` positions came from two hashes.
/// Both are approximations that hold only for many keys: a filter of 10 keys for a rate of one in a
/// million was wrong 600 times too often. Now the exact rate decides the size, and the positions
/// are independent, so the bound holds for any number of keys.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_rate_is_that_of_the_exact_formula_and_within_the_bound_from_one_key_to_100_000() {
    for layout in LAYOUTS {
        for keys_each in [1, 2, 3, 10, 100, 1000, 10_000, 100_000] {
            for wanted in [0.3, 0.1, 0.01, 1e-3, 1e-4] {
                let shape = BloomFilter::for_rate(layout, keys_each as usize, wanted);
                let (bits, hashes) = (shape.bits(), shape.hashes());
                let exact = match layout {
                    Layout::Shared => formulas::exact_rate(bits, keys_each as usize, hashes),
                    Layout::Split => formulas::rate_of_split(bits, keys_each as usize, hashes),
                };
                assert!(exact <= wanted, "{layout:?} {keys_each} {wanted}: {exact}");
                // About 300 absent keys or more pass. If each filter has few keys, they are counted
                // over many filters.
                let filters = (3000 / keys_each).clamp(2, 1500);
                let asked = ((300.0 / wanted) as u64).div_ceil(filters).max(50);
                let (found, deviation) = measured([filters, keys_each, asked], |keys| {
                    let filter = filled(layout, bits, hashes, keys);
                    move |key| filter.contains(key)
                });
                assert!(
                    (found - exact).abs() < 5.0 * deviation + 0.01 * exact,
                    "{layout:?} {keys_each} {wanted}: {found}, not {exact} (by {deviation})"
                );
            }
        }
    }
}

/// Filters that were saved as `BLM1` make positions from two hashes. This test shows why new
/// filters make positions independently of each other.
#[test]
fn two_hashes_are_worse_than_independent_ones_in_tiny_filters() {
    let (bits, keys_each, hashes) = (100, 10, 7);
    let [independent, double] = [Probes::Independent, Probes::TwoHashes].map(|probes| {
        let (rate, _) = measured([500, keys_each, 400], |keys| {
            let mut filter =
                BloomFilter::with_probes(probes, Layout::Shared, bits, hashes).unwrap();
            keys.iter().for_each(|&key| {
                filter.insert(key);
            });
            move |key| filter.contains(key)
        });
        rate
    });
    let exact = formulas::exact_rate(bits, keys_each as usize, hashes);
    // About 1,800 queries pass. They are not independent, because a fuller filter passes more of
    // its queries. So the tolerance is wide.
    assert!((independent / exact - 1.0).abs() < 0.15, "{independent} {exact}");
    assert!((1.2..2.5).contains(&(double / exact)), "{double} {exact}");
    assert!(exact > 1.05 * formulas::rate(10.0, hashes));
}

#[test]
fn the_bits_tell_how_many_keys_there_are() {
    for layout in LAYOUTS {
        let mut filter = BloomFilter::new(layout, 100_000, 7);
        assert_eq!(filter.estimated_keys(), 0.0);
        for added in [1000, 5000, 10_000, 30_000] {
            keys(5, 0..added).iter().for_each(|&key| {
                filter.insert(key);
            });
            let ratio = filter.estimated_keys() / added as f64;
            assert!((ratio - 1.0).abs() < 0.05, "{layout:?} {added}: {ratio}");
        }
    }
}

/// The estimate for a full array is documented as infinite. It is the quotient of two logarithms,
/// which are both minus infinity for a full array of one bit, so there the estimate was once 0. Now
/// a full array is recognised before the division.
#[test]
fn a_full_array_of_any_size_may_hold_any_number_of_keys() {
    for layout in LAYOUTS {
        for bits in [1, 2, 3, 64, 100] {
            let mut filter = BloomFilter::new(layout, bits, 1);
            assert_eq!(filter.estimated_keys(), 0.0, "{layout:?} {bits}");
            keys(5, 0..2000).iter().for_each(|&key| {
                filter.insert(key);
            });
            assert_eq!((filter.fill(), filter.estimated_keys()), (1.0, f64::INFINITY), "{bits}");
        }
    }
}

/// An impossible size once ended the process. Now it is an error.
#[test]
fn what_does_not_fit_into_memory_is_an_error() {
    for layout in LAYOUTS {
        for bits in [(1 << 43) + 1, 1 << 60, usize::MAX] {
            assert_eq!(BloomFilter::try_new(layout, bits, 7).err(), Some(TooLarge), "{bits}");
        }
        let many = BloomFilter::try_for_rate(layout, 1 << 45, 1e-9);
        assert_eq!(many.err(), Some(TooLarge));
    }
}

#[test]
fn union_is_the_filter_of_both_sets_and_an_intersection_is_worse_than_its_own_filter() {
    let (a, b) = (keys(6, 0..6000), keys(6, 3000..9000));
    let (both, all) = (keys(6, 3000..6000), keys(6, 0..9000));
    let absent = keys(7, 0..100_000);
    for layout in LAYOUTS {
        let shape = |keys: &[u64]| filled(layout, 80_000, 6, keys);
        let (mut union, mut intersection) = (shape(&a), shape(&a));
        union.union(&shape(&b)).unwrap();
        intersection.intersect(&shape(&b)).unwrap();
        assert!(union == shape(&all));
        assert!(both.iter().all(|&key| intersection.contains(key)));
        let [found, own] =
            [&intersection, &shape(&both)].map(|filter| share(&absent, |key| filter.contains(key)));
        assert!(found > 1.5 * own, "{layout:?}: {found} {own}");
        let other = BloomFilter::new(layout, 80_000, 5);
        assert_eq!(union.union(&other), Err(OtherShape));
    }
}

#[test]
fn an_insertion_tells_a_key_that_was_there() {
    let mut filter = BloomFilter::new(Layout::Shared, 1000, 5);
    assert!(filter.insert(7));
    assert!(!filter.insert(7));
}

#[test]
fn a_saved_filter_comes_back_and_anything_else_is_refused() {
    for (layout, bits, hashes) in [
        (Layout::Shared, 1000, 7),
        (Layout::Split, 1000, 7),
        (Layout::Shared, 64, 1),
        (Layout::Split, 1, 64),
    ] {
        let filter = filled(layout, bits, hashes, &keys(8, 0..100));
        let saved = filter.save();
        assert!(BloomFilter::load(&saved).unwrap() == filter);
        for bit in 0..saved.len() * 8 {
            let mut flipped = saved.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(BloomFilter::load(&flipped).is_err(), "{layout:?} bit {bit}");
        }
        for length in 0..saved.len() {
            assert!(BloomFilter::load(&saved[..length]).is_err(), "{length} bytes");
        }
    }
    // Filters in the older format `BLM1`, which derives all positions of a key from two hashes.
    // Each has the keys `keys(9, 0..5)`, and was sized for a false-positive rate of 1 %.
    for (hex, layout) in [
        ("424c4d3100070000300000000000000070dda0268dfd0000c9dfe25099fb541c", Layout::Shared),
        ("424c4d31010700000700000000000000736b526d6cb30100b667286a8aced70e", Layout::Split),
    ] {
        let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        let saved: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let mut old = BloomFilter::load(&saved).unwrap();
        assert!(keys(9, 0..5).iter().all(|&key| old.contains(key)));
        assert!(old.save() == saved);
        let new = BloomFilter::new(layout, old.bits(), old.hashes());
        assert_eq!(old.union(&new), Err(OtherShape), "their bits have different meanings");
    }
    // A forged shape that no memory could hold.
    let mut forged = filled(Layout::Split, 64, 8, &[]).save();
    forged[8..16].fill(0xff);
    assert!(BloomFilter::load(&forged).is_err());
}

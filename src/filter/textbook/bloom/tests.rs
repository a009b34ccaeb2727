//! The standard Bloom filter: no key is lost, rates are those of the formulas, saved bytes come back.

use super::super::shared::{keys, share};
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
            // 2,000 hits or more: ten standard deviations are a fifth.
            assert!((found / rate - 1.0).abs() < 0.2, "{layout:?} {rate}: {found}");
            let by_fill = filter.fill().powi(filter.hashes() as i32);
            assert!((by_fill / rate - 1.0).abs() < 0.1, "{layout:?} {rate}: {by_fill}");
        }
    }
}

/// The formulas mean independent positions. In a tiny filter, positions from two hashes collide
/// noticeably more often; in a large one nobody can tell.
#[test]
fn the_exact_formula_is_that_of_independent_hashes_and_two_hashes_are_worse_in_tiny_filters() {
    let (bits, keys_each, hashes) = (100, 10, 7);
    let position = |key: u64, i: u32| reduce(mix(key, 100 + u64::from(i)), bits);
    let absent = keys(4, 0..400);
    let (mut independent, mut double) = (0.0, 0.0);
    for filter in 0..500 {
        let present = keys(3, filter * keys_each..(filter + 1) * keys_each);
        let mut set = vec![false; bits];
        present.iter().for_each(|&key| (0..hashes).for_each(|i| set[position(key, i)] = true));
        independent += share(&absent, |key| (0..hashes).all(|i| set[position(key, i)])) / 500.0;
        let filter = filled(Layout::Shared, bits, hashes, &present);
        double += share(&absent, |key| filter.contains(key)) / 500.0;
    }
    let exact = formulas::exact_rate(bits, keys_each as usize, hashes);
    // 1,800 hits, but not independent ones: those of a filter rise and fall with its fill.
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
    let full = filled(Layout::Shared, 64, 8, &keys(5, 0..1000));
    assert_eq!((full.fill(), full.estimated_keys()), (1.0, f64::INFINITY));
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
    // A forged shape that no memory could hold.
    let mut forged = filled(Layout::Split, 64, 8, &[]).save();
    forged[8..16].fill(0xff);
    assert!(BloomFilter::load(&forged).is_err());
}

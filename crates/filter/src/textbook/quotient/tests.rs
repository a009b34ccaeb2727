//! The quotient filter, compared with a plain list of its fingerprints.

use std::collections::BTreeMap;

use super::super::shared::{keys, share};
use super::*;

/// Checks that the filter lists exactly the expected fingerprints, that exactly the slots of their
/// quotients are marked occupied, and that slots without marks hold 0.
fn check(filter: &QuotientFilter, expected: &BTreeMap<(usize, u32), usize>) {
    let listed: Vec<_> = filter.fingerprints().collect();
    let all = expected.iter().flat_map(|(&entry, &times)| std::iter::repeat_n(entry, times));
    assert_eq!(listed, all.collect::<Vec<_>>());
    assert_eq!(listed.len(), filter.len());
    for slot in 0..filter.slots.len() {
        let belongs = listed.iter().any(|&(quotient, _)| quotient == slot);
        assert_eq!(filter.has(slot, OCCUPIED), belongs, "slot {slot}");
        let taken = filter.slots.get(slot) & MARKS != 0;
        assert!(taken || filter.slots.get(slot) == 0, "slot {slot}");
    }
}

#[test]
fn it_is_a_sorted_list_through_any_sequence_of_insertions_and_removals() {
    for (slots, remainder_bits) in [(2, 4), (7, 3), (16, 1), (50, 2), (97, 8)] {
        let mut filter = QuotientFilter::new(slots, remainder_bits);
        let mut expected: BTreeMap<_, usize> = BTreeMap::new();
        // Few distinct keys, so that many are repeated.
        let pool = keys(1, 0..slots as u64);
        for step in 0..40 * slots as u64 {
            let draw = mix(step, slots as u64);
            let key = pool[reduce(draw, pool.len())];
            let fingerprint = filter.fingerprint(key);
            // The steps alternate between growing and shrinking.
            let share = if (step / (10 * slots as u64)).is_multiple_of(2) { 75 } else { 30 };
            if draw % 100 < share {
                let before = filter.len();
                let fits = filter.insert(key).is_ok();
                assert_eq!(fits, before < filter.most());
                *expected.entry(fingerprint).or_default() += usize::from(fits);
            } else {
                let times = expected.entry(fingerprint).or_default();
                assert_eq!(filter.remove(key), *times > 0);
                *times = times.saturating_sub(1);
            }
            expected.retain(|_, times| *times > 0);
            check(&filter, &expected);
            let listed = filter.fingerprints();
            let again = QuotientFilter::from_sorted(slots, remainder_bits, listed).unwrap();
            check(&again, &expected);
            let key = pool[reduce(mix(step, 9), pool.len())];
            assert_eq!(filter.contains(key), expected.contains_key(&filter.fingerprint(key)));
        }
    }
}

#[test]
fn the_drawing_is_what_the_slots_hold() {
    let mut filter = QuotientFilter::new(8, 4);
    for (quotient, remainder) in [(2, 0xe), (1, 0xc), (5, 0xd), (2, 0xf), (1, 0xa), (2, 0xb)] {
        filter.insert_fingerprint(quotient, remainder).unwrap();
    }
    let slots: Vec<_> =
        (0..8).map(|slot| (filter.remainder(slot), filter.slots.get(slot) & MARKS)).collect();
    let (o, c, s) = (OCCUPIED, CONTINUATION, SHIFTED);
    assert_eq!(
        slots,
        [
            (0, 0),
            (0xa, o),
            (0xc, o | c | s),
            (0xb, s),
            (0xe, c | s),
            (0xf, o | c | s),
            (0xd, s),
            (0, 0)
        ]
    );
}

#[test]
fn no_key_is_lost_and_the_rate_is_that_of_the_remainder() {
    let (present, absent) = (keys(2, 0..20_000), keys(3, 0..200_000));
    for (wanted, load) in [(0.1, 0.75), (0.01, 0.9)] {
        let mut filter = QuotientFilter::for_rate(present.len(), wanted, load);
        present.iter().for_each(|&key| filter.insert(key).unwrap());
        assert!(present.iter().all(|&key| filter.contains(key)));
        let rate = share(&absent, |key| filter.contains(key));
        let expected = 1.0 - (-load / f64::from(1 << filter.remainder_bits)).exp();
        assert!((rate / expected - 1.0).abs() < 0.2 && rate < 1.05 * wanted, "{rate} {expected}");
    }
}

#[test]
fn a_full_filter_says_so_and_is_as_it_was() {
    let present = keys(4, 0..1000);
    let mut filter = QuotientFilter::new(500, 8);
    let fits = present.iter().position(|&key| filter.insert(key) == Err(Full)).unwrap();
    assert_eq!(fits, 475);
    assert!(present[..fits].iter().all(|&key| filter.contains(key)));
}

#[test]
fn doubled_and_merged_filters_hold_the_same_fingerprints_and_lose_bits_of_them() {
    let (a, b, absent) = (keys(5, 0..3000), keys(5, 2000..5000), keys(6, 0..100_000));
    let filled = |keys: &[u64]| {
        let mut filter = QuotientFilter::new(4000, 9);
        keys.iter().for_each(|&key| filter.insert(key).unwrap());
        filter
    };
    let (first, second) = (filled(&a), filled(&b));
    let merged = first.merged(&second).unwrap();
    assert!(a.iter().chain(&b).all(|&key| merged.contains(key)));
    // If a key is in both filters, the merged filter has its fingerprint twice, because the two
    // could also be those of different keys.
    assert_eq!((merged.len(), merged.slots.len(), merged.remainder_bits), (6000, 8000, 8));
    let rates = [&first, &merged].map(|filter| share(&absent, |key| filter.contains(key)));
    // Before the merge there are 0.75 distinct keys a slot, after it 0.625. A remainder has one bit
    // less after the merge. So the rate is multiplied by 2 · 0.625 / 0.75.
    assert!((rates[1] / rates[0] / (0.625 / 0.75) / 2.0 - 1.0).abs() < 0.25, "{rates:?}");

    let again = first.doubled().unwrap().doubled().unwrap();
    assert!(a.iter().all(|&key| again.contains(key)) && again.len() == first.len());
    let mut listed: Vec<_> = a.iter().map(|&key| again.fingerprint(key)).collect();
    listed.sort_unstable();
    assert!(again.fingerprints().eq(listed), "as if the keys had been added to the larger one");
    assert!(first.merged(&again).is_none());
    assert!(QuotientFilter::new(10, 1).doubled().is_none());
}

#[test]
fn removing_what_was_never_added_loses_a_key() {
    let present = keys(7, 0..5000);
    let mut filter = QuotientFilter::for_rate(present.len(), 0.1, 0.9);
    present.iter().for_each(|&key| filter.insert(key).unwrap());
    let removed = keys(8, 0..5000).iter().filter(|&&key| filter.remove(key)).count();
    let lost = present.iter().filter(|&&key| !filter.contains(key)).count();
    assert!(removed > 100 && lost > 100, "{removed} removed, {lost} lost");
}

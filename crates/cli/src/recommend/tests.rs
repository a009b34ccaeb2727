//! The rule on situations that were once answered differently by different commands, and on random
//! ones.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::*;

const MIB: f64 = (1 << 20) as f64;

/// A filter of `bits` a key for so many keys, with which an absent lookup reads `absent` blocks, and
/// a present one a block and `vain` in vain.
fn filter(name: &str, keys: f64, bits: f64, absent: f64, vain: f64) -> Filter {
    Filter {
        name: name.into(),
        bytes: keys * bits / 8.0,
        absent: Estimate::exact(absent),
        present: Estimate::exact(1.0 + vain),
        is_for_rocksdb: !name.contains("burr") && !name.contains("fuse"),
        is_usual: name == "bloom(10)",
        build_seconds: None,
    }
}

/// The filters of a tree in which a lookup reaches `levels` tables.
fn situation(keys: f64, levels: f64) -> Situation {
    let of = |name: &str, bits, rate: f64| {
        filter(name, keys, bits, levels * rate, (levels - 1.0) * rate)
    };
    Situation {
        keys,
        filters: vec![
            of("bloom(5)", 5.0, 0.095),
            of("bloom(8)", 8.0, 0.0218),
            of("bloom(10)", 10.0, 0.0093),
            of("bloom(12)", 12.0, 0.0041),
            of("bloom(16)", 16.0, 0.0007),
            of("ribbon(5.5)", 5.5, 0.0238),
            of("ribbon(7)", 7.0, 0.0097),
            of("ribbon(11.5)", 11.5, 0.0007),
            of("burr(7)", 7.0, 0.0086),
            of("fuse(9)", 8.47, 0.0039),
        ],
        without: of("none", 0.0, 1.0),
        read_micros: 80.0,
        ..Situation::default()
    }
}

fn take(s: &Situation) -> (&str, bool) {
    let Recommendation { take, is_kept, .. } = recommend(s);
    (&take.name, is_kept)
}

fn with_now(s: Situation, now: Filter) -> Situation {
    Situation { now: Some(now), ..s }
}

fn of<'a>(s: &'a Situation, name: &str) -> &'a Filter {
    s.filters.iter().find(|filter| filter.name == name).unwrap()
}

const PRICES: Prices = Prices { lookups_a_second: 5000.0, million_reads: 0.02, gib_and_month: 3.0 };

/// On 300,000 keys, one page named burr(7) in its verdict and bloom(10) in its calculator, and
/// `advise` kept what there was. Now all three give one answer.
#[test]
fn few_keys_get_one_answer_with_and_without_prices_and_what_there_is() {
    let few = situation(300_000.0, 3.0);
    assert_eq!(take(&few), ("bloom(10)", false));
    assert_eq!(take(&Situation { prices: Some(PRICES), ..few.clone() }), ("bloom(10)", false));
    let now = Filter { name: "as stored".into(), ..of(&few, "bloom(10)").clone() };
    assert_eq!(take(&with_now(few, now)), ("as stored", true));
    // For many keys, a smaller filter saves memory that counts.
    let many = situation(1e9, 3.0);
    assert_eq!(take(&many), ("burr(7)", false));
    assert_eq!(take(&Situation { must_suit_rocksdb: true, ..many.clone() }), ("ribbon(7)", false));
    let now = of(&many, "bloom(10)").clone();
    assert_eq!(take(&with_now(many, now)), ("burr(7)", false));
}

/// The verdict on few keys says from how many keys on it is another one.
#[test]
fn growth_changes_the_answer_where_it_is_said_to() {
    let few = situation(300_000.0, 3.0);
    let recommended = recommend(&few);
    let more = recommended.unless.iter().find_map(|unless| match unless {
        Unless::MoreKeys(filter, keys) => Some((filter.name.clone(), *keys)),
        _ => None,
    });
    let (name, keys) = more.unwrap();
    let at = |keys: f64| take(&situation(keys, 3.0)).0.to_string();
    assert_eq!((at(0.99 * keys), at(1.01 * keys)), ("bloom(10)".into(), name));
}

/// `advise` compared a Ribbon with a Bloom filter of as many bits as tables usually have, not with
/// the stored one. On 4 million keys with Bloom filters of 5 bits, it promised less memory, while
/// its own table showed more memory and a lower rate.
#[test]
fn what_is_stored_is_what_all_is_compared_with() {
    let s = Situation { must_suit_rocksdb: true, ..situation(4e6, 1.0) };
    let stored = |bits, rate| filter("as stored", 4e6, bits, rate, 0.0);
    for bits in [4.0, 5.0] {
        let rate = if bits < 5.0 { 0.147 } else { 0.095 };
        let asked = with_now(s.clone(), stored(bits, rate));
        let recommended = recommend(&asked);
        assert_eq!(recommended.take.name, "ribbon(7)", "{bits}");
        assert!(recommended.take.bytes > stored(bits, rate).bytes, "it costs memory");
        assert!(asked.reads(recommended.take).value < rate, "and saves reads");
    }
    // Filters of more bits than are useful are replaced by smaller ones that are as fast.
    for (bits, rate) in [(20.0, 0.0002), (100.0, 0.0)] {
        let asked = with_now(s.clone(), stored(bits, rate));
        let recommended = recommend(&asked);
        assert!(recommended.take.bytes < stored(bits, rate).bytes - MIB, "{bits}");
        let lost = asked.reads(recommended.take).value - rate;
        assert!(lost * asked.read_micros < 2.0 * LEAST_MICROS, "{bits}: {lost}");
    }
}

/// Legacy filters of 250 bits let more keys through than a tenth of the memory would, and the only
/// advice was to charge them to the cache.
#[test]
fn filters_far_too_large_are_replaced_by_smaller_and_better_ones() {
    let s = Situation { must_suit_rocksdb: true, ..situation(1.5e6, 16.0) };
    let asked = with_now(s, filter("legacy", 1.5e6, 250.0, 0.0132, 0.0132));
    let recommended = recommend(&asked);
    assert!(["bloom(16)", "ribbon(11.5)"].contains(&&*recommended.take.name), "{recommended:?}");
    assert!(asked.reads(recommended.take).value < 0.0132);
}

/// With a file of present lookups alone there was no advice, although filters of the last level are
/// of no use then.
#[test]
fn present_lookups_alone_need_no_filters_in_the_last_level() {
    let mut s = situation(1e8, 3.0);
    s.share_absent = Some(0.0);
    s.filters.push(filter("bottommost_none(bloom(10))", 1e7, 10.0, 1.02, 0.0186));
    assert_eq!(take(&s).0, "bottommost_none(bloom(10))");
    let now = of(&s, "bloom(10)").clone();
    assert_eq!(take(&with_now(s.clone(), now)), ("bottommost_none(bloom(10))", false));
    // In a tree of one level nothing is searched in vain, so that no filter is of use.
    let one = Situation { share_absent: Some(0.0), ..situation(1e8, 1.0) };
    assert_eq!(take(&one), ("none", false));
}

/// Filters of prefixes alone, which nearly every absent lookup passes, were kept or written anew.
#[test]
fn filters_that_let_nearly_all_through_are_replaced() {
    let mut s = Situation { must_suit_rocksdb: true, ..situation(1e6, 1.0) };
    let prefixes = |name| filter(name, 1e4, 10.0, 0.98, 0.0);
    s.filters = vec![prefixes("bloom(10)"), filter("whole keys", 1e6, 9.0, 0.007, 0.0)];
    assert_eq!(take(&with_now(s, prefixes("as stored"))), ("whole keys", false));
}

/// Reads that cannot be told apart are no reason, however large the figures seem.
#[test]
fn reads_within_their_intervals_are_no_reason() {
    let mut s = situation(1e6, 3.0);
    s.filters.retain(|filter| ["burr(7)", "ribbon(7)"].contains(&&*filter.name));
    let mut now = filter("as stored", 1e6, 7.0, 0.2, 0.1);
    now.absent = Estimate { value: 0.2, low: 0.01, high: 0.5 };
    assert_eq!(take(&with_now(s.clone(), now.clone())), ("as stored", true));
    now.absent = Estimate { value: 0.2, low: 0.19, high: 0.21 };
    assert_eq!(take(&with_now(s, now)), ("burr(7)", false));
}

/// What saves less than 10 dollars a month is no reason; more is.
#[test]
fn money_decides_where_it_counts() {
    let s = Situation { prices: Some(PRICES), ..situation(300_000.0, 3.0) };
    assert_eq!(take(&s).0, "bloom(10)");
    let busy = Prices { lookups_a_second: 500_000.0, ..PRICES };
    let s = Situation { prices: Some(busy), ..s };
    assert_eq!(take(&s).0, "ribbon(11.5)");
}

/// The mean of ten rounds named another policy each time. A median with its interval names one only
/// if the intervals do not overlap.
#[test]
fn a_time_is_the_shortest_only_if_the_rounds_show_it() {
    let of = |value, low, high| Estimate { value, low, high };
    let (a, b) = (of(100.0, 90.0, 104.0), of(120.0, 105.0, 130.0));
    assert_eq!(rank(&[b, a]), Some(Ranking::Fastest(1)));
    assert_eq!(rank(&[of(120.0, 103.0, 130.0), a]), Some(Ranking::Noise(vec![1, 0])));
    assert_eq!((rank(&[a]), rank(&[])), (None, None));
}

/// A random situation: filters whose memory and reads are unrelated or follow a family's curve, with
/// or without intervals, prices, and what there is.
fn random_situation(random: &mut SmallRng) -> Situation {
    let keys = 10f64.powf(random.random_range(3.0..10.0));
    let levels = random.random_range(1..20) as f64;
    let share_absent = match random.random_range(0..4) {
        0 => None,
        1 => Some(0.0),
        _ => Some(random.random_range(0.0..=1.0)),
    };
    let width = [0.0, 0.02, 0.1, 0.5].choose(random).unwrap() * random.random_range(0.0..1.0);
    let estimate = |value: f64| Estimate {
        value,
        low: value * (1.0 - width),
        high: value * (1.0 + width) + width / 1e4,
    };
    // On a ladder each filter takes a little less memory than the one before, and is a little
    // slower: here steps that are each allowed could follow each other.
    let is_ladder: bool = random.random();
    let (bits_step, rate_step) = (random.random_range(0.8..0.99), random.random_range(1.0..1.2f64));
    let start_rate = 10f64.powf(random.random_range(-4.0..-0.5));
    let draw = |n: usize, random: &mut SmallRng| {
        let bits = random.random_range(1.0..24.0f64);
        let rung = (n % 25) as i32;
        let (bits, rate) = match random.random_range(0..3) {
            _ if is_ladder => {
                (24.0 * f64::powi(bits_step, rung), (start_rate * rate_step.powi(rung)).min(1.0))
            }
            0 => (bits, random.random_range(0.0..1.0)),
            _ => (bits, (-bits / [1.44, 1.05, 1.01].choose(random).unwrap()).exp2()),
        };
        let present = Estimate { ..estimate((levels - 1.0) * rate) };
        Filter {
            name: format!("filter {n}"),
            bytes: keys * bits / 8.0,
            absent: estimate(levels * rate),
            present: Estimate {
                value: 1.0 + present.value,
                low: 1.0 + present.low,
                high: 1.0 + present.high,
            },
            is_for_rocksdb: random.random(),
            is_usual: n == 2,
            build_seconds: None,
        }
    };
    let filters: Vec<Filter> = (0..random.random_range(0..25)).map(|n| draw(n, random)).collect();
    let without = filter("none", keys, 0.0, levels, levels - 1.0);
    let now = match random.random_range(0..4) {
        0 => None,
        1 => Some(without.clone()),
        2 => filters.choose(random).cloned(),
        _ => Some(draw(99, random)),
    };
    Situation {
        keys,
        filters,
        without,
        now,
        share_absent,
        read_micros: 10f64.powf(random.random_range(-2.0..4.0)),
        must_suit_rocksdb: random.random_range(0..4) == 0,
        prices: (random.random_range(0..4) == 0).then(|| Prices {
            lookups_a_second: 10f64.powf(random.random_range(0.0..6.0)),
            million_reads: 10f64.powf(random.random_range(-3.0..1.0)),
            gib_and_month: 10f64.powf(random.random_range(-1.0..2.0)),
        }),
    }
}

#[test]
fn whoever_follows_the_advice_and_asks_again_is_told_to_keep_what_there_is() {
    let random = &mut SmallRng::seed_from_u64(58);
    let mut changes = 0;
    for n in 0..10_000 {
        let s = random_situation(random);
        let first = recommend(&s);
        changes += usize::from(!first.is_kept);
        let followed = with_now(s.clone(), first.take.clone());
        let second = recommend(&followed);
        assert!(second.is_kept, "{n}: {first:?}, then {second:?} of {s:#?}");
    }
    assert!((2000..9000).contains(&changes), "{changes} changes were recommended");
}

/// A recommended change is always worth it: it saves the least time, memory or money.
#[test]
fn no_change_is_recommended_that_saves_less_than_the_least_amounts() {
    let random = &mut SmallRng::seed_from_u64(59);
    for _ in 0..10_000 {
        let s = random_situation(random);
        let (Some(now), Recommendation { take, is_kept: false, .. }) = (&s.now, recommend(&s))
        else {
            continue;
        };
        let saved_micros = (s.reads(now).value - s.reads(take).value) * s.read_micros;
        let saved_dollars = s.prices.map_or(0.0, |prices| {
            let of = |filter: &Filter| prices.dollars(filter.bytes, s.reads(filter).value);
            of(now) - of(take)
        });
        let is_worth = saved_micros >= LEAST_MICROS
            || now.bytes - take.bytes >= LEAST_BYTES
            || saved_dollars >= LEAST_DOLLARS;
        assert!(is_worth, "{now:?} by {take:?}");
    }
}

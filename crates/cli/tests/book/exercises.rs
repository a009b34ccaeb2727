//! The twelve exercises of the book: each test breaks something and shows the break.

use std::sync::Arc;

use maypole::filter::sizing::standard_bloom_fpr;
use maypole::filter::{FilterBlock, FilterBuilder, FilterReader, FilterSpec};
use maypole::fs::MemFs;
use maypole::{Db, hash64};

use super::figures::bloom::Bloom;
use super::figures::hashing::{java, mixed};
use super::figures::keys::{key_hash, rate};
use super::figures::rates::{filled, observed};

/// The block of a filter of the library, built from `hashes`.
fn block(spec: &str, hashes: impl IntoIterator<Item = u64>) -> FilterBlock {
    let mut builder = FilterBuilder::new(spec.parse::<FilterSpec>().unwrap());
    hashes.into_iter().for_each(|hash| builder.add(hash));
    builder.finish().unwrap()
}

fn present(count: u64) -> impl Iterator<Item = u64> + Clone {
    (0..count).map(|i| key_hash("present", i))
}

/// The number of added keys that the filter denies.
fn missed(filter: impl Fn(u64) -> bool, hashes: impl IntoIterator<Item = u64>) -> usize {
    hashes.into_iter().filter(|&hash| !filter(hash)).count()
}

#[test]
fn exercise_1_a_hash_of_32_bits() {
    let narrow = |hash: u64| mixed(hash >> 32);
    let keys = 100_000;
    let filter = block("ribbon(24)", present(keys).map(narrow));
    assert!(filter.predicted_fpr() < 1e-6);
    let filter = FilterReader::from_bytes(filter.bytes(), filter.encoding());
    let asked = 1_000_000;
    let passed = rate("absent", asked, |hash| filter.may_contain(narrow(hash)));
    let floor = keys as f64 / 2f64.powi(32);
    assert!(passed > floor / 2.0 && passed < 2.0 * floor, "{passed} beside {floor}");
}

#[test]
fn exercise_2_cut_a_filter() {
    let whole = block("bloom(10)", present(1_000));
    for keep in [0, 5, 64, whole.bytes().len() - 64, whole.bytes().len() - 1] {
        let filter = FilterReader::from_bytes(&whole.bytes()[..keep], whole.encoding());
        assert!(filter.untrusted().is_some(), "{keep} bytes");
        assert_eq!(missed(|hash| filter.may_contain(hash), present(1_000)), 0);
        assert_eq!(rate("absent", 1_000, |hash| filter.may_contain(hash)), 1.0);
    }
}

#[test]
fn exercise_3_flip_a_bit() {
    let whole = block("bloom(10)", present(1_000));
    let with = |change: fn(&mut u8)| {
        let mut bytes = whole.bytes().to_vec();
        bytes[..100].iter_mut().for_each(change);
        FilterReader::from_bytes(&bytes, whole.encoding())
    };
    let cleared = with(|byte| *byte &= 0xfe);
    assert!(cleared.untrusted().is_none(), "nothing tells");
    assert!(missed(|hash| cleared.may_contain(hash), present(1_000)) > 10);
    let set = with(|byte| *byte |= 1);
    assert_eq!(missed(|hash| set.may_contain(hash), present(1_000)), 0);
}

#[test]
fn exercise_4_ask_a_filter_of_prefixes_for_keys() {
    let prefixes = (0..100).map(|user| hash64(format!("user{user}/").as_bytes()));
    let filter = block("bloom(10)", prefixes);
    let filter = FilterReader::from_bytes(filter.bytes(), filter.encoding());
    let keys = (0..100).map(|user| hash64(format!("user{user}/name").as_bytes()));
    assert!(missed(|hash| filter.may_contain(hash), keys) > 90);
}

/// The positions of a key's bits by double hashing, whose step `step` computes from the hash.
fn stepped(hash: u64, m: u64, step: fn(u64) -> u64) -> impl Iterator<Item = usize> {
    (0..7).map(move |i| (((hash >> 32) + i * step(hash)) % m) as usize)
}

#[test]
fn exercise_5_a_step_of_zero() {
    let m = 1 << 14;
    let with = |step: fn(u64) -> u64| {
        let mut bits = vec![false; m as usize];
        for hash in present(m / 10) {
            stepped(hash, m, step).for_each(|bit| bits[bit] = true);
        }
        rate("absent", 50_000, |hash| stepped(hash, m, step).all(|bit| bits[bit]))
    };
    // For `degenerate` every step is a multiple of m, the number of bits, so all probes of a key
    // test the same bit.
    let degenerate = with(|hash| hash << 14 & 0xffff_ffff);
    let odd = with(|hash| hash & 0xffff_ffff | 1);
    let one_probe = standard_bloom_fpr(10.0, 1);
    assert!((degenerate / one_probe - 1.0).abs() < 0.1, "{degenerate}, not {one_probe}");
    assert!(degenerate > 8.0 * odd, "{degenerate} with steps of 0, {odd} with odd ones");
}

/// Four-bit counters in place of bits.
struct Counting(Vec<u8>);

impl Counting {
    fn change(&mut self, hash: u64, change: impl Fn(u8) -> u8) {
        let m = self.0.len() as u64;
        for at in Bloom::new(m, 4).positions(hash) {
            self.0[at as usize] = change(self.0[at as usize]);
        }
    }

    fn may_contain(&self, hash: u64) -> bool {
        Bloom::new(self.0.len() as u64, 4).positions(hash).all(|at| self.0[at as usize] > 0)
    }
}

#[test]
fn exercise_6_remove_what_was_never_added() {
    let mut filter = Counting(vec![0; 6_000]);
    present(1_000).for_each(|hash| filter.change(hash, |count| (count + 1).min(15)));
    assert_eq!(missed(|hash| filter.may_contain(hash), present(1_000)), 0);
    // A careful caller queries a key before removing it, and removes it only if the filter says
    // "maybe". Here this does not help, because the filter says "maybe" for these keys without
    // reason.
    let strangers: Vec<u64> = (0..10_000)
        .map(|i| key_hash("absent", i))
        .filter(|&hash| filter.may_contain(hash))
        .take(50)
        .collect();
    assert_eq!(strangers.len(), 50);
    for hash in strangers {
        filter.change(hash, |count| count.saturating_sub(1));
    }
    assert!(missed(|hash| filter.may_contain(hash), present(1_000)) > 50);
}

#[test]
fn exercise_7_five_times_the_planned_keys() {
    let passed = observed(&filled(50_000, 100_000, 7), 20_000);
    assert!((0.79..0.83).contains(&passed), "{passed}: not 18 %");
}

#[test]
fn exercise_8_more_probes_are_not_safer() {
    let rates = [3, 7, 20, 40].map(|k| observed(&filled(10_000, 100_000, k), 20_000));
    assert!(rates[1] < rates[0] && rates[1] < rates[2] && rates[2] < rates[3], "{rates:?}");
    assert!(rates[3] > 30.0 * rates[1], "{rates:?}");
}

#[test]
fn exercise_9_divide_by_all_lookups() {
    let db = Db::builder("/book").fs(Arc::new(MemFs::new())).open().unwrap();
    let key = |i: u64| format!("key{i:08}");
    (0..10_000).for_each(|i| db.put(key(2 * i), "value").unwrap());
    db.flush().unwrap();
    // Nine of ten lookups find their key.
    (0..9_000).for_each(|i| drop(db.get(key(2 * i)).unwrap()));
    (0..1_000).for_each(|i| drop(db.get(key(2 * i + 1)).unwrap()));
    let counts = db.stats().counts().filter;
    let right = counts.observed_fpr().unwrap();
    let wrong = counts.false_positive() as f64 / counts.asked() as f64;
    assert!((right / wrong - 10.0).abs() < 0.1, "{right} and {wrong}");
}

#[test]
fn exercise_10_a_hash_that_keeps_neighbours_together() {
    let with = |hash: fn(&[u8]) -> u64| {
        let of = |i: u64| hash(format!("user{i:08}").as_bytes());
        let mut filter = Bloom::new(100_000, 7);
        (0..10_000).for_each(|i| filter.insert(of(2 * i)));
        assert_eq!(missed(|hash| filter.may_contain(hash), (0..10_000).map(|i| of(2 * i))), 0);
        (0..10_000).filter(|&i| filter.may_contain(of(2 * i + 1))).count()
    };
    let (bad, cured, good) = (with(java), with(|key| mixed(java(key))), with(hash64));
    assert!(bad > 8_000 && cured < 150 && good < 150, "{bad}, {cured}, {good} of 10,000");
}

#[test]
fn exercise_11_or_of_two_sizes() {
    let or = |m_of_second: u64| {
        let (first, second) = (filled(500, 10_000, 7), {
            let mut second = Bloom::new(m_of_second, 7);
            (500..1_000).for_each(|i| second.insert(key_hash("present", i)));
            second
        });
        let joined: Vec<bool> = (0..10_000)
            .map(|at| first.is_set(at) || at < m_of_second && second.is_set(at))
            .collect();
        missed(|hash| first.positions(hash).all(|at| joined[at as usize]), present(1_000))
    };
    assert_eq!(or(10_000), 0);
    assert!(or(5_000) > 400);
}

#[test]
fn exercise_12_ask_where_no_filter_is_asked() {
    let db = Db::builder("/book").fs(Arc::new(MemFs::new())).open().unwrap();
    (0..10_000).for_each(|i| db.put(format!("m{:08}", 2 * i), "value").unwrap());
    db.flush().unwrap();
    for i in 0..1_000 {
        // These keys are above every key of the table, so the table's range excludes them.
        assert!(db.get(format!("z{i:08}")).unwrap().is_none());
    }
    let counts = db.stats().counts().filter;
    assert_eq!((counts.asked(), counts.observed_fpr()), (0, None));
    for i in 0..1_000 {
        assert!(db.get(format!("m{:08}", 2 * i + 1)).unwrap().is_none());
    }
    assert!(db.stats().counts().filter.asked() >= 999);
}

#[test]
fn the_formula_of_the_solutions() {
    assert!((standard_bloom_fpr(2.0, 7) - 0.807).abs() < 0.001);
}

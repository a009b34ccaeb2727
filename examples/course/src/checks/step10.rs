use super::super::step08_levels::LEVELS;
use super::super::step09_cache::Cache;
use super::super::step10_budget::*;
use super::key;
use super::tour::{KEYS, tree};
use crate::check::{Check, Scratch, remark};

pub const CHECKS: &[Check] = &[
    Check { says: "memory() adds up the levels", run: memory_adds_up },
    Check { says: "rates are proportional to keys", run: proportional },
    Check { says: "the budget is used and not exceeded", run: within_budget },
    Check { says: "no rate is above 1", run: at_most_1 },
    Check { says: "no bit is better spent in another level", run: no_better_exchange },
    Check { says: "bits_by_level() has the mean that was asked for", run: the_mean },
    Check { says: "your engine reads less in vain, with the same memory", run: in_the_engine },
];

const RUNS: [u64; 4] = [100, 1_000, 10_000, 100_000];

fn memory_adds_up() {
    // A rate of 1/2 takes 1.4427 bits a key, 1/4 twice that.
    let bits = memory(&[1000, 10], &[0.5, 0.25]);
    assert!(
        (bits - 1471.6).abs() < 0.1,
        "1000 keys at 1/2 and 10 at 1/4: {bits:.1}, expected 1471.6"
    );
    assert_eq!(memory(&RUNS, &[1.0; 4]), 0.0, "rates of 1 take no memory");
}

fn within_budget() {
    for bits in [1_000.0, 50_000.0, 500_000.0, 2_000_000.0] {
        let used = memory(&RUNS, &best_rates(&RUNS, bits));
        assert!(used <= bits * 1.000_001, "the rates take {used:.0} bits of a budget of {bits}");
        assert!(used >= bits * 0.999, "the rates use only {used:.0} bits of {bits}");
    }
}

fn proportional() {
    let rates = best_rates(&RUNS, 1_000_000.0);
    for i in 1..4 {
        let factor = rates[i] / rates[i - 1];
        assert!(
            (factor - 10.0).abs() < 0.01,
            "level {i} has 10 times the keys of level {}, and {factor:.2} times its rate",
            i - 1
        );
    }
}

fn at_most_1() {
    let rates = best_rates(&RUNS, 10_000.0);
    assert_eq!(rates[3], 1.0, "10,000 bits are too few for the last level: it gets no filter");
    assert!(rates.iter().all(|rate| (0.0..=1.0).contains(rate)), "rates: {rates:?}");
}

fn no_better_exchange() {
    for bits in [50_000.0, 1_000_000.0] {
        let rates = best_rates(&RUNS, bits);
        let sum: f64 = rates.iter().sum();
        for from in 0..4 {
            for to in 0..4 {
                // The rates if some bits are moved from level `from` to level `to`. For each bit
                // more a key, a rate is multiplied by e^-0.480453, where 0.480453 is (ln 2)².
                let moved = 0.001 * bits;
                let mut other = rates.clone();
                let shift = |keys: u64, bits: f64| (-bits * 0.480_453 / keys as f64).exp();
                other[from] *= shift(RUNS[from], -moved);
                other[to] *= shift(RUNS[to], moved);
                let better = other.iter().sum::<f64>() < sum * 0.999_99;
                assert!(
                    from == to || other[from] > 1.0 || !better,
                    "of {bits} bits, {moved:.0} are better spent in level {to} than in level {from}"
                );
            }
        }
    }
}

fn the_mean() {
    let bits = bits_by_level(&RUNS, 10.0);
    let total: f64 = bits.iter().zip(RUNS).map(|(bits, keys)| bits * keys as f64).sum();
    let mean = total / 111_100.0;
    assert!((mean - 10.0).abs() < 0.01, "the mean over all keys is {mean:.3} bits, expected 10");
    assert!(bits[0] > bits[1] && bits[2] > bits[3], "smaller levels get more bits: {bits:?}");
    let step = bits[0] - bits[1];
    assert!(
        (step - 4.79).abs() < 0.01,
        "a tenth of the keys gets {step:.2} bits more, expected 4.79"
    );
}

/// Fills a database whose filters have `bits_per_key`, by level, and looks up 20,000 absent keys.
/// Returns the number of false positives, and the bytes of all filters.
fn run(name: &str, bits_per_key: [f64; LEVELS]) -> (u64, u64) {
    let scratch = Scratch::new(name);
    let mut db = tree(&scratch, bits_per_key).expect("the database is filled");
    db.blocks = Box::new(Cache::new(1 << 20));
    for i in 0..20_000 {
        db.get(&key("lack", i)).expect("get");
    }
    let bytes = db.levels.iter().flatten().map(|table| table.filter_bytes()).sum();
    (db.counts().iter().map(|counts| counts.full_positive).sum(), bytes)
}

fn in_the_engine() {
    let mut divided = [0.0; LEVELS];
    divided[..3].copy_from_slice(&bits_by_level(&KEYS, 6.0));
    let (uniform, uniform_bytes) = run("uniform", [6.0; LEVELS]);
    let (divided, divided_bytes) = run("divided", divided);
    // Each of the three filters is rounded up to whole lines of 64 bytes.
    assert!(
        divided_bytes <= uniform_bytes + 3 * 64,
        "the filters take {divided_bytes} bytes, and {uniform_bytes} with the same bits everywhere"
    );
    assert!(
        3 * divided < 2 * uniform,
        "{divided} reads in vain, and {uniform} with the same bits everywhere: expected at most two thirds"
    );
    remark(format!("{divided} reads in vain, {uniform} with the same bits everywhere"));
}

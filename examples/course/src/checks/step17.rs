use maypole::FilterPolicy;

use super::super::step08_levels::{Db, LEVELS};
use super::super::step09_cache::Cache;
use super::super::step10_budget::{bits_by_level, memory};
use super::super::step17_policy::*;
use super::key;
use super::tour::{KEYS, tree};
use crate::check::{Check, Scratch, remark};

pub const CHECKS: &[Check] = &[
    Check { says: "asked() counts the queries for keys that a level lacks", run: counted },
    Check { says: "the budget is used and not exceeded", run: within_budget },
    Check { says: "who is asked twice as often gets half the rate", run: proportional },
    Check { says: "a level that is not asked gets nothing", run: not_asked },
    Check { says: "no bit is better spent in another level", run: no_better_exchange },
    Check { says: "bits_by_what_is_asked() has the mean that was asked for", run: the_mean },
    Check {
        says: "your policy reads less in vain than Monkey's, with the same memory",
        run: judged,
    },
    Check { says: "Maypole reads the text of your policy", run: the_text },
];

fn of(keys: u64, absent: u64) -> Asked {
    Asked { keys, absent }
}

/// Most lookups find their key in the last level.
const PRESENT: [Asked; 4] = [
    Asked { keys: 100, absent: 100_000 },
    Asked { keys: 1_000, absent: 99_000 },
    Asked { keys: 10_000, absent: 90_000 },
    Asked { keys: 100_000, absent: 1_000 },
];

/// Looks up each key of each level, and 600 absent keys: 97 of 100 lookups find their key.
fn look_up(db: &Db) {
    for (kind, keys) in ["new", "low", "deep"].into_iter().zip(KEYS) {
        for i in 0..keys {
            assert!(db.get(&key(kind, i)).expect("get").is_some(), "{kind} {i} is not found");
        }
    }
    for i in 0..600 {
        db.get(&key("lack", i)).expect("get");
    }
}

/// A database whose filters have `bits_per_key`, by level, after the lookups.
fn looked_up(name: &str, bits_per_key: &[f64]) -> (Scratch, Db) {
    let scratch = Scratch::new(name);
    let mut bits = [0.0; LEVELS];
    bits[..KEYS.len()].copy_from_slice(&bits_per_key[..KEYS.len()]);
    let mut db = tree(&scratch, bits).expect("the database is filled");
    db.blocks = Box::new(Cache::new(1 << 20));
    look_up(&db);
    (scratch, db)
}

fn counted() {
    let (_scratch, db) = looked_up("asked", &[4.0; 3]);
    let found = asked(&db).expect("asked");
    // A key of level 0 is found there, so no other level is asked. A key of level 1 is asked of
    // level 0 too, and so on.
    let expected = [of(200, 22_600), of(2_000, 20_600), of(20_000, 600), of(0, 0)];
    for (level, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(
            found.absent, expected.absent,
            "queries of level {level} for keys that it lacks. 200 keys of level 0, 2000 of level 1 \
             and 20,000 of level 2, and 600 absent ones were looked up. Left: yours; right: expected"
        );
        assert_eq!(found.keys, expected.keys, "keys of level {level}");
    }
    assert_eq!(found.len(), LEVELS, "levels");
}

fn used(asked: &[Asked], rates: &[f64]) -> f64 {
    let keys: Vec<u64> = asked.iter().map(|level| level.keys).collect();
    memory(&keys, rates)
}

fn within_budget() {
    let many = [of(1000, 1_000_000), of(1000, 500_000)];
    let found = rates(&many, 1000.0);
    let bits = used(&many, &found);
    assert!(found.iter().all(|&rate| rate <= 1.0), "a rate is at most 1: {found:?}");
    // At λ = 1 they take 27,000 bits.
    assert!(
        (bits - 27_000.0).abs() > 1000.0,
        "the rates take {bits:.0} bits of a budget of 1000: these levels are asked so often that λ \
         must be above 1"
    );
    for bits in [1_000.0, 50_000.0, 500_000.0, 2_000_000.0] {
        let used = used(&PRESENT, &rates(&PRESENT, bits));
        assert!(used <= bits * 1.000_001, "the rates take {used:.0} bits of a budget of {bits}");
        assert!(used >= bits * 0.999, "the rates use only {used:.0} bits of {bits}");
    }
}

fn proportional() {
    let asked = [of(1000, 1_000), of(1000, 2_000), of(4000, 2_000)];
    let rates = rates(&asked, 60_000.0);
    for (i, expected, why) in [
        (1, 0.5, "it has as many keys as level 0 and is asked twice as often"),
        (2, 2.0, "it has 4 times the keys of level 0 and is asked twice as often"),
    ] {
        let factor = rates[i] / rates[0];
        assert!(
            (factor - expected).abs() < 0.01,
            "level {i} has {factor:.2} times the rate of level 0, expected {expected}: {why}"
        );
    }
}

fn not_asked() {
    let asked = [of(1000, 50_000), of(100_000, 0), of(0, 0)];
    let found = rates(&asked, 10_000.0);
    assert_eq!(found[1], 1.0, "the rate of a level that nobody asks: a filter saves nothing there");
    assert_eq!(found[2], 1.0, "the rate of a level without keys");
    let emptied = rates(&[of(1000, 50_000), of(0, 700)], 10_000.0);
    assert_eq!(emptied[1], 1.0, "the rate of a level that was asked, and was emptied since then");
    assert!(emptied[0] > 1e-4, "level 0 gets a rate of {:.1e} for 10 bits a key", emptied[0]);
    let all = used(&asked[..1], &found[..1]);
    assert!(
        (all - 10_000.0).abs() < 10.0,
        "level 0 alone is asked, and gets {all:.0} of 10,000 bits"
    );
}

fn no_better_exchange() {
    for bits in [50_000.0, 300_000.0, 1_000_000.0] {
        let rates = rates(&PRESENT, bits);
        let cost = |rates: &[f64]| -> f64 {
            rates.iter().zip(PRESENT).map(|(rate, level)| rate * level.absent as f64).sum()
        };
        for from in 0..4 {
            for to in 0..4 {
                // For each bit more a key, a rate is multiplied by e^-0.480453.
                let moved = 0.001 * bits;
                let mut other = rates.clone();
                let shift = |keys: u64, bits: f64| (-bits * 0.480_453 / keys as f64).exp();
                other[from] *= shift(PRESENT[from].keys, -moved);
                other[to] *= shift(PRESENT[to].keys, moved);
                let better = cost(&other) < cost(&rates) * 0.999_99;
                assert!(
                    from == to || other[from] > 1.0 || !better,
                    "of {bits} bits, {moved:.0} are better spent in level {to} than in level {from}"
                );
            }
        }
    }
}

fn the_mean() {
    let bits = bits_by_what_is_asked(&PRESENT, 5.0);
    let total: f64 = bits.iter().zip(PRESENT).map(|(bits, level)| bits * level.keys as f64).sum();
    let mean = total / 111_100.0;
    assert!((mean - 5.0).abs() < 0.01, "the mean over all keys is {mean:.3} bits, expected 5");
    assert!(bits.iter().all(|&bits| bits >= 0.0), "bits by level: {bits:?}");
}

/// Reads in vain of the lookups, and the bytes of all filters.
fn judge(name: &str, bits_per_key: &[f64]) -> (u64, u64) {
    let (_scratch, db) = looked_up(name, bits_per_key);
    let bytes = db.levels.iter().flatten().map(|table| table.filter_bytes()).sum();
    let in_vain =
        db.counts().into_iter().map(|counts| counts.full_positive - counts.full_true_positive);
    (in_vain.sum(), bytes)
}

fn judged() {
    let (_scratch, db) = looked_up("first", &[4.0; 3]);
    let bits = bits_by_what_is_asked(&asked(&db).expect("asked"), 4.0);
    let (monkey, monkey_bytes) = judge("monkey", &bits_by_level(&KEYS, 4.0));
    let (yours, your_bytes) = judge("yours", &bits);
    // Each filter is rounded up to whole lines.
    assert!(
        your_bytes <= monkey_bytes + 3 * 64,
        "your filters take {your_bytes} bytes, Monkey's {monkey_bytes}"
    );
    assert!(
        4 * yours < 3 * monkey,
        "{yours} reads in vain, and {monkey} with Monkey's bits: expected at most three quarters"
    );
    remark(format!("{yours} reads in vain, {monkey} with Monkey's bits"));
}

fn the_text() {
    let text = text(&bits_by_what_is_asked(&PRESENT, 2.0));
    let policy: Result<FilterPolicy, _> = text.parse();
    assert!(policy.is_ok(), "Maypole does not know the policy `{text}`");
}

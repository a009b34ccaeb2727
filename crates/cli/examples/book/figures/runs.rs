//! How to divide memory among the filters of a tree's sorted runs, one filter for each run.

use std::fmt::Write;

use maypole::filter::{Family, FilterBuilder, FilterReader, FilterSpec, sizing};

use super::keys::{key_hash, rate};

/// The number of keys in each run. Each run has ten times as many as the run before.
pub const RUNS: [u64; 4] = [100, 1_000, 10_000, 100_000];
const ABSENT: u64 = 50_000;

/// The rates of the runs' filters that give an absent key the fewest wasted reads, if all filters
/// together have `bits_per_key` bits a key. They are proportional to the sizes of the runs: λ times
/// the number of keys.
pub fn monkey(bits_per_key: f64) -> Vec<f64> {
    let keys: u64 = RUNS.iter().sum();
    let rates = |log2_lambda: f64| RUNS.map(|n| (log2_lambda.exp2() * n as f64).clamp(1e-4, 1.0));
    let bits = |log2_lambda: f64| -> f64 {
        let of =
            |(rate, n): (f64, u64)| n as f64 * f64::from(sizing::bloom_millibits_for_fpr(rate));
        rates(log2_lambda).into_iter().zip(RUNS).map(of).sum::<f64>() / 1000.0
    };
    // The larger λ is, the higher are the rates, and the fewer bits they need. So bisection finds
    // the λ that needs the given bits.
    let (mut low, mut high) = (-60.0, 0.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if bits(middle) > bits_per_key * keys as f64 { low = middle } else { high = middle }
    }
    rates(high).to_vec()
}

/// The filter of one run: its bytes and its false-positive rate.
pub struct Measured {
    pub bytes: usize,
    pub rate: f64,
}

/// Builds a filter for each run, and measures its rate by queries for absent keys.
pub fn measured(specs: &[FilterSpec]) -> Vec<Measured> {
    let of = |(run, (&n, spec)): (usize, (&u64, &FilterSpec))| {
        let set = format!("run{run}");
        let mut builder = FilterBuilder::new(*spec);
        (0..n).for_each(|i| builder.add(key_hash(&set, i)));
        let Some(block) = builder.finish() else { return Measured { bytes: 0, rate: 1.0 } };
        let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
        let rate = rate("absent", ABSENT, |hash| filter.may_contain(hash));
        Measured { bytes: block.bytes().len(), rate }
    };
    RUNS.iter().zip(specs).enumerate().map(of).collect()
}

/// For each run, the spec of a filter with the rate that [`monkey`] gives it.
pub fn divided(bits_per_key: f64) -> Vec<FilterSpec> {
    let spec = |rate| FilterSpec::fpr(rate, Family::Bloom).unwrap();
    monkey(bits_per_key).into_iter().map(spec).collect()
}

fn line(out: &mut String, name: &str, specs: &[FilterSpec]) {
    let runs = measured(specs);
    let bytes: usize = runs.iter().map(|run| run.bytes).sum();
    let wasted: f64 = runs.iter().map(|run| run.rate).sum();
    let rates: String = runs.iter().map(|run| format!("{:>9.3} %", run.rate * 100.0)).collect();
    writeln!(out, "{name:<18} {bytes:>7} {rates}   {wasted:.4}").unwrap();
}

pub fn budgets() -> String {
    let mut out = String::from(
        "policy               bytes     run of 100      1,000     10,000    100,000   wasted reads\n",
    );
    for bits in [10.0, 5.0] {
        let same = [FilterSpec::bloom(bits).unwrap(); 4];
        line(&mut out, &format!("bloom({bits})"), &same);
        line(&mut out, &format!("budget({bits}/key)"), &divided(bits));
    }
    let bloom = FilterSpec::bloom(10.0).unwrap();
    line(&mut out, "bottommost_none", &[bloom, bloom, bloom, FilterSpec::NONE]);
    out
}

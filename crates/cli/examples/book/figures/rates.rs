//! False-positive rates: those of the formulas, and those observed with filters.

use std::f64::consts::LN_2;
use std::fmt::Write;

use maypole::filter::Family;
use maypole::filter::sizing::{
    bloom_fpr, bloom_millibits_for_fpr, bloom_probes, expected_bits_per_key,
    lower_bound_bits_per_key, standard_bloom_fpr,
};
use maypole::wilson_interval_95;

use super::bloom::Bloom;
use super::keys::{key_hash, rate};

const KEYS: u64 = 20_000;
const ABSENT: u64 = 200_000;

/// A filter of `n` keys in `m` bits.
pub fn filled(n: u64, m: u64, k: u32) -> Bloom {
    let mut filter = Bloom::new(m, k);
    (0..n).for_each(|i| filter.insert(key_hash("present", i)));
    filter
}

/// The share of absent keys that a filter lets through.
pub fn observed(filter: &Bloom, absent: u64) -> f64 {
    rate("absent", absent, |hash| filter.may_contain(hash))
}

pub fn mathematics() -> String {
    let mut out = String::from("rate      bound  textbook  one line  burr, a million keys\n");
    for rate in [0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0.0001] {
        let bound = lower_bound_bits_per_key(rate);
        let line = f64::from(bloom_millibits_for_fpr(rate)) / 1000.0;
        let burr = expected_bits_per_key(Family::Burr, 1_000_000, rate).unwrap();
        let percent = format!("{} %", rate * 100.0);
        writeln!(out, "{percent:<8} {bound:>6.2} {:>9.2} {line:>9.2} {burr:>9.2}", bound / LN_2)
            .unwrap();
    }
    out
}

pub fn by_k() -> String {
    let mut out = String::from("k   theory    measured\n");
    for k in [1, 2, 4, 5, 6, 7, 8, 10, 14, 20, 30] {
        let theory = standard_bloom_fpr(10.0, k);
        let measured = observed(&filled(KEYS, 10 * KEYS, k), ABSENT);
        writeln!(out, "{k:<2} {:>7.3} % {:>7.3} %", theory * 100.0, measured * 100.0).unwrap();
    }
    out
}

pub fn by_m() -> String {
    let mut out = String::from("bits/key   k  theory    measured    RocksDB's Bloom, k, theory\n");
    for bits in [4, 6, 8, 10, 12, 14, 16] {
        let k = (bits as f64 * LN_2).round() as u32;
        let theory = standard_bloom_fpr(bits as f64, k);
        let measured = observed(&filled(KEYS, bits * KEYS, k), ABSENT);
        let millibits = bits as u32 * 1000;
        writeln!(
            out,
            "{bits:<8} {k:>3} {:>7.3} % {:>7.3} % {:>12} {:>10.3} %",
            theory * 100.0,
            measured * 100.0,
            bloom_probes(millibits),
            bloom_fpr(millibits) * 100.0,
        )
        .unwrap();
    }
    out
}

pub fn by_n() -> String {
    let mut out = String::from("keys held ÷ planned   bits set    theory    measured\n");
    for times in [0.5, 1.0, 1.5, 2.0, 3.0, 5.0] {
        let n = (KEYS as f64 * times) as u64;
        let filter = filled(n, 10 * KEYS, 7);
        writeln!(
            out,
            "{times:<19} {:>8.1} % {:>8.2} % {:>8.2} %",
            filter.fill() * 100.0,
            standard_bloom_fpr(10.0 / times, 7) * 100.0,
            observed(&filter, ABSENT) * 100.0,
        )
        .unwrap();
    }
    out
}

pub fn divisor() -> String {
    let filter = filled(KEYS, 8 * KEYS, 6);
    let mut out = String::from("present   absent    ÷ absent   ÷ all\n");
    for absent_percent in [100, 50, 10] {
        let absent = ABSENT * absent_percent / 100;
        let false_positives =
            (0..absent).filter(|&i| filter.may_contain(key_hash("absent", i))).count() as f64;
        writeln!(
            out,
            "{:>5} % {:>7} % {:>8.2} % {:>7.2} %",
            100 - absent_percent,
            absent_percent,
            false_positives / absent as f64 * 100.0,
            false_positives / ABSENT as f64 * 100.0,
        )
        .unwrap();
    }
    out
}

pub fn intervals() -> String {
    let mut out = String::from("absent keys asked   seen   rate       95 % interval\n");
    let filter = filled(KEYS, 10 * KEYS, 7);
    for asked in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let seen = (0..asked).filter(|&i| filter.may_contain(key_hash("absent", i))).count() as u64;
        let (low, high) = wilson_interval_95(seen, asked).unwrap();
        writeln!(
            out,
            "{asked:<16} {seen:>7} {:>7.3} %   {:.3} % to {:.3} %",
            seen as f64 / asked as f64 * 100.0,
            low * 100.0,
            high * 100.0,
        )
        .unwrap();
    }
    out
}

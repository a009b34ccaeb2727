//! Computes rows of figures from the counters of trees.

use std::collections::HashMap;

use maypole::{BlockKind, FilterCounts, LevelStats, Stats, Ticker, Tickers};

use super::measure::{self, Measured, Phase};
use super::results::{LatencyRow, LevelRow, PolicyRow, Results, Times};
use super::rounds::Repeated;
use super::setup::Setup;
use super::tree::Tree;
use crate::failure::Result;
use crate::monitor::figures::since;

/// The percentiles of a curve. They are closest together at the high end, where the times differ
/// most.
const PERCENTILES: [f64; 19] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 97.0, 98.0, 99.0, 99.5,
    99.9, 99.95, 99.99,
];

/// Looks the keys up in all trees, and computes the rows of each.
pub fn of(setup: &Setup, trees: &[Tree]) -> Result<Results> {
    let mut results = Results::default();
    for (tree, measured) in trees.iter().zip(measure::run(setup, trees)?) {
        results.policies.push(policy(tree, &measured, setup.keys.present.len(), setup.cold));
        results.levels.extend(levels(tree, &measured));
        results.latency.extend(latency(tree, &measured));
    }
    Ok(results)
}

/// The row of one policy, in a tree of `keys` keys.
fn policy(tree: &Tree, measured: &Measured, keys: usize, cold: bool) -> PolicyRow {
    let Measured { absent, present } = measured;
    let (before, after) = (&absent.before, &absent.after);
    let filter = since(after.counts().filter, before.counts().filter);
    let per_get =
        |phase: &Phase, ticker| counts_of(phase).get(ticker) as f64 / phase.gets().max(1) as f64;
    let last = &present.after;
    let is_metadata = |kind: BlockKind| matches!(kind, BlockKind::Filter | BlockKind::Index);
    let resident = last.cache.iter().filter(|(kind, _)| is_metadata(*kind));
    PolicyRow {
        policy: tree.policy.to_string(),
        keys: keys as u64,
        tables: after.files.len() as u64,
        levels: after.levels.iter().filter(|level| level.files > 0).count() as u64,
        filter_bytes: after.filter_bytes(),
        bits_per_key: after.filter_bytes() as f64 * 8.0 / keys as f64,
        metadata_bytes: last.metadata_bytes as u64,
        resident_metadata_bytes: resident.map(|(_, usage)| usage.bytes as u64).sum(),
        build_ns_per_key: tree.build_ns_per_key,
        predicted_fpr: predicted_fpr(before, after),
        observed_fpr: filter.observed_fpr(),
        filters_asked: filter.asked(),
        useful: filter.useful,
        full_positive: filter.full_positive,
        full_true_positive: filter.full_true_positive,
        absent_gets: absent.gets(),
        present_gets: present.gets(),
        blocks_per_absent_get: per_get(absent, Ticker::DataBlocksExamined),
        blocks_per_present_get: per_get(present, Ticker::DataBlocksExamined),
        file_reads_per_absent_get: per_get(absent, Ticker::FileReads),
        file_reads_per_present_get: per_get(present, Ticker::FileReads),
        get_absent_ns: times(absent),
        get_present_ns: times(present),
        // If lookups of present keys read no file, all blocks were cached, so nothing came from the
        // device.
        cold: cold.then(|| {
            let has_read = counts_of(present).get(Ticker::FileReads) > 0;
            has_read && absent.was_cold() && present.was_cold()
        }),
    }
}

fn counts_of(phase: &Phase) -> Tickers {
    &phase.after.tickers - &phase.before.tickers
}

fn times(phase: &Phase) -> Times {
    let tenths = |nanos: f64| (nanos * 10.0).round() / 10.0;
    let quantile = |q| phase.latency.value_at_quantile(q) as f64;
    let Repeated { median, low, high } = Repeated::of(&phase.means);
    Times {
        mean: tenths(phase.latency.mean()),
        p50: quantile(0.5),
        p99: quantile(0.99),
        median: tenths(median),
        low: tenths(low),
        high: tenths(high),
    }
}

/// The false-positive rate to expect in a phase: the mean of the tables' predicted rates. The
/// weight of a table is the number of queries of its filter for keys that the table does not hold.
fn predicted_fpr(before: &Stats, after: &Stats) -> Option<f64> {
    let asked = |counts: FilterCounts| counts.useful + counts.false_positive();
    let earlier: HashMap<u64, u64> =
        before.files.iter().map(|file| (file.number, asked(file.counts.filter))).collect();
    let (mut sum, mut total) = (0.0, 0.0);
    for file in &after.files {
        if let Some(fpr) = file.filter.as_ref().and_then(|filter| filter.predicted_fpr) {
            let asked_before = earlier.get(&file.number).copied().unwrap_or(0);
            let weight = asked(file.counts.filter).saturating_sub(asked_before) as f64;
            sum += weight * fpr;
            total += weight;
        }
    }
    (total > 0.0).then(|| sum / total)
}

/// The levels of one tree that hold data, and the counts of lookups in them.
fn levels(tree: &Tree, measured: &Measured) -> Vec<LevelRow> {
    let after = &measured.absent.after;
    let counts = |stats: &Stats, level: usize| {
        let level = stats.levels.iter().find(|stats| stats.level == level);
        level.map(|stats| stats.counts.filter).unwrap_or_default()
    };
    let counted =
        |phase: &Phase, level| since(counts(&phase.after, level), counts(&phase.before, level));
    let row = |level: &LevelStats| {
        let present = counted(&measured.present, level.level);
        let counted = counted(&measured.absent, level.level);
        LevelRow {
            policy: tree.policy.to_string(),
            level: level.level as u64,
            files: level.files as u64,
            file_bytes: level.file_bytes,
            entries: level.entries,
            filter_bytes: level.filter_bytes,
            bits_per_key: level.filter_bytes as f64 * 8.0 / level.entries.max(1) as f64,
            predicted_fpr: level.predicted_fpr,
            observed_fpr: counted.observed_fpr(),
            filters_asked: counted.asked(),
            present_asked: present.useful + present.false_positive(),
            present_wrong: present.false_positive(),
        }
    };
    after.levels.iter().filter(|level| level.files > 0).map(row).collect()
}

fn latency(tree: &Tree, measured: &Measured) -> Vec<LatencyRow> {
    let mut rows = Vec::new();
    for (lookups, phase) in [("absent", &measured.absent), ("present", &measured.present)] {
        // A percentile above the median with fewer than ten lookups beyond it shows single events,
        // so it is left out.
        let told = |p: &&f64| (100.0 - **p) / 100.0 * phase.gets() as f64 >= 10.0 || **p <= 50.0;
        rows.extend(PERCENTILES.iter().filter(told).map(|&percentile| LatencyRow {
            policy: tree.policy.to_string(),
            lookups: lookups.to_string(),
            percentile,
            ns: phase.latency.value_at_quantile(percentile / 100.0),
        }));
    }
    rows
}

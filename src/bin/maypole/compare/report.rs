//! What came of a comparison: one row a policy, and a verdict in words; or JSON.

use std::collections::HashMap;
use std::io::Write;

use hdrhistogram::Histogram;
use maypole::{FilterCounts, Stats, Ticker, wilson_interval_95};
use serde_json::json;

use super::measure::{Measured, Phase};
use super::tree::Tree;
use crate::failure::Result;
use crate::output::{self, json_object, table};
use crate::text::{count, percent, size};

/// What a read costs when the operating system has the page, and when a flash device has it.
const READ_COSTS_MICROS: [f64; 2] = [2.0, 80.0];

/// One policy's results. Undefined figures are `None`.
pub struct Row {
    pub policy: String,
    pub keys: usize,
    pub tables: usize,
    /// Levels that hold data.
    pub levels: usize,
    /// Stored bytes of all filters.
    pub filter_bytes: u64,
    pub build_ns_per_key: Option<f64>,
    /// Weighted by how often each table's filter was asked.
    pub fpr_predicted: Option<f64>,
    /// Of the absent phase.
    pub filter: FilterCounts,
    pub absent: PhaseRow,
    pub present: PhaseRow,
}

/// One policy's lookups in one phase.
pub struct PhaseRow {
    pub gets: u64,
    /// Data blocks examined a lookup, cached or not.
    pub blocks_per_get: f64,
    /// Reads from table files a lookup.
    pub reads_per_get: f64,
    pub latency: Histogram<u64>,
}

impl PhaseRow {
    fn new(phase: &Phase) -> PhaseRow {
        let counted = &phase.after.tickers - &phase.before.tickers;
        let per_get = |ticker| counted.get(ticker) as f64 / phase.gets as f64;
        PhaseRow {
            gets: phase.gets,
            blocks_per_get: per_get(Ticker::DataBlocksExamined),
            reads_per_get: per_get(Ticker::FileReads),
            latency: phase.latency.clone(),
        }
    }

    /// Mean, median and 99th percentile, in nanoseconds.
    fn times(&self) -> [f64; 3] {
        let quantile = |q| self.latency.value_at_quantile(q) as f64;
        [self.latency.mean(), quantile(0.5), quantile(0.99)]
    }
}

impl Row {
    fn new(tree: &Tree, measured: &Measured, keys: usize) -> Row {
        let Phase { before, after, .. } = &measured.absent;
        let counted = &after.tickers - &before.tickers;
        Row {
            policy: tree.policy.to_string(),
            keys,
            tables: after.files.len(),
            levels: after.levels.iter().filter(|level| level.files > 0).count(),
            filter_bytes: after.filter_bytes(),
            build_ns_per_key: tree.build_ns_per_key,
            fpr_predicted: predicted_fpr(before, after),
            filter: FilterCounts {
                useful: counted.get(Ticker::BloomUseful),
                full_positive: counted.get(Ticker::BloomFullPositive),
                full_true_positive: counted.get(Ticker::BloomFullTruePositive),
                untrusted: counted.get(Ticker::BloomUntrusted),
            },
            absent: PhaseRow::new(&measured.absent),
            present: PhaseRow::new(&measured.present),
        }
    }

    fn bits_per_key(&self) -> f64 {
        self.filter_bytes as f64 * 8.0 / self.keys as f64
    }

    fn interval_95(&self) -> Option<(f64, f64)> {
        let false_positive = self.filter.false_positive();
        wilson_interval_95(false_positive, false_positive + self.filter.useful)
    }

    /// Tables an absent lookup was spared.
    fn spared_per_get(&self) -> f64 {
        self.filter.useful as f64 / self.absent.gets as f64
    }
}

/// The rate to expect of a phase: what was predicted for each table, weighted by how often its
/// filter was asked for a key that it does not hold.
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

/// The rows, in the order of the policies.
pub fn rows(trees: &[Tree], measured: &[Measured], keys: usize) -> Vec<Row> {
    trees.iter().zip(measured).map(|(tree, measured)| Row::new(tree, measured, keys)).collect()
}

/// A JSON array, one object a policy and line.
pub fn json(rows: &[Row], out: &mut dyn Write) -> Result {
    output::json_array(&rows.iter().map(json_row).collect::<Vec<_>>(), out)
}

fn json_row(row: &Row) -> String {
    let times = |phase: &PhaseRow| {
        let [mean, p50, p99] = phase.times().map(|nanos| json!((nanos * 10.0).round() / 10.0));
        json_object(&[("mean", &mean), ("p50", &p50), ("p99", &p99)])
    };
    json_object(&[
        ("policy", &json!(row.policy)),
        ("keys", &row.keys),
        ("tables", &row.tables),
        ("levels", &row.levels),
        ("filter_bytes", &row.filter_bytes),
        ("bits_per_key", &json!(row.bits_per_key())),
        ("build_ns_per_key", &json!(row.build_ns_per_key)),
        ("fpr_predicted", &json!(row.fpr_predicted)),
        ("fpr_observed", &json!(row.filter.observed_fpr())),
        ("filters_probed", &row.filter.probed()),
        ("useful", &row.filter.useful),
        ("full_positive", &row.filter.full_positive),
        ("full_true_positive", &row.filter.full_true_positive),
        ("absent_gets", &row.absent.gets),
        ("present_gets", &row.present.gets),
        ("block_reads_per_absent_get", &json!(row.absent.blocks_per_get)),
        ("block_reads_per_present_get", &json!(row.present.blocks_per_get)),
        ("file_reads_per_absent_get", &json!(row.absent.reads_per_get)),
        ("file_reads_per_present_get", &json!(row.present.reads_per_get)),
        ("get_absent_ns", &times(&row.absent)),
        ("get_present_ns", &times(&row.present)),
    ])
}

/// The tables: what the filters are and did, and what the lookups cost.
pub fn tables(rows: &[Row], out: &mut dyn Write) -> Result {
    let header = [
        "policy",
        "tables",
        "levels",
        "filters",
        "bits/key",
        "build\nns/key",
        "predicted\nrate",
        "observed\nrate",
        "95 %\ninterval",
        "useful",
        "full\npositive",
        "true\npositive",
    ];
    let filters = rows.iter().map(|row| {
        let rate = |rate: Option<f64>| rate.map_or("-".into(), percent);
        vec![
            row.policy.clone(),
            row.tables.to_string(),
            row.levels.to_string(),
            size(row.filter_bytes),
            format!("{:.2}", row.bits_per_key()),
            row.build_ns_per_key.map_or("-".into(), |nanos| format!("{nanos:.1}")),
            rate(row.fpr_predicted),
            rate(row.filter.observed_fpr()),
            row.interval_95().map_or("-".into(), |(low, high)| {
                format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high))
            }),
            count(row.filter.useful),
            count(row.filter.full_positive),
            count(row.filter.full_true_positive),
        ]
    });
    let (keys, gets) = rows.first().map_or((0, 0), |row| (row.keys, row.absent.gets));
    writeln!(
        out,
        "Filters of {} keys, asked by {} absent lookups",
        count(keys as u64),
        count(gets)
    )?;
    writeln!(out, "{}\n", table(&header, filters))?;

    let header = [
        "policy",
        "blocks\nabsent",
        "blocks\npresent",
        "reads\nabsent",
        "reads\npresent",
        "absent ns\nmean",
        "\np50",
        "\np99",
        "present ns\nmean",
        "\np50",
        "\np99",
    ];
    let lookups = rows.iter().map(|row| {
        let mut cells = vec![row.policy.clone()];
        let phases = [&row.absent, &row.present];
        cells.extend(phases.map(|phase| format!("{:.4}", phase.blocks_per_get)));
        cells.extend(phases.map(|phase| format!("{:.4}", phase.reads_per_get)));
        for phase in phases {
            cells.extend(phase.times().map(|nanos| count(nanos.round() as u64)));
        }
        cells
    });
    writeln!(out, "A lookup: data blocks examined, cached or not; reads from files; time")?;
    writeln!(out, "{}", table(&header, lookups))?;
    Ok(())
}

/// What each policy saves per absent lookup, and what that takes, from the smallest to the largest.
pub fn verdict(rows: &[Row], data_bytes: usize, out: &mut dyn Write) -> Result {
    let met = rows.iter().map(|row| row.spared_per_get() + row.absent.blocks_per_get);
    let met = met.fold(0.0, f64::max);
    let at = |reads: f64| {
        let [cached, flash] = READ_COSTS_MICROS;
        format!(
            "{:.1} µs at {cached} µs a read, {:.0} µs at {flash} µs",
            reads * cached,
            reads * flash
        )
    };
    writeln!(out, "\nVerdict")?;
    writeln!(
        out,
        "Without filters an absent lookup reads {met:.2} data blocks when none is cached: {}.",
        at(met)
    )?;
    let mut by_size: Vec<&Row> = rows.iter().filter(|row| row.filter_bytes > 0).collect();
    by_size.sort_by_key(|row| row.filter_bytes);
    let mut smaller: Option<&Row> = None;
    for row in by_size {
        write!(
            out,
            "{} saves {:.3} of them: {}. Its filters take {} of memory, {:.1} % of the data.",
            row.policy,
            row.spared_per_get(),
            at(row.spared_per_get()),
            size(row.filter_bytes),
            row.filter_bytes as f64 * 100.0 / data_bytes as f64,
        )?;
        if let Some(smaller) = smaller {
            let more_bytes = row.filter_bytes - smaller.filter_bytes;
            let more_reads = row.spared_per_get() - smaller.spared_per_get();
            let against = format!("{} more than {}", size(more_bytes), smaller.policy);
            if more_reads > 0.0 {
                write!(out, " {against}, for {}.", at(more_reads))?;
            } else {
                write!(out, " {against}, which saves as much.")?;
            }
        }
        writeln!(out)?;
        smaller = Some(row);
    }
    Ok(())
}

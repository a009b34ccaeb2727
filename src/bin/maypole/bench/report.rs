//! The results of the workloads: one row each, or JSON.

use std::fmt::Display;
use std::io::Write;

use maypole::{Ticker, Tickers};
use serde_json::json;

use super::workload::{Outcome, Workload, Written};
use crate::failure::Result;
use crate::output::{self, json_object};
use crate::show::sheet::{Cell, Screen, Sheet};
use crate::show::text::{count, percent, size};

/// One workload.
pub struct Row {
    pub workload: Workload,
    pub threads: u64,
    pub outcome: Outcome,
    /// `None` where nothing was written.
    pub writes: Option<Writes>,
    pub peak_memory: Option<u64>,
}

/// What the writes of a workload cost until compaction had settled.
pub struct Writes {
    pub written: Written,
    pub counted: Tickers,
    /// Keys and values that can be found afterwards.
    pub live_bytes: u64,
    pub disk_bytes: u64,
    /// Tables that are left.
    pub tables: usize,
    /// Seconds from the start of the workload.
    pub seconds_until_settled: f64,
}

impl Row {
    fn ops_per_second(&self) -> f64 {
        self.outcome.log.operations as f64 / self.outcome.seconds
    }

    /// The time of an operation of one thread.
    fn ns_per_operation(&self) -> f64 {
        1e9 * self.threads as f64 / self.ops_per_second()
    }

    fn mb_per_second(&self) -> f64 {
        self.outcome.log.bytes as f64 / 1e6 / self.outcome.seconds
    }

    fn quantile_ns(&self, q: f64) -> u64 {
        self.outcome.log.latency.value_at_quantile(q)
    }

    fn found(&self) -> Option<u64> {
        (!self.workload.is_write()).then_some(self.outcome.log.found)
    }
}

impl Writes {
    fn written_bytes(&self) -> u64 {
        let parts = [Ticker::WalFileBytes, Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        parts.iter().map(|&part| self.counted.get(part)).sum()
    }

    fn write_amplification(&self) -> f64 {
        self.written_bytes() as f64 / self.written.bytes as f64
    }

    /// `None` if no entry is alive.
    fn space_amplification(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| self.disk_bytes as f64 / self.live_bytes as f64)
    }

    fn stall_seconds(&self) -> f64 {
        self.counted.get(Ticker::StallMicros) as f64 / 1e6
    }

    fn json(&self) -> String {
        let counted = |ticker| self.counted.get(ticker);
        json_object(&[
            ("operations", &self.written.operations),
            ("user_bytes", &self.written.bytes),
            ("wal_bytes", &counted(Ticker::WalFileBytes)),
            ("flush_bytes", &counted(Ticker::FlushWriteBytes)),
            ("compaction_bytes", &counted(Ticker::CompactWriteBytes)),
            ("write_amplification", &json!(self.write_amplification())),
            ("live_bytes", &self.live_bytes),
            ("disk_bytes", &self.disk_bytes),
            ("space_amplification", &json!(self.space_amplification())),
            ("tables", &self.tables),
            ("seconds_until_settled", &json!(self.seconds_until_settled)),
            ("stalls", &counted(Ticker::StallCount)),
            ("stall_seconds", &json!(self.stall_seconds())),
        ])
    }
}

/// A JSON array, one object a workload and line.
pub fn json(rows: &[Row], out: &mut dyn Write) -> Result {
    let objects: Vec<String> = rows.iter().map(json_row).collect();
    output::json_array(&objects, out)
}

fn json_row(row: &Row) -> String {
    let log = &row.outcome.log;
    let latency = json_object(&[
        ("timed", &log.latency.len()),
        ("mean", &json!(log.latency.mean())),
        ("p50", &row.quantile_ns(0.5)),
        ("p95", &row.quantile_ns(0.95)),
        ("p99", &row.quantile_ns(0.99)),
        ("p999", &row.quantile_ns(0.999)),
        ("max", &log.latency.max()),
    ]);
    let writes: Box<dyn Display> = match &row.writes {
        Some(writes) => Box::new(writes.json()),
        None => Box::new("null"),
    };
    json_object(&[
        ("workload", &json!(row.workload.name())),
        ("threads", &row.threads),
        ("operations", &log.operations),
        ("seconds", &json!(row.outcome.seconds)),
        ("ops_per_second", &json!(row.ops_per_second())),
        ("ns_per_operation", &json!(row.ns_per_operation())),
        ("mb_per_second", &json!(row.mb_per_second())),
        ("latency_ns", &latency),
        ("found", &json!(row.found())),
        ("writes", &writes),
        ("peak_memory_bytes", &json!(row.peak_memory)),
    ])
}

fn sheet(columns: Vec<&'static str>, rows: Vec<Vec<String>>) -> Sheet {
    let rows = rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect());
    Sheet { columns, rows: rows.collect() }
}

/// Two tables: what operations took, and what the writes cost in all.
pub fn tables(rows: &[Row], clock_ns: u64, out: &mut dyn Write) -> Result {
    let header = [
        "workload",
        "operations",
        "ops/s",
        "ns/op",
        "MB/s",
        "found",
        "µs p50",
        "p95",
        "p99",
        "p99.9",
        "max",
    ];
    let speeds = rows.iter().map(|row| {
        let log = &row.outcome.log;
        let found = row.found().map(|found| percent(found as f64 / log.operations as f64));
        let mut cells = vec![
            row.workload.name(),
            count(log.operations),
            count(row.ops_per_second().round() as u64),
            count(row.ns_per_operation().round() as u64),
            format!("{:.1}", row.mb_per_second()),
            found.unwrap_or("-".into()),
        ];
        cells.extend([0.5, 0.95, 0.99, 0.999, 1.0].map(|q| micros(row.quantile_ns(q))));
        cells
    });
    let screen = Screen::stdout();
    writeln!(out, "{}", sheet(header.to_vec(), speeds.collect()).to_text(&screen))?;

    let header = [
        "until compaction\nhas settled",
        "writes",
        "seconds",
        "write\namplification",
        "disk",
        "space\namplification",
        "tables",
        "stalls",
        "seconds\nstalled",
    ];
    let writes = rows.iter().filter_map(|row| {
        let writes = row.writes.as_ref()?;
        Some(vec![
            row.workload.name(),
            count(writes.written.operations),
            format!("{:.2}", writes.seconds_until_settled),
            format!("{:.2}", writes.write_amplification()),
            size(writes.disk_bytes),
            writes.space_amplification().map_or("-".into(), |ratio| format!("{ratio:.2}")),
            count(writes.tables as u64),
            count(writes.counted.get(Ticker::StallCount)),
            format!("{:.2}", writes.stall_seconds()),
        ])
    });
    let writes: Vec<Vec<String>> = writes.collect();
    if !writes.is_empty() {
        let writes = sheet(header.to_vec(), writes);
        writeln!(out, "\n{}", writes.to_text(&screen))?;
    }

    let (threads, peak) = rows.last().map_or((1, None), |row| (row.threads, row.peak_memory));
    let peak = peak.map_or(String::new(), |bytes| format!("; peak memory {}", size(bytes)));
    let note = format!(
        "Note: {}, threads: {threads}{peak}; reading the clock took {clock_ns} ns, taken off every \
         latency.",
        output::machine()
    );
    writeln!(out, "\n{}", screen.wrap(&note))?;
    Ok(())
}

/// Microseconds, three significant digits.
fn micros(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{:.2}", nanos as f64 / 1e3),
        10_000..100_000 => format!("{:.1}", nanos as f64 / 1e3),
        _ => count((nanos as f64 / 1e3).round() as u64),
    }
}

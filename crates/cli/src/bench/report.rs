//! Prints the results of the workloads: one row each, or JSON.

use std::io::Write;

use maypole::{Ticker, Tickers};
use serde_json::json;

use super::log::{Log, Written};
use super::options::Workload;
use crate::failure::Result;
use crate::output::{self, object};
use crate::show::sheet::{Column, Screen, Sheet, or_dash};
use crate::show::text::{count, percent, size};

pub struct Row {
    pub workload: Workload,
    pub threads: u64,
    pub log: Log,
    pub seconds: f64,
    /// `None` where nothing was written.
    pub writes: Option<Writes>,
    pub peak_memory: Option<u64>,
}

/// What the writes of a workload cost until compaction had settled.
pub struct Writes {
    pub written: Written,
    pub counted: Tickers,
    /// Bytes of the keys and values that are live afterwards.
    pub live_bytes: u64,
    pub disk_bytes: u64,
    /// The number of tables after compaction has settled.
    pub tables: usize,
    /// Seconds from the start of the workload.
    pub seconds_until_settled: f64,
}

impl Row {
    fn ops_per_second(&self) -> f64 {
        self.log.operations as f64 / self.seconds
    }

    /// The mean time that one thread needs for an operation.
    fn ns_per_operation(&self) -> f64 {
        1e9 * self.threads as f64 / self.ops_per_second()
    }

    fn mb_per_second(&self) -> f64 {
        self.log.bytes as f64 / 1e6 / self.seconds
    }

    fn quantile_ns(&self, q: f64) -> u64 {
        self.log.latency.value_at_quantile(q)
    }

    fn found(&self) -> Option<u64> {
        (!self.workload.is_write()).then_some(self.log.found)
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

    /// `None` if no entry is live.
    fn space_amplification(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| self.disk_bytes as f64 / self.live_bytes as f64)
    }

    fn stall_seconds(&self) -> f64 {
        self.counted.get(Ticker::StallMicros) as f64 / 1e6
    }

    fn json(&self) -> String {
        let counted = |ticker| self.counted.get(ticker);
        object! {
            self.written => operations, user_bytes = self.written.bytes;
            self =>
                wal_bytes = counted(Ticker::WalFileBytes),
                flush_bytes = counted(Ticker::FlushWriteBytes),
                compaction_bytes = counted(Ticker::CompactWriteBytes),
                write_amplification = json!(self.write_amplification()), live_bytes, disk_bytes,
                space_amplification = json!(self.space_amplification()), tables,
                seconds_until_settled, stalls = counted(Ticker::StallCount),
                stall_seconds = json!(self.stall_seconds())
        }
    }
}

pub fn to_json(row: &Row) -> String {
    let log = &row.log;
    let latency_ns = object! {
        timed = log.latency.len(), mean = json!(log.latency.mean()), p50 = row.quantile_ns(0.5),
        p95 = row.quantile_ns(0.95), p99 = row.quantile_ns(0.99), p999 = row.quantile_ns(0.999),
        max = log.latency.max()
    };
    object! {
        workload = json!(row.workload.name()), threads = row.threads, operations = log.operations,
        seconds = json!(row.seconds), ops_per_second = json!(row.ops_per_second()),
        ns_per_operation = json!(row.ns_per_operation()),
        mb_per_second = json!(row.mb_per_second()), latency_ns = latency_ns,
        found = json!(row.found()),
        writes = row.writes.as_ref().map_or("null".to_string(), Writes::json),
        peak_memory_bytes = json!(row.peak_memory)
    }
}

/// Prints two tables: what operations took, and what the writes cost until compaction has settled.
pub fn tables(rows: &[Row], clock_ns: u64, out: &mut dyn Write) -> Result {
    let found = |row: &Row| Some(row.found()? as f64 / row.log.operations as f64);
    let columns: &[Column<Row>] = &[
        ("workload", &|row| row.workload.name().into()),
        ("operations", &|row| count(row.log.operations).into()),
        ("ops/s", &|row| count(row.ops_per_second().round() as u64).into()),
        ("ns/op", &|row| count(row.ns_per_operation().round() as u64).into()),
        ("MB/s", &|row| format!("{:.1}", row.mb_per_second()).into()),
        ("found", &|row| or_dash(found(row).map(percent))),
        ("µs p50", &|row| micros(row.quantile_ns(0.5)).into()),
        ("p95", &|row| micros(row.quantile_ns(0.95)).into()),
        ("p99", &|row| micros(row.quantile_ns(0.99)).into()),
        ("p99.9", &|row| micros(row.quantile_ns(0.999)).into()),
        ("max", &|row| micros(row.quantile_ns(1.0)).into()),
    ];
    let screen = Screen::stdout();
    writeln!(out, "{}", Sheet::of(rows, columns).to_text(&screen))?;

    let written: Vec<(String, &Writes)> =
        rows.iter().filter_map(|row| Some((row.workload.name(), row.writes.as_ref()?))).collect();
    let space = |writes: &Writes| Some(format!("{:.2}", writes.space_amplification()?));
    let columns: &[Column<(String, &Writes)>] = &[
        ("until compaction\nhas settled", &|(name, _)| name.clone().into()),
        ("writes", &|(_, writes)| count(writes.written.operations).into()),
        ("seconds", &|(_, writes)| format!("{:.2}", writes.seconds_until_settled).into()),
        ("write\namplification", &|(_, it)| format!("{:.2}", it.write_amplification()).into()),
        ("disk", &|(_, writes)| size(writes.disk_bytes).into()),
        ("space\namplification", &|(_, writes)| or_dash(space(writes))),
        ("tables", &|(_, writes)| count(writes.tables as u64).into()),
        ("stalls", &|(_, writes)| count(writes.counted.get(Ticker::StallCount)).into()),
        ("seconds\nstalled", &|(_, writes)| format!("{:.2}", writes.stall_seconds()).into()),
    ];
    if !written.is_empty() {
        writeln!(out, "\n{}", Sheet::of(&written, columns).to_text(&screen))?;
    }

    let (threads, peak) = rows.last().map_or((1, None), |row| (row.threads, row.peak_memory));
    let peak = peak.map_or(String::new(), |bytes| format!("; peak memory {}", size(bytes)));
    let note = format!(
        "Note: {}, threads: {threads}{peak}; reading the clock took {clock_ns} ns, taken off every \
         latency.",
        output::machine()
    );
    writeln!(out)?;
    screen.say([note], out)
}

/// Formats microseconds, with about three significant digits.
fn micros(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{:.2}", nanos as f64 / 1e3),
        10_000..100_000 => format!("{:.1}", nanos as f64 / 1e3),
        _ => count((nanos as f64 / 1e3).round() as u64),
    }
}

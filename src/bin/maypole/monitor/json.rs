//! `stats --format json`: one object.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use maypole::{LevelStats, PublishedStats};
use serde_json::Value;

use super::Source;
use super::figures::{Figures, ReadCost, warnings};
use crate::failure::Result;
use crate::output::json_object;
use crate::show::record::to_json;

pub fn print(
    source: &Source,
    stats: &PublishedStats,
    read_cost: ReadCost,
    out: &mut dyn Write,
) -> Result {
    let levels: Vec<String> = stats.levels.iter().map(level).collect();
    let cache: Vec<(String, String)> = stats
        .cache
        .iter()
        .map(|(kind, usage)| {
            let usage = json_object(&[("bytes", &usage.bytes), ("entries", &usage.entries)]);
            (format!("{kind:?}").to_lowercase(), usage)
        })
        .collect();
    let cache: Vec<(&str, &dyn std::fmt::Display)> =
        cache.iter().map(|(kind, usage)| (kind.as_str(), usage as _)).collect();
    let snapshot_age = stats.oldest_snapshot;
    let tickers: Vec<_> = stats.tickers.iter().collect();
    let tickers: Vec<(&str, &dyn std::fmt::Display)> =
        tickers.iter().map(|(ticker, count)| (ticker.name(), count as _)).collect();
    let object = json_object(&[
        ("database", &Value::from(source.name.as_str())),
        ("is_open", &stats.is_open),
        ("process_id", &stats.process_id),
        ("opened_unix_ms", &millis(stats.opened)),
        ("written_unix_ms", &millis(stats.written)),
        ("interval_ms", &stats.interval.as_millis()),
        ("read_cost_micros", &Value::from(read_cost.micros())),
        ("figures", &to_json(&Figures::new(stats, read_cost))),
        ("warnings", &Value::from(warnings(stats))),
        ("levels", &format!("[{}]", levels.join(", "))),
        ("memtable_bytes", &stats.memtable_bytes),
        ("memtable_entries", &stats.memtable_entries),
        ("held_by_readers_bytes", &stats.held_by_readers_bytes),
        ("block_cache_capacity_bytes", &stats.cache_capacity_bytes),
        ("block_cache", &json_object(&cache)),
        ("metadata_bytes", &stats.metadata_bytes),
        ("compaction_debt_bytes", &stats.compaction_debt_bytes),
        ("oldest_snapshot_ms", &Value::from(snapshot_age.map(|age| age.as_millis() as u64))),
        ("held_by_snapshots_bytes", &stats.held_by_snapshots_bytes),
        ("tickers", &json_object(&tickers)),
    ]);
    writeln!(out, "{object}")?;
    Ok(())
}

fn level(level: &LevelStats) -> String {
    let (counts, filter) = (level.counts, level.counts.filter);
    json_object(&[
        ("level", &level.level),
        ("files", &level.files),
        ("file_bytes", &level.file_bytes),
        ("entries", &level.entries),
        ("dead_entries", &level.dead_entries),
        ("dead_bytes", &level.dead_bytes),
        ("filter_bytes", &level.filter_bytes),
        ("useful", &filter.useful),
        ("full_positive", &filter.full_positive),
        ("full_true_positive", &filter.full_true_positive),
        ("untrusted", &filter.untrusted),
        ("unfiltered", &counts.unfiltered),
        ("observed_fpr", &Value::from(filter.observed_fpr())),
        ("predicted_fpr", &Value::from(level.predicted_fpr)),
        ("data_blocks_examined", &counts.data_blocks_examined),
        ("reads", &counts.reads),
        ("read_bytes", &counts.read_bytes),
    ])
}

fn millis(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

//! `stats --format json`: one object.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use maypole::{BlockKind, KeyspaceStats, KindUsage, LevelStats, PublishedStats};
use serde_json::Value;

use super::Source;
use super::figures::{Figures, ReadCost, in_vain, warnings};
use crate::failure::Result;
use crate::output::{json_list, json_object, object};
use crate::show::record::to_json;
use crate::show::text::escape;

pub fn print(
    source: &Source,
    stats: &PublishedStats,
    read_cost: ReadCost,
    out: &mut dyn Write,
) -> Result {
    let cached = |(kind, usage): &(BlockKind, KindUsage)| {
        (format!("{kind:?}").to_lowercase(), object! { usage => bytes, entries })
    };
    let snapshot_age = stats.oldest_snapshot;
    let held = object! { stats.held_by_cursors =>
        memtable_bytes, table_bytes, states, cursors,
        oldest_ms = Value::from(stats.held_by_cursors.oldest.as_millis() as u64)
    };
    let tickers = stats.tickers.iter().map(|(ticker, count)| (ticker.name(), count));
    let object = object! { stats =>
        database = Value::from(source.name.as_str()), is_open, process_id,
        opened_unix_ms = millis(stats.opened), written_unix_ms = millis(stats.written),
        interval_ms = stats.interval.as_millis(),
        read_cost_micros = Value::from(read_cost.micros()),
        figures = to_json(&Figures::new(stats, read_cost)),
        warnings = Value::from(warnings(stats)), levels = json_list(stats.levels.iter().map(level)),
        keyspaces = json_list(stats.keyspaces.iter().map(keyspace)),
        in_vain_per_get = json_list(in_vain(stats).iter().map(to_json)),
        memtable_bytes, memtable_entries, held_by_readers_bytes, held_by_cursors = held,
        block_cache_capacity_bytes = stats.cache_capacity_bytes, block_cache = json_object(stats.cache.iter().map(cached)),
        block_cache_tables_bytes = stats.cache_tables_bytes, metadata_bytes, pinned_metadata_bytes,
        compaction_debt_bytes,
        oldest_snapshot_ms = Value::from(snapshot_age.map(|age| age.as_millis() as u64)),
        held_by_snapshots_bytes, tickers = json_object(tickers)
    };
    writeln!(out, "{object}")?;
    Ok(())
}

fn level(level: &LevelStats) -> String {
    let (counts, filter) = (level.counts, level.counts.filter);
    object! {
        level => level, files, file_bytes, entries, dead_entries, dead_bytes, filter_bytes;
        filter => useful, full_positive, full_true_positive, untrusted;
        counts => unfiltered, observed_fpr = Value::from(filter.observed_fpr());
        level => predicted_fpr;
        counts => data_blocks_examined, reads, read_bytes
    }
}

/// The sums of a keyspace, or of those that are not named, whose name is null.
pub fn keyspace(of: &KeyspaceStats) -> String {
    let name = (!of.name.is_empty()).then(|| escape(&of.name));
    object! {
        of => name = Value::from(name), keyspaces, files, file_bytes, entries, filter_bytes,
        memtable_bytes;
        of.counts.filter => useful, full_positive, full_true_positive, untrusted;
        of.counts => unfiltered, data_blocks_examined, reads, read_bytes
    }
}

fn millis(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

//! `stats`: what a database holds.

use std::fmt::Display;
use std::io::Write;

use clap::Args;
use maypole::table::FilterInfo;
use maypole::{BlockKind, FileCounts, FileStats, KindUsage, LevelStats, Ticker};
use serde_json::json;

use crate::args::ReadDb;
use crate::failure::Result;
use crate::output::{json_list, json_object};

/// Print what a database holds: levels, tables, filters, memory.
///
/// Counters count from the opening of a database, so here they stand near zero; a program that
/// keeps it open sees its own in `Db::stats()`.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Stats {
    #[command(flatten)]
    db: ReadDb,
    /// Print a JSON object with all of it, and with every table
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        match self.json {
            true => writeln!(out, "{}", to_json(&db.stats()))?,
            false => write!(out, "{}", db.stats())?,
        }
        Ok(db.close()?)
    }
}

fn to_json(stats: &maypole::Stats) -> String {
    let counts = stats.counts().filter;
    let damaged = stats.damaged.iter().map(|table| {
        let error = json!(table.error.to_string());
        json_object(&[("level", &table.level), ("number", &table.number), ("error", &error)])
    });
    let tickers: Vec<(&str, u64)> =
        stats.tickers.iter().map(|(ticker, count): (Ticker, u64)| (ticker.name(), count)).collect();
    let tickers: Vec<(&str, &dyn Display)> =
        tickers.iter().map(|(name, count)| (*name, count as &dyn Display)).collect();
    json_object(&[
        ("levels", &json_list(stats.levels.iter().map(level))),
        ("filter_bytes", &stats.filter_bytes()),
        ("observed_fpr", &json!(counts.observed_fpr())),
        ("predicted_fpr", &json!(stats.predicted_fpr())),
        ("memtable_bytes", &stats.memtable_bytes),
        ("memtable_entries", &stats.memtable_entries),
        ("compaction_debt_bytes", &stats.compaction_debt_bytes),
        ("write_stall", &json!(stats.write_stall.to_string())),
        ("cache_capacity_bytes", &stats.cache_capacity_bytes),
        ("cache", &json_list(stats.cache.iter().map(cached))),
        ("open_files", &stats.open_files),
        ("max_open_files", &stats.max_open_files),
        ("file_reopens", &stats.file_reopens),
        ("damaged", &json_list(damaged)),
        ("out_of_space", &json!(stats.out_of_space.as_ref().map(ToString::to_string))),
        ("tickers", &json_object(&tickers)),
        ("files", &json_list(stats.files.iter().map(file))),
    ])
}

fn level(level: &LevelStats) -> String {
    json_object(&[
        ("level", &level.level),
        ("files", &level.files),
        ("file_bytes", &level.file_bytes),
        ("entries", &level.entries),
        ("filter_bytes", &level.filter_bytes),
        ("predicted_fpr", &json!(level.predicted_fpr)),
        ("counts", &counts(&level.counts)),
    ])
}

fn file(file: &FileStats) -> String {
    json_object(&[
        ("level", &file.level),
        ("number", &file.number),
        ("file_bytes", &file.file_bytes),
        ("entries", &file.entries),
        ("filter", &file.filter.as_ref().map_or("null".into(), filter)),
        ("counts", &counts(&file.counts)),
    ])
}

/// The filter of a table, for every command that prints one.
pub fn filter(filter: &FilterInfo) -> String {
    json_object(&[
        ("family", &json!(filter.family.map(|family| family.to_string()))),
        ("bytes", &filter.bytes),
        ("keys", &filter.keys),
        ("bits_per_key", &json!(filter.bits_per_key())),
        ("predicted_fpr", &json!(filter.predicted_fpr)),
    ])
}

fn counts(counts: &FileCounts) -> String {
    json_object(&[
        ("useful", &counts.filter.useful),
        ("full_positive", &counts.filter.full_positive),
        ("full_true_positive", &counts.filter.full_true_positive),
        ("untrusted", &counts.filter.untrusted),
        ("observed_fpr", &json!(counts.filter.observed_fpr())),
        ("data_blocks_examined", &counts.data_blocks_examined),
        ("reads", &counts.reads),
        ("read_bytes", &counts.read_bytes),
    ])
}

fn cached((kind, usage): &(BlockKind, KindUsage)) -> String {
    let kind = json!(format!("{kind:?}").to_lowercase());
    json_object(&[("kind", &kind), ("entries", &usage.entries), ("bytes", &usage.bytes)])
}

//! `stats`: what a database holds, and what its filters do for the program that has it open.

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use maypole::table::FilterInfo;
use maypole::{BlockKind, FileStats, KindUsage, LevelStats};
use serde_json::json;

use crate::args::{self, ReadDb};
use crate::failure::{Failure, Result};
use crate::monitor::figures::ReadCost;
use crate::monitor::{self, Source, report, tablestats, watch};
use crate::output::{json_list, object};
use crate::show::text::escape;

/// Print what a database holds and what its filters do: figures, levels, memory, counters.
///
/// The counters are in the memory of the program that has the database open. If the program
/// publishes them, with Builder::publish_stats, they are in the file STATS of the database, and
/// this command reads only that file: it neither opens nor locks the database. The file stays when
/// the program ends.
///
/// If the program publishes no counters, the command opens the database, prints its tree, and says
/// that there are no counters. Any --format but text, and --watch, fail then.
///
/// There are two JSON objects. --format json prints the published counters, by level. --json opens
/// the database and prints every table, but no counters, because the database does not store them.
///
/// The figures of the tree are those of the keyspace `default`, with a line for each other one.
/// --keyspace opens the database and prints the tree of another keyspace, with its line of the
/// published counters.
///
/// The report begins with four figures of the filters: the hit rate (the share of queries that a
/// filter answered with no), the observed false-positive rate next to the predicted one, the reads
/// saved, and the filters as a share of block cache and memtables. Warnings say when to act.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Stats {
    #[command(flatten)]
    db: ReadDb,
    /// Read the counters again after each interval in seconds (default 1) and show the rates since
    /// the last reading, a curve of the last rates, and the levels, until Ctrl-C. A terminal's
    /// screen is redrawn, and what does not fit is left out at the bottom; other output gets a
    /// block for each reading
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = args::number_in(0.01..=86_400.0, "seconds between 0.01 and 86400, such as 2"),
        verbatim_doc_comment
    )]
    watch: Option<f64>,
    /// json: the published counters as one object. prometheus: Prometheus's text format, one series
    /// a counter. tablestats: the lines of Cassandra's nodetool
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = Format::Text,
        conflicts_with = "watch",
        verbatim_doc_comment
    )]
    format: Format,
    /// Open the database and print a JSON object of what it holds, with every table; no counters
    #[arg(long, conflicts_with_all = ["watch", "format"])]
    json: bool,
    /// The cost of reading a data block, in microseconds: the most that a filter saves by answering
    /// no [default: the mean of the reads that the program has timed; 80 if it has timed none]
    #[arg(
        long,
        value_name = "MICROS",
        value_parser = args::micros(),
        conflicts_with = "watch",
        verbatim_doc_comment
    )]
    read_cost: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Prometheus,
    Tablestats,
}

impl Stats {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let source = Source::new(self.db.path());
        if let Some(name) = self.db.keyspace().filter(|_| !self.json) {
            return self.of_keyspace(name, &source, out);
        }
        if let Some(seconds) = self.watch {
            return watch::watch(&source, Duration::from_secs_f64(seconds), out);
        }
        if self.json {
            let db = self.db.open()?;
            writeln!(out, "{}", to_json(&db.stats()))?;
            return Ok(db.close()?);
        }
        match self.format {
            Format::Text => self.report(&source, out),
            Format::Json => {
                let stats = source.read_published()?;
                monitor::json::print(&source, &stats, ReadCost::of(&stats, self.read_cost), out)
            }
            Format::Prometheus => {
                Ok(out.write_all(source.read_published()?.prometheus().as_bytes())?)
            }
            Format::Tablestats => tablestats::print(&source, &source.read_published()?, out),
        }
    }

    /// Prints the tree of a keyspace other than `default`, and what is published of it.
    fn of_keyspace(&self, name: &[u8], source: &Source, out: &mut dyn Write) -> Result {
        if self.watch.is_some() || !matches!(self.format, Format::Text) {
            return Err(Failure::Call(
                "--watch and --format show the published counters, which are of all keyspaces: leave \
                 out --keyspace"
                    .into(),
            ));
        }
        let db = self.db.open()?;
        report::opened(source, &db.stats(), false, out)?;
        let published = source.read().ok().flatten().map(|stats| stats.keyspaces);
        let own = published.unwrap_or_default().into_iter().find(|of| of.name == name);
        if let Some(own) = own {
            writeln!(out)?;
            report::others(&[own], true, out)?;
        }
        Ok(db.close()?)
    }

    fn report(&self, source: &Source, out: &mut dyn Write) -> Result {
        // Another engine's database publishes nothing here, but can be opened.
        let (stats, is_own) = match source.read() {
            Err(_) if !self.db.path().join("STATS").exists() => (None, false),
            read => (read?, true),
        };
        if let Some(stats) = stats {
            return report::published(source, &stats, ReadCost::of(&stats, self.read_cost), out);
        }
        let db = self.db.open()?;
        report::opened(source, &db.stats(), is_own, out)?;
        Ok(db.close()?)
    }
}

/// What the database holds, as JSON. Counters are left out, because the database was opened just
/// now.
fn to_json(stats: &maypole::Stats) -> String {
    let damaged = stats.damaged.iter().map(|table| {
        object! { table => level, number, error = json!(table.error.to_string()) }
    });
    object! { stats =>
        keyspace = json!(escape(&stats.keyspace)),
        keyspaces = json_list(stats.keyspaces.iter().map(monitor::json::keyspace)),
        levels = json_list(stats.levels.iter().map(level)), filter_bytes = stats.filter_bytes(),
        predicted_fpr = json!(stats.predicted_fpr()), memtable_bytes, memtable_entries,
        compaction_debt_bytes, write_stall = json!(stats.write_stall.to_string()),
        cache_capacity_bytes, cache_tables_bytes, metadata_bytes,
        pinned_metadata_bytes,
        cache = json_list(stats.cache.iter().map(cached)),
        open_files, max_open_files, file_reopens, damaged = json_list(damaged),
        out_of_space = json!(stats.out_of_space.as_ref().map(ToString::to_string)),
        files = json_list(stats.files.iter().map(file))
    }
}

fn level(level: &LevelStats) -> String {
    object! { level =>
        level, files, file_bytes, entries, dead_entries, dead_bytes, filter_bytes, predicted_fpr
    }
}

fn file(file: &FileStats) -> String {
    object! { file =>
        level, number, file_bytes, entries, dead_entries, dead_bytes,
        filter = file.filter.as_ref().map_or("null".into(), filter)
    }
}

/// The filter of a table as JSON, for every command that prints it.
pub fn filter(filter: &FilterInfo) -> String {
    object! { filter =>
        family = json!(filter.family.map(|family| family.to_string())), bytes, keys,
        bits_per_key = json!(filter.bits_per_key()), predicted_fpr
    }
}

fn cached((kind, usage): &(BlockKind, KindUsage)) -> String {
    object! { usage => kind = json!(format!("{kind:?}").to_lowercase()), entries, bytes }
}

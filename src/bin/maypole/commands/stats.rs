//! `stats`: what a database holds, and what its filters do for the program that has it open.

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::args::ReadDb;
use crate::failure::Result;
use crate::monitor::{Source, json, prometheus, report, tablestats, watch};

/// Print what a database holds and what its filters do: figures, levels, memory, counters.
///
/// Counters live in the program that has the database open. Where it publishes them, with
/// Builder::publish_stats, they are in the file STATS of the database, and this command reads that
/// file alone: it opens nothing and disturbs nobody. Counters stay there when the program ends.
///
/// Where none are published, the command opens the database, prints its tree, and says so. The other
/// formats and --watch have nothing to print then.
///
/// The four figures: hit rate (questions that a filter answered with no), observed false-positive
/// rate beside the predicted one, reads saved, filters as a share of block cache and memtables.
/// Warnings say when to act.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Stats {
    #[command(flatten)]
    db: ReadDb,
    /// Look again every so many seconds (default 1), and show rates since the last look. Ends on
    /// Ctrl-C. On a terminal the screen is drawn anew, elsewhere each look prints a block
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = seconds,
        verbatim_doc_comment
    )]
    watch: Option<Duration>,
    /// json: one object. prometheus: its text format, one series a counter. tablestats: the lines of
    /// Cassandra's nodetool
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = Format::Text,
        conflicts_with = "watch",
        verbatim_doc_comment
    )]
    format: Format,
    /// What a read of a data block costs, in microseconds: what a filter saves by each no
    #[arg(long, value_name = "MICROS", default_value = "100", value_parser = micros)]
    read_cost: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Prometheus,
    Tablestats,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds between 0.01 and 86400, such as 2".into()),
    }
}

fn micros(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(micros) if (0.0..=1e9).contains(&micros) => Ok(micros),
        _ => Err("expected microseconds between 0 and 1000000000, such as 100".into()),
    }
}

impl Stats {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let source = Source::new(self.db.path());
        if let Some(every) = self.watch {
            return watch::watch(&source, every, self.read_cost, out);
        }
        match self.format {
            Format::Text => self.report(&source, out),
            Format::Json => json::print(&source, &source.read_published()?, self.read_cost, out),
            Format::Prometheus => prometheus::print(&source, &source.read_published()?, out),
            Format::Tablestats => tablestats::print(&source, &source.read_published()?, out),
        }
    }

    fn report(&self, source: &Source, out: &mut dyn Write) -> Result {
        if let Some(stats) = source.read()? {
            return report::published(source, &stats, self.read_cost, out);
        }
        let db = self.db.open()?;
        report::opened(source, &db.stats(), out)?;
        Ok(db.close()?)
    }
}

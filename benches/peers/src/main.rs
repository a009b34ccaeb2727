//! Maypole beside RocksDB and fjall: the same keys, the same cache, the same filter bits.
//!
//! ```text
//! peers read      point lookups, multi_get, seeks and scans on a loaded tree
//! peers write     fills and overwrites, until compaction has settled
//! ```
//!
//! One process an engine. The parent starts them all, lets each load its tree, then asks them in
//! turn for one round of a workload after another: what the machine does to one engine it does to
//! the next. It prints medians of the rounds and their ratios to RocksDB's.

mod engine;
mod keys;
mod read;
mod serve;
mod write;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Maypole beside RocksDB and fjall on the same work")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Point lookups, multi_get, seeks and scans on a loaded tree.
    Read(Options),
    /// Fills and overwrites, until compaction has settled.
    Write(Options),
    /// One engine, driven through standard input. Started by the other commands.
    #[command(hide = true)]
    Serve {
        engine: engine::Kind,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Args, Clone)]
struct Options {
    /// Entries of 20-byte keys and 100-byte values.
    #[arg(long, default_value_t = 3_000_000)]
    entries: u64,
    /// Bytes of the block cache.
    #[arg(long, default_value_t = 1 << 30)]
    cache_bytes: usize,
    /// Bytes of the memtable.
    #[arg(long, default_value_t = 16 << 20)]
    memtable_bytes: usize,
    /// Operations in a round.
    #[arg(long, default_value_t = 300_000)]
    operations: u64,
    /// Rounds of each workload; odd, so that one is the median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Only the workloads whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// The engines, the one that ratios refer to first.
    #[arg(long, value_delimiter = ',', default_value = "rocksdb,maypole,fjall")]
    engines: Vec<engine::Kind>,
    /// Where the trees are built; a temporary directory unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn main() {
    let failed = match Cli::parse().command {
        Command::Read(options) => read::compare(&options),
        Command::Write(options) => write::compare(&options),
        Command::Serve { engine, options } => serve::run(engine, &options),
    };
    if let Err(error) = failed {
        eprintln!("peers: {error}");
        std::process::exit(1);
    }
}

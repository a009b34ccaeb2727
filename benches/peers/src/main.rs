//! Maypole compared with RocksDB and fjall: the same keys, the same cache, the same filter bits.
//!
//! ```text
//! peers read      point lookups, multi_get, seeks and scans on a loaded tree
//! peers device    the same from files that are not in the system's cache
//! peers cache     how often the block cache has what lookups want, with a scan during them
//! peers meta      lookups where filters and indexes do not fit into the block cache
//! peers growth    present and absent lookups in trees of several sizes, and the cost of a memory access
//! peers transactions  one read and one write, in a transaction and without one
//! peers keyspaces  four keyspaces filled and read in turns; batches in one and across three
//! peers threads   the gains of a second reader thread and of a second thread of pure loads
//! peers write     fills and overwrites, until compaction has settled; reads during writes
//! peers living    deletions, queues, retention, snapshots and checkpoints: time, and what is left
//!
//! engine/  the engines behind one interface      serve    one process an engine (server: its handle)
//! keys     what is written and queried           memory   what a load from memory costs
//! ```
//!
//! A *load from memory* is the read of one word whose address depends on the word read before.
//! *Pure* loads are loads without other work.
//!
//! Each engine has a process of its own. The parent starts all processes, and makes each of them
//! build its tree. Then the engines run each round of each workload in turn, so that a disturbance
//! of the machine affects all of them alike. The parent prints the medians of the rounds, and the
//! medians of the rounds' ratios to the first engine. Five commands differ: `write` starts new
//! processes for each round, `threads` measures one engine after the other, `living` runs each
//! workload once, in a new process, and `transactions` and `keyspaces` have one process for all.

mod cache;
mod engine;
mod growth;
mod keys;
mod keyspaces;
mod living;
mod memory;
mod meta;
mod read;
mod rounds;
mod serve;
mod server;
mod threads;
mod transactions;
mod write;

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use keys::{DIGITS, Keys, MAX_BYTES, Values};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Maypole compared with RocksDB and fjall on the same work")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Point lookups, multi_get, seeks and scans on a loaded tree.
    Read(Options),
    /// Lookups, multi_get and a scan of files that are not in the system's cache. Give it a small
    /// block cache (--cache-mb 36) and a directory on the device (--dir).
    Device(Options),
    /// How many lookups of a Zipf distribution find their blocks in the cache: alone, and with a
    /// scan during them. Give it a small block cache (--cache-mb 64).
    Cache(Options),
    /// Lookups where filters and indexes do not fit into the block cache: time and reads.
    ///
    /// The block caches have 1/16, 1/8, 1/4, 1/2, 1 and 2 times the stored bytes of the filters and
    /// indexes in the first engine's tree, or the sizes that --cache-kb lists. Files are in the
    /// system's cache, unless --direct reads past it. One thread looks keys up. Workloads (--only):
    /// absent keys, present keys, and half of each. For each cache and workload every engine first
    /// looks up enough keys to fill the cache. Then the engines take turns in the rounds. Columns:
    /// the size of the cache, and this size divided by that of the filters and indexes; the median
    /// time and reads of a lookup; their ratios to those of RocksDB's faster setting; the ratio of
    /// the time to that of Maypole without filters.
    ///
    /// rocksdb has whole filters and indexes in the cache (cache_index_and_filter_blocks).
    /// rocksdb-parts divides them into parts of 4 KiB, and pins their top levels in the cache.
    /// maypole and maypole-none choose whole ones or parts when they write a table, by the size of
    /// the cache. So they write their trees again for each cache, as if the database had had this
    /// cache from the start. The other trees are written once and only opened again.
    #[command(
        mut_arg("entries", |arg| arg.default_value("1000000")),
        mut_arg("operations", |arg| arg.default_value("20000")),
        mut_arg("rounds", |arg| arg.default_value("3")),
        mut_arg("engines", |arg| arg.default_value(meta::ENGINES))
    )]
    Meta(meta::Meta),
    /// Present and absent lookups in trees of several sizes, everything in the cache.
    Growth(growth::Growth),
    /// What a second reader thread gains, compared with a second thread that only loads from
    /// memory.
    Threads(Options),
    /// One read and one write of a random key, in an optimistic transaction and without one.
    Transactions(Options),
    /// Four keyspaces (RocksDB: column families) in one database: puts and lookups in turns, and
    /// batches of three puts in one keyspace and across three.
    Keyspaces(Options),
    /// Fills and overwrites, until compaction has settled; reads during writes.
    Write(Options),
    /// Deletions, overwrites, queues, retention, snapshots, checkpoints and ingestions: what an
    /// operation takes, and what is on disk after compaction has settled. With --scale 0.01 each of
    /// these loads takes less than a second.
    Living(living::Living),
    /// One load of living on one engine. Started by the command living.
    #[command(hide = true)]
    LivingLoad(living::One),
    /// One engine, driven through standard input. Started by all commands except living.
    #[command(hide = true)]
    Serve {
        engine: engine::Kind,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Args, Clone)]
struct Options {
    /// Entries of a tree.
    #[arg(long, default_value_t = 3_000_000)]
    entries: u64,
    /// Bytes of a key.
    #[arg(long, default_value_t = 20,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new()
            .range(DIGITS as u64..=MAX_BYTES as u64))]
    key_bytes: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// MiB of the block cache. [growth: enlarged if all data needs more]
    #[arg(long, default_value_t = 1024)]
    cache_mb: usize,
    /// KiB of the block cache, instead of --cache-mb. Meta takes several sizes.
    #[arg(long, value_delimiter = ',')]
    cache_kb: Vec<usize>,
    /// MiB of the memtable.
    #[arg(long, default_value_t = 16)]
    memtable_mb: usize,
    /// Read: the number of sorted runs that the tree consists of. They have equal sizes, and each
    /// spans the whole range of keys. The first is in the last level, the others are one table each
    /// in level 0.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4))]
    runs: u64,
    /// Operations in a round of a read workload.
    #[arg(long, default_value_t = 300_000)]
    operations: u64,
    /// Rounds of each workload; odd, so that one is the median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// readwhilewriting: seconds of a round.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// readwhilewriting: the most writes a second; 0 for no limit.
    #[arg(long, default_value_t = 0)]
    writes_per_second: u64,
    /// Threads: milliseconds of a slice, a stretch of time with one kind of work.
    #[arg(long, default_value_t = 200)]
    slice_ms: u64,
    /// Threads: cycles, each of four slices.
    #[arg(long, default_value_t = 25)]
    cycles: u64,
    /// Only the workloads whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The engines. Ratios are those to the first engine.
    #[arg(long, value_delimiter = ',', default_value = "rocksdb,maypole,fjall")]
    engines: Vec<engine::Kind>,
    /// Read, growth: one engine after the other, each with all its rounds, so that only one tree is
    /// in memory at a time.
    #[arg(long)]
    one_at_a_time: bool,
    /// Whether RocksDB charges filters and indexes to its cache. [cache, meta: always]
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    charge_metadata: bool,
    /// Whether RocksDB and Maypole read their tables by direct I/O, past the system's cache.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    direct: bool,
    /// How tables are compressed. With a compression, the second half of a value repeats the first.
    #[arg(long, default_value = "none")]
    compression: engine::Compression,
    /// Maypole's filter policy.
    #[arg(long, default_value = "bloom(10)")]
    filter: String,
    /// Meta: how many rounds of each workload are not measured. With 0, the first workload begins
    /// with an empty cache. [default: by the size of the cache]
    #[arg(long)]
    warm_ups: Option<u64>,
    /// RocksDB's read option async_io, for multi_get and scans.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    async_io: bool,
    /// How many threads may work at one compaction. [default: the engine's own]
    #[arg(long)]
    compaction_threads: Option<usize>,
    /// Where the trees are built; a temporary directory unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Options {
    fn keys(&self) -> Keys {
        Keys(self.key_bytes)
    }

    fn values(&self) -> Values {
        Values { bytes: self.value_bytes, halves: self.compression != engine::Compression::None }
    }

    fn cache_bytes(&self) -> usize {
        self.cache_kb.first().map_or(self.cache_mb << 20, |kib| kib << 10)
    }

    fn memtable_bytes(&self) -> usize {
        self.memtable_mb << 20
    }

    /// Whether the tree's runs must stay as they are, so that the engine must not merge them.
    fn keeps_runs(&self) -> bool {
        self.runs > 1
    }

    fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| workload.contains(only.as_str()))
    }

    /// The arguments that a server process gets.
    fn for_server(&self) -> Vec<String> {
        let numbers: [(&str, u64); 11] = [
            ("entries", self.entries),
            ("key-bytes", self.key_bytes as u64),
            ("value-bytes", self.value_bytes as u64),
            ("cache-mb", self.cache_mb as u64),
            ("memtable-mb", self.memtable_mb as u64),
            ("runs", self.runs),
            ("operations", self.operations),
            ("seconds", self.seconds),
            ("writes-per-second", self.writes_per_second),
            ("slice-ms", self.slice_ms),
            ("cycles", self.cycles),
        ];
        let numbers = numbers.iter().map(|(name, number)| format!("--{name}={number}"));
        let switches = [
            ("charge-metadata", self.charge_metadata),
            ("direct", self.direct),
            ("async-io", self.async_io),
        ];
        let switches = switches.iter().map(|(name, on)| format!("--{name}={on}"));
        let compression = format!("--compression={}", self.compression.name());
        let cache = self.cache_kb.first().map(|n| format!("--cache-kb={n}"));
        let threads = self.compaction_threads.map(|n| format!("--compaction-threads={n}"));
        numbers.chain(switches).chain([compression]).chain(threads).chain(cache).collect()
    }
}

fn main() {
    let failed = match Cli::parse().command {
        Command::Read(options) => read::compare(&options, read::IN_MEMORY),
        Command::Device(options) => read::compare(&options, read::FROM_THE_DEVICE),
        Command::Cache(options) => cache::compare(&options),
        Command::Meta(meta) => meta.compare(),
        Command::Growth(growth) => growth.compare(),
        Command::Threads(options) => threads::compare(&options),
        Command::Transactions(options) => transactions::compare(&options),
        Command::Keyspaces(options) => keyspaces::compare(&options),
        Command::Write(options) => write::compare(&options),
        Command::Living(living) => living.compare(),
        Command::LivingLoad(one) => one.run(),
        Command::Serve { engine, options } => serve::serve(engine, &options),
    };
    if let Err(error) = failed {
        eprintln!("peers: {error}");
        std::process::exit(1);
    }
}

/// The middle value of an odd number of values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The middle one of the ratios of each round to the same round of another measurement.
fn median_ratio(own: &[f64], base: &[f64]) -> f64 {
    median(own.iter().zip(base).map(|(own, base)| own / base).collect())
}

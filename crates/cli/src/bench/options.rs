//! The options of the command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use maypole::{Compression, FilterPolicy};

use super::entries::NUMBER_BYTES;
use crate::args::{self, byte_count_in, count_in};

/// Measure reads and writes of one database, mostly with the workloads of RocksDB's db_bench.
///
/// The workloads run one after the other on the same database. But each fill, queue, overwritehot
/// and retention starts from an empty database, which replaces that of the workload before. After a
/// workload that writes, the memtable is flushed and compaction settles before the next workload
/// begins. Each lookup is checked against what was written.
///
/// A key is its number in 8 bytes, big-endian, followed by '0' up to --key-bytes; readmissing looks
/// up keys one byte longer. Values compress to about half their size. Threads share the operations
/// of a workload; checkpointloop, queue, overwritehot and retention have one thread.
///
/// Every write, seek and batch is timed, every 8th single lookup, and every 64th step of readseq.
/// The time that reading the clock takes is subtracted. In queue, a latency is that of a put and a
/// pop_first together; in checkpointloop, that of a checkpoint without the puts before it; in
/// overwritehot, that of one scan of all keys. An operation of overwritehot is 100 overwrites, then
/// a scan forward and a scan backward. The workload takes a snapshot in every 10th operation and
/// holds the newest four.
///
/// Write amplification is the bytes written to the log and to tables until compaction has settled,
/// divided by the bytes of the keys and values written; a deletion counts as the bytes of its key,
/// and a range deletion as those of the range's two ends. Space amplification is the bytes on disk
/// divided by the bytes of the live keys and values. Peak memory is that of the process so far
/// (Linux: VmHWM).
///
/// --json prints an array, one object a workload: workload, threads, operations, seconds,
/// ops_per_second, ns_per_operation (of one thread), mb_per_second (10^6 bytes of keys and values),
/// latency_ns {timed, mean, p50, p95, p99, p999, max}, found (null for writes), writes (null for
/// reads) {operations, user_bytes, wal_bytes, flush_bytes, compaction_bytes, write_amplification,
/// live_bytes, disk_bytes, space_amplification (null without live entries), tables,
/// seconds_until_settled, stalls, stall_seconds}, peak_memory_bytes (null where unknown).
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Bench {
    /// Workloads, separated by commas, in the order they run [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub workloads: Vec<Workload>,
    /// Puts of a fill or overwrite, and the number of keys to choose from, such as 100k or 10M
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = operations())]
    pub entries: u64,
    /// Operations of a read workload other than readseq [default: --entries]
    #[arg(long, value_name = "N", value_parser = operations())]
    pub reads: Option<u64>,
    /// Keys that deleterandom deletes [default: half of the entries]
    #[arg(long, value_name = "N", value_parser = operations())]
    pub deletes: Option<u64>,
    /// Entries that queue and retention keep [default: queue 1000, retention a tenth of the
    /// entries]
    #[arg(long, value_name = "N", value_parser = operations())]
    pub window: Option<u64>,
    /// Keys that retention deletes at a time; if more than one, it deletes them as a range
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = count_in::<u64>(1..=1_000_000)
    )]
    pub delete_range: u64,
    /// Threads that share the operations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count_in::<u64>(1..=1024))]
    pub threads: u64,
    /// Bytes of a key
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 16,
        value_parser = byte_count_in(NUMBER_BYTES..=4096)
    )]
    pub key_bytes: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = args::value_bytes())]
    pub value_bytes: usize,
    /// Block cache, such as 64M
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = args::cache_bytes())]
    pub cache: usize,
    /// Size of the memtable, such as 64M
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = byte_count_in(4096..=2 << 30),
        default_value = "16M"
    )]
    pub memtable: usize,
    /// Filter policy (see compare --help)
    #[arg(long, value_name = "POLICY", default_value = "bloom(10)")]
    pub filter: FilterPolicy,
    /// Compression of data blocks: none, snappy, lz4 or zstd
    #[arg(long, value_name = "NAME", value_parser = args::compression, default_value = "lz4")]
    pub compression: Compression,
    /// Sync every write
    #[arg(long)]
    pub sync: bool,
    /// Make the database in this directory and keep it. If the directory holds one from an earlier
    /// call with the same --entries and --key-bytes, use that; then no workload can run that starts
    /// from an empty database [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub db: Option<PathBuf>,
    /// Record one lookup in 64 in this file, for the --query-file of advise and compare
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Draw other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print a JSON array, one object a workload
    #[arg(long)]
    pub json: bool,
}

fn operations() -> impl Fn(&str) -> std::result::Result<u64, String> + Clone {
    count_in(1..=10_000_000_000)
}

/// The workloads of `bench`, in the order in which they run if none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Workload {
    /// Puts every key once, in key order, into an empty database
    Fillseq,
    /// Like fillrandom, with a thousandth of the entries and every write synced
    Fillsync,
    /// Puts random keys into an empty database, which then holds about 63 % of all keys
    Fillrandom,
    /// Like fillrandom, but into the existing database
    Overwrite,
    /// Lookups of random keys
    Readrandom,
    /// Lookups of absent keys that lie between the written ones
    Readmissing,
    /// Lookups of random keys, 64 in a batch; a latency is that of a batch
    Multireadrandom,
    /// An operation seeks to a random key and reads 50 entries from there on
    Seekrandom,
    /// Every thread reads all entries once, in key order
    Readseq,
    /// readrandom, while one more thread overwrites as fast as it can
    Readwhilewriting,
    /// Deletions of --deletes different keys, drawn at random
    Deleterandom,
    /// 60 times: 10 puts of random keys, then a checkpoint
    Checkpointloop,
    /// A queue of --window entries: puts at the end, and pop_first at the front
    Queue,
    /// Overwrites 3 keys under snapshots; an operation is 100 overwrites and 2 scans
    Overwritehot,
    /// Puts all keys in order, deleting the oldest, so that --window entries remain
    Retention,
}

//! `bench`: measures operations of a database, in workloads that mostly have db_bench's names.
//!
//! ```text
//! entries    the key and value of each number, and which were written
//! workload   what the threads do
//! living     the workloads whose data becomes obsolete
//! log        what one thread did, and how long it took
//! report     one row a workload; or JSON
//! ```
//!
//! Every lookup is checked against what was written, because figures of a database that returns
//! wrong results are worth nothing.

mod entries;
mod living;
mod log;
mod report;
mod workload;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use maypole::{Compression, Db, FilterPolicy};

use crate::args::{byte_count_in, count_in};
use crate::clock::clock_ns;
use crate::failure::{Failure, Result};
use crate::output::json_array;
use crate::scratch::{self, Scratch, making};
use crate::{args, progress, space};
use entries::{Entries, NUMBER_BYTES};
use report::{Row, Writes};
use workload::{Run, Workload};

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
    workloads: Vec<Workload>,
    /// Puts of a fill or overwrite, and the number of keys to choose from, such as 100k or 10M
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = operations())]
    entries: u64,
    /// Operations of a read workload other than readseq [default: --entries]
    #[arg(long, value_name = "N", value_parser = operations())]
    reads: Option<u64>,
    /// Keys that deleterandom deletes [default: half of the entries]
    #[arg(long, value_name = "N", value_parser = operations())]
    deletes: Option<u64>,
    /// Entries that queue and retention keep [default: queue 1000, retention a tenth of the
    /// entries]
    #[arg(long, value_name = "N", value_parser = operations())]
    window: Option<u64>,
    /// Keys that retention deletes at a time; if more than one, it deletes them as a range
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = count_in::<u64>(1..=1_000_000)
    )]
    delete_range: u64,
    /// Threads that share the operations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count_in::<u64>(1..=1024))]
    threads: u64,
    /// Bytes of a key
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 16,
        value_parser = byte_count_in(NUMBER_BYTES..=4096)
    )]
    key_bytes: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = args::value_bytes())]
    value_bytes: usize,
    /// Block cache, such as 64M
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = args::cache_bytes())]
    cache: usize,
    /// Size of the memtable, such as 64M
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = byte_count_in(4096..=2 << 30),
        default_value = "16M"
    )]
    memtable: usize,
    /// Filter policy (see compare --help)
    #[arg(long, value_name = "POLICY", default_value = "bloom(10)")]
    filter: FilterPolicy,
    /// Compression of data blocks: none, snappy, lz4 or zstd
    #[arg(long, value_name = "NAME", value_parser = args::compression, default_value = "lz4")]
    compression: Compression,
    /// Sync every write
    #[arg(long)]
    sync: bool,
    /// Make the database in this directory and keep it. If the directory holds one from an earlier
    /// call with the same --entries and --key-bytes, use that; then no workload can run that starts
    /// from an empty database [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    db: Option<PathBuf>,
    /// Draw other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print a JSON array, one object a workload
    #[arg(long)]
    json: bool,
}

fn operations() -> impl Fn(&str) -> std::result::Result<u64, String> + Clone {
    count_in(1..=10_000_000_000)
}

/// Values of at least this many bytes compress to about half their size.
const COMPRESSIBLE_BYTES: usize = 100;
/// About how many bytes an entry takes in a table in addition to its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 12;
/// The most write-ahead logs that exist at a time, each as large as a memtable: that of the active
/// memtable, those of two frozen memtables, and one that is being removed.
const LOGS: u64 = 4;

impl Bench {
    pub fn run(mut self, out: &mut dyn Write) -> Result {
        if self.workloads.is_empty() {
            self.workloads = Workload::value_variants().to_vec();
        }
        let kept = self.db.as_deref().map_or(Ok(false), holds_something)?;
        let parent = self.db.clone().unwrap_or_else(scratch::temporary);
        self.check_order(&parent, kept)?;
        let afterwards = if self.db.is_some() { "and kept" } else { "and removed at the end" };
        space::announce(&parent, self.disk_bytes(), afterwards)?;
        // `scratch` is a temporary directory for the database or, with `--db`, for its checkpoints.
        let (scratch, dir) = match self.db.clone() {
            Some(dir) if self.workloads.contains(&Workload::Checkpointloop) => {
                let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
                let above = above.unwrap_or(Path::new("."));
                (Some(Scratch::new(above, "maypole-bench-")?), dir)
            }
            Some(dir) => (None, dir),
            None => {
                let scratch = Scratch::new(&parent, "maypole-bench-")?;
                let dir = scratch.path().join("db");
                (Some(scratch), dir)
            }
        };

        let mut entries = Entries::new(self.entries, self.key_bytes, self.value_bytes);
        let mut db = making(|| self.open(&dir, !kept))?;
        if kept {
            self.find_written(&db, &dir, &entries)?;
        }
        let clock_ns = clock_ns();
        let mut rows = Vec::new();
        for (i, &workload) in self.workloads.iter().enumerate() {
            if workload.is_fill() && i > 0 {
                db.close()?;
                scratch::remove(&dir)?;
                entries.forget();
                db = making(|| self.open(&dir, true))?;
            }
            let copies = scratch.as_ref().map_or(dir.as_path(), Scratch::path);
            let run = Run { options: &self, db: &db, entries: &entries, clock_ns, copies };
            rows.push(measure(&run, workload, &dir)?);
        }
        db.close()?;
        if let Some(scratch) = scratch {
            scratch.close()?;
        }
        match self.json {
            true => json_array(rows.iter().map(report::to_json), out),
            false => report::tables(&rows, clock_ns, out),
        }
    }

    /// The approximate maximum of bytes on disk. During compaction a part of the tree exists twice,
    /// at worst all of it, and overwritten entries stay until a compaction drops them.
    fn disk_bytes(&self) -> u64 {
        let halved =
            self.compression != Compression::None && self.value_bytes >= COMPRESSIBLE_BYTES;
        let value_bytes = if halved { self.value_bytes / 2 } else { self.value_bytes };
        let tables = |entries: u64| {
            entries.saturating_mul((self.key_bytes + value_bytes + ENTRY_OVERHEAD_BYTES) as u64)
        };
        let of = |workload: &Workload| match workload {
            Workload::Fillsync => 2 * tables(self.entries.div_ceil(workload::SYNC_SHARE)),
            Workload::Overwrite | Workload::Readwhilewriting => 3 * tables(self.entries),
            Workload::Deleterandom | Workload::Checkpointloop => 3 * tables(self.entries),
            fill if fill.is_fill() => 2 * tables(self.entries),
            _ => 0,
        };
        let tables = self.workloads.iter().map(of).max().unwrap_or(0);
        let logs = LOGS * self.memtable as u64;
        tables.saturating_add(logs.min(2 * tables))
    }

    /// Rejects lists of workloads that cannot run, before anything is touched. If the directory is
    /// not empty and so its database is `kept`, no workload may start from an empty database.
    /// Otherwise the first workload must.
    fn check_order(&self, dir: &Path, kept: bool) -> Result {
        let fill = self.workloads.iter().find(|workload| workload.is_fill());
        match (kept, fill, self.workloads.first()) {
            (true, Some(fill), _) => Err(Failure::new(format_args!(
                "{}: not empty, and {} would start from an empty database: leave fills out or give \
                 another directory",
                dir.display(),
                fill.name()
            ))),
            (false, _, Some(first)) if !first.is_fill() => Err(Failure::new(format_args!(
                "{} needs a database: start with fillseq or fillrandom, or give --db with one",
                first.name()
            ))),
            _ => Ok(()),
        }
    }

    fn open(&self, dir: &Path, create: bool) -> Result<Db> {
        let options = Db::builder(dir)
            .create_if_missing(create)
            .filter(self.filter.clone())
            .compression(self.compression)
            .block_cache_bytes(self.cache)
            .memtable_bytes(self.memtable);
        Ok(options.open()?)
    }

    /// Reads a database that an earlier call has left, to learn which keys it has.
    fn find_written(&self, db: &Db, dir: &Path, entries: &Entries) -> Result {
        let _spinner = progress::spinner("reading which keys there are");
        let mut cursor = db.cursor();
        cursor.seek_to_first()?;
        while cursor.valid() {
            let Some(number) = entries.number_of(cursor.key()) else {
                return Err(Failure::new(format_args!(
                    "{}: the key {} was not made by this command with {} --entries and {} --key-bytes",
                    dir.display(),
                    crate::show::text::escape(cursor.key()),
                    self.entries,
                    self.key_bytes
                )));
            };
            entries.mark_written(number);
            cursor.next()?;
        }
        match entries.written() {
            0 => Err(Failure::new(format_args!("{}: an empty database", dir.display()))),
            _ => Ok(()),
        }
    }
}

/// Runs a workload. If the workload writes, waits until compaction has settled.
fn measure(run: &Run, workload: Workload, dir: &Path) -> Result<Row> {
    let Run { db, entries, .. } = *run;
    let bar = progress::bar(run.operations(workload), workload.name());
    let (before, start) = (db.stats(), Instant::now());
    let (log, seconds) = run.run(workload, &bar)?;
    bar.finish_and_clear();
    let mut writes = None;
    if workload.writes() {
        let settle = || db.flush().and_then(|()| db.wait_for_compaction());
        progress::during("compaction settles", settle)?;
        let stats = db.stats();
        writes = Some(Writes {
            written: log.written,
            counted: &stats.tickers - &before.tickers,
            live_bytes: entries.written() * entries.entry_bytes(),
            disk_bytes: directory_bytes(dir)?,
            tables: stats.files.len(),
            seconds_until_settled: start.elapsed().as_secs_f64(),
        });
    }
    let threads = workload.threads(run.options.threads);
    Ok(Row { workload, threads, log, seconds, writes, peak_memory: space::of_process("VmHWM:") })
}

fn holds_something(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut inside) => Ok(inside.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::of_file(dir, "list", &error)),
    }
}

fn directory_bytes(dir: &Path) -> Result<u64> {
    let failed = |error| Failure::of_file(dir, "list", &error);
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(failed)? {
        // A file that was deleted since it was listed takes no space.
        bytes += entry.map_err(failed)?.metadata().map_or(0, |file| file.len());
    }
    Ok(bytes)
}

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
mod options;
mod report;
mod workload;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use maypole::{Compression, Db, LookupRecording};

use crate::clock::clock_ns;
use crate::failure::{Failure, Result};
use crate::output::{json_array, tell};
use crate::scratch::{self, Scratch, making};
use crate::show::text::counted;
use crate::{progress, space};
use entries::Entries;
pub use options::Bench;
use options::Workload;
use report::{Row, Writes};
use workload::Run;

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
        let mut recording = self.record(&db)?;
        for (i, &workload) in self.workloads.iter().enumerate() {
            if workload.is_fill() && i > 0 {
                drop(recording.take());
                db.close()?;
                scratch::remove(&dir)?;
                entries.forget();
                db = making(|| self.open(&dir, true))?;
                recording = self.record(&db)?;
            }
            let copies = scratch.as_ref().map_or(dir.as_path(), Scratch::path);
            let run = Run { options: &self, db: &db, entries: &entries, clock_ns, copies };
            rows.push(measure(&run, workload, &dir)?);
        }
        if let (Some(recording), Some(path)) = (recording, &self.record) {
            let lookups = counted(recording.finish()?, "lookup");
            tell(format_args!("note: {lookups} recorded in {}", path.display()));
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

    fn record(&self, db: &Db) -> Result<Option<LookupRecording>> {
        const ONE_IN: u32 = 64;
        Ok(self.record.as_ref().map(|path| db.record_lookups(path, ONE_IN)).transpose()?)
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
        // A database that is kept may be watched by `stats`.
        let options = match self.db {
            Some(_) => options.publish_stats(Duration::from_secs(1)),
            None => options,
        };
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

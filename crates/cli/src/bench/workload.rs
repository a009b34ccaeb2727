//! The workloads, most under db_bench's names, and what each does to a database.

use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use indicatif::ProgressBar;
use maypole::{Db, Durability, WriteBatch};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::entries::Entries;
use super::log::{Log, Written};
use super::options::{Bench, Workload};
use crate::failure::{Failure, Result};

/// Keys of one `multi_get`.
const TOGETHER: usize = 64;
/// Entries read after a seek.
const AFTER_SEEK: usize = 50;
/// The number of entries that `fillsync` writes is `--entries` divided by this number.
pub const SYNC_SHARE: u64 = 1000;
/// The number of checkpoints of `checkpointloop`, and of puts before each.
pub const CHECKPOINTS: u64 = 60;
pub const PUTS_PER_CHECKPOINT: u64 = 10;
/// Overwrites in one operation of `overwritehot`.
pub const OVERWRITES_PER_SCAN: u64 = 100;
/// Operations between two steps of the progress bar.
const BAR_STEP: u64 = 1024;

impl Workload {
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_string()
    }

    /// Whether the workload starts from an empty database.
    pub fn is_fill(self) -> bool {
        use Workload::*;
        matches!(self, Fillseq | Fillrandom | Fillsync | Queue | Overwritehot | Retention)
    }

    /// Whether the operations of the workload write. What is timed may be something else: a scan in
    /// `overwritehot`, a checkpoint in `checkpointloop`.
    pub fn is_write(self) -> bool {
        use Workload::*;
        self.is_fill() || matches!(self, Overwrite | Deleterandom | Checkpointloop)
    }

    /// The number of threads that work, if `asked_for` are requested. A workload that depends on
    /// the order of its operations has one thread.
    pub fn threads(self, asked_for: u64) -> u64 {
        use Workload::*;
        match self {
            Checkpointloop | Queue | Overwritehot | Retention => 1,
            _ => asked_for,
        }
    }

    /// Whether the workload writes anything, in its operations or in the background.
    pub fn writes(self) -> bool {
        self.is_write() || self == Workload::Readwhilewriting
    }

    /// One in this many operations is timed. Every write is timed, because it may stall. Short
    /// operations are sampled, because reading the clock takes a considerable part of their time.
    fn timed_one_in(self) -> u64 {
        match self {
            Workload::Readseq => 64,
            Workload::Readrandom | Workload::Readmissing | Workload::Readwhilewriting => 8,
            _ => 1,
        }
    }
}

/// What every workload of a run has in common.
pub struct Run<'a> {
    pub options: &'a Bench,
    pub db: &'a Db,
    pub entries: &'a Entries,
    pub clock_ns: u64,
    /// A directory for checkpoints, on the file system of the database.
    pub copies: &'a Path,
}

impl Run<'_> {
    /// Operations of all threads together.
    pub fn operations(&self, workload: Workload) -> u64 {
        let (entries, options) = (self.entries.count, self.options);
        match workload {
            Workload::Fillsync => entries.div_ceil(SYNC_SHARE),
            Workload::Readseq => options.threads * self.entries.written(),
            Workload::Deleterandom => options.deletes.unwrap_or(entries / 2).min(entries),
            Workload::Checkpointloop => CHECKPOINTS,
            Workload::Overwritehot => entries.div_ceil(OVERWRITES_PER_SCAN),
            _ if workload.is_write() => entries,
            _ => options.reads.unwrap_or(entries),
        }
    }

    /// Runs a workload. Returns a log, and the seconds from the start until the last measured
    /// thread had ended. The log has the operations of the measured threads, and the writes of all
    /// threads.
    pub fn run(&self, workload: Workload, bar: &ProgressBar) -> Result<(Log, f64)> {
        let operations = self.operations(workload);
        let threads = workload.threads(self.options.threads);
        let all_here = Barrier::new(threads as usize + 1);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| {
                    let part = operations * thread / threads..operations * (thread + 1) / threads;
                    let all_here = &all_here;
                    scope.spawn(move || -> Result<Log> {
                        let mut worker = self.worker(workload, thread, bar);
                        all_here.wait();
                        worker.work(workload, part)?;
                        Ok(worker.log)
                    })
                })
                .collect();
            let writer = (workload == Workload::Readwhilewriting).then(|| {
                let over = &over;
                scope.spawn(move || self.write_until(over))
            });
            all_here.wait();
            let start = Instant::now();
            let mut all: Result<_> = Ok(Log::new(1, self.clock_ns));
            for thread in threads {
                let of_thread = thread.join().expect("a worker does not panic");
                all = all.and_then(|log| Ok(log.plus(of_thread?)));
            }
            let seconds = start.elapsed().as_secs_f64();
            over.store(true, Ordering::Relaxed);
            let background = match writer {
                Some(writer) => writer.join().expect("a writer does not panic")?,
                None => Written::default(),
            };
            let mut log = all?;
            log.written.add(background.operations, background.bytes);
            Ok((log, seconds))
        })
    }

    fn worker<'a>(&'a self, workload: Workload, thread: u64, bar: &'a ProgressBar) -> Worker<'a> {
        let log = Log::new(workload.timed_one_in(), self.clock_ns);
        let random = self.random(workload, thread);
        Worker { run: self, log, random, bar }
    }

    /// Every thread of every workload draws its own numbers, which are the same in every run with
    /// the same seed.
    fn random(&self, workload: Workload, thread: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.options.seed ^ (workload as u64 + 1) << 56 ^ thread << 40)
    }

    /// Overwrites until the readers have ended.
    fn write_until(&self, over: &AtomicBool) -> Result<Written> {
        let hidden = ProgressBar::hidden();
        let mut worker = self.worker(Workload::Overwrite, self.options.threads, &hidden);
        loop {
            worker.work(Workload::Overwrite, 0..BAR_STEP)?;
            if over.load(Ordering::Relaxed) {
                return Ok(worker.log.written);
            }
        }
    }
}

pub struct Worker<'a> {
    pub run: &'a Run<'a>,
    pub log: Log,
    pub random: SmallRng,
    bar: &'a ProgressBar,
}

impl Worker<'_> {
    fn work(&mut self, workload: Workload, part: Range<u64>) -> Result {
        let (entries, sync) = (self.run.entries.count, self.run.options.sync);
        let any = |random: &mut SmallRng, _| random.random_range(0..entries);
        match workload {
            Workload::Fillseq => self.write(part, sync, |_, i| i),
            Workload::Fillrandom | Workload::Overwrite => self.write(part, sync, any),
            Workload::Fillsync => self.write(part, true, any),
            Workload::Readrandom => self.read(part, false),
            Workload::Readwhilewriting => self.read(part, true),
            Workload::Readmissing => self.read_missing(part),
            Workload::Multireadrandom => self.batch_read(part),
            Workload::Seekrandom => self.seek(part),
            Workload::Readseq => self.read_all(),
            Workload::Deleterandom => self.delete(part),
            Workload::Checkpointloop => self.checkpoint(part),
            Workload::Queue => self.queue(part),
            Workload::Overwritehot => self.overwrite_hot(part),
            Workload::Retention => self.retain(part),
        }
    }

    fn write(
        &mut self,
        part: Range<u64>,
        sync: bool,
        number: impl Fn(&mut SmallRng, u64) -> u64,
    ) -> Result {
        let Run { db, entries, .. } = *self.run;
        let mut keys = entries.keys();
        for i in part {
            let number = number(&mut self.random, i);
            let (key, value) = (keys.of(number), entries.value(&mut self.random));
            self.log.time(|| put(db, key, value, sync))?;
            entries.mark_written(number);
            self.wrote(1, entries.entry_bytes());
            self.done(1);
        }
        Ok(())
    }

    /// Looks up random keys. `racing` means that another thread writes at the same time. Then the
    /// lookup may rightly find a key that `is_written` did not report just before.
    fn read(&mut self, part: Range<u64>, racing: bool) -> Result {
        let Run { db, entries, .. } = *self.run;
        let mut keys = entries.keys();
        for _ in part {
            let number = self.random.random_range(0..entries.count);
            let written = entries.is_written(number);
            let key = keys.of(number);
            let found = self.log.time(|| db.get_with(key, <[u8]>::len))?;
            if found.is_some() != written && (written || !racing) {
                return Err(Failure::of_lookup(key, written));
            }
            self.found(key.len(), found);
            self.done(1);
        }
        Ok(())
    }

    fn read_missing(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, .. } = *self.run;
        let mut keys = entries.absent_keys();
        for _ in part {
            let key = keys.of(self.random.random_range(0..entries.count));
            if self.log.time(|| db.get_with(key, <[u8]>::len))?.is_some() {
                return Err(Failure::of_lookup(key, false));
            }
            self.done(1);
        }
        Ok(())
    }

    fn batch_read(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, .. } = *self.run;
        let mut maker = entries.keys();
        let mut left = part.end - part.start;
        while left > 0 {
            let count = left.min(TOGETHER as u64);
            let numbers: Vec<u64> =
                (0..count).map(|_| self.random.random_range(0..entries.count)).collect();
            let keys: Vec<Vec<u8>> = numbers.iter().map(|&n| maker.of(n).to_vec()).collect();
            let values = self.log.time(|| db.multi_get(&keys))?;
            for ((&number, key), value) in numbers.iter().zip(&keys).zip(&values) {
                if value.is_some() != entries.is_written(number) {
                    return Err(Failure::of_lookup(key, value.is_none()));
                }
                self.found(key.len(), value.as_ref().map(|value| value.len()));
            }
            self.done(count);
            left -= count;
        }
        Ok(())
    }

    fn seek(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, .. } = *self.run;
        let mut keys = entries.keys();
        for _ in part {
            let number = self.random.random_range(0..entries.count);
            let key = keys.of(number);
            let (found, bytes) = self.log.time(|| -> Result<(bool, usize)> {
                let mut cursor = db.cursor();
                cursor.seek(key)?;
                let found = cursor.valid() && cursor.key() == key;
                let mut bytes = 0;
                for _ in 0..AFTER_SEEK {
                    if !cursor.valid() {
                        break;
                    }
                    bytes += cursor.key().len() + cursor.value().len();
                    cursor.next()?;
                }
                Ok((found, bytes))
            })?;
            if found != entries.is_written(number) {
                return Err(Failure::of_lookup(key, !found));
            }
            self.log.found += u64::from(found);
            self.log.bytes += bytes as u64;
            self.done(1);
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result {
        let Run { db, entries, .. } = *self.run;
        let mut cursor = db.cursor();
        cursor.seek_to_first()?;
        while cursor.valid() {
            self.found(cursor.key().len(), Some(cursor.value().len()));
            self.log.time(|| cursor.next())?;
            self.done(1);
        }
        let (met, written) = (self.log.operations, entries.written());
        match met == written {
            true => Ok(()),
            false => {
                Err(Failure::new(format_args!("a scan met {met} entries, {written} were written")))
            }
        }
    }

    pub fn wrote(&mut self, operations: u64, bytes: u64) {
        self.log.written.add(operations, bytes);
        self.log.bytes += bytes;
    }

    fn found(&mut self, key_bytes: usize, value_bytes: Option<usize>) {
        if let Some(value_bytes) = value_bytes {
            self.log.found += 1;
            self.log.bytes += (key_bytes + value_bytes) as u64;
        }
    }

    pub fn done(&mut self, operations: u64) {
        let before = self.log.operations / BAR_STEP;
        self.log.operations += operations;
        let steps = self.log.operations / BAR_STEP - before;
        if steps > 0 {
            self.bar.inc(steps * BAR_STEP);
        }
    }
}

pub fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::Buffered }
}

pub fn put(db: &Db, key: &[u8], value: &[u8], sync: bool) -> maypole::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    db.write_opt(batch, durability(sync))
}

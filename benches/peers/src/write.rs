//! The write workloads: fills and overwrites of a tree that is empty at first, a compaction, and
//! reads during writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::engine::{Engine, Kind, Result};
use crate::keys::Numbers;
use crate::server::Server;
use crate::{Options, median};

const WORKLOADS: &[&str] = &["fillseq", "fillrandom", "overwrite", "fillsync-2-threads"];
/// Workloads that divide the entries among several threads, whose number is in the name.
const FROM_THREADS: &[&str] =
    &["fillrandom-2-threads", "fillrandom-4-threads", "fillrandom-8-threads"];

/// Runs one workload. Returns its figures, of which the first is nanoseconds an operation, or
/// `None` if it is no write workload.
pub fn run(
    engine: &Arc<dyn Engine>,
    workload: &str,
    seed: u64,
    options: &Options,
) -> Result<Option<Vec<f64>>> {
    let (entries, keys) = (options.entries, options.keys());
    let mut out = Vec::new();
    let start = Instant::now();
    let operations = match workload {
        "fillseq" => {
            for n in 0..entries {
                options.values().value(n, &mut out);
                engine.put(&keys.ordered(n), &out, false)?;
            }
            entries
        }
        "fillrandom" | "overwrite" => {
            let mut numbers = Numbers::new(seed);
            for _ in 0..entries {
                let n = numbers.below(entries);
                options.values().value(n, &mut out);
                engine.put(&keys.key(n), &out, false)?;
            }
            entries
        }
        // Every key once, in random order.
        "fillunique" => {
            for n in 0..entries {
                options.values().value(n, &mut out);
                engine.put(&keys.key(n), &out, false)?;
            }
            entries
        }
        "settle" => {
            engine.flush()?;
            engine.settle()?;
            entries
        }
        "fillsync-2-threads" => {
            let each = 1000;
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..2)
                    .map(|thread| {
                        scope.spawn(move || -> Result<()> {
                            let mut out = Vec::new();
                            for n in 0..each {
                                options.values().value(n, &mut out);
                                engine.put(&keys.key(2 * n + thread), &out, true)?;
                            }
                            Ok(())
                        })
                    })
                    .collect();
                threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
            })?;
            2 * each
        }
        "compact" => {
            engine.compact()?;
            entries
        }
        _ if FROM_THREADS.contains(&workload) => {
            return fill_from_threads(engine, workload, seed, options).map(Some);
        }
        "readwhilewriting" => return read_while_writing(engine, seed, options).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(vec![start.elapsed().as_nanos() as f64 / operations as f64]))
}

/// A histogram of nanoseconds up to ten minutes.
fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(600_000_000_000, 3)?)
}

/// p50, p99, p99.9 and the maximum.
fn quantiles(latency: &Histogram<u64>) -> [f64; 4] {
    [0.5, 0.99, 0.999, 1.0].map(|q| latency.value_at_quantile(q) as f64)
}

/// Writes random keys from several threads. Returns the time divided by the operations of all
/// threads, in nanoseconds; then the latency of a write: p50, p99, p99.9 and the maximum.
fn fill_from_threads(
    engine: &Arc<dyn Engine>,
    workload: &str,
    seed: u64,
    options: &Options,
) -> Result<Vec<f64>> {
    let digits = workload.trim_matches(|c: char| !c.is_ascii_digit());
    let (threads, entries, keys) = (digits.parse::<u64>()?, options.entries, options.keys());
    let start = Instant::now();
    let write = |thread: u64| -> Result<Histogram<u64>> {
        let mut latency = latencies()?;
        let (mut numbers, mut out) = (Numbers::new(seed ^ (thread + 1) << 40), Vec::new());
        for _ in 0..entries / threads {
            let n = numbers.below(entries);
            options.values().value(n, &mut out);
            let key = keys.key(n);
            let before = Instant::now();
            engine.put(&key, &out, false)?;
            latency.saturating_record(before.elapsed().as_nanos() as u64);
        }
        Ok(latency)
    };
    let latency = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|i| scope.spawn(move || write(i))).collect();
        let mut all = latencies()?;
        for thread in running {
            all.add(thread.join().expect("no panic")?)?;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(all)
    })?;
    let ns = start.elapsed().as_nanos() as f64 / entries as f64;
    Ok([&[ns], &quantiles(&latency)[..]].concat())
}

/// One thread overwrites random keys, one looks up random keys. Returns the nanoseconds of a
/// lookup: mean, p50, p99, p99.9 and the maximum; then the writes a second.
fn read_while_writing(engine: &Arc<dyn Engine>, seed: u64, options: &Options) -> Result<Vec<f64>> {
    let (entries, keys) = (options.entries, options.keys());
    let time = Duration::from_secs(options.seconds);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<f64> {
            let (mut numbers, mut out) = (Numbers::new(seed ^ 1 << 40), Vec::new());
            let (start, mut written) = (Instant::now(), 0u64);
            while !over.load(Ordering::Relaxed) {
                let n = numbers.below(entries);
                options.values().value(n, &mut out);
                engine.put(&keys.key(n), &out, false)?;
                written += 1;
                let most = options.writes_per_second;
                while most > 0 && written as f64 > start.elapsed().as_secs_f64() * most as f64 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(written as f64 / start.elapsed().as_secs_f64())
        });
        let mut latency = latencies()?;
        let mut numbers = Numbers::new(seed);
        let start = Instant::now();
        let mut read = || -> Result<()> {
            let mut before = Instant::now();
            while before - start < time {
                let key = keys.key(numbers.below(entries));
                before = Instant::now();
                engine.get(&key)?.ok_or("a present key was not found")?;
                let after = Instant::now();
                latency.saturating_record((after - before).as_nanos() as u64);
            }
            Ok(())
        };
        let read = read();
        over.store(true, Ordering::Relaxed);
        let writes_per_second = writer.join().expect("no panic")?;
        read?;
        Ok([&[latency.mean()], &quantiles(&latency)[..], &[writes_per_second]].concat())
    })
}

/// A workload, and the names of the figures of a round.
struct Table {
    workload: &'static str,
    columns: &'static [&'static str],
}

/// The columns of the fills. `settled ns` is the time until compaction has settled, divided by the
/// number of operations; it includes the fill.
const FILL: &[&str] = &["ns/op", "settled ns", "MB written", "MB on disk", "peak MB"];
const FILL_FROM_THREADS: &[&str] =
    &["ns/op", "p50", "p99", "p99.9", "max", "settled ns", "MB written", "MB on disk", "peak MB"];
const COMPACT: &[&str] = &["ns/entry", "processor ns", "MB on disk", "peak MB"];
const READ_WHILE_WRITING: &[&str] =
    &["mean ns", "p50", "p99", "p99.9", "max", "writes/s", "MB written", "MB on disk", "peak MB"];

pub fn compare(options: &Options) -> Result<()> {
    for &workload in WORKLOADS {
        if options.wants(workload) {
            let table = Table { workload, columns: FILL };
            table.fill(options, |kind, round, dir| fill(workload, kind, round, dir, options))?;
        }
    }
    for &workload in FROM_THREADS {
        if options.wants(workload) {
            let table = Table { workload, columns: FILL_FROM_THREADS };
            table.fill(options, |kind, round, dir| {
                let mut server = Server::start(kind, dir, options)?;
                let before = server.written_bytes();
                let figures = server.ask_all(workload, round + 1)?;
                let settled = figures[0] + server.ask("settle", 1)?;
                Ok([&figures[..], &[settled], &costs(server, before, dir)?].concat())
            })?;
        }
    }
    if options.wants("compact") {
        let table = Table { workload: "compact", columns: COMPACT };
        table.fill(options, |kind, _, dir| compact(kind, dir, options))?;
    }
    if options.wants("readwhilewriting") {
        let table = Table { workload: "readwhilewriting", columns: READ_WHILE_WRITING };
        table.fill(options, |kind, round, dir| beside_a_writer(kind, round, dir, options))?;
    }
    Ok(())
}

fn fill(workload: &str, kind: Kind, round: u64, dir: &Path, options: &Options) -> Result<Vec<f64>> {
    let mut server = Server::start(kind, dir, options)?;
    if workload == "overwrite" {
        server.ask("fillrandom", 99)?;
        server.ask("settle", 1)?;
    }
    let before = server.written_bytes();
    let ns = server.ask(workload, round + 1)?;
    // The answer is the time divided by the number of entries. `ns` of `fillsync-2-threads` is the
    // time divided by fewer operations, so for this workload the two are not added.
    let settle_ns = server.ask("settle", 1)?;
    let settled = match workload {
        "fillsync-2-threads" => f64::NAN,
        _ => ns + settle_ns,
    };
    Ok([&[ns, settled], &costs(server, before, dir)?[..]].concat())
}

/// Loads the tree on which reads are measured, and compacts all of it into the last level.
fn compact(kind: Kind, dir: &Path, options: &Options) -> Result<Vec<f64>> {
    let mut server = Server::start(kind, dir, options)?;
    server.ask("load", 1)?;
    let before = server.processor_seconds()?;
    let ns = server.ask("compact", 1)?;
    let seconds = server.processor_seconds()? - before;
    let [_, on_disk, peak] = costs(server, None, dir)?;
    Ok(vec![ns, seconds * 1e9 / options.entries as f64, on_disk, peak])
}

fn beside_a_writer(kind: Kind, round: u64, dir: &Path, options: &Options) -> Result<Vec<f64>> {
    let mut server = Server::start(kind, dir, options)?;
    server.ask("fillunique", 1)?;
    server.ask("settle", 1)?;
    let before = server.written_bytes();
    let figures = server.ask_all("readwhilewriting", round + 1)?;
    server.ask("settle", 1)?;
    Ok([&figures[..], &costs(server, before, dir)?].concat())
}

/// Megabytes written since the counter of written bytes was `before`, megabytes on disk, and
/// megabytes of peak memory. Ends the server.
fn costs(server: Server, before: Option<u64>, dir: &Path) -> Result<[f64; 3]> {
    let megabytes = |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6);
    let written = server.written_bytes().zip(before).map(|(after, before)| after - before);
    let costs = [written, Some(directory_bytes(dir)?), server.peak_bytes()].map(megabytes);
    server.stop()?;
    Ok(costs)
}

impl Table {
    /// Runs all rounds, in each of which the engines take turns; prints the medians, and the
    /// medians of the rounds' ratios.
    fn fill(
        &self,
        options: &Options,
        mut round_of: impl FnMut(Kind, u64, &Path) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let mut rounds = vec![Vec::new(); options.engines.len()];
        for round in 0..options.rounds as u64 {
            for (&kind, rounds) in options.engines.iter().zip(&mut rounds) {
                eprintln!("{}: {}", kind.name(), self.workload);
                let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
                let scratch = tempfile::tempdir_in(parent)?;
                rounds.push(round_of(kind, round, scratch.path())?);
            }
        }
        print!("{:<20}{:<10}", self.workload, "");
        self.columns.iter().for_each(|column| print!("{column:>14}"));
        println!();
        for (i, kind) in options.engines.iter().enumerate() {
            self.print(kind.name(), 0, |column| {
                median(rounds[i].iter().map(|figures: &Vec<f64>| figures[column]).collect())
            });
            if i > 0 {
                self.print("  ratio", 3, |column| {
                    let pairs = rounds[i].iter().zip(&rounds[0]);
                    median(pairs.map(|(own, base)| own[column] / base[column]).collect())
                });
            }
        }
        Ok(())
    }

    fn print(&self, name: &str, decimals: usize, figure: impl Fn(usize) -> f64) {
        print!("{:<20}{name:<10}", "");
        (0..self.columns.len()).for_each(|column| print!("{:>14.decimals$}", figure(column)));
        println!();
    }
}

fn directory_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { directory_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

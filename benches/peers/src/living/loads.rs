//! The loads. Each load opens its engine, does its work, waits until compaction settles, and
//! measures the bytes that are then on disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::disk::{directory_bytes, written_bytes};
use super::pace::{Phase, at_rate, pace};
use crate::Options;
use crate::engine::{Engine, Held, Kind, Result};
use crate::keys::{Keys, Numbers, Run, Values};

/// Bytes of a key and its value in loads with entries of 1 KB.
const KB: usize = 1024;
/// Bytes of a value in loads with small values.
const SMALL: usize = 100;

/// How many entries of 1 KB the load `ingest` puts a second. The rate is fixed so that every engine
/// has the same bytes to sync. RocksDB can keep this rate on two processors, because at its fastest
/// it puts 160,000 to 230,000 entries a second.
pub const PUTS_PER_SECOND: u64 = 50_000;

/// Names and figures, in the order of the columns.
pub type Figures = Vec<(String, f64)>;

pub struct Load {
    pub name: &'static str,
    pub text: &'static str,
    /// Engines that cannot run the load.
    pub not: &'static [Kind],
    /// Ways in which an application could make the load easier for an engine: the engine and the
    /// name of the help. For each pair the engine runs the load once more, with the help, and the
    /// printed table gets another row.
    pub helps: &'static [(Kind, &'static str)],
    pub run: fn(Place) -> Result<Figures>,
}

/// With this help, the consumer remembers the last key that it has taken, and looks for the next
/// one from there on.
const POSITION: &[(Kind, &str)] = &[(Kind::Rocksdb, "position"), (Kind::Fjall, "position")];

pub const LOADS: &[Load] = &[
    Load {
        name: "putdelete",
        text: "4 times: put k, delete k, flush",
        not: &[],
        helps: &[],
        run: put_delete,
    },
    Load {
        name: "reopen",
        text: "40 times: open, put 6,000 new keys of 1 KB, delete them, close",
        not: &[],
        helps: &[],
        run: reopen,
    },
    Load {
        name: "deleteall",
        text: "1,000,000 keys of 1 KB in random order, all deleted",
        not: &[],
        helps: &[],
        run: |place| delete_share(place, 1),
    },
    Load {
        name: "deletehalf",
        text: "1,000,000 keys of 1 KB in random order, every second deleted",
        not: &[],
        helps: &[],
        run: |place| delete_share(place, 2),
    },
    Load {
        name: "deleterange",
        text: "50 MB, all of it deleted as one range (fjall: key by key), flush; +files: deletes files \
               by range before",
        not: &[],
        helps: &[(Kind::Rocksdb, "files")],
        run: delete_range,
    },
    Load {
        name: "snapshots",
        text: "20 keys of 1 KB overwritten 100,000 times, a snapshot at every 100th, compacted; then \
               another key is put and the snapshots are released",
        not: &[],
        helps: &[],
        run: snapshots,
    },
    Load {
        name: "retention",
        text: "250,000 ascending keys of 1 KB, of which the newest 25,000 are kept: one deletion for \
               each put",
        not: &[],
        helps: &[],
        run: |place| retention(place, 1),
    },
    Load {
        name: "retentionranges",
        text: "as retention, 1,000 keys deleted at a time as a range",
        not: &[Kind::Fjall],
        helps: &[],
        run: |place| retention(place, 1000),
    },
    Load {
        name: "popfirst",
        text: "1,000,000 entries, the first one removed until none is left; +position: from the key of \
               the last one on",
        not: &[],
        helps: POSITION,
        run: pop_all,
    },
    Load {
        name: "queue",
        text: "1,000 entries, 1,000,000 times: put one at the end, remove the first; +position: from \
               the key of the last one on",
        not: &[],
        helps: POSITION,
        run: queue,
    },
    Load {
        name: "overwritehot",
        text: "the middle one of 3 keys overwritten 300,000 times in memory; a scan meets all 3",
        not: &[],
        helps: &[],
        run: overwrite_hot,
    },
    Load {
        name: "checkpoints",
        text: "205 MB, compacted; 60 times: 10 puts of 1 KB, a checkpoint (removed at once)",
        not: &[Kind::Fjall],
        helps: &[],
        run: checkpoints,
    },
    Load {
        name: "ingest",
        text: "puts of 1 KB at a given rate (--puts-per-second) in random order while level 0 compacts, \
               first alone, then during ingestions of one key that overlaps nothing; +synced: syncs \
               the log before, as Maypole does",
        not: &[],
        helps: &[(Kind::Rocksdb, "synced")],
        run: ingest,
    },
];

/// Where and how a load runs.
pub struct Place<'a> {
    pub kind: Kind,
    pub help: &'a str,
    pub dir: &'a Path,
    pub options: Options,
    pub scale: f64,
    /// The time limit of a phase.
    pub phase: Duration,
    pub puts_per_second: u64,
}

impl Place<'_> {
    fn open(&self) -> Result<Arc<dyn Engine>> {
        self.kind.open_for_deletions(&self.dir.join("db"), &self.options)
    }

    /// A number that the load's text names, multiplied by the scale; at least 1.
    fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(1)
    }

    fn keys(&self) -> Keys {
        self.options.keys()
    }

    /// Values of a size such that a key and its value have `entry_bytes` bytes together.
    fn values(&self, entry_bytes: usize) -> Values {
        Values { bytes: entry_bytes - self.options.key_bytes, halves: false }
    }

    fn small_values(&self) -> Values {
        Values { bytes: SMALL, halves: false }
    }

    fn pace(&self, count: u64, operation: impl FnMut(u64) -> Result<()>) -> Result<Phase> {
        pace(self.phase, count, operation)
    }

    /// Like [`Place::pace`], but without a time limit: later phases need the entries that this
    /// phase writes.
    fn fill(&self, count: u64, operation: impl FnMut(u64) -> Result<()>) -> Result<Phase> {
        pace(Duration::MAX, count, operation)
    }

    /// Flushes, waits for compaction and measures the space. `live_bytes` are the bytes of the keys
    /// and values that can still be read.
    fn settle(&self, engine: &dyn Engine, live_bytes: u64) -> Result<Figures> {
        let start = Instant::now();
        engine.flush()?;
        engine.settle()?;
        let seconds = start.elapsed().as_secs_f64();
        let disk_bytes = directory_bytes(&self.dir.join("db"))?;
        let by_tables = engine.table_bytes_written()?;
        let megabytes = |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6);
        let ratio = if live_bytes > 0 { disk_bytes as f64 / live_bytes as f64 } else { f64::NAN };
        Ok(figures([
            ("settling s", seconds),
            ("live MB", live_bytes as f64 / 1e6),
            ("disk MB", disk_bytes as f64 / 1e6),
            ("disk/live", ratio),
            ("tables", engine.tables()? as f64),
            ("MB to tables", megabytes(by_tables)),
            ("MB written", megabytes(written_bytes())),
        ]))
    }
}

fn figures<const N: usize>(all: [(&str, f64); N]) -> Figures {
    all.into_iter().map(|(name, figure)| (name.to_string(), figure)).collect()
}

fn put(engine: &dyn Engine, key: &[u8], values: Values, n: u64, out: &mut Vec<u8>) -> Result<()> {
    values.value(n, out);
    engine.put(key, out, false)
}

/// Microseconds that the engine takes to find out whether there is any entry.
fn is_empty_us(engine: &dyn Engine, expected: bool) -> Result<f64> {
    let start = Instant::now();
    let found = engine.first(b"")?;
    let us = start.elapsed().as_nanos() as f64 / 1e3;
    match found.is_none() == expected {
        true => Ok(us),
        false => Err(format!("expected empty: {expected}, found {found:?}").into()),
    }
}

fn put_delete(place: Place) -> Result<Figures> {
    let engine = place.open()?;
    let engine = &*engine;
    let (times, mut out) = (4, Vec::new());
    let phase = place.fill(times, |n| {
        put(engine, b"k", place.small_values(), n, &mut out)?;
        engine.delete(b"k")?;
        engine.flush()
    })?;
    let empty = is_empty_us(engine, true)?;
    let own = figures([("us/turn", phase.ns / 1e3), ("is_empty us", empty)]);
    Ok([own, place.settle(engine, 0)?].concat())
}

fn reopen(place: Place) -> Result<Figures> {
    let (keys, values, each) = (place.keys(), place.values(KB), place.scaled(6000));
    let (mut to_tables, mut counts, mut out) = (0, false, Vec::new());
    let phase = place.fill(40, |run| {
        let engine = place.open()?;
        for n in run * each..(run + 1) * each {
            put(&*engine, &keys.key(n), values, n, &mut out)?;
        }
        for n in run * each..(run + 1) * each {
            engine.delete(&keys.key(n))?;
        }
        if let Some(bytes) = engine.table_bytes_written()? {
            (to_tables, counts) = (to_tables + bytes, true);
        }
        Ok(())
    })?;
    let closed = directory_bytes(&place.dir.join("db"))?;
    let engine = place.open()?;
    let empty = is_empty_us(&*engine, true)?;
    let own = figures([
        ("ms/run", phase.ns / 1e6),
        ("last run ms", phase.ns_at_end / 1e6),
        ("closed MB", closed as f64 / 1e6),
        ("is_empty us", empty),
    ]);
    let mut settled = place.settle(&*engine, 0)?;
    for (name, figure) in &mut settled {
        if name == "MB to tables" && counts {
            *figure += to_tables as f64 / 1e6;
        }
    }
    Ok([own, settled].concat())
}

/// Puts all keys, and then deletes one in `one_in` of them.
fn delete_share(place: Place, one_in: u64) -> Result<Figures> {
    let (keys, values, count) = (place.keys(), place.values(KB), place.scaled(1_000_000));
    let engine = place.open()?;
    let engine = &*engine;
    let mut out = Vec::new();
    let puts = place.fill(count, |n| put(engine, &keys.key(n), values, n, &mut out))?;
    let deletions = place.fill(count / one_in, |n| engine.delete(&keys.key(n * one_in)))?;
    let live = count - count / one_in;
    let before = is_empty_us(engine, live == 0)?;
    let settled = place.settle(engine, live * KB as u64)?;
    let after = is_empty_us(engine, live == 0)?;
    let own = figures([
        ("put ns", puts.ns),
        ("delete ns", deletions.ns),
        ("is_empty us", before),
        ("settled us", after),
    ]);
    Ok([own, settled].concat())
}

fn delete_range(place: Place) -> Result<Figures> {
    let (keys, values, count) = (place.keys(), place.values(KB), place.scaled(50_000));
    let engine = place.open()?;
    let engine = &*engine;
    let mut out = Vec::new();
    let puts = place.fill(count, |n| put(engine, &keys.key(n), values, n, &mut out))?;
    engine.flush()?;
    engine.settle()?;
    let start = Instant::now();
    if place.help == "files" {
        engine.delete_files(b"u", b"v")?;
    }
    // Every key begins with "user".
    engine.delete_range(b"u", b"v")?;
    let us = start.elapsed().as_nanos() as f64 / 1e3;
    let settled = place.settle(engine, 0)?;
    let empty = is_empty_us(engine, true)?;
    let own = figures([("put ns", puts.ns), ("deletion us", us), ("is_empty us", empty)]);
    Ok([own, settled].concat())
}

fn snapshots(place: Place) -> Result<Figures> {
    let (keys, values, count) = (place.keys(), place.values(KB), place.scaled(100_000));
    let engine = place.open()?;
    let engine = &*engine;
    let (live, mut out) = (20, Vec::new());
    let mut held: Vec<Box<dyn Held + '_>> = Vec::new();
    let puts = place.fill(count, |n| {
        put(engine, &keys.key(n % live), values, n, &mut out)?;
        if n % 100 == 0 {
            held.push(engine.snapshot());
        }
        Ok(())
    })?;
    engine.flush()?;
    engine.compact()?;
    let held_bytes = directory_bytes(&place.dir.join("db"))?;
    let snapshots = held.len() as f64;
    // When a snapshot is released, RocksDB compacts only tables whose entries are all older than
    // the newest entry of the database. This put adds a newer entry, so that RocksDB may compact
    // every table.
    put(engine, &keys.key(live), values, live, &mut out)?;
    held.clear();
    let settled = place.settle(engine, (live.min(count) + 1) * KB as u64)?;
    let own = figures([
        ("put ns", puts.ns),
        ("snapshots", snapshots),
        ("disk MB with them", held_bytes as f64 / 1e6),
    ]);
    Ok([own, settled].concat())
}

/// Puts ascending keys, and deletes the oldest ones, `together` at a time.
fn retention(place: Place, together: u64) -> Result<Figures> {
    let (keys, values) = (place.keys(), place.values(KB));
    let (count, window) = (place.scaled(250_000), place.scaled(25_000));
    let engine = place.open()?;
    let engine = &*engine;
    let (mut out, mut oldest) = (Vec::new(), 0);
    let turns = place.fill(count, |n| {
        put(engine, &keys.ordered(n), values, n, &mut out)?;
        if n + 1 - oldest < window + together {
            return Ok(());
        }
        let first = oldest;
        oldest += together;
        match together {
            1 => engine.delete(&keys.ordered(first)),
            _ => engine.delete_range(&keys.ordered(first), &keys.ordered(oldest)),
        }
    })?;
    let first = is_empty_us(engine, false)?;
    let settled = place.settle(engine, (count - oldest) * KB as u64)?;
    let after = is_empty_us(engine, false)?;
    let own = figures([
        ("turn ns", turns.ns),
        ("at end ns", turns.ns_at_end),
        ("first us", first),
        ("settled us", after),
    ]);
    Ok([own, settled].concat())
}

/// Pops the first entry at or after `position`. With the help "position", `position` becomes the
/// key of this entry; otherwise it stays empty, before all keys.
fn pop(place: &Place, engine: &dyn Engine, position: &mut Vec<u8>) -> Result<()> {
    let key = engine.pop_first(position)?.ok_or("the queue is empty too early")?;
    if place.help == "position" {
        *position = key;
    }
    Ok(())
}

fn pop_all(place: Place) -> Result<Figures> {
    let (keys, values, count) = (place.keys(), place.small_values(), place.scaled(1_000_000));
    let engine = place.open()?;
    let engine = &*engine;
    let (mut out, mut position) = (Vec::new(), Vec::new());
    place.fill(count, |n| put(engine, &keys.ordered(n), values, n, &mut out))?;
    engine.flush()?;
    engine.settle()?;
    let pops = place.pace(count, |_| pop(&place, engine, &mut position))?;
    let left = count - pops.done;
    let entry_bytes = (place.options.key_bytes + SMALL) as u64;
    let settled = place.settle(engine, left * entry_bytes)?;
    let empty = is_empty_us(engine, left == 0)?;
    let own = figures([
        ("popped", pops.done as f64),
        ("pop ns", pops.ns),
        ("at start", pops.ns_at_start),
        ("at end", pops.ns_at_end),
        ("is_empty us", empty),
    ]);
    Ok([own, settled].concat())
}

fn queue(place: Place) -> Result<Figures> {
    let (keys, values, standing) = (place.keys(), place.small_values(), 1000);
    let turns = place.scaled(1_000_000);
    let engine = place.open()?;
    let engine = &*engine;
    let (mut out, mut position) = (Vec::new(), Vec::new());
    place.fill(standing, |n| put(engine, &keys.ordered(n), values, n, &mut out))?;
    let turns = place.pace(turns, |n| {
        put(engine, &keys.ordered(standing + n), values, n, &mut out)?;
        pop(&place, engine, &mut position)
    })?;
    let entry_bytes = (place.options.key_bytes + SMALL) as u64;
    let settled = place.settle(engine, standing * entry_bytes)?;
    let own = figures([
        ("turns", turns.done as f64),
        ("turn ns", turns.ns),
        ("at start", turns.ns_at_start),
        ("at end", turns.ns_at_end),
    ]);
    Ok([own, settled].concat())
}

fn overwrite_hot(mut place: Place) -> Result<Figures> {
    // The memtable has room for all versions, so that they stay in memory until the flush.
    place.options.memtable_mb = place.options.memtable_mb.max(256);
    let (keys, count, neighbours) = (place.keys(), place.scaled(300_000), 3);
    let values = Values { bytes: 8, halves: false };
    let engine = place.open()?;
    let engine = &*engine;
    let mut out = Vec::new();
    place.fill(neighbours, |n| put(engine, &keys.ordered(n), values, n, &mut out))?;
    let puts = place.fill(count, |n| put(engine, &keys.ordered(1), values, n, &mut out))?;
    // Microseconds of a scan in both directions.
    let scans = |when: &str| -> Result<Figures> {
        let expected = 3 * (place.options.key_bytes + 8);
        let check = |bytes: usize| match bytes == expected {
            true => Ok(()),
            false => Err(format!("a scan met {bytes} bytes, expected {expected}").into()),
        };
        let phase = place.phase.min(Duration::from_secs(1));
        let forward = pace(phase, 10_000, |_| check(engine.seek(&keys.ordered(0), 3)?))?;
        let backward = pace(phase, 10_000, |_| check(engine.last(3)?))?;
        Ok(vec![
            (format!("{when} fwd us"), forward.ns / 1e3),
            (format!("{when} back"), backward.ns / 1e3),
        ])
    };
    let in_memory = scans("memory")?;
    engine.flush()?;
    let flushed = scans("flushed")?;
    engine.compact()?;
    let compacted = scans("compacted")?;
    let entry_bytes = place.options.key_bytes as u64 + 8;
    let settled = place.settle(engine, neighbours * entry_bytes)?;
    let own = figures([("put ns", puts.ns)]);
    Ok([own, in_memory, flushed, compacted, settled].concat())
}

fn checkpoints(place: Place) -> Result<Figures> {
    let (keys, values, count) = (place.keys(), place.values(KB), place.scaled(200_000));
    let engine = place.open()?;
    let engine = &*engine;
    let mut out = Vec::new();
    place.fill(count, |n| put(engine, &keys.key(n), values, n, &mut out))?;
    engine.flush()?;
    engine.settle()?;
    engine.compact()?;
    engine.settle()?;
    let (times, each) = (60, 10);
    let before = (engine.table_bytes_written()?, written_bytes());
    let copy = place.dir.join("copy");
    let mut worst = Duration::ZERO;
    let phase = place.fill(times, |turn| {
        for n in turn * each..(turn + 1) * each {
            put(engine, &keys.key(count + n), values, n, &mut out)?;
        }
        let start = Instant::now();
        engine.checkpoint(&copy)?;
        worst = worst.max(start.elapsed());
        Ok(std::fs::remove_dir_all(&copy)?)
    })?;
    let mut settled = place.settle(engine, (count + times * each) * KB as u64)?;
    // Only the bytes that were written after the fill are reported.
    for (name, figure) in &mut settled {
        match name.as_str() {
            "MB to tables" => *figure -= before.0.map_or(f64::NAN, |bytes| bytes as f64 / 1e6),
            "MB written" => *figure -= before.1.map_or(f64::NAN, |bytes| bytes as f64 / 1e6),
            _ => (),
        }
    }
    let own = figures([("ms/turn", phase.ns / 1e6), ("worst ms", worst.as_secs_f64() * 1e3)]);
    Ok([own, settled].concat())
}

/// A histogram of nanoseconds up to ten minutes.
fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(600_000_000_000, 3)?)
}

fn ingest(place: Place) -> Result<Figures> {
    let (keys, values, count) = (place.keys(), place.values(KB), place.scaled(150_000));
    let engine = place.open()?;
    let engine = &*engine;
    let (mut out, mut numbers) = (Vec::new(), Numbers::new(1));
    // Puts random keys, so that level 0 compacts all the time, and times each put.
    let mut put_all = || -> Result<(Histogram<u64>, f64)> {
        let mut latency = latencies()?;
        let per_second = at_rate(place.puts_per_second, count, |n| {
            let key = keys.key(numbers.below(2 * count));
            let start = Instant::now();
            put(engine, &key, values, n, &mut out)?;
            latency.saturating_record(start.elapsed().as_nanos() as u64);
            Ok(())
        })?;
        Ok((latency, per_second))
    };
    let (alone, alone_per_second) = put_all()?;
    engine.flush()?;
    engine.settle()?;
    let over = AtomicBool::new(false);
    let ((during, during_per_second), ingestions) = std::thread::scope(|scope| {
        let ingester = scope.spawn(|| -> Result<Histogram<u64>> {
            let (mut latency, mut ingested) = (latencies()?, 0);
            while !over.load(Ordering::Relaxed) {
                let scratch = place.dir.join(format!("ingest-{ingested}"));
                std::fs::create_dir(&scratch)?;
                // The table has one key. This key is above all keys that are put, and no earlier
                // ingested table has it. So the table overlaps nothing.
                let run = Run::of_one(keys, values, u64::MAX - ingested);
                let start = Instant::now();
                if place.help == "synced" {
                    engine.put(&keys.key(0), b"", true)?;
                }
                engine.ingest(&scratch, &run)?;
                latency.saturating_record(start.elapsed().as_nanos() as u64);
                std::fs::remove_dir_all(&scratch)?;
                ingested += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(latency)
        });
        let during = put_all();
        over.store(true, Ordering::Relaxed);
        let ingestions = ingester.join().expect("no panic")?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((during?, ingestions))
    })?;
    engine.flush()?;
    engine.settle()?;
    let (entries, _) = engine.scan()?;
    let settled = place.settle(engine, entries * KB as u64)?;
    let us = |latency: &Histogram<u64>, q| latency.value_at_quantile(q) as f64 / 1e3;
    let own = figures([
        ("alone puts/s", alone_per_second.round()),
        ("p50 us", us(&alone, 0.5)),
        ("p99.9 us", us(&alone, 0.999)),
        ("max us", us(&alone, 1.0)),
        ("during puts/s", during_per_second.round()),
        ("during p50", us(&during, 0.5)),
        ("during p99.9", us(&during, 0.999)),
        ("during max", us(&during, 1.0)),
        ("ingestions", ingestions.len() as f64),
        ("one p50 ms", us(&ingestions, 0.5) / 1e3),
        ("one max ms", us(&ingestions, 1.0) / 1e3),
    ]);
    Ok([own, settled].concat())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Defaults {
        #[command(flatten)]
        options: Options,
    }

    /// Runs every load at a thousandth of its size, on every engine and with every help.
    #[test]
    fn every_load_runs_and_weighs_what_lives() {
        for load in LOADS {
            for kind in [Kind::Rocksdb, Kind::Maypole, Kind::Fjall] {
                if load.not.contains(&kind) {
                    continue;
                }
                let helps = load.helps.iter().filter(|(of, _)| *of == kind).map(|(_, help)| *help);
                for help in std::iter::once("").chain(helps) {
                    let dir = tempfile::tempdir().unwrap();
                    let place = Place {
                        kind,
                        help,
                        dir: dir.path(),
                        options: Defaults::parse_from(["peers"]).options,
                        scale: 0.001,
                        phase: Duration::from_secs(60),
                        puts_per_second: PUTS_PER_SECOND,
                    };
                    let name = format!("{} on {}, {help}", load.name, kind.name());
                    let all = (load.run)(place).unwrap_or_else(|error| panic!("{name}: {error}"));
                    let figure = |wanted: &str| {
                        let found = all.iter().find(|(name, _)| name == wanted);
                        found.unwrap_or_else(|| panic!("{name}: no {wanted}")).1
                    };
                    // The bytes of the entries that are alive at the end: 1 KB each, 120 bytes in
                    // `queue`, 28 bytes in `overwritehot`.
                    let live = match load.name {
                        "putdelete" | "reopen" | "deleteall" | "deleterange" | "popfirst" => 0.0,
                        "deletehalf" => 500.0 * 1024.0,
                        "snapshots" => 21.0 * 1024.0,
                        "retention" => 25.0 * 1024.0,
                        "retentionranges" => 250.0 * 1024.0,
                        "queue" => 1000.0 * 120.0,
                        "overwritehot" => 3.0 * 28.0,
                        "checkpoints" => (200.0 + 600.0) * 1024.0,
                        _ => figure("live MB") * 1e6,
                    };
                    assert!((figure("live MB") * 1e6 - live).abs() < 1.0, "{name}: {all:?}");
                    assert!(figure("disk MB") * 1e6 >= 0.9 * live, "{name}: {all:?}");
                    assert!(figure("tables") >= 0.0, "{name}: {all:?}");
                }
            }
        }
    }
}

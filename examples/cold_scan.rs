//! Measures scans of tables that are in no cache: the figures of
//! `docs/measurements/device.md`.
//!
//! ```text
//! cargo run --release --example cold_scan -- [--entries N] [--rounds N] [--cache-mb N] [--dir DIR]
//!     [--warm yes] [--only NAME]
//! ```
//!
//! The tree has keys of 20 bytes, values of 100 bytes, and filters of 10 bits a key. Nothing is
//! compressed. With `--dir` the tree is kept, so that the next run need not build it. Before each
//! measurement the pages of all tables are evicted from the system's cache, or loaded into it with
//! `--warm yes`. Then the database is opened, which is not measured. Each of `--rounds` rounds runs
//! every measurement once. The program prints medians over the rounds: the megabytes read in a
//! second, and the milliseconds, file reads and megabytes of one operation.
//!
//! `files` reads all tables front to back by reads of 1 MiB, through the system's cache, as a lower
//! bound of the time. `scan` reads all entries with a cursor. `verify` calls `Db::verify`.
//! `seek 10` reads 10 entries from a random key on, with a cursor that has no upper bound.
//! `range 1000` reads 1000 entries from a random key on, with an iterator over a range of keys.
//! `compact` rewrites the whole tree by a compaction, in a copy of the directory. For `seek 10` and
//! `range 1000` an operation is one such short scan, and all filters and indexes are loaded before
//! the measurement. For the others an operation is the whole measurement. `--only` takes the names
//! of the measurements to run, separated by commas.

use std::path::{Path, PathBuf};
use std::time::Instant;

use maypole::fs::{Fs, RealFs};
use maypole::{Compression, Db, FilterPolicy, Ticker};

const VALUE_BYTES: usize = 100;
/// The number of short scans in one measurement of `seek 10` or `range 1000`.
const SHORT_SCANS: u64 = 200;
const READ_BYTES: usize = 1 << 20;

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

/// A bijection of 64-bit numbers: the finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Key number `n`. The order of the keys is that of their numbers.
fn key(n: u64) -> String {
    format!("user{n:016}")
}

struct Options {
    entries: u64,
    rounds: usize,
    cache_mb: usize,
    warm: bool,
    only: Option<String>,
    dir: Option<PathBuf>,
}

fn options() -> Answer<Options> {
    let mut options =
        Options { entries: 6_000_000, rounds: 5, cache_mb: 64, warm: false, only: None, dir: None };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or("an option without its value")?;
        match &name[..] {
            "--entries" => options.entries = value.parse()?,
            "--rounds" => options.rounds = value.parse()?,
            "--cache-mb" => options.cache_mb = value.parse()?,
            "--warm" => options.warm = value == "yes",
            "--only" => options.only = Some(value),
            "--dir" => options.dir = Some(value.into()),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

fn open(dir: &Path, options: &Options) -> Answer<Db> {
    Ok(Db::builder(dir)
        .filter("bloom(10)".parse::<FilterPolicy>()?)
        .compression(Compression::None)
        .block_cache_bytes(options.cache_mb << 20)
        .open()?)
}

/// Builds the tree, unless `dir` already holds it. The entries are not written in key order, so
/// that compactions have overlapping tables to merge.
fn build(dir: &Path, options: &Options) -> Answer<()> {
    let db = open(dir, options)?;
    if db.get(key(options.entries - 1))?.is_some() {
        return Ok(());
    }
    // The step shares no factor with the number of entries. So its multiples, modulo the number of
    // entries, reach every entry once.
    let step = ((options.entries / 3) | 1..).find(|step| gcd(*step, options.entries) == 1);
    let step = step.ok_or("no step")?;
    for i in 0..options.entries {
        let n = (i * step) % options.entries;
        let value: [u8; VALUE_BYTES] = std::array::from_fn(|i| mix(n + i as u64 / 8) as u8);
        db.put(key(n), value)?;
    }
    db.compact_range(..)?;
    Ok(db.close()?)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn tables(dir: &Path) -> Answer<Vec<PathBuf>> {
    let names = RealFs.list(dir)?;
    Ok(names.iter().filter(|name| name.ends_with(".sst")).map(|name| dir.join(name)).collect())
}

/// Reads all tables front to back. Returns their bytes.
fn read_files(dir: &Path) -> Answer<u64> {
    let mut buffer = vec![0; READ_BYTES];
    let mut total = 0;
    for path in tables(dir)? {
        let file = RealFs.open(&path)?;
        let mut offset = 0;
        while offset < file.len() {
            let bytes = ((file.len() - offset) as usize).min(READ_BYTES);
            file.read_exact_at(offset, &mut buffer[..bytes])?;
            offset += bytes as u64;
        }
        total += file.len();
    }
    Ok(total)
}

/// What one measurement found.
#[derive(Clone, Copy)]
struct Found {
    seconds: f64,
    reads: u64,
    read_bytes: u64,
}

fn prepare(dir: &Path, warm: bool) -> Answer<()> {
    if warm {
        return read_files(dir).map(drop);
    }
    for path in tables(dir)? {
        RealFs.open(&path)?.drop_page_cache()?;
    }
    Ok(())
}

fn measure(dir: &Path, options: &Options, what: &str, round: u64) -> Answer<Found> {
    prepare(dir, options.warm)?;
    if what == "files" {
        let start = Instant::now();
        let read_bytes = read_files(dir)?;
        let seconds = start.elapsed().as_secs_f64();
        return Ok(Found { seconds, reads: read_bytes / READ_BYTES as u64, read_bytes });
    }
    let db = open(dir, options)?;
    if what == "seek 10" || what == "range 1000" {
        db.warm_up()?;
    }
    let before = db.stats();
    let start = Instant::now();
    let mut entries = 0;
    match what {
        "scan" => {
            let mut cursor = db.cursor();
            cursor.seek_to_first()?;
            while cursor.valid() {
                entries += 1;
                cursor.next()?;
            }
        }
        "verify" => entries = db.verify()?.entries,
        "compact" => {
            db.compact_range(..)?;
            entries = options.entries;
        }
        _ => {
            for i in 0..SHORT_SCANS {
                let first = mix(round * SHORT_SCANS + i) % (options.entries - 1000);
                if what == "seek 10" {
                    let mut cursor = db.cursor();
                    cursor.seek(key(first))?;
                    for _ in 1..10 {
                        cursor.next()?;
                    }
                    entries += u64::from(cursor.valid());
                } else {
                    entries += db.range(key(first)..key(first + 1000)).count() as u64 / 1000;
                }
            }
            entries = entries * options.entries / SHORT_SCANS;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(entries, options.entries, "{what} has met every entry");
    let after = db.stats();
    let moved = |ticker| after.tickers.get(ticker) - before.tickers.get(ticker);
    Ok(Found { seconds, reads: moved(Ticker::FileReads), read_bytes: moved(Ticker::FileReadBytes) })
}

fn copy(from: &Path, to: &Path) -> Answer<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    // The tables are synced, because the system cannot evict pages that are not on the device yet.
    for path in tables(to)? {
        std::fs::File::open(path)?.sync_all()?;
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Answer<()> {
    let options = options()?;
    let temporary = tempfile::tempdir()?;
    let dir = options.dir.clone().unwrap_or_else(|| temporary.path().join("tree"));
    build(&dir, &options)?;
    let names = ["files", "scan", "verify", "seek 10", "range 1000", "compact"];
    let names: Vec<_> = names
        .into_iter()
        .filter(|name| options.only.as_deref().is_none_or(|o| o.split(',').any(|o| o == *name)))
        .collect();
    let mut found: Vec<Vec<Found>> = vec![Vec::new(); names.len()];
    for round in 0..options.rounds {
        for (name, found) in names.iter().zip(&mut found) {
            if *name == "compact" {
                let place = dir.with_extension("copy");
                copy(&dir, &place)?;
                let measured = measure(&place, &options, name, round as u64);
                std::fs::remove_dir_all(&place)?;
                found.push(measured?);
            } else {
                found.push(measure(&dir, &options, name, round as u64)?);
            }
        }
    }
    println!("{:<11}{:>10}{:>10}{:>12}{:>10}", "", "MB/s", "ms", "reads", "MB");
    for (name, found) in names.iter().zip(&found) {
        let operations = match *name {
            "seek 10" | "range 1000" => SHORT_SCANS as f64,
            _ => 1.0,
        };
        let seconds = median(found.iter().map(|found| found.seconds).collect());
        let reads = median(found.iter().map(|found| found.reads as f64).collect()) / operations;
        let megabytes = median(found.iter().map(|found| found.read_bytes as f64).collect()) / 1e6;
        println!(
            "{name:<11}{:>10.0}{:>10.3}{reads:>12.2}{:>10.4}",
            megabytes / seconds,
            seconds / operations * 1e3,
            megabytes / operations,
        );
    }
    Ok(())
}

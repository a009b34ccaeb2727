//! Measures a large tree: filling, merging, opening, and the memory of filters and indexes. These
//! are the figures of `docs/performance.md`.
//!
//! ```text
//! cargo run --release --example large_tree -- [--keys N] [--value-bytes N] [--operations N]
//!     [--cache-mb N] [--filter POLICY] [--dir DIR]
//! ```
//!
//! Keys have 20 bytes and are written out of order, in batches of 100. The values look random, and
//! compression is off. `--dir` keeps the tree for later runs, which do not fill it again. Without
//! `--cache-mb` the cache has room for all filters and indexes, and for 256 MiB of data.
//!
//! The lines that it prints: `fill` is the time until all keys are written and flushed, and
//! `settled` the time until no compaction is left either. `open` is the time in which `Db::open`
//! returns. `open, cold` is the same after the pages of all tables were evicted from the system's
//! cache. `first get` is one `get` of a present key, right after the cold opening. `warm_up` is the
//! time to load the filters and indexes of all tables. `absent` and `present` are the times of a
//! lookup of a random key by one thread after the warm-up, and `again` is that of a second lookup
//! of the same present keys.

use std::path::{Path, PathBuf};
use std::time::Instant;

use maypole::fs::{Fs, RealFs};
use maypole::{BlockKind, Compression, Db, FilterPolicy, Stats, Ticker, WriteBatch};

const KEY_BYTES: usize = 20;
const BATCH: u64 = 100;
/// With the default options, filter and index together take fewer bytes a key than this. The size
/// of the cache is computed from this bound, because the cache is created before the sizes of the
/// filters and indexes are known.
const METADATA_BYTES_PER_KEY: u64 = 6;

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

struct Options {
    keys: u64,
    value_bytes: usize,
    operations: u64,
    cache_mb: Option<usize>,
    filter: String,
    dir: Option<PathBuf>,
}

fn options() -> Answer<Options> {
    let mut options = Options {
        keys: 10_000_000,
        value_bytes: 100,
        operations: 200_000,
        cache_mb: None,
        filter: "bloom(10)".to_owned(),
        dir: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or("an option without its value")?;
        match &name[..] {
            "--keys" => options.keys = value.parse()?,
            "--value-bytes" => options.value_bytes = value.parse()?,
            "--operations" => options.operations = value.parse()?,
            "--cache-mb" => options.cache_mb = Some(value.parse()?),
            "--filter" => options.filter = value,
            "--dir" => options.dir = Some(value.into()),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

/// A bijection of 64-bit numbers: the finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Key number `n`. Numbers below `--keys` belong to present keys. All other keys are absent, and
/// sort between the present ones.
fn key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user0000000000000000";
    let mixed = mix(n + 1);
    for (i, byte) in key[4..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(mixed >> (60 - 4 * i)) as usize & 15];
    }
    key
}

fn value(n: u64, out: &mut [u8]) {
    for (i, bytes) in out.chunks_mut(8).enumerate() {
        let word = mix(n ^ (i as u64) << 48).to_le_bytes();
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
}

fn open(dir: &Path, options: &Options) -> Answer<Db> {
    let metadata_bytes = (options.keys * METADATA_BYTES_PER_KEY) as usize;
    Ok(Db::builder(dir)
        .filter(options.filter.parse::<FilterPolicy>()?)
        .compression(Compression::None)
        .block_cache_bytes(options.cache_mb.map_or(metadata_bytes + (256 << 20), |mb| mb << 20))
        .open()?)
}

/// Writes all keys and waits until no compaction is left. Prints the times and the bytes written.
fn fill(db: &Db, options: &Options) -> Answer<()> {
    let start = Instant::now();
    let mut bytes = vec![0; options.value_bytes];
    let percent = (options.keys / 100).max(1);
    for first in (0..options.keys).step_by(BATCH as usize) {
        let mut batch = WriteBatch::new();
        for n in first..options.keys.min(first + BATCH) {
            value(n, &mut bytes);
            batch.put(key(n), &bytes);
        }
        db.write(batch)?;
        if first / percent != (first + BATCH) / percent {
            eprint!("\rfilling {:>3} %", (first + BATCH) / percent);
        }
    }
    eprintln!();
    db.flush()?;
    let filled = start.elapsed().as_secs_f64();
    db.wait_for_compaction()?;
    let settled = start.elapsed().as_secs_f64();
    let tickers = db.stats().tickers;
    let user_bytes = (options.keys * (KEY_BYTES + options.value_bytes) as u64) as f64;
    let flushed = tickers.get(Ticker::FlushWriteBytes) as f64;
    let merged = tickers.get(Ticker::CompactWriteBytes) as f64;
    println!("fill       {filled:8.1} s, {:.0} ns a key", filled / options.keys as f64 * 1e9);
    println!("settled    {settled:8.1} s");
    println!(
        "written    {:8.1} GB to tables for {:.1} GB of keys and values ({:.1} times)",
        (flushed + merged) / 1e9,
        user_bytes / 1e9,
        (flushed + merged) / user_bytes
    );
    Ok(())
}

fn print_shape(stats: &Stats, keys: u64) {
    for level in stats.levels.iter().filter(|level| level.files > 0) {
        println!(
            "level {}    {:8} tables, {:.2} GB, {} entries, filters {:.1} MB",
            level.level,
            level.files,
            level.file_bytes as f64 / 1e9,
            level.entries,
            level.filter_bytes as f64 / 1e6
        );
    }
    let bytes: u64 = stats.levels.iter().map(|level| level.file_bytes).sum();
    println!(
        "tables     {:8.2} GB, {:.1} bytes a key",
        bytes as f64 / 1e9,
        bytes as f64 / keys as f64
    );
}

fn tables(dir: &Path) -> Answer<Vec<PathBuf>> {
    let names = RealFs.list(dir)?;
    Ok(names.iter().filter(|name| name.ends_with(".sst")).map(|name| dir.join(name)).collect())
}

/// Peak resident memory of this process, if the system reports it.
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0 / 1e6)
}

/// Looks up `--operations` random keys, whose numbers are at least `first` and below `first +
/// --keys`. Returns the mean seconds of a lookup.
fn look_up(db: &Db, options: &Options, first: u64, is_present: bool) -> Answer<f64> {
    let start = Instant::now();
    for i in 0..options.operations {
        let n = first + mix(i) % options.keys;
        if db.get_with(key(n), |_| ())?.is_some() != is_present {
            return Err(format!("key {n} is wrongly present or absent").into());
        }
    }
    Ok(start.elapsed().as_secs_f64() / options.operations as f64)
}

fn main() -> Answer<()> {
    let options = options()?;
    let temporary = tempfile::tempdir()?;
    let dir = options.dir.clone().unwrap_or_else(|| temporary.path().join("tree"));
    let db = open(&dir, &options)?;
    if db.get(key(options.keys - 1))?.is_none() {
        fill(&db, &options)?;
    }
    print_shape(&db.stats(), options.keys);
    if let Some(peak) = peak_memory_mb() {
        println!("peak       {peak:8.0} MB of memory, the cache included");
    }
    db.close()?;

    let start = Instant::now();
    let db = open(&dir, &options)?;
    println!("open       {:8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    db.close()?;
    for path in tables(&dir)? {
        RealFs.open(&path)?.drop_page_cache()?;
    }
    let start = Instant::now();
    let db = open(&dir, &options)?;
    println!("open, cold {:8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    db.get(key(0))?.ok_or("a present key was not found")?;
    println!("first get  {:8.2} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let report = db.warm_up()?;
    println!("warm_up    {:8.1} ms: {report:?}", start.elapsed().as_secs_f64() * 1e3);
    let stats = db.stats();
    for (kind, usage) in &stats.cache {
        let a_key = usage.bytes as f64 / options.keys as f64;
        println!(
            "{:<10} {:8.1} MB, {a_key:.2} bytes a key",
            kind_name(*kind),
            usage.bytes as f64 / 1e6
        );
    }
    println!("open files {:8}", stats.open_files);
    println!("absent     {:8.3} µs", look_up(&db, &options, options.keys, false)? * 1e6);
    println!("present    {:8.3} µs", look_up(&db, &options, 0, true)? * 1e6);
    println!("again      {:8.3} µs, the same keys", look_up(&db, &options, 0, true)? * 1e6);
    Ok(())
}

fn kind_name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "indexes",
        BlockKind::Filter => "filters",
        _ => "other",
    }
}

//! The read workloads.
//!
//! Every engine builds its tree in the same way: from sorted runs (`--runs`) that together hold
//! each key once. The engine's own writer builds tables of the first run, which are ingested into
//! the last level. Each further run is put into the memtable, which is large enough for all of it,
//! and flushed to one table of level 0. Up to three such tables start no compaction in any of the
//! engines. (fjall may cut a run into several tables.)

use std::fs::File;
use std::hint::black_box;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::engine::{Engine, Result};
use crate::keys::{Key, Numbers, Run, TOGETHER};
use crate::memory::Memory;
use crate::rounds;
use crate::{Options, cache, median};

/// The size of the memory for loads. It is so large that the processor's caches hold only a small
/// part of it.
const MEMORY_BYTES: usize = 256 << 20;

/// The names are those of RocksDB's db_bench where it has the workload. `missing` stands for absent
/// keys, `multi` for [`TOGETHER`] keys in one call. In workloads with `-isolated`, a fence keeps
/// each lookup from overlapping with the next. Workloads with `+l0` come last, because three tables
/// in level 0 are added before the first of them.
pub const IN_MEMORY: &[&str] = &[
    "readrandom",
    "readmissing",
    "readrandom-isolated",
    "readmissing-isolated",
    "multireadrandom",
    "multireadmissing",
    "seekrandom",
    "readseq",
    "readseq-iterator",
    "readrandom-2-threads",
    "readrandom-4-threads",
    "readrandom+l0",
    "readmissing+l0",
    "seekrandom+l0",
];

/// Workloads whose rounds start with no file in the system's cache.
pub const FROM_THE_DEVICE: &[&str] =
    &["readrandom-device", "readmissing-device", "multireadrandom-device", "readseq-device"];
/// The workloads on the device make this many times fewer operations than the other workloads,
/// because a read of the device takes fifty times as long as a read of the system's cache. A round
/// must also end before it has read a large part of the files: what it has read is in the system's
/// cache, so later operations would not read the device.
const DEVICE_SHARE: u64 = 50;

/// Runs one workload; returns nanoseconds an operation or, for the workloads of [`cache`], a
/// percentage. Keys are made before the measurement.
pub fn run(engine: &Arc<dyn Engine>, workload: &str, seed: u64, options: &Options) -> Result<f64> {
    let name = workload.strip_suffix("+l0").unwrap_or(workload);
    let (entries, keys) = (options.entries, options.keys());
    let from_device = name.strip_suffix("-device");
    let name = from_device.unwrap_or(name);
    let operations = match from_device {
        Some(_) => {
            forget_files(options.dir.as_ref().ok_or("serve needs --dir")?)?;
            options.operations / DEVICE_SHARE
        }
        None => options.operations,
    };
    if cache::WORKLOADS.contains(&name) {
        return cache::run(engine, name, seed, options);
    }
    let is_present = !name.contains("missing");
    let chosen = |count: u64, seed: u64| {
        let first = if is_present { 0 } else { entries };
        keys.random(first, entries, &mut Numbers::new(seed)).take(count as usize).collect()
    };
    let engine = &**engine;
    match name {
        "load" => timed(|| load(engine, options)),
        "add-3-l0-files" => timed(|| add_3_l0_files(engine, options)),
        "readrandom" | "readmissing" | "readrandom-isolated" | "readmissing-isolated" => {
            let asked: Vec<Key> = chosen(operations, seed);
            let fence = name.ends_with("isolated");
            timed(|| get_each(engine, &asked, is_present, fence))
        }
        "multireadrandom" | "multireadmissing" => {
            let asked: Vec<Key> = chosen(operations, seed);
            timed(|| multi_get_each(engine, &asked, is_present))
        }
        "seekrandom" => {
            let asked: Vec<Key> = chosen(operations / 10, seed);
            timed(|| {
                for key in &asked {
                    black_box(engine.seek(key, 50)?);
                }
                Ok(asked.len() as u64)
            })
        }
        "readseq" => timed(|| check_count(engine.scan()?, entries)),
        "readseq-iterator" => {
            let mut has_one = true;
            let ns = timed(|| match engine.iterate()? {
                Some(counted) => check_count(counted, entries),
                None => {
                    has_one = false;
                    Ok(1)
                }
            })?;
            Ok(if has_one { ns } else { f64::NAN })
        }
        "readrandom-2-threads" | "readrandom-4-threads" => {
            let count = if name == "readrandom-2-threads" { 2 } else { 4 };
            let asked: Vec<Vec<Key>> =
                (1..=count).map(|thread| chosen(operations, seed ^ thread << 40)).collect();
            timed(|| get_each_by_threads(engine, &asked))
        }
        _ => Err(format!("unknown workload {workload}").into()),
    }
}

/// Nanoseconds an operation. `work` returns the number of operations.
fn timed(work: impl FnOnce() -> Result<u64>) -> Result<f64> {
    let start = Instant::now();
    let operations = work()?;
    Ok(start.elapsed().as_nanos() as f64 / operations as f64)
}

/// Looks up the keys, which must all be present or all be absent.
fn get_each(engine: &dyn Engine, asked: &[Key], is_present: bool, fence: bool) -> Result<u64> {
    for key in asked {
        if engine.get(key)?.is_some() != is_present {
            return Err("a present key was not found, or an absent one was".into());
        }
        if fence {
            isolate();
        }
    }
    Ok(asked.len() as u64)
}

fn multi_get_each(engine: &dyn Engine, asked: &[Key], are_present: bool) -> Result<u64> {
    for keys in asked.chunks(TOGETHER) {
        if engine.multi_get(keys)? != if are_present { keys.len() } else { 0 } {
            return Err("multi_get found too many or too few".into());
        }
    }
    Ok(asked.len() as u64)
}

/// Looks up the keys of each list, which are all present, in a thread of its own.
fn get_each_by_threads(engine: &dyn Engine, asked: &[Vec<Key>]) -> Result<u64> {
    std::thread::scope(|scope| {
        let get = |keys| move || get_each(engine, keys, true, false);
        let threads: Vec<_> = asked.iter().map(|keys| scope.spawn(get(keys))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// Makes the tree, and brings it into the cache.
fn load(engine: &dyn Engine, options: &Options) -> Result<u64> {
    ingest(engine, options)?;
    warm_up(engine, options)?;
    Ok(options.entries)
}

/// Makes the tree.
pub fn ingest(engine: &dyn Engine, options: &Options) -> Result<()> {
    let scratch = options.dir.as_ref().ok_or("serve needs --dir")?.with_extension("load");
    std::fs::create_dir_all(&scratch)?;
    for part in 0..options.runs {
        let run = Run::new(options.keys(), options.values(), options.entries, part, options.runs);
        if part == 0 {
            engine.ingest(&scratch, &run)?;
            std::fs::remove_dir_all(&scratch)?;
        } else {
            run.for_each(|key, value| engine.put(key, value, false))?;
            engine.flush()?;
        }
    }
    engine.settle()?;
    eprintln!("  {}", engine.shape());
    Ok(())
}

/// Writes three tables of level 0, each of which overwrites a hundredth of the entries, but at
/// least 1,000.
fn add_3_l0_files(engine: &dyn Engine, options: &Options) -> Result<u64> {
    let mut out = Vec::new();
    let each = (options.entries / 100).max(1000);
    for file in 0..3 {
        for i in 0..each {
            let n = (i * 97 + file * 31) % options.entries;
            options.values().value(n, &mut out);
            engine.put(&options.keys().key(n), &out, false)?;
        }
        engine.flush()?;
    }
    warm_up(engine, options)?;
    Ok(3 * each)
}

/// Loads filters, indexes and blocks into the cache. Lookups load most of them in random order, one
/// for every eight entries, so that adjacent blocks are not adjacent in memory; a scan loads the
/// rest.
fn warm_up(engine: &dyn Engine, options: &Options) -> Result<()> {
    for n in 0..options.entries / 8 {
        black_box(engine.get(&options.keys().key(n))?);
    }
    check_count(engine.scan()?, options.entries)?;
    Ok(())
}

/// Evicts the files in `dir` from the system's cache.
pub fn forget_files(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let file = match File::open(entry?.path()) {
            // The engine has removed the file meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => file?,
        };
        if file.metadata()?.is_file() {
            // Pages that are not written yet cannot be evicted.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn check_count((found, bytes): (u64, usize), entries: u64) -> Result<u64> {
    black_box(bytes);
    match found == entries {
        true => Ok(entries),
        false => Err(format!("a scan met {found} entries of {entries}").into()),
    }
}

/// Keeps a lookup from overlapping with the next.
fn isolate() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instructions; they touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_mm_mfence();
    }
}

/// Measures the requested ones of `workloads`, and prints a table.
pub fn compare(options: &Options, workloads: &[&'static str]) -> Result<()> {
    // With several runs, level 0 has tables already, and three more would start a compaction.
    let possible = |workload: &&str| !(options.keeps_runs() && workload.ends_with("+l0"));
    let wanted = workloads.iter().copied().filter(possible);
    let wanted: Vec<&'static str> = wanted.filter(|workload| options.wants(workload)).collect();
    let rows = rounds::measure(options, &wanted)?;
    rounds::print(options, "ns an operation", &rows);

    let memory = Memory::new(MEMORY_BYTES);
    for threads in [1, 2] {
        let rounds =
            (0..options.rounds as u64).map(|i| memory.load_ns(threads, options.operations, i));
        println!("{:<24}{:>12.1}", format!("memory-{threads}-threads"), median(rounds.collect()));
    }
    Ok(())
}

//! The read workloads, and the parent that asks the engines for them in turn.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use crate::Options;
use crate::engine::{Engine, Kind, Result};
use crate::keys::{Numbers, key, mix, value};

/// Keys asked together by multi_get.
const TOGETHER: u64 = 64;

/// Steps of the parent: what it asks for, and whether it is measured. db_bench's name where it has
/// one.
const STEPS: &[(&str, bool)] = &[
    ("load", false),
    ("compact", false),
    ("readrandom", true),
    ("readmissing", true),
    ("readrandom-isolated", true),
    ("readmissing-isolated", true),
    ("multireadrandom", true),
    ("multireadmissing", true),
    ("seekrandom", true),
    ("readseq", true),
    ("readseq-iterator", true),
    ("readrandom-2-threads", true),
    ("memory-1-thread", true),
    ("memory-2-threads", true),
    ("add-3-l0-files", false),
    ("readrandom+l0", true),
    ("readmissing+l0", true),
    ("seekrandom+l0", true),
];

/// Runs one workload; answers nanoseconds an operation.
pub fn run(engine: &Arc<dyn Engine>, workload: &str, seed: u64, options: &Options) -> Result<f64> {
    let name = workload.strip_suffix("+l0").unwrap_or(workload);
    let (entries, operations) = (options.entries, options.operations);
    let mut numbers = Numbers::new(seed);
    let start = Instant::now();
    let operations = match name {
        "load" => {
            let mut out = Vec::new();
            for n in 0..entries {
                value(n, options.value_bytes, &mut out);
                engine.put(&key(n), &out, false)?;
            }
            engine.flush()?;
            engine.settle()?;
            entries
        }
        "compact" => {
            engine.compact()?;
            engine.settle()?;
            // What a fresh tree reads once: filters, indexes, blocks.
            for n in 0..entries {
                black_box(engine.get(&key(n))?);
            }
            engine.scan()?;
            entries
        }
        "add-3-l0-files" => {
            let mut out = Vec::new();
            let each = (entries / 100).max(1000);
            for file in 0..3 {
                for i in 0..each {
                    let n = (i * 97 + file * 31) % entries;
                    value(n, options.value_bytes, &mut out);
                    engine.put(&key(n), &out, false)?;
                }
                engine.flush()?;
            }
            for n in 0..entries {
                black_box(engine.get(&key(n))?);
            }
            3 * each
        }
        "readrandom" | "readrandom-isolated" => {
            let fence = name.ends_with("isolated");
            for _ in 0..operations {
                let found = engine.get(&key(numbers.below(entries)))?;
                found.ok_or("a present key was not found")?;
                if fence {
                    isolate();
                }
            }
            operations
        }
        "readmissing" | "readmissing-isolated" => {
            let fence = name.ends_with("isolated");
            for _ in 0..operations {
                let found = engine.get(&key(entries + numbers.below(entries)))?;
                if found.is_some() {
                    return Err("an absent key was found".into());
                }
                if fence {
                    isolate();
                }
            }
            operations
        }
        "multireadrandom" | "multireadmissing" => {
            let first = if name == "multireadrandom" { 0 } else { entries };
            let expected = if name == "multireadrandom" { TOGETHER as usize } else { 0 };
            for _ in 0..operations / TOGETHER {
                let keys: [[u8; 20]; TOGETHER as usize] =
                    std::array::from_fn(|_| key(first + numbers.below(entries)));
                if engine.multi_get(&keys)? != expected {
                    return Err("multi_get found too many or too few".into());
                }
            }
            operations / TOGETHER * TOGETHER
        }
        "seekrandom" => {
            for _ in 0..operations / 10 {
                black_box(engine.seek(&key(numbers.below(entries)), 50)?);
            }
            operations / 10
        }
        "readseq" => check_count(engine.scan()?, entries)?,
        "readseq-iterator" => match engine.iterate()? {
            Some(counted) => check_count(counted, entries)?,
            None => return Ok(f64::NAN),
        },
        "readrandom-2-threads" => {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..2)
                    .map(|thread| {
                        let mut numbers = Numbers::new(seed ^ (thread + 1) << 40);
                        scope.spawn(move || -> Result<()> {
                            for _ in 0..operations {
                                engine.get(&key(numbers.below(entries)))?.ok_or("not found")?;
                            }
                            Ok(())
                        })
                    })
                    .collect();
                threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
            })?;
            2 * operations
        }
        "memory-1-thread" => memory_loads(1, operations, seed),
        "memory-2-threads" => memory_loads(2, operations, seed),
        _ => return Err(format!("unknown workload {workload}").into()),
    };
    Ok(start.elapsed().as_nanos() as f64 / operations as f64)
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
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_mm_mfence();
    }
}

/// Dependent loads from 256 MiB, the pure cost of memory: what two threads gain over one is the
/// most that lookups can gain. The array is made once; its making is not in the figure that
/// follows it, since the first round of each workload is dropped.
fn memory_loads(threads: u64, operations: u64, seed: u64) -> u64 {
    static TABLE: std::sync::OnceLock<Vec<u32>> = std::sync::OnceLock::new();
    let table = TABLE.get_or_init(|| (0..1u64 << 26).map(|i| mix(i) as u32 & ((1 << 26) - 1)).collect());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut at = mix(seed + thread) as usize & ((1 << 26) - 1);
                for i in 0..operations {
                    at = (table[at] as usize ^ i as usize) & ((1 << 26) - 1);
                }
                black_box(at);
            });
        }
    });
    threads * operations
}

/// An engine in its own process.
pub struct Server {
    pub kind: Kind,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(kind: Kind, dir: &Path, options: &Options) -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(kind.name())
            .arg("--dir")
            .arg(dir.join(kind.name()))
            .args(["--entries", &options.entries.to_string()])
            .args(["--cache-bytes", &options.cache_bytes.to_string()])
            .args(["--memtable-bytes", &options.memtable_bytes.to_string()])
            .args(["--operations", &options.operations.to_string()])
            .args(["--value-bytes", &options.value_bytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Server { kind, child, input, output })
    }

    pub fn ask(&mut self, workload: &str, seed: u64) -> Result<f64> {
        writeln!(self.input, "{workload} {seed}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.trim().parse().map_err(|_| format!("{} failed at {workload}", self.kind.name()).into())
    }

    /// Peak resident memory in bytes, as the system counted it.
    pub fn peak_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// Bytes the process handed to the device so far.
    pub fn written_bytes(&self) -> Option<u64> {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).ok()?;
        let line = io.lines().find(|line| line.starts_with("write_bytes:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    pub fn stop(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

pub fn compare(options: &Options) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&dir)?;
    let mut servers = Vec::new();
    for &kind in &options.engines {
        servers.push(Server::start(kind, &dir, options)?);
    }
    print!("{:<24}", "ns an operation");
    for server in &servers {
        print!("{:>12}", server.kind.name());
    }
    for server in &servers[1..] {
        print!("{:>12}", format!("{} ratio", server.kind.name()));
    }
    println!();
    for &(step, measured) in STEPS {
        if !measured {
            for server in &mut servers {
                eprintln!("{}: {step}", server.kind.name());
                server.ask(step, 1)?;
            }
            continue;
        }
        if options.only.as_ref().is_some_and(|only| !step.contains(only)) {
            continue;
        }
        let mut rounds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        // One more than asked for: the first warms up.
        for round in 0..=options.rounds as u64 {
            for (i, server) in servers.iter_mut().enumerate() {
                let ns = server.ask(step, round + 1)?;
                if round > 0 {
                    rounds.entry(i).or_default().push(ns);
                }
            }
        }
        print!("{step:<24}");
        for ns in rounds.values() {
            print!("{:>12.1}", median(ns.clone()));
        }
        // The ratio of each round, then its median: what slows a round slows all engines in it.
        for i in 1..servers.len() {
            let ratios = rounds[&i].iter().zip(&rounds[&0]).map(|(own, base)| own / base);
            print!("{:>12.3}", median(ratios.collect()));
        }
        println!();
    }
    servers.into_iter().try_for_each(Server::stop)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

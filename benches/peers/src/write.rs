//! The write workloads: each engine fills a tree of its own, from nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::Options;
use crate::engine::{Engine, Result};
use crate::keys::{Numbers, key, ordered_key, value};
use crate::read::{Server, median};

const WORKLOADS: &[&str] = &["fillseq", "fillrandom", "overwrite", "fillsync-2-threads"];

/// Runs one workload; answers nanoseconds an operation, or `None` when it is no write workload.
pub fn run(
    engine: &Arc<dyn Engine>,
    workload: &str,
    seed: u64,
    options: &Options,
) -> Result<Option<f64>> {
    let entries = options.entries;
    let mut out = Vec::new();
    let start = Instant::now();
    let operations = match workload {
        "fillseq" => {
            for n in 0..entries {
                value(n, options.value_bytes, &mut out);
                engine.put(&ordered_key(n), &out, false)?;
            }
            entries
        }
        "fillrandom" | "overwrite" => {
            let mut numbers = Numbers::new(seed);
            for _ in 0..entries {
                let n = numbers.below(entries);
                value(n, options.value_bytes, &mut out);
                engine.put(&key(n), &out, false)?;
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
                                value(n, options.value_bytes, &mut out);
                                engine.put(&key(2 * n + thread), &out, true)?;
                            }
                            Ok(())
                        })
                    })
                    .collect();
                threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
            })?;
            2 * each
        }
        _ => return Ok(None),
    };
    Ok(Some(start.elapsed().as_nanos() as f64 / operations as f64))
}

pub fn compare(options: &Options) -> Result<()> {
    println!(
        "{:<20}{:<10}{:>10}{:>12}{:>14}{:>14}{:>12}",
        "workload", "engine", "ns/op", "settled", "MB written", "MB on disk", "peak MB"
    );
    for workload in WORKLOADS {
        if options.only.as_ref().is_some_and(|only| !workload.contains(only)) {
            continue;
        }
        let mut base: Option<Row> = None;
        let mut rows = vec![Vec::new(); options.engines.len()];
        for round in 0..options.rounds as u64 {
            for (i, &kind) in options.engines.iter().enumerate() {
                let scratch = tempfile::tempdir_in(options.dir.as_deref().unwrap_or(Path::new("/tmp")))?;
                let mut server = Server::start(kind, scratch.path(), options)?;
                if *workload == "overwrite" {
                    server.ask("fillrandom", 99)?;
                    server.ask("settle", 1)?;
                }
                let before = server.written_bytes().unwrap_or(0);
                let ns = server.ask(workload, round + 1)?;
                let settled = ns + server.ask("settle", 1)?;
                rows[i].push(Row {
                    ns,
                    settled,
                    written: (server.written_bytes().unwrap_or(0) - before) as f64 / 1e6,
                    on_disk: directory_bytes(scratch.path())? as f64 / 1e6,
                    peak: server.peak_bytes().unwrap_or(0) as f64 / 1e6,
                });
                server.stop()?;
            }
        }
        for (kind, rows) in options.engines.iter().zip(&rows) {
            let row = Row::median(rows);
            println!(
                "{workload:<20}{:<10}{:>10.0}{:>12.0}{:>14.0}{:>14.0}{:>12.0}",
                kind.name(), row.ns, row.settled, row.written, row.on_disk, row.peak
            );
            match &base {
                None => base = Some(row),
                Some(base) => println!(
                    "{:<20}{:<10}{:>10.3}{:>12.3}{:>14.3}{:>14.3}{:>12.3}",
                    "", "  ratio", row.ns / base.ns, row.settled / base.settled,
                    row.written / base.written, row.on_disk / base.on_disk, row.peak / base.peak
                ),
            }
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Row {
    ns: f64,
    settled: f64,
    written: f64,
    on_disk: f64,
    peak: f64,
}

impl Row {
    fn median(rows: &[Row]) -> Row {
        let of = |field: fn(&Row) -> f64| median(rows.iter().map(field).collect());
        Row {
            ns: of(|row| row.ns),
            settled: of(|row| row.settled),
            written: of(|row| row.written),
            on_disk: of(|row| row.on_disk),
            peak: of(|row| row.peak),
        }
    }
}

fn directory_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { directory_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

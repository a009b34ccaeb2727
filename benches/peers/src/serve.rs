//! An engine in a process of its own. For each line that the parent writes ([`crate::server`]), the
//! process runs a workload and writes one line with its figures.
//!
//! ```text
//! in   WORKLOAD SEED
//! out  NANOSECONDS-PER-OPERATION, and further figures of the workload, as numbers
//! ```
//!
//! The workloads of `cache` answer with a percentage instead of nanoseconds. The steps of `meta`
//! answer with microseconds, or with bytes if they write a tree. The process ends when its standard
//! input ends.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use crate::engine::{Kind, Result};
use crate::{Options, meta, read, threads, write};

/// The engine's process.
pub fn serve(kind: Kind, options: &Options) -> Result<()> {
    let dir: PathBuf = options.dir.clone().ok_or("serve needs --dir")?;
    let engine = kind.open(&dir, options)?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (workload, seed) = line.split_once(' ').ok_or("expected WORKLOAD SEED")?;
        let seed = seed.parse()?;
        let figures = match workload.strip_prefix(meta::PREFIX) {
            Some(step) => meta::run(&*engine, step, seed, options)?,
            None if workload == "two-threads" => threads::run(&engine, options)?,
            None => match write::run(&engine, workload, seed, options)? {
                Some(figures) => figures,
                None => vec![read::run(&engine, workload, seed, options)?],
            },
        };
        let figures: Vec<String> = figures.iter().map(f64::to_string).collect();
        writeln!(out, "{}", figures.join(" "))?;
        out.flush()?;
    }
    Ok(())
}

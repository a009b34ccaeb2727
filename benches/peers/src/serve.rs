//! One engine in a process of its own: a line in, a line out.
//!
//! ```text
//! in   WORKLOAD SEED            out  NANOSECONDS-PER-OPERATION
//! ```
//!
//! It ends when standard input does.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use crate::engine::{Kind, Result};
use crate::{Options, read, write};

pub fn run(kind: Kind, options: &Options) -> Result<()> {
    let dir: PathBuf = options.dir.clone().ok_or("serve needs --dir")?;
    let engine = kind.open(&dir, options)?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (workload, seed) = line.split_once(' ').ok_or("expected WORKLOAD SEED")?;
        let seed = seed.parse()?;
        let ns = match write::run(&engine, workload, seed, options)? {
            Some(ns) => ns,
            None => read::run(&engine, workload, seed, options)?,
        };
        writeln!(out, "{ns}")?;
        out.flush()?;
    }
    Ok(())
}

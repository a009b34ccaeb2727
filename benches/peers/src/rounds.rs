//! The rounds of the workloads: the parent process makes the engines run them in turn.

use std::fmt;

use crate::engine::Result;
use crate::server::Server;
use crate::{Options, median, median_ratio};

/// One workload, with the rounds of each engine.
pub struct Row {
    workload: &'static str,
    rounds: Vec<Vec<f64>>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", self.workload)?;
        for rounds in &self.rounds {
            write!(f, "{:>12.1}", median(rounds.clone()))?;
        }
        // The median of the rounds' ratios, and not the ratio of the medians, because a disturbance
        // slows all engines of the same round alike.
        for rounds in &self.rounds[1..] {
            let ratio = median_ratio(rounds, &self.rounds[0]);
            write!(f, "{ratio:>18.3}")?;
        }
        Ok(())
    }
}

/// Prints a table of figures in `unit`.
pub fn print(options: &Options, unit: &str, rows: &[Row]) {
    print!("{unit:<24}");
    options.engines.iter().for_each(|kind| print!("{:>12}", kind.name()));
    let ratios = options.engines[1..].iter().map(|kind| format!("{} ratio", kind.name()));
    ratios.for_each(|ratio| print!("{ratio:>18}"));
    println!();
    rows.iter().for_each(|row| println!("{row}"));
}

/// Lets the engines run all rounds of the workloads, in turn or one after the other.
pub fn measure(options: &Options, workloads: &[&'static str]) -> Result<Vec<Row>> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.as_deref().unwrap_or(scratch.path());
    let mut rows: Vec<Row> =
        workloads.iter().map(|&workload| Row { workload, rounds: Vec::new() }).collect();
    let together = if options.one_at_a_time { 1 } else { options.engines.len() };
    for engines in options.engines.chunks(together) {
        let mut options = options.clone();
        if options.keeps_runs() {
            // The memtable holds a whole run. An entry takes at most 60 bytes more than its key and
            // value in any of the engines.
            let run_bytes = options.entries as usize / options.runs as usize
                * (options.key_bytes + options.value_bytes + 60);
            options.memtable_mb = (run_bytes >> 20) + 16;
            if options.memtable_bytes() > 2 << 30 {
                return Err(
                    "a run must fit into a memtable of 2 GiB: fewer or smaller entries".into()
                );
            }
        }
        let mut servers = Vec::new();
        for &kind in engines {
            let mut server = Server::start(kind, dir, &options)?;
            eprintln!("{}: load", kind.name());
            server.ask("load", 1)?;
            servers.push(server);
        }
        let first = rows.first().map_or(0, |row| row.rounds.len());
        let mut has_l0 = false;
        for row in &mut rows {
            if row.workload.ends_with("+l0") && !has_l0 {
                has_l0 = true;
                for server in &mut servers {
                    eprintln!("{}: add-3-l0-files", server.kind.name());
                    server.ask("add-3-l0-files", 1)?;
                }
            }
            eprintln!("{}", row.workload);
            row.rounds.resize(first + servers.len(), Vec::new());
            // One round more than requested, because the first one is the warm-up.
            for round in 0..=options.rounds as u64 {
                for (server, rounds) in servers.iter_mut().zip(&mut row.rounds[first..]) {
                    let ns = server.ask(row.workload, round + 1)?;
                    if round > 0 {
                        rounds.push(ns);
                    }
                }
            }
        }
        for server in servers {
            let own = dir.join(server.kind.name());
            server.stop()?;
            std::fs::remove_dir_all(own)?;
        }
    }
    Ok(rows)
}

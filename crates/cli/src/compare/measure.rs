//! Times single lookups in two phases: absent keys, then present keys. All policies get the same
//! lookups and take turns, in rounds ([`super::rounds`]).

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use maypole::fs::{Fs, RandomAccessFile, RealFs};
use maypole::{Stats, Ticker};

use super::keys::KeyList;
use super::rounds::{self, ROUNDS};
use super::setup::Setup;
use super::tree::Tree;
use crate::clock::clock_ns;
use crate::failure::{Failure, Result};
use crate::progress;

/// With `--cold`, the operating system's cache is dropped after this many lookups. They are so few
/// that hardly any lookup finds a page that another lookup has read.
const LOOKUPS_A_DROP: usize = 256;
/// A phase was cold if at least this fraction of the bytes that lookups read from files came from
/// the device.
const COLD_SHARE: f64 = 0.9;

/// The lookups of one policy in one phase.
pub struct Phase {
    /// Nanoseconds of single lookups.
    pub latency: Histogram<u64>,
    /// The mean nanoseconds of a lookup in each round.
    pub means: Vec<f64>,
    pub before: Stats,
    pub after: Stats,
    /// Bytes that the system fetched from a device during the phase. `None` without `--cold`, or if
    /// the system does not report them.
    pub device_bytes: Option<u64>,
}

impl Phase {
    pub fn gets(&self) -> u64 {
        self.latency.len()
    }

    /// Whether nearly all bytes that lookups read from files came from the device, and not from the
    /// operating system's cache.
    pub fn was_cold(&self) -> bool {
        let read = &self.after.tickers - &self.before.tickers;
        let wanted = COLD_SHARE * read.get(Ticker::FileReadBytes) as f64;
        self.device_bytes.is_some_and(|bytes| bytes as f64 >= wanted)
    }
}

pub struct Measured {
    pub absent: Phase,
    pub present: Phase,
}

/// Looks the keys up: absent ones, then present ones.
pub fn run(setup: &Setup, trees: &[Tree]) -> Result<Vec<Measured>> {
    trees.iter().try_for_each(|tree| warm_up(setup, tree))?;
    let clock_ns = clock_ns();
    let absent = phase(setup, trees, false, clock_ns)?;
    let present = phase(setup, trees, true, clock_ns)?;
    let both = absent.into_iter().zip(present);
    Ok(both.map(|(absent, present)| Measured { absent, present }).collect())
}

/// Looks present or absent keys up in rounds: in each round, every tree gets the same part of the
/// queries.
fn phase(setup: &Setup, trees: &[Tree], present: bool, clock_ns: u64) -> Result<Vec<Phase>> {
    let (keys, queries, what) = match present {
        true => (&setup.keys.present, &setup.keys.queries.present, "looking up present keys"),
        false => (&setup.keys.absent, &setup.keys.queries.absent, "looking up absent keys"),
    };
    let bar = progress::bar((queries.len() * trees.len()) as u64, what);
    let mut runs =
        trees.iter().map(|tree| Run::new(tree, setup.cold)).collect::<Result<Vec<_>>>()?;
    for round in 0..ROUNDS {
        let part = &queries[rounds::part(round, queries.len())];
        for turn in rounds::turns(round, runs.len()) {
            runs[turn].look_up(keys, part, present, clock_ns, &bar)?;
        }
    }
    Ok(runs.into_iter().map(Run::finish).collect())
}

/// Looks up every loaded key once, in key order. This loads filters, indexes and data into the
/// cache, as far as they fit.
fn warm_up(setup: &Setup, tree: &Tree) -> Result {
    let keys = &setup.keys.present;
    let bar = progress::bar(keys.len() as u64, format!("{}: warming up", tree.policy));
    for some in setup.plan.sorted.chunks(10_000) {
        for &i in some {
            check(tree.db.contains_key(keys.get(i))?, true, keys.get(i))?;
        }
        bar.inc(some.len() as u64);
    }
    Ok(())
}

/// The state of one policy during a phase.
struct Run<'a> {
    tree: &'a Tree,
    /// With `--cold`, the files of the tables, whose pages are dropped.
    files: Vec<Arc<dyn RandomAccessFile>>,
    phase: Phase,
}

impl<'a> Run<'a> {
    fn new(tree: &'a Tree, cold: bool) -> Result<Run<'a>> {
        let mut files = Vec::new();
        if cold {
            let names = RealFs.list(&tree.dir)?;
            for name in names.iter().filter(|name| name.ends_with(".sst")) {
                files.push(RealFs.open(&tree.dir.join(name))?);
            }
        }
        // Latencies of up to a minute, with three significant digits.
        let latency = Histogram::new_with_max(60_000_000_000, 3).map_err(Failure::new)?;
        let (before, device_bytes) = (tree.db.stats(), cold.then_some(0));
        let after = before.clone();
        let phase = Phase { latency, means: Vec::new(), before, after, device_bytes };
        Ok(Run { tree, files, phase })
    }

    fn look_up(
        &mut self,
        keys: &KeyList,
        part: &[usize],
        present: bool,
        clock_ns: u64,
        bar: &ProgressBar,
    ) -> Result {
        let mut sum = 0;
        let device_before = self.phase.device_bytes.and_then(|_| device_bytes());
        for (n, &i) in part.iter().enumerate() {
            if n.is_multiple_of(LOOKUPS_A_DROP) {
                self.files.iter().try_for_each(|file| file.drop_page_cache())?;
            }
            let key = keys.get(i);
            // Brings the key into the processor's cache, where a caller's key usually is too.
            black_box(key.iter().fold(0, |sum, byte| sum ^ byte));
            let start = Instant::now();
            let value = self.tree.db.get(key)?;
            let nanos = (start.elapsed().as_nanos() as u64).saturating_sub(clock_ns);
            self.phase.latency.saturating_record(nanos);
            sum += nanos;
            check(value.is_some(), present, key)?;
        }
        if !part.is_empty() {
            self.phase.means.push(sum as f64 / part.len() as f64);
        }
        bar.inc(part.len() as u64);
        let read = device_bytes().zip(device_before).map(|(after, before)| after - before);
        self.phase.device_bytes = self.phase.device_bytes.zip(read).map(|(sum, read)| sum + read);
        Ok(())
    }

    fn finish(self) -> Phase {
        Phase { after: self.tree.db.stats(), ..self.phase }
    }
}

/// Bytes that this process has made the system fetch from devices.
fn device_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Fails if a lookup had a wrong result. `present`: whether the key was loaded.
pub fn check(found: bool, present: bool, key: &[u8]) -> Result {
    if found == present { Ok(()) } else { Err(Failure::of_lookup(key, present)) }
}

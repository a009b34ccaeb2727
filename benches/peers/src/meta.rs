//! Lookups in a tree whose filters and indexes do not fit into the block cache.
//!
//! ```text
//! load      each engine ingests the tree once                  from then on it is only reopened
//! a cache   every engine is opened with it; those of REWRITTEN write the tree again
//!             all files are read into the system's cache anew
//!             a choice of keys
//!               absent, present, half    warm-up, then rounds in turns: time and reads a lookup
//! ```
//!
//! *Metadata* are the filters and indexes; their size is the number of their stored bytes. RocksDB
//! charges them to the cache, as Maypole does. Reads are counted by RocksDB's perf context and by
//! Maypole's ticker `file.reads`. A read counts as one, whatever its length: of a data block, of a
//! part of 4 KiB or of a filter of 600 KiB.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::engine::{Engine, Kind, Result};
use crate::keys::{Key, Numbers, Zipf, mix};
use crate::server::Server;
use crate::{Options, median, read};

/// The engines that are measured unless others are named.
pub const ENGINES: &str = "rocksdb,rocksdb-parts,maypole,maypole-whole,maypole-none";
const WORKLOADS: [&str; 3] = ["absent", "present", "half"];
/// If the name of a workload begins with this, a server passes the rest of the name to [`run`] as
/// the step.
pub const PREFIX: &str = "meta-";
/// When these engines write a table, they decide by the size of the cache whether its filter and
/// index get parts. So they write the tree again with each cache.
const REWRITTEN: [Kind; 2] = [Kind::Maypole, Kind::MaypoleNone];
/// The engines without filters. In ratios they are the base of the engines of the same form.
const WITHOUT: [Kind; 2] = [Kind::MaypoleNone, Kind::MaypoleWholeNone];
/// The sizes of caches, in sixteenths of the size of the first engine's metadata.
const SIXTEENTHS: [u64; 6] = [1, 2, 4, 8, 16, 32];

const EXPONENT: f64 = 0.99;
/// Keys are in the order of their mixed numbers (`Keys::of_mixed`). Mixed numbers below this one
/// make the first tenth of the range of keys.
const TENTH: u64 = u64::MAX / 10;
/// The warm-up makes one lookup for each 1024 bytes of the cache: four lookups for each block of 4
/// KiB that the cache has room for.
const WARM_UP_BYTES: u64 = 1024;

/// Which keys lookups prefer.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Preference {
    /// None: all keys have the same probability.
    Uniform,
    /// The key of rank r has a probability proportional to 1 / r^0.99. Its rank says nothing about
    /// its place in the order of keys.
    Zipf,
    /// Nine of ten lookups are in a tenth of the range of keys.
    Tenth,
}

impl Preference {
    fn name(self) -> &'static str {
        match self {
            Preference::Uniform => "uniform",
            Preference::Zipf => "zipf",
            Preference::Tenth => "tenth",
        }
    }
}

#[derive(Args)]
pub struct Meta {
    /// Which keys lookups prefer; several are measured one after the other.
    #[arg(long, value_delimiter = ',', default_value = "uniform")]
    keys: Vec<Preference>,
    #[command(flatten)]
    options: Options,
}

/// Runs one step. Returns the microseconds and the reads of a lookup, the bytes of the metadata for
/// a step that writes the tree, or the bytes in the cache.
pub fn run(engine: &dyn Engine, step: &str, seed: u64, options: &Options) -> Result<Vec<f64>> {
    match step {
        "load" => read::ingest(engine, options)?,
        "usage" => return Ok(vec![engine.cache_bytes()? as f64]),
        "rewrite" => engine.compact().and_then(|()| engine.settle())?,
        _ => return look_up(engine, step, seed, options),
    }
    Ok(vec![engine.metadata_bytes()? as f64])
}

fn look_up(engine: &dyn Engine, step: &str, seed: u64, options: &Options) -> Result<Vec<f64>> {
    let (workload, preference) = step.split_once('-').ok_or("expected WORKLOAD-PREFERENCE")?;
    let lookups = lookups(workload, Preference::from_str(preference, false)?, seed, options);
    let reads_before = engine.blocks_read()?;
    let start = Instant::now();
    for (key, is_present) in &lookups {
        if engine.get(key)?.is_some() != *is_present {
            return Err("a present key was not found, or an absent one was".into());
        }
    }
    let us = start.elapsed().as_secs_f64() * 1e6;
    let reads = engine.blocks_read()? - reads_before;
    Ok([us, reads as f64].map(|sum| sum / lookups.len() as f64).to_vec())
}

/// The keys of a round, and which of them are present.
fn lookups(
    workload: &str,
    preference: Preference,
    seed: u64,
    options: &Options,
) -> Vec<(Key, bool)> {
    let (entries, mut numbers) = (options.entries, Numbers::new(seed));
    let zipf = (preference == Preference::Zipf).then(|| Zipf::new(entries, EXPONENT));
    let next = |_| {
        let is_present = match workload {
            "absent" => false,
            "present" => true,
            _ => numbers.below(2) == 0,
        };
        let first = if is_present { 0 } else { entries };
        let n = match (&zipf, preference) {
            (Some(zipf), _) => first + zipf.below(numbers.fraction()),
            (None, Preference::Tenth) => {
                let is_hot = numbers.below(10) > 0;
                loop {
                    let n = first + numbers.below(entries);
                    if (mix(n + 1) < TENTH) == is_hot {
                        break n;
                    }
                }
            }
            (None, _) => first + numbers.below(entries),
        };
        (options.keys().key(n), is_present)
    };
    (0..options.operations).map(next).collect()
}

/// The microseconds and the reads of a lookup in each round of one engine.
struct Row {
    kind: Kind,
    us: Vec<f64>,
    reads: Vec<f64>,
}

impl Meta {
    /// Measures everything, and prints a table.
    pub fn compare(&self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let dir = self.options.dir.as_deref().unwrap_or(scratch.path());
        let mut options = self.options.clone();
        options.charge_metadata = true;
        let mut metadata = Vec::new();
        for &kind in &options.engines {
            let mut server = Server::start(kind, dir, &options)?;
            metadata.push(write_tree(&mut server, "meta-load")?);
            server.stop()?;
        }
        let first = metadata.first().ok_or("no engine")? / 1024.0;
        let caches = match &self.options.cache_kb[..] {
            [] => SIXTEENTHS.map(|n| (first * n as f64 / 16.0) as usize).to_vec(),
            given => given.to_vec(),
        };
        print!("{:<16}{:<9}{:<9}{:<19}", "cache", "lookups", "keys", "engine");
        println!("{:>9}{:>11}{:>9}{:>11}{:>14}", "µs", "ratio", "reads", "ratio", "to no filter");
        for kib in caches {
            options.cache_kb = vec![kib];
            let cache = format!("{kib} KiB, {:.2}", kib as f64 / first);
            self.measure(dir, &options, &cache)?;
        }
        for kind in &options.engines {
            std::fs::remove_dir_all(dir.join(kind.name()))?;
        }
        Ok(())
    }

    /// All workloads with one cache.
    fn measure(&self, dir: &Path, options: &Options, cache: &str) -> Result<()> {
        let mut servers = Vec::new();
        for &kind in &options.engines {
            let mut server = Server::start(kind, dir, options)?;
            if REWRITTEN.contains(&kind) {
                write_tree(&mut server, "meta-rewrite")?;
            }
            servers.push(server);
        }
        if !options.direct {
            for server in &servers {
                read_into_system_cache(&dir.join(server.kind.name()))?;
            }
        }
        let cache_bytes = options.cache_bytes() as u64;
        let usual = (cache_bytes / WARM_UP_BYTES).div_ceil(options.operations).max(1);
        let warm_ups = options.warm_ups.unwrap_or(usual);
        for preference in &self.keys {
            for workload in WORKLOADS.iter().filter(|workload| options.wants(workload)) {
                let step = format!("{PREFIX}{workload}-{}", preference.name());
                let new = |server: &Server| Row { kind: server.kind, us: vec![], reads: vec![] };
                let mut rows: Vec<Row> = servers.iter().map(new).collect();
                for round in 0..warm_ups + options.rounds as u64 {
                    for (server, row) in servers.iter_mut().zip(&mut rows) {
                        let figures = server.ask_all(&step, round + 1)?;
                        if round >= warm_ups {
                            row.us.push(figures[0]);
                            row.reads.push(figures[1]);
                        }
                    }
                }
                print(&rows, &format!("{cache:<16}{workload:<9}{:<9}", preference.name()));
            }
        }
        for mut server in servers {
            let kib = server.ask("meta-usage", 1)? / 1024.0;
            eprintln!("{}: {kib:.0} KiB in the cache of {cache} at the end", server.kind.name());
            server.stop()?;
        }
        Ok(())
    }
}

/// Lets an engine write its tree; returns the bytes of the metadata.
fn write_tree(server: &mut Server, step: &str) -> Result<f64> {
    let bytes = server.ask(step, 1)?;
    eprintln!("{}: {:.0} KiB of filters and indexes", server.kind.name(), bytes / 1024.0);
    Ok(bytes)
}

/// Reads all files of a directory into the system's cache, from front to back, after they have left
/// it. The system keeps a file that was just written in other units than one that it has read
/// ahead, and a read of the one may take a tenth more time than of the other. So without this, the
/// times of the engines would also depend on how each wrote its files.
fn read_into_system_cache(dir: &Path) -> Result<()> {
    read::forget_files(dir)?;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_file() {
            std::io::copy(&mut File::open(path)?, &mut std::io::sink())?;
        }
    }
    Ok(())
}

/// A line for each engine, each with the same beginning.
fn print(rows: &[Row], beginning: &str) {
    // Of RocksDB's settings, the base of the ratios is the one that takes the least time.
    let rocks = rows.iter().filter(|row| row.kind.is_rocksdb());
    let rocks = rocks.min_by(|a, b| median(a.us.clone()).total_cmp(&median(b.us.clone())));
    let without = |row: &Row| {
        let is_whole = matches!(row.kind, Kind::MaypoleWhole | Kind::MaypoleWholeNone);
        let same_form = WITHOUT[usize::from(is_whole)];
        let find = |kind| rows.iter().find(|row| row.kind == kind);
        find(same_form).or_else(|| WITHOUT.into_iter().find_map(find))
    };
    for row in rows {
        let reads = ratio(&row.reads, rocks.map(|row| &row.reads));
        let to_none = match row.kind.is_rocksdb() {
            true => "-".into(),
            false => ratio(&row.us, without(row).map(|row| &row.us)),
        };
        println!(
            "{beginning}{:<19}{:>9.2}{:>11}{:>9.3}{reads:>11}{to_none:>14}",
            row.kind.name(),
            median(row.us.clone()),
            ratio(&row.us, rocks.map(|row| &row.us)),
            median(row.reads.clone()),
        );
    }
}

/// The median of the rounds' ratios, and not the ratio of the medians, because a disturbance slows
/// all engines of the same round alike.
fn ratio(own: &[f64], base: Option<&Vec<f64>>) -> String {
    let Some(base) = base else { return "-".into() };
    let ratios: Vec<f64> = own.iter().zip(base).map(|(own, base)| own / base).collect();
    match median(ratios) {
        ratio if ratio.is_finite() => format!("{ratio:.3}"),
        _ => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Cli, Command};

    fn options(args: &[&str]) -> Options {
        let cli = Cli::parse_from([&["peers", "meta"][..], args].concat());
        let Command::Meta(meta) = cli.command else { panic!("another command") };
        meta.options
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let options = options(&["--cache-kb", "128,256"]);
        assert_eq!((options.entries, options.operations, options.rounds), (1_000_000, 20_000, 3));
        assert_eq!((options.engines.len(), options.cache_bytes()), (5, 128 << 10));
    }

    #[test]
    fn lookups_prefer_what_they_should() {
        let options = options(&["--entries", "10000", "--operations", "10000"]);
        let share = |workload, preference, wanted: &dyn Fn(&(Key, bool)) -> bool| {
            let asked = lookups(workload, preference, 1, &options);
            asked.iter().filter(|lookup| wanted(lookup)).count() as f64 / asked.len() as f64
        };
        let is_low = |(key, _): &(Key, bool)| key[..] < options.keys().of_mixed(TENTH)[..];
        for workload in WORKLOADS {
            assert!((share(workload, Preference::Tenth, &is_low) - 0.9).abs() < 0.02);
            assert!((share(workload, Preference::Uniform, &is_low) - 0.1).abs() < 0.02);
        }
        let present = share("half", Preference::Zipf, &|(_, is_present)| *is_present);
        assert!((present - 0.5).abs() < 0.02, "{present}");
        let first = options.keys().key(0);
        let hottest = share("present", Preference::Zipf, &|(key, _)| key[..] == first[..]);
        assert!(hottest > 0.05, "{hottest}");
    }
}

//! `compare`: what each filter policy saves, and what it costs, on the same keys.
//!
//! ```text
//! keys      which keys are loaded, and which absent ones are looked up
//! tree      loads one database a policy, into the same shape
//! measure   looks the keys up, the policies taking turns
//! report    one row a policy, and a verdict; or JSON
//! ```
//!
//! What makes the rows comparable: every policy gets the same keys in the same order, flushed and
//! compacted at the same points, so the trees differ in their filters alone. The lookups are the
//! same, too, and go in rounds over all policies, so that whatever else the machine does hits all
//! of them alike.

mod keys;
mod measure;
mod report;
mod tree;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::args::{self, Policies};
use crate::failure::Result;
use crate::scratch::Scratch;
use crate::{output, space};
use keys::KeySet;
use measure::Lookups;
use tree::{Plan, Tree};

/// Absent lookups when nothing is said.
const ABSENT: usize = 500_000;
/// The same with `--cold`, where each may wait for a device.
const ABSENT_COLD: usize = 20_000;

/// Measure filter policies on the same keys: memory, accuracy, reads and time saved.
///
/// For each policy a database is made: the keys are loaded, compaction settles, and at least three
/// levels hold data. Then absent keys that lie inside the tables' key ranges are looked up, and as
/// many present ones. One row a policy tells what came of it, and a verdict in words follows.
///
/// Policies: none, bloom(BITS), ribbon(BITS), burr(BITS) with BITS stored bits a key;
/// ribbon_like_bloom(BITS) as RocksDB counts them; fpr(RATE) and fpr(RATE, FAMILY) for a
/// false-positive rate; levels(FILTER, ...) from level 0 down, bottommost_none(FILTER), and
/// budget(64MiB, FAMILY) or budget(BITS/key, FAMILY) for the whole tree. Shells eat parentheses:
/// bloom:10 reads the same as bloom(10).
///
/// All policies get the same keys in the same order and take turns at the same lookups. Every key
/// is looked up once before anything is counted. Blocks are 4096 bytes and not compressed. Times
/// are those of single lookups by one thread; what reading the clock takes is measured and taken
/// off. Pass --seed to draw other keys, --dir to measure another disk.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Compare {
    /// Filter policies, separated by commas
    #[arg(
        long,
        value_name = "LIST",
        value_parser = args::policies,
        default_value = "none,bloom(10),ribbon(7),burr(7)"
    )]
    policies: Policies,
    /// How many keys to generate
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = RangedU64ValueParser::<usize>::new().range(3..=1_000_000_000),
        conflicts_with = "key_file"
    )]
    keys: usize,
    /// Take the keys from this file, one a line. An empty line is the empty key; equal lines
    /// count once. A tenth of the keys is not loaded but looked up as absent
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    key_file: Option<PathBuf>,
    /// Load all of --key-file and look up the keys of this file as absent, but for those that
    /// are present or outside the range of the keys loaded
    #[arg(long, value_name = "FILE", requires = "key_file", verbatim_doc_comment)]
    absent_file: Option<PathBuf>,
    /// Bytes of each value
    #[arg(long, value_name = "B", default_value_t = 100, value_parser = args::value_bytes())]
    value_size: usize,
    /// Look up at most so many absent keys, and at most so many present ones
    /// [default: 500000; with --cold 20000]
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000_000),
        verbatim_doc_comment
    )]
    absent: Option<usize>,
    /// Block cache of each database, such as 64M
    /// [default: more than all data; with --cold a tenth of it]
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = args::byte_count_in(0..=args::MOST_CACHE_BYTES),
        verbatim_doc_comment
    )]
    cache: Option<usize>,
    /// Read from the device: the operating system's cache of the tables is dropped before each
    /// phase and after every 256 lookups (posix_fadvise; without effect on a file system that
    /// lives in memory)
    #[arg(long, verbatim_doc_comment)]
    cold: bool,
    /// Make the databases in a new directory inside this one. It is removed at the end, also after
    /// Ctrl-C, and so are directories that had to be made for it
    /// [default: the system's directory for temporary files]
    #[arg(long, verbatim_doc_comment)]
    dir: Option<PathBuf>,
    /// Draw other keys, and another order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print a JSON array, one object a policy
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let absent = self.absent.unwrap_or(if self.cold { ABSENT_COLD } else { ABSENT });
        let parent = self.dir.unwrap_or_else(std::env::temp_dir);
        let keys = match &self.key_file {
            None => {
                space::check_memory(KeySet::memory(self.keys, absent))?;
                KeySet::generate(self.keys, absent, self.seed)
            }
            Some(file) => KeySet::read(file, self.absent_file.as_deref(), absent, self.seed)?,
        };
        let plan = Plan::new(&keys.present, self.value_size, self.seed);
        let cache_bytes = self.cache.unwrap_or(if self.cold {
            plan.data_bytes / 10 + (8 << 20)
        } else {
            // Blocks in the cache carry search structures.
            plan.data_bytes.saturating_mul(2) + (64 << 20)
        });

        space::announce(&parent, plan.disk_bytes(self.policies.0.len()), "and removed at the end")?;
        let scratch = Scratch::new(&parent, "maypole-compare-")?;
        let policies = &self.policies.0;
        let trees: Vec<Tree> = policies
            .iter()
            .enumerate()
            .map(|(i, policy)| {
                let dir = scratch.path().join(format!("{i}"));
                Tree::build(policy, dir, &keys.present, &plan, cache_bytes)
            })
            .collect::<Result<_>>()?;

        let lookups = Lookups::new(&keys, &plan, self.cold)?;
        let rows = report::rows(&trees, &lookups.run(&trees)?, keys.present.len());
        let mut notes = keys.notes.clone();
        if rows.iter().any(|row| row.levels < 3) {
            notes.push("too little data for three levels: fewer filters are asked a lookup".into());
        }
        for tree in trees {
            tree.db.close()?;
        }
        scratch.close()?;

        if self.json {
            notes.iter().for_each(|note| output::tell(format_args!("note: {note}")));
            return report::json(&rows, out);
        }
        report::tables(&rows, out)?;
        report::verdict(&rows, plan.data_bytes, out)?;
        notes.push(format!(
            "reading the clock took {} ns, taken off every lookup; {}, one thread",
            lookups.clock_ns,
            output::machine()
        ));
        writeln!(out)?;
        for note in notes {
            writeln!(out, "Note: {note}.")?;
        }
        Ok(())
    }
}

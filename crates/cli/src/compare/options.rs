//! The options of `compare`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use maypole::filter::Family;
use maypole::{Compression, FilterPolicy};

use super::keys::{Request, Source};
use super::policies;
use crate::args;
use crate::failure::Failure;

/// The default number of absent lookups.
const ABSENT: usize = 500_000;
/// The default number of absent lookups with `--cold`, where each lookup may wait for a device.
const ABSENT_COLD: usize = 20_000;
/// The default number of absent lookups with `--sweep`, which measures many databases.
const ABSENT_SWEEP: usize = 200_000;

/// The default list of policies: no filter, and each family with its usual number of bits.
fn policies_of_families() -> String {
    let spec = |family: Family| Some(format!(",{family}({})", family.default_bits_per_key()?));
    format!("none{}", Family::written().filter_map(spec).collect::<String>())
}

/// The default list of policies with `--sweep`: no filter, each family with each of `--bits`, and
/// [`OTHERS_OF_SWEEP`].
fn policies_of_sweep() -> String {
    let families: String = Family::written().map(|family| format!(",{family}(BITS)")).collect();
    format!("none{families},{OTHERS_OF_SWEEP}")
}

const OTHERS_OF_SWEEP: &str = "levels(bloom(BITS+6), bloom(BITS+3), bloom(BITS)),budget(BITS/key, bloom),budget(BITS/key, burr)";

/// Measure filter policies on the same keys: memory, accuracy, reads and time saved.
///
///     maypole compare --key-file keys.txt --out report
///     maypole compare --keys 100k --policies 'none,bloom(10),budget(7/key, burr)'
///
/// The keys are loaded once and compaction settles, so that data is in at least three levels, if
/// there is enough of it. For each policy the database is copied and the filters of its tables are
/// rebuilt. Then absent keys inside the tables' key ranges are looked up, and as many present ones.
/// Each policy gets one row of results. A verdict in words follows: which policy to take, and in
/// which cases to take another. --out writes all of it as a page with plots.
///
/// Policies: none; bloom(BITS), ribbon(BITS), burr(BITS) and fuse(BITS), which store at most BITS
/// bits a key (fuse has sizes in steps of about 1.06 bits: fuse(9) stores 8.5);
/// ribbon_like_bloom(BITS), a Ribbon with the false-positive rate of bloom(BITS); fpr(RATE)
/// and fpr(RATE, FAMILY), a false-positive rate; capped(FILTER, 1MiB), at most 1 MiB for each
/// table, so that many keys get fewer bits; levels(FILTER, ...), one filter for each level that
/// holds data, from level 0 down; bottommost_none(FILTER), which leaves the lowest level without
/// filters; budget(64MiB, FAMILY) and budget(BITS/key, FAMILY), a limit for all filters together;
/// learned(64MiB, FAMILY) and learned(BITS/key, FAMILY), which a database in use divides by what is
/// asked, and which is a budget here. FAMILY is bloom, ribbon, burr or fuse. A policy with the word
/// BITS in place of a number is measured with each number of --bits. Shells interpret parentheses:
/// quote the list, or write bloom:10 for bloom(10).
///
/// All policies get the same keys in the same order and take turns at the same lookups. Every key
/// is looked up once before anything is counted. Blocks are 4096 bytes. Times are those of single
/// lookups by one thread, less the time that reading the clock takes. Metadata is the memory of
/// filters and indexes: what all of them need, and what of it is resident after the last lookup.
/// Pass --seed to draw other keys, or --dir to measure another disk.
#[derive(Args)]
#[command(verbatim_doc_comment, group(ArgGroup::new("given").args(["key_file", "from_tables"])))]
pub struct Compare {
    /// Filter policies, separated by commas
    /// [default: none,bloom(10),ribbon(7),burr(7),fuse(9)]
    #[arg(long, value_name = "LIST", value_parser = policies::valid, verbatim_doc_comment)]
    policies: Option<String>,
    /// Bits a key, separated by commas. Each in turn replaces BITS in the policies; BITS+2 is two
    /// more
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4,7,10,13,16",
        value_parser = args::number_in(
            policies::LEAST_BITS..=28.0,
            "bits a key between 1 and 28, such as 10"
        )
    )]
    bits: Vec<f64>,
    /// How many keys to generate, such as 10k or 100M
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = args::count_in::<usize>(3..=1_000_000_000),
        conflicts_with = "given"
    )]
    keys: usize,
    /// Take the keys from this file, one a line; - is standard input. An empty line is the empty
    /// key; equal lines count once; lines may end in CR LF if all do. A tenth of the keys is not
    /// loaded but looked up as absent. The file may take half of the available memory. A byte order
    /// mark of UTF-8 is skipped; UTF-16 and compressed files are rejected
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    key_file: Option<PathBuf>,
    /// Each line of --key-file is a key, a tab and a value
    #[arg(long, requires = "key_file")]
    tsv: bool,
    /// Take the keys of these table files, which RocksDB or Maypole wrote. A tenth of the keys is
    /// not loaded but looked up as absent
    #[arg(long, value_name = "FILE", num_args = 1.., verbatim_doc_comment)]
    from_tables: Vec<PathBuf>,
    /// Load all given keys and look up the keys of this file as absent, except keys that are
    /// present or outside the range of the loaded keys
    #[arg(long, value_name = "FILE", requires = "given", verbatim_doc_comment)]
    absent_file: Option<PathBuf>,
    /// Load all given keys and look up the keys of this file, present or absent, one a line, in the
    /// order of the file. \xNN stands for a byte. What follows a tab is what came of the
    /// query: those that a memtable answered are left out. The same file suits advise
    #[arg(
        long,
        value_name = "FILE",
        requires = "given",
        conflicts_with_all = ["absent_file", "zipf"],
        verbatim_doc_comment
    )]
    query_file: Option<PathBuf>,
    /// Look up some keys more often than others: by Zipf's law with this exponent, such as 0.99.
    /// Hot keys are scattered over the key range
    #[arg(long, value_name = "S", value_parser = args::number_in(0.01..=10.0, "a number between 0.01 and 10, such as 0.99"), verbatim_doc_comment)]
    pub zipf: Option<f64>,
    /// Bytes of each generated value
    #[arg(
        long,
        alias = "value-size",
        value_name = "BYTES",
        default_value_t = 100,
        value_parser = args::value_bytes(),
        conflicts_with = "tsv"
    )]
    pub value_bytes: usize,
    /// Compress blocks: none, snappy, lz4 or zstd. Generated values hardly shrink
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = args::compression)]
    pub compression: Compression,
    /// Look up at most N absent keys and at most N present ones
    /// [default: 500000; with --sweep 200000; with --cold 20000]
    #[arg(
        long,
        value_name = "N",
        value_parser = args::count_in::<usize>(1..=1_000_000_000),
        verbatim_doc_comment
    )]
    absent: Option<usize>,
    /// Block cache of each database, such as 64M
    /// [default: more than all data; with --cold a tenth of the data and 8 MiB]
    #[arg(long, value_name = "BYTES", value_parser = args::cache_bytes(), verbatim_doc_comment)]
    pub cache: Option<usize>,
    /// Read from the device: drop the operating system's cache of the tables before each round and
    /// after every 256 lookups (posix_fadvise). A row says "not cold" if less than nine tenths of
    /// the bytes read came from the device, as on a file system in memory
    #[arg(long, verbatim_doc_comment)]
    pub cold: bool,
    /// What a read of a data block costs, in microseconds, for the verdict
    /// [default: what --cold measures; else 80, usual for flash]
    #[arg(long, value_name = "MICROS", value_parser = args::micros(), verbatim_doc_comment)]
    pub read_cost: Option<f64>,
    /// Write index.html, a page with plots, into this directory, and its figures as JSON and CSV.
    /// For the plots, filters are also measured without a database. Unless --cold is given, lookups
    /// are also measured with other caches and other shares of absent keys. Without --cold and
    /// --sweep, they are also measured with filters larger than the cache, in three forms: whole;
    /// in parts, where a lookup may skip a part that is not in memory; and in parts, where each
    /// lookup reads the part that it needs. An existing page is replaced only if compare made it
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub out: Option<PathBuf>,
    /// Measure many policies, each with several caches and shares of absent keys, one database
    /// after the other. The command first says how long this will take. Started again with the
    /// same arguments, it continues an interrupted run. The default for --policies is then:
    ///   none,bloom(BITS),ribbon(BITS),burr(BITS),fuse(BITS),
    ///   levels(bloom(BITS+6), bloom(BITS+3), bloom(BITS)),
    ///   budget(BITS/key, bloom),budget(BITS/key, burr)
    #[arg(long, requires = "out", verbatim_doc_comment)]
    pub sweep: bool,
    /// Make the databases in a new directory inside DIR. The new directory is removed at the end,
    /// also after Ctrl-C. DIR and its parents are removed, too, if this command created them
    /// and they are empty by then
    /// [default: the system's directory for temporary files]
    #[arg(long, verbatim_doc_comment)]
    pub dir: Option<PathBuf>,
    /// Draw other keys, and another order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print a JSON object: schema, policies, verdict
    #[arg(long)]
    pub json: bool,
}

impl Compare {
    pub fn policies(&self) -> Result<Vec<FilterPolicy>, Failure> {
        let default = if self.sweep { policies_of_sweep } else { policies_of_families };
        let list = self.policies.clone().unwrap_or_else(default);
        policies::of(&list, &self.bits).map_err(Failure::Call)
    }

    /// Only one option may name standard input, because its first reader reads it to the end.
    pub fn check_streams(&self) -> Result<(), Failure> {
        let files = [&self.key_file, &self.absent_file, &self.query_file];
        let is_stream = |file: &&Option<PathBuf>| file.as_deref() == Some(Path::new("-"));
        match files.into_iter().filter(is_stream).count() {
            0 | 1 => Ok(()),
            _ => Err(Failure::Call(
                "- stands for standard input, which only one option can read".into(),
            )),
        }
    }

    /// Which keys to load and to look up.
    pub fn request(&self) -> Request {
        let usual = match (self.cold, self.sweep) {
            (true, _) => ABSENT_COLD,
            (_, true) => ABSENT_SWEEP,
            _ => ABSENT,
        };
        let source = match &self.key_file {
            Some(path) => Source::File { path: path.clone(), tsv: self.tsv },
            None if self.from_tables.is_empty() => Source::Generated(self.keys),
            None => Source::Tables(self.from_tables.clone()),
        };
        Request {
            source,
            absent_file: self.absent_file.clone(),
            query_file: self.query_file.clone(),
            zipf: self.zipf,
            most: self.absent.unwrap_or(usual),
            seed: self.seed,
        }
    }
}

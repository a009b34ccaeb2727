//! `advise`: measures the filters of a database, and other filters built from its keys.
//!
//! ```text
//! source     the directory: RocksDB's or Maypole's, opened read-only
//! wanted     what OPTIONS asks for        log_file   what RocksDB's LOG says
//! tables     what each table says of its filter, and how that differs from OPTIONS
//! sample     which tables are read        queries    keys to query filters with
//! scan       reads tables: measures rates, builds other filters of the same keys
//! lookups    lookups on the tree          policies   other policies, computed
//! findings   every figure                 rules      what to do
//! report     the terminal, JSON          page       the page of --out
//! ```
//!
//! OPTIONS and LOG are files of a RocksDB database: its options, and a log of its messages.
//!
//! Nothing is written to the database and no lock is taken, so that a live writer is not disturbed.
//! Tables are read through the files that were opened with the database, because the writer may
//! delete a table meanwhile.

mod findings;
mod log_file;
mod lookups;
mod page;
mod policies;
mod queries;
mod report;
mod rules;
mod sample;
mod scan;
mod source;
mod tables;
mod wanted;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use maypole::FilterCounts;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::args;
use crate::compare::file;
use crate::failure::{Failure, Result};
use crate::output::{printable, tell};
use crate::show::files::PAGE;
use crate::show::sheet::Screen;
use crate::show::text::{counted, size, unescape};
use findings::{Findings, Seen};
use policies::Kind;
use queries::Anchors;
use source::{Engine, Family};
use tables::Table;

/// Say what the filters of a database do and what other filters would do on its keys.
///
///     maypole advise /var/lib/app/rocksdb
///     maypole advise /var/lib/app/rocksdb --sample 1% --files
///
/// DIR is a database of RocksDB or of Maypole. It may be in use: nothing is written to it and no
/// lock is taken. For each column family the command prints
///
/// - the filters that are stored, by level: kind, bits a key, memory, and the tables whose filter
///   is not what OPTIONS asks for;
/// - their measured false-positive rate: each filter is queried with keys of other tables and with
///   made-up keys within the range of its table;
/// - the data blocks that lookups of absent and present keys read;
/// - memory, build time and data blocks read with other policies, from filters that the command
///   builds of the tables' keys;
/// - advice: what to do, when not to do it, and the options to set.
///
/// All tables are read, unless --sample is given. Then only some tables are read, at least one a
/// level, and of tables above 72 MiB only some blocks. Build times are those of one thread on this
/// machine. An entry that only RocksDB reads, such as a merge operand, counts as a key, but a
/// lookup that meets one does not count.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Advise {
    /// Directory of the database
    dir: PathBuf,
    /// Only this column family [default: all]
    #[arg(long, value_name = "NAME")]
    column_family: Option<String>,
    /// Read this share of each level, such as 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = sample::share)]
    sample: f64,
    /// Print a row for each table too
    #[arg(long)]
    files: bool,
    /// Capacity of RocksDB's block cache, such as 512M [default: what LOG says]
    #[arg(long, value_name = "BYTES", value_parser = args::cache_bytes())]
    cache: Option<usize>,
    /// What a read of a data block costs, in microseconds: 80 on flash, 2 from the cache of the
    /// operating system
    #[arg(long, value_name = "MICROS", default_value_t = args::USUAL_READ_MICROS, value_parser = args::number_in(0.0..=1e9, "microseconds such as 80 or 2.5"), verbatim_doc_comment)]
    read_cost: f64,
    /// Look up the keys of this file, one a line, in place of keys drawn from the tables, so that
    /// the figures are means over the lookups of a real program. \xNN stands for a byte. Of more
    /// than 100,000 keys, only every n-th is looked up
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    query_file: Option<PathBuf>,
    /// Draw another sample and other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the same figures into this directory, as an HTML page and as JSON
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print a JSON object: engine, read_cost_micros, families, refused
    #[arg(long)]
    json: bool,
}

/// The size of the trial that estimates how long the command will take: the trial reads this many
/// entries of one table, and builds a filter of each kind from this many keys.
const TRIAL_ENTRIES: u64 = 20_000;

impl Advise {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let source = source::open(&self.dir, self.column_family.as_deref())?;
        for (name, why) in &source.refused {
            tell(format_args!("note: {}: not read: {}", printable(name), printable(why)));
        }
        if self.query_file.is_some() && source.families.len() > 1 {
            return Err(Failure::Call(
                "--query-file is of one column family: name it with --column-family".into(),
            ));
        }
        let recorded = self.query_file.as_deref().map(recorded).transpose()?;
        if let Some(out) = &self.out {
            page::prepare(out, &self.dir)?;
        }
        let mut found = Vec::new();
        for family in &source.families {
            let findings =
                self.family(source.engine, family, source.log.counters, recorded.as_deref())?;
            if !self.json {
                report::text(&findings, source.engine, &self, &Screen::stdout(), out)?;
                out.flush()?;
            }
            found.push(findings);
        }
        if self.json {
            report::json(&found, &source, &self, out)?;
        }
        if let Some(dir) = &self.out {
            page::write(&found, &source, &self, dir)?;
            tell(format_args!("note: page: {}", dir.join(PAGE).display()));
        }
        Ok(())
    }

    fn family(
        &self,
        engine: Engine,
        family: &Family,
        counters: Option<FilterCounts>,
        recorded: Option<&[Vec<u8>]>,
    ) -> Result<Findings> {
        let random = &mut SmallRng::seed_from_u64(self.seed);
        let mut tables = tables::all(&family.db);
        let drawn = sample::draw(&tables, self.sample, random);
        let kinds = policies::kinds();
        announce(&tables, &drawn, &kinds);
        let anchors = Anchors::draw(&tables, &drawn, random);
        let mut of_level: BTreeMap<usize, usize> = BTreeMap::new();
        drawn.iter().for_each(|(i, _)| *of_level.entry(tables[*i].level).or_default() += 1);
        let queries_of = |i: usize, part: f64| {
            let count = of_level.get(&tables[i].level).copied().unwrap_or(1);
            let random = &mut SmallRng::seed_from_u64(self.seed ^ tables[i].number);
            queries::of_table(&tables, &anchors, (i, part), count, random)
        };
        for (i, scanned) in scan::run(&tables, &drawn, &kinds, &queries_of)? {
            tables[i].scanned = Some(scanned);
        }
        let levels = policies::levels(&tables, kinds.len());
        let measured = match recorded {
            Some(keys) => lookups::replay(&family.db, &tables, keys),
            None => lookups::run(&family.db, &tables, &anchors, self.sample < 1.0, random),
        };
        let rows = match measured.absent.count {
            0 => Vec::new(),
            _ => {
                let stored = tables.iter().map(|table| table.filter_bytes).sum();
                policies::rows(&levels, &kinds, &measured, stored)
            }
        };
        Ok(Findings::of(Seen {
            engine,
            family,
            tables: &tables,
            levels: &levels,
            rows,
            measured,
            is_recorded: recorded.is_some(),
            cache_bytes: self.cache.map(|bytes| bytes as u64).or(family.cache_bytes),
            counters,
            read_cost: self.read_cost,
        }))
    }
}

/// Reads the keys of `--query-file`.
fn recorded(path: &Path) -> Result<Vec<Vec<u8>>> {
    let text = file::read(path)?;
    Ok(file::lines(&text).map(unescape).collect())
}

/// Prints how much will be read, and how long that will take, estimated by a trial.
fn announce(tables: &[Table], drawn: &[(usize, f64)], kinds: &[Kind]) {
    let bytes = |&(i, part): &(usize, f64)| tables[i].file_bytes as f64 * part;
    let all: f64 = drawn.iter().map(bytes).sum();
    let Some(&(first, _)) = drawn.first() else { return };
    let first = &tables[first];
    let (mut entries, start) = (0, Instant::now());
    let mut reading = first.reader.entries();
    // Damage ends the trial; the scan of the table reports it.
    while entries < TRIAL_ENTRIES
        && let Ok(Some(_)) = reading.next_entry()
    {
        entries += 1;
    }
    let read = first.file_bytes as f64 * entries.max(1) as f64 / first.entries.max(1) as f64;
    let reading = all / read * start.elapsed().as_secs_f64();
    let building = scan::build_seconds(tables, drawn, kinds, TRIAL_ENTRIES);
    tell(format_args!(
        "note: reads {} of {}, about {:.0} s",
        size(all as u64),
        counted(drawn.len() as u64, "table"),
        (reading + building).ceil()
    ));
}

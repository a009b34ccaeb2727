//! `advise`: measures the filters of a database, and other filters built from its keys.
//!
//! ```text
//! source     the directory: RocksDB's or Maypole's, opened read-only
//! wanted     what OPTIONS asks for        log_file   what RocksDB's LOG says
//! tables     what each table says of its filter, and how that differs from OPTIONS
//! sample     which tables are read        queries    keys to query filters with
//! scan       reads tables: measures rates, builds other filters of the same keys
//! lookups    lookups on the tree          policies   other policies, computed
//! searches   what recorded lookups search in vain
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
mod options;
mod page;
mod policies;
mod queries;
mod report;
mod rules;
mod sample;
mod scan;
mod scanned;
mod searches;
mod source;
mod tables;
mod wanted;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use maypole::FilterCounts;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::compare::file::{self, Recorded};
use crate::failure::{Failure, Result};
use crate::output::{printable, tell};
use crate::show::files::PAGE;
use crate::show::sheet::Screen;
use crate::show::text::{counted, size};
use findings::{Findings, Seen};
pub use options::Advise;
use policies::{Kind, Load};
use queries::Anchors;
use source::{Engine, Family};
use tables::Table;

/// The size of the trial that estimates how long the command will take: the trial reads this many
/// entries of one table, and builds a filter of each kind from this many keys.
const TRIAL_ENTRIES: u64 = 20_000;

impl Advise {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let source = source::open(&self.dir, self.keyspace.as_ref())?;
        for (name, why) in &source.refused {
            tell(format_args!("note: {name}: not read: {}", printable(why)));
        }
        if self.query_file.is_some() && source.families.len() > 1 {
            return Err(Failure::Call(
                "--query-file is of one keyspace or column family: name it with --keyspace or \
                 --column-family"
                    .into(),
            ));
        }
        let recorded = self.query_file.as_deref().map(file::queries).transpose()?;
        if let Some(out) = &self.out {
            page::prepare(out, &self.dir)?;
        }
        let mut found = Vec::new();
        for family in &source.families {
            let findings =
                self.family(source.engine, family, source.log.counters, recorded.as_ref())?;
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
        recorded: Option<&Recorded>,
    ) -> Result<Findings> {
        let random = &mut SmallRng::seed_from_u64(self.seed);
        let mut tables = tables::all(&family.db);
        let drawn = sample::draw(&tables, self.sample, random);
        let kinds = policies::kinds(&tables);
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
        let (measured, searches) = match recorded.map(|of| lookups::replay(&family.db, &tables, of))
        {
            Some((measured, searches)) => (measured, Some(searches)),
            None => {
                let is_sample = self.sample < 1.0;
                (lookups::run(&family.db, &tables, &anchors, is_sample, random), None)
            }
        };
        let rows = match measured.absent.count + measured.present.count {
            0 => Vec::new(),
            _ => {
                let stored = tables.iter().map(|table| table.filter_bytes).sum();
                let recorded = searches.as_ref().map(|searches| (searches, &tables[..]));
                policies::rows(&levels, &kinds, Load { measured: &measured, recorded }, stored)
            }
        };
        Findings::of(Seen {
            engine,
            family,
            tables: &tables,
            levels: &levels,
            rows,
            measured,
            kinds: &kinds,
            recorded: searches,
            cache_bytes: self.cache.map(|bytes| bytes as u64).or(family.cache_bytes),
            counters,
            read_cost: self.read_cost,
        })
    }
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

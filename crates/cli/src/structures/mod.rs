//! `structures`: compares the filters of textbooks with those of the database, and tests common
//! claims about filters.
//!
//! ```text
//! subjects   every structure under one interface
//! measure    one row a structure: memory, times, rates, also with more keys than planned
//! report     the rows as a table, and notes on them
//! claims/    what tutorials say of filters, each compared with a measurement
//! save       rows and claims in a directory: the page, JSON and CSV
//! page/      the page
//! ```
//!
//! The keys are random hashes, because hashing costs the same with every structure; `compare`
//! measures whole lookups. Only one filter is queried at a time, so the processor's caches hold as
//! much of it as fits.

mod claims;
mod measure;
mod page;
mod report;
mod results;
mod save;
mod subjects;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::failure::Result;
use crate::monitor::span;
use crate::show::about::Origin;
use crate::show::files;
use crate::show::record;
use crate::show::sheet::Screen;
use crate::{args, output, space};
use claims::Claim;
use measure::Row;
use results::Results;

/// Measure textbook filters and the database's own, or test what is said of filters.
///
/// Standard, split, counting and scalable Bloom filters, cuckoo and quotient filters and a filter
/// cascade are compared with bloom, ribbon, burr and fuse. Each is built for the same number of
/// keys and the same false-positive rate, except that the cascade is never wrong for the queried
/// keys. If a structure's rate can change in steps only (cuckoo, quotient, fuse), the next lower
/// rate is taken. So compare the column "bound", bits a key divided by log2(1/rate), which takes
/// this into account.
///
/// Then keys are added until there are twice and five times as many as planned. "full at N" means
/// that a structure could hold only N times the planned keys, "static" that it is built from all
/// its keys at once.
///
/// Times are for one thread, in nanoseconds a key: the best of several rounds, in each of which all
/// structures are measured. A build starts from hashes. Each query waits for the answer of the one
/// before.
///
/// With --claims, the command instead tests statements that are often made about filters. Each gets
/// a verdict (true, half true, false) by the rule printed with it, and a sentence that explains the
/// figures. If times decide and the machine is too busy to measure them, it is "not settled".
///
/// With --out, structures and claims become one page with plots. The command first says how long
/// that will take.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Structures {
    /// How many keys each structure is planned for, such as 10k or 10M
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = args::count_in::<usize>(1_000..=100_000_000)
    )]
    keys: usize,
    /// The false-positive rate that each structure is made for, 0.00001 to 0.3
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = args::number_in(0.00001..=0.3, "a rate from 0.00001 to 0.3"))]
    rate: f64,
    /// Draw other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compare what is often said of filters with measurements, at the rates that are claimed
    #[arg(long, conflicts_with = "rate")]
    claims: bool,
    /// Measure structures and claims, and write both into this directory, which is created if it is
    /// missing: index.html (a page that needs no network), structures.json and structures.csv. The
    /// output then ends with the path of the page, unless it is JSON or CSV. Files of another
    /// command are not replaced
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    out: Option<PathBuf>,
    /// Print a JSON array, one object a structure or claim
    #[arg(long)]
    json: bool,
    /// Print CSV, one line a structure
    #[arg(long, conflicts_with_all = ["json", "claims"])]
    csv: bool,
}

impl Structures {
    pub fn run(self, out: &mut dyn Write) -> Result {
        space::check_memory(measure::memory_bytes(self.keys))?;
        match &self.out {
            None if self.claims => self.print_claims(&self.claims()?, out),
            None => self.print_rows(&self.rows()?, out),
            Some(dir) => {
                files::prepare(dir, results::MAKER, &save::NAMES)?;
                let expected = measure::expected_time(self.keys, self.rate);
                output::tell(format_args!("note: this takes about {}", span(expected)));
                let results = Results {
                    origin: Origin::now(self.seed),
                    keys: self.keys,
                    rate: self.rate,
                    rows: self.rows()?,
                    claims: self.claims()?,
                };
                save::all(&results, dir)?;
                match self.claims {
                    true => self.print_claims(&results.claims, out)?,
                    false => self.print_rows(&results.rows, out)?,
                }
                if !self.json && !self.csv {
                    let page = format!("Page: {}.", dir.join("index.html").display());
                    writeln!(out, "{}", Screen::stdout().wrap(&page))?;
                }
                Ok(())
            }
        }
    }

    fn rows(&self) -> Result<Vec<Row>> {
        measure::rows(&subjects::all(), self.keys, self.rate, self.seed)
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        claims::measure(self.keys, self.seed)
    }

    fn print_claims(&self, claims: &[Claim], out: &mut dyn Write) -> Result {
        match self.json {
            true => output::json_array(claims.iter().map(claims::to_json), out),
            false => claims::print(claims, self.keys, self.seed, out),
        }
    }

    fn print_rows(&self, rows: &[Row], out: &mut dyn Write) -> Result {
        if self.json {
            return output::json_array(rows.iter().map(record::to_json), out);
        }
        if self.csv {
            write!(out, "{}", record::to_csv(rows))?;
            return Ok(());
        }
        report::table(rows, self.keys, self.rate, out)?;
        let note = format!("Note: {}, one thread.", output::machine());
        Screen::stdout().say([note], out)
    }
}

//! `structures`: the filters of the textbooks beside those of the database, and what is said of
//! them.
//!
//! ```text
//! subjects   every structure under one interface
//! measure    one row a structure: memory, times, rates, also with more keys than planned
//! report     the rows as a table, JSON or CSV
//! claims/    what tutorials say of filters, each held against a measurement
//! ```
//!
//! Keys are random hashes here: hashing costs every structure the same, and `compare` measures
//! whole lookups. One filter is asked at a time, and it is warm.

mod claims;
mod measure;
mod report;
mod subjects;

use std::io::Write;

use clap::Args;

use crate::failure::Result;
use crate::{args, output, space};
use measure::Hashes;

/// Measure textbook filters beside those of the database, or judge what is said of filters.
///
/// Standard, split, counting and scalable Bloom filters, cuckoo and quotient filters, a filter
/// cascade and a binary fuse filter stand beside bloom, ribbon and burr. Each is made for the same
/// number of keys and the same false-positive rate. Where a rate comes in steps (cuckoo, quotient,
/// fuse), the next better one is taken: compare the column "bound", bits a key over log2(1/rate),
/// which counts that in.
///
/// Then keys are added until there are twice and five times as many as planned. "full at N" says
/// how many a structure took, "static" that it is built from all its keys at once.
///
/// Times are nanoseconds a key by one thread, the best of three rounds in which the structures take
/// turns. A build starts from hashes. A query waits for the answer of the one before.
///
/// With --claims, statements about filters that are often repeated are measured instead. Each gets
/// a verdict (true, half true, false) by the threshold printed with it, and one sentence.
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
    /// The false-positive rate each is made for, 0.00001 to 0.3
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = rate)]
    rate: f64,
    /// Draw other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Hold what is often said of filters against measurements, at the rates it is said of
    #[arg(long, conflicts_with = "rate")]
    claims: bool,
    /// Print a JSON array, one object a structure or claim
    #[arg(long)]
    json: bool,
    /// Print a table with commas, one line a structure
    #[arg(long, conflicts_with_all = ["json", "claims"])]
    csv: bool,
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.00001..=0.3).contains(&rate) => Ok(rate),
        _ => Err("expected a rate from 0.00001 to 0.3".into()),
    }
}

impl Structures {
    pub fn run(self, out: &mut dyn Write) -> Result {
        space::check_memory(Hashes::memory(self.keys))?;
        if self.claims {
            return claims::run(self.keys, self.seed, self.json, out);
        }
        let rows = measure::rows(&subjects::all(), self.keys, self.rate, self.seed)?;
        if self.json {
            return report::json(&rows, out);
        }
        if self.csv {
            return report::csv(&rows, out);
        }
        report::table(&rows, self.keys, self.rate, out)?;
        writeln!(out, "Note: {}, one thread.", output::machine())?;
        Ok(())
    }
}

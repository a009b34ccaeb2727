//! `explain`: the way of one lookup, through a database or through one table.
//!
//! ```text
//! Db::explain, SstReader::explain  ─►  trace  ─┬─ text   for people, in colour on a terminal
//!                                              └─ json   for programs
//! ```

mod json;
mod text;

use std::io::Write;

use clap::Args;
use maypole::table::SstReader;

use crate::args::{self, Bytes, ReadDb};
use crate::failure::Result;
use crate::show::sheet::Screen;

/// Show the way of one lookup: what each memtable, range of keys, filter, index and block said,
/// and what it took.
///
/// Of a filter every bit that was compared is shown, and whether its answer was true: a "maybe" for
/// a key that is not there is a false positive. At the end stands what the lookup would have taken
/// without filters. It is the lookup of `get`, told while it happens; a key that is not there is no
/// failure. A table file in place of the database shows the lookup in that one table, also of
/// RocksDB's tables.
///
/// A database that was just opened has nothing in memory, so everything is read; see --warm. Times
/// are those of one lookup; each step includes a look at the clock, tens of nanoseconds.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Explain {
    #[command(flatten)]
    db: ReadDb,
    /// The key; \xNN stands for a byte
    #[arg(value_parser = args::bytes(), allow_negative_numbers = true)]
    key: Bytes,
    /// Look the key up once before, so that what the lookup needs is in memory
    #[arg(long)]
    warm: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let key = &self.key.0;
        let times = if self.warm { 2 } else { 1 };
        let screen = Screen::stdout();
        if self.db.path().is_file() {
            let table = SstReader::open(self.db.path())?;
            let mut trace = table.explain(key)?;
            for _ in 1..times {
                trace = table.explain(key)?;
            }
            match self.json {
                true => writeln!(out, "{}", json::table_lookup(key, &trace))?,
                false => text::table_lookup(key, &trace, &screen, out)?,
            }
            return Ok(());
        }
        let db = self.db.open()?;
        let mut trace = db.explain(key)?;
        for _ in 1..times {
            trace = db.explain(key)?;
        }
        match self.json {
            true => writeln!(out, "{}", json::lookup(&trace))?,
            false => text::lookup(&trace, &screen, out)?,
        }
        Ok(db.close()?)
    }
}

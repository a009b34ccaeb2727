//! `scan`: entries in the order of their keys.

use std::io::Write;

use clap::Args;

use crate::args::{self, KeyRange, ReadDb};
use crate::failure::Result;
use crate::show::text::escape;

/// Print entries in the order of their keys, one a line: key, tab, value.
///
/// `maypole load --format escaped` reads such lines.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Scan {
    #[command(flatten)]
    db: ReadDb,
    #[command(flatten)]
    range: KeyRange,
    /// Print at most this number of entries, such as 10 or 1k
    #[arg(
        long,
        value_name = "N",
        default_value_t = u64::MAX,
        hide_default_value = true,
        value_parser = args::count_in::<u64>(0..=u64::MAX)
    )]
    limit: u64,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
}

impl Scan {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        let mut entries = self.range.entries(&db);
        for _ in 0..self.limit {
            let entry = if self.reverse { entries.next_back() } else { entries.next() };
            let Some(entry) = entry else { break };
            let (key, value) = entry?;
            writeln!(out, "{}\t{}", escape(&key), escape(&value))?;
        }
        drop(entries);
        Ok(db.close()?)
    }
}

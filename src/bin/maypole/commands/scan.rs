//! `scan`: entries in the order of their keys.

use std::io::Write;
use std::ops::Bound;

use clap::Args;

use crate::args::{self, Bytes, ReadDb};
use crate::failure::Result;
use crate::show::text::escape;

/// Print entries in the order of their keys, one a line: key, tab, value.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Scan {
    #[command(flatten)]
    db: ReadDb,
    /// Only keys that start with this; \xNN stands for a byte
    #[arg(long, value_name = "P", value_parser = args::bytes(), conflicts_with_all = ["from", "to"])]
    prefix: Option<Bytes>,
    /// Only keys at or after this one
    #[arg(long, value_name = "A", value_parser = args::bytes())]
    from: Option<Bytes>,
    /// Only keys before this one
    #[arg(long, value_name = "B", value_parser = args::bytes())]
    to: Option<Bytes>,
    /// At most so many entries
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
}

impl Scan {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        let mut entries = match self.prefix {
            Some(prefix) => db.prefix(prefix.0),
            None => db.range((
                self.from.map_or(Bound::Unbounded, |key| Bound::Included(key.0)),
                self.to.map_or(Bound::Unbounded, |key| Bound::Excluded(key.0)),
            )),
        };
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

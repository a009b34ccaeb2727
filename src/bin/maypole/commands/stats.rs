//! `stats`: what a database holds.

use std::io::Write;

use clap::Args;

use crate::args::ReadDb;
use crate::failure::Result;

/// Print what a database holds: levels, tables, filters, memory.
///
/// Counters count from the opening of a database, so here they stand near zero; a program that
/// keeps it open sees its own in `Db::stats()`.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Stats {
    #[command(flatten)]
    db: ReadDb,
}

impl Stats {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        write!(out, "{}", db.stats())?;
        Ok(db.close()?)
    }
}

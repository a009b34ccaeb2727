//! `verify`: reads a whole database.

use std::io::Write;

use clap::Args;

use crate::args::ReadDb;
use crate::failure::{Failure, Result};
use crate::progress;
use crate::show::text::size;

/// Read every table of a database whole: checksums, key order, and every key asked of its filter.
///
/// The first damage found is a failure that names file and offset: exit code 1.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Verify {
    #[command(flatten)]
    db: ReadDb,
}

impl Verify {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        let spinner = progress::spinner("reading every table");
        let report = db.verify();
        spinner.finish_and_clear();
        let report = report?;
        writeln!(out, "checksums and key order are right")?;
        writeln!(out, "tables: {}", report.tables)?;
        writeln!(out, "entries: {}", report.entries)?;
        writeln!(out, "range deletions: {}", report.range_deletions)?;
        writeln!(out, "entries in logs: {}", report.log_entries)?;
        writeln!(out, "bytes: {} ({})", report.file_bytes, size(report.file_bytes))?;
        writeln!(out, "filter misses: {}", report.filter_misses)?;
        for stray in &report.strays {
            writeln!(out, "left alone, as it is no file of this database: {stray}")?;
        }
        if report.filter_misses > 0 {
            return Err(Failure::new(format_args!(
                "{}: filters deny {} keys that are there",
                self.db.path().display(),
                report.filter_misses
            )));
        }
        Ok(db.close()?)
    }
}

//! `verify`: reads a whole database.

use std::io::Write;

use clap::Args;
use maypole::VerifyReport;

use crate::args::ReadDb;
use crate::failure::{Failure, Result};
use crate::output::{object, printable};
use crate::progress;
use crate::show::text::{counted, size};

/// Read all tables of all keyspaces of a database: check checksums and key order, and query the
/// filters for every key.
///
/// The command ends with exit code 1 at the first damage, and names file and offset. It also ends
/// with exit code 1, after it has read all tables, if a filter answers no for a key of its table,
/// or if there are entries that only RocksDB reads, such as merge operands. It names each file with
/// such entries, and the first of their keys.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Verify {
    #[command(flatten)]
    db: ReadDb,
    /// Print a JSON object: tables, entries, range_deletions, log_entries, bytes, filter_misses,
    /// strays (files that do not belong to this database), not_understood (texts that name tables
    /// with merge operands and other entries that only RocksDB reads)
    #[arg(long, verbatim_doc_comment)]
    json: bool,
}

impl Verify {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        let report = progress::during("reading every table", || db.verify())?;
        match self.json {
            true => writeln!(out, "{}", to_json(&report))?,
            false => print(&report, out)?,
        }
        if !report.not_understood.is_empty() {
            return Err(Failure::new(format_args!(
                "{}: {} entries that this build does not understand: a read of their keys is an error",
                self.db.path().display(),
                match report.not_understood.len() {
                    1 => "a table has".into(),
                    tables => format!("{tables} tables have"),
                }
            )));
        }
        if report.filter_misses > 0 {
            return Err(Failure::new(format_args!(
                "{}: filters deny {} that are there",
                self.db.path().display(),
                counted(report.filter_misses, "key")
            )));
        }
        Ok(db.close()?)
    }
}

fn print(report: &VerifyReport, out: &mut dyn Write) -> Result {
    writeln!(out, "checksums and key order are right")?;
    writeln!(out, "tables: {}", report.tables)?;
    writeln!(out, "entries: {}", report.entries)?;
    writeln!(out, "range deletions: {}", report.range_deletions)?;
    writeln!(out, "entries in logs: {}", report.log_entries)?;
    writeln!(out, "bytes: {} ({})", report.file_bytes, size(report.file_bytes))?;
    writeln!(out, "filter misses: {}", report.filter_misses)?;
    for table in &report.not_understood {
        writeln!(out, "{}", printable(table))?;
    }
    for stray in &report.strays {
        writeln!(out, "left alone, as it is no file of this database: {stray}")?;
    }
    Ok(())
}

fn to_json(report: &VerifyReport) -> String {
    object! { report =>
        tables, entries, range_deletions, log_entries, bytes = report.file_bytes, filter_misses,
        strays, not_understood
    }
}

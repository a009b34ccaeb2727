//! `repair`: rebuilds a damaged database.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, RepairReport};
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output::object;
use crate::{output, progress};

/// Rebuild a database that cannot be opened, from the files that are left of it.
///
/// The command reads every byte, and changes nothing if it finds nothing wrong. It replaces damaged
/// tables by what can be read of them, and keeps each log up to the first damage. If no MANIFEST is
/// whole, it merges all tables and logs into new tables. Then it needs as much free space as the
/// old tables and logs take, and deleted keys may come back.
///
/// Nothing is deleted: files that no longer belong to the database move to its subdirectory `lost`.
/// An interrupted repair can be started again.
///
/// A directory of RocksDB, LevelDB or Pebble is rejected and not changed; repair it with that
/// engine's own tools. Table files of RocksDB without other files become a database, with a keyspace
/// for each column family. Entries that only RocksDB reads, such as merge operands, are kept, and the
/// report lists the tables that hold them.
///
/// The command prints what was wrong, which keys may be missing or old, and which files it moved.
/// The exit code is 1 if anything may be lost or deleted keys may come back.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Repair {
    /// Directory of the database
    db: PathBuf,
    /// Also keep the writes that follow damage in a log, although they may depend on writes that
    /// are missing
    #[arg(long, verbatim_doc_comment)]
    salvage_logs: bool,
    /// Print a JSON object. "changed" and "deleted_keys_may_return" are true or false; "tables" and
    /// "entries" count what the database has after the repair. Lists of texts are "problems" (what
    /// was wrong), "not_understood" (tables with entries that only RocksDB reads), "losses" (what
    /// could not be read) and "moved" (files that were moved to the folder "lost")
    #[arg(long, verbatim_doc_comment)]
    json: bool,
}

impl Repair {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let builder = Db::builder(&self.db).salvage_logs(self.salvage_logs);
        let report = progress::during("reading every table and log", || builder.repair())?;
        match self.json {
            true => writeln!(out, "{}", to_json(&report))?,
            false => {
                // Names and keys come from a damaged database, so the text is made printable for
                // the terminal.
                for line in report.to_string().lines() {
                    writeln!(out, "{}", output::printable(line))?;
                }
            }
        }
        if report.losses.is_empty() && !report.deleted_keys_may_return {
            return Ok(());
        }
        Err(Failure::new(format_args!(
            "{}: repaired, and some of it may be lost: see the report",
            self.db.display()
        )))
    }
}

fn to_json(report: &RepairReport) -> String {
    let losses: Vec<String> = report.losses.iter().map(ToString::to_string).collect();
    let moved: Vec<String> = report.moved.iter().map(|path| path.display().to_string()).collect();
    object! { report =>
        changed, tables, entries, deleted_keys_may_return, problems, not_understood,
        losses = json!(losses), moved = json!(moved)
    }
}

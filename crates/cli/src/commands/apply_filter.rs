//! `apply-filter`: gives the tables of a database other filters, and rewrites nothing else.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, FilterPolicy, FilterReport, Stats};

use crate::args::InKeyspace;
use crate::failure::{Failure, Result};
use crate::output::{json_list, object, printable, tell};
use crate::progress;
use crate::show::text::{counted, size};

/// Give every table of a database the filter of a policy, in place.
///
/// Data blocks are read, checked and copied as they are, while `compact` merges and compresses them
/// again. Tables that have the filter already stay as they are. Each table is replaced by itself, so
/// the command needs as much free space as the largest table, and may be interrupted: the next call
/// does the rest.
///
/// The new filters hold whole keys; a program whose filters hold prefixes calls
/// `Db::apply_filter_policy` instead. A database does not store its policy. Open it with this policy
/// from then on, so that new tables get these filters too. A keyspace other than `default` stores
/// its policy, and whether its filters hold prefixes: there the call is all that is needed.
///
/// A table that is damaged, or that has something that only RocksDB writes, keeps its filter. Then
/// the command names it on standard error, and ends with exit code 1.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct ApplyFilter {
    /// Directory of the database
    db: PathBuf,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// Filters of the tables: a policy (see compare --help)
    policy: FilterPolicy,
    /// Print a JSON object: refiltered, fitting (tables that had the filter), kept (tables that keep
    /// another one), levels, each {level, tables, filter_bytes_before, filter_bytes}
    #[arg(long, verbatim_doc_comment)]
    json: bool,
}

/// The tables of a level and the bytes of their filters.
struct Level {
    level: usize,
    tables: usize,
    filter_bytes_before: u64,
    filter_bytes: u64,
}

impl ApplyFilter {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.keyspace.open(Db::builder(&self.db), Some(self.policy))?;
        let before = db.stats();
        let report = progress::during("applying filters", || db.apply_filter_policy())?;
        let after = db.stats();
        db.close()?;
        print(out, &report, &levels(&before, &after), self.json)?;
        for error in &report.kept {
            tell(format_args!("a table keeps its filter: {}", printable(&error.to_string())));
        }
        match report.kept.len() {
            0 => Ok(()),
            kept => Err(Failure::new(format_args!(
                "{} without the new filter, named above",
                counted(kept as u64, "table")
            ))),
        }
    }
}

/// The levels that have tables, with the bytes of their filters before the call and after it.
fn levels(before: &Stats, after: &Stats) -> Vec<Level> {
    let bytes_before = |level| {
        let levels = before.levels.iter().filter(|of| of.level == level);
        levels.map(|of| of.filter_bytes).sum()
    };
    let levels = after.levels.iter().filter(|of| of.files > 0);
    levels
        .map(|of| Level {
            level: of.level,
            tables: of.files,
            filter_bytes_before: bytes_before(of.level),
            filter_bytes: of.filter_bytes,
        })
        .collect()
}

fn print(out: &mut dyn Write, report: &FilterReport, levels: &[Level], as_json: bool) -> Result {
    let kept = report.kept.len();
    if as_json {
        let levels = levels
            .iter()
            .map(|of| object! { of => level, tables, filter_bytes_before, filter_bytes });
        let levels = json_list(levels);
        let object = object! { report =>
            refiltered, fitting, kept = kept, levels = levels
        };
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} with new filters; {} had them already",
        counted(report.refiltered as u64, "table"),
        report.fitting,
    )?;
    for of in levels {
        let tables = counted(of.tables as u64, "table");
        let (before, after) = (size(of.filter_bytes_before), size(of.filter_bytes));
        writeln!(out, "level {}: {tables}, filters {before} before, {after} now", of.level)?;
    }
    Ok(())
}

//! `export`: makes a RocksDB database from a database.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{ExportReport, FilterPolicy};
use serde_json::{Value, json};

use crate::args;
use crate::failure::{Failure, Result};
use crate::output::{object, printable, tell};
use crate::progress;
use crate::show::text::{counted, escape, size};

/// Make a RocksDB database of a database, without rewriting its tables.
///
/// Each keyspace becomes a column family of its name. The RocksDB database shares the tables by hard
/// links, which take no space and no time. If linking fails, for example between file systems, the
/// tables are copied, and the command says so. The Maypole database stays as it is. RocksDB 6.27 and
/// later open the new one, read every key and can write to it.
///
/// RocksDB uses the filters of tables only if its options name a filter policy. This command prints
/// the policy to set, and writes it to the OPTIONS file. RocksDB ignores filters that it does not
/// know, such as burr and fuse; the command says how many tables have such filters. With --filter,
/// it writes every table again, with filters that RocksDB knows. A table whose layout is not
/// Maypole's may keep its filter; the command then names it, and the exit code is 1.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Export {
    /// Directory of the database
    db: PathBuf,
    /// Directory of the RocksDB database, which must be empty or missing
    rocksdb: PathBuf,
    /// Write every table again, with these filters: a policy of bloom and ribbon (see compare
    /// --help)
    #[arg(long, value_name = "POLICY")]
    filter: Option<FilterPolicy>,
    /// Print a JSON object: tables, linked, copied, refiltered, not_refiltered (which tables keep
    /// their filters in spite of --filter, and why), bytes, unknown_filters (tables that RocksDB
    /// reads without their filter), filter_policy (of the column family "default"), other_families
    /// (name and filter_policy of each other one), not_linked (why the first copied table was not
    /// linked)
    #[arg(long, verbatim_doc_comment)]
    json: bool,
}

impl Export {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let existed = self.rocksdb.exists();
        let db = args::open_existing(&self.db)?;
        let exported = progress::during("making the tables of the RocksDB database", || {
            db.export_rocksdb(&self.rocksdb, self.filter.as_ref())
        });
        if exported.is_err() && !existed {
            // `remove_dir` removes the directory only if it is empty.
            let _ = std::fs::remove_dir(&self.rocksdb);
        }
        let report = exported?;
        db.close()?;
        if let Some(reason) = &report.not_linked {
            tell(format_args!("note: copied, not linked: {reason}"));
        }
        if report.unknown_filters > 0 {
            tell(format_args!(
                "note: RocksDB does not know the filters of {}, and reads without them; export with \
                 --filter",
                counted(report.unknown_filters as u64, "table"),
            ));
        }
        print(out, &report, self.json)?;
        if report.not_refiltered.is_empty() {
            return Ok(());
        }
        for reason in &report.not_refiltered {
            tell(format_args!("note: {}", printable(reason)));
        }
        Err(Failure::new(format_args!(
            "{}: exported, but {} could not be written again with --filter: see the notes",
            self.rocksdb.display(),
            counted(report.not_refiltered.len() as u64, "table"),
        )))
    }
}

fn print(out: &mut dyn Write, report: &ExportReport, as_json: bool) -> Result {
    let tables = report.linked + report.copied + report.refiltered;
    if as_json {
        let object = object! { report =>
            tables = tables, linked, copied, refiltered, not_refiltered,
            bytes = report.file_bytes, unknown_filters, filter_policy,
            other_families = json!(others(report)), not_linked
        };
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} ({} linked, {} copied, {} with new filters), {}, filter_policy={}",
        counted(tables as u64, "table"),
        report.linked,
        report.copied,
        report.refiltered,
        size(report.file_bytes),
        report.filter_policy.as_deref().unwrap_or("nullptr"),
    )?;
    for (name, policy) in &report.other_families {
        let policy = policy.as_deref().unwrap_or("nullptr");
        writeln!(out, "{}: filter_policy={policy}", escape(name))?;
    }
    Ok(())
}

fn others(report: &ExportReport) -> Vec<Value> {
    let family = |(name, policy): &(Vec<u8>, Option<String>)| json!({ "column_family": escape(name), "filter_policy": policy });
    report.other_families.iter().map(family).collect()
}

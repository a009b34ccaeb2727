//! `import`: makes a Maypole database from a RocksDB or LevelDB database.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, ImportReport, RocksDb};
use serde_json::json;

use crate::args::{self, Bytes};
use crate::failure::{Failure, Result};
use crate::output::{object, tell};
use crate::progress;
use crate::show::text::{counted, escape, size};

/// Make a Maypole database of a RocksDB database, without rewriting its tables.
///
/// Without --all, the column family is the keyspace "default" of the new database. With --all,
/// there is a keyspace for each column family, with its name.
///
/// The new database shares the tables by hard links, which take no space and no time. If linking
/// fails, for example between file systems or for files of another owner, the tables are copied,
/// and the command says so. The entries of the write-ahead logs go to new tables. The RocksDB
/// database stays as it is, and may be in use.
///
/// Tables of a level that may hold the same key are merged into one if neither is newer than the
/// other as a whole. If level 0 has more than 19 tables, some of them move to deeper levels, and
/// others are merged if that is not enough. A LevelDB database can be imported too, but it must not
/// be in use, and all its tables are written again, with new filters.
///
/// Before anything is written, the command rejects key orders other than that of the bytes, merge
/// operands, values in blob files, user-defined timestamps, two-phase transactions in a log, and
/// compressions that Maypole lacks. In tables, wide columns and values with a preferred sequence
/// number are rejected only with --verify, which reads all entries first. Otherwise the import
/// succeeds, and later reads of their keys fail.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Import {
    /// Directory of the RocksDB or LevelDB database
    rocksdb: PathBuf,
    /// Directory of the new database, which must be empty or missing
    db: PathBuf,
    /// The column family to import; \xNN stands for a byte
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = args::bytes())]
    column_family: Bytes,
    /// Import all column families, each as a keyspace of its name
    #[arg(long, conflicts_with = "column_family")]
    all: bool,
    /// Read every table completely before anything is written
    #[arg(long)]
    verify: bool,
    /// Print a JSON object for each column family: column_family, tables, linked, copied,
    /// rewritten, bytes (linked or copied), log_entries, moved_down (tables moved from level 0 to
    /// deeper levels), not_linked (why the first copied table was not linked)
    #[arg(long, verbatim_doc_comment)]
    json: bool,
}

impl Import {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let rocks = RocksDb::open_read_only(&self.rocksdb)?;
        let names: Vec<&[u8]> = match self.all {
            true => rocks.column_families().iter().map(|family| &family.name[..]).collect(),
            false => vec![&self.column_family.0],
        };
        for name in &names {
            let db = rocks.column_family(name)?;
            if self.verify {
                verify(&db, &escape(name))?;
            }
        }
        let existed = self.db.exists();
        let imported = match self.all {
            true => rocks.import_all(&self.db),
            false => rocks.import(&self.column_family.0, &self.db).map(|report| vec![report]),
        };
        if imported.is_err() && !existed {
            // `remove_dir` removes the directory only if it is empty.
            let _ = std::fs::remove_dir(&self.db);
        }
        for (name, report) in names.into_iter().zip(imported?) {
            if let Some(reason) = &report.not_linked {
                tell(format_args!("note: copied, not linked: {reason}"));
            }
            print(out, &escape(name), &report, self.json)?;
        }
        Ok(())
    }
}

/// Reads every table completely.
fn verify(db: &Db, name: &str) -> Result {
    let report = progress::during("reading every table", || db.verify())?;
    match report.not_understood.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(format_args!(
            "the column family \"{name}\" has entries that only RocksDB reads: {first}"
        ))),
    }
}

fn print(out: &mut dyn Write, name: &str, report: &ImportReport, as_json: bool) -> Result {
    let tables = report.linked + report.copied + report.rewritten;
    if as_json {
        let object = object! { report =>
            column_family = json!(name), tables = tables, linked, copied, rewritten,
            bytes = report.file_bytes, log_entries, moved_down, not_linked
        };
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{name}: {} ({} linked, {} copied{}), {}, {} from logs",
        counted(tables as u64, "table"),
        report.linked,
        report.copied,
        match report.rewritten {
            0 => String::new(),
            tables => format!(", {tables} written again"),
        },
        size(report.file_bytes),
        counted(report.log_entries as u64, "entry"),
    )?;
    Ok(())
}

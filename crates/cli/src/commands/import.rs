//! `import`: makes a Maypole database from a RocksDB or LevelDB database.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use maypole::{Db, ImportReport, RocksDb};
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output::{object, tell};
use crate::progress;
use crate::show::text::{counted, size};

/// Make a Maypole database of a RocksDB database, without rewriting its tables.
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
    /// The column family to import
    #[arg(long, value_name = "NAME", default_value = "default")]
    column_family: String,
    /// Import all column families, each to a directory of its name in DB
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
        let targets = self.targets(&rocks)?;
        for (name, _) in &targets {
            let db = rocks.column_family(name)?;
            if self.verify {
                verify(&db, name)?;
            }
        }
        let mut made: Vec<&Path> = Vec::new();
        let existed = self.db.exists();
        let mut reports = Vec::new();
        for (name, dir) in &targets {
            let dir_existed = dir.exists();
            match rocks.import(name, dir) {
                Ok(report) => {
                    made.push(dir);
                    reports.push((name, report));
                }
                Err(error) => {
                    // `remove_dir` removes the directory only if it is empty.
                    if !dir_existed {
                        let _ = std::fs::remove_dir(dir);
                    }
                    for dir in made {
                        let _ = Db::builder(dir).destroy();
                        let _ = std::fs::remove_dir(dir);
                    }
                    if !existed {
                        let _ = std::fs::remove_dir(&self.db);
                    }
                    return Err(error.into());
                }
            }
        }
        for (name, report) in reports {
            if let Some(reason) = &report.not_linked {
                tell(format_args!("note: copied, not linked: {reason}"));
            }
            print(out, name, &report, self.json)?;
        }
        Ok(())
    }

    /// The column families to import, and the directory of each.
    fn targets(&self, rocks: &RocksDb) -> Result<Vec<(String, PathBuf)>> {
        if !self.all {
            return Ok(vec![(self.column_family.clone(), self.db.clone())]);
        }
        if self.db.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Failure::new(format_args!(
                "{}: exists already and is not empty; an import takes a new directory",
                self.db.display()
            )));
        }
        let names = rocks.column_families().iter().map(|family| &family.name);
        let target = |name: &String| match is_file_name(name) {
            true => Ok((name.clone(), self.db.join(name))),
            false => Err(Failure::new(format_args!(
                "the column family \"{}\" has a name that no directory can have; import it with \
                 --column-family",
                name.escape_debug()
            ))),
        };
        names.map(target).collect()
    }
}

fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '/' | '\\' | ':');
    !matches!(name, "" | "." | "..") && name.chars().all(is_plain)
}

/// Reads every table completely.
fn verify(db: &Db, name: &str) -> Result {
    let report = progress::during("reading every table", || db.verify())?;
    match report.not_understood.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(format_args!(
            "the column family \"{}\" has entries that only RocksDB reads: {first}",
            name.escape_debug()
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
        "{}: {} ({} linked, {} copied{}), {}, {} from logs",
        name.escape_debug(),
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

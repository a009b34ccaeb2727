//! `import`: makes a Maypole database from a RocksDB or LevelDB database.

use std::io::Write;
use std::path::{Path, PathBuf};

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
    /// Import all column families, each to a directory of its name in DB. In the names of these
    /// directories, %NN is the byte with the hexadecimal number NN
    #[arg(long, conflicts_with = "column_family", verbatim_doc_comment)]
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
                verify(&db, &escape(name))?;
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
            print(out, &escape(name), &report, self.json)?;
        }
        Ok(())
    }

    /// The column families to import, and the directory of each.
    fn targets(&self, rocks: &RocksDb) -> Result<Vec<(Vec<u8>, PathBuf)>> {
        if !self.all {
            return Ok(vec![(self.column_family.0.clone(), self.db.clone())]);
        }
        if self.db.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Failure::new(format_args!(
                "{}: exists already and is not empty; an import takes a new directory",
                self.db.display()
            )));
        }
        let families = rocks.column_families();
        let names: Vec<&[u8]> = families.iter().map(|family| &family.name[..]).collect();
        let dirs = directory_names(&names);
        Ok(names.iter().zip(dirs).map(|(name, dir)| (name.to_vec(), self.db.join(dir))).collect())
    }
}

/// A name of a directory for each of these column families. No two of them are equal, even on a
/// file system that ignores the case of letters.
///
/// The names of column families are bytes. In the name of the directory, a byte is `%NN` unless all
/// file systems take it as it is. Capital letters are `%NN` too in a name that differs from another
/// one only in their case. The empty name is `%`.
fn directory_names(families: &[&[u8]]) -> Vec<String> {
    let encoded = |name: &[u8], with_capitals: bool| {
        let mut dir = String::new();
        for (i, &byte) in name.iter().enumerate() {
            let is_plain = match byte {
                b'A'..=b'Z' => with_capitals,
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => true,
                // At the ends of names, points and spaces are special.
                b' ' | b'.' => i > 0 && i + 1 < name.len(),
                _ => b"!#$&'()+,;=@[]^`{}~".contains(&byte),
            };
            match is_plain {
                true => dir.push(byte.into()),
                false => dir += &format!("%{byte:02x}"),
            }
        }
        if dir.is_empty() { "%".into() } else { dir }
    };
    let is_alone = |name: &&&[u8]| {
        families.iter().filter(|other| other.eq_ignore_ascii_case(name)).count() == 1
    };
    families.iter().map(|name| encoded(name, is_alone(&name))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that no directory can have were once refused, and names that differ only in the case
    /// of letters would have met in one directory.
    #[test]
    fn every_column_family_has_a_directory_of_its_own() {
        for (families, dirs) in [
            (&[&b"default"[..], b"\x01", b"\n", b"\xff", b""][..], "default %01 %0a %ff %"),
            (&[b".", b"..", b"a.", b"a/b", b"%01", b"nul\0"], "%2e %2e%2e a%2e a%2fb %2501 nul%00"),
            (&[b"Users", b"a", b"A", b"%41"], "Users a %41 %2541"),
            (&["Käse".as_bytes(), b"a b:c", b" "], "K%c3%a4se a b%3ac %20"),
        ] {
            let found = directory_names(families);
            assert_eq!(found.join(" "), dirs);
        }
    }
}

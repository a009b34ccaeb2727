//! The files of a database directory and their names.
//!
//! ```text
//! CURRENT           the name of the active MANIFEST, and a newline
//! LOCK              held while the database is open
//! MANIFEST-000011   record log of version edits
//! 000013.wal        record log of writes that are in no table yet
//! 000012.sst        table
//! STATS             counters that the database's process publishes; no data depends on them
//! CURRENT.tmp       the next CURRENT while it is written; useless after a crash
//! STATS.tmp         the next STATS while it is written; useless after a crash
//! ASKED             how often tables were asked for keys that they lack; no data depends on it
//! ASKED.tmp         the next ASKED while it is written; useless after a crash
//! ```
//!
//! All numbered files share one sequence of numbers, and no number is used twice. A file belongs to
//! the database only if its name has exactly one of these forms. So `7.wal`, whose number lacks
//! leading zeros, does not belong to it. Files that do not belong to it are not touched.

use std::path::{Path, PathBuf};

use super::edit::MAX_FILE_NUMBER;

/// The kind of a file, from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Table(u64),
    Wal(u64),
    Manifest(u64),
    /// `CURRENT.tmp`, `STATS.tmp` or `ASKED.tmp`.
    Temporary,
}

impl FileKind {
    /// The number of a table's file.
    pub fn table(self) -> Option<u64> {
        if let FileKind::Table(number) = self { Some(number) } else { None }
    }

    /// The number in the name.
    pub fn number(self) -> Option<u64> {
        match self {
            FileKind::Table(number) | FileKind::Wal(number) | FileKind::Manifest(number) => {
                Some(number)
            }
            FileKind::Temporary => None,
        }
    }
}

/// Of `names`, those that look like files of the database but are not, sorted. They are spelled
/// differently, or have a number above `most`, the highest that a file of the database may have.
pub(crate) fn strays(names: &[String], most: u64) -> Vec<String> {
    let is_stray = |name: &&String| match parse(name) {
        Some(kind) => kind.number() > Some(most),
        None => name.ends_with(".sst") || name.ends_with(".wal") || name.starts_with("MANIFEST-"),
    };
    let mut strays: Vec<String> = names.iter().filter(is_stray).cloned().collect();
    strays.sort();
    strays
}

pub(crate) fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.sst"))
}

pub(crate) fn wal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

pub(crate) fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

pub(crate) fn current_path(dir: &Path) -> PathBuf {
    dir.join("CURRENT")
}

/// This file marks the target directory of a copy as incomplete. It is there while the copy is
/// made, and stays if the copying process is killed.
pub(crate) const UNFINISHED_COPY: &str = "UNFINISHED_COPY";

pub(crate) fn unfinished_copy_path(dir: &Path) -> PathBuf {
    dir.join(UNFINISHED_COPY)
}

pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

pub(crate) fn stats_path(dir: &Path) -> PathBuf {
    dir.join("STATS")
}

pub(crate) fn asked_path(dir: &Path) -> PathBuf {
    dir.join("ASKED")
}

/// The kind of the file `name`. `None` for `CURRENT`, `LOCK`, `STATS`, `ASKED` and every file that is
/// not the database's.
pub(crate) fn parse(name: &str) -> Option<FileKind> {
    if let Some(target) = name.strip_suffix(".tmp") {
        return matches!(target, "CURRENT" | "STATS" | "ASKED").then_some(FileKind::Temporary);
    }
    let number = |digits: &str| {
        let number = digits.parse().ok().filter(|&number| number <= MAX_FILE_NUMBER)?;
        (format!("{number:06}") == digits).then_some(number)
    };
    if let Some(digits) = name.strip_prefix("MANIFEST-") {
        return number(digits).map(FileKind::Manifest);
    }
    let (digits, extension) = name.split_once('.')?;
    match extension {
        "sst" => number(digits).map(FileKind::Table),
        "wal" => number(digits).map(FileKind::Wal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_left_alone() {
        let file_name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let dir = Path::new("db");
        for number in [1, 999_999, 12_345_678] {
            assert_eq!(parse(&file_name(table_path(dir, number))), Some(FileKind::Table(number)));
            assert_eq!(parse(&file_name(wal_path(dir, number))), Some(FileKind::Wal(number)));
            assert_eq!(parse(&manifest_name(number)), Some(FileKind::Manifest(number)));
        }
        let strangers = [
            "CURRENT",
            "LOCK",
            "STATS",
            "ASKED",
            "notes.txt",
            "x1.sst",
            "-1.sst",
            "MANIFEST-",
            "+5.wal",
            "7.wal",
            "0000007.wal",
            "MANIFEST-7",
            "notes.tmp",
            "18446744073709551614.wal",
            "000007.sst.wal",
            "٠٠٠٠٠٧.wal",
        ];
        for stranger in strangers {
            assert_eq!(parse(stranger), None, "{stranger}");
        }
        for temporary in ["CURRENT.tmp", "STATS.tmp", "ASKED.tmp"] {
            assert_eq!(parse(temporary), Some(FileKind::Temporary));
        }
    }
}

//! The files of a database directory and what they are called.
//!
//! ```text
//! CURRENT           the name of the MANIFEST in force, and a newline
//! LOCK              held while the database is open
//! MANIFEST-000011   record log of version edits
//! 000013.wal        record log of writes that are in no table yet
//! 000012.sst        table
//! STATS             counters that the owner publishes; worth nothing to the database
//! CURRENT.tmp       the next CURRENT while it is written; useless after a crash
//! STATS.tmp         the next STATS likewise
//! ```
//!
//! A number belongs to one file of all kinds and is never used again. A file is the database's only
//! if its name is spelled exactly so: `7.wal` is a stranger's, and strangers' files are left alone.

use std::path::{Path, PathBuf};

use super::edit::MAX_FILE_NUMBER;

/// What a file name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Table(u64),
    Wal(u64),
    Manifest(u64),
    Temporary,
}

impl FileKind {
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

/// Those of `names` that look like files of the database and are not, sorted: they are spelled in
/// another way, or have a number above `most`, which no file of the database has had.
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

/// In a directory to which a database is being copied, or was when the process was killed.
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

pub(crate) fn stats_temporary_path(dir: &Path) -> PathBuf {
    dir.join("STATS.tmp")
}

/// `None` for `CURRENT`, `LOCK`, `STATS` and every file that is not the database's.
pub(crate) fn parse(name: &str) -> Option<FileKind> {
    if let Some(target) = name.strip_suffix(".tmp") {
        return matches!(target, "CURRENT" | "STATS").then_some(FileKind::Temporary);
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
        for temporary in ["CURRENT.tmp", "STATS.tmp"] {
            assert_eq!(parse(temporary), Some(FileKind::Temporary));
        }
    }
}

//! The files of a database directory and what they are called.
//!
//! ```text
//! CURRENT           the name of the MANIFEST in force, and a newline
//! LOCK              held while the database is open
//! MANIFEST-000011   record log of version edits
//! 000013.wal        record log of writes that are in no table yet
//! 000012.sst        table
//! *.tmp             being written; worth nothing after a crash
//! ```
//!
//! Numbers are unique over all kinds and never used again.

use std::path::{Path, PathBuf};

/// What a file name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Table(u64),
    Wal(u64),
    Manifest(u64),
    Temporary,
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

pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

/// `None` for `CURRENT`, `LOCK` and every file that is not ours.
pub(crate) fn parse(name: &str) -> Option<FileKind> {
    if name.ends_with(".tmp") {
        return Some(FileKind::Temporary);
    }
    let number = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
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
        for stranger in ["CURRENT", "LOCK", "notes.txt", "x1.sst", "-1.sst", "MANIFEST-", "+5.wal"]
        {
            assert_eq!(parse(stranger), None, "{stranger}");
        }
        assert_eq!(parse("CURRENT.tmp"), Some(FileKind::Temporary));
    }
}

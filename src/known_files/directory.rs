//! Recognises a directory of another program by the names in it, and by the first bytes of its
//! logs.
//!
//! ```text
//! WHAT       ITS OWN NAMES                             NAMES THAT MAYPOLE HAS, TOO
//! RocksDB    IDENTITY OPTIONS-000007 000004.log        CURRENT MANIFEST-000005 000009.sst LOCK
//! LevelDB    000005.ldb 000004.log                     CURRENT MANIFEST-000002 000005.sst LOCK
//! Pebble     marker.manifest.000001.MANIFEST-000001    MANIFEST-000001 000005.sst LOCK
//!            OPTIONS-000003 000002.log
//! ```
//!
//! An incomplete copy of such a directory may contain only names that Maypole uses too, such as
//! `CURRENT` and a MANIFEST. Then the MANIFEST's first record identifies the engine, if the
//! record's checksum is valid.

use std::path::Path;

use super::bytes::RecordLog;
use super::known::{Known, MAYPOLE_LOG};
use crate::fs::{self, Fs};

/// Bytes read from the start of a file.
const HEAD_BYTES: u64 = 32 << 10;

/// At most this many `.log` files are read, and at most this many MANIFESTs and `.wal` files
/// together, so that a directory with thousands of such files is recognised fast. A directory of
/// Maypole's has few of them.
const MAX_FILES: usize = 16;

const OWN_TOOLS: &str = "the engine's own tools open and repair it; to take the data over, write it \
                         with SstFileWriter for `maypole ingest`, or as text for `maypole load`; to \
                         save tables alone, copy the .sst files of one column family to a directory \
                         of their own and repair that";

/// The advice for a database that can be imported.
const IMPORT: &str = "`maypole import` makes a database of Maypole's of it, `maypole advise` says what \
                      its filters do, and `maypole scan` and `RocksDb` read it as it is; its own tools \
                      repair it";

/// The advice for a database of LevelDB. It can be imported, but `maypole advise` is not mentioned,
/// because Maypole does not read LevelDB's filters.
const IMPORT_FIRST: &str = "`maypole import` makes a database of Maypole's of it, and `maypole scan` and \
                            `RocksDb` read it as it is; its own tools repair it";

/// The advice for a database of RocksDB or LevelDB without `CURRENT`, which nothing opens.
const NO_CURRENT: &str = "its file CURRENT is missing, so nothing opens it: write the name of the newest \
                          MANIFEST and a line feed into that file, or let the engine's own tools \
                          repair it (`ldb repair` for RocksDB)";

/// Databases of other kinds, each with a file name that identifies it.
const OTHERS: &[(&str, &str)] = &[
    ("data.mdb", "a database of LMDB"),
    ("WiredTiger.wt", "a database of WiredTiger"),
    ("KEYREGISTRY", "a database of Badger"),
    ("PG_VERSION", "a database of PostgreSQL"),
];

/// The kind of the directory `dir`, which holds `names`, if it is another program's. Files that
/// cannot be read are ignored.
pub(super) fn of(fs: &dyn Fs, dir: &Path, names: &[String]) -> Option<Known> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let with_extension = |wanted: &str| names.iter().any(|name| extension(name) == wanted);
    let numbered =
        |prefix: &str| names.iter().filter_map(|name| name.strip_prefix(prefix)).any(is_number);
    let head = |name: &str, bytes: u64| fs::head(fs, &dir.join(name), bytes);

    let mut logs: Vec<&String> = names
        .iter()
        .filter(|name| {
            name.strip_prefix("MANIFEST-").is_some_and(is_number) || extension(name) == "wal"
        })
        .collect();
    logs.sort_unstable();
    let mut manifest = None;
    for name in logs.into_iter().rev().take(MAX_FILES) {
        // What cannot be read under such a name, such as a directory or a socket, is ignored.
        if head(name, MAYPOLE_LOG.len() as u64).is_ok_and(|head| head == MAYPOLE_LOG) {
            return None;
        }
        let Ok(head) = head(name, HEAD_BYTES) else { continue };
        if let Some(log) = RecordLog::of(&head).filter(|_| name.starts_with("MANIFEST-")) {
            manifest = Some(log.is_rocksdbs_manifest());
        }
    }

    let is_pebbles = names.iter().any(|name| {
        name.starts_with("marker.manifest.") || name.starts_with("marker.format-version.")
    });
    let has_shared_names =
        has("CURRENT") || numbered("MANIFEST-") || with_extension("sst") || with_extension("ldb");
    let has_log = names
        .iter()
        .filter(|name| extension(name) == "log")
        .take(MAX_FILES)
        .any(|name| head(name, HEAD_BYTES).is_ok_and(|head| RecordLog::of(&head).is_some()));
    let what = match has_shared_names {
        _ if is_pebbles => "a database of Pebble",
        true if with_extension("ldb") => "a database of LevelDB",
        true if has("IDENTITY") || numbered("OPTIONS-") => "a database of RocksDB",
        true => match manifest {
            Some(true) => "a database of RocksDB",
            Some(false) if !with_extension("sst") => "a database of LevelDB",
            Some(false) => "a database of RocksDB or LevelDB",
            None if has_log => "what is left of a database of RocksDB or LevelDB",
            None => "",
        },
        false => "",
    };
    if !what.is_empty() {
        let instead = match what {
            _ if is_pebbles || !what.starts_with("a database") => OWN_TOOLS,
            _ if !has("CURRENT") => NO_CURRENT,
            "a database of LevelDB" => IMPORT_FIRST,
            _ => IMPORT,
        };
        return Some(Known::new(what, instead));
    }
    let other = OTHERS.iter().find(|(name, _)| has(name));
    other.map(|(_, what)| Known::new(*what, ""))
}

/// The extension of a file name whose stem is a number: `ldb` for `000005.ldb`. Empty for other
/// names.
fn extension(name: &str) -> &str {
    name.split_once('.').filter(|(number, _)| is_number(number)).map_or("", |(_, rest)| rest)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

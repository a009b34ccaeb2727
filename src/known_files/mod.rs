//! Recognises the files and directories of other programs, so that errors can name them.
//!
//! ```text
//! known.rs        Known: a noun phrase, and advice
//! bytes.rs        a file: the magic numbers at its start and its end     ──► Known
//! directory.rs    a directory: names, and the first bytes of a few files ──► Known
//! ```
//!
//! A file is checked only if it could not be read in the expected format. A directory is checked
//! before anything is written to it, because RocksDB, LevelDB and Pebble also use the names
//! `CURRENT`, `MANIFEST-000005` and `000007.sst`.
//!
//! Invariant: no table, log or MANIFEST that Maypole wrote is taken for another program's. If one
//! of the newest logs or MANIFESTs in a directory has Maypole's magic number, the directory is
//! Maypole's, whatever other files are in it.

mod bytes;
mod directory;
mod known;

use std::path::Path;

use crate::error::{Error, Result};
use crate::fs::Fs;

pub(crate) use bytes::{name_of, of_file};
pub(crate) use known::MAYPOLE_LOG;

/// Rejects a database directory that belongs to another program. A path that is missing or not a
/// directory is no error.
pub(crate) fn refuse_foreign_database(fs: &dyn Fs, path: &Path) -> Result<()> {
    // If the directory cannot be listed, opening the database reports a better error.
    let known = fs.list(path).ok().and_then(|names| directory::of(fs, path, &names));
    known.map_or(Ok(()), |known| Err(known.refused(path)))
}

/// Rejects `dir` if it contains a file of another program that is named like a database in one
/// file, such as `app.sqlite`. Call this function only if `dir` holds no database of Maypole's.
pub(crate) fn refuse_guest(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let is_named_so = |name: &str| {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        matches!(extension, "db" | "sqlite" | "sqlite3" | "redb")
    };
    let names = fs.list(dir).unwrap_or_default();
    let paths = names.iter().filter(|name| is_named_so(name)).map(|name| dir.join(name));
    let known = paths.take(16).find_map(|path| Some((of_file(fs, &path)?, path)));
    known.map_or(Ok(()), |(known, path)| Err(known.refused(&path)))
}

/// The error to report after reading the file at `path` has failed with `error`: if the file is
/// another program's, an error that says so, otherwise `error` itself.
pub(crate) fn or_foreign_file(fs: &dyn Fs, path: &Path, error: Error) -> Error {
    match &error {
        Error::Corruption { .. } | Error::Unsupported { .. } => {
            of_file(fs, path).map_or(error, |known| known.refused(path))
        }
        _ => error,
    }
}

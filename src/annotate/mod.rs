//! [`AnnotatedFile`]: every byte of a file of the database, next to its meaning.
//!
//! ```text
//! file ──► mod      the format of the file
//!          ├─ table     blocks in the order of the file ──► block    entries, restart points
//!          │                                             └► filter   families
//!          └─ log       file header, records, version edits, write batches
//!                       all of them print through dump: one field a line, always forwards
//! ```
//!
//! `inspect --annotate` prints such a dump. `docs/format.md` contains some dumps, which a test
//! compares with the output byte for byte, so that the description always matches the code.
//!
//! Invariant: every byte of the file is in exactly one field, in the order of the file, whatever
//! the file contains. If a block or a record cannot be decoded, the rest of its bytes is printed
//! undecoded, with the reason, and the dump goes on with the next block or record, if the start of
//! that is known.
//!
//! A dump prints invalid bytes, which the readers of the engine, such as
//! [`crate::table::SstReader`], reject. Therefore this module has its own decoders.

mod block;
mod dump;
mod filter;
mod log;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::fs::{Fs, RealFs};
use crate::known_files;
use crate::version::{names, read_current};
use crate::wal::MAGIC;
use dump::Dump;

/// A file whose [`Display`](fmt::Display) is an annotated dump: each field with its offset, its
/// bytes and its meaning. Long fields are cut.
///
/// The file may be any table that RocksDB (format_version 2 to 7) or Maypole wrote, or any
/// write-ahead log or MANIFEST of Maypole, even a damaged one: the dump marks the bytes that it
/// cannot decode. A write-ahead log has only the numbers of keyspaces. The dump shows the names
/// that the current MANIFEST of the directory gives them, if it can be read.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// use maypole::annotate::AnnotatedFile;
/// use maypole::table::{SstWriter, TableOptions};
///
/// let mut writer = SstWriter::create(&path, TableOptions::default())?;
/// writer.put(b"apple", b"red")?;
/// writer.finish()?;
/// let dump = AnnotatedFile::open(&path)?.to_string();
/// assert!(dump.contains("61 70 70 6c 65"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AnnotatedFile {
    path: PathBuf,
    bytes: Vec<u8>,
    /// The names of the keyspaces, of which a WAL has only the numbers.
    keyspaces: log::Names,
}

impl AnnotatedFile {
    /// Reads the whole file into memory.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) when the file cannot be read. Its content is never an error.
    pub fn open(path: impl AsRef<Path>) -> Result<AnnotatedFile> {
        AnnotatedFile::open_in(&RealFs, path)
    }

    /// Like [`AnnotatedFile::open`], but in the file system `fs`.
    ///
    /// # Errors
    ///
    /// The same as for [`AnnotatedFile::open`].
    pub fn open_in(fs: &dyn Fs, path: impl AsRef<Path>) -> Result<AnnotatedFile> {
        let path = path.as_ref();
        let mut file = AnnotatedFile {
            path: path.to_owned(),
            bytes: fs.read(path)?,
            keyspaces: log::Names::from([(0, b"default".into())]),
        };
        if file.is_log() {
            file.keyspaces.extend(names_of_keyspaces(fs, path));
        }
        Ok(file)
    }

    /// Whether the file is a WAL or a MANIFEST, which are both logs. The magic number of a log at
    /// its start decides this. Without it, the name decides, unless the bytes are those of another
    /// program's file.
    fn is_log(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let named = names::parse(name);
        let tail = &self.bytes[self.bytes.len().saturating_sub(64)..];
        self.bytes.starts_with(&MAGIC)
            || known_files::name_of(&self.bytes, tail).is_none()
                && matches!(named, Some(names::FileKind::Wal(_) | names::FileKind::Manifest(_)))
    }

    fn print(&self, mut dump: Dump<'_, '_>) -> fmt::Result {
        match self.is_log() {
            true => log::print(&mut dump, self.keyspaces.clone()),
            false => table::print(&mut dump, &self.path),
        }
    }
}

/// The names of the keyspaces that the current MANIFEST in the directory of `log` lists. None if it
/// cannot be read, because the log may be a copy, or the database damaged.
fn names_of_keyspaces(fs: &dyn Fs, log: &Path) -> log::Names {
    let current = log.parent().and_then(|dir| read_current(fs, dir).ok()?);
    let keyspaces = current.map(|current| current.keyspaces).unwrap_or_default();
    keyspaces.into_iter().map(|(id, keyspace)| (id.into(), keyspace.name.to_vec())).collect()
}

impl fmt::Display for AnnotatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(Dump::new(f, &self.bytes))
    }
}

impl fmt::Debug for AnnotatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnnotatedFile").field("path", &self.path).finish_non_exhaustive()
    }
}

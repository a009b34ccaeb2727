//! The MANIFEST: the history of the tree, and `CURRENT`, which names the one in force.
//!
//! ```text
//! CURRENT ──► MANIFEST-000011 = [edit: the whole tree] [edit] [edit] …
//! ```
//!
//! Order of a change: tables synced, their names synced, edit appended, MANIFEST synced; only then
//! may inputs and WALs go. A MANIFEST that has grown is replaced by one whose first edit is the
//! whole tree; `CURRENT` switches to it by an atomic rename.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names;
use super::{FileMeta, VersionEdit};
use crate::error::{Error, Result};
use crate::fs::{self, Fs};
use crate::key::SequenceNumber;
use crate::wal::{LogKind, LogReader, LogWriter};

/// A MANIFEST is rewritten when it has grown past its first edit by this much.
const ROLL_AFTER_BYTES: u64 = 4 << 20;

/// The MANIFEST being written.
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    number: u64,
    log: LogWriter,
    first_edit_bytes: u64,
}

impl Manifest {
    /// A new MANIFEST whose first edit is `tree`, durable and in force when this returns.
    pub fn create(fs: &Arc<dyn Fs>, dir: &Path, number: u64, tree: &VersionEdit) -> Result<Self> {
        let name = names::manifest_name(number);
        let mut log = LogWriter::create(&**fs, &dir.join(&name), LogKind::Manifest, number)?;
        log.append(&[&tree.encode()])?;
        log.sync()?;
        fs.sync_dir(dir)?;
        fs::write_atomic(&**fs, &names::current_path(dir), format!("{name}\n").as_bytes())?;
        let first_edit_bytes = log.len();
        Ok(Manifest { fs: Arc::clone(fs), dir: dir.to_owned(), number, log, first_edit_bytes })
    }

    /// Makes `edit` durable.
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        self.log.append(&[&edit.encode()])?;
        self.log.sync()
    }

    /// Whether [`Manifest::roll`] would pay.
    pub fn is_large(&self) -> bool {
        self.log.len() > self.first_edit_bytes + ROLL_AFTER_BYTES
    }

    /// Replaces this MANIFEST by one that starts with `tree`.
    pub fn roll(&mut self, number: u64, tree: &VersionEdit) -> Result<()> {
        let old = self.dir.join(names::manifest_name(self.number));
        *self = Manifest::create(&self.fs, &self.dir, number, tree)?;
        // One that cannot be deleted now goes when the database is next opened.
        let _ = self.fs.remove(&old);
        Ok(())
    }
}

/// What a MANIFEST says of the tree.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub next_file: u64,
    /// Every write up to it is in tables.
    pub flushed_sequence: SequenceNumber,
    /// WALs below this number are obsolete.
    pub oldest_wal: u64,
    /// File number to level and table.
    pub files: BTreeMap<u64, (usize, FileMeta)>,
}

/// Reads `CURRENT` and the MANIFEST it names; `None` when there is no `CURRENT`.
pub(crate) fn read_current(fs: &dyn Fs, dir: &Path) -> Result<Option<Recovered>> {
    let path = names::current_path(dir);
    if !fs.exists(&path)? {
        return Ok(None);
    }
    let bytes = fs.read(&path)?;
    let named = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_suffix('\n'))
        .filter(|name| !name.ends_with(".tmp"))
        .and_then(names::parse);
    let Some(names::FileKind::Manifest(number)) = named else {
        return Err(Error::Corruption {
            file: path,
            offset: 0,
            expected: "the name of a MANIFEST and a newline".into(),
            found: format!("\"{}\"", bytes[..bytes.len().min(40)].escape_ascii()),
        });
    };
    replay(fs, &dir.join(names::manifest_name(number)), number).map(Some)
}

fn replay(fs: &dyn Fs, path: &Path, number: u64) -> Result<Recovered> {
    let mut log = LogReader::open(fs, path, LogKind::Manifest, number)?;
    let mut tree = Recovered::default();
    let mut edits = 0;
    while let Some(record) = log.next()? {
        let offset = record.payload_offset;
        let edit =
            VersionEdit::decode(record.payload).map_err(|damage| damage.in_file(path, offset))?;
        tree.next_file = edit.next_file.unwrap_or(tree.next_file);
        tree.flushed_sequence = edit.flushed_sequence.unwrap_or(tree.flushed_sequence);
        tree.oldest_wal = edit.oldest_wal.unwrap_or(tree.oldest_wal);
        for (level, file) in edit.removed {
            match tree.files.remove(&file) {
                Some((found, _)) if found == level => {}
                found => {
                    return Err(Error::Corruption {
                        file: path.to_owned(),
                        offset,
                        expected: format!("table {file} in level {level} to remove"),
                        found: found.map_or("no such table".into(), |(l, _)| format!("level {l}")),
                    });
                }
            }
        }
        for (level, file) in edit.added {
            tree.files.insert(file.number, (level, file));
        }
        edits += 1;
    }
    // The first edit is durable before CURRENT names the file.
    if edits == 0 {
        return Err(Error::Corruption {
            file: path.to_owned(),
            offset: 0,
            expected: "a first version edit".into(),
            found: "none".into(),
        });
    }
    Ok(tree)
}

//! The MANIFEST, which is the history of the tree, and `CURRENT`, which names the active MANIFEST.
//!
//! ```text
//! CURRENT ──► MANIFEST-000011 = [edit: the whole tree] [edit] [edit] …
//! ```
//!
//! A change takes these steps in order: sync the new tables, sync the directory, append the edit,
//! sync the MANIFEST. Only then may replaced tables and obsolete WALs be deleted. A MANIFEST that
//! has grown too large is replaced by a new one whose first edit is the whole tree; `CURRENT`
//! switches to it by an atomic rename. A MANIFEST that ends in a torn record, for example for lack
//! of space, is replaced in the same way.
//!
//! If [`Manifest::append`] fails with an error that has changed nothing
//! ([`Error::changed_nothing`]), the edit is not recorded. After any other error it is unknown
//! whether the edit is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::edit::MAX_FILE_NUMBER;
use super::{FileMeta, KeyspaceId, KeyspaceRecord, Skipped, VersionEdit, names};
use crate::encoding::key::SequenceNumber;
use crate::error::{Damage, Error, Result};
use crate::fs;
use crate::fs::Fs;
use crate::wal::{LogKind, LogReader, LogVersion, LogWriter};

/// A MANIFEST is replaced when the edits after its first edit take more than this many bytes, and
/// also more bytes than the first edit. This limits the size of the file. The first edit repeats
/// the whole tree. It is at most half of a MANIFEST that is replaced because of its size, so at
/// most half of all written bytes are repetitions.
pub(crate) const ROLL_AFTER_BYTES: u64 = 256 << 10;

/// The most bytes that are read of `CURRENT`. The name of a MANIFEST is shorter.
const MAX_CURRENT_BYTES: u64 = 64;

/// The MANIFEST being written.
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    roll_after_bytes: u64,
    number: u64,
    log: LogWriter,
    first_edit_bytes: u64,
    /// Whether edits may name keyspaces.
    version: LogVersion,
}

impl Manifest {
    /// Creates a MANIFEST whose first edit is `tree`. When this returns, the MANIFEST is durable
    /// and active, and all names in the directory are durable too.
    pub fn create(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        number: u64,
        tree: &VersionEdit,
        roll_after_bytes: u64,
    ) -> Result<Self> {
        let name = names::manifest_name(number);
        let path = dir.join(&name);
        let version = log_version(tree);
        let start = || {
            let kind = LogKind::Manifest;
            let mut log = LogWriter::create_in_version(&**fs, &path, kind, number, version)?;
            log.append(&[&tree.encode()])?;
            log.sync()?;
            fs.sync_dir(dir)?;
            fs::write_atomic(&**fs, &names::current_path(dir), format!("{name}\n").as_bytes())?;
            Ok(log)
        };
        let log = start().inspect_err(|error: &Error| {
            if error.changed_nothing() {
                // `CURRENT` does not name the new file yet, because a call that has changed nothing
                // has not renamed it. If the file cannot be removed now, the next opening of
                // the database removes it.
                fs::tidy_away(&**fs, &path);
            }
        })?;
        let first_edit_bytes = log.len();
        let (fs, dir) = (Arc::clone(fs), dir.to_owned());
        Ok(Manifest { fs, dir, roll_after_bytes, number, log, first_edit_bytes, version })
    }

    /// Makes `edit` durable, in this MANIFEST or in a new one. A new MANIFEST gets the number that
    /// `number` returns. Its first edit is what `tree` returns for that number: the whole tree
    /// after `edit`. Returns the old MANIFEST if a new one has replaced it. The old one is obsolete.
    pub fn append(
        &mut self,
        edit: &VersionEdit,
        number: impl FnOnce() -> Result<u64>,
        tree: impl FnOnce(u64) -> VersionEdit,
    ) -> Result<Option<PathBuf>> {
        let grown = self.log.len() - self.first_edit_bytes;
        let is_large = grown > self.roll_after_bytes.max(self.first_edit_bytes);
        let fits = log_version(edit) as u32 <= self.version as u32;
        if fits && !is_large && !self.log.has_ended() {
            self.log.append(&[&edit.encode()])?;
            return self.log.sync().map(|()| None);
        }
        let number = number()?;
        let old = self.dir.join(names::manifest_name(self.number));
        let roll_after = self.roll_after_bytes;
        *self = Manifest::create(&self.fs, &self.dir, number, &tree(number), roll_after)?;
        Ok(Some(old))
    }
}

fn log_version(edit: &VersionEdit) -> LogVersion {
    match edit.names_keyspaces() {
        true => LogVersion::WithKeyspaces,
        false => LogVersion::OneKeyspace,
    }
}

/// What a MANIFEST records of a keyspace other than 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecoveredKeyspace {
    pub name: Arc<[u8]>,
    /// Keyspaces with the same options share them, because there may be ten thousand.
    pub options: Arc<str>,
}

/// The state that a MANIFEST records.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The number of the MANIFEST, and the number of its bytes up to the end of the last edit.
    pub manifest: (u64, u64),
    pub next_file: u64,
    /// Every write up to this number is in tables.
    pub flushed_sequence: SequenceNumber,
    /// WALs below this number are obsolete.
    pub oldest_wal: u64,
    /// The WALs that must exist, by number, and how many bytes of each are durable.
    pub durable_wals: BTreeMap<u64, u64>,
    /// Sequence numbers above `flushed_sequence` that are in no WAL.
    pub skipped: Skipped,
    /// The tables by file number, each with its level.
    pub files: BTreeMap<u64, (usize, FileMeta)>,
    pub db_identity: Option<String>,
    /// All keyspaces but 0.
    pub keyspaces: BTreeMap<KeyspaceId, RecoveredKeyspace>,
    /// The number of the next new keyspace; 0: there was never one.
    pub next_keyspace: KeyspaceId,
    /// By keyspace: every write of it up to this number is in tables. Only numbers above
    /// `flushed_sequence` are of interest.
    pub flushed: BTreeMap<KeyspaceId, SequenceNumber>,
}

impl Recovered {
    /// The highest number that a file of the database may have. A file may have a number from
    /// `next_file` on, because a number is assigned before an edit records it. But between two
    /// edits far fewer than 2^32 numbers are assigned.
    pub fn most_file_number(&self) -> u64 {
        self.next_file.saturating_add(1 << 32).min(MAX_FILE_NUMBER)
    }
}

/// Reads `CURRENT` and the MANIFEST that it names. `None` if there is no `CURRENT`.
pub(crate) fn read_current(fs: &dyn Fs, dir: &Path) -> Result<Option<Recovered>> {
    let Some(number) = current_manifest(fs, dir)? else { return Ok(None) };
    read_manifest(fs, &dir.join(names::manifest_name(number)), number).map(Some)
}

/// The number of the MANIFEST that `CURRENT` names. `None` if there is no `CURRENT`.
pub(crate) fn current_manifest(fs: &dyn Fs, dir: &Path) -> Result<Option<u64>> {
    let path = names::current_path(dir);
    if !fs.exists(&path)? {
        return Ok(None);
    }
    let bytes = fs::head(fs, &path, MAX_CURRENT_BYTES)?;
    let named = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_suffix('\n'))
        .filter(|name| !name.ends_with(".tmp"))
        .and_then(names::parse);
    let Some(names::FileKind::Manifest(number)) = named else {
        let found = format_args!("\"{}\"", bytes[..bytes.len().min(40)].escape_ascii());
        let damage = Damage::new(0, "the name of a MANIFEST and a newline", found);
        return Err(damage.in_file(&path, 0));
    };
    Ok(Some(number))
}

/// Reads one MANIFEST.
pub(crate) fn read_manifest(fs: &dyn Fs, path: &Path, number: u64) -> Result<Recovered> {
    let mut log = LogReader::open(fs, path, LogKind::Manifest, number)?;
    let mut tree = Recovered::default();
    let mut edits = 0;
    let mut last_options: Arc<str> = Arc::from("");
    while let Some(record) = log.next()? {
        let offset = record.payload_offset;
        let edit =
            VersionEdit::decode(record.payload).map_err(|damage| damage.in_file(path, offset))?;
        tree.next_file = edit.next_file.unwrap_or(tree.next_file);
        tree.flushed_sequence = edit.flushed_sequence.unwrap_or(tree.flushed_sequence);
        tree.oldest_wal = edit.oldest_wal.unwrap_or(tree.oldest_wal);
        tree.db_identity = edit.db_identity.or(tree.db_identity);
        tree.durable_wals.extend(edit.durable_wals);
        edit.skipped.iter().for_each(|&(first, last)| tree.skipped.add(first, last));
        tree.skipped.forget(tree.flushed_sequence);
        tree.next_keyspace = edit.next_keyspace.unwrap_or(tree.next_keyspace);
        for KeyspaceRecord { id, name, options } in edit.created {
            tree.next_keyspace = tree.next_keyspace.max(id.saturating_add(1));
            if *last_options != *options {
                last_options = options.into();
            }
            let options = Arc::clone(&last_options);
            tree.keyspaces.insert(id, RecoveredKeyspace { name: name.into(), options });
        }
        for id in edit.dropped {
            if tree.keyspaces.remove(&id).is_none() {
                let expected = format_args!("keyspace {id} to drop");
                return Err(Damage::new(0, expected, "no such keyspace").in_file(path, offset));
            }
            tree.flushed.remove(&id);
            tree.files.retain(|_, (_, file)| file.keyspace != id);
        }
        tree.flushed.extend(edit.flushed);
        for (level, file) in edit.removed {
            match tree.files.remove(&file) {
                Some((found, _)) if found == level => {}
                found => {
                    let expected = format_args!("table {file} in level {level} to remove");
                    let found = found.map_or("no such table".into(), |(l, _)| format!("level {l}"));
                    return Err(Damage::new(0, expected, found).in_file(path, offset));
                }
            }
        }
        for (level, file) in edit.added {
            let number = file.number;
            if file.keyspace != 0 && !tree.keyspaces.contains_key(&file.keyspace) {
                let expected = format_args!("a keyspace for table {number}");
                let found = format_args!("none with number {}", file.keyspace);
                return Err(Damage::new(0, expected, found).in_file(path, offset));
            }
            if let Some((other, _)) = tree.files.insert(number, (level, file)) {
                let expected = format_args!("table {number} to enter the tree once");
                let found = format_args!("it in level {level}, while it is in level {other}");
                return Err(Damage::new(0, expected, found).in_file(path, offset));
            }
            tree.next_file = tree.next_file.max(number + 1);
        }
        edits += 1;
    }
    tree.durable_wals.retain(|&number, _| number >= tree.oldest_wal);
    tree.manifest = (number, log.end());
    let mut names = BTreeSet::new();
    if let Some(twice) = tree.keyspaces.values().find(|known| !names.insert(&known.name)) {
        let found = format_args!("two of the name \"{}\"", twice.name.escape_ascii());
        return Err(Damage::new(0, "keyspaces of different names", found).in_file(path, 0));
    }
    // The first edit is durable before CURRENT names the file, so a MANIFEST without it is damaged.
    if edits == 0 {
        return Err(Damage::new(0, "a first version edit", "none").in_file(path, 0));
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    /// A MANIFEST was once replaced after 4 MiB, whatever the size of the tree. Reading 4 MiB took
    /// so long that a fast writer had deleted some of the listed tables by then, so every attempt
    /// to open the database read-only failed. Now a small tree has a small MANIFEST. The MANIFEST
    /// of a large tree may grow further, because otherwise it would be rewritten after every few
    /// edits.
    #[test]
    fn a_manifest_grows_with_its_tree() {
        let table = |number| FileMeta {
            number,
            file_bytes: 1000,
            smallest: vec![b'a'; 108],
            largest: vec![b'z'; 108],
            ..FileMeta::default()
        };
        let edit = |numbers: std::ops::Range<u64>| VersionEdit {
            added: numbers.map(|number| (1, table(number))).collect(),
            ..VersionEdit::default()
        };
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let dir = Path::new("/db");
        fs.create_dir_all(dir).unwrap();
        for (tables, least, most) in [(1, 1000, 1400), (100, 20_000, 30_000)] {
            let tree = edit(0..tables);
            let mut manifest = Manifest::create(&fs, dir, 1, &tree, 1000).unwrap();
            let mut bytes = Vec::new();
            for number in 0.. {
                bytes.push(manifest.log.len());
                let whole = |_| edit(0..tables);
                manifest.append(&edit(number..number + 1), || Ok(2), whole).unwrap();
                if manifest.number == 2 {
                    break;
                }
            }
            let grown = bytes[bytes.len() - 1] - bytes[0];
            assert!((least..most).contains(&grown), "{tables} tables: {grown}");
        }
    }
}

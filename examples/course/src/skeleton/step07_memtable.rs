//! Step 7: a memtable, its log, and the flush that makes a table of it.
//!
//! ```text
//! log      record | record | …
//! record   fixed32 CRC-32 of the payload | fixed32 bytes of the payload | payload
//! payload  fixed64 sequence << 8 | kind, varint key bytes, key, value
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::step04_block::KeyValue;
use super::step05_table::{TableBuilder, entry_of};
use super::step06_rocksdb::ROCKSDB;
use crate::disk;
use crate::given::{
    DELETION, Entry, VALUE, damaged, fixed32, internal_key, put_varint, split_key, take,
    take_varint,
};

/// The place of a version in the order of tables.
type Place = (Vec<u8>, Reverse<u64>);

/// What was written since the last flush: all versions of each key, in the order of tables.
#[derive(Default)]
pub struct Memtable {
    /// The value of each version. `None` is a tombstone.
    entries: BTreeMap<Place, Option<Vec<u8>>>,
    /// Bytes of all keys and values.
    pub bytes: usize,
}

impl Memtable {
    /// Inserts a version of a key. Older versions stay.
    pub fn insert(&mut self, key: &[u8], entry: Entry) {
        self.bytes += key.len() + 8 + entry.value.as_ref().map_or(0, Vec::len);
        todo!("one line")
    }

    /// The entries from a place on, as a table stores them: internal keys and values. A tombstone
    /// has the kind `DELETION` and no value.
    pub fn entries_from(
        &self,
        key: &[u8],
        sequence: u64,
    ) -> Box<dyn Iterator<Item = KeyValue> + '_> {
        let place: Place = (key.to_vec(), Reverse(sequence));
        todo!("`range(place..)` of the map; of each version the internal key and the value")
    }

    /// The newest entry of a key whose sequence number is at most `sequence`. It may be a
    /// tombstone. `None`: the memtable has no such entry.
    pub fn get(&self, key: &[u8], sequence: u64) -> Option<Entry> {
        todo!("the first entry from this place on; is it of this key?")
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes all entries to a table at `path`.
    pub fn flush(&self, path: &Path, bits_per_key: f64) -> io::Result<()> {
        write_table(path, self.entries_from(b"", u64::MAX), bits_per_key)
    }
}

/// Writes entries to a table at `path`, which appears there only when it is whole.
pub fn write_table(
    path: &Path,
    entries: impl IntoIterator<Item = KeyValue>,
    bits_per_key: f64,
) -> io::Result<()> {
    todo!("a table with the ending ROCKSDB, written to a temporary file, which is renamed")
}

/// A record of a log.
pub fn record(payload: &[u8]) -> Vec<u8> {
    todo!("`crc32fast::hash` of the payload, its length, the payload")
}

/// The payloads of the records of a log. They end before the first record that is incomplete or has
/// a wrong CRC, because a crash may have torn it.
pub fn payloads(log: &[u8]) -> Vec<&[u8]> {
    todo!("while a whole record is there and its CRC is right: push its payload")
}

/// The file with the writes that are in no table yet.
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens or creates the log at `path`. Records are appended.
    pub fn open(path: &Path) -> io::Result<Log> {
        Ok(Log { file: disk::open(path)?, path: path.to_path_buf() })
    }

    pub fn append(&mut self, key: &[u8], entry: &Entry) -> io::Result<()> {
        let kind = if entry.value.is_some() { VALUE } else { DELETION };
        let mut payload = internal_key(&[], entry.sequence, kind);
        put_varint(&mut payload, key.len() as u64);
        payload.extend(key);
        payload.extend(entry.value.as_deref().unwrap_or_default());
        disk::append(&self.file, &self.path, &record(&payload))
    }

    /// Waits until all records are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        disk::sync(&self.path)
    }

    /// Forgets all records.
    pub fn clear(&mut self) -> io::Result<()> {
        disk::truncate(&self.file, &self.path)
    }
}

/// The keys and entries of a log. A log that does not exist has no entries.
pub fn replay(path: &Path) -> io::Result<Vec<(Vec<u8>, Entry)>> {
    payloads(&read(path)?).into_iter().map(take_entry).collect()
}

/// The bytes of a file: none, if it does not exist.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn take_entry(mut payload: &[u8]) -> io::Result<(Vec<u8>, Entry)> {
    let (_, sequence, kind) = split_key(take(&mut payload, 8)?);
    let key_bytes = take_varint(&mut payload)?;
    let key = take(&mut payload, key_bytes)?.to_vec();
    match kind {
        VALUE => Ok((key, Entry { sequence, value: Some(payload.to_vec()) })),
        DELETION => Ok((key, Entry { sequence, value: None })),
        _ => Err(damaged("an entry of an unknown kind")),
    }
}

//! Step 7: a memtable, its log, and the flush that makes a table of it.
//!
//! ```text
//! log      record | record | …
//! record   fixed32 CRC-32 of the payload | fixed32 bytes of the payload | payload
//! payload  fixed64 sequence << 8 | kind, varint key bytes, key, value
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::step05_table::TableBuilder;
use super::step06_rocksdb::ROCKSDB;
use crate::given::{
    DELETION, Entry, VALUE, damaged, fixed32, internal_key, put_varint, split_key, take,
    take_varint,
};

/// The newest entry of each key that was written since the last flush, in the order of keys.
#[derive(Default)]
pub struct Memtable {
    entries: BTreeMap<Vec<u8>, Entry>,
}

impl Memtable {
    /// Inserts an entry, which replaces an older one of the same key.
    pub fn insert(&mut self, key: &[u8], entry: Entry) {
        todo!("one line")
    }

    /// The entry of a key, which may be a tombstone. `None`: the memtable has no entry of the key.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        todo!("one line")
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes all entries to a table at `path`, which appears there only when it is whole.
    pub fn flush(&self, path: &Path, bits_per_key: f64) -> io::Result<()> {
        todo!("step 5, ending ROCKSDB; a tombstone: DELETION, no value; a temporary file, renamed")
    }
}

/// The file with the writes that are in no table yet.
pub struct Log {
    file: File,
}

impl Log {
    /// Opens or creates the log at `path`. Records are appended.
    pub fn open(path: &Path) -> io::Result<Log> {
        Ok(Log { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    pub fn append(&mut self, key: &[u8], entry: &Entry) -> io::Result<()> {
        let kind = if entry.value.is_some() { VALUE } else { DELETION };
        let mut payload = internal_key(&[], entry.sequence, kind);
        put_varint(&mut payload, key.len() as u64);
        payload.extend(key);
        payload.extend(entry.value.as_deref().unwrap_or_default());
        todo!("`crc32fast::hash` of the payload, its length, the payload; one write")
    }

    /// Forgets all records.
    pub fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

/// The keys and entries of a log. They end before the first record that is incomplete or has a
/// wrong CRC, because a crash may have torn it. A log that does not exist has no entries.
pub fn replay(path: &Path) -> io::Result<Vec<(Vec<u8>, Entry)>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let mut rest = &bytes[..];
    todo!("while a whole record is there and its CRC is right: push `take_entry(payload)?`")
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

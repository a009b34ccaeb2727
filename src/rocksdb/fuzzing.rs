//! Makes edits, tables and batches for tests and fuzz targets. Turns arbitrary bytes into valid
//! logs.

use std::path::Path;

use byteorder::{ByteOrder, LittleEndian};

use super::edit::{ListedTable, put_table};
use super::log::{BLOCK_BYTES, HEADER_BYTES, RECYCLABLE_HEADER_BYTES, masked_crc32c};
pub(crate) use super::write::LogBytes;
use crate::encoding::coding::{put_fixed32, put_fixed64, put_length_prefixed, put_varint};
use crate::encoding::key::internal_key;
use crate::fs::{Fs, MemFs};

/// Writes a file of these bytes.
pub(crate) fn put_file(fs: &MemFs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).expect("memory");
    file.append(bytes).expect("memory");
    file.sync().expect("memory");
}

/// The bytes of a version edit that is being made.
#[derive(Default)]
pub(crate) struct EditBytes(pub Vec<u8>);

impl EditBytes {
    pub fn number(&mut self, tag: u64, value: u64) -> &mut EditBytes {
        put_varint(&mut self.0, tag);
        put_varint(&mut self.0, value);
        self
    }

    pub fn text(&mut self, tag: u64, text: &str) -> &mut EditBytes {
        put_varint(&mut self.0, tag);
        put_length_prefixed(&mut self.0, text.as_bytes());
        self
    }

    pub fn flag(&mut self, tag: u64) -> &mut EditBytes {
        put_varint(&mut self.0, tag);
        self
    }

    pub fn removed(&mut self, level: u64, number: u64) -> &mut EditBytes {
        self.number(6, level);
        put_varint(&mut self.0, number);
        self
    }

    pub fn synced_log(&mut self, log: u64, bytes: u64) {
        let mut field = Vec::new();
        [log, 2, bytes, 1].iter().for_each(|&value| put_varint(&mut field, value));
        put_varint(&mut self.0, 8199);
        put_length_prefixed(&mut self.0, &field);
    }

    pub fn table(&mut self, table: &ListedTable) -> &mut EditBytes {
        put_table(&mut self.0, table);
        self
    }

    /// Appends the field of an added table in LevelDB's form.
    pub fn leveldbs_table(&mut self, table: &ListedTable) -> &mut EditBytes {
        for value in [7, u64::from(table.level), table.number, table.file_bytes] {
            put_varint(&mut self.0, value);
        }
        put_length_prefixed(&mut self.0, &table.smallest);
        put_length_prefixed(&mut self.0, &table.largest);
        self
    }
}

/// A table in LevelDB's format, without a filter: the bytes of its file, and its smallest and
/// largest internal key. `entries` are user keys, sequence numbers, kinds and values; each gets its
/// own block. The trailer of each data block names `compression`, but no block is compressed.
pub(crate) fn leveldbs_file(
    entries: &[(&str, u64, u8, &str)],
    compression: u8,
) -> (Vec<u8>, [Vec<u8>; 2]) {
    let mut file = Vec::new();
    let mut add = |pairs: &[(&[u8], &[u8])], compression: u8| {
        let mut block = Vec::new();
        let mut restarts = Vec::new();
        for (key, value) in pairs {
            restarts.push(block.len() as u32);
            [0, key.len(), value.len()].iter().for_each(|&n| put_varint(&mut block, n as u64));
            block.extend([*key, *value].concat());
        }
        restarts.resize(restarts.len().max(1), 0);
        let count = restarts.len() as u32;
        restarts.into_iter().chain([count]).for_each(|number| put_fixed32(&mut block, number));
        let mut handle = Vec::new();
        [file.len(), block.len()].iter().for_each(|&n| put_varint(&mut handle, n as u64));
        block.push(compression);
        let checksum = masked_crc32c(&block);
        put_fixed32(&mut block, checksum);
        file.extend(block);
        handle
    };
    let key = |&(key, sequence, kind, _): &(&str, u64, u8, &str)| {
        internal_key(key.as_bytes(), sequence, kind)
    };
    let index: Vec<(Vec<u8>, Vec<u8>)> = entries
        .iter()
        .map(|entry| (key(entry), add(&[(&key(entry), entry.3.as_bytes())], compression)))
        .collect();
    let metaindex = add(&[], 0);
    let index: Vec<(&[u8], &[u8])> = index.iter().map(|(key, at)| (&key[..], &at[..])).collect();
    let index = add(&index, 0);
    let mut footer = [metaindex, index].concat();
    footer.resize(40, 0);
    put_fixed64(&mut footer, 0xdb47_7524_8b80_fb57);
    file.extend(footer);
    let bounds = [entries.first(), entries.last()].map(|entry| key(entry.expect("an entry")));
    (file, bounds)
}

/// The MANIFEST's record of a table whose user keys range from `first` to `last`.
pub(crate) fn listed(level: u32, number: u64, first: &str, last: &str) -> ListedTable {
    ListedTable {
        level,
        number,
        file_bytes: 1000,
        smallest: internal_key(first.as_bytes(), 9, 1),
        largest: internal_key(last.as_bytes(), 3, 1),
        smallest_sequence: 3,
        largest_sequence: 9,
        has_sequences: true,
        ..ListedTable::default()
    }
}

/// A write batch of one put to each of these families. The first put has the sequence number
/// `first`.
pub(crate) fn batch(first: u64, families: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    put_fixed64(&mut out, first);
    put_fixed32(&mut out, families.len() as u32);
    for &family in families {
        out.push(5);
        put_varint(&mut out, family.into());
        put_length_prefixed(&mut out, b"key");
        put_length_prefixed(&mut out, b"value");
    }
    out
}

/// Turns `data` into a log: limits the lengths of its records to the bytes that exist, and corrects
/// their checksums. A checksum whose first byte is 0xf0 or more stays as it is, so that some inputs
/// have a wrong checksum.
pub(crate) fn repaired(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let mut at = 0;
    while at + HEADER_BYTES <= bytes.len() {
        let in_block = BLOCK_BYTES - at % BLOCK_BYTES;
        if in_block < HEADER_BYTES {
            at += in_block;
            continue;
        }
        let header = if matches!(bytes[at + 6], 5..=8 | 11 | 131) {
            RECYCLABLE_HEADER_BYTES
        } else {
            HEADER_BYTES
        };
        let room = (bytes.len() - at).min(in_block).saturating_sub(header);
        let length = usize::from(LittleEndian::read_u16(&bytes[at + 4..])) % (room + 1);
        if bytes[at + 6] == 0 && length == 0 {
            at += in_block;
            continue;
        }
        LittleEndian::write_u16(&mut bytes[at + 4..], length as u16);
        let end = (at + header + length).min(bytes.len());
        if bytes[at] & 0xf0 != 0xf0 {
            let checksum = masked_crc32c(&bytes[at + 6..end]);
            LittleEndian::write_u32(&mut bytes[at..], checksum);
        }
        at = end;
    }
    bytes
}

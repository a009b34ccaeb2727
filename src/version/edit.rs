//! One change of the tree, as the MANIFEST records it.
//!
//! A MANIFEST is a record log (`wal/`) whose payloads are version edits. Applying all of them in
//! order, to an empty tree, gives the tree. An edit is a sequence of fields, each a varint tag and
//! what the tag says:
//!
//! ```text
//! TAG  FIELDS                                            MEANING
//! 1    varint number                                     the next unused file number
//! 2    varint sequence                                   every write up to it is in tables
//! 3    varint number                                     WALs below this number are obsolete
//! 4    varint level, varint number                       a table leaves the tree
//! 5    varint level, varint number, varint file bytes,   a table enters the tree
//!      varint entries, varint tombstones,
//!      varint least sequence, varint largest sequence,
//!      varint global sequence + 1 (0 = none),
//!      length-prefixed smallest internal key,
//!      length-prefixed largest internal key
//! ```
//!
//! An unknown tag is refused: its meaning could change what the tree holds.

use crate::coding::{Decoder, put_length_prefixed, put_varint};
use crate::error::Damage;
use crate::key::{self, MAX_SEQUENCE, SequenceNumber, TRAILER_BYTES, compare};

/// How many levels a tree has: 0 to 6, as in RocksDB.
pub(crate) const LEVELS: usize = 7;

const NEXT_FILE: u64 = 1;
const FLUSHED_SEQUENCE: u64 = 2;
const OLDEST_WAL: u64 = 3;
const REMOVED: u64 = 4;
const ADDED: u64 = 5;

/// What the tree knows of a table without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileMeta {
    pub number: u64,
    pub file_bytes: u64,
    pub entries: u64,
    /// Point and range tombstones.
    pub tombstones: u64,
    pub least_sequence: SequenceNumber,
    pub largest_sequence: SequenceNumber,
    /// The sequence number of every entry of an ingested table, whose own say 0.
    pub global_sequence: Option<SequenceNumber>,
    /// Internal keys; range tombstones included. Where one of these ends last, `largest` is a
    /// [`key::range_end`], whose user key the file does not hold.
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
}

impl FileMeta {
    /// Whether the file holds nothing from `user_key` on.
    pub fn ends_before(&self, user_key: &[u8]) -> bool {
        key::ends_before(&self.largest, user_key)
    }

    /// Whether the file holds nothing up to the end of another, whose largest internal key this is.
    pub fn begins_behind(&self, largest: &[u8]) -> bool {
        key::ends_before(largest, key::user_key(&self.smallest))
    }
}

/// A change of the tree. Fields that are `None` stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    pub next_file: Option<u64>,
    pub flushed_sequence: Option<SequenceNumber>,
    pub oldest_wal: Option<u64>,
    /// Level and file number.
    pub removed: Vec<(usize, u64)>,
    pub added: Vec<(usize, FileMeta)>,
}

impl VersionEdit {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, value) in [
            (NEXT_FILE, self.next_file),
            (FLUSHED_SEQUENCE, self.flushed_sequence),
            (OLDEST_WAL, self.oldest_wal),
        ] {
            if let Some(value) = value {
                put_varint(&mut out, tag);
                put_varint(&mut out, value);
            }
        }
        for &(level, number) in &self.removed {
            for field in [REMOVED, level as u64, number] {
                put_varint(&mut out, field);
            }
        }
        for (level, file) in &self.added {
            for field in [
                ADDED,
                *level as u64,
                file.number,
                file.file_bytes,
                file.entries,
                file.tombstones,
                file.least_sequence,
                file.largest_sequence,
                file.global_sequence.map_or(0, |sequence| sequence + 1),
            ] {
                put_varint(&mut out, field);
            }
            put_length_prefixed(&mut out, &file.smallest);
            put_length_prefixed(&mut out, &file.largest);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<VersionEdit, Damage> {
        let mut edit = VersionEdit::default();
        let mut decoder = Decoder::new(bytes);
        while !decoder.is_empty() {
            let start = decoder.position();
            match decoder.varint("tag")? {
                NEXT_FILE => edit.next_file = Some(decoder.varint("next file number")?),
                FLUSHED_SEQUENCE => edit.flushed_sequence = Some(sequence(&mut decoder)?),
                OLDEST_WAL => edit.oldest_wal = Some(decoder.varint("oldest WAL number")?),
                REMOVED => {
                    edit.removed.push((level(&mut decoder)?, decoder.varint("file number")?));
                }
                ADDED => edit.added.push((level(&mut decoder)?, file_meta(&mut decoder)?)),
                tag => return Err(Damage::new(start, "a version edit tag from 1 to 5", tag)),
            }
        }
        Ok(edit)
    }
}

fn level(decoder: &mut Decoder) -> Result<usize, Damage> {
    let start = decoder.position();
    let level = decoder.varint("level")?;
    if level >= LEVELS as u64 {
        return Err(Damage::new(start, format_args!("a level below {LEVELS}"), level));
    }
    Ok(level as usize)
}

fn sequence(decoder: &mut Decoder) -> Result<SequenceNumber, Damage> {
    let start = decoder.position();
    let sequence = decoder.varint("sequence number")?;
    if sequence > MAX_SEQUENCE {
        return Err(Damage::new(start, "a sequence number below 2^56", sequence));
    }
    Ok(sequence)
}

fn file_meta(decoder: &mut Decoder) -> Result<FileMeta, Damage> {
    let number = decoder.varint("file number")?;
    let file_bytes = decoder.varint("file size")?;
    let entries = decoder.varint("number of entries")?;
    let tombstones = decoder.varint("number of tombstones")?;
    let least_sequence = sequence(decoder)?;
    let largest_sequence = sequence(decoder)?;
    let global_start = decoder.position();
    let global_sequence = match decoder.varint("global sequence number")? {
        0 => None,
        above if above - 1 <= MAX_SEQUENCE => Some(above - 1),
        above => return Err(Damage::new(global_start, "a sequence number below 2^56", above - 1)),
    };
    let keys_start = decoder.position();
    let smallest = decoder.length_prefixed("smallest key")?;
    let largest = decoder.length_prefixed("largest key")?;
    if smallest.len() < TRAILER_BYTES || largest.len() < TRAILER_BYTES {
        return Err(Damage::new(keys_start, "two internal keys", "fewer than 8 bytes"));
    }
    if compare(smallest, largest).is_gt() {
        return Err(Damage::new(keys_start, "smallest key <= largest key", "the reverse"));
    }
    Ok(FileMeta {
        number,
        file_bytes,
        entries,
        tombstones,
        least_sequence,
        largest_sequence,
        global_sequence,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::internal_key;

    fn edit() -> VersionEdit {
        let file = |number, global_sequence| FileMeta {
            number,
            file_bytes: 1 << 33,
            entries: 300,
            tombstones: 2,
            least_sequence: 7,
            largest_sequence: MAX_SEQUENCE,
            global_sequence,
            smallest: internal_key(b"", 9, 1),
            largest: internal_key(&[0xff; 300], 7, 0),
        };
        VersionEdit {
            next_file: Some(12),
            flushed_sequence: Some(MAX_SEQUENCE),
            oldest_wal: Some(11),
            removed: vec![(0, 3), (6, u64::MAX)],
            added: vec![(1, file(9, None)), (6, file(10, Some(0)))],
        }
    }

    #[test]
    fn an_edit_round_trips() {
        for edit in [VersionEdit::default(), edit()] {
            assert_eq!(VersionEdit::decode(&edit.encode()).unwrap(), edit);
        }
    }

    #[test]
    fn a_cut_or_changed_edit_never_panics() {
        let bytes = edit().encode();
        for cut in 0..bytes.len() {
            let _ = VersionEdit::decode(&bytes[..cut]);
        }
        for position in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[position] ^= 1 << bit;
                let _ = VersionEdit::decode(&changed);
            }
        }
    }

    #[test]
    fn an_unknown_tag_and_a_level_too_deep_are_refused() {
        assert!(VersionEdit::decode(&[9, 0]).is_err());
        assert!(VersionEdit::decode(&[4, LEVELS as u8, 1]).is_err());
    }
}

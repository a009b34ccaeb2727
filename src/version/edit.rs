//! One change of the tree, as the MANIFEST records it.
//!
//! A MANIFEST is a record log (`wal/`) whose payloads are version edits. All of them, applied in
//! order to an empty tree, give the current tree. An edit is a sequence of fields. A field is a
//! varint tag, followed by the content for this tag:
//!
//! ```text
//! TAG  FIELDS                                            MEANING
//! 1    varint number                                     the next unused file number
//! 2    varint sequence                                   every write up to it is in tables
//! 3    varint number                                     WALs below this number are obsolete
//! 4    varint level, varint number                       a table leaves the tree
//! 5    table                                             a table enters the tree (log version 1)
//! 6    table, extra fields                               a table enters the tree
//! 64   length-prefixed text                              identity of the database
//! 65   length-prefixed: varint number, varint bytes      this many bytes of this WAL are durable
//! 67   length-prefixed: varint first, varint last        no WAL holds these sequence numbers
//! 69   length-prefixed: varint keyspace                  the following tables enter this keyspace
//! 71   length-prefixed: varint keyspace,                 a keyspace is created, or gets other
//!        length-prefixed name, options                     options
//! 73   length-prefixed: varint keyspace                  a keyspace is dropped, with its tables
//! 75   length-prefixed: varint keyspace, varint sequence every write of this keyspace up to it is
//!                                                          in tables
//! 77   length-prefixed: varint keyspace                  the number of the next new keyspace
//!
//! table        varint level, varint number, varint file bytes,
//!              varint entries, varint deletions,
//!              varint smallest sequence, varint largest sequence,
//!              varint global sequence + 1 (0 = none),
//!              length-prefixed smallest internal key,
//!              length-prefixed largest internal key
//! extra field  varint tag (0 = no more), length-prefixed value
//! 2            fixed64, fixed64                          identity of the table
//! 4            varint bytes                              the file's tail: all that opening reads
//! ```
//!
//! The log version is in the header of the record log. This version of Maypole writes log version
//! 2, and with it tag 6 instead of 5. Once a MANIFEST has one of the tags from 69 to 77, its log
//! version is 3.
//!
//! Keyspace 0 is the one that every database has, and is never created or dropped. Tables without a
//! tag 69 before them in their edit are of keyspace 0. The number of a keyspace is never used again.
//! So log records of a dropped keyspace are known as such.
//!
//! A later version of Maypole may add fields with tags from 64 on, and extra fields of a table with
//! any tag. The content of both starts with its length, so that an older reader can skip it. The
//! reader skips an unknown field if the tag is even. It rejects the field if the tag is odd,
//! because then the field may change the content of the tree. A field with an unknown tag below 64,
//! other than an extra field, is always rejected, because its length is not known.

use std::sync::Arc;

use crate::encoding::coding::{Decoder, fixed64, put_length_prefixed, put_varint};
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, TRAILER_BYTES, compare};
use crate::error::Damage;
use crate::range_tombstones::RangeTombstones;
use crate::table::format::identity::TableIdentity;
use crate::table::garbage::Garbage;

/// The number of levels of a tree: 0 to 6, as in RocksDB.
pub(crate) const LEVELS: usize = 7;

pub(crate) const NEXT_FILE: u64 = 1;
pub(crate) const FLUSHED_SEQUENCE: u64 = 2;
pub(crate) const OLDEST_WAL: u64 = 3;
pub(crate) const REMOVED: u64 = 4;
pub(crate) const ADDED_V1: u64 = 5;
pub(crate) const ADDED: u64 = 6;
/// Fields with this tag or a larger one store their length after the tag.
pub(crate) const FIRST_WITH_LENGTH: u64 = 64;
pub(crate) const DB_IDENTITY: u64 = 64;
pub(crate) const DURABLE_WAL: u64 = 65;
/// The tag is odd, so that a reader that does not know this field rejects the edit. If it skipped
/// the field, it would take the missing numbers for a gap in the WALs, and end the replay there.
pub(crate) const SKIPPED: u64 = 67;
pub(crate) const KEYSPACE: u64 = 69;
pub(crate) const CREATED_KEYSPACE: u64 = 71;
pub(crate) const DROPPED_KEYSPACE: u64 = 73;
pub(crate) const FLUSHED_KEYSPACE: u64 = 75;
pub(crate) const NEXT_KEYSPACE: u64 = 77;

/// Tags of a table's extra fields.
pub(crate) const NO_MORE: u64 = 0;
pub(crate) const TABLE_IDENTITY: u64 = 2;
pub(crate) const TAIL_BYTES: u64 = 4;

/// The largest number that a file may have. Readers reject larger ones, so no file may get one:
///
/// - A database assigns numbers below [`END_OF_FILE_NUMBERS`] only. When these are used up, every
///   call that needs a new file fails, and what has been written stays readable.
/// - An import or a repair, which continues numbers that it finds in a directory, fails unless the
///   new database has at least 2^32 numbers left.
pub(crate) const MAX_FILE_NUMBER: u64 = 1 << 62;

/// The numbers from here on are left for the files that an export to RocksDB numbers after the last
/// table.
pub(crate) const END_OF_FILE_NUMBERS: u64 = MAX_FILE_NUMBER - 16;

/// The number of a keyspace: 0 for the one that every database has.
pub(crate) type KeyspaceId = u32;

/// The most bytes of a keyspace's name.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// What the MANIFEST records of a keyspace when it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyspaceRecord {
    pub id: KeyspaceId,
    /// Any bytes, at most [`MAX_NAME_BYTES`].
    pub name: Vec<u8>,
    /// The options, as text (`db/tree_options.rs`).
    pub options: String,
}

/// The record of a table in the MANIFEST.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileMeta {
    pub number: u64,
    /// The keyspace, in what a MANIFEST lists. In a tree it is not set, because a tree has one.
    pub keyspace: KeyspaceId,
    pub file_bytes: u64,
    pub entries: u64,
    /// Entries that are deletions, range deletions included.
    pub deletions: u64,
    pub smallest_sequence: SequenceNumber,
    /// No entry has a larger sequence number. In level 0 it decides which of two files is newer, so
    /// a table that a merge leaves in level 0 keeps the largest number of the merge's inputs, even
    /// if the merge has dropped the entry with this number ([`super::order`]).
    pub largest_sequence: SequenceNumber,
    /// In an ingested table: the sequence number of all its entries. The file stores 0 for each of
    /// them.
    pub global_sequence: Option<SequenceNumber>,
    /// The smallest internal key, range deletions included.
    pub smallest: Vec<u8>,
    /// The largest internal key. If a range deletion of the file ends after the last entry, this is
    /// the deletion's exclusive end ([`key::range_end`]), and the file holds no entry of this user
    /// key.
    pub largest: Vec<u8>,
    /// What distinguishes the table from all others. `None` if the table does not record its
    /// creator, or if a MANIFEST of log version 1 listed it and the table is not open yet.
    pub identity: Option<TableIdentity>,
    /// Bytes at the end of the file that are read when it is opened; 0 if that is not known.
    pub tail_bytes: u64,
    /// The information that the table itself stores, available once it is open.
    pub contents: TableContents,
}

/// Information about a table that compaction needs and that the MANIFEST does not record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableContents {
    /// Counts of entries that compaction can drop, now or when a snapshot is released.
    pub garbage: Garbage,
    /// The range deletions, if there are any.
    pub ranges: Option<Arc<RangeTombstones>>,
    /// Bytes of all keys and of all values before compression; 0 if the table does not record them.
    pub raw_key_bytes: u64,
    pub raw_value_bytes: u64,
}

impl FileMeta {
    /// The file's place in level 0: of two files, the newer one has the larger place
    /// ([`super::order`]).
    pub fn place(&self) -> (SequenceNumber, u64) {
        (self.largest_sequence, self.number)
    }

    /// Whether all user keys of the file are before `user_key`.
    pub fn ends_before(&self, user_key: &[u8]) -> bool {
        key::ends_before(&self.largest, user_key)
    }

    /// Whether all user keys of the file are after those of another file, whose largest internal
    /// key is `largest`.
    pub fn starts_after(&self, largest: &[u8]) -> bool {
        key::ends_before(largest, key::user_key(&self.smallest))
    }
}

/// A change of the tree. A field that is `None` leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    pub next_file: Option<u64>,
    pub flushed_sequence: Option<SequenceNumber>,
    pub oldest_wal: Option<u64>,
    /// Level and file number.
    pub removed: Vec<(usize, u64)>,
    pub added: Vec<(usize, FileMeta)>,
    pub db_identity: Option<String>,
    /// Numbers of WALs, and how many bytes from the start of each are known to be durable.
    pub durable_wals: Vec<(u64, u64)>,
    /// Sequence numbers that are in no WAL: the first of each range, and the last.
    pub skipped: Vec<(SequenceNumber, SequenceNumber)>,
    /// Keyspaces that are created, or whose options change.
    pub created: Vec<KeyspaceRecord>,
    pub dropped: Vec<KeyspaceId>,
    /// Every write of the keyspace up to this number is in tables.
    pub flushed: Vec<(KeyspaceId, SequenceNumber)>,
    pub next_keyspace: Option<KeyspaceId>,
}

impl VersionEdit {
    /// Whether a build that knows no keyspaces must refuse the edit.
    pub fn names_keyspaces(&self) -> bool {
        !self.created.is_empty()
            || !self.dropped.is_empty()
            || !self.flushed.is_empty()
            || self.next_keyspace.is_some()
            || self.added.iter().any(|(_, file)| file.keyspace != 0)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(next) = self.next_keyspace {
            put_numbers(&mut out, NEXT_KEYSPACE, &[next.into()]);
        }
        for KeyspaceRecord { id, name, options } in &self.created {
            let mut value = Vec::new();
            put_varint(&mut value, (*id).into());
            put_length_prefixed(&mut value, name);
            value.extend_from_slice(options.as_bytes());
            put_field(&mut out, CREATED_KEYSPACE, &value);
        }
        for &id in &self.dropped {
            put_numbers(&mut out, DROPPED_KEYSPACE, &[id.into()]);
        }
        for &(id, sequence) in &self.flushed {
            put_numbers(&mut out, FLUSHED_KEYSPACE, &[id.into(), sequence]);
        }
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
        let mut keyspace = 0;
        for (level, file) in &self.added {
            if file.keyspace != keyspace {
                keyspace = file.keyspace;
                put_numbers(&mut out, KEYSPACE, &[keyspace.into()]);
            }
            for field in [
                ADDED,
                *level as u64,
                file.number,
                file.file_bytes,
                file.entries,
                file.deletions,
                file.smallest_sequence,
                file.largest_sequence,
                file.global_sequence.map_or(0, |sequence| sequence + 1),
            ] {
                put_varint(&mut out, field);
            }
            put_length_prefixed(&mut out, &file.smallest);
            put_length_prefixed(&mut out, &file.largest);
            if let Some(identity) = file.identity {
                put_field(&mut out, TABLE_IDENTITY, &identity_bytes(identity));
            }
            if file.tail_bytes > 0 {
                put_numbers(&mut out, TAIL_BYTES, &[file.tail_bytes]);
            }
            put_varint(&mut out, NO_MORE);
        }
        if let Some(identity) = &self.db_identity {
            put_field(&mut out, DB_IDENTITY, identity.as_bytes());
        }
        for &(number, bytes) in &self.durable_wals {
            put_numbers(&mut out, DURABLE_WAL, &[number, bytes]);
        }
        for &(first, last) in &self.skipped {
            put_numbers(&mut out, SKIPPED, &[first, last]);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<VersionEdit, Damage> {
        let mut edit = VersionEdit::default();
        let mut keyspace = 0;
        let mut decoder = Decoder::new(bytes);
        while !decoder.is_empty() {
            let start = decoder.position();
            match decoder.varint("tag")? {
                NEXT_FILE => edit.next_file = Some(file_number(&mut decoder)?),
                FLUSHED_SEQUENCE => edit.flushed_sequence = Some(sequence(&mut decoder)?),
                OLDEST_WAL => edit.oldest_wal = Some(decoder.varint("oldest WAL number")?),
                REMOVED => {
                    edit.removed.push((level(&mut decoder)?, file_number(&mut decoder)?));
                }
                ADDED_V1 => edit.added.push((level(&mut decoder)?, file_meta(&mut decoder)?)),
                ADDED => {
                    let level = level(&mut decoder)?;
                    let mut meta = file_meta(&mut decoder)?;
                    extra_fields(&mut decoder, &mut meta)?;
                    edit.added.push((level, FileMeta { keyspace, ..meta }));
                }
                KEYSPACE => {
                    keyspace = field(&mut decoder, "keyspace of tables", keyspace_id)?;
                }
                CREATED_KEYSPACE => {
                    edit.created.push(field(&mut decoder, "new keyspace", keyspace_record)?);
                }
                DROPPED_KEYSPACE => {
                    edit.dropped.push(field(&mut decoder, "dropped keyspace", keyspace_id)?);
                }
                FLUSHED_KEYSPACE => {
                    let what = "flushed writes of a keyspace";
                    edit.flushed.push(field(&mut decoder, what, |decoder| {
                        Ok((keyspace_id(decoder)?, sequence(decoder)?))
                    })?);
                }
                NEXT_KEYSPACE => {
                    edit.next_keyspace =
                        Some(field(&mut decoder, "number of the next keyspace", keyspace_id)?);
                }
                DB_IDENTITY => {
                    let value = decoder.length_prefixed("identity of the database")?;
                    let text = std::str::from_utf8(value)
                        .map_err(|_| Damage::new(start, "a database identity as text", "bytes"))?;
                    edit.db_identity = Some(text.to_owned());
                }
                DURABLE_WAL => {
                    edit.durable_wals.push(field(&mut decoder, "durable WAL", |decoder| {
                        Ok((file_number(decoder)?, decoder.varint("durable bytes of a WAL")?))
                    })?);
                }
                SKIPPED => {
                    let what = "sequence numbers that no WAL holds";
                    edit.skipped.push(field(&mut decoder, what, skipped)?);
                }
                tag if tag >= FIRST_WITH_LENGTH && tag.is_multiple_of(2) => {
                    decoder.length_prefixed("field of a later version")?;
                }
                tag => return Err(Damage::new(start, "a version edit tag known here", tag)),
            }
        }
        Ok(edit)
    }
}

fn level(decoder: &mut Decoder) -> Result<usize, Damage> {
    let expected = format_args!("a level below {LEVELS}");
    Ok(decoder.varint_up_to(LEVELS as u64 - 1, "level", expected)? as usize)
}

/// Decodes a file number. Files are numbered consecutively from 1, so a number above
/// [`MAX_FILE_NUMBER`] is damage.
fn file_number(decoder: &mut Decoder) -> Result<u64, Damage> {
    let expected = format_args!("a file number up to {MAX_FILE_NUMBER}");
    decoder.varint_up_to(MAX_FILE_NUMBER, "file number", expected)
}

/// Decodes a field whose value has a length. `read` decodes all of the value.
fn field<T>(
    decoder: &mut Decoder,
    what: &str,
    read: impl FnOnce(&mut Decoder) -> Result<T, Damage>,
) -> Result<T, Damage> {
    let value = decoder.length_prefixed(what)?;
    let value_start = decoder.position() - value.len();
    let mut inner = Decoder::new(value);
    let content = read(&mut inner).and_then(|content| match inner.is_empty() {
        true => Ok(content),
        false => Err(Damage::new(inner.position(), "the end of the field", "more")),
    });
    content.map_err(|damage| damage.moved_by(value_start))
}

fn keyspace_id(decoder: &mut Decoder) -> Result<KeyspaceId, Damage> {
    let most = u64::from(KeyspaceId::MAX);
    let id = decoder.varint_up_to(most, "keyspace", "a keyspace below 2^32")?;
    Ok(id as KeyspaceId)
}

fn keyspace_record(decoder: &mut Decoder) -> Result<KeyspaceRecord, Damage> {
    let id = keyspace_id(decoder)?;
    let start = decoder.position();
    let name = decoder.length_prefixed("name of a keyspace")?.to_vec();
    if id == 0 || name.len() > MAX_NAME_BYTES {
        let expected = "a keyspace above 0 with a name of up to 255 bytes";
        return Err(Damage::new(start, expected, format_args!("{id}, {} bytes", name.len())));
    }
    let start = decoder.position();
    let options = std::str::from_utf8(decoder.bytes(decoder.remaining().len(), "options")?)
        .map_err(|_| Damage::new(start, "the options of a keyspace as text", "bytes"))?;
    Ok(KeyspaceRecord { id, name, options: options.to_owned() })
}

fn skipped(decoder: &mut Decoder) -> Result<(SequenceNumber, SequenceNumber), Damage> {
    let (first, last) = (sequence(decoder)?, sequence(decoder)?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(Damage::new(0, "a first sequence number <= the last", "the reverse")),
    }
}

fn extra_fields(decoder: &mut Decoder, meta: &mut FileMeta) -> Result<(), Damage> {
    loop {
        let start = decoder.position();
        let tag = decoder.varint("tag of a table's field")?;
        if tag == NO_MORE {
            return Ok(());
        }
        let value = decoder.length_prefixed("field of a table")?;
        match tag {
            TABLE_IDENTITY if value.len() == 16 => {
                meta.identity = Some([fixed64(value), fixed64(&value[8..])]);
            }
            TABLE_IDENTITY => {
                return Err(Damage::new(start, "a table identity of 16 bytes", value.len()));
            }
            TAIL_BYTES => meta.tail_bytes = Decoder::new(value).varint("bytes of a tail")?,
            tag if tag.is_multiple_of(2) => {}
            tag => return Err(Damage::new(start, "a table's field known here", tag)),
        }
    }
}

pub(crate) fn sequence(decoder: &mut Decoder) -> Result<SequenceNumber, Damage> {
    decoder.varint_up_to(MAX_SEQUENCE, "sequence number", "a sequence number below 2^56")
}

/// Decodes the smallest and the largest internal key of a table.
pub(crate) fn key_bounds(decoder: &mut Decoder) -> Result<(Vec<u8>, Vec<u8>), Damage> {
    let start = decoder.position();
    let smallest = decoder.length_prefixed("smallest key")?;
    let largest = decoder.length_prefixed("largest key")?;
    if smallest.len() < TRAILER_BYTES || largest.len() < TRAILER_BYTES {
        return Err(Damage::new(start, "two internal keys", "fewer than 8 bytes"));
    }
    if compare(smallest, largest).is_gt() {
        return Err(Damage::new(start, "smallest key <= largest key", "the reverse"));
    }
    Ok((smallest.to_vec(), largest.to_vec()))
}

/// Appends a field whose value has a length.
pub(crate) fn put_field(out: &mut Vec<u8>, tag: u64, value: &[u8]) {
    put_varint(out, tag);
    put_length_prefixed(out, value);
}

/// Appends a field whose value is `numbers`, as varints.
pub(crate) fn put_numbers(out: &mut Vec<u8>, tag: u64, numbers: &[u64]) {
    let mut value = Vec::new();
    numbers.iter().for_each(|&number| put_varint(&mut value, number));
    put_field(out, tag, &value);
}

pub(crate) fn identity_bytes(identity: TableIdentity) -> Vec<u8> {
    identity.map(u64::to_le_bytes).concat()
}

fn file_meta(decoder: &mut Decoder) -> Result<FileMeta, Damage> {
    let number = file_number(decoder)?;
    let file_bytes = decoder.varint("file size")?;
    let entries = decoder.varint("number of entries")?;
    let deletions = decoder.varint("number of deletions")?;
    let smallest_sequence = sequence(decoder)?;
    let largest_sequence = sequence(decoder)?;
    let global_start = decoder.position();
    let global_sequence = match decoder.varint("global sequence number")? {
        0 => None,
        above if above - 1 <= MAX_SEQUENCE => Some(above - 1),
        above => return Err(Damage::new(global_start, "a sequence number below 2^56", above - 1)),
    };
    let (smallest, largest) = key_bounds(decoder)?;
    Ok(FileMeta {
        number,
        file_bytes,
        entries,
        deletions,
        smallest_sequence,
        largest_sequence,
        global_sequence,
        smallest,
        largest,
        ..FileMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn edit() -> VersionEdit {
        let file = |number, global_sequence| FileMeta {
            number,
            keyspace: (number % 2) as u32,
            file_bytes: 1 << 33,
            entries: 300,
            deletions: 2,
            smallest_sequence: 7,
            largest_sequence: MAX_SEQUENCE,
            global_sequence,
            smallest: internal_key(b"", 9, 1),
            largest: internal_key(&[0xff; 300], 7, 0),
            identity: global_sequence.map(|sequence| [sequence + 3, u64::MAX]),
            tail_bytes: number * 100,
            contents: TableContents::default(),
        };
        VersionEdit {
            next_file: Some(12),
            flushed_sequence: Some(MAX_SEQUENCE),
            oldest_wal: Some(11),
            removed: vec![(0, 3), (6, MAX_FILE_NUMBER)],
            added: vec![(1, file(9, None)), (6, file(10, Some(0)))],
            db_identity: Some("a database".into()),
            durable_wals: vec![(11, 28), (12, u64::MAX)],
            skipped: vec![(8, 8), (10, MAX_SEQUENCE)],
            created: vec![KeyspaceRecord {
                id: 1,
                name: vec![0, 0xff],
                options: "filter none".into(),
            }],
            dropped: vec![7, KeyspaceId::MAX],
            flushed: vec![(0, 8), (1, MAX_SEQUENCE)],
            next_keyspace: Some(8),
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

    #[test]
    fn what_a_later_version_adds_is_passed_over_or_refused() {
        let with = |field: &[u8]| VersionEdit::decode(&[&edit().encode()[..], field].concat());
        assert_eq!(with(&[66, 2, 7, 7]).unwrap(), edit());
        assert!(with(&[79, 2, 7, 7]).is_err());
        // Keyspace 0 is never created.
        assert!(with(&[71, 2, 0, 0]).is_err());
        // A known tag with impossible numbers.
        assert!(with(&[67, 2, 7, 6]).is_err());
        assert!(with(&[67, 3, 7, 7, 7]).is_err());
        assert!(with(&[67, 1, 7]).is_err());
        // An unknown extra field of a table, too, is skipped if its tag is even, and rejected if
        // its tag is odd. Extra fields are in front of the 0 that ends the table.
        let table = VersionEdit { added: edit().added.split_off(1), ..VersionEdit::default() };
        let mut bytes = table.encode();
        assert_eq!(bytes.pop(), Some(0));
        let with = |field: &[u8]| VersionEdit::decode(&[&bytes[..], field, &[0]].concat());
        assert_eq!(with(&[8, 1, 7]).unwrap(), table);
        assert!(with(&[9, 1, 7]).is_err());
    }

    #[test]
    fn a_file_number_that_would_wrap_is_refused() {
        for tag in [NEXT_FILE, REMOVED] {
            let mut bytes = vec![tag as u8];
            if tag == REMOVED {
                bytes.push(0);
            }
            put_varint(&mut bytes, u64::MAX - 1);
            assert!(VersionEdit::decode(&bytes).is_err(), "tag {tag}");
        }
    }
}

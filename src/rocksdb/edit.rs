//! A version edit of RocksDB's: the payload of a MANIFEST record.
//!
//! ```text
//! TAG        FIELDS                                            MEANING
//! 1          string                                            comparator of the column family
//! 2          varint                                            its log number
//! 3          varint                                            next file number
//! 4          varint                                            last sequence number
//! 5          varint level, string                              compaction cursor; ignored
//! 6          varint level, varint number                       a table leaves
//! 7          level, number, bytes, smallest and largest        a table of LevelDB enters
//!            internal key as strings
//! 100        as 7, then smallest and largest sequence number   a table of RocksDB 6.5 or older
//!                                                              enters
//! 102        as 100, with a varint path after the number       the same, if it has a path
//! 103        as 100, then custom fields                        a table enters
//! 9 10       varint                                            previous log: 0; least log to keep
//! 200        varint                                            the column family of this edit
//! 201 202    string; nothing                                   it is created; it is dropped
//! 203        varint                                            largest column family id
//! 300        varint                                            edits left in this atomic group
//! 8193       string                                            identity of the database; ignored
//! 400 8194   a blob file                                       401 8195: garbage in one
//! 8196 8199  a WAL that was closed or synced                   8197 8200: WALs that are gone
//! 8201       string of one byte                                0: timestamps are cut off
//! other with bit 13 set                                        string; ignored
//! ```
//!
//! Bit 13 of a tag promises that the field is a string, so that a reader that does not know the tag
//! can skip the field. Tags 8194 to 8197 have the bit too, but their fields are not strings.
//!
//! Custom fields describe an added table. Each consists of a varint tag and a string. Tag 1,
//! without a string, ends them. An unknown custom field whose tag has bit 6 is rejected.

use super::{Refusal, unsupported};
use crate::encoding::coding::{Decoder, fixed64, put_length_prefixed, put_varint};
use crate::encoding::key::SequenceNumber;
use crate::error::Damage;
use crate::version::edit::{
    MAX_FILE_NUMBER, identity_bytes, key_bounds, put_field, put_numbers, sequence,
};

/// A field whose tag has this bit can be ignored by a version that does not know the tag.
const IGNORABLE: u32 = 1 << 13;
/// A custom field whose tag has this bit must be understood.
const NOT_IGNORABLE: u32 = 1 << 6;

/// The record of a table in the MANIFEST.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListedTable {
    pub level: u32,
    pub number: u64,
    pub file_bytes: u64,
    /// The smallest and the largest internal key of the table, as the MANIFEST gives them. A range
    /// deletion of the table that reaches beyond them applies only between them.
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub smallest_sequence: SequenceNumber,
    pub largest_sequence: SequenceNumber,
    /// Whether the MANIFEST gives the sequence numbers. LevelDB's does not.
    pub has_sequences: bool,
    /// The epoch, which is larger for newer files of level 0; 0 if it is not known.
    pub epoch: u64,
    /// RocksDB's internal unique id; `None` if it was not recorded.
    pub identity: Option<[u64; 2]>,
    /// The lowest number of the blob files that the table refers to; 0 if it refers to none.
    pub oldest_blob_file: u64,
    /// The index of the table's directory; 0 is the database's directory.
    pub path: u32,
}

/// One change of the database's state. A field that is `None` leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub comparator: Option<String>,
    pub log_number: Option<u64>,
    pub next_file: Option<u64>,
    pub last_sequence: Option<SequenceNumber>,
    pub least_log: Option<u64>,
    /// Level and number.
    pub removed: Vec<(u32, u64)>,
    pub added: Vec<ListedTable>,
    pub family: u32,
    /// The name of a new column family. Names are bytes: Besu's are control characters.
    pub created: Option<Vec<u8>>,
    pub dropped: bool,
    /// No column family has had a larger number.
    pub largest_family: Option<u32>,
    /// The number of edits that follow in an atomic group.
    pub group_left: Option<u32>,
    /// Logs that were closed or synced, each with its synced bytes if they are known.
    pub synced_logs: Vec<(u64, Option<u64>)>,
    /// Logs below this number were deleted.
    pub deleted_logs: Option<u64>,
    pub cuts_timestamps: bool,
}

impl Edit {
    /// Encodes an edit of a new MANIFEST: the column family and whether it is new, the comparator,
    /// the log number, the next file number, the last sequence number, the largest column family and
    /// the added tables. No other field is written.
    pub fn encode_new(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.family > 0 {
            put_varint(&mut out, 200);
            put_varint(&mut out, self.family.into());
        }
        if let Some(name) = &self.created {
            put_field(&mut out, 201, name);
        }
        if let Some(comparator) = &self.comparator {
            put_field(&mut out, 1, comparator.as_bytes());
        }
        let largest_family = self.largest_family.map(u64::from);
        for (tag, number) in [
            (2, self.log_number),
            (3, self.next_file),
            (4, self.last_sequence),
            (203, largest_family),
        ] {
            if let Some(number) = number {
                put_varint(&mut out, tag);
                put_varint(&mut out, number);
            }
        }
        self.added.iter().for_each(|table| put_table(&mut out, table));
        out
    }

    pub fn decode(payload: &[u8]) -> Result<Edit, Refusal> {
        let mut decoder = Decoder::new(payload);
        let decoder = &mut decoder;
        let mut edit = Edit::default();
        while !decoder.is_empty() {
            let start = decoder.position();
            match decoder.varint32("tag")? {
                1 => {
                    let name = decoder.length_prefixed("comparator")?;
                    edit.comparator = Some(String::from_utf8_lossy(name).into_owned());
                }
                2 => edit.log_number = Some(number(decoder, "log number")?),
                3 => edit.next_file = Some(number(decoder, "next file number")?),
                4 => edit.last_sequence = Some(sequence(decoder)?),
                5 => {
                    decoder.varint32("level")?;
                    decoder.length_prefixed("compaction cursor")?;
                }
                6 => {
                    let level = decoder.varint32("level")?;
                    edit.removed.push((level, number(decoder, "file number")?));
                }
                7 => edit.added.push(leveldbs_table(decoder, false)?),
                100 => edit.added.push(table(decoder, false)?),
                102 => edit.added.push(table(decoder, true)?),
                103 => {
                    let table = table(decoder, false)?;
                    edit.added.push(with_custom_fields(table, decoder)?);
                }
                9 => {
                    let log = decoder.varint("previous log number")?;
                    if log != 0 {
                        return Err(unsupported(format!(
                            "a previous log ({log}), which only old versions write; open the \
                             database once with the program that it is of"
                        )));
                    }
                }
                10 => edit.least_log = Some(number(decoder, "least log number")?),
                200 => edit.family = decoder.varint32("column family")?,
                201 => {
                    let name = decoder.length_prefixed("name of a column family")?;
                    edit.created = Some(name.to_vec());
                }
                202 => edit.dropped = true,
                203 => edit.largest_family = Some(decoder.varint32("largest column family")?),
                300 => edit.group_left = Some(decoder.varint32("edits of a group")?),
                400 | 8194 => {
                    for what in ["number of a blob file", "blobs", "bytes of blobs"] {
                        decoder.varint(what)?;
                    }
                    decoder.length_prefixed("checksum method")?;
                    decoder.length_prefixed("checksum")?;
                    blob_fields(decoder)?;
                }
                401 | 8195 => {
                    for what in ["number of a blob file", "garbage blobs", "garbage bytes"] {
                        decoder.varint(what)?;
                    }
                    blob_fields(decoder)?;
                }
                8196 => {
                    let log = synced_log(decoder)?;
                    edit.synced_logs.push(log);
                }
                8199 => {
                    let field = decoder.length_prefixed("synced log")?;
                    edit.synced_logs.push(synced_log(&mut Decoder::new(field))?);
                }
                8197 => edit.deleted_logs = Some(decoder.varint("deleted logs")?),
                8200 => {
                    let field = decoder.length_prefixed("deleted logs")?;
                    edit.deleted_logs = Some(Decoder::new(field).varint("deleted logs")?);
                }
                8201 => {
                    let stored = decoder.length_prefixed("whether timestamps are stored")?;
                    edit.cuts_timestamps = stored.first() == Some(&0);
                }
                tag if tag & IGNORABLE != 0 => {
                    decoder.length_prefixed("field of a later version")?;
                }
                tag => {
                    let what = format!("the field {tag} of a version edit");
                    // An impossible tag is damage; any other unknown tag is unsupported.
                    return Err(match tag {
                        0 => Damage::new(start, "a tag above 0", tag).into(),
                        _ => unsupported(what),
                    });
                }
            }
        }
        Ok(edit)
    }
}

/// Appends the field of an added table. Leaves out the custom fields that are `None` or 0.
pub(super) fn put_table(out: &mut Vec<u8>, table: &ListedTable) {
    for value in [103, u64::from(table.level), table.number, table.file_bytes] {
        put_varint(out, value);
    }
    put_length_prefixed(out, &table.smallest);
    put_length_prefixed(out, &table.largest);
    put_varint(out, table.smallest_sequence);
    put_varint(out, table.largest_sequence);
    if let Some(identity) = table.identity {
        put_field(out, 12, &identity_bytes(identity));
    }
    for (tag, number) in [(4, table.oldest_blob_file), (13, table.epoch)] {
        if number > 0 {
            put_numbers(out, tag, &[number]);
        }
    }
    if table.path > 0 {
        put_field(out, 65, &[table.path as u8]);
    }
    put_varint(out, 1);
}

fn number(decoder: &mut Decoder, what: &str) -> Result<u64, Damage> {
    decoder.varint_up_to(MAX_FILE_NUMBER, what, format_args!("{what} of at most 2^62"))
}

fn leveldbs_table(decoder: &mut Decoder, has_path: bool) -> Result<ListedTable, Damage> {
    let level = decoder.varint32("level")?;
    let number = number(decoder, "file number")?;
    let path = if has_path { decoder.varint32("path id")? } else { 0 };
    let file_bytes = decoder.varint("file size")?;
    let (smallest, largest) = key_bounds(decoder)?;
    Ok(ListedTable { level, number, path, file_bytes, smallest, largest, ..ListedTable::default() })
}

fn table(decoder: &mut Decoder, has_path: bool) -> Result<ListedTable, Damage> {
    let table = leveldbs_table(decoder, has_path)?;
    let (smallest_sequence, largest_sequence) = (sequence(decoder)?, sequence(decoder)?);
    Ok(ListedTable { has_sequences: true, smallest_sequence, largest_sequence, ..table })
}

fn with_custom_fields(
    mut table: ListedTable,
    decoder: &mut Decoder,
) -> Result<ListedTable, Refusal> {
    let number = table.number;
    loop {
        let tag = decoder.varint32("tag of a custom field")?;
        if tag == 1 {
            return Ok(table);
        }
        let start = decoder.position();
        let field = decoder.length_prefixed("custom field")?;
        match tag {
            12 => {
                let [first, second] = match field.len() {
                    16 => [fixed64(field), fixed64(&field[8..])],
                    found => {
                        return Err(Damage::new(start, "a unique id of 16 bytes", found).into());
                    }
                };
                table.identity = (first != 0 || second != 0).then_some([first, second]);
            }
            4 => table.oldest_blob_file = Decoder::new(field).varint("oldest blob file")?,
            13 => table.epoch = Decoder::new(field).varint("epoch")?,
            65 => match field {
                [path] => table.path = u32::from(*path),
                _ => return Err(Damage::new(start, "a path id of one byte", field.len()).into()),
            },
            tag if tag & NOT_IGNORABLE != 0 => {
                return Err(unsupported(format!("the field {tag} of table {number}")));
            }
            _ => {}
        }
    }
}

fn blob_fields(decoder: &mut Decoder) -> Result<(), Refusal> {
    loop {
        match decoder.varint32("tag of a blob file's field")? {
            0 => return Ok(()),
            tag if tag & NOT_IGNORABLE != 0 => {
                return Err(unsupported(format!("the field {tag} of a blob file")));
            }
            _ => drop(decoder.length_prefixed("a blob file's field")?),
        }
    }
}

fn synced_log(decoder: &mut Decoder) -> Result<(u64, Option<u64>), Refusal> {
    let log = number(decoder, "log number")?;
    let mut bytes = None;
    loop {
        match decoder.varint32("tag of a log's field")? {
            1 => return Ok((log, bytes)),
            2 => bytes = Some(decoder.varint("synced bytes")?),
            tag => return Err(unsupported(format!("the field {tag} of a log"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::EditBytes;
    use super::*;
    use crate::encoding::coding::{put_length_prefixed, put_varint};
    use crate::encoding::key::{MAX_SEQUENCE, internal_key};

    fn sample() -> ListedTable {
        ListedTable {
            level: 2,
            number: 17,
            file_bytes: 1 << 40,
            smallest: internal_key(b"ant", 9, 1),
            largest: internal_key(b"cow", 3, 1),
            smallest_sequence: 3,
            largest_sequence: 9,
            has_sequences: true,
            epoch: 5,
            identity: Some([1, 2]),
            oldest_blob_file: 0,
            path: 0,
        }
    }

    #[test]
    fn an_edit_is_read_as_it_was_written() {
        let mut bytes = EditBytes::default();
        bytes.number(200, 4).text(1, "leveldb.BytewiseComparator").number(2, 11).number(3, 20);
        bytes.number(4, 99).number(10, 8).removed(1, 7).table(&sample());
        let edit = Edit::decode(&bytes.0).unwrap();
        assert_eq!(edit.comparator.as_deref(), Some("leveldb.BytewiseComparator"));
        assert_eq!((edit.family, edit.log_number, edit.next_file), (4, Some(11), Some(20)));
        assert_eq!((edit.last_sequence, edit.least_log), (Some(99), Some(8)));
        assert_eq!((edit.removed, edit.added), (vec![(1, 7)], vec![sample()]));
    }

    #[test]
    fn a_new_edit_is_read_as_it_was_written() {
        let plain = ListedTable { epoch: 0, identity: None, ..sample() };
        let edit = Edit {
            comparator: Some("RocksDB_SE_v3.10".into()),
            log_number: Some(11),
            next_file: Some(1 << 40),
            last_sequence: Some(MAX_SEQUENCE),
            family: 300,
            created: Some(b"\xff\n".to_vec()),
            largest_family: Some(301),
            added: vec![sample(), plain, ListedTable { oldest_blob_file: 300, ..sample() }],
            ..Edit::default()
        };
        assert_eq!(Edit::decode(&edit.encode_new()).unwrap(), edit);
        assert!(Edit::default().encode_new().is_empty());
    }

    #[test]
    fn a_cut_or_changed_edit_never_panics() {
        let mut bytes = EditBytes::default();
        bytes.text(201, "name").table(&sample()).number(300, 2);
        for cut in 0..bytes.0.len() {
            let _ = Edit::decode(&bytes.0[..cut]);
        }
        for at in 0..bytes.0.len() {
            for bit in 0..8 {
                let mut changed = bytes.0.clone();
                changed[at] ^= 1 << bit;
                let _ = Edit::decode(&changed);
            }
        }
    }

    /// Tags of later versions are ignored exactly where the format allows it. Tags 8194 to 8197
    /// have the bit of ignorable tags, but their fields are not strings.
    #[test]
    fn unknown_fields_are_ignored_or_refused_by_their_bits() {
        let field = |tag: u64, rest: &[u8]| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, tag);
            bytes.extend_from_slice(rest);
            Edit::decode(&bytes)
        };
        for ignored in [8193, 8198, 8202, 8203, 8204, 8192 + 4096] {
            assert_eq!(field(ignored, &[3, 1, 2, 3]).unwrap(), Edit::default(), "{ignored}");
        }
        for refused in [8, 11, 99, 104, 204, 4096] {
            assert!(matches!(field(refused, &[0]), Err(Refusal::Unsupported(_))), "{refused}");
        }
        // A blob file: its number, the count and the bytes of its values, two empty strings, and no
        // custom fields.
        for blob in [400, 8194] {
            assert_eq!(field(blob, &[7, 1, 9, 0, 0, 0]).unwrap(), Edit::default());
        }
        for garbage in [401, 8195] {
            assert_eq!(field(garbage, &[7, 1, 9, 0]).unwrap(), Edit::default());
        }
        assert_eq!(field(8196, &[12, 2, 100, 1]).unwrap().synced_logs, [(12, Some(100))]);
        assert_eq!(field(8199, &[2, 12, 1]).unwrap().synced_logs, [(12, None)]);
        assert_eq!(field(8197, &[12]).unwrap().deleted_logs, Some(12));
        assert_eq!(field(8200, &[1, 12]).unwrap().deleted_logs, Some(12));
        assert!(field(8201, &[1, 0]).unwrap().cuts_timestamps);
        assert!(!field(8201, &[1, 1]).unwrap().cuts_timestamps);
    }

    /// RocksDB 5.0 to 6.5 write no custom fields, and a path only where a table has one. Such a
    /// MANIFEST was once refused, with the advice to open the database once with one of just these
    /// versions.
    #[test]
    fn tables_of_old_versions_are_read() {
        let table = |tag: u64, path: &[u8]| {
            let whole = sample();
            let mut bytes = Vec::new();
            [tag, 2, 17].iter().for_each(|&number| put_varint(&mut bytes, number));
            bytes.extend_from_slice(path);
            put_varint(&mut bytes, whole.file_bytes);
            put_length_prefixed(&mut bytes, &whole.smallest);
            put_length_prefixed(&mut bytes, &whole.largest);
            [3, 9].iter().for_each(|&number| put_varint(&mut bytes, number));
            // Another field follows at once.
            bytes.extend_from_slice(&[202, 1]);
            for cut in 1..bytes.len() - 2 {
                assert!(matches!(Edit::decode(&bytes[..cut]), Err(Refusal::Damage(_))), "{cut}");
            }
            let edit = Edit::decode(&bytes).unwrap();
            assert!(edit.dropped);
            edit.added
        };
        let plain = ListedTable { epoch: 0, identity: None, ..sample() };
        assert_eq!(table(102, &[1]), [ListedTable { path: 1, ..plain.clone() }]);
        assert_eq!(table(100, &[]), [plain]);
    }

    #[test]
    fn custom_fields_that_must_be_understood_are_refused() {
        let mut whole = EditBytes::default();
        whole.table(&sample());
        assert_eq!(whole.0.pop(), Some(1), "the end of the custom fields");
        let with = |tag: u64, value: &[u8]| {
            let mut bytes = whole.0.clone();
            put_varint(&mut bytes, tag);
            put_length_prefixed(&mut bytes, value);
            bytes.push(1);
            Edit::decode(&bytes).map(|mut edit| edit.added.remove(0))
        };
        for ignored in [2, 3, 5, 17, 18, 63, 128] {
            assert_eq!(with(ignored, &[1; 9]).unwrap(), sample(), "{ignored}");
        }
        for refused in [64, 66, 127, 192] {
            assert!(matches!(with(refused, b"x"), Err(Refusal::Unsupported(_))), "{refused}");
        }
        assert_eq!(with(65, &[2]).unwrap().path, 2);
        assert_eq!(with(4, &[0x81, 1]).unwrap().oldest_blob_file, 129);
        for (tag, value) in [(12, &[1; 15][..]), (13, &[0x80]), (65, &[1, 2])] {
            assert!(matches!(with(tag, value), Err(Refusal::Damage(_))), "{tag}");
        }
    }
}

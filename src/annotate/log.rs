//! Prints logs: WALs and MANIFESTs. [`crate::wal`] draws their format, and [`crate::version::edit`]
//! draws the format of version edits. A *mark* is a record without a payload, which the writer of a
//! log appends after a sync.
//!
//! After a record with a wrong header nothing is decoded, because the length in that header may be
//! wrong too, so the start of the next record is unknown. [`LogReader`](crate::wal::LogReader)
//! decides whether such a record is a torn tail or bit rot.

use std::collections::BTreeMap;
use std::fmt;

use crate::encoding::coding::{fixed32, fixed64};
use crate::encoding::key::kind_name;
use crate::version::edit;
use crate::wal::{FILE_HEADER_BYTES, LogKind, RECORD_HEADER_BYTES, record_header_crc32};

use super::block::{self, Contents};
use super::dump::{Dump, Stop, quoted};

/// The byte before the number of a keyspace, in front of an operation (`db/write/batch.rs`).
const IN_KEYSPACE: u8 = 16;

/// The names of keyspaces by their numbers, as far as they are known.
pub(super) type Names = BTreeMap<u64, Vec<u8>>;

/// `names`: what is known before the first record. A MANIFEST tells more.
pub(super) fn print(dump: &mut Dump<'_, '_>, mut names: Names) -> fmt::Result {
    let Some(header) = dump.bytes().first_chunk::<FILE_HEADER_BYTES>() else {
        let end = dump.bytes().len();
        return dump.part("File header", end, |_| {
            Err(Stop::Unclear(format!("a log has at least {FILE_HEADER_BYTES} bytes")))
        });
    };
    let (kind, number) = (LogKind::from_number(fixed32(&header[12..])), fixed64(&header[16..]));
    dump.part("File header", FILE_HEADER_BYTES, |dump| {
        dump.field(8, "magic of a log")?;
        dump.fixed32("format version")?;
        let name = kind.map_or("unknown".to_string(), |kind| format!("{kind:?}"));
        dump.field(4, format_args!("kind: {name}"))?;
        dump.fixed64("file number")?;
        dump.checksum("CRC-32 of the header", crc32fast::hash(&header[..24]))
    })?;
    while dump.position() < dump.bytes().len() && record(dump, kind, number, &mut names)? {}
    Ok(())
}

/// Prints the next record and returns `true`. If no record begins here, prints the rest of the file
/// and returns `false`.
fn record(
    dump: &mut Dump<'_, '_>,
    kind: Option<LogKind>,
    number: u64,
    names: &mut Names,
) -> Result<bool, fmt::Error> {
    let (offset, end) = (dump.position(), dump.bytes().len());
    let header = dump.remaining().first_chunk::<RECORD_HEADER_BYTES>();
    let genuine = header.filter(|header| {
        fixed32(&header[..]) == record_header_crc32(header, number, offset as u64)
    });
    let Some(header) = genuine else {
        let reason = match dump.remaining().iter().all(|&byte| byte == 0) {
            true => "zeros: space that was allocated, and nothing written to it",
            false => "no record of this file begins here: a torn tail, or rot",
        };
        dump.part("Rest", end, |_| Err(Stop::Unclear(reason.into())))?;
        return Ok(false);
    };
    let payload_bytes = fixed32(&header[8..]);
    let heading = match payload_bytes {
        0 => format!("Mark at {offset}"),
        _ => format!("Record at {offset}"),
    };
    let payload_at = offset + RECORD_HEADER_BYTES;
    let record_end = payload_at.saturating_add(payload_bytes as usize).min(end);
    dump.part(heading, record_end, |dump| {
        dump.field(4, "CRC-32 of the record's header: right")?;
        let payload = &dump.bytes()[payload_at..record_end];
        dump.checksum("CRC-32 of the payload", crc32fast::hash(payload))?;
        dump.fixed32("payload bytes")?;
        let synced_to = dump.peek(8, "synced_to").map(fixed64)?;
        dump.field(8, format_args!("synced_to: bytes before {synced_to} were durable"))?;
        if payload.len() < payload_bytes as usize {
            return Err(Stop::Unclear("the file ends within the payload".into()));
        }
        match kind {
            _ if payload_bytes == 0 => Ok(()),
            Some(LogKind::Manifest) => version_edit(dump, names),
            Some(LogKind::Wal | LogKind::RecoveredWal) => write_batch(dump, names),
            None => Err(Stop::Unclear("a log of an unknown kind".into())),
        }
    })?;
    Ok(true)
}

fn write_batch(dump: &mut Dump<'_, '_>, names: &Names) -> Result<(), Stop> {
    dump.varint("first sequence number")?;
    dump.varint("operations")?;
    while !dump.remaining().is_empty() {
        if dump.peek(1, "kind")?[0] == IN_KEYSPACE {
            dump.field(1, format_args!("{IN_KEYSPACE}: in a keyspace"))?;
            keyspace(dump, names)?;
        }
        let kind = dump.peek(1, "kind")?[0];
        dump.field(1, format_args!("kind {kind}: {}", kind_name(kind)))?;
        dump.length_prefixed("key")?;
        match kind {
            0 => {}
            1 => dump.length_prefixed("value")?,
            15 => dump.length_prefixed("end of the range")?,
            _ => return Err(Stop::Unclear(format!("the kind {kind}"))),
        }
    }
    Ok(())
}

/// Prints the number of a keyspace, and its name if that is known.
fn keyspace(dump: &mut Dump<'_, '_>, names: &Names) -> Result<(), Stop> {
    let (id, bytes) = dump.peek_varint(0, "keyspace")?;
    match names.get(&id) {
        Some(name) => dump.field(bytes, format_args!("keyspace: {id}, {}", quoted(name)))?,
        None => dump.field(bytes, format_args!("keyspace: {id}"))?,
    }
    Ok(())
}

fn version_edit(dump: &mut Dump<'_, '_>, names: &mut Names) -> Result<(), Stop> {
    while !dump.remaining().is_empty() {
        let (tag, bytes) = dump.peek_varint(0, "tag")?;
        let meaning = match tag {
            edit::NEXT_FILE => "the next unused file number",
            edit::FLUSHED_SEQUENCE => "writes up to here are in tables",
            edit::OLDEST_WAL => "WALs below a number are obsolete",
            edit::REMOVED => "a table leaves the tree",
            edit::ADDED_V1 => "a table enters the tree, in log version 1",
            edit::ADDED => "a table enters the tree",
            edit::DB_IDENTITY => "the identity of the database",
            edit::DURABLE_WAL => "durable bytes of a WAL",
            edit::SKIPPED => "sequence numbers that no WAL holds",
            edit::KEYSPACE => "the following tables enter a keyspace",
            edit::CREATED_KEYSPACE => "a keyspace is created, or gets other options",
            edit::DROPPED_KEYSPACE => "a keyspace is dropped",
            edit::FLUSHED_KEYSPACE => "writes of a keyspace up to here are in tables",
            edit::NEXT_KEYSPACE => "the number of the next new keyspace",
            _ => "unknown",
        };
        dump.field(bytes, format_args!("tag {tag}: {meaning}"))?;
        match tag {
            edit::NEXT_FILE | edit::OLDEST_WAL => drop(dump.varint("number")?),
            edit::FLUSHED_SEQUENCE => drop(dump.varint("sequence number")?),
            edit::REMOVED => {
                dump.varint("level")?;
                dump.varint("number")?;
            }
            edit::ADDED_V1 => table(dump)?,
            edit::ADDED => {
                table(dump)?;
                extra_fields(dump)?;
            }
            edit::DURABLE_WAL => value(dump, "numbers", |dump| {
                dump.varint("number of the WAL")?;
                dump.varint("bytes").map(drop)
            })?,
            edit::SKIPPED => value(dump, "numbers", |dump| {
                dump.varint("first sequence number")?;
                dump.varint("last sequence number").map(drop)
            })?,
            edit::KEYSPACE | edit::DROPPED_KEYSPACE => {
                value(dump, "numbers", |dump| keyspace(dump, names))?
            }
            edit::CREATED_KEYSPACE => {
                value(dump, "keyspace", |dump| created_keyspace(dump, names))?
            }
            edit::FLUSHED_KEYSPACE => value(dump, "numbers", |dump| {
                keyspace(dump, names)?;
                dump.varint("sequence number").map(drop)
            })?,
            edit::NEXT_KEYSPACE => value(dump, "numbers", |dump| dump.varint("number").map(drop))?,
            edit::DB_IDENTITY => dump.length_prefixed("identity")?,
            tag if tag >= edit::FIRST_WITH_LENGTH => dump.length_prefixed("value")?,
            tag => return Err(Stop::Unclear(format!("the tag {tag}"))),
        }
    }
    Ok(())
}

/// Prints the length of a field's value, and the value by `print`.
fn value(
    dump: &mut Dump<'_, '_>,
    what: &str,
    print: impl FnOnce(&mut Dump<'_, '_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let value = dump.length_of(what)?;
    let end = dump.position() + value.len();
    Ok(dump.section(end, |dump| print(dump))?)
}

fn created_keyspace(dump: &mut Dump<'_, '_>, names: &mut Names) -> Result<(), Stop> {
    let id = dump.varint("keyspace")?;
    let name = dump.length_of("name")?;
    dump.field(name.len(), format_args!("name: {}", quoted(name)))?;
    names.insert(id, name.to_vec());
    let options = dump.remaining();
    Ok(dump.field(options.len(), format_args!("options: {}", quoted(options)))?)
}

/// Prints the fields of an added table that every version of the format has.
fn table(dump: &mut Dump<'_, '_>) -> Result<(), Stop> {
    for what in [
        "level",
        "number",
        "bytes of the file",
        "entries",
        "deletions",
        "smallest sequence number",
        "largest sequence number",
        "global sequence number + 1, or 0",
    ] {
        dump.varint(what)?;
    }
    internal_key(dump, "smallest key")?;
    internal_key(dump, "largest key")
}

fn internal_key(dump: &mut Dump<'_, '_>, what: &str) -> Result<(), Stop> {
    let key = dump.length_of(what)?;
    block::print_key(dump, Contents::Data, key, 0)
}

fn extra_fields(dump: &mut Dump<'_, '_>) -> Result<(), Stop> {
    loop {
        let (tag, bytes) = dump.peek_varint(0, "tag of an extra field")?;
        let meaning = match tag {
            edit::NO_MORE => "no more extra fields",
            edit::TABLE_IDENTITY => "the identity of the table",
            edit::TAIL_BYTES => "bytes that opening reads",
            _ => "unknown",
        };
        dump.field(bytes, format_args!("extra field {tag}: {meaning}"))?;
        if tag == edit::NO_MORE {
            return Ok(());
        }
        let value = dump.length_of("value")?;
        let end = dump.position() + value.len();
        dump.section(end, |dump| match tag {
            edit::TABLE_IDENTITY => Ok(dump.field(16, "identity: two fixed64")?),
            edit::TAIL_BYTES => dump.varint("bytes").map(drop),
            _ => Ok(dump.field(value.len(), "of a later version")?),
        })?;
    }
}

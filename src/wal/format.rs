//! The record log: the file format of both the WAL and the MANIFEST.
//!
//! ```text
//! log = file header | record | record | …
//!
//! OFFSET  SIZE  MEANING (file header, 28 bytes; all integers little-endian)
//!      0     8  magic: 8d "Maypole"
//!      8     4  format version: 2, or 3 in a database with keyspaces; 1 is read, too
//!     12     4  kind: 1 = WAL, 2 = MANIFEST, 3 = recovered WAL
//!     16     8  file number, as in the file's name
//!     24     4  CRC-32 of bytes 0 to 23
//!
//! OFFSET  SIZE  MEANING (record)
//!      0     4  CRC-32 of: file number (8) | offset of this record in the file (8) | bytes 4 to 19
//!      4     4  CRC-32 of the payload
//!      8     4  payload bytes; 0 = a mark
//!     12     8  synced_to: all bytes of the file before this offset were durable when the record
//!               was written; at most the offset of the record
//!     20     …  payload
//! ```
//!
//! A **mark** has no payload: the writer appends one after each sync, and its `synced_to` is its
//! own offset. So a stretch of zeros is never a record header: it would be the mark of offset 0,
//! where the file header is.
//!
//! Why each field is there:
//!
//! * The record header has a CRC of its own, so that the length is used only after it was checked,
//!   and a header whose payload was lost still counts as evidence of the last sync.
//! * The CRC of the record header covers the file number and the offset, so that old bytes of
//!   another file, or of another offset in this file, are not taken for a record.
//! * `synced_to` distinguishes a **torn tail** from **rot**. Both start with a bad record. If a
//!   later header says that the bad bytes were durable, they were valid once and have rotted, which
//!   is an error. Otherwise they were never durable and were never promised, so the log ends before
//!   them. (The idea is Pebble's, `record/record.go`, whose chunks carry a sync offset.)
//! * The mark is the evidence of the last sync. Without it, only the header of a later record would
//!   tell of this sync. Until that record is appended, rot in the last synced records would be
//!   taken for a torn tail.
//!
//! A **recovered WAL** holds the write batches that a recovery found in older WALs. It is replayed
//! only if the MANIFEST lists it, because one that a crash left unlisted only repeats the content
//! of the older WALs, which are then still there.
//!
//! Version 2 adds two things to version 1: recovered WALs, and more fields in the version edits of
//! a MANIFEST (`version/edit.rs`). Version 3 adds keyspaces to both kinds of log. Only a database
//! with a second keyspace writes it, so that builds that know no keyspaces open all others.
//!
//! Records are not cut into blocks as in LevelDB. The use of blocks is that a reader can skip
//! damage and continue, but recovery must not continue after a hole.

use std::path::Path;

use byteorder::{ByteOrder, LittleEndian};

use crate::encoding::coding::{fixed32, fixed64};
use crate::error::{Damage, Error};

/// The first bytes of a log.
pub(crate) use crate::known_files::MAYPOLE_LOG as MAGIC;
pub(super) const OLDEST_VERSION: u32 = 1;
pub(super) const NEWEST_VERSION: u32 = LogVersion::WithKeyspaces as u32;

/// The format version of a log that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub(crate) enum LogVersion {
    #[default]
    OneKeyspace = 2,
    /// Operations and version edits may name keyspaces.
    WithKeyspaces = 3,
}

/// Bytes of a log without any record.
pub(crate) const FILE_HEADER_BYTES: usize = 28;

/// Bytes of a record before its payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 20;

/// What a log is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum LogKind {
    /// Write batches that are not in tables yet.
    Wal = 1,
    /// Version edits.
    Manifest = 2,
    /// Write batches that a recovery found in older WALs.
    RecoveredWal = 3,
}

impl LogKind {
    /// Whether a log of the kind `found` may be read as a log of this kind.
    fn includes(self, found: LogKind) -> bool {
        self == found || (self == LogKind::Wal && found == LogKind::RecoveredWal)
    }

    pub fn from_number(number: u32) -> Option<LogKind> {
        [LogKind::Wal, LogKind::Manifest, LogKind::RecoveredWal]
            .into_iter()
            .find(|&kind| kind as u32 == number)
    }
}

pub(super) fn encode_file_header(
    kind: LogKind,
    number: u64,
    version: LogVersion,
) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    LittleEndian::write_u32(&mut bytes[8..], version as u32);
    LittleEndian::write_u32(&mut bytes[12..], kind as u32);
    LittleEndian::write_u64(&mut bytes[16..], number);
    let crc32 = crc32fast::hash(&bytes[..24]);
    LittleEndian::write_u32(&mut bytes[24..], crc32);
    bytes
}

/// Checks that `bytes` are the header of a log of this kind and number. Returns the kind and the
/// version in the header.
pub(super) fn check_file_header(
    path: &Path,
    bytes: &[u8; FILE_HEADER_BYTES],
    kind: LogKind,
    number: u64,
) -> Result<(LogKind, LogVersion), Error> {
    let damage = |offset, expected: String, found: String| {
        Err(Damage::new(offset, expected, found).in_file(path, 0))
    };
    if bytes[..8] != MAGIC {
        return damage(0, format!("a Maypole log: {MAGIC:02x?}"), format!("{:02x?}", &bytes[..8]));
    }
    // The checksum is checked before the version, so that a damaged file is not taken for one of a
    // newer version. This is possible because all versions have this header.
    let (crc32, found) = (crc32fast::hash(&bytes[..24]), fixed32(&bytes[24..]));
    if found != crc32 {
        return damage(0, format!("file header checksum {crc32:#010x}"), format!("{found:#010x}"));
    }
    let version = fixed32(&bytes[8..]);
    if !(OLDEST_VERSION..=NEWEST_VERSION).contains(&version) {
        let what = format!(
            "log format version {version}; this build reads {OLDEST_VERSION} to {NEWEST_VERSION}: \
             open the database with the version of Maypole that wrote it"
        );
        return Err(Error::Unsupported { file: path.to_owned(), what });
    }
    let found = fixed32(&bytes[12..]);
    let Some(stored) = LogKind::from_number(found).filter(|&stored| kind.includes(stored)) else {
        return damage(12, format!("log kind {} ({kind:?})", kind as u32), found.to_string());
    };
    let found = fixed64(&bytes[16..]);
    if found != number {
        return damage(16, format!("file number {number}"), found.to_string());
    }
    let version = match version < NEWEST_VERSION {
        true => LogVersion::OneKeyspace,
        false => LogVersion::WithKeyspaces,
    };
    Ok((stored, version))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub payload_crc32: u32,
    /// The length of the payload; 0 in a mark.
    pub payload_bytes: u32,
    pub synced_to: u64,
}

impl RecordHeader {
    pub fn encode(&self, number: u64, offset: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        LittleEndian::write_u32(&mut bytes[4..], self.payload_crc32);
        LittleEndian::write_u32(&mut bytes[8..], self.payload_bytes);
        LittleEndian::write_u64(&mut bytes[12..], self.synced_to);
        let crc32 = record_header_crc32(&bytes, number, offset);
        LittleEndian::write_u32(&mut bytes[..4], crc32);
        bytes
    }

    /// The header in `bytes`. `None` if it was not written for this file and this offset.
    pub fn decode(
        bytes: &[u8; RECORD_HEADER_BYTES],
        number: u64,
        offset: u64,
    ) -> Option<RecordHeader> {
        let header = RecordHeader {
            payload_crc32: fixed32(&bytes[4..]),
            payload_bytes: fixed32(&bytes[8..]),
            synced_to: fixed64(&bytes[12..]),
        };
        // The cheap checks come before the CRC, because the search for headers tries every offset.
        let plausible = match header.payload_bytes {
            0 => header.synced_to == offset,
            _ => header.synced_to <= offset,
        };
        let genuine = plausible && record_header_crc32(bytes, number, offset) == fixed32(bytes);
        genuine.then_some(header)
    }

    /// The offset after the record.
    pub fn end(&self, offset: u64) -> u64 {
        offset + RECORD_HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }
}

/// The first checksum in the header of a record at `offset` of log `number`.
pub(crate) fn record_header_crc32(
    bytes: &[u8; RECORD_HEADER_BYTES],
    number: u64,
    offset: u64,
) -> u32 {
    let mut covered = [0; 32];
    LittleEndian::write_u64(&mut covered, number);
    LittleEndian::write_u64(&mut covered[8..], offset);
    covered[16..].copy_from_slice(&bytes[4..]);
    crc32fast::hash(&covered)
}

//! The record log of RocksDB: MANIFEST and WAL.
//!
//! ```text
//! log = blocks of 32768 bytes; the last one may be short. A record that does not fit into the rest
//!       of a block is cut into fragments.
//!
//! OFFSET  SIZE  MEANING (one record or fragment, integers little-endian)
//!      0     4  masked CRC-32C of everything from offset 6 on
//!      4     2  payload bytes
//!      6     1  kind
//!      7     4  recyclable kinds only: low 32 bits of the log's number
//!   7/11     …  payload
//!
//! KIND  RECYCLABLE  MEANING
//!    0              with length 0: filler; nothing more in this block
//!    1           5  a whole record
//! 2 3 4      6 7 8  the first, a middle, the last fragment of a record
//!    9              ZSTD compression of all records that follow
//!   10          11  sizes of timestamps
//!  130         131  the log before this one
//! ```
//!
//! A log can end in several ways, whose meaning differs between MANIFEST and WAL. So the reader
//! reports how the log ended ([`LogEnd`]), and its caller decides.
//!
//! A recycled log overwrites an older one, so its tail may hold bytes of the older log. A whole old
//! record has another log number, and ends the log cleanly. If the start of an old record was
//! overwritten, the reader takes bytes from its middle as a header. Their checksum is almost always
//! wrong, which is reported as damage.

use std::path::Path;
use std::sync::Arc;

use super::{Refusal, unsupported};
use crate::encoding::coding::fixed32;
use crate::error::{Damage, Error, Result};
use crate::fs::{Fs, RandomAccessFile};
use crate::table::format::compression::read::uncompress_frame;

pub(super) const BLOCK_BYTES: usize = 32 << 10;
pub(super) const HEADER_BYTES: usize = 7;
pub(super) const RECYCLABLE_HEADER_BYTES: usize = 11;

pub(super) const WHOLE: u8 = 1;
pub(super) const FIRST: u8 = 2;
pub(super) const MIDDLE: u8 = 3;
pub(super) const LAST: u8 = 4;
const RECYCLABLE: u8 = 4;
const COMPRESSION: u8 = 9;
const TIMESTAMPS: [u8; 2] = [10, 11];
const PREDECESSOR: [u8; 2] = [130, 131];
/// Unknown kinds from here on are skipped.
const FIRST_IGNORABLE: u8 = 128;
const ZSTD: u32 = 7;

pub(super) fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// How a log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// After a whole record: at the end of the file, in filler, or before bytes of an older log.
    Clean,
    /// Within a record, which is dropped.
    CutOff,
    /// At bytes that are neither a record nor a fragment, or at a record or fragment that must not
    /// follow there. The damage contains the offset in the file.
    Damaged(Damage),
}

/// One record, assembled from its fragments and uncompressed.
#[derive(Debug)]
pub(super) struct LogicalRecord<'a> {
    pub payload: &'a [u8],
    /// The offset in the file of its first fragment, for errors.
    pub offset: u64,
}

/// Reads a log from front to back.
pub(super) struct RecordLog {
    file: Arc<dyn RandomAccessFile>,
    /// The low 32 bits of the log's number.
    number: u32,
    /// The block in memory: its offset in the file, its bytes, and the number of bytes that were
    /// consumed.
    block_offset: u64,
    block: Vec<u8>,
    at: usize,
    /// The fragments of the record so far, and the offset of the first one.
    pieces: Vec<u8>,
    first_offset: Option<u64>,
    /// The payload of a compressed record.
    uncompressed: Vec<u8>,
    is_compressed: bool,
    /// Whether the log's records have recyclable headers; `None` before the first one.
    is_recyclable: Option<bool>,
    end: Option<LogEnd>,
}

/// A physical record, without its header.
struct Fragment {
    kind: u8,
    offset: u64,
    /// The position of the payload in the block.
    payload: std::ops::Range<usize>,
}

impl RecordLog {
    pub fn open(fs: &dyn Fs, path: &Path, number: u64) -> Result<RecordLog> {
        Ok(RecordLog {
            file: fs.open(path)?,
            number: number as u32,
            block_offset: 0,
            block: Vec::new(),
            at: 0,
            pieces: Vec::new(),
            first_offset: None,
            uncompressed: Vec::new(),
            is_compressed: false,
            is_recyclable: None,
            end: None,
        })
    }

    /// The length of the file when it was opened. Bytes after this length are not read.
    pub fn file_bytes(&self) -> u64 {
        self.file.len()
    }

    /// How the log ends, once [`RecordLog::next`] has returned `None`.
    pub fn end(&self) -> &LogEnd {
        self.end.as_ref().unwrap_or(&LogEnd::Clean)
    }

    /// The next record, or `None` at the end.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the log needs a feature that this build does not have,
    /// [`Error::Io`] if the file cannot be read.
    pub fn next(&mut self) -> Result<Option<LogicalRecord<'_>>> {
        let Some(offset) = self.assemble()? else { return Ok(None) };
        if !self.is_compressed || self.pieces.is_empty() {
            return Ok(Some(LogicalRecord { payload: &self.pieces, offset }));
        }
        match uncompress_frame(&self.pieces, &mut self.uncompressed) {
            Ok(()) => Ok(Some(LogicalRecord { payload: &self.uncompressed, offset })),
            Err(crate::table::format::compression::read::Failure::Unsupported(what)) => {
                Err(self.refused(unsupported(what), offset))
            }
            Err(crate::table::format::compression::read::Failure::Damage(damage)) => {
                self.end = Some(LogEnd::Damaged(Damage { offset, ..damage }));
                Ok(None)
            }
        }
    }

    /// Assembles the next record in `pieces`; returns where it starts.
    fn assemble(&mut self) -> Result<Option<u64>> {
        self.pieces.clear();
        self.first_offset = None;
        while self.end.is_none() {
            let Some(fragment) = self.fragment()? else { continue };
            let payload = &self.block[fragment.payload.clone()];
            let offset = fragment.offset;
            let kind = match fragment.kind {
                kind @ 5..=8 => kind - RECYCLABLE,
                kind => kind,
            };
            // Old writers left an empty first fragment at the end of a block. A new record may
            // follow such a fragment.
            let in_record = self.first_offset.is_some() && !self.pieces.is_empty();
            match kind {
                WHOLE | FIRST if in_record => {
                    self.damaged(offset, "a further fragment of the record", "a new record");
                }
                WHOLE => {
                    self.pieces.extend_from_slice(payload);
                    return Ok(Some(offset));
                }
                FIRST => {
                    self.pieces.extend_from_slice(payload);
                    self.first_offset = Some(offset);
                }
                MIDDLE | LAST => match self.first_offset {
                    None => self.damaged(offset, "the start of a record", "a later fragment"),
                    Some(first) => {
                        self.pieces.extend_from_slice(payload);
                        if kind == LAST {
                            return Ok(Some(first));
                        }
                    }
                },
                COMPRESSION => {
                    let codec = payload.first_chunk().map(|bytes: &[u8; 4]| fixed32(bytes));
                    if codec != Some(ZSTD) || payload.len() != 4 {
                        let what = format!("compression type {codec:?} of a log");
                        return Err(self.refused(unsupported(what), offset));
                    }
                    if offset != 0 {
                        self.damaged(
                            offset,
                            "the log's compression as its first record",
                            "it here",
                        );
                    }
                    self.is_compressed = true;
                }
                kind if TIMESTAMPS.contains(&kind) => {
                    let what = "keys with user-defined timestamps";
                    return Err(self.refused(unsupported(what), offset));
                }
                kind if PREDECESSOR.contains(&kind) => {}
                FIRST_IGNORABLE.. => {
                    self.pieces.clear();
                    self.first_offset = None;
                }
                kind => {
                    let what = format!("a record of type {kind}");
                    return Err(self.refused(unsupported(what), offset));
                }
            }
        }
        Ok(None)
    }

    /// The next physical record. `None` if the log has ended, which sets `self.end`, or if the
    /// block in memory has no further record. In the second case the caller calls again, which
    /// reads the next block.
    fn fragment(&mut self) -> Result<Option<Fragment>> {
        let remaining = self.block.len() - self.at;
        let is_last_block = self.block_offset + self.block.len() as u64 == self.file.len();
        let offset = self.block_offset + self.at as u64;
        if remaining < HEADER_BYTES {
            match is_last_block {
                // A whole block may end with too few bytes for a header.
                true if remaining == 0 || self.block.len() == BLOCK_BYTES => {
                    self.end = Some(match self.first_offset {
                        None => LogEnd::Clean,
                        Some(_) => LogEnd::CutOff,
                    });
                }
                true => self.end = Some(LogEnd::CutOff),
                false => self.read_block()?,
            }
            return Ok(None);
        }
        let header = &self.block[self.at..];
        let (length, kind) = (usize::from(u16::from_le_bytes([header[4], header[5]])), header[6]);
        if kind == 0 && length == 0 {
            // Filler, or space that was allocated ahead: the rest of the block holds no record.
            if self.first_offset.is_some() && !self.pieces.is_empty() {
                self.damaged(offset, "a further fragment of the record", "filler");
                return Ok(None);
            }
            self.at = self.block.len();
            return Ok(None);
        }
        let is_short_of_file = is_last_block && self.block.len() < BLOCK_BYTES;
        let is_recyclable = matches!(kind, 5..=8 | 11 | 131);
        let header_bytes = if is_recyclable { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        if remaining >= header_bytes && is_recyclable {
            if fixed32(&header[HEADER_BYTES..]) != self.number {
                // These bytes belong to the log that this one overwrites.
                self.end = Some(LogEnd::Clean);
                return Ok(None);
            }
            if self.is_recyclable == Some(false) {
                self.damaged(offset, "a record without a log number, as before", "one with it");
                return Ok(None);
            }
        }
        let end = header_bytes + length;
        if remaining < end {
            match is_short_of_file {
                true => self.end = Some(LogEnd::CutOff),
                false => self.damaged(
                    offset,
                    format_args!("a record of at most {remaining} bytes, to the block's end"),
                    format_args!("{end} bytes"),
                ),
            }
            return Ok(None);
        }
        let header = &self.block[self.at..];
        let (stored, computed) = (fixed32(header), masked_crc32c(&header[6..end]));
        if stored != computed {
            self.damaged(
                offset,
                format_args!("the record's checksum {computed:#010x}"),
                format_args!("{stored:#010x}"),
            );
            return Ok(None);
        }
        if matches!(kind, WHOLE..=8) {
            self.is_recyclable = Some(is_recyclable);
        }
        let payload = self.at + header_bytes..self.at + end;
        self.at += end;
        Ok(Some(Fragment { kind, offset, payload }))
    }

    /// Reads the block after the one in memory.
    fn read_block(&mut self) -> Result<()> {
        let offset = self.block_offset + self.block.len() as u64;
        let bytes = (self.file.len() - offset).min(BLOCK_BYTES as u64) as usize;
        self.block_offset = offset;
        self.block.resize(bytes, 0);
        self.at = 0;
        self.file.read_exact_at(offset, &mut self.block)
    }

    fn damaged(
        &mut self,
        offset: u64,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) {
        let damage = Damage { offset, ..Damage::new(0, expected, found) };
        self.end = Some(LogEnd::Damaged(damage));
    }

    fn refused(&self, refusal: Refusal, offset: u64) -> Error {
        refusal.in_file(self.file.path(), offset)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::{LogBytes, put_file};
    use super::*;
    use crate::fs::MemFs;

    const NUMBER: u64 = 7;

    /// The payloads of a log with these bytes, and how it ends.
    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, LogEnd) {
        let (fs, path) = (MemFs::new(), Path::new("000007.log"));
        put_file(&fs, path, bytes);
        let mut log = RecordLog::open(&fs, path, NUMBER).unwrap();
        let mut records = Vec::new();
        while let Some(record) = log.next().unwrap() {
            records.push(record.payload.to_vec());
        }
        (records, log.end().clone())
    }

    fn payloads() -> Vec<Vec<u8>> {
        // Empty records, records longer than a block, and records a little shorter than a block,
        // each of which ends elsewhere in its block.
        let mut sizes = vec![0, 1, 100, 3 * BLOCK_BYTES, 0];
        sizes.extend((0..12).map(|spare| BLOCK_BYTES - 2 * HEADER_BYTES - 40 - spare));
        sizes.extend([BLOCK_BYTES, 17]);
        sizes.iter().enumerate().map(|(i, &size)| vec![i as u8; size]).collect()
    }

    #[test]
    fn records_of_every_length_are_read_with_either_header() {
        for number in [None, Some(NUMBER)] {
            let mut log = LogBytes::new(number);
            payloads().iter().for_each(|payload| log.add(payload));
            assert_eq!(read(&log.bytes), (payloads(), LogEnd::Clean), "{number:?}");
        }
    }

    /// No record of [`payloads`] leaves so few bytes in its block that the next header does not
    /// fit. Here each record leaves `spare` bytes: too few for a header, which are filled with
    /// zeros, exactly a header, so that an empty first fragment follows, or a little more.
    #[test]
    fn records_after_every_end_of_a_block_are_read() {
        for (number, header) in [(None, HEADER_BYTES), (Some(NUMBER), RECYCLABLE_HEADER_BYTES)] {
            let mut log = LogBytes::new(number);
            let mut records = Vec::new();
            let mut fillers = 0;
            for spare in 0..=12 {
                let room = BLOCK_BYTES - log.bytes.len() % BLOCK_BYTES;
                records.push(vec![spare as u8; room - header - spare]);
                log.add(&records[records.len() - 1]);
                let left = log.bytes.len().next_multiple_of(BLOCK_BYTES) - log.bytes.len();
                assert_eq!(left, spare);
                fillers += usize::from((1..header).contains(&left));
                let start = log.bytes.len();
                records.push(match spare == header {
                    true => vec![7; BLOCK_BYTES + 100],
                    false => b"next".to_vec(),
                });
                log.add(&records[records.len() - 1]);
                if spare == header {
                    let first = &log.bytes[start + 4..start + 7];
                    let kind = if number.is_some() { FIRST + RECYCLABLE } else { FIRST };
                    assert_eq!(first, [0, 0, kind], "the first fragment is empty");
                }
            }
            assert_eq!(fillers, header - 1);
            assert_eq!(read(&log.bytes), (records, LogEnd::Clean), "{number:?}");
        }
    }

    #[test]
    fn a_log_that_is_cut_anywhere_gives_the_records_before_the_cut() {
        let mut log = LogBytes::new(None);
        let all: Vec<Vec<u8>> = [40, 0, BLOCK_BYTES + 5, 9].map(|size| vec![3; size]).to_vec();
        let mut ends = vec![0];
        for payload in &all {
            log.add(payload);
            ends.push(log.bytes.len());
        }
        for cut in (0..log.bytes.len()).step_by(7).chain(ends.iter().copied()) {
            let (records, end) = read(&log.bytes[..cut]);
            let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
            assert_eq!(records, all[..whole], "{cut}");
            // A file that ends within a record is cut off, even if it ends with a whole block.
            let expected = if ends.contains(&cut) { LogEnd::Clean } else { LogEnd::CutOff };
            assert_eq!(end, expected, "{cut}");
        }
    }

    #[test]
    fn a_changed_byte_ends_the_log_before_its_record() {
        let mut log = LogBytes::new(None);
        [&b"first"[..], b"second"].iter().for_each(|payload| log.add(payload));
        for at in 12..log.bytes.len() {
            let mut changed = log.bytes.clone();
            changed[at] ^= 0x10;
            let (records, end) = read(&changed);
            assert_eq!(records, [b"first"], "{at}");
            assert_ne!(end, LogEnd::Clean, "{at}");
        }
    }

    #[test]
    fn what_an_older_log_left_behind_is_not_read() {
        let mut log = LogBytes::new(Some(NUMBER));
        log.add(b"new");
        let new_bytes = log.bytes.len();
        let mut old = LogBytes::new(Some(3));
        (0..9).for_each(|_| old.add(b"old"));
        // The old record after the new one is whole.
        log.bytes.extend_from_slice(&old.bytes);
        assert_eq!(read(&log.bytes), (vec![b"new".to_vec()], LogEnd::Clean));
        // Now the old record was partly overwritten.
        log.bytes.truncate(new_bytes);
        log.bytes.extend_from_slice(&old.bytes[5..]);
        let (records, end) = read(&log.bytes);
        assert_eq!(records, [b"new"]);
        assert!(matches!(end, LogEnd::Damaged(_)), "{end:?}");
    }

    #[test]
    fn space_that_was_allocated_ahead_is_the_end() {
        let mut log = LogBytes::new(None);
        log.add(b"one");
        log.bytes.resize(3 * BLOCK_BYTES + 100, 0);
        assert_eq!(read(&log.bytes), (vec![b"one".to_vec()], LogEnd::Clean));
    }

    #[test]
    fn fragments_out_of_order_are_damage() {
        for kinds in [&[LAST][..], &[MIDDLE], &[FIRST, WHOLE], &[FIRST, FIRST]] {
            let mut log = LogBytes::new(None);
            kinds.iter().for_each(|&kind| log.add_fragment(kind, b"piece"));
            let (records, end) = read(&log.bytes);
            assert!(records.is_empty() && matches!(end, LogEnd::Damaged(_)), "{kinds:?}: {end:?}");
        }
        // Old writers left an empty first fragment at the end of a block.
        let mut log = LogBytes::new(None);
        log.add_fragment(FIRST, b"");
        log.add_fragment(WHOLE, b"whole");
        assert_eq!(read(&log.bytes), (vec![b"whole".to_vec()], LogEnd::Clean));
    }

    #[test]
    fn kinds_are_skipped_or_refused_by_name() {
        let with = |kind: u8, payload: &[u8]| {
            let mut log = LogBytes::new(None);
            log.add_fragment(kind, payload);
            log.add(b"behind");
            let (fs, path) = (MemFs::new(), Path::new("000007.log"));
            put_file(&fs, path, &log.bytes);
            let mut log = RecordLog::open(&fs, path, NUMBER).unwrap();
            log.next().map(|record| record.unwrap().payload.to_vec())
        };
        for skipped in [130, 200, 255] {
            assert_eq!(with(skipped, &[0; 24]).unwrap(), b"behind");
        }
        for (refused, name) in
            [(10, "timestamps"), (12, "type 12"), (127, "type 127"), (9, "compression")]
        {
            let error = with(refused, &[1, 0, 0, 0]).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

//! Reads a log front to back and decides where it ends.
//!
//! A record is bad if its header or its payload fails the CRC, or if the file is too short for it.
//! [`LogReader::next`] returns nothing after a bad record. To find out whether the bad record was
//! durable, the reader searches the later bytes for a record header that says so:
//! ```text
//!            bad                        claim: synced_to > offset of bad
//! | record | ~~~~~~ | … | record | … | record |   → rot:  Error::Corruption at bad
//! | record | ~~~~~~ | … | record | … end          → torn: the log ends at bad
//! ```
//!
//! A valid header is enough for this claim, because it states how far the file was synced when the
//! header was written. The payload after it may be damaged.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::format::{
    FILE_HEADER_BYTES, LogKind, LogVersion, RECORD_HEADER_BYTES, RecordHeader, check_file_header,
};
use crate::error::{Error, Result};
use crate::fs::{Fs, RandomAccessFile};

/// Bytes read at a time, unless a record needs more.
const READ_BYTES: u64 = 64 << 10;

/// One record. The payload borrows the reader's buffer.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub payload: &'a [u8],
    /// The offset of the payload in the file, for errors about its content.
    pub payload_offset: u64,
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// The log ends with its last record.
    Clean,
    /// The log ends with bytes that were never durable, from this offset on.
    Torn { offset: u64 },
}

#[derive(Debug)]
pub(crate) struct LogReader {
    window: ReadWindow,
    number: u64,
    kind: LogKind,
    version: Option<LogVersion>,
    /// The offset of the next record.
    position: u64,
    synced_to: u64,
    tail: Option<Tail>,
}

impl LogReader {
    /// Opens the log and checks its file header. If the file ends within its header, or the header
    /// is zeros, a crash came right after its creation, and the log counts as empty. Such a log is
    /// an error only if a later record header says that the file had been synced.
    pub fn open(fs: &dyn Fs, path: &Path, kind: LogKind, number: u64) -> Result<LogReader> {
        let mut reader = LogReader::open_damaged(fs, path, kind, number)?;
        match reader.window.array::<FILE_HEADER_BYTES>(0)? {
            Some(header) if header != [0; FILE_HEADER_BYTES] => {
                let (kind, version) = check_file_header(path, &header, kind, number)?;
                (reader.kind, reader.version) = (kind, Some(version));
            }
            _ => reader.end_at(0, FILE_HEADER_BYTES as u64, "no file header".into())?,
        }
        Ok(reader)
    }

    /// Like [`LogReader::open`], but without the check of the file header. The record headers are
    /// still checked: only those of the log `number` are valid.
    pub fn open_damaged(fs: &dyn Fs, path: &Path, kind: LogKind, number: u64) -> Result<LogReader> {
        Ok(LogReader {
            window: ReadWindow::new(fs.open(path)?),
            number,
            kind,
            version: None,
            position: FILE_HEADER_BYTES as u64,
            synced_to: 0,
            tail: None,
        })
    }

    /// Continues, after the end or an error, at the next intact record after the damage. Returns
    /// the record's offset, or `None` if no intact record follows. Only repair may call this,
    /// because records with a hole between them were never the state of any database.
    pub fn skip_damage(&mut self) -> Result<Option<u64>> {
        let bad = self.position;
        // A user's value in the payload may look like a record. So if the header at `bad` is valid,
        // the search begins after its payload.
        let mut from = match self.header_at(bad)? {
            Some(header) => header.end(bad),
            None => bad + 1,
        };
        while let Some((offset, header)) = self.find_header(from)? {
            let payload = self
                .window
                .bytes(offset + RECORD_HEADER_BYTES as u64, header.payload_bytes as usize)?;
            if payload.is_some_and(|payload| crc32fast::hash(payload) == header.payload_crc32) {
                self.position = offset;
                self.tail = None;
                return Ok(Some(offset));
            }
            from = header.end(offset);
        }
        Ok(None)
    }

    /// The next record, or `None` at the end of the log, clean or torn.
    ///
    /// # Errors
    /// [`Error::Corruption`] if durable bytes have changed.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        while self.tail.is_none() {
            let offset = self.position;
            if offset == self.window.file.len() {
                self.tail = Some(Tail::Clean);
                break;
            }
            let Some(header) = self.header_at(offset)? else {
                self.end_at(offset, offset + 1, "no valid record header".into())?;
                break;
            };
            let payload_offset = offset + RECORD_HEADER_BYTES as u64;
            let Some(payload) = self.window.bytes(payload_offset, header.payload_bytes as usize)?
            else {
                self.end_at(offset, header.end(offset), "the end of the file".into())?;
                break;
            };
            let crc32 = crc32fast::hash(payload);
            if crc32 != header.payload_crc32 {
                let found = format!(
                    "payload checksum {crc32:#010x} instead of {:#010x}",
                    header.payload_crc32
                );
                self.end_at(offset, header.end(offset), found)?;
                break;
            }
            self.position = header.end(offset);
            self.synced_to = self.synced_to.max(header.synced_to);
            if header.payload_bytes > 0 {
                // The payload is borrowed a second time, because the first borrow must end within
                // the loop. Nothing is read, because the bytes are still in the window.
                let payload = self.window.bytes(payload_offset, header.payload_bytes as usize)?;
                let payload = payload.unwrap_or_default();
                return Ok(Some(Record { payload, payload_offset }));
            }
        }
        Ok(None)
    }

    /// The kind in the file header, or the kind that the caller expects if there is no header.
    pub fn kind(&self) -> LogKind {
        self.kind
    }

    /// The version in the file header; `None` if no header was read.
    pub fn version(&self) -> Option<LogVersion> {
        self.version
    }

    /// The end of the records read so far, those without payload included; 0 for a log whose file
    /// header was torn.
    pub fn end(&self) -> u64 {
        match self.tail {
            Some(Tail::Torn { offset: 0 }) => 0,
            _ => self.position,
        }
    }

    /// How the log ends; `None` before `next` has returned `None`. Recovery does not use this,
    /// because it judges all logs together, by their sequence numbers.
    #[cfg(any(test, fuzzing))]
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// The largest `synced_to` in the record headers seen so far. When the log has ended, the
    /// reader has also seen the record headers after a torn record. So from then on the result is
    /// above 0 exactly if the file is known to have been synced.
    pub fn synced_to(&self) -> u64 {
        self.synced_to
    }

    /// Decides whether the bad record at `bad` is a torn tail or rot. The search for evidence
    /// starts at `search_from`. If the header of the bad record is valid, `search_from` is after
    /// the record's payload, because a user's value is not evidence.
    fn end_at(&mut self, bad: u64, search_from: u64, found: String) -> Result<()> {
        let mut search_from = search_from;
        while let Some((offset, header)) = self.find_header(search_from)? {
            if header.synced_to > bad {
                return Err(Error::Corruption {
                    file: self.window.file.path().to_owned(),
                    offset: bad,
                    expected: format!(
                        "intact bytes, because the record at offset {offset} says that all before {} \
                         had been synced",
                        header.synced_to
                    ),
                    found,
                });
            }
            self.synced_to = self.synced_to.max(header.synced_to);
            search_from = header.end(offset);
        }
        self.tail = Some(Tail::Torn { offset: bad });
        Ok(())
    }

    /// The first valid record header at or after `offset`.
    fn find_header(&mut self, mut offset: u64) -> Result<Option<(u64, RecordHeader)>> {
        let number = self.number;
        while let Some(bytes) = self.window.from(offset, RECORD_HEADER_BYTES)? {
            let candidates = bytes.windows(RECORD_HEADER_BYTES);
            let searched = candidates.len() as u64;
            let found = (offset..).zip(candidates).find_map(|(offset, bytes)| {
                RecordHeader::decode(bytes.try_into().ok()?, number, offset).map(|h| (offset, h))
            });
            if found.is_some() {
                return Ok(found);
            }
            offset += searched;
        }
        Ok(None)
    }

    fn header_at(&mut self, offset: u64) -> Result<Option<RecordHeader>> {
        let bytes = self.window.array::<RECORD_HEADER_BYTES>(offset)?;
        Ok(bytes.and_then(|bytes| RecordHeader::decode(&bytes, self.number, offset)))
    }
}

/// The part of the file that is in memory, around the reader's position.
#[derive(Debug)]
struct ReadWindow {
    file: Arc<dyn RandomAccessFile>,
    bytes: Vec<u8>,
    offset: u64,
}

impl ReadWindow {
    fn new(file: Arc<dyn RandomAccessFile>) -> ReadWindow {
        ReadWindow { file, bytes: Vec::new(), offset: 0 }
    }

    /// The bytes `offset..offset + count` of the file. `None` if the file is shorter, so that a
    /// damaged length never allocates more than the file's size.
    fn bytes(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>> {
        Ok(self.from(offset, count)?.map(|bytes| &bytes[..count]))
    }

    /// Like [`ReadWindow::bytes`], but returns all bytes from `offset` on that are in memory, at
    /// least `count`.
    fn from(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>> {
        let remaining = self.file.len().saturating_sub(offset);
        if count as u64 > remaining {
            return Ok(None);
        }
        let inside =
            offset >= self.offset && offset + count as u64 <= self.offset + self.bytes.len() as u64;
        if !inside {
            // The buffer is taken out of the window while it is filled, so that the window is empty
            // after a failed read.
            let mut bytes = std::mem::take(&mut self.bytes);
            let wanted = remaining.min(READ_BYTES.max(count as u64)) as usize;
            // A record may have gigabytes. If memory is short, return an error instead of aborting.
            if bytes.try_reserve_exact(wanted.saturating_sub(bytes.len())).is_err() {
                let cause = ErrorKind::OutOfMemory.into();
                return Err(Error::io(self.file.path(), "get memory to read", cause));
            }
            bytes.resize(wanted, 0);
            self.file.read_exact_at(offset, &mut bytes)?;
            (self.bytes, self.offset) = (bytes, offset);
        }
        Ok(Some(&self.bytes[(offset - self.offset) as usize..]))
    }

    fn array<const N: usize>(&mut self, offset: u64) -> Result<Option<[u8; N]>> {
        Ok(self.bytes(offset, N)?.and_then(|bytes| bytes.try_into().ok()))
    }
}

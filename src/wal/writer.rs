//! Appends records to a new log.
//!
//! ```text
//! create → (append | sync)* → drop
//! ```
//!
//! Invariants:
//!
//! * After the first failed sync, or a failed write that leaves anything in doubt, nothing more reaches
//!   the file: a second sync can falsely succeed (see [`crate::fs`]).
//! * After an append for which there was no space the log has **ended**: a part of that record may stand
//!   behind its last one, where no reader returns anything, so no record may follow. What came before can
//!   still be synced. Whoever has more to write begins another log.

use std::path::Path;

use super::{FILE_HEADER_BYTES, LogKind, RecordHeader, encode_file_header};
use crate::error::{Error, Result};
use crate::fs::{Fs, WritableFile};

#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Box<dyn WritableFile>,
    number: u64,
    /// All bytes before this offset are durable.
    synced_to: u64,
    /// Whether something but a mark was written after the last sync.
    unsynced: bool,
    /// Where the records end, and the error that ended the log there.
    ended: Option<(u64, Error)>,
    /// What made this writer unusable.
    failed: Option<Error>,
}

impl LogWriter {
    /// Creates the log with its file header. Neither the header nor the name is durable before
    /// [`LogWriter::sync`] and [`Fs::sync_dir`].
    pub fn create(fs: &dyn Fs, path: &Path, kind: LogKind, number: u64) -> Result<LogWriter> {
        let mut file = match kind {
            LogKind::Wal => fs.create_log(path)?,
            // Written at once, or each of its records is synced.
            LogKind::Manifest | LogKind::RecoveredWal => fs.create(path)?,
        };
        let header = encode_file_header(kind, number);
        if let Err(error) = file.append(&header).and_then(|()| file.flush()) {
            drop(file);
            // It holds nothing, and its number will not be used again.
            let _ = fs.remove(path);
            return Err(error);
        }
        Ok(LogWriter { file, number, synced_to: 0, unsynced: true, ended: None, failed: None })
    }

    /// Appends one record, whose payload is the concatenation of `parts`, and hands it to the
    /// operating system: when this returns, the record survives the end of this process. Returns
    /// the offset of the record.
    ///
    /// The payload has 1 to 2^32 - 1 bytes; another is refused and leaves the log as it was. An error that
    /// [is out of space](Error::is_out_of_space) ends the log; the record is not in it.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        self.usable()?;
        if let Some((_, error)) = &self.ended {
            return Err(error.clone());
        }
        let payload_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let Some(payload_bytes) = u32::try_from(payload_bytes).ok().filter(|&bytes| bytes > 0)
        else {
            return Err(Error::InvalidArgument(format!(
                "a log record holds 1 to 4294967295 bytes, not {payload_bytes}"
            )));
        };
        let offset = self.file.len();
        match self.write(payload_bytes, parts) {
            Ok(()) => {
                self.unsynced = true;
                Ok(offset)
            }
            Err(error) => Err(self.end_or_fail(offset, error)),
        }
    }

    /// Makes every record so far durable.
    pub fn sync(&mut self) -> Result<()> {
        self.usable()?;
        if !self.unsynced {
            return Ok(());
        }
        if let Err(error) = self.file.sync() {
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.synced_to = self.len();
        self.unsynced = false;
        if self.ended.is_none() {
            // The mark. The records are durable whether or not it can be written; if not, the next
            // append says so.
            let offset = self.file.len();
            if let Err(error) = self.write(0, &[]) {
                self.end_or_fail(offset, error);
            }
        }
        Ok(())
    }

    /// Bytes of the file up to the end of its records.
    pub fn len(&self) -> u64 {
        self.ended.as_ref().map_or(self.file.len(), |&(offset, _)| offset)
    }

    /// Whether nothing but the file header was written.
    pub fn is_empty(&self) -> bool {
        self.len() <= FILE_HEADER_BYTES as u64
    }

    /// All bytes before this offset are durable.
    pub fn synced_to(&self) -> u64 {
        self.synced_to
    }

    /// Whether no record can be appended any more, for want of space.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    fn write(&mut self, payload_bytes: u32, parts: &[&[u8]]) -> Result<()> {
        let mut payload_crc32 = crc32fast::Hasher::new();
        parts.iter().for_each(|part| payload_crc32.update(part));
        let payload_crc32 = payload_crc32.finalize();
        let header = RecordHeader { payload_crc32, payload_bytes, synced_to: self.synced_to };
        self.file.append(&header.encode(self.number, self.file.len()))?;
        parts.iter().try_for_each(|part| self.file.append(part))?;
        self.file.flush()
    }

    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// What becomes of the log when the record at `offset` could not be written; answers the error.
    fn end_or_fail(&mut self, offset: u64, error: Error) -> Error {
        if error.is_out_of_space() {
            self.file.discard_unflushed();
            self.ended = Some((offset, error.clone()));
        } else {
            self.failed = Some(error.clone());
        }
        error
    }
}

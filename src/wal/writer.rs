//! Appends records to a new log.
//!
//! ```text
//! create → (append | sync)* → drop
//! ```
//!
//! Invariant: after the first failed write or sync nothing more reaches the file. A record behind
//! a torn one would never be read, and a second sync can falsely succeed (see [`crate::fs`]).

use std::path::Path;

use super::{LogKind, RecordHeader, encode_file_header};
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
    /// What made this writer unusable.
    failed: Option<Error>,
}

impl LogWriter {
    /// Creates the log with its file header. Neither the header nor the name is durable before
    /// [`LogWriter::sync`] and [`Fs::sync_dir`].
    pub fn create(fs: &dyn Fs, path: &Path, kind: LogKind, number: u64) -> Result<LogWriter> {
        let mut file = match kind {
            LogKind::Wal => fs.create_log(path)?,
            // Each of its records is synced.
            LogKind::Manifest => fs.create(path)?,
        };
        file.append(&encode_file_header(kind, number))?;
        file.flush()?;
        Ok(LogWriter { file, number, synced_to: 0, unsynced: true, failed: None })
    }

    /// Appends one record, whose payload is the concatenation of `parts`, and hands it to the
    /// operating system: when this returns, the record survives the end of this process. Returns
    /// the offset of the record.
    ///
    /// The payload has 1 to 2^32 - 1 bytes; another is refused and leaves the log as it was.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        self.usable()?;
        let payload_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let Some(payload_bytes) = u32::try_from(payload_bytes).ok().filter(|&bytes| bytes > 0)
        else {
            return Err(Error::InvalidArgument(format!(
                "a log record holds 1 to 4294967295 bytes, not {payload_bytes}"
            )));
        };
        self.unsynced = true;
        let offset = self.file.len();
        let result = self.write(payload_bytes, parts);
        self.latch(result)?;
        Ok(offset)
    }

    /// Makes every record so far durable.
    pub fn sync(&mut self) -> Result<()> {
        self.usable()?;
        if !self.unsynced {
            return Ok(());
        }
        let result = self.file.sync();
        self.latch(result)?;
        self.synced_to = self.file.len();
        self.unsynced = false;
        // The mark. The records are durable whether or not it can be written; if not, the next
        // append says so.
        let result = self.write(0, &[]);
        let _ = self.latch(result);
        Ok(())
    }

    /// Bytes of the file so far.
    pub fn len(&self) -> u64 {
        self.file.len()
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

    fn latch<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }
}

//! Appends records to a new log.
//!
//! ```text
//! create → (append | sync)* → drop
//! ```
//!
//! After a sync that has made bytes durable, the writer appends a **mark**: a record without
//! payload, which tells readers how far the file was synced.
//!
//! Invariants:
//!
//! * After a failed sync, or a write that failed for another reason than lack of space or memory,
//!   nothing more reaches the file, because a second sync can falsely succeed (see [`crate::fs`]).
//! * After an append that found no space or no memory the log has **ended**. A part of the failed
//!   record may follow the last complete one, but never the whole record, and no zeros that could
//!   complete it. No reader returns anything after that part, so no record may follow. Earlier
//!   records can still be synced. The next record needs another log, and gets the sequence numbers
//!   of the failed one.

use std::path::Path;

use super::format::{FILE_HEADER_BYTES, LogKind, LogVersion, RecordHeader, encode_file_header};
use crate::error::{Error, Result};
use crate::fs::{self, Fs, WritableFile};
use crate::sync::rank::assert_may_wait;

#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Box<dyn WritableFile>,
    number: u64,
    version: LogVersion,
    /// All bytes before this offset are durable.
    synced_to: u64,
    /// Whether the file header or a record, other than a mark, was written after the last sync.
    unsynced: bool,
    /// The end of the records, and the error that ended the log there.
    ended: Option<(u64, Error)>,
    /// The error that made this writer unusable.
    failed: Option<Error>,
}

impl LogWriter {
    /// [`LogWriter::create_in_version`], for a database of one keyspace.
    #[cfg(test)]
    pub fn create(fs: &dyn Fs, path: &Path, kind: LogKind, number: u64) -> Result<LogWriter> {
        LogWriter::create_in_version(fs, path, kind, number, LogVersion::default())
    }

    /// Creates the log with its file header. [`LogWriter::sync`] makes the header durable, and
    /// [`Fs::sync_dir`] the file's name.
    pub fn create_in_version(
        fs: &dyn Fs,
        path: &Path,
        kind: LogKind,
        number: u64,
        version: LogVersion,
    ) -> Result<LogWriter> {
        let mut file = match kind {
            LogKind::Wal => fs.create_log(path)?,
            // A memory-mapped file, as [`Fs::create_log`] may return, makes many small appends
            // cheap. It would not be faster here, because the WAL that an opening writes anew is
            // written in one go, and each record of a MANIFEST is synced.
            LogKind::Manifest | LogKind::RecoveredWal => fs.create(path)?,
        };
        let header = encode_file_header(kind, number, version);
        if let Err(error) = file.append(&header).and_then(|()| file.flush()) {
            drop(file);
            // It does no harm if the file cannot be removed, because the file has no record and its
            // number is not used again.
            fs::tidy_away(fs, path);
            return Err(error);
        }
        let (synced_to, unsynced) = (0, true);
        Ok(LogWriter { file, number, version, synced_to, unsynced, ended: None, failed: None })
    }

    pub fn version(&self) -> LogVersion {
        self.version
    }

    /// Appends one record and hands it to the operating system: when this returns, the record
    /// survives the end of this process. The payload is the concatenation of `parts`. Returns the
    /// offset of the record.
    ///
    /// A payload must have 1 to 2^32 - 1 bytes; a payload of another size is rejected and leaves
    /// the log unchanged. If space or memory runs out ([`Error::changed_nothing`]), the log ends
    /// without the record.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        assert_may_wait();
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
        assert_may_wait();
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
            // Writes the mark. If the mark cannot be written, the sync has still succeeded, and the
            // next append returns the error.
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

    /// Whether only the file header was written.
    pub fn is_empty(&self) -> bool {
        self.len() <= FILE_HEADER_BYTES as u64
    }

    /// All bytes before this offset are durable.
    pub fn synced_to(&self) -> u64 {
        self.synced_to
    }

    /// Whether a record or a mark found no space or memory, so that no record can be appended any
    /// more.
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

    /// Call this after the write of the record at `offset` failed with `error`. Ends the log before
    /// the record if the error is a lack of space or memory, and otherwise makes the writer
    /// unusable. Returns `error`, or the error because of which the log could not be ended.
    fn end_or_fail(&mut self, offset: u64, error: Error) -> Error {
        let discarded = match error.changed_nothing() {
            true => self.file.discard_unflushed(),
            false => Err(error.clone()),
        };
        match discarded {
            Ok(()) => {
                self.ended = Some((offset, error.clone()));
                error
            }
            Err(error) => {
                self.failed = Some(error.clone());
                error
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::StorageFull;

    use super::*;

    /// A file on a full disk that cannot be ended.
    #[derive(Debug)]
    struct Stuck;

    impl WritableFile for Stuck {
        fn append(&mut self, _: &[u8]) -> Result<()> {
            Err(Error::io(self.path(), "write", StorageFull.into()))
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
        fn discard_unflushed(&mut self) -> Result<()> {
            Err(Error::io(self.path(), "sync the shortened file", StorageFull.into()))
        }
        fn sync(&mut self) -> Result<()> {
            Ok(())
        }
        fn len(&self) -> u64 {
            FILE_HEADER_BYTES as u64
        }
        fn path(&self) -> &Path {
            Path::new("000013.wal")
        }
    }

    /// A part of the record may be in the file, with zeros behind it.
    #[test]
    fn a_log_that_cannot_be_ended_does_not_promise_that_the_write_has_not_happened() {
        let file = Box::new(Stuck);
        let mut writer = LogWriter {
            file,
            number: 13,
            version: LogVersion::default(),
            synced_to: 0,
            unsynced: true,
            ended: None,
            failed: None,
        };
        let error = writer.append(&[b"record"]).unwrap_err();
        assert!(!error.is_out_of_space() && !error.changed_nothing(), "{error}");
        assert!(!writer.has_ended() && writer.sync().is_err());
    }
}

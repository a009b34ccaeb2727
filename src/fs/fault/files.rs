//! The files of a [`FaultFs`](super::FaultFs), whose calls are counted and may fail.

use std::path::Path;
use std::sync::Arc;

use super::rules::{Control, Fault, Operation};
use crate::error::Result;
use crate::fs::{RandomAccessFile, WritableFile};

#[derive(Debug)]
pub(super) struct FaultWritableFile {
    pub inner: Box<dyn WritableFile>,
    pub control: Arc<Control>,
    pub sync_failed: bool,
}

impl WritableFile for FaultWritableFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self.control.decide(Operation::Append, self.inner.path()) {
            Ok(()) => self.inner.append(bytes),
            Err(fault) => {
                if fault == Fault::ShortWrite {
                    self.inner.append(&bytes[..bytes.len() / 2])?;
                    self.inner.flush()?;
                }
                Err(fault.error(Operation::Append, self.inner.path()))
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.control.admit(Operation::Flush, self.inner.path())?;
        self.inner.flush()
    }

    fn discard_unflushed(&mut self) -> Result<()> {
        self.inner.discard_unflushed()
    }

    fn sync(&mut self) -> Result<()> {
        let admitted = self.control.admit(Operation::Sync, self.inner.path());
        self.sync_failed |= admitted.is_err();
        admitted?;
        // As on Linux, the failed sync has marked the pages clean, so later syncs write nothing.
        if self.sync_failed { self.inner.flush() } else { self.inner.sync() }
    }

    pass_on! { self.inner =>
        fn len(&self) -> u64;
        fn path(&self) -> &Path;
    }
}

#[derive(Debug)]
pub(super) struct FaultRandomAccessFile {
    pub inner: Arc<dyn RandomAccessFile>,
    pub control: Arc<Control>,
}

impl RandomAccessFile for FaultRandomAccessFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.control.admit(Operation::ReadExactAt, self.inner.path())?;
        self.inner.read_exact_at(offset, buffer)
    }

    pass_on! { self.inner =>
        fn len(&self) -> u64;
        fn path(&self) -> &Path;
        fn keep_open(&self) -> Result<bool>;
        fn drop_page_cache(&self) -> Result<()>;
    }

    /// Returns `false`, so that an `OverlappedReader` executes the reads in order, and the n-th
    /// read is the same in every run. `descriptor` is not passed on, because reads through a
    /// descriptor would bypass the rules.
    fn waits_for_device(&self) -> bool {
        false
    }
}

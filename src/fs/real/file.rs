//! [`RealWritableFile`] and [`RealRandomAccessFile`]: the operating system's files, open for writing
//! or for reading.
//!
//! A buffer gathers writes, so that one system call writes many blocks of a table, or all parts of
//! a log record. Reads are positioned (`pread`), so that threads can share a descriptor.
//!
//! A write that would exceed the process's limit on file length (RLIMIT_FSIZE) is rejected before
//! the system call, because the system would end the process by the signal SIGXFSZ.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fs::anchored::SystemFs;
use crate::fs::descriptors::{HeldDescriptor, with_descriptor};
use crate::fs::limits::check_file_length;
use crate::fs::system::{self, Anchor, Borrowed, Descriptor};
use crate::fs::{RandomAccessFile, WRITE_BUFFER_BYTES, WritableFile, past_end};
use crate::sync::Process;

const NO_NAME: &str = "the file was removed while it was being written, with its directory perhaps";

#[derive(Debug)]
pub(in crate::fs) struct RealWritableFile {
    path: PathBuf,
    file: File,
    pub(super) buffer: Vec<u8>,
    /// Bytes passed to the operating system.
    pub(super) written_bytes: u64,
    /// The process that created the file. A forked child writes nothing, because its parent may
    /// write to the same position of the file.
    process: Process,
}

fn create_new(anchor: Option<&Anchor>, path: &Path) -> Result<File> {
    let create_new = || with_descriptor(|| system::create_new(anchor, path));
    let file = match create_new() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            system::remove(anchor, path).and_then(|()| create_new())
        }
        result => result,
    };
    file.map_err(|error| Error::io(path, "create", error))
}

impl RealWritableFile {
    /// Creates an empty file, which replaces an older one of this name.
    pub fn create(anchor: Option<&Anchor>, path: &Path) -> Result<RealWritableFile> {
        let file = create_new(anchor, path)?;
        let path = path.to_owned();
        let process = Process::current();
        Ok(RealWritableFile { path, file, buffer: Vec::new(), written_bytes: 0, process })
    }

    /// Passes `bytes` to the operating system, after the bytes that were passed before.
    fn write(&self, bytes: &[u8]) -> Result<()> {
        self.process.check()?;
        check_file_length(&self.path, self.written_bytes + bytes.len() as u64)?;
        system::write_all_at(&self.file, bytes, self.written_bytes)
            .map_err(|error| Error::io(&self.path, "write", error))
    }
}

/// The methods that `mapped.rs` needs to write the file through a mapping.
#[cfg(target_os = "linux")]
impl RealWritableFile {
    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Counts `bytes` bytes that reached the file through a mapping, so that the next write starts
    /// after them.
    pub fn skip(&mut self, bytes: u64) {
        debug_assert!(self.buffer.is_empty());
        self.written_bytes += bytes;
    }

    /// Durably cuts the file to its first `bytes` bytes.
    pub fn cut(&mut self, bytes: u64) -> Result<()> {
        self.process.check()?;
        self.buffer.clear();
        let cut = self.file.set_len(bytes).and_then(|()| self.file.sync_data());
        cut.map_err(|error| Error::io(&self.path, "sync the shortened file", error))?;
        self.written_bytes = bytes;
        Ok(())
    }
}

impl WritableFile for RealWritableFile {
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            // The number of bytes from the end of the file to the next multiple of the buffer's
            // size. If the file ends at a multiple, this is the whole size.
            let room = WRITE_BUFFER_BYTES - self.len() as usize % WRITE_BUFFER_BYTES;
            if bytes.len() < room {
                self.buffer.extend_from_slice(bytes);
                return Ok(());
            }
            let (front, rest) = bytes.split_at(room);
            if self.buffer.is_empty() {
                self.write(front)?;
                self.written_bytes += front.len() as u64;
            } else {
                self.buffer.extend_from_slice(front);
                self.flush()?;
            }
            bytes = rest;
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.write(&self.buffer)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn discard_unflushed(&mut self) -> Result<()> {
        self.buffer.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.process.check()?;
        self.flush()?;
        // `fdatasync` makes the bytes and the length of the file durable, and leaves the time
        // stamps out of the journal.
        let synced = self.file.sync_data().and_then(|()| match system::has_name(&self.file)? {
            true => Ok(()),
            // The file has no name any more, so it is lost when this process ends, and nothing can
            // make it durable.
            false => Err(io::Error::new(ErrorKind::NotFound, NO_NAME)),
        });
        synced.map_err(|error| Error::io(&self.path, "sync", error))
    }

    fn len(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A file that keeps its descriptor.
#[derive(Debug)]
pub(in crate::fs) struct RealRandomAccessFile {
    path: PathBuf,
    descriptor: Descriptor,
    len: u64,
}

impl RealRandomAccessFile {
    pub fn open(path: &Path, fs: &SystemFs) -> Result<RealRandomAccessFile> {
        let opened = fs.open_read_only(path);
        let (descriptor, metadata) = opened.map_err(|error| Error::io(path, "open", error))?;
        let len = metadata.len();
        Ok(RealRandomAccessFile { path: path.to_owned(), descriptor, len })
    }
}

impl RandomAccessFile for RealRandomAccessFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(system::borrow(&self.descriptor), self, offset, buffer)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn descriptor(&self) -> Option<HeldDescriptor<'_>> {
        Some(HeldDescriptor::lent(system::borrow(&self.descriptor)))
    }

    fn drop_page_cache(&self) -> Result<()> {
        drop_page_cache(system::borrow(&self.descriptor), &self.path)
    }
}

/// Reads from `file` through its descriptor.
///
/// Linux enables a mitigation on many AMD processors (speculative return stack overflow) with which
/// each system call spoils the processor's return stack. The processor then mispredicts the return
/// from each stack frame between the system call and the lookup. To save frames, this function is
/// inlined, like each other function between the lookup and the system call that has only one
/// caller on the path of a cache miss.
#[inline(always)]
pub(in crate::fs) fn read_exact_at(
    descriptor: Borrowed<'_>,
    file: &impl RandomAccessFile,
    offset: u64,
    buffer: &mut [u8],
) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset.saturating_add(filled as u64);
        match system::read_at(descriptor, &mut buffer[filled..], at) {
            Ok(0) => return Err(past_end(file.path(), offset, buffer.len(), filled as u64)),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The system rejects an offset that is impossible for any file. Such an offset may come
            // from a damaged file, so it is reported like any other offset past the end.
            Err(error) if error.kind() == ErrorKind::InvalidInput && offset >= file.len() => {
                return Err(past_end(file.path(), offset, buffer.len(), 0));
            }
            Err(error) => return Err(Error::io(file.path(), "read", error)),
        }
    }
    Ok(())
}

/// See [`RandomAccessFile::drop_page_cache`].
pub(in crate::fs) fn drop_page_cache(descriptor: Borrowed<'_>, path: &Path) -> Result<()> {
    system::drop_page_cache(descriptor)
        .map_err(|error| Error::io(path, "drop the cached pages", error))
}

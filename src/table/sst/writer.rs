//! [`SstWriter`]: writes a table for ingestion by RocksDB's `IngestExternalFile`, or by this crate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::encoding::key;
use crate::encoding::key::EntryKind;
use crate::error::{Error, Result};
use crate::fs::{self, Fs, RealFs};
use crate::range_tombstones::{RangeTombstone, reversed_range};
use crate::sync::Process;
use crate::table::builder::TableBuilder;
use crate::table::format::identity::Creator;
use crate::table::options::{Dialect, TableOptions, TableSummary};

/// Writes a table that RocksDB and this crate can ingest. The keys are added in ascending order,
/// each once.
///
/// The file gets its final name in [`SstWriter::finish`], when it is complete. Until then it has a
/// temporary name in the same directory that ends in `.tmp`. If the writer is dropped, or if
/// `finish` fails before the file has its final name, the temporary file is removed, and an older
/// file with the final name stays unchanged. In a forked child every call that can fail returns
/// [`Error::Forked`], and a drop does nothing.
///
/// ```no_run
/// use maypole::table::{SstWriter, TableOptions};
///
/// let mut writer = SstWriter::create("fruit.sst", TableOptions::default())?;
/// writer.put(b"apple", b"red")?;
/// writer.put(b"pear", b"green")?;
/// let summary = writer.finish()?;
/// assert_eq!(summary.entries, 2);
/// # Ok::<(), maypole::Error>(())
/// ```
pub struct SstWriter {
    builder: TableBuilder,
    unfinished: Unfinished,
    path: PathBuf,
    /// The internal key of the entry being added; kept so that its memory is reused.
    internal_key: Vec<u8>,
    /// Start and end of the range deletions, which may come in any order.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A file under its temporary name. Dropping this removes the file, unless it has its final name.
struct Unfinished {
    fs: Arc<dyn Fs>,
    named: bool,
    process: Process,
    /// The name of the file that a drop removes. A drop never removes the final name, which may be
    /// that of another writer's complete file.
    temporary: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.named && self.process.is_current() {
            // The error is ignored, because a drop cannot report it, and the file's name marks the
            // file as temporary.
            fs::tidy_away(&*self.fs, &self.temporary);
        }
    }
}

/// The number that the next temporary name contains, so that all temporary names of a process
/// differ.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

impl SstWriter {
    /// Starts a file, which replaces an older file of this name when it is finished.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an option out of its range, [`Error::Io`] when the file
    /// cannot be created.
    pub fn create(path: impl AsRef<Path>, options: TableOptions) -> Result<SstWriter> {
        SstWriter::create_in(Arc::new(RealFs), path, options)
    }

    /// Like [`SstWriter::create`], in another file system.
    ///
    /// # Errors
    ///
    /// Those of [`SstWriter::create`].
    pub fn create_in(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        options: TableOptions,
    ) -> Result<SstWriter> {
        let path = fs.absolute(path.as_ref())?;
        let mut temporary = path.clone().into_os_string();
        let number = NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = fs.create(&temporary)?;
        let unfinished = Unfinished { fs, named: false, process: Process::current(), temporary };
        let builder = TableBuilder::new(file, options, Dialect::External)?
            .created_by(&Creator::of_lone_table());
        Ok(SstWriter { builder, unfinished, path, internal_key: Vec::new(), ranges: Vec::new() })
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless the key is above all keys added before, and key and value
    /// together have at most 2^30 - 8 bytes; [`Error::Io`] when the file cannot be written.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(key, EntryKind::Value, value)
    }

    /// Adds a tombstone. Once it is ingested, it hides older entries of the key.
    ///
    /// # Errors
    ///
    /// Those of [`SstWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(key, EntryKind::Deletion, &[])
    }

    /// Adds a tombstone for all keys from `start` up to, but without, `end`. Once it is ingested,
    /// it hides older entries of these keys, but no entry of this file. Ranges may come in any
    /// order; an empty range is left out.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when `end` is before `start`.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        self.unfinished.process.check()?;
        if start > end {
            return Err(reversed_range(start, end));
        }
        if start < end {
            self.ranges.push((start.to_vec(), end.to_vec()));
        }
        Ok(())
    }

    fn add(&mut self, user_key: &[u8], kind: EntryKind, value: &[u8]) -> Result<()> {
        self.unfinished.process.check()?;
        if self.builder.last_user_key() == Some(user_key) {
            return Err(Error::InvalidArgument(format!(
                "the key \"{}\" is there already",
                user_key.escape_ascii()
            )));
        }
        self.internal_key.clear();
        key::put_internal_key(&mut self.internal_key, user_key, key::pack(0, kind as u8));
        self.builder.add(&self.internal_key, value)
    }

    /// Entries added so far, range deletions included.
    pub fn entries(&self) -> u64 {
        self.builder.entries() + self.ranges.len() as u64
    }

    /// Bytes of the file so far, with the data block that is being filled.
    pub fn estimated_file_bytes(&self) -> u64 {
        self.builder.estimated_file_bytes()
    }

    /// Completes the file, gives it its name, and makes both durable.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when nothing was added, neither an entry nor a range deletion, as
    /// in RocksDB; [`Error::Io`] when the file cannot be written, named or synced. A file that has
    /// no final name yet is removed.
    pub fn finish(mut self) -> Result<TableSummary> {
        self.unfinished.process.check()?;
        if self.entries() == 0 {
            let path = self.path.display();
            return Err(Error::InvalidArgument(format!(
                "{path}: a table needs at least one entry"
            )));
        }
        self.ranges.sort();
        for (start, end) in &self.ranges {
            self.builder.add_range(RangeTombstone { start, end, sequence: 0 })?;
        }
        let summary = self.builder.finish()?;
        let fs = &self.unfinished.fs;
        fs.rename(&self.unfinished.temporary, &self.path)?;
        self.unfinished.named = true;
        match self.path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => fs.sync_dir(dir)?,
            _ => fs.sync_dir(Path::new("."))?,
        }
        Ok(summary)
    }
}

impl fmt::Debug for SstWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

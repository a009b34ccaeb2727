//! Ingestion: tables from outside enter the tree as one write, newer than all before.
//!
//! ```text
//!   copy each file in, read it whole            writers go on
//!   flush what is in memory                     writers wait from here on
//!   one sequence number for all files           the *global sequence number* of these tables
//!   each file into the deepest level that has nothing in its range, nor any level above
//!   MANIFEST, visible
//! ```

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cursor::Cursor;
use crate::db::options::lasting;
use crate::db::{Inner, sequence_after};
use crate::encoding::key;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::known_files;
use crate::table::{ScanOptions, Table, TableCursor, unsupported_entry};
use crate::version::{FileMeta, LEVELS, Version, VersionEdit, names};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// An ingested table is opened before its level is known. For pinning it counts as deep.
const DEEPEST: usize = LEVELS - 1;

impl Inner {
    /// Copies `files` in and makes their entries one write.
    pub(in crate::db) fn ingest(&self, files: &[&Path]) -> Result<()> {
        self.check_writable()?;
        if files.is_empty() {
            return Ok(());
        }
        let fs = &*self.store.fs;
        let files: Vec<_> = files.iter().map(|path| lasting(fs, path)).collect::<Result<_>>()?;
        let mut copied = Vec::new();
        let ingested = files
            .iter()
            .try_for_each(|path| self.copy_in(path).map(|meta| copied.push(meta)))
            .and_then(|()| self.enter(&mut copied));
        // Still here: the files that no MANIFEST lists.
        for meta in copied {
            // A file that cannot be removed now goes when the database is next opened.
            let _ = self.store.fs.remove(&names::table_path(&self.store.dir, meta.number));
        }
        ingested
    }

    /// Makes the copied tables part of the tree. Empties `copied` where the MANIFEST may list them:
    /// then none may be deleted.
    fn enter(&self, copied: &mut Vec<FileMeta>) -> Result<()> {
        copied.sort_by(|a, b| key::compare(&a.smallest, &b.smallest));
        if copied.windows(2).any(|pair| !pair[1].starts_after(&pair[0].largest)) {
            return Err(Error::InvalidArgument(
                "the files to ingest overlap each other: one key would have two values".into(),
            ));
        }
        // Writers wait from here on: the memtable must hold nothing newer than the files.
        let mut writer = self.writer.lock();
        self.check_writable()?;
        self.ensure_taken_over(&mut writer)?;
        if !writer.memtable.is_empty() {
            self.rotate(&mut writer)?;
        }
        let sequence = sequence_after(writer.last_sequence, 1)?;
        let opened = copied
            .iter()
            .map(|meta| self.store.open(with_global_sequence(meta, sequence), DEEPEST))
            .collect::<Result<Vec<_>>>()?;
        self.exclusively(|| {
            let version = Arc::clone(&self.lock_state().version);
            let edit = VersionEdit {
                flushed_sequence: Some(sequence),
                oldest_wal: Some(writer.wal_number),
                added: opened
                    .iter()
                    .map(|file| (deepest_free_level(&version, &file.meta), file.meta.clone()))
                    .collect(),
                ..VersionEdit::default()
            };
            let unlisted = std::mem::take(copied);
            self.install(edit, opened.clone(), |_| {}).map_err(|error| {
                if error.is_out_of_space() {
                    *copied = unlisted;
                }
                self.latch_unless_retried(error)
            })?;
            // Before any compaction may drop what the files hide: readers must see the files by
            // then.
            self.visible.store(sequence, Ordering::Release);
            Ok(())
        })?;
        writer.last_sequence = sequence;
        Ok(())
    }

    /// Makes a synced copy of the table at `path` under a new number, reads it whole and checks it.
    /// Its global sequence number is not known yet.
    fn copy_in(&self, path: &Path) -> Result<FileMeta> {
        let number = self.store.new_number();
        let own = names::table_path(&self.store.dir, number);
        let checked = copy_file(&*self.store.fs, path, &own)
            .and_then(|file_bytes| self.check_ingested(&own, number, file_bytes));
        checked.map_err(|error| {
            let _ = self.store.fs.remove(&own);
            // The copy is gone: the error names the file that the caller knows.
            let error = error.in_place_of(&own, path);
            known_files::or_foreign_file(&*self.store.fs, path, error)
        })
    }

    fn check_ingested(&self, path: &Path, number: u64, file_bytes: u64) -> Result<FileMeta> {
        let table = self.store.open_table(path, None, DEEPEST, 0)?;
        table.check_external()?;
        check_entries(path, &table)?;
        let Some((smallest, largest)) = smallest_and_largest(&table)? else {
            return Err(Error::InvalidArgument(format!("{}: a table of nothing", path.display())));
        };
        let properties = table.properties();
        Ok(FileMeta {
            number,
            file_bytes,
            entries: properties.entries(),
            deletions: properties.number("rocksdb.deleted.keys").unwrap_or(0),
            smallest,
            largest,
            ..FileMeta::default()
        })
    }
}

/// Reads a table whole, and refuses entries that do not become one write of this tree: those that
/// it does not understand, and those that have a place among the writes already.
fn check_entries(path: &Path, table: &Table) -> Result<()> {
    let unsupported = |what: String| Err(Error::Unsupported { file: path.to_owned(), what });
    if let Some((number, name)) = table.properties().column_family() {
        return unsupported(format!(
            "the table is of column family {number} (\"{}\") of RocksDB, and a database here is one \
             map; write it with an SstFileWriter that is not told of a column family",
            name.escape_debug()
        ));
    }
    if let Some(sequence) = table.global_sequence() {
        return unsupported(format!(
            "another database ingested this table and wrote the sequence number {sequence} into it; \
             ingest the file that SstFileWriter made"
        ));
    }
    let survey = table.survey()?;
    if let Some((user_key, kind)) = &survey.unknown {
        return Err(unsupported_entry(path, user_key, *kind));
    }
    match survey.sequences {
        Some((_, largest)) if largest > 0 => unsupported(format!(
            "its entries have sequence numbers, up to {largest}: they are several writes of another \
             database, and an ingested table is one write; write it again with SstWriter or SstFileWriter"
        )),
        _ => Ok(()),
    }
}

/// The smallest and the largest internal key of a table, range deletions included, at sequence
/// number 0; `None` where the table is empty.
pub(in crate::db) fn smallest_and_largest(
    table: &Arc<Table>,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut keys = Vec::new();
    let mut cursor =
        TableCursor::new(Arc::clone(table), ScanOptions::for_runs(1, false, (None, None)));
    cursor.seek_to_first()?;
    if cursor.valid() {
        keys.push(cursor.key().to_vec());
        cursor.seek_to_last()?;
        keys.push(cursor.key().to_vec());
    }
    if let Some((start, end)) = table.ranges().and_then(|ranges| ranges.span()) {
        keys.push(key::internal_key(start, 0, EntryKind::RangeDeletion as u8));
        keys.push(key::range_end(end));
    }
    keys.sort_by(|a, b| key::compare(a, b));
    let mut keys = keys.into_iter();
    Ok(keys.next().zip(keys.next_back()))
}

/// The table with its global sequence number, which all its entries get.
fn with_global_sequence(meta: &FileMeta, sequence: SequenceNumber) -> FileMeta {
    // The end of a range deletion is no entry's key: it keeps its number, the largest there is.
    let moved = |internal_key: &[u8]| match key::sequence(internal_key) {
        MAX_SEQUENCE => internal_key.to_vec(),
        _ => key::internal_key(user_key(internal_key), sequence, key::kind_byte(internal_key)),
    };
    FileMeta {
        smallest_sequence: sequence,
        largest_sequence: sequence,
        global_sequence: Some(sequence),
        smallest: moved(&meta.smallest),
        largest: moved(&meta.largest),
        ..meta.clone()
    }
}

/// The deepest level such that neither it nor any level above has anything in the file's range.
fn deepest_free_level(version: &Version, meta: &FileMeta) -> usize {
    let range = (Some(user_key(&meta.smallest)), Some(user_key(&meta.largest)));
    let taken = (0..LEVELS).find(|&l| version.overlapping(l, range.0, range.1).next().is_some());
    taken.unwrap_or(LEVELS).saturating_sub(1)
}

/// Copies a file and syncs the copy. Answers its bytes.
pub(in crate::db) fn copy_file(fs: &dyn Fs, from: &Path, to: &Path) -> Result<u64> {
    let source = fs.open(from)?;
    let mut target = fs.create(to)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < source.len() {
        let bytes = ((source.len() - offset) as usize).min(COPY_BYTES);
        source.read_exact_at(offset, &mut buffer[..bytes])?;
        target.append(&buffer[..bytes])?;
        offset += bytes as u64;
    }
    target.sync()?;
    Ok(source.len())
}

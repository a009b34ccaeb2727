//! Ingestion: tables from outside enter the tree as one write, newer than all earlier writes.
//!
//! ```text
//!   take the directory over                     if the opening could not, for lack of space
//!   copy each file in, read it whole            all other calls continue
//!   does a memtable overlap a file?             it is flushed first; writers continue
//!   sync the WALs                               writers wait from here on
//!   one sequence number for all files           the *global sequence number* of these tables
//!   a level for each file                       under the locks of the tree: see below
//!   MANIFEST, visible                           the MANIFEST says that no WAL has the number
//! ```
//!
//! Files that overlap no memtable wait for no flush and no compaction.
//!
//! Rejected: to sync most of the WALs earlier, during the copy. That shortened the longest waits of
//! writers, but made ingestions longer.
//!
//! **The memtables.** When the files enter, no memtable holds a key in the range of a file.
//! Afterwards the memtables take newer writes, and are flushed to level 0, above the files. So
//! whatever they hold of a file's key is newer than the file, as the order of the levels requires.
//! The order of level 0 by the largest sequence number holds too: a table with a newer version of a
//! key has a larger sequence number than the file.
//!
//! **The level.** A level is *blocked* for a file if
//!
//! 1. one of its tables overlaps the file, or
//! 2. a running compaction writes to it, and the span of the outputs overlaps the file.
//!
//! From level 0 on, the file goes down to the last level before the first blocked one. If level 0
//! is blocked, it stays in level 0. No compaction makes this choice wrong:
//!
//! - *The compaction runs already.* If an input overlaps the file, rule 1 puts the file above the
//!   input's level, or makes it the newest file of level 0. The outputs go to the input's level or
//!   below it, and everything in them is older than the file. If no input overlaps the file, the
//!   compaction has no key in the file's range, but an output may have keys on both sides of this
//!   range. Then rule 2 keeps the file out of the output level, unless that is level 0, where the
//!   ranges of files may overlap.
//! - *The compaction begins after the choice, and before the new tree is in place.* It starts from
//!   the old tree, which does not have the file. The choice stays right for this tree, because the
//!   MANIFEST is locked, so the tree does not change. The file's range is reserved in its level, as
//!   the ranges of compactions' outputs are, so no outputs go there. Outputs that go to a higher
//!   level come from inputs that do not overlap the file, because rule 1 has found no table in the
//!   higher levels that overlaps it. Outputs that go to a deeper level belong below the file,
//!   because they are older.
//! - *The compaction drops tombstones of keys that the levels below its outputs did not have when
//!   it began.* If the file is below the outputs, no input has a key in the file's range (rule 1),
//!   so no tombstone of the file's keys is dropped. Besides, every tombstone of the compaction is
//!   older than the file, so it hides nothing in the file.
//!
//! **After a power loss** the tree has the files only together with all writes before them, because
//! these writes are synced before the MANIFEST lists the files. Later writes get their numbers only
//! when the MANIFEST lists the files, so no later write survives without the files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::compaction::Span;
use crate::cursor::Cursor;
use crate::db::background::install::READERS_PATIENCE;
use crate::db::background::jobs::{latching_panics, work_in_this_thread};
use crate::db::background::schedule::Awaited;
use crate::db::inner::Inner;
use crate::db::inner::database::Database;
use crate::db::inner::tree_state::TreeState;
use crate::db::inner::trees::DEFAULT_NAME;
use crate::db::inner::writing::{IngestionsGuard, LeadingWriter, Writer, sequence_after};
use crate::db::options::lasting;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber, user_key};
use crate::encoding::text::escape;
use crate::error::{Error, Result};
use crate::fs::{Fs, RandomAccessFile};
use crate::known_files;
use crate::memtable::Memtable;
use crate::sync::drain;
use crate::table::{
    ScanOptions, Table, TableCursor, property_names as property, unsupported_entry,
};
use crate::version::{FileMeta, LEVELS, TableFile, TableStore, Version, VersionEdit, names};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// An ingested table is opened before its level is known, so it is opened as a table of the deepest
/// level. Its filter and index are then pinned in memory only if those of all tables are.
const DEEPEST: usize = LEVELS - 1;

/// The maximum number of times that an ingestion looks for a memtable that overlaps the files.
/// Writers continue while such a memtable is flushed, except after the last look.
const MAX_ATTEMPTS: u32 = 4;

/// Copies `files` in and makes their entries one write.
pub(in crate::db) fn ingest(inner: &Inner, files: &[&Path]) -> Result<()> {
    let Database { status, store, .. } = &*inner.database;
    inner.check_writable()?;
    if files.is_empty() {
        return Ok(());
    }
    // `close` waits for jobs. Without this one, another owner of the directory could already
    // give the numbers of the copies to its own files, which the copies would replace.
    let _working = work_in_this_thread(inner)?;
    // The take-over removes the files that no MANIFEST lists, so no copy may be there yet.
    inner.ensure_taken_over(&mut inner.database.writing.lead())?;
    let fs = &*store.fs;
    let files: Vec<_> = files.iter().map(|path| lasting(fs, path)).collect::<Result<_>>()?;
    let mut copied = Vec::new();
    let mut numbers = Vec::new();
    let entered = files
        .iter()
        .try_for_each(|path| {
            // Checked for each file, so that closing the database waits for one file at most.
            status.check_writable()?;
            let meta = copy_in(store, path, &inner.tree.name)?;
            numbers.push(meta.number);
            copied.push(meta);
            Ok(())
        })
        .and_then(|()| enter(inner, &mut copied));
    // The copies are deleted after a failure, so the error names the files that the caller
    // knows.
    let ingested = entered.map_err(|error| {
        let own = |number: &u64| names::table_path(&store.dir, *number);
        let copies = numbers.iter().map(own).zip(&files);
        copies.fold(error, |error, (own, known)| error.in_place_of(&own, known))
    });
    // `copied` holds only copies that no MANIFEST lists.
    for meta in copied {
        store.remove_obsolete(&names::table_path(&store.dir, meta.number));
    }
    ingested
}

/// Makes the copied tables part of the tree. Empties `copied` if the MANIFEST may list them,
/// because then none may be deleted.
fn enter(inner: &Inner, copied: &mut Vec<FileMeta>) -> Result<()> {
    let Database { store, writing, .. } = &*inner.database;
    copied.sort_by(|a, b| key::compare(&a.smallest, &b.smallest));
    if copied.windows(2).any(|pair| !pair[1].starts_after(&pair[0].largest)) {
        return Err(Error::InvalidArgument(
            "the files to ingest overlap each other: one key would have two values".into(),
        ));
    }
    // The names of the copies are synced here, while writers continue.
    writing.sync_names(store)?;
    let (ingesting, mut writer) = keep_writers_out(inner, copied)?;
    let sequence = sequence_after(writer.last_sequence, 1)?;
    let opened = copied
        .iter()
        .map(|meta| store.open(with_global_sequence(meta, sequence), DEEPEST))
        .collect::<Result<Vec<_>>>()?;
    // The earlier writes are synced before the MANIFEST lists the files, so that a power loss
    // never leaves the files without these writes.
    let sync = || writing.sync_logs(&mut writer, store);
    let synced = latching_panics(inner, sync).map_err(|error| inner.latch(error))?;
    // The files may hold puts, so their keys are cut out of the marks (`iter/marks/`), which
    // are intervals of keys that cursors jump over.
    for FileMeta { smallest, largest, .. } in copied.iter() {
        writer.of(inner.tree.id)?.marks.wrote(user_key(smallest), user_key(largest));
    }
    writer.of(inner.tree.id)?.marks.publish(inner.tree.reading.marks());
    list(inner, &writer, synced, opened, sequence, copied)?;
    (writer.last_sequence, writer.last_ingestion) = (sequence, sequence);
    drop((writer, ingesting));
    // Waits for a short time until no lookup uses the replaced read state, and frees it.
    drain(READERS_PATIENCE);
    Ok(())
}

/// Flushes the memtables that overlap the files, then locks out writers and other ingestions,
/// at a moment when no memtable overlaps the files. Writers continue during the flushes, and
/// may write to the range of a file again. Only the last of [`MAX_ATTEMPTS`] flushes makes them
/// wait.
fn keep_writers_out<'a>(
    inner: &'a Inner,
    files: &[FileMeta],
) -> Result<(IngestionsGuard<'a>, LeadingWriter<'a>)> {
    inner.retry_failed_flush()?;
    for attempt in 1.. {
        let ingesting = inner.database.writing.lock_ingestions();
        let mut writer = inner.database.writing.lead();
        inner.check_writable()?;
        let Some(overlapping) = freeze_overlapping(inner, &mut writer, files)? else {
            return Ok((ingesting, writer));
        };
        let is_flushed = |state: &TreeState| state.has_flushed(&overlapping);
        if attempt == MAX_ATTEMPTS {
            drop(inner.wait_until(Awaited::Flushes, is_flushed)?);
            return Ok((ingesting, writer));
        }
        drop((writer, ingesting));
        drop(inner.wait_until(Awaited::Flushes, is_flushed)?);
    }
    unreachable!("the last attempt returns")
}

/// The newest memtable that overlaps one of the files. This call freezes it if it is the active
/// one.
fn freeze_overlapping(
    inner: &Inner,
    writer: &mut Writer,
    files: &[FileMeta],
) -> Result<Option<Arc<Memtable>>> {
    let overlaps_any = |memtable: &Arc<Memtable>| -> Result<bool> {
        files.iter().try_fold(false, |any, file| Ok(any || overlaps(memtable, file)?))
    };
    let (memtable, frozen) = {
        let state = inner.tree.lock();
        let frozen = state.frozen.iter().rev().map(|frozen| Arc::clone(&frozen.memtable));
        (Arc::clone(&state.memtable), frozen.collect::<Vec<_>>())
    };
    if overlaps_any(&memtable)? {
        inner.rotate(writer)?;
        return Ok(Some(memtable));
    }
    for memtable in frozen {
        if overlaps_any(&memtable)? {
            return Ok(Some(memtable));
        }
    }
    Ok(None)
}

/// Puts the opened tables into the tree, and makes them visible. `synced` holds the WALs that
/// the MANIFEST is to list.
fn list(
    inner: &Inner,
    writer: &Writer,
    synced: Vec<(u64, u64)>,
    opened: Vec<Arc<TableFile>>,
    sequence: SequenceNumber,
    copied: &mut Vec<FileMeta>,
) -> Result<()> {
    let mut durable_wals = BTreeMap::from_iter(synced);
    let current = writer.wal.iter().filter(|wal| !wal.is_empty());
    durable_wals.extend(current.map(|wal| (writer.wal_number, wal.synced_to())));
    let durable_wals = Vec::from_iter(durable_wals);
    let mut reserved = Vec::new();
    let edit = |state: &mut TreeState| {
        let added = opened.iter().map(|file| {
            let running = &state.unavailable.outputs;
            let span = span_for(&state.version, running, &file.meta);
            reserved.push(span.clone());
            (span.level, file.meta.clone())
        });
        let added = added.collect();
        state.unavailable.outputs.extend(reserved.iter().cloned());
        let skipped = vec![(sequence, sequence)];
        let durable_wals = durable_wals.clone();
        VersionEdit { added, durable_wals, skipped, ..VersionEdit::default() }
    };
    let unlisted = std::mem::take(copied);
    // The files become visible before any compaction of the new tree can start, because such a
    // compaction may drop older entries that the files hide.
    let published = || inner.database.sequences.set_visible(sequence);
    let listed =
        latching_panics(inner, || inner.change_tree(None, opened.clone(), edit, |_| {}, published));
    let mut state = inner.tree.lock();
    reserved.iter().for_each(|span| state.unavailable.release_output(span));
    inner.schedule(&mut state);
    inner.tree.notify();
    drop(state);
    listed.map_err(|error| {
        // The WALs were synced although this change failed, so a later MANIFEST must list them.
        inner.database.catalog.enter_durable_wals_later(durable_wals);
        if error.changed_nothing() {
            *copied = unlisted;
        }
        inner.latch_unless_retried(error)
    })
}

/// Makes a synced copy of the table at `path` under a new number, reads it whole and checks it.
/// Its global sequence number is not known yet. It must be one for the keyspace of this name.
fn copy_in(store: &TableStore, path: &Path, keyspace: &[u8]) -> Result<FileMeta> {
    let number = store.new_number()?;
    let own = names::table_path(&store.dir, number);
    let checked = copy_file(&*store.fs, path, &own)
        .and_then(|file_bytes| check_ingested(store, &own, keyspace, number, file_bytes));
    checked.map_err(|error| {
        store.remove_obsolete(&own);
        // The copy is gone: the error names the file that the caller knows.
        let error = error.in_place_of(&own, path);
        known_files::or_foreign_file(&*store.fs, path, error)
    })
}

fn check_ingested(
    store: &TableStore,
    path: &Path,
    keyspace: &[u8],
    number: u64,
    file_bytes: u64,
) -> Result<FileMeta> {
    let table = store.open_table(path, None, DEEPEST, 0)?;
    table.check_external()?;
    check_entries(path, &table, keyspace)?;
    let Some((smallest, largest)) = smallest_and_largest(&table)? else {
        return Err(Error::InvalidArgument(format!(
            "{}: the table has no entries",
            path.display()
        )));
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

/// Reads a table whole, and rejects it if its entries cannot be one write of this keyspace: if the
/// table belongs to a column family of another name, if it has a global sequence number, if an entry
/// is of an unknown kind, or if an entry has a sequence number above 0.
fn check_entries(path: &Path, table: &Table, keyspace: &[u8]) -> Result<()> {
    let unsupported = |what: String| Err(Error::Unsupported { file: path.to_owned(), what });
    let is_of_default = table.properties().number(property::COLUMN_FAMILY_ID) == Some(0);
    let stated = match table.properties().column_family() {
        Some((_, name)) => Some(name),
        None => is_of_default.then(|| DEFAULT_NAME.to_vec()),
    };
    if let Some(name) = stated.filter(|name| name != keyspace) {
        return unsupported(format!(
            "the table belongs to the column family \"{}\", and can be ingested into the keyspace of \
             that name only, not into \"{}\"; or write it with an SstFileWriter that was given no \
             column family",
            escape(&name),
            escape(keyspace)
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

/// The smallest and the largest internal key of a table, range deletions included
/// ([`key::range_end`]); `None` where the table is empty.
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
    // The end of a range deletion is the key of no entry ([`key::range_end`]), so it keeps its
    // number, which is the largest possible.
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

/// Whether the memtable holds a key or deletes a range in the file's range.
fn overlaps(memtable: &Arc<Memtable>, file: &FileMeta) -> Result<bool> {
    let smallest = user_key(&file.smallest);
    let mut cursor = memtable.cursor();
    cursor.seek(&key::seek_key(smallest, MAX_SEQUENCE))?;
    if cursor.valid() && !file.ends_before(user_key(cursor.key())) {
        return Ok(true);
    }
    let sets = memtable.ranges();
    let mut ranges = sets.iter().flat_map(|set| set.iter());
    Ok(ranges.any(|range| range.end > smallest && !file.ends_before(range.start)))
}

/// The level for an ingested table, and its range there. `running` holds the spans that running
/// compactions write to. See the head of this file.
fn span_for(version: &Version, running: &[Span], meta: &FileMeta) -> Span {
    let (smallest, largest) = (user_key(&meta.smallest), user_key(&meta.largest));
    let mut span = Span { level: 0, smallest: smallest.to_vec(), largest: meta.largest.clone() };
    for level in 0..LEVELS {
        let below = Span { level, ..span.clone() };
        if version.overlapping(level, Some(smallest), Some(largest)).next().is_some()
            || running.iter().any(|output| output.excludes(&below))
        {
            break;
        }
        span = below;
    }
    span
}

/// Copies a file and syncs the copy. Returns its size in bytes.
pub(in crate::db) fn copy_file(fs: &dyn Fs, from: &Path, to: &Path) -> Result<u64> {
    copy_open_file(fs, &*fs.open(from)?, to)
}

/// Like [`copy_file`], but for a file whose name may be gone.
pub(in crate::db) fn copy_open_file(
    fs: &dyn Fs,
    source: &dyn RandomAccessFile,
    to: &Path,
) -> Result<u64> {
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

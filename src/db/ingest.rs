//! Tables from outside, and copies of the whole.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::background::whole_tree;
use super::jobs::Awaited;
use super::write::lock;
use super::{Inner, sequence_after};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::fs::{self, Fs};
use crate::key::{self, EntryKind, SequenceNumber, user_key};
use crate::sync::pin;
use crate::table::{Table, TableCursor};
use crate::version::{
    COMPACTION_SCAN, FileMeta, LEVELS, Manifest, TableFile, Version, VersionEdit, names,
};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// An ingested table's place is found when it is open already: for its pinning it counts as deep.
const DEEPEST: usize = LEVELS - 1;

impl Inner {
    /// Copies `files` in and makes their entries one write, newer than all before.
    pub(super) fn ingest(&self, files: &[&Path]) -> Result<()> {
        if files.is_empty() {
            return self.check_writable();
        }
        // Writers wait: the memtable must hold nothing newer than the files.
        let mut writer = lock(&self.writer);
        self.check_writable()?;
        if !writer.memtable.is_empty() {
            self.rotate(&mut writer).map_err(|error| self.latch(error))?;
        }
        let sequence = sequence_after(writer.last_sequence, 1)?;
        let mut copied = Vec::new();
        for path in files {
            copied.push(self.copy_in(path, sequence)?);
        }
        copied.sort_by(|a, b| key::compare(&a.meta.smallest, &b.meta.smallest));
        for pair in copied.windows(2) {
            if !pair[1].meta.begins_behind(&pair[0].meta.largest) {
                discard(&copied);
                return Err(Error::InvalidArgument(
                    "the files to ingest overlap each other: one key would have two values".into(),
                ));
            }
        }
        let installed = self.exclusively(|| {
            let version = Arc::clone(&self.lock_state().version);
            let edit = VersionEdit {
                flushed_sequence: Some(sequence),
                oldest_wal: Some(writer.wal_number),
                added: copied
                    .iter()
                    .map(|file| (deepest_free_level(&version, &file.meta), file.meta.clone()))
                    .collect(),
                ..VersionEdit::default()
            };
            self.install(edit, copied.clone(), |_| {}).map_err(|error| self.latch(error))?;
            // Before a compaction may drop what the files hide: readers must see them by then.
            self.visible.store(sequence, Ordering::Release);
            Ok(())
        });
        if installed.is_err() {
            discard(&copied);
        }
        installed?;
        writer.last_sequence = sequence;
        Ok(())
    }

    /// Runs `work` while no flush and no compaction changes the tree.
    pub(super) fn exclusively<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.wait_until(Awaited::Flushes, |state| !state.manual)?.manual = true;
        let result = self
            .wait_until(Awaited::Flushes, |state| state.frozen.is_empty() && state.compactions == 0)
            .map(drop)
            .and_then(|()| work());
        let mut state = self.lock_state();
        state.manual = false;
        self.schedule(&mut state);
        self.changed.notify_all();
        drop(state);
        result
    }

    /// A synced copy of the table at `path` under a number of ours, checked and opened.
    fn copy_in(&self, path: &Path, sequence: SequenceNumber) -> Result<Arc<TableFile>> {
        let number = self.store.new_number();
        let own = names::table_path(&self.store.dir, number);
        let opened = copy(&*self.store.fs, path, &own)
            .and_then(|bytes| self.open_ingested(&own, number, bytes, sequence));
        if opened.is_err() {
            let _ = self.store.fs.remove(&own);
        }
        opened
    }

    fn open_ingested(
        &self,
        path: &Path,
        number: u64,
        file_bytes: u64,
        sequence: SequenceNumber,
    ) -> Result<Arc<TableFile>> {
        let table = self.store.open_table(path, Some(sequence), DEEPEST)?;
        table.check_external()?;
        table.verify()?;
        let Some((smallest, largest)) = bounds(&table, sequence)? else {
            return Err(Error::InvalidArgument(format!("{}: a table of nothing", path.display())));
        };
        let properties = table.properties();
        let meta = FileMeta {
            number,
            file_bytes,
            entries: properties.entries(),
            tombstones: properties.number("rocksdb.deleted.keys").unwrap_or(0),
            least_sequence: sequence,
            largest_sequence: sequence,
            global_sequence: Some(sequence),
            smallest,
            largest,
        };
        self.store.open(meta, DEEPEST)
    }

    pub(super) fn checkpoint(&self, dir: &Path) -> Result<()> {
        let fs = &self.store.fs;
        if fs.exists(dir)? {
            return Err(Error::InvalidArgument(format!(
                "{}: exists already; a checkpoint makes a new directory",
                dir.display()
            )));
        }
        self.flush()?;
        // The progress belongs to the version only while nobody installs another.
        let (view, flushed_sequence) = {
            let _manifest = lock(&self.manifest);
            let progress = lock(&self.progress).flushed_sequence;
            (self.view.load_arc(&pin()), progress)
        };
        fs::create_dir_durably(&**fs, dir)?;
        for (_, file) in view.version.files() {
            let target = names::table_path(dir, file.meta.number);
            if fs.hard_link(file.path(), &target).is_err() {
                // Another file system, or one without links.
                copy(&**fs, file.path(), &target)?;
            }
        }
        let number = self.store.new_number();
        let tree = whole_tree(&view.version, flushed_sequence, number + 1, number + 1);
        Manifest::create(fs, dir, number, &tree)?;
        Ok(())
    }
}

/// The smallest and the largest internal key of a table, all of it seen at `sequence`; `None` when
/// it is empty.
fn bounds(table: &Arc<Table>, sequence: SequenceNumber) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut bounds = Vec::new();
    let mut cursor = TableCursor::new(Arc::clone(table), COMPACTION_SCAN);
    cursor.seek_to_first()?;
    if cursor.valid() {
        bounds.push(cursor.key().to_vec());
        cursor.seek_to_last()?;
        bounds.push(cursor.key().to_vec());
    }
    if let Some((begin, end)) = table.ranges().and_then(|ranges| ranges.span()) {
        bounds.push(key::internal_key(begin, sequence, EntryKind::RangeDeletion as u8));
        bounds.push(key::range_end(end));
    }
    bounds.sort_by(|a, b| key::compare(a, b));
    let mut bounds = bounds.into_iter();
    Ok(bounds.next().zip(bounds.next_back()))
}

/// The deepest level that has nothing in the file's range, nor any level above it.
fn deepest_free_level(version: &Version, meta: &FileMeta) -> usize {
    let range = (Some(user_key(&meta.smallest)), Some(user_key(&meta.largest)));
    let taken = (0..LEVELS).find(|&l| version.overlapping(l, range.0, range.1).next().is_some());
    taken.unwrap_or(LEVELS).saturating_sub(1)
}

fn discard(files: &[Arc<TableFile>]) {
    files.iter().for_each(|file| file.mark_obsolete(0));
}

/// Copies a file, synced; answers its length in bytes.
fn copy(fs: &dyn Fs, from: &Path, to: &Path) -> Result<u64> {
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

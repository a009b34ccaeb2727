//! A table of the tree: its record in the MANIFEST, and the open file.
//!
//! A file that has left the tree is *obsolete*. Readers use it until the last version that lists it
//! is dropped. Then the file is removed.
//!
//! **A failed removal is never an error of the database**, because nothing depends on it: no
//! MANIFEST lists the file, and the next opening removes all such files. The failure is counted
//! ([`Ticker::FilesNotRemoved`]). This holds for obsolete files of all kinds
//! ([`ObsoleteFiles::remove`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{FileMeta, LEVELS};
use crate::encoding::key::user_key;
use crate::error::{Damage, Error, Result};
use crate::fs::{self, Fs};
use crate::stats::{Asked, Counters, FileCounts, Ticker};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Condvar, Mutex, Process, lock, rank};
use crate::table::filter::info::expected_false_positives;
use crate::table::format::identity::TableIdentity;
use crate::table::{Table, property_names as property};

/// Removes the obsolete files of a database. All tables share it, and use it when they are dropped.
pub(crate) struct ObsoleteFiles {
    /// The running deletions of files. The lock is not held during a deletion, because that calls
    /// the user's `Fs`, which may drop an iterator or close the database.
    removals: Mutex<Removals, rank::Removals>,
    /// Notified at the end of each deletion.
    removed: Condvar,
    /// The process that opened the database. A forked child deletes no file.
    process: Process,
    /// Counts the failed deletions.
    counters: Arc<Counters>,
}

/// What is counted of the tables that have left one tree.
pub(crate) struct LeftTables {
    /// The lookup counts of those that are not in use any more, by the level that each has left.
    /// `None` until the first one, because most of ten thousand keyspaces may have none.
    counts: Mutex<Option<Box<[ObsoleteCounts; LEVELS]>>, rank::ObsoleteCounts>,
    /// Bytes of those that are still in use.
    used_bytes: AtomicU64,
}

/// What lookups counted in the obsolete tables of a level.
#[derive(Clone, Copy)]
pub(crate) struct ObsoleteCounts {
    pub counts: FileCounts,
    /// How many false positives were to be expected; `None` if the rate of a filter is not known.
    pub expected_false_positives: Option<f64>,
}

/// Before a table has left any level.
fn nothing_left() -> [ObsoleteCounts; LEVELS] {
    let counts = FileCounts::default();
    [ObsoleteCounts { counts, expected_false_positives: Some(0.0) }; LEVELS]
}

impl LeftTables {
    pub fn new() -> LeftTables {
        LeftTables { counts: Mutex::new(None), used_bytes: AtomicU64::new(0) }
    }

    pub fn counts(&self) -> [ObsoleteCounts; LEVELS] {
        lock(&self.counts).as_deref().copied().unwrap_or_else(nothing_left)
    }

    /// Bytes of the tables that have left the tree, but that a reader or a running job still uses.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn add(&self, level: usize, counts: FileCounts, expected_false_positives: Option<f64>) {
        let mut levels = lock(&self.counts);
        let sums = &mut levels.get_or_insert_with(|| Box::new(nothing_left()))[level];
        sums.counts += counts;
        let expected = sums.expected_false_positives.zip(expected_false_positives);
        sums.expected_false_positives = expected.map(|(sum, more)| sum + more);
    }
}

/// The deletions of files that are running.
#[derive(Default)]
struct Removals {
    /// Whether the database is closed. Then no deletion begins.
    closed: bool,
    /// The thread of each deletion. If the user's `Fs` drops an iterator during a deletion, its
    /// thread is listed twice.
    threads: Vec<ThreadId>,
}

/// While this value lives, a deletion of its thread is running.
struct Removal<'a>(&'a ObsoleteFiles);

impl<'a> Removal<'a> {
    /// `None` if the database is closed.
    fn begin(obsolete: &'a ObsoleteFiles) -> Option<Removal<'a>> {
        let mut removals = lock(&obsolete.removals);
        if removals.closed {
            return None;
        }
        removals.threads.push(thread::current().id());
        Some(Removal(obsolete))
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        let own = thread::current().id();
        let mut removals = lock(&self.0.removals);
        if let Some(at) = removals.threads.iter().position(|&thread| thread == own) {
            removals.threads.swap_remove(at);
        }
        self.0.removed.notify_all();
    }
}

impl ObsoleteFiles {
    pub fn new(counters: Arc<Counters>) -> ObsoleteFiles {
        ObsoleteFiles {
            removals: Mutex::default(),
            removed: Condvar::new(),
            process: Process::current(),
            counters,
        }
    }

    /// Stops the deletion of files, and waits for running deletions. An iterator may outlive the
    /// database and drop its tables when another owner has already opened the directory.
    ///
    /// The user's `Fs` may close the database during a deletion. The thread of this deletion cannot
    /// wait for it, so it waits only for those of other threads.
    pub fn close(&self) {
        let own = thread::current().id();
        let mut removals = lock(&self.removals);
        removals.closed = true;
        while removals.threads.iter().any(|&thread| thread != own) {
            removals = self.removed.wait(removals);
        }
    }

    /// Whether a deletion of this thread is running, for which [`ObsoleteFiles::close`] would wait.
    pub fn is_removing_here(&self) -> bool {
        lock(&self.removals).threads.contains(&thread::current().id())
    }

    /// Deletes an obsolete file, unless the database is closed. If the file cannot be deleted, this
    /// is counted, and the next opening of the database tries again.
    pub fn remove(&self, fs: &dyn Fs, path: &Path) {
        let Some(_running) = Removal::begin(self) else { return };
        if !rank::apart(|| fs::tidy_away(fs, path)) {
            self.counters.add(Ticker::FilesNotRemoved, 1);
        }
    }

    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }
}

pub(crate) struct TableFile {
    pub meta: FileMeta,
    pub table: Arc<Table>,
    /// Used by filter policies that learn.
    pub asked: Asked,
    fs: Arc<dyn Fs>,
    path: PathBuf,
    obsolete: Arc<ObsoleteFiles>,
    /// Set once no MANIFEST lists the file, or will list it: the tree and the level that it has left.
    /// `None` inside: it never was in a tree.
    obsolete_from: OnceLock<Option<(Arc<LeftTables>, usize)>>,
}

impl TableFile {
    pub fn new(
        meta: FileMeta,
        table: Arc<Table>,
        fs: Arc<dyn Fs>,
        path: PathBuf,
        obsolete: Arc<ObsoleteFiles>,
    ) -> TableFile {
        let (asked, obsolete_from) = (Asked::default(), OnceLock::new());
        TableFile { meta, table, asked, fs, path, obsolete, obsolete_from }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the table that `meta` describes. Checks the open file, whose name may have
    /// been removed since it was opened.
    pub fn is_described_by(&self, meta: &FileMeta) -> bool {
        self.meta.global_sequence == meta.global_sequence
            && check_described(&self.path, meta, &self.table).is_ok()
    }

    /// Whether the file may hold an entry of a key from `lower` to before `upper` (`None`:
    /// unbounded). Range deletions do not count. The filter is queried only if the whole range lies
    /// between the file's first and last key. That holds for at most one file of each level from 1
    /// on, so that even a range over many files loads few filters.
    pub fn range_may_match(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let lies_inside = user_key(&self.meta.smallest) < lower
            && upper.is_some_and(|upper| upper <= user_key(&self.meta.largest));
        !lies_inside || self.table.range_may_match(lower, upper)
    }

    /// Whether the file overlaps the user keys `smallest ..= largest` (`None`: unbounded).
    pub fn overlaps(&self, smallest: Option<&[u8]>, largest: Option<&[u8]>) -> bool {
        smallest.is_none_or(|key| !self.meta.ends_before(key))
            && largest.is_none_or(|key| user_key(&self.meta.smallest) <= key)
    }

    /// About how many bytes of the file belong to the user keys from `lower` to before `upper`
    /// (`None`: unbounded). A file inside the range counts as a whole, its filter and index
    /// included. For a file partly inside, the index is read, but no data.
    pub fn bytes_between(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Result<u64> {
        let (first, last) = (user_key(&self.meta.smallest), user_key(&self.meta.largest));
        if upper.is_some_and(|upper| upper <= first) || lower.is_some_and(|lower| lower > last) {
            return Ok(0);
        }
        let lower = lower.filter(|&lower| lower > first);
        let upper = upper.filter(|&upper| upper <= last);
        if lower.is_none() && upper.is_none() {
            return Ok(self.meta.file_bytes);
        }
        let start = lower.map_or(Ok(Some(0)), |key| self.table.offset_of(key))?;
        let end = upper.map_or(Ok(None), |key| self.table.offset_of(key))?;
        let [start, end] = [start, end].map(|at| at.unwrap_or(self.meta.file_bytes));
        Ok(end.saturating_sub(start))
    }

    /// Notes that the MANIFEST no longer lists this file, which was in `level`. It is deleted when no
    /// reader needs it any more. `left` counts the tables that have left the same tree.
    pub fn mark_obsolete(&self, left: &Arc<LeftTables>, level: usize) {
        if self.obsolete_from.set(Some((Arc::clone(left), level))).is_ok() {
            left.used_bytes.fetch_add(self.meta.file_bytes, Ordering::Relaxed);
        }
    }

    /// Notes that no MANIFEST will list this file, because the work that wrote it has failed. It is
    /// deleted when the last reference is dropped.
    pub fn discard(&self) {
        let _ = self.obsolete_from.set(None);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if !self.obsolete.is_of_this_process() {
            return;
        }
        let Some(from) = self.obsolete_from.get() else { return };
        if let Some((left, level)) = from {
            left.used_bytes.fetch_sub(self.meta.file_bytes, Ordering::Relaxed);
            let counts = self.table.block_file().file_counters.sums();
            let filter = self.table.filter_info();
            let expected = expected_false_positives(filter.as_ref(), counts.filter);
            left.add(*level, counts, expected);
        }
        self.obsolete.remove(&*self.fs, &self.path);
    }
}

/// Checks that a file is the one that its record in the MANIFEST describes. Two files may have been
/// exchanged, or an older file of the same name restored.
pub(super) fn check_described(path: &Path, meta: &FileMeta, table: &Table) -> Result<()> {
    let properties = table.properties();
    let stored_file_bytes = table.block_file().file().len();
    let sequences = [
        (property::SMALLEST_SEQUENCE, meta.smallest_sequence),
        (property::LARGEST_SEQUENCE, meta.largest_sequence),
    ];
    // The sequence numbers in an ingested file are not compared, because the global one replaces
    // them.
    let sequences = sequences.into_iter().filter(|_| meta.global_sequence.is_none());
    let mut facts = vec![
        ("bytes", meta.file_bytes, Some(stored_file_bytes)),
        ("entries", meta.entries, Some(properties.entries())),
        ("deletions", meta.deletions, properties.number(property::DELETIONS)),
    ];
    facts.extend(sequences.map(|(name, listed)| (name, listed, properties.number(name))));
    for (what, listed, found) in facts {
        if found.is_some_and(|found| found != listed) {
            let found = found.unwrap_or_default();
            return Err(another_table(path, format!("{what}: {listed}"), format!("{found}")));
        }
    }
    let identity = properties.identity();
    if meta.identity.is_some() && meta.identity != identity {
        let text = |identity: Option<TableIdentity>| {
            identity.map_or("none".into(), |[a, b]| format!("{a:016x}{b:016x}"))
        };
        let listed = format!("identity: {}", text(meta.identity));
        return Err(another_table(path, listed, text(identity)));
    }
    Ok(())
}

fn another_table(path: &Path, listed: String, found: String) -> Error {
    let expected = format_args!("the table that the MANIFEST lists ({listed})");
    let found =
        format_args!("another one ({found}): were files exchanged, or restored from a copy?");
    Damage::new(0, expected, found).in_file(path, 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::fs::{FaultFs, MemFs, Operation, Target};

    /// A collection drops what all databases have retired. So it may delete a table of one database
    /// while its thread holds locks of another one, and the `Fs` may write to the first.
    #[test]
    fn a_deletion_may_lock_what_precedes_the_locks_of_its_thread() {
        let writer = Mutex::<(), rank::Writer>::new(());
        let has_locked = Arc::new(AtomicBool::new(false));
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let hook = {
            let has_locked = Arc::clone(&has_locked);
            move |_, _, _: &Path| {
                drop(lock(&writer));
                has_locked.store(true, Ordering::Relaxed);
            }
        };
        fs.before_calls(Target::Only(Operation::Remove), hook);
        let manifest = Mutex::<(), rank::Manifest>::new(());
        let held = lock(&manifest);
        ObsoleteFiles::new(Arc::new(Counters::new())).remove(&fs, Path::new("/a"));
        drop(held);
        assert!(has_locked.load(Ordering::Relaxed));
    }
}

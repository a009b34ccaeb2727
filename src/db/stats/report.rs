//! [`Stats`]: what the database holds and what its filters have done, as a value and as a report.
//!
//! Filters are counted per file, per level and for the whole database: how often they returned no
//! (*useful*), how often maybe (*full positive*), and how often this maybe was true (*full true
//! positive*). The observed false-positive rate can be compared with the one predicted when the
//! filter was built.
//!
//! This file is long because it holds both the types and the report.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::keyspaces::KeyspaceStats;
use super::size::{bytes, percent};
use crate::cache::{BlockKind, KindUsage};
use crate::db::write::write_stall::WriteStall;
use crate::error::Error;
use crate::stats::{FileCounts, Ticker, Tickers};
use crate::table::FilterInfo;

/// What a database holds and has done so far; see [`Db::stats`](crate::Db::stats). `Display` prints
/// it as a report.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// # db.put("key", "value")?;
/// # db.flush()?;
/// use maypole::Ticker;
///
/// db.get("absent")?;
/// let stats = db.stats();
/// assert_eq!(stats.tickers.get(Ticker::NumberKeysRead), 1);
/// println!("{} bytes of filters, {:?} wrong", stats.filter_bytes(), stats.predicted_fpr());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The directory of the database.
    pub path: PathBuf,
    /// The name of the keyspace of which this is. The fields about tables, levels and memtables are
    /// of this keyspace, and the others of the whole database.
    pub keyspace: Vec<u8>,
    /// The other keyspaces, if this is of `default`: those that are open or have tables, busiest
    /// first. If there are more than 101, the last element is the sum of all from the 101st on.
    pub keyspaces: Vec<KeyspaceStats>,
    /// The levels that have tables, or in which lookups have counted anything, from level 0 on.
    pub levels: Vec<LevelStats>,
    /// Every table, level by level.
    pub files: Vec<FileStats>,
    /// Everything that is counted for the whole database.
    pub tickers: Tickers,
    /// What the block cache holds of each kind of block, for all databases that share it.
    pub cache: Vec<(BlockKind, KindUsage)>,
    /// The bytes that the block cache charges for open tables and for slots, for all databases that
    /// share it. An open table keeps its properties and the lists of its parts in memory. Slots are
    /// the places through which lookups find parts and data blocks in memory. The slots of an index
    /// that is in memory count in [`Stats::cache`]. Together with `cache`, these bytes are all that
    /// the block cache charges.
    pub cache_tables_bytes: usize,
    /// The most bytes the block cache may hold.
    pub cache_capacity_bytes: usize,
    /// About how many bytes all filters and indexes need in memory, for all databases that share
    /// the cache. Where they exceed 7/8 of its capacity, new tables have them in parts:
    /// [`Builder::metadata`](crate::Builder::metadata).
    pub metadata_bytes: usize,
    /// Bytes of whole filters and indexes of this keyspace that stay in memory because they were
    /// loaded while filters and indexes filled the cache. To read them again would cost far more
    /// than a data block. Compaction rewrites them in parts. Those that
    /// [`PinMetadata`](crate::PinMetadata) selects do not count.
    pub pinned_metadata_bytes: usize,
    /// Tables that are open, for all databases that share the limit. Tables of iterators that
    /// outlived their database do not count.
    pub open_files: usize,
    /// The most tables open at a time, see
    /// [`Builder::max_open_files`](crate::Builder::max_open_files).
    pub max_open_files: usize,
    /// How often a table had to be opened again.
    pub file_reopens: u64,
    /// Bytes of all memtables, frozen ones included.
    pub memtable_bytes: usize,
    /// Entries in all memtables.
    pub memtable_entries: usize,
    /// Bytes of blocks and memtables that callbacks of [`Db::get_with`](crate::Db::get_with) still
    /// read, although nothing else needs them any more. This counts all databases of the process:
    /// at most a block or a memtable for each thread.
    pub held_by_readers_bytes: usize,
    /// What only iterators and cursors keep. See also [`Stats::oldest_snapshot`].
    pub held_by_cursors: HeldByCursors,
    /// An estimate of the bytes that compaction must still rewrite until every level is within its
    /// target.
    #[doc(alias = "estimate-pending-compaction-bytes")]
    pub compaction_debt_bytes: u64,
    /// The number of snapshots, those of transactions included.
    pub snapshots: usize,
    /// How long the oldest snapshot has lived.
    pub oldest_snapshot: Option<Duration>,
    /// An estimate of the bytes in tables that would be dead without snapshots.
    pub held_by_snapshots_bytes: u64,
    /// Whether the tree holds writers back.
    pub write_stall: WriteStall,
    /// Damaged tables that compactions have met since the database was opened, and tables that they
    /// could not read twice in a row. They are set aside: read as before, but not compacted. Newer entries that overlap them stay above them.
    pub damaged: Vec<DamagedTable>,
    /// The error of a flush or compaction that waits for space, descriptors, memory or a thread, or
    /// could not read a table, or the error of an opening that has found no space to prepare for
    /// writes. The database tries again. Reads continue.
    pub out_of_space: Option<Error>,
}

/// What iterators and cursors keep that the database itself does not need any more; see
/// [`Stats::held_by_cursors`].
///
/// An iterator or a cursor holds the state of the tree that was current when it was made: all
/// memtables and tables of that time. Each flush, compaction and ingestion makes a new state. An
/// iterator that is kept for long therefore keeps flushed memtables in memory, and compacted tables
/// on disk.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// db.put("key", "value")?;
/// let kept = db.iter();
/// db.flush()?;
/// let held = db.stats().held_by_cursors;
/// assert_eq!((held.states, held.cursors), (1, 1));
/// assert!(held.memtable_bytes > 0);
/// drop(kept);
/// assert_eq!(db.stats().held_by_cursors.memtable_bytes, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldByCursors {
    /// Bytes of the flushed memtables that are still in memory.
    pub memtable_bytes: u64,
    /// Bytes of the tables that have left the tree and are still on disk. For a moment this
    /// includes the inputs of a compaction that has just ended.
    pub table_bytes: u64,
    /// How many earlier states of the tree are held.
    pub states: u64,
    /// How many iterators and cursors hold them. An iterator counts once for itself, and once more
    /// for each of its ends that was used.
    pub cursors: u64,
    /// How long ago the oldest of these states was replaced. The iterators and cursors that hold it
    /// are at least this old. Zero if there are none.
    pub oldest: Duration,
}

/// A table that is set aside; see [`Stats::damaged`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// for table in db.stats().damaged {
///     eprintln!("level {}, table {}: {}", table.level, table.number, table.error);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DamagedTable {
    /// Its level.
    pub level: usize,
    /// Its file number: `000012.sst` is 12.
    pub number: u64,
    /// The damage, with file and offset, or the error of the read.
    pub error: Error,
}

/// One level of a [`Stats`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// for level in db.stats().levels {
///     println!("level {}: {} tables, {} bytes", level.level, level.files, level.file_bytes);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelStats {
    /// The number of the level, 0 to 6.
    pub level: usize,
    /// The number of tables.
    pub files: usize,
    /// Bytes of the tables.
    pub file_bytes: u64,
    /// Entries in the tables, tombstones and old versions included.
    pub entries: u64,
    /// See [`FileStats::dead_entries`].
    pub dead_entries: u64,
    /// See [`FileStats::dead_bytes`].
    pub dead_bytes: u64,
    /// Stored bytes of the tables' filters.
    pub filter_bytes: u64,
    /// What lookups counted in tables of this level, obsolete ones included.
    pub counts: FileCounts,
    /// The false-positive rate to expect, see [`Stats::predicted_fpr`].
    pub predicted_fpr: Option<f64>,
    /// How many false positives to expect in [`LevelStats::counts`]: for each table, obsolete ones
    /// included, its own rate times the queries for keys that it does not hold. `None` if the rate
    /// of a filter that was queried is not known, as in tables of RocksDB.
    pub expected_false_positives: Option<f64>,
}

/// One table of a [`Stats`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// # db.put("key", "value")?;
/// # db.flush()?;
/// for file in db.stats().files {
///     println!("{:06}: observed {:?}", file.number, file.counts.filter.observed_fpr());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileStats {
    /// Its level.
    pub level: usize,
    /// Its file number: `000012.sst` is 12.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// Its smallest key, or the start of a range deletion in it.
    pub smallest: Vec<u8>,
    /// Its largest key, or the end of a range deletion in it.
    pub largest: Vec<u8>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// An estimate of the dead entries that a compaction of this table would free: those in the
    /// table that no reader can see, its tombstones, and the entries of older tables that its
    /// tombstones hide.
    pub dead_entries: u64,
    /// An estimate of the bytes of these dead entries.
    pub dead_bytes: u64,
    /// Its filter, if it has one.
    pub filter: Option<FilterInfo>,
    /// What lookups counted.
    pub counts: FileCounts,
}

impl Stats {
    /// What lookups counted in all tables, obsolete ones included.
    pub fn counts(&self) -> FileCounts {
        self.levels.iter().fold(FileCounts::default(), |sum, level| sum + level.counts)
    }

    /// Stored bytes of all filters.
    pub fn filter_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.filter_bytes).sum()
    }

    /// The predicted false-positive rate of all filters together; `None` without filters. It is the
    /// mean of the tables' predictions, weighted by the number of absent keys that each filter was
    /// queried for, or by entries if there were no such keys.
    pub fn predicted_fpr(&self) -> Option<f64> {
        predicted_fpr(&self.files)
    }
}

pub(super) fn predicted_fpr<'a>(
    files: impl IntoIterator<Item = &'a FileStats> + Clone,
) -> Option<f64> {
    let absent_queries =
        |file: &FileStats| (file.counts.filter.useful + file.counts.filter.false_positive()) as f64;
    let mean = |weight: &dyn Fn(&FileStats) -> f64| {
        let (mut sum, mut total) = (0.0, 0.0);
        for file in files.clone() {
            if let Some(predicted_fpr) = file.filter.as_ref().and_then(|f| f.predicted_fpr) {
                sum += weight(file) * predicted_fpr;
                total += weight(file);
            }
        }
        (total > 0.0).then(|| sum / total)
    };
    mean(&absent_queries).or_else(|| mean(&|file| file.entries as f64))
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Tree\n{LEVEL_COLUMNS}")?;
        for level in &self.levels {
            level_line(f, &level.level.to_string(), level)?;
        }
        let total = LevelStats {
            files: self.files.len(),
            file_bytes: self.levels.iter().map(|level| level.file_bytes).sum(),
            entries: self.levels.iter().map(|level| level.entries).sum(),
            filter_bytes: self.filter_bytes(),
            counts: self.counts(),
            predicted_fpr: self.predicted_fpr(),
            ..LevelStats::default()
        };
        level_line(f, "all", &total)?;
        KeyspaceStats::write_table(&self.keyspaces, f)?;

        writeln!(f, "\nWrites")?;
        writeln!(f, "  to compact    {:>10}", bytes(self.compaction_debt_bytes))?;
        let dead = self.levels.iter().fold((0, 0), |(entries, bytes), level| {
            (entries + level.dead_entries, bytes + level.dead_bytes)
        });
        writeln!(f, "  dead, about   {:>10}   {} entries", bytes(dead.1), dead.0)?;
        if let Some(age) = self.oldest_snapshot {
            let held = bytes(self.held_by_snapshots_bytes);
            let (count, age) = (self.snapshots, age.as_secs_f64());
            writeln!(
                f,
                "  snapshots     {held:>10}   kept for {count}, the oldest is {age:.1} s old"
            )?;
        }
        let waited = self.tickers.get(Ticker::StallMicros) as f64 / 1e6;
        writeln!(f, "  writers       {}, waited {waited:.3} s so far", self.write_stall)?;
        if let Some(error) = &self.out_of_space {
            writeln!(f, "  waits         {error}")?;
        }
        let in_vain = self.tickers.get(Ticker::CompactionsInVain);
        if in_vain > 0 {
            writeln!(f, "  in vain       {in_vain} merges, which are not repeated")?;
        }
        let left = self.tickers.get(Ticker::FilesNotRemoved);
        if left > 0 {
            writeln!(f, "  not removed   {left} obsolete files, which the next opening removes")?;
        }
        if !self.damaged.is_empty() {
            writeln!(f, "\nSet aside from compaction")?;
        }
        for table in &self.damaged {
            writeln!(f, "  level {}       {}", table.level, table.error)?;
        }

        writeln!(f, "\nMemory")?;
        writeln!(
            f,
            "  memtables     {:>10}   {} entries",
            bytes(self.memtable_bytes as u64),
            self.memtable_entries
        )?;
        if self.held_by_readers_bytes > 0 {
            let held = bytes(self.held_by_readers_bytes as u64);
            writeln!(f, "  readers       {held:>10}   kept for callbacks of the process")?;
        }
        let held = &self.held_by_cursors;
        if held.states > 0 {
            let memory = bytes(held.memtable_bytes);
            writeln!(f, "  cursors       {memory:>10}   of flushed memtables, kept for {held}")?;
        }
        let kinds: usize = self.cache.iter().map(|(_, usage)| usage.bytes).sum();
        writeln!(
            f,
            "  block cache   {:>10}   of {}",
            bytes((kinds + self.cache_tables_bytes) as u64),
            bytes(self.cache_capacity_bytes as u64)
        )?;
        for (kind, usage) in &self.cache {
            let kind = format!("{kind:?}").to_lowercase();
            let size = bytes(usage.bytes as u64);
            writeln!(f, "    {kind:<11} {size:>10}   {} entries", usage.entries)?;
        }
        let tables = bytes(self.cache_tables_bytes as u64);
        writeln!(f, "    tables      {tables:>10}   for open tables and slots")?;
        let needed = bytes(self.metadata_bytes as u64);
        writeln!(f, "    needed      {needed:>10}   by all filters and indexes")?;
        if self.pinned_metadata_bytes > 0 {
            let pinned = bytes(self.pinned_metadata_bytes as u64);
            writeln!(f, "    pinned      {pinned:>10}   whole, until a compaction writes parts")?;
        }

        writeln!(f, "\nFiles")?;
        writeln!(f, "  open          {:>10}   of {}", self.open_files, self.max_open_files)?;
        writeln!(f, "  opened again  {:>10}", self.file_reopens)?;
        if held.states > 0 {
            let tables = bytes(held.table_bytes);
            writeln!(f, "  cursors       {tables:>10}   of obsolete tables, kept for {held}")?;
        }

        writeln!(f, "\nCounters")?;
        for (ticker, count) in self.tickers.iter().filter(|&(_, count)| count > 0) {
            writeln!(f, "  {:<36} {count:>16}", ticker.name())?;
        }
        Ok(())
    }
}

/// Who holds what, and for how long, as a phrase: `3 cursors, for 12.5 s so far`.
impl fmt::Display for HeldByCursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cursors, for {:.1} s so far", self.cursors, self.oldest.as_secs_f64())
    }
}

const LEVEL_COLUMNS: &str = "level  files       size      entries    filters  bits/key predicted  observed       useful full positive false positive no filter";

/// A line of the table of levels. The command `stats` uses the same names of columns.
fn level_line(f: &mut fmt::Formatter<'_>, name: &str, level: &LevelStats) -> fmt::Result {
    let bits = match level.entries {
        0 => 0.0,
        entries => level.filter_bytes as f64 * 8.0 / entries as f64,
    };
    let filter = level.counts.filter;
    writeln!(
        f,
        "{name:>5} {:>6} {:>10} {:>12} {:>10} {bits:>9.2} {:>9} {:>9} {:>12} {:>13} {:>14} {:>9}",
        level.files,
        bytes(level.file_bytes),
        level.entries,
        bytes(level.filter_bytes),
        percent(level.predicted_fpr),
        percent(filter.observed_fpr()),
        filter.useful,
        filter.full_positive,
        filter.false_positive(),
        level.counts.unfiltered,
    )
}

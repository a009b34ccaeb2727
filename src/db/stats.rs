//! [`Stats`]: what the database holds and what its filters have done, as a value and as a report.
//!
//! Filters are judged per file, per level and for the whole: how often they said no (*useful*), how
//! often maybe (*full positive*), how often that was true; the false-positive rate that came of it,
//! beside the one that was predicted when the filter was built.

use std::fmt;

use super::Inner;
use super::write::write_stall::{BrakeCause, WriteBrake, write_brake};
use crate::cache::{BlockKind, KindUsage};
use crate::error::Error;
use crate::stats::{FileCounts, FilterCounts, Ticker, Tickers};
use crate::sync::pin;
use crate::table::FilterInfo;
use crate::version::LEVELS;

/// A moment's account of a database; `Display` prints it as a report.
#[derive(Debug, Clone)]
pub struct Stats {
    /// The levels that hold data or have counted anything, from level 0.
    pub levels: Vec<LevelStats>,
    /// Every table, level by level.
    pub files: Vec<FileStats>,
    /// Everything that is counted for the whole database.
    pub tickers: Tickers,
    /// What the block cache holds, and of which kind; of all databases that share it.
    pub cache: Vec<(BlockKind, KindUsage)>,
    /// The most bytes the block cache may hold.
    pub cache_capacity_bytes: usize,
    /// Tables that are open; of all databases that share the bound, and without those that outlived
    /// theirs.
    pub open_files: usize,
    /// The most tables open at a time, see [`Builder::max_open_files`](crate::Builder::max_open_files).
    pub max_open_files: usize,
    /// How often one of them had to be opened again.
    pub file_reopens: u64,
    /// Bytes of all memtables, frozen ones included.
    pub memtable_bytes: usize,
    /// Entries in all memtables.
    pub memtable_entries: usize,
    /// Bytes that compaction must still rewrite before every level is within its target; an
    /// estimate.
    #[doc(alias = "estimate-pending-compaction-bytes")]
    pub compaction_debt_bytes: u64,
    /// Whether the tree slows writers down.
    pub write_brake: WriteBrake,
    /// Tables with damage that a compaction has met since the database was opened. They are set
    /// aside: read as before, but no longer compacted, nor is what is newer than they are and
    /// overlaps them.
    pub damaged: Vec<DamagedTable>,
    /// Why something that the database has to do waits, though nothing is wrong with it: there is no
    /// space to take its directory over, to flush, or to compact. It is tried again; reads go on.
    pub out_of_space: Option<Error>,
}

/// A table of the tree that is set aside, see [`Stats::damaged`].
#[derive(Debug, Clone)]
pub struct DamagedTable {
    /// The level it stands in.
    pub level: usize,
    /// Its file number: `000012.sst` is 12.
    pub number: u64,
    /// The damage, with file and offset.
    pub error: Error,
}

/// One level of a [`Stats`].
#[derive(Debug, Clone, Default)]
pub struct LevelStats {
    /// 0 to 6.
    pub level: usize,
    /// Tables.
    pub files: usize,
    /// Bytes of the tables.
    pub file_bytes: u64,
    /// Entries in the tables, tombstones and old versions included.
    pub entries: u64,
    /// Stored bytes of their filters.
    pub filter_bytes: u64,
    /// What lookups counted here, files that are gone included.
    pub counts: FileCounts,
    /// The false-positive rate to expect, see [`Stats::predicted_fpr`].
    pub predicted_fpr: Option<f64>,
}

/// One table of a [`Stats`].
#[derive(Debug, Clone)]
pub struct FileStats {
    /// The level it stands in.
    pub level: usize,
    /// Its file number: `000012.sst` is 12.
    pub number: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Its filter, if it has one.
    pub filter: Option<FilterInfo>,
    /// What lookups counted.
    pub counts: FileCounts,
}

impl Stats {
    /// What lookups counted in all tables, gone ones included.
    pub fn counts(&self) -> FileCounts {
        self.levels.iter().fold(FileCounts::default(), |sum, level| sum + level.counts)
    }

    /// Stored bytes of all filters.
    pub fn filter_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.filter_bytes).sum()
    }

    /// The false-positive rate to expect of the filters as they were used: the mean of what was
    /// predicted for each table, weighted by how often its filter was asked in vain, or by its
    /// entries where none was asked. `None` without filters.
    pub fn predicted_fpr(&self) -> Option<f64> {
        predicted_fpr(&self.files)
    }
}

fn predicted_fpr<'a>(files: impl IntoIterator<Item = &'a FileStats> + Clone) -> Option<f64> {
    let absent_probes =
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
    mean(&absent_probes).or_else(|| mean(&|file| file.entries as f64))
}

impl Inner {
    pub(super) fn stats(&self) -> Stats {
        let (pressure, damaged, hindrance) = {
            let state = self.lock_state();
            let (flushes, compactions) = (&state.work.flushes, &state.work.compactions);
            let hindrance = flushes.hindrance().or(compactions.hindrance()).cloned();
            (state.pressure, state.work.damaged.clone(), hindrance)
        };
        let view = self.view.load_arc(&pin());
        let files: Vec<FileStats> = view
            .version
            .files()
            .map(|(level, file)| FileStats {
                level,
                number: file.meta.number,
                file_bytes: file.meta.file_bytes,
                entries: file.meta.entries,
                filter: file.table.filter_info(),
                counts: file.table.file_counters().snapshot(),
            })
            .collect();
        let departed = self.store.departed.counts();
        let levels = (0..LEVELS).map(|level| level_stats(level, &files, departed[level]));
        let levels =
            levels.filter(|level| level.files > 0 || level.counts != FileCounts::default());
        let cache = &self.store.context.cache;
        Stats {
            levels: levels.collect(),
            tickers: self.counters.snapshot(),
            cache: [BlockKind::Data, BlockKind::Index, BlockKind::Filter]
                .iter()
                .map(|&kind| (kind, cache.usage_of(kind)))
                .collect(),
            cache_capacity_bytes: cache.capacity(),
            open_files: self.store.descriptors.open_files(),
            max_open_files: self.store.descriptors.capacity(),
            file_reopens: self.store.descriptors.reopened(),
            memtable_bytes: view.memtables().map(|memtable| memtable.bytes()).sum(),
            memtable_entries: view.memtables().map(|memtable| memtable.len()).sum(),
            compaction_debt_bytes: pressure.debt_bytes,
            write_brake: write_brake(pressure),
            damaged,
            out_of_space: self.missing_space().or(hindrance),
            files,
        }
    }
}

fn level_stats(level: usize, files: &[FileStats], departed: FileCounts) -> LevelStats {
    let here: Vec<&FileStats> = files.iter().filter(|file| file.level == level).collect();
    LevelStats {
        level,
        files: here.len(),
        file_bytes: here.iter().map(|file| file.file_bytes).sum(),
        entries: here.iter().map(|file| file.entries).sum(),
        filter_bytes: here.iter().filter_map(|file| file.filter.as_ref()).map(|f| f.bytes).sum(),
        counts: here.iter().fold(departed, |sum, file| sum + file.counts),
        predicted_fpr: predicted_fpr(here.iter().copied()),
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Tree")?;
        writeln!(
            f,
            "{:>5} {:>6} {:>10} {:>12} {:>10} {:>9} {:>12} {:>10} {:>10} {:>9} {:>9}",
            "level",
            "files",
            "size",
            "entries",
            "filters",
            "bits/key",
            "useful",
            "positive",
            "true",
            "observed",
            "predicted"
        )?;
        for level in &self.levels {
            let row = Row {
                name: level.level.to_string(),
                files: level.files,
                file_bytes: level.file_bytes,
                entries: level.entries,
                filter_bytes: level.filter_bytes,
                counts: level.counts.filter,
                predicted_fpr: level.predicted_fpr,
            };
            row.fmt(f)?;
        }
        let total = Row {
            name: "all".into(),
            files: self.files.len(),
            file_bytes: self.levels.iter().map(|level| level.file_bytes).sum(),
            entries: self.levels.iter().map(|level| level.entries).sum(),
            filter_bytes: self.filter_bytes(),
            counts: self.counts().filter,
            predicted_fpr: self.predicted_fpr(),
        };
        total.fmt(f)?;

        writeln!(f, "\nWrites")?;
        writeln!(f, "  to compact    {:>10}", bytes(self.compaction_debt_bytes))?;
        let waited = self.tickers.get(Ticker::StallMicros) as f64 / 1e6;
        writeln!(f, "  writers       {}, waited {waited:.3} s so far", self.write_brake)?;
        if let Some(error) = &self.out_of_space {
            writeln!(f, "  waits         {error}")?;
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
        let used: usize = self.cache.iter().map(|(_, usage)| usage.bytes).sum();
        writeln!(
            f,
            "  block cache   {:>10}   of {}",
            bytes(used as u64),
            bytes(self.cache_capacity_bytes as u64)
        )?;
        for (kind, usage) in &self.cache {
            let kind = format!("{kind:?}").to_lowercase();
            let size = bytes(usage.bytes as u64);
            writeln!(f, "    {kind:<11} {size:>10}   {} entries", usage.entries)?;
        }

        writeln!(f, "\nFiles")?;
        writeln!(f, "  open          {:>10}   of {}", self.open_files, self.max_open_files)?;
        writeln!(f, "  opened again  {:>10}", self.file_reopens)?;

        writeln!(f, "\nCounters")?;
        for (ticker, count) in self.tickers.iter().filter(|&(_, count)| count > 0) {
            writeln!(f, "  {:<36} {count:>16}", ticker.name())?;
        }
        Ok(())
    }
}

impl fmt::Display for WriteBrake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = |cause| match cause {
            BrakeCause::Memtables => "flushes",
            BrakeCause::Level0 => "compactions of level 0",
            BrakeCause::Debt => "compactions",
        };
        match *self {
            WriteBrake::None => write!(f, "unhindered"),
            WriteBrake::Delay { bytes_per_second, cause } => {
                write!(f, "slowed by {} to {}/s", why(cause), bytes(bytes_per_second))
            }
            WriteBrake::Stop(cause) => write!(f, "stopped by {}", why(cause)),
        }
    }
}

/// A line of the table of levels.
struct Row {
    name: String,
    files: usize,
    file_bytes: u64,
    entries: u64,
    filter_bytes: u64,
    counts: FilterCounts,
    predicted_fpr: Option<f64>,
}

impl Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = match self.entries {
            0 => 0.0,
            entries => self.filter_bytes as f64 * 8.0 / entries as f64,
        };
        writeln!(
            f,
            "{:>5} {:>6} {:>10} {:>12} {:>10} {:>9.2} {:>12} {:>10} {:>10} {:>9} {:>9}",
            self.name,
            self.files,
            bytes(self.file_bytes),
            self.entries,
            bytes(self.filter_bytes),
            bits,
            self.counts.useful,
            self.counts.full_positive,
            self.counts.full_true_positive,
            percent(self.counts.observed_fpr()),
            percent(self.predicted_fpr),
        )
    }
}

fn percent(rate: Option<f64>) -> String {
    rate.map_or("-".into(), |rate| format!("{:.3} %", rate * 100.0))
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

//! The four figures of filters, and when to act on them.
//!
//! ```text
//! 1  hit rate       useful / asked              over 90 % where most lookups miss
//! 2  observed rate  wrong / absent              next to the predicted one
//! 3  reads saved    useful × mean time of the timed block reads, or the given cost
//! 4  memory         filters / (block cache + memtables)
//! ```
//!
//! Each filter that a lookup queries gives one answer, which [`FilterCounts`] counts. An answer
//! "no" is *useful*, because it saves the search of the table. An answer "maybe" is *wrong* if the
//! table does not hold the key. *Asked* is the number of all answers. *Absent* is the number of
//! answers for keys that the table does not hold, which are the useful and the wrong ones. The
//! rates of line 2 are false-positive rates.

use maypole::{
    BlockKind, FileCounts, FilterCounts, LevelStats, PublishedStats, Ticker, wilson_interval_95,
};

use crate::args::USUAL_READ_MICROS;
use crate::show::record::record;
use crate::show::text::{count, counted, percent, size, small};

/// If filters take a larger share than this of the block cache and the memtables together, a
/// warning says so.
const MUCH_MEMORY: f64 = 0.05;
/// If the filters of a level never said no in at least this many queries, a warning says so.
const ENOUGH_ASKED: u64 = 1000;

/// What a read of a block costs, in microseconds, and where the figure comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadCost {
    Given(f64),
    /// The mean of the reads that were timed by the program that publishes the counters, in
    /// microseconds, and the number of these reads.
    Measured(f64, u64),
    /// The usual cost, because that program has read no block, or its version does not time reads.
    Usual,
}

impl ReadCost {
    /// The given cost; else the cost that was measured since the database was opened; else the
    /// usual cost.
    pub fn of(stats: &PublishedStats, given: Option<f64>) -> ReadCost {
        let reads = stats.tickers.get(Ticker::FileReadsTimed);
        let nanos = stats.tickers.get(Ticker::FileReadNanos);
        match (given, reads) {
            (Some(micros), _) => ReadCost::Given(micros),
            (None, 0) => ReadCost::Usual,
            (None, reads) => ReadCost::Measured(nanos as f64 / 1000.0 / reads as f64, reads),
        }
    }

    pub fn micros(self) -> f64 {
        match self {
            ReadCost::Given(micros) | ReadCost::Measured(micros, _) => micros,
            ReadCost::Usual => USUAL_READ_MICROS,
        }
    }

    pub fn name(self) -> String {
        let micros = self.micros();
        match self {
            ReadCost::Given(_) => format!("{micros} µs each (--read-cost)"),
            ReadCost::Measured(_, reads) => {
                format!("{micros:.1} µs each, the mean of {}", counted(reads, "measured read"))
            }
            ReadCost::Usual => {
                format!("{micros} µs each, usual for flash (--read-cost gives yours)")
            }
        }
    }
}

record! {
    /// What filters did in a period, and the memory they take.
    pub struct Figures {
        lookups: u64,
        asked: u64,
        useful: u64,
        full_positive: u64,
        full_true_positive: u64,
        false_positive: u64,
        /// The share of queries that were answered with no.
        hit_rate: Option<f64>,
        observed_fpr: Option<f64>,
        observed_fpr_least: Option<f64>,
        observed_fpr_most: Option<f64>,
        predicted_fpr: Option<f64>,
        /// Searches of tables that filters saved.
        reads_saved: u64,
        /// An upper bound of the time saved. It counts every saved search as a read from the file,
        /// although the block may have been in the cache.
        seconds_saved: f64,
        filter_bytes: u64,
        resident_filter_bytes: u64,
        /// The capacity of the block cache plus the memtables.
        memory_bytes: u64,
        memory_share: Option<f64>,
        /// Searches of tables that did not hold the key and whose filter, if any, was not queried.
        unfiltered: u64,
        /// Answers of filters that cannot be used, because their stored bytes are not valid. Such a
        /// filter always answers "maybe".
        untrusted: u64,
    }
}

impl Figures {
    /// The figures since the database was opened.
    pub fn new(stats: &PublishedStats, read_cost: ReadCost) -> Figures {
        Figures::of(stats, &Counted::new(stats), read_cost)
    }

    /// The figures of a period. `counted` is what was counted in it. The sizes and the predicted
    /// rate are those of `stats`.
    pub fn of(stats: &PublishedStats, counted: &Counted, read_cost: ReadCost) -> Figures {
        let filter = counted.filter;
        let interval = filter.fpr_interval_95();
        let memory_bytes = stats.cache_capacity_bytes + stats.memtable_bytes;
        let share = stats.filter_bytes() as f64 / memory_bytes as f64;
        let resident = stats.cache.iter().find(|(kind, _)| *kind == BlockKind::Filter);
        Figures {
            lookups: counted.lookups,
            asked: filter.asked(),
            useful: filter.useful,
            full_positive: filter.full_positive,
            full_true_positive: filter.full_true_positive,
            false_positive: filter.false_positive(),
            hit_rate: ratio(filter.useful, filter.asked()),
            observed_fpr: filter.observed_fpr(),
            observed_fpr_least: interval.map(|(least, _)| least),
            observed_fpr_most: interval.map(|(_, most)| most),
            predicted_fpr: stats.predicted_fpr,
            reads_saved: filter.useful,
            seconds_saved: filter.useful as f64 * read_cost.micros() / 1e6,
            filter_bytes: stats.filter_bytes(),
            resident_filter_bytes: resident.map_or(0, |(_, usage)| usage.bytes as u64),
            memory_bytes,
            memory_share: (memory_bytes > 0).then_some(share),
            unfiltered: counted.unfiltered,
            untrusted: filter.untrusted,
        }
    }
}

/// The counters from which the figures are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub lookups: u64,
    pub filter: FilterCounts,
    pub unfiltered: u64,
}

impl Counted {
    pub fn new(stats: &PublishedStats) -> Counted {
        let counts = stats.counts();
        Counted {
            lookups: stats.tickers.get(Ticker::NumberKeysRead),
            filter: counts.filter,
            unfiltered: counts.unfiltered,
        }
    }

    pub fn since(&self, earlier: &Counted) -> Counted {
        Counted {
            lookups: self.lookups.saturating_sub(earlier.lookups),
            filter: since(self.filter, earlier.filter),
            unfiltered: self.unfiltered.saturating_sub(earlier.unfiltered),
        }
    }
}

/// What filters counted between two moments.
pub fn since(now: FilterCounts, then: FilterCounts) -> FilterCounts {
    FilterCounts {
        useful: now.useful.saturating_sub(then.useful),
        full_positive: now.full_positive.saturating_sub(then.full_positive),
        full_true_positive: now.full_true_positive.saturating_sub(then.full_true_positive),
        untrusted: now.untrusted.saturating_sub(then.untrusted),
    }
}

pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

record! {
    /// The data blocks that a mean lookup searches in a level in tables that do not hold its key:
    /// the false positives of filters, and all searches without one.
    pub struct InVain {
        level: u64,
        /// What the rates of the tables' filters promise; `None` if one is not known.
        predicted: Option<f64>,
        observed: f64,
        /// The bounds of the 95 % confidence interval of `observed`.
        low: f64,
        high: f64,
    }
}

/// One row for each level, if there were lookups. None if lookups searched tables of other keyspaces:
/// lookups are counted for the whole database, so it is not known how many were of this tree.
pub fn in_vain(stats: &PublishedStats) -> Vec<InVain> {
    let searched_others = stats.keyspaces.iter().any(|of| of.counts != FileCounts::default());
    let lookups = match stats.tickers.get(Ticker::NumberKeysRead) {
        0 => return Vec::new(),
        _ if searched_others => return Vec::new(),
        lookups => lookups as f64,
    };
    let row = |level: &LevelStats| {
        let (filter, unfiltered) = (level.counts.filter, level.counts.unfiltered as f64);
        let absent = filter.absent();
        let (low, high) = wilson_interval_95(filter.false_positive(), absent).unwrap_or_default();
        let a_lookup = |false_positives: f64| (false_positives + unfiltered) / lookups;
        InVain {
            level: level.level as u64,
            predicted: level.expected_false_positives.map(a_lookup),
            observed: a_lookup(filter.false_positive() as f64),
            low: a_lookup(low * absent as f64),
            high: a_lookup(high * absent as f64),
        }
    };
    stats.levels.iter().map(row).collect()
}

impl InVain {
    /// A sentence if the prediction is outside of the interval, and differs by a twentieth. Less is
    /// usual: a prediction is the mean of many filters, and each has a rate of its own.
    pub fn difference(&self) -> Option<String> {
        const USUAL: f64 = 0.05;
        let predicted = self.predicted.filter(|blocks| !(self.low..=self.high).contains(blocks))?;
        if (predicted - self.observed).abs() <= USUAL * self.observed {
            return None;
        }
        Some(format!(
            "level {}: a lookup searches {} data blocks in vain, {} are predicted: chance does not explain \
             that. The same keys may be looked up again and again, or its tables have few keys",
            self.level,
            small(self.observed),
            small(predicted)
        ))
    }
}

pub fn warnings(stats: &PublishedStats) -> Vec<String> {
    let mut warnings = Vec::new();
    for level in &stats.levels {
        let filter = level.counts.filter;
        let (n, asked) = (level.level, filter.asked());
        if let (Some((least, _)), Some(observed), Some(predicted)) =
            (filter.fpr_interval_95(), filter.observed_fpr(), level.predicted_fpr)
            && least > 2.0 * predicted
        {
            warnings.push(format!(
                "level {n}: {} of the answers to absent keys are wrong, at least {}; predicted are {}. \
                 Somebody may ask for the same keys again and again, or the filters are damaged",
                percent(observed),
                percent(least),
                percent(predicted)
            ));
        }
        if asked >= ENOUGH_ASKED && filter.useful == 0 {
            warnings.push(format!(
                "level {n}: its filters were queried {} times and never said no: they take {} and save \
                 nothing. Where that is the lowest level, bottommost_none(…) does without them",
                count(asked),
                size(level.filter_bytes)
            ));
        }
    }
    let figures = Figures::new(stats, ReadCost::Usual);
    if let Some(share) = figures.memory_share.filter(|&share| share > MUCH_MEMORY) {
        warnings.push(format!(
            "filters are {} of block cache and memtables, which is more than {}: fewer bits, a Ribbon or a \
             budget(…) leave more to data blocks, or the cache is small",
            percent(share),
            percent(MUCH_MEMORY)
        ));
    }
    if figures.untrusted > 0 {
        warnings.push(format!(
            "{} answers are of filters that cannot be trusted: maypole verify names the files",
            count(figures.untrusted)
        ));
    }
    let failed = stats.tickers.get(Ticker::FilterBuildFailed);
    if failed > 0 {
        warnings.push(format!(
            "{} filters missed a key right after they were built and were thrown away: the machine's \
             memory may be faulty",
            count(failed)
        ));
    }
    warnings
}

//! The counters of each table file, and the meaning of its filter's counts.

use std::ops::{Add, AddAssign};

use crate::sync::Guard;

use super::per_thread::{PerThread, ThreadRow};
use super::tickers::ThreadTickers;

/// The counters of a table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum FileTicker {
    /// [`FilterCounts`] gives the meanings of this counter and the next three.
    FilterUseful,
    FilterFullPositive,
    FilterFullTruePositive,
    FilterUntrusted,
    /// Data blocks that lookups searched, in the cache or read from the file.
    DataBlocksExamined,
    /// Reads from the file.
    Reads,
    /// Bytes read from the file.
    ReadBytes,
    /// See [`FileCounts::unfiltered`].
    Unfiltered,
}

/// The number of tickers. Together they fill one cache line.
const FILE_TICKERS: usize = 8;

/// The counters of one table file. They are small until the first lookup. Then they take 512 bytes
/// for each group of eight threads that uses the file.
pub(crate) struct FileCounters(PerThread<FILE_TICKERS>);

impl FileCounters {
    pub fn new() -> FileCounters {
        FileCounters(PerThread::new())
    }

    /// Adds `n` to a counter. Costs a few instructions and no fence.
    #[inline]
    pub fn add(&self, ticker: FileTicker, n: u64) {
        self.0.add(ticker as usize, n);
    }

    /// The current thread's row, for the additions of one lookup. `tickers` is the same thread's
    /// row of the database's counters, to which the lookup adds too.
    #[inline(always)]
    pub fn on_thread(&self, tickers: ThreadTickers<'_>, guard: &Guard) -> ThreadFileTickers<'_> {
        ThreadFileTickers(self.0.row_beside(tickers.0, guard.thread_index()))
    }

    /// The sums over all threads.
    pub fn sums(&self) -> FileCounts {
        let sum = self.0.sum();
        let get = |ticker: FileTicker| sum[ticker as usize];
        FileCounts {
            filter: FilterCounts {
                useful: get(FileTicker::FilterUseful),
                full_positive: get(FileTicker::FilterFullPositive),
                full_true_positive: get(FileTicker::FilterFullTruePositive),
                untrusted: get(FileTicker::FilterUntrusted),
            },
            data_blocks_examined: get(FileTicker::DataBlocksExamined),
            reads: get(FileTicker::Reads),
            read_bytes: get(FileTicker::ReadBytes),
            unfiltered: get(FileTicker::Unfiltered),
        }
    }
}

/// A thread's row of [`FileCounters`], looked up once for all additions of a lookup.
#[derive(Clone, Copy)]
pub(crate) struct ThreadFileTickers<'a>(ThreadRow<'a, FILE_TICKERS>);

impl ThreadFileTickers<'_> {
    #[inline(always)]
    pub fn add(self, ticker: FileTicker, n: u64) {
        self.add_all([(ticker, n)]);
    }

    /// Adds to each of several counters.
    #[inline(always)]
    pub fn add_all<const M: usize>(self, additions: [(FileTicker, u64); M]) {
        self.0.add_all(additions.map(|(ticker, n)| (ticker as usize, n)));
    }
}

/// Counts of the lookups in one table file, or in all files of a level.
///
/// ```
/// use maypole::FileCounts;
///
/// let file = FileCounts { reads: 2, read_bytes: 8192, ..FileCounts::default() };
/// assert_eq!((file + file).read_bytes, 16384);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// The results of filter queries.
    pub filter: FilterCounts,
    /// Data blocks that lookups searched, whether they were in the cache or had to be read.
    pub data_blocks_examined: u64,
    /// Reads from the file.
    pub reads: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
    /// Lookups that searched a table without querying a filter, and did not find their key there.
    /// The table has no filter, or its filter was [passed by](crate::Ticker::BloomPassedBy). A
    /// filter would have avoided nearly all of these searches.
    pub unfiltered: u64,
}

impl FileCounts {
    /// Lookups that reached the table, for a key that it does not hold: those that the filter has
    /// avoided, those that it has not, and those without a filter.
    pub(crate) fn asked_in_vain(&self) -> u64 {
        self.filter.absent() + self.unfiltered
    }
}

impl Add for FileCounts {
    type Output = FileCounts;

    fn add(self, other: FileCounts) -> FileCounts {
        FileCounts {
            filter: self.filter + other.filter,
            data_blocks_examined: self.data_blocks_examined + other.data_blocks_examined,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            unfiltered: self.unfiltered + other.unfiltered,
        }
    }
}

impl AddAssign for FileCounts {
    fn add_assign(&mut self, other: FileCounts) {
        *self = *self + other;
    }
}

/// The results of filter queries by point lookups, in RocksDB's terms. A filter cannot be trusted
/// if it is damaged, of an unknown family, or not readable: it says maybe to every query. A filter
/// that was built from prefixes only is queried for the prefix of a key, so it says maybe for each
/// key whose prefix is in the filter.
///
/// ```
/// use maypole::FilterCounts;
///
/// let counts =
///     FilterCounts { useful: 97, full_positive: 13, full_true_positive: 10, untrusted: 0 };
/// assert_eq!((counts.asked(), counts.false_positive()), (110, 3));
/// assert_eq!(counts.observed_fpr(), Some(0.03));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// The filter said no: the table was skipped.
    pub useful: u64,
    /// The filter said maybe, or could not be trusted.
    pub full_positive: u64,
    /// The filter said maybe, and the table held an entry of the key, of any kind.
    pub full_true_positive: u64,
    /// The full positives of filters that could not be trusted.
    pub untrusted: u64,
}

impl FilterCounts {
    /// The number of filter queries. Every result is useful or a full positive.
    pub fn asked(&self) -> u64 {
        self.useful + self.full_positive
    }

    /// Full positives for keys that the table does not hold: the table was searched in vain.
    pub fn false_positive(&self) -> u64 {
        self.full_positive.saturating_sub(self.full_true_positive)
    }

    /// The number of queries for keys that the table does not hold.
    pub fn absent(&self) -> u64 {
        self.useful + self.false_positive()
    }

    /// The share of absent keys for which the filter said maybe or could not be trusted. `None` if
    /// the filter was queried for no absent key.
    pub fn observed_fpr(&self) -> Option<f64> {
        let absent = self.false_positive() + self.useful;
        (absent > 0).then(|| self.false_positive() as f64 / absent as f64)
    }

    /// The interval that contains the true false-positive rate with a confidence of 95 %. `None` if
    /// the filter was queried for no absent key.
    pub fn fpr_interval_95(&self) -> Option<(f64, f64)> {
        wilson_interval_95(self.false_positive(), self.absent())
    }
}

impl Add for FilterCounts {
    type Output = FilterCounts;

    fn add(self, other: FilterCounts) -> FilterCounts {
        FilterCounts {
            useful: self.useful + other.useful,
            full_positive: self.full_positive + other.full_positive,
            full_true_positive: self.full_true_positive + other.full_true_positive,
            untrusted: self.untrusted + other.untrusted,
        }
    }
}

impl AddAssign for FilterCounts {
    fn add_assign(&mut self, other: FilterCounts) {
        *self = *self + other;
    }
}

/// The Wilson score interval, at 95 % confidence, of the rate of hits, if `hits` were observed in
/// `trials` trials. `None` without trials. Unlike the usual interval of the normal approximation,
/// it is usable for rates near 0, such as those of filters. (E. B. Wilson, "Probable inference, the
/// law of succession, and statistical inference", Journal of the American Statistical Association
/// 22, 1927.)
pub fn wilson_interval_95(hits: u64, trials: u64) -> Option<(f64, f64)> {
    if trials == 0 {
        return None;
    }
    // The normal distribution has 95 % of its mass within this many standard deviations.
    const Z: f64 = 1.959963984540054;
    let n = trials as f64;
    let rate = hits as f64 / n;
    let center = rate + Z * Z / (2.0 * n);
    let spread = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some((((center - spread) / scale).max(0.0), ((center + spread) / scale).min(1.0)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::per_thread::on_threads_beyond_the_rows;
    use super::super::tickers::{Counters, Ticker};
    use super::*;
    use crate::sync::pin;

    #[test]
    fn threads_beyond_the_rows_count_together_for_a_file_and_its_database() {
        let (database, file) = (Counters::new(), FileCounters::new());
        let threads = on_threads_beyond_the_rows(|| {
            for _ in 0..1000 {
                let guard = pin();
                let tickers = database.on_thread(&guard);
                tickers.add(Ticker::BloomUseful, 1);
                file.on_thread(tickers, &guard).add(FileTicker::FilterUseful, 1);
            }
        });
        assert_eq!(database.sums().get(Ticker::BloomUseful), 1000 * threads);
        assert_eq!(file.sums().filter.useful, 1000 * threads);
    }

    #[test]
    fn a_thread_continues_the_row_of_one_that_ended() {
        let counters = FileCounters::new();
        for _ in 0..200 {
            let add = || counters.add(FileTicker::Reads, 1);
            std::thread::scope(|scope| scope.spawn(add).join()).unwrap();
        }
        assert_eq!(counters.sums().reads, 200);
    }

    #[test]
    fn the_observed_rate_counts_absent_keys_only() {
        assert_eq!(FilterCounts::default().observed_fpr(), None);
        let present_only =
            FilterCounts { full_positive: 9, full_true_positive: 9, ..Default::default() };
        assert_eq!(present_only.observed_fpr(), None);
        let file =
            FilterCounts { useful: 97, full_positive: 13, full_true_positive: 10, untrusted: 0 };
        assert_eq!(file.observed_fpr(), Some(0.03));
        let level = file + file;
        assert_eq!((level.asked(), level.false_positive()), (220, 6));
        assert_eq!(level.observed_fpr(), Some(0.03));
    }

    #[test]
    fn wilson_intervals_end_where_the_observed_rate_is_1_96_deviations_off() {
        for (hits, trials) in [(0, 10), (1, 10), (15, 50), (1_000, 100_000)] {
            let (low, high) = wilson_interval_95(hits, trials).unwrap();
            let rate = hits as f64 / trials as f64;
            assert!(low <= rate && rate < high);
            for bound in [low, high] {
                let deviation = (bound * (1.0 - bound) / trials as f64).sqrt();
                let off = (rate - bound).abs();
                assert!((off - 1.959964 * deviation).abs() < 1e-6, "{hits} {trials} {bound}");
            }
        }
        // A published value as a reference.
        let (low, high) = wilson_interval_95(1, 10).unwrap();
        assert!((low - 0.0179).abs() < 1e-4 && (high - 0.4042).abs() < 1e-4);
        assert_eq!(wilson_interval_95(0, 0), None);
        assert_eq!(wilson_interval_95(7, 7).unwrap().1, 1.0);
    }
}

//! Counters: what the engine did, counted without slowing it down.
//!
//! A counter that threads share costs a lookup its overlap: an atomic addition is a full fence on
//! x86, and the line travels between the cores. So each thread adds with a plain load and store on
//! lines that it alone writes; a snapshot sums all threads.
//!
//! ```text
//!   Counters / FileCounters
//!     groups[8] ─► 8 rows, made when the first of their threads counts
//!       thread 0:  [ c0 c1 c2 … ]      a row: whole cache lines, written by one thread
//!       thread 1:  [ c0 c1 c2 … ]
//!     shared   ─► one row for all threads beyond 64, with atomic additions
//! ```
//!
//! A row belongs to a [`thread_index`]. When a thread ends, the next one continues its row, so
//! nothing is lost. A snapshot taken while others count may miss their latest additions, and
//! counters of one event may differ by it.
//!
//! Ticker names and meanings are RocksDB's (`monitoring/statistics.cc`, without its `rocksdb.`
//! prefix), so that its users' dashboards fit; where RocksDB has no ticker the name is ours.

use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Sub};
use std::sync::OnceLock;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Guard, thread_index};

/// Threads that get rows of their own: `GROUPS * GROUP_ROWS`.
const GROUPS: usize = if cfg!(loom) { 1 } else { 8 };
/// Rows that are made together.
const GROUP_ROWS: usize = if cfg!(loom) { 2 } else { 8 };

/// One thread's counters, on cache lines of their own.
#[repr(align(64))]
struct Row<const N: usize>([AtomicU64; N]);

impl<const N: usize> Row<N> {
    fn new() -> Row<N> {
        Row(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// `N` counters, sharded by thread.
struct Sharded<const N: usize> {
    groups: [OnceLock<Box<[Row<N>]>>; GROUPS],
    shared: OnceLock<Box<Row<N>>>,
}

impl<const N: usize> Sharded<N> {
    fn new() -> Sharded<N> {
        Sharded { groups: [const { OnceLock::new() }; GROUPS], shared: OnceLock::new() }
    }

    #[inline]
    fn add(&self, counter: usize, n: u64) {
        self.row(thread_index()).add(counter, n);
    }

    /// The row of the thread that runs, whose index is `thread`.
    #[inline]
    fn row(&self, thread: usize) -> ThreadRow<'_, N> {
        let own = match self.groups.get(thread / GROUP_ROWS) {
            Some(group) => match group.get() {
                Some(rows) => &rows[thread % GROUP_ROWS],
                None => &first_use(group)[thread % GROUP_ROWS],
            },
            None => {
                let row = self.shared.get_or_init(|| Box::new(Row::new()));
                return ThreadRow { row, is_shared: true, _on_this_thread: PhantomData };
            }
        };
        ThreadRow { row: own, is_shared: false, _on_this_thread: PhantomData }
    }

    fn sum(&self) -> [u64; N] {
        let rows = self.groups.iter().filter_map(OnceLock::get).flatten();
        let mut sum = [0u64; N];
        for row in rows.chain(self.shared.get().map(Box::as_ref)) {
            for (sum, counter) in sum.iter_mut().zip(&row.0) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        sum
    }
}

/// One thread's row, found once for several additions. Stays on its thread.
#[derive(Clone, Copy)]
struct ThreadRow<'a, const N: usize> {
    row: &'a Row<N>,
    is_shared: bool,
    _on_this_thread: PhantomData<*const ()>,
}

impl<const N: usize> ThreadRow<'_, N> {
    #[inline]
    fn add(&self, counter: usize, n: u64) {
        let counter = &self.row.0[counter];
        if self.is_shared {
            counter.fetch_add(n, Ordering::Relaxed);
        } else {
            // Only this thread writes the row, so the two halves cannot be torn apart.
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        }
    }
}

#[cold]
fn first_use<const N: usize>(group: &OnceLock<Box<[Row<N>]>>) -> &[Row<N>] {
    group.get_or_init(|| (0..GROUP_ROWS).map(|_| Row::new()).collect())
}

macro_rules! tickers {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// What is counted for a whole database.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Ticker {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Ticker {
            /// All tickers, in the order of reports.
            pub const ALL: [Ticker; Ticker::COUNT] = [$(Ticker::$variant),+];
            const COUNT: usize = [$($name),+].len();

            /// The name reports use.
            pub fn name(self) -> &'static str {
                match self {
                    $(Ticker::$variant => $name,)+
                }
            }
        }
    };
}

tickers! {
    /// A filter said no: a table was skipped.
    BloomUseful = "bloom.filter.useful",
    /// A filter said maybe, or could not be trusted.
    BloomFullPositive = "bloom.filter.full.positive",
    /// A filter said maybe and the table held an entry of the key, of any kind.
    BloomFullTruePositive = "bloom.filter.full.true.positive",
    /// A lookup, or an iterator for a table, tested a prefix.
    BloomPrefixChecked = "bloom.filter.prefix.checked",
    /// A prefix test said no: a table was skipped.
    BloomPrefixUseful = "bloom.filter.prefix.useful",
    /// A lookup's prefix test said maybe and the table held the key.
    BloomPrefixTruePositive = "bloom.filter.prefix.true.positive",
    /// Of the full positives, those of filters that could not be trusted. (Ours.)
    BloomUntrusted = "bloom.filter.untrusted",

    /// A data block was resident.
    BlockCacheDataHit = "block.cache.data.hit",
    /// A data block had to be read.
    BlockCacheDataMiss = "block.cache.data.miss",
    /// A data block was taken into the cache.
    BlockCacheDataAdd = "block.cache.data.add",
    /// Bytes charged for data blocks taken in.
    BlockCacheDataBytesInsert = "block.cache.data.bytes.insert",
    /// An index was resident.
    BlockCacheIndexHit = "block.cache.index.hit",
    /// An index had to be read.
    BlockCacheIndexMiss = "block.cache.index.miss",
    /// An index was taken into the cache.
    BlockCacheIndexAdd = "block.cache.index.add",
    /// Bytes charged for indexes taken in.
    BlockCacheIndexBytesInsert = "block.cache.index.bytes.insert",
    /// A filter was resident.
    BlockCacheFilterHit = "block.cache.filter.hit",
    /// A filter had to be read.
    BlockCacheFilterMiss = "block.cache.filter.miss",
    /// A filter was taken into the cache.
    BlockCacheFilterAdd = "block.cache.filter.add",
    /// Bytes charged for filters taken in.
    BlockCacheFilterBytesInsert = "block.cache.filter.bytes.insert",

    /// Data blocks a lookup searched, resident or read. (Ours.)
    DataBlocksExamined = "data.blocks.examined",
    /// Reads from table files. (Ours.)
    FileReads = "file.reads",
    /// Bytes read from table files. (Ours.)
    FileReadBytes = "file.read.bytes",
    /// Table files opened.
    FileOpens = "no.file.opens",

    /// Keys looked up, `multi_get` included.
    NumberKeysRead = "number.keys.read",
    /// Bytes of the values that lookups returned.
    BytesRead = "bytes.read",
    /// Calls of `multi_get`.
    NumberMultigetCalls = "number.multiget.get",
    /// Keys that were looked up by `multi_get`.
    NumberMultigetKeysRead = "number.multiget.keys.read",
    /// Lookups that a memtable answered.
    MemtableHit = "memtable.hit",
    /// Lookups that went on to the tables.
    MemtableMiss = "memtable.miss",
    /// Lookups that level 0 answered.
    GetHitL0 = "l0.hit",
    /// Lookups that level 1 answered.
    GetHitL1 = "l1.hit",
    /// Lookups that a deeper level answered.
    GetHitL2AndUp = "l2andup.hit",
    /// Cursors positioned.
    NumberDbSeek = "number.db.seek",
    /// Steps forward.
    NumberDbNext = "number.db.next",
    /// Steps backward.
    NumberDbPrev = "number.db.prev",
    /// Bytes of the keys and values that cursors returned.
    IterBytesRead = "db.iter.bytes.read",

    /// Entries written.
    NumberKeysWritten = "number.keys.written",
    /// Bytes of the batches written.
    BytesWritten = "bytes.written",
    /// Batches whose writer wrote the log itself.
    WriteDoneBySelf = "write.self",
    /// Batches that another writer's group carried.
    WriteDoneByOther = "write.other",
    /// Bytes appended to the write-ahead log.
    WalFileBytes = "wal.bytes",
    /// Syncs of the write-ahead log.
    WalFileSynced = "wal.synced",
    /// Times that writers waited for flush or compaction: the sum of the causes below. (Ours.)
    StallCount = "stall.count",
    /// Microseconds that writers waited for flush or compaction.
    StallMicros = "stall.micros",
    /// Waits until a memtable was flushed.
    StallMemtableStops = "memtable-limit-stops",
    /// Waits of writers that level 0 slowed down.
    StallL0Delays = "l0-file-count-limit-delays",
    /// Waits until level 0 was compacted.
    StallL0Stops = "l0-file-count-limit-stops",
    /// Waits of writers that compaction debt slowed down.
    StallDebtDelays = "pending-compaction-bytes-delays",
    /// Waits until compaction debt was paid.
    StallDebtStops = "pending-compaction-bytes-stops",

    /// Keys in the filters that were built. (Ours.)
    FilterBuildKeys = "filter.build.keys",
    /// Nanoseconds spent building them from the key hashes, checking included. (Ours.)
    FilterBuildNanos = "filter.build.nanos",
    /// Filters thrown away because a key added to them was missed by the check. (Ours.)
    FilterBuildFailed = "filter.build.failed",
    /// Memtables flushed. (Ours.)
    FlushCount = "flush.count",
    /// Bytes written by flushes.
    FlushWriteBytes = "flush.write.bytes",
    /// Compactions run. (Ours.)
    CompactionCount = "compact.count",
    /// Parts of the compactions that were split over several threads. (Ours.)
    CompactionParts = "compact.parts",
    /// Bytes read by compactions.
    CompactReadBytes = "compact.read.bytes",
    /// Bytes written by compactions.
    CompactWriteBytes = "compact.write.bytes",
}

/// The tickers of one database.
pub(crate) struct Counters(Sharded<{ Ticker::COUNT }>);

impl Counters {
    pub fn new() -> Counters {
        Counters(Sharded::new())
    }

    /// Adds `n` to a ticker. A few instructions, no fence.
    #[inline]
    pub fn add(&self, ticker: Ticker, n: u64) {
        self.0.add(ticker as usize, n);
    }

    /// For the additions of one lookup.
    #[inline]
    pub fn on_thread(&self, guard: &Guard) -> ThreadTickers<'_> {
        ThreadTickers(self.0.row(guard.thread_index()))
    }

    /// The sums over all threads.
    pub fn snapshot(&self) -> Tickers {
        Tickers(self.0.sum())
    }
}

/// A thread's view of [`Counters`]: an addition is three instructions.
#[derive(Clone, Copy)]
pub(crate) struct ThreadTickers<'a>(ThreadRow<'a, { Ticker::COUNT }>);

impl ThreadTickers<'_> {
    #[inline]
    pub fn add(&self, ticker: Ticker, n: u64) {
        self.0.add(ticker as usize, n);
    }
}

/// The values of all tickers at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tickers([u64; Ticker::COUNT]);

impl Tickers {
    /// The value of one ticker.
    pub fn get(&self, ticker: Ticker) -> u64 {
        self.0[ticker as usize]
    }

    /// All tickers with their values, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Ticker, u64)> + '_ {
        Ticker::ALL.into_iter().zip(self.0)
    }
}

/// What happened since `earlier`.
impl Sub<&Tickers> for &Tickers {
    type Output = Tickers;

    fn sub(self, earlier: &Tickers) -> Tickers {
        Tickers(std::array::from_fn(|i| self.0[i].saturating_sub(earlier.0[i])))
    }
}

/// What is counted for each table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum FileTicker {
    /// See [`FilterCounts`] for the first four.
    FilterUseful,
    FilterFullPositive,
    FilterFullTruePositive,
    FilterUntrusted,
    /// Data blocks a lookup searched, resident or read.
    DataBlocksExamined,
    /// Reads from the file.
    Reads,
    /// Bytes read from the file.
    ReadBytes,
}

/// As many as fill one cache line.
const FILE_TICKERS: usize = 8;

/// The counters of one table file. Small until the first lookup: 512 bytes for each eight threads
/// that then use it.
pub(crate) struct FileCounters(Sharded<FILE_TICKERS>);

impl FileCounters {
    pub fn new() -> FileCounters {
        FileCounters(Sharded::new())
    }

    /// Adds `n` to a counter. A few instructions, no fence.
    #[inline]
    pub fn add(&self, ticker: FileTicker, n: u64) {
        self.0.add(ticker as usize, n);
    }

    /// Adds one to each of `tickers`.
    #[inline]
    pub fn count<const M: usize>(&self, guard: &Guard, tickers: [FileTicker; M]) {
        self.add_all(guard, tickers.map(|ticker| (ticker, 1)));
    }

    /// Adds to each of `tickers`.
    #[inline]
    pub fn add_all<const M: usize>(&self, guard: &Guard, tickers: [(FileTicker, u64); M]) {
        let row = self.0.row(guard.thread_index());
        tickers.into_iter().for_each(|(ticker, n)| row.add(ticker as usize, n));
    }

    /// The sums over all threads.
    pub fn snapshot(&self) -> FileCounts {
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
        }
    }
}

/// What one table file, or all files of a level, had to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// What the filter answered.
    pub filter: FilterCounts,
    /// Data blocks that lookups searched, resident or read.
    pub data_blocks_examined: u64,
    /// Reads from the file.
    pub reads: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
}

impl Add for FileCounts {
    type Output = FileCounts;

    fn add(self, other: FileCounts) -> FileCounts {
        FileCounts {
            filter: self.filter + other.filter,
            data_blocks_examined: self.data_blocks_examined + other.data_blocks_examined,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
        }
    }
}

impl AddAssign for FileCounts {
    fn add_assign(&mut self, other: FileCounts) {
        *self = *self + other;
    }
}

/// What filters answered to point lookups, in RocksDB's terms. A filter without whole keys answers
/// for a key's prefix, and says maybe for all keys that share one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// The filter said no: the table was skipped.
    pub useful: u64,
    /// The filter said maybe, or could not be trusted.
    pub full_positive: u64,
    /// Of these, the table held an entry of the key, of any kind.
    pub full_true_positive: u64,
    /// Of the full positives, those of filters that could not be trusted.
    pub untrusted: u64,
}

impl FilterCounts {
    /// Filters asked: every answer is either useful or a full positive.
    pub fn probed(&self) -> u64 {
        self.useful + self.full_positive
    }

    /// Full positives without an entry of the key: tables read in vain.
    pub fn false_positive(&self) -> u64 {
        self.full_positive.saturating_sub(self.full_true_positive)
    }

    /// The share of absent keys that the filter let through. `None` before one was asked.
    pub fn observed_fpr(&self) -> Option<f64> {
        let absent = self.false_positive() + self.useful;
        (absent > 0).then(|| self.false_positive() as f64 / absent as f64)
    }

    /// The range that holds the true false-positive rate with a confidence of 95 %.
    pub fn fpr_interval_95(&self) -> Option<(f64, f64)> {
        let absent = self.false_positive() + self.useful;
        wilson_interval_95(self.false_positive(), absent)
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

/// The Wilson score interval of a rate of which `hits` of `trials` were seen, at 95 % confidence.
/// `None` without trials. Unlike the textbook interval it is right for rates near 0, where filters
/// live. (E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
/// Journal of the American Statistical Association 22, 1927.)
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
    use super::*;

    #[test]
    fn every_addition_of_every_thread_is_counted_also_beyond_the_rows() {
        let counters = Counters::new();
        let threads = GROUPS * GROUP_ROWS + 8;
        // All live at one time, so that some have no row of their own.
        let alive = std::sync::Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    alive.wait();
                    for _ in 0..1000 {
                        counters.add(Ticker::BloomUseful, 2);
                        counters.add(Ticker::CompactWriteBytes, 1);
                    }
                    alive.wait();
                });
            }
        });
        let tickers = counters.snapshot();
        assert_eq!(tickers.get(Ticker::BloomUseful), 2000 * threads as u64);
        assert_eq!(tickers.get(Ticker::CompactWriteBytes), 1000 * threads as u64);
        assert_eq!(tickers.get(Ticker::BloomFullPositive), 0);
        counters.add(Ticker::StallMicros, 5);
        let since = &counters.snapshot() - &tickers;
        let moved: Vec<_> = since.iter().filter(|&(_, n)| n > 0).collect();
        assert_eq!(moved, [(Ticker::StallMicros, 5)]);
    }

    #[test]
    fn a_thread_continues_the_row_of_one_that_ended() {
        let counters = FileCounters::new();
        for _ in 0..200 {
            let add = || counters.add(FileTicker::Reads, 1);
            std::thread::scope(|scope| scope.spawn(add).join()).unwrap();
        }
        assert_eq!(counters.snapshot().reads, 200);
    }

    #[test]
    fn ticker_names_are_distinct() {
        let names: std::collections::HashSet<_> = Ticker::ALL.map(Ticker::name).into();
        assert_eq!(names.len(), Ticker::ALL.len());
        assert_eq!(Ticker::BloomFullTruePositive.name(), "bloom.filter.full.true.positive");
        assert!(Ticker::ALL.iter().enumerate().all(|(i, &ticker)| ticker as usize == i));
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
        assert_eq!((level.probed(), level.false_positive()), (220, 6));
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
        // A published value, for the scale.
        let (low, high) = wilson_interval_95(1, 10).unwrap();
        assert!((low - 0.0179).abs() < 1e-4 && (high - 0.4042).abs() < 1e-4);
        assert_eq!(wilson_interval_95(0, 0), None);
        assert_eq!(wilson_interval_95(7, 7).unwrap().1, 1.0);
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::sync::check_model;

    #[test]
    fn loom_no_addition_is_lost_with_and_without_a_row() {
        check_model(|| {
            // Four threads, rows for two.
            let counters = Arc::new(Sharded::<1>::new());
            let threads = [1, 10, 100].map(|n| {
                let counters = counters.clone();
                thread::spawn(move || counters.add(0, n))
            });
            counters.add(0, 1000);
            counters.add(0, 1000);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(counters.sum(), [2111]);
        });
    }
}

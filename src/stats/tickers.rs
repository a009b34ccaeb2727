//! Tickers: the counters of a whole database.

use std::ops::Sub;

use crate::sync::Guard;

use super::per_thread::{PerThread, ThreadRow};

macro_rules! tickers {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A counter of a whole database. Names and meanings are RocksDB's, without the prefix
        /// `rocksdb.`. "(Ours.)" marks a counter that RocksDB does not have.
        ///
        /// ```
        /// # let dir = tempfile::tempdir()?;
        /// use maypole::{Db, Ticker};
        ///
        /// let db = Db::open(dir.path())?;
        /// db.put("key", "value")?;
        /// assert_eq!(db.stats().tickers.get(Ticker::NumberKeysWritten), 1);
        /// assert_eq!(Ticker::NumberKeysWritten.name(), "number.keys.written");
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[non_exhaustive]
        pub enum Ticker {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Ticker {
            /// All tickers, in the order of reports.
            pub const ALL: [Ticker; Ticker::COUNT] = [$(Ticker::$variant),+];
            const COUNT: usize = [$($name),+].len();

            /// The name in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Ticker::$variant => $name,)+
                }
            }

            /// What the ticker counts, in words.
            ///
            /// ```
            /// use maypole::Ticker;
            ///
            /// assert_eq!(Ticker::FileOpens.meaning(), "Table files opened.");
            /// ```
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Ticker::$variant => concat!($($doc),+).trim_start().trim_end_matches(" (Ours.)"),)+
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
    /// A filter was queried for a prefix, by a lookup or by an iterator.
    BloomPrefixChecked = "bloom.filter.prefix.checked",
    /// A filter said no for a prefix: a table was skipped.
    BloomPrefixUseful = "bloom.filter.prefix.useful",
    /// A filter said maybe for a lookup's prefix, and the table held an entry of the key.
    BloomPrefixTruePositive = "bloom.filter.prefix.true.positive",
    /// Queries, for whole keys or prefixes, of filters that could not be trusted. (Ours.)
    BloomUntrusted = "bloom.filter.untrusted",
    /// A lookup searched a table without querying its filter, because the filter was not in memory
    /// and not worth a read. (Ours.)
    BloomPassedBy = "bloom.filter.passed.by",

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
    /// Reads of single blocks that a thread waited for and whose time was measured: the first one
    /// of each thread, and every eighth after it. (Ours.)
    FileReadsTimed = "file.reads.timed",
    /// Nanoseconds that the measured reads took. (Ours.)
    FileReadNanos = "file.read.nanos",
    /// Table files opened.
    FileOpens = "no.file.opens",

    /// Keys looked up, `multi_get` included.
    NumberKeysRead = "number.keys.read",
    /// Calls of `multi_get`.
    NumberMultigetCalls = "number.multiget.get",
    /// Keys that were looked up by `multi_get`.
    NumberMultigetKeysRead = "number.multiget.keys.read",
    /// Lookups that ended in a memtable.
    MemtableHit = "memtable.hit",
    /// Lookups that went on to the tables.
    MemtableMiss = "memtable.miss",
    /// Lookups that ended in level 0.
    GetHitL0 = "l0.hit",
    /// Lookups that ended in level 1.
    GetHitL1 = "l1.hit",
    /// Lookups that ended in a deeper level.
    GetHitL2AndUp = "l2andup.hit",
    /// Recordings of lookups that an error has ended. (Ours.)
    LookupRecordErrors = "lookup.record.errors",
    /// Seeks of cursors; an iterator seeks once for each end that it is read from.
    NumberDbSeek = "number.db.seek",
    /// Forward steps of cursors and iterators, counted at the next seek or when the cursor is
    /// dropped.
    NumberDbNext = "number.db.next",
    /// Backward steps of cursors and iterators, counted like forward steps.
    NumberDbPrev = "number.db.prev",
    /// Entries that cursors passed and did not show: tombstones, older versions, versions that are
    /// too new for the cursor, and entries that range deletions hide. Counted together with the
    /// steps.
    NumberIterSkip = "number.iter.skip",

    /// Entries written.
    NumberKeysWritten = "number.keys.written",
    /// Bytes of the batches written.
    BytesWritten = "bytes.written",
    /// Batches whose writer wrote the log itself.
    WriteDoneBySelf = "write.self",
    /// Batches that another writer's group carried.
    WriteDoneByOther = "write.other",
    /// Transactions that have committed writes. (Ours.)
    TransactionCommits = "transaction.commits",
    /// Commits of transactions that failed because a later write had changed what they had read.
    /// (Ours.)
    TransactionConflicts = "transaction.conflicts",
    /// Bytes appended to the write-ahead log.
    WalFileBytes = "wal.bytes",
    /// Syncs of the write-ahead log.
    WalFileSynced = "wal.synced",
    /// Times that writers waited for flush or compaction, for all causes together. (Ours.)
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
    /// Nanoseconds spent building filters from the key hashes and checking the filters. (Ours.)
    FilterBuildNanos = "filter.build.nanos",
    /// Built filters that were discarded, because a check did not find an added key in them.
    /// (Ours.)
    FilterBuildFailed = "filter.build.failed",
    /// Removals of obsolete files that failed. The next opening of the database removes the files.
    /// (Ours.)
    FilesNotRemoved = "files.not.removed",
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
    /// Tables dropped unread, because range deletions covered them completely. (Ours.)
    TablesDropped = "compact.tables.dropped",
    /// Merges within a level that made nothing smaller, although they were expected to. Each of them
    /// is a wrong estimate, and is not repeated.
    CompactionsInVain = "compact.in.vain",
}

/// The tickers of one database.
pub(crate) struct Counters(PerThread<{ Ticker::COUNT }>);

impl Counters {
    pub fn new() -> Counters {
        Counters(PerThread::new())
    }

    /// Adds `n` to a ticker. Costs a few instructions and no fence.
    #[inline]
    pub fn add(&self, ticker: Ticker, n: u64) {
        self.0.add(ticker as usize, n);
    }

    /// The count of `ticker` in the current thread's row. All threads with an index from 64 on have
    /// one row together.
    pub fn of_thread(&self, ticker: Ticker) -> u64 {
        self.0.of_thread(ticker as usize)
    }

    /// The current thread's row, for the additions of one lookup.
    #[inline]
    pub fn on_thread(&self, guard: &Guard) -> ThreadTickers<'_> {
        ThreadTickers(self.0.row(guard.thread_index()))
    }

    /// The sums over all threads.
    pub fn sums(&self) -> Tickers {
        Tickers(self.0.sum())
    }
}

/// A thread's row of [`Counters`], looked up once for all additions of a lookup.
#[derive(Clone, Copy)]
pub(crate) struct ThreadTickers<'a>(pub(super) ThreadRow<'a, { Ticker::COUNT }>);

impl ThreadTickers<'_> {
    #[inline(always)]
    pub fn add(self, ticker: Ticker, n: u64) {
        self.add_all([(ticker, n)]);
    }

    /// Adds to each of several tickers.
    #[inline(always)]
    pub fn add_all<const M: usize>(self, additions: [(Ticker, u64); M]) {
        self.0.add_all(additions.map(|(ticker, n)| (ticker as usize, n)));
    }

    /// Adds one to each of several tickers.
    #[inline(always)]
    pub fn count<const M: usize>(self, tickers: [Ticker; M]) {
        self.add_all(tickers.map(|ticker| (ticker, 1)));
    }
}

/// The values of all tickers at one moment. The difference of two values gives the counts of the
/// time between them.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::{Db, Ticker};
///
/// let db = Db::open(dir.path())?;
/// let before = db.stats().tickers;
/// db.get("key")?;
/// let since = &db.stats().tickers - &before;
/// assert_eq!(since.get(Ticker::NumberKeysRead), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tickers([u64; Ticker::COUNT]);

impl Tickers {
    /// The value of one ticker.
    pub fn get(&self, ticker: Ticker) -> u64 {
        self.0[ticker as usize]
    }

    pub(crate) fn set(&mut self, ticker: Ticker, count: u64) {
        self.0[ticker as usize] = count;
    }

    /// All tickers with their values, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Ticker, u64)> + '_ {
        Ticker::ALL.into_iter().zip(self.0)
    }
}

/// All tickers at 0.
impl Default for Tickers {
    fn default() -> Tickers {
        Tickers([0; Ticker::COUNT])
    }
}

/// The counts since `earlier`.
impl Sub<&Tickers> for &Tickers {
    type Output = Tickers;

    fn sub(self, earlier: &Tickers) -> Tickers {
        Tickers(std::array::from_fn(|i| self.0[i].saturating_sub(earlier.0[i])))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::per_thread::on_threads_beyond_the_rows;
    use super::*;

    #[test]
    fn every_addition_of_every_thread_is_counted_also_beyond_the_rows() {
        let counters = Counters::new();
        let threads = on_threads_beyond_the_rows(|| {
            for _ in 0..1000 {
                counters.add(Ticker::BloomUseful, 2);
                counters.add(Ticker::CompactWriteBytes, 1);
            }
        });
        let tickers = counters.sums();
        assert_eq!(tickers.get(Ticker::BloomUseful), 2000 * threads);
        assert_eq!(tickers.get(Ticker::CompactWriteBytes), 1000 * threads);
        assert_eq!(tickers.get(Ticker::BloomFullPositive), 0);
        counters.add(Ticker::StallMicros, 5);
        let since = &counters.sums() - &tickers;
        let moved: Vec<_> = since.iter().filter(|&(_, n)| n > 0).collect();
        assert_eq!(moved, [(Ticker::StallMicros, 5)]);
    }

    #[test]
    fn ticker_names_are_distinct() {
        let names: std::collections::HashSet<_> = Ticker::ALL.map(Ticker::name).into();
        assert_eq!(names.len(), Ticker::ALL.len());
        assert_eq!(Ticker::BloomFullTruePositive.name(), "bloom.filter.full.true.positive");
        assert!(Ticker::ALL.iter().enumerate().all(|(i, &ticker)| ticker as usize == i));
    }
}

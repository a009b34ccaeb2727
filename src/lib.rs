//! Maypole: an embedded LSM key-value store whose heart is the filter block.

mod cache;
mod coding;
mod compaction;
mod cursor;
mod db;
pub mod error;
pub mod filter;
mod flush;
pub mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod key;
mod memtable;
mod merge;
mod policy;
mod slice;
mod stats;
mod sync;
mod table;
mod version;
mod wal;

pub use cache::{BlockCache, BlockKind, KindUsage};
pub use db::{
    Builder, Db, DbCursor, DbIterator, Durability, FileStats, LevelStats, Snapshot, Stats,
    VerifyReport, WriteBatch,
};
pub use error::{Error, Result};
pub use hash::hash64;
pub use key::SequenceNumber;
pub use policy::FilterPolicy;
pub use slice::Slice;
pub use stats::{FileCounts, FilterCounts, Ticker, Tickers, wilson_interval_95};
pub use table::{
    BlockHandle, ChecksumKind, Compression, FilterInfo, FilterKeys, FilterSummary, Footer,
    PrefixExtractor, PropertyValue, RangeDeletion, SstEntries, SstEntry, SstReader, SstWriter,
    TableCheck, TableFilterInfo, TableOptions, TableProperties, TableSummary,
};

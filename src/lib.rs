//! Maypole: an embedded LSM key-value store whose heart is the filter block.

mod cache;
mod coding;
mod cursor;
pub mod error;
pub mod filter;
pub mod fs;
mod hash;
mod key;
mod slice;
mod stats;
mod sync;
mod table;

pub use cache::{BlockCache, BlockKind, KindUsage};
pub use error::{Error, Result};
pub use hash::hash64;
pub use key::SequenceNumber;
pub use slice::Slice;
pub use stats::{FileCounts, FilterCounts, Ticker, Tickers, wilson_interval_95};
pub use table::{
    BlockHandle, ChecksumKind, Compression, FilterInfo, FilterSummary, Footer, PropertyValue,
    SstEntries, SstEntry, SstReader, SstWriter, TableCheck, TableOptions, TableProperties,
    TableSummary,
};

//! Maypole: an embedded LSM key-value store whose heart is the filter block.

mod cache;
mod coding;
mod cursor;
pub mod error;
pub mod filter;
mod hash;
pub mod fs;
mod key;
mod slice;
mod table;
mod stats;
mod sync;

pub use cache::{BlockCache, BlockKind, KindUsage};
pub use error::{Error, Result};
pub use hash::hash64;
pub use key::SequenceNumber;
pub use slice::Slice;
pub use stats::{FileCounts, FilterCounts, Ticker, Tickers, wilson_interval_95};

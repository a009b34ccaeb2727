//! Counters: what the engine did, counted without slowing it down.
//!
//! ```text
//! per_thread   how to count: N counters, with a row for each thread
//! tickers      the counters of a whole database
//! files        the counters of each table file, and the meaning of its filter's counts
//! asked        how often a table was asked in vain lately, for policies that learn
//! ```
//!
//! Names and meanings of tickers are RocksDB's (`monitoring/statistics.cc`, without the prefix
//! `rocksdb.`), so that dashboards for RocksDB fit. Where RocksDB has no ticker the name is ours.

mod asked;
mod files;
mod per_thread;
mod tickers;

pub(crate) use asked::Asked;
pub(crate) use files::{FileCounters, FileTicker, ThreadFileTickers};
pub use files::{FileCounts, FilterCounts, wilson_interval_95};
pub(crate) use tickers::{Counters, ThreadTickers};
pub use tickers::{Ticker, Tickers};

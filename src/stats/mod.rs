//! Counters: what the engine did, counted without slowing it down.
//!
//! ```text
//! sharded   N counters with a row for each thread: how to count
//! tickers   what is counted for a whole database
//! files     what is counted for each table file, and what its filter's counts mean
//! ```
//!
//! Ticker names and meanings are RocksDB's (`monitoring/statistics.cc`, without its `rocksdb.`
//! prefix), so that its users' dashboards fit; where RocksDB has no ticker the name is ours.

mod files;
mod per_thread;
mod tickers;

pub(crate) use files::{FileCounters, FileTicker};
pub use files::{FileCounts, FilterCounts, wilson_interval_95};
pub(crate) use tickers::{Counters, ThreadTickers};
pub use tickers::{Ticker, Tickers};

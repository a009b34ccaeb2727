//! Maypole: an embedded key-value store, a log-structured merge tree built around its **filter block**, the
//! small structure in every table file that lets a lookup skip the disk.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use maypole::{Db, FilterPolicy};
//!
//! let db = Db::builder(dir.path()).filter("bloom(12)".parse::<FilterPolicy>()?).open()?;
//! db.put("maypole", "a pole dressed with blooms and wound with ribbons")?;
//! assert!(db.get("maypole")?.is_some());
//! println!("{}", db.stats());
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Db`] is the database: open it with [`Db::open`] or [`Db::builder`]; [`WriteBatch, WriteBrake`], [`Snapshot`],
//!   [`DbIterator`] and [`DbCursor`] belong to it.
//! - [`filter`] is the filter library by itself, and [`FilterPolicy`] says which filter a new table gets.
//! - [`SstWriter`] and [`SstReader`] write and read single tables, in RocksDB's format, without a database.
//! - [`fs`] is the seam to the operating system; [`fs::MemFs`] loses power on demand, for tests.
//!
//! Features: `lz4` (on), `snappy`, `zstd` (binds C) are compressions; `cli` is the command line `maypole`.

mod annotate;
mod cache;
mod compaction;
mod cursor;
mod db;
mod encoding;
pub mod error;
pub mod filter;
mod filter_policy;
pub mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod memory;
mod memtable;
mod range_tombstones;
mod slice;
mod stats;
mod sync;
mod table;
mod version;
mod wal;

pub use annotate::AnnotatedFile;
pub use cache::{BlockCache, BlockKind, KindUsage, PinMetadata};
pub use db::{
    BrakeCause, Builder, DamagedTable, Db, DbCursor, DbIterator, Durability, FileStats, LevelStats,
    Loss, RepairReport, Snapshot, Stats, VerifyReport, WriteBatch, WriteBrake,
};
pub use encoding::hash::hash64;
pub use encoding::key::SequenceNumber;
pub use error::{Error, Result};
pub use filter_policy::FilterPolicy;
pub use slice::Slice;
pub use stats::{FileCounts, FilterCounts, Ticker, Tickers, wilson_interval_95};
pub use table::{
    BlockHandle, ChecksumKind, Compression, FilterInfo, FilterKeys, Footer, PrefixExtractor,
    PropertyValue, RangeDeletion, SstEntries, SstEntry, SstReader, SstWriter, TableCheck,
    TableOptions, TableProperties, TableSummary,
};

/// Compiles the README's example with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;

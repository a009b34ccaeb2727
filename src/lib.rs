//! Maypole is an embedded key-value store: a log-structured merge tree built around its **filter
//! block**, the small structure in every table file that lets a lookup skip the disk.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use maypole::Db;
//!
//! let db = Db::builder(dir.path()).filter("bloom(12)").open()?;
//! db.put("maypole", "a pole dressed with blooms and wound with ribbons")?;
//! assert!(db.get("maypole")?.is_some());
//! println!("{}", db.stats());
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Db`] is the database: open it with [`Db::open`] or [`Db::builder`]. [`WriteBatch`],
//!   [`Snapshot`], [`DbIterator`], [`DbCursor`] and [`Stats`] belong to it. A `Db` is cheap to
//!   clone and may be shared between threads, and its calls block. The documentation of `Db` says
//!   what is absent on purpose.
//! - [`Result`] is the result of every call that can fail. Its [`Error`] says what failed and on
//!   which file.
//! - [`FilterPolicy`] says which filter a new table gets. [`filter`] is the filter library, which
//!   is the package `maypole-filter` alone.
//! - [`table`] writes and reads single tables, in RocksDB's format, without a database.
//! - [`explain`] holds the types that [`Db::explain`] returns: one lookup, described step by step.
//!   [`annotate`] prints every byte of a file with its meaning, and [`filter::inspect`] gives the
//!   parts of a filter.
//! - [`fs`] is the interface to the operating system. [`fs::MemFs`] simulates a power loss on
//!   demand, for tests.
//!
//! Features: `lz4` (default), `snappy` and `zstd` (a binding to the C library) add compression
//! methods. `bzip2` and `zlib` add methods that only decompress, to read RocksDB's tables. `bytes`
//! converts a [`Slice`] to [`bytes::Bytes`](https://docs.rs/bytes) without a copy. `serde`
//! serializes a [`Slice`] as bytes, and deserializes it. `tracing` emits events for the crate
//! [`tracing`](https://docs.rs/tracing): openings, stalls of writers, flushes, compactions, and
//! errors of background work.

pub mod annotate;
mod cache;
mod compaction;
mod cursor;
mod db;
mod encoding;
pub mod error;
mod filter_policy;
pub mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod known_files;
mod lookup;
mod memory;
mod memtable;
mod range_tombstones;
mod rocksdb;
mod slice;
mod stats;
mod sync;
pub mod table;
mod version;
mod wal;

#[doc(inline)]
pub use maypole_filter as filter;
#[doc(inline)]
pub use maypole_filter::hash64;

pub use encoding::text;
#[doc(inline)]
pub use error::{Conflict, Error, Result};
#[cfg(shuttle)]
#[doc(hidden)]
pub use sync::schedules;
#[doc(inline)]
pub use {
    cache::{BlockCache, BlockKind, KindUsage, PinMetadata},
    db::{
        BatchOperation, Builder, ColumnFamily, CompareAndSwapError, DamagedTable, Db, DbCursor,
        DbIterator, DestroyReport, Durability, ExportReport, FileStats, FilterReport,
        HeldByCursors, ImportReport, KeyBounds, KeyspaceStats, LevelStats, LookupRecording, Loss,
        PublishedStats, RepairReport, RocksDb, Snapshot, Stats, Transaction, TransactionCursor,
        TransactionIterator, VerifyReport, WarmUpReport, WriteBatch, WriteStall, WriteStallCause,
        explain,
    },
    encoding::key::SequenceNumber,
    filter_policy::FilterPolicy,
    slice::Slice,
    stats::{FileCounts, FilterCounts, Ticker, Tickers, wilson_interval_95},
    // Options of `Builder`. All other types of the module `table` are exported only as `table::…`.
    table::{Compression, FilterKeys, PrefixExtractor},
};

/// Makes the example in the README a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;

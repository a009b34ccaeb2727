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
//! - [`FilterPolicy`] says which filter a new table gets. [`filter`] is the filter library alone.
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
//! serializes a [`Slice`] as bytes, and deserializes it. `textbook` adds the module
//! `filter::textbook`.

// WebAssembly has no files and no threads. There the crate consists of its filters, `hash64` and
// the modules that these need. Code in these modules that only the store uses is dead there.
#![cfg_attr(target_family = "wasm", allow(dead_code, unused_imports))]

#[cfg(not(target_family = "wasm"))]
pub mod annotate;
#[cfg(not(target_family = "wasm"))]
mod cache;
#[cfg(not(target_family = "wasm"))]
mod compaction;
#[cfg(not(target_family = "wasm"))]
mod cursor;
#[cfg(not(target_family = "wasm"))]
mod db;
mod encoding;
pub mod error;
pub mod filter;
#[cfg(not(target_family = "wasm"))]
mod filter_policy;
#[cfg(not(target_family = "wasm"))]
pub mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(target_family = "wasm"))]
mod known_files;
mod memory;
#[cfg(not(target_family = "wasm"))]
mod memtable;
#[cfg(not(target_family = "wasm"))]
mod range_tombstones;
#[cfg(not(target_family = "wasm"))]
mod rocksdb;
#[cfg(not(target_family = "wasm"))]
mod slice;
#[cfg(not(target_family = "wasm"))]
mod stats;
#[cfg(not(target_family = "wasm"))]
mod sync;
#[cfg(not(target_family = "wasm"))]
pub mod table;
#[cfg(not(target_family = "wasm"))]
mod version;
#[cfg(not(target_family = "wasm"))]
mod wal;

pub use encoding::hash::hash64;
pub use encoding::text;
pub use error::{Error, Result};
#[cfg(not(target_family = "wasm"))]
pub use {
    cache::{BlockCache, BlockKind, KindUsage, PinMetadata},
    db::{
        BatchOperation, Builder, ColumnFamily, DamagedTable, Db, DbCursor, DbIterator,
        DestroyReport, Durability, ExportReport, FileStats, HeldByCursors, ImportReport, KeyBounds,
        LevelStats, Loss, PublishedStats, RepairReport, RocksDb, Snapshot, Stats, VerifyReport,
        WarmUpReport, WriteBatch, WriteStall, WriteStallCause, explain,
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

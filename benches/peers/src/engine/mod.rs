//! The engines behind one interface. All have the same compression, cache and memtable, the WAL on,
//! and a Bloom filter of 10 bits a key, unless `--filter` gives Maypole another one.
//! [`Kind::MaypoleNone`] and [`Kind::MaypoleWholeNone`] have no filters. Writes are synced only
//! where a workload asks for it.
//!
//! Three differences remain. Maypole and fjall charge filters and indexes to the cache, whereas
//! RocksDB by default keeps them outside it. fjall's filters of level 0 have more bits, for a rate
//! of 0.01 %. fjall has no batched lookup.

mod fjall;
mod maypole;
mod open;
mod rocks;

use std::path::Path;

use clap::ValueEnum;

pub use self::rocks::transaction_settings;
pub use crate::Result;
use crate::keys::{Key, Run};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Compression {
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Kind {
    Rocksdb,
    /// With an LRU cache of one shard instead of the HyperClockCache.
    RocksdbLru,
    /// Filters and indexes in parts of 4 KiB. The top levels, which lead to the parts, always stay
    /// in memory: pinned in the cache with `--charge-metadata true`, and outside the cache
    /// otherwise.
    RocksdbParts,
    Maypole,
    /// All filters and indexes in parts.
    MaypoleParts,
    /// All filters and indexes whole.
    MaypoleWhole,
    /// No filters.
    MaypoleNone,
    /// No filters, and all indexes whole.
    MaypoleWholeNone,
    Fjall,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rocksdb => "rocksdb",
            Kind::RocksdbLru => "rocksdb-lru",
            Kind::RocksdbParts => "rocksdb-parts",
            Kind::Maypole => "maypole",
            Kind::MaypoleParts => "maypole-parts",
            Kind::MaypoleWhole => "maypole-whole",
            Kind::MaypoleNone => "maypole-none",
            Kind::MaypoleWholeNone => "maypole-whole-none",
            Kind::Fjall => "fjall",
        }
    }

    pub fn is_rocksdb(self) -> bool {
        matches!(self, Kind::Rocksdb | Kind::RocksdbLru | Kind::RocksdbParts)
    }
}

/// The operations that the workloads need. Callers use the results, so that the compiler cannot
/// remove the work.
pub trait Engine: Send + Sync {
    /// Adds a sorted run as ingested tables, without WAL and memtable. They go to the last level
    /// unless a table of the tree overlaps them. The tables are built in `scratch`, a directory on
    /// the same file system.
    fn ingest(&self, scratch: &Path, run: &Run) -> Result<()>;
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;
    /// Bytes of the value, or `None`.
    fn get(&self, key: &[u8]) -> Result<Option<usize>>;
    /// Returns how many of the keys are present.
    fn multi_get(&self, keys: &[Key]) -> Result<usize>;
    /// Reads up to `count` entries from `key` on; returns the sum of their bytes.
    fn seek(&self, key: &[u8], count: usize) -> Result<usize>;
    /// The number and the bytes of all entries, by the engine's cheapest method of scanning.
    fn scan(&self) -> Result<(u64, usize)>;
    /// As [`Engine::scan`], through an iterator that returns owned items; `None` if the engine has
    /// no such iterator.
    fn iterate(&self) -> Result<Option<(u64, usize)>>;
    /// The number of reads so far: blocks that this thread has read (RocksDB), or reads of files by
    /// all threads (Maypole).
    fn blocks_read(&self) -> Result<u64> {
        Err("this engine does not count the blocks that it reads".into())
    }
    /// Stored bytes of the filters and indexes of all tables.
    fn metadata_bytes(&self) -> Result<u64> {
        Err("this engine does not tell the bytes of its filters and indexes".into())
    }
    /// Bytes in the block cache, as the engine charges them.
    fn cache_bytes(&self) -> Result<u64> {
        Err("this engine does not tell how full its cache is".into())
    }
    /// Starts a scan of all entries, which the caller continues piece by piece.
    fn scan_from_start(&self, _fills_cache: bool) -> Result<Box<dyn Scan + '_>> {
        Err("this engine has no scan in pieces".into())
    }
    /// Writes the memtable to a table.
    fn flush(&self) -> Result<()>;
    /// Compacts all entries into the last level, and rewrites those that are there already.
    fn compact(&self) -> Result<()> {
        Err("this engine has no compaction of everything".into())
    }
    /// Waits until the background threads are idle.
    fn settle(&self) -> Result<()>;
    /// The number of tables in each level, as text.
    fn shape(&self) -> String;
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Deletes the keys from `begin` on that are below `end`.
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()>;
    /// Drops the tables whose keys all are from `begin` to `end`. Only RocksDB can do this.
    fn delete_files(&self, _begin: &[u8], _end: &[u8]) -> Result<()> {
        Err("this engine does not delete files by range".into())
    }
    /// The smallest key that is not below `from`.
    fn first(&self, from: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Removes the smallest key that is not below `from`, and returns it.
    fn pop_first(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let first = self.first(from)?;
        first.iter().try_for_each(|key| self.delete(key))?;
        Ok(first)
    }
    /// Reads up to `count` entries from the last one backward; returns their bytes.
    fn last(&self, count: usize) -> Result<usize>;
    /// A snapshot. It is released when it is dropped.
    fn snapshot(&self) -> Box<dyn Held + '_>;
    /// Makes a copy in the new directory `dir`, with hard links to the tables.
    fn checkpoint(&self, _dir: &Path) -> Result<()> {
        Err("this engine has no checkpoints".into())
    }
    fn tables(&self) -> Result<u64>;
    /// Bytes that flushes and compactions have written since the engine was opened; `None` if it
    /// does not count them.
    fn table_bytes_written(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// A scan that continues on request.
pub trait Scan {
    /// Reads up to `entries` entries; returns how many it has read.
    fn step(&mut self, entries: u64) -> Result<u64>;
}

/// A snapshot: callers only keep it, and dropping it releases it.
pub trait Held {}

impl<T> Held for T {}

/// The size at which a run is cut into tables: the engines' own default.
const TABLE_BYTES: u64 = 64 << 20;
/// A target size of the first level that no tree reaches, so that no compaction starts because a
/// level is too large.
const NO_LIMIT: u64 = 1 << 40;

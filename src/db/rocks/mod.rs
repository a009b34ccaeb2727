//! RocksDB's databases, read as they are.
//!
//! ```text
//!   RocksDb                            the directory (`crate::rocksdb`), opened without a trace
//!     ├─ column family ─► Db           a version of its tables, memtables of what is in logs: the
//!     └─ …                             same lookups, cursors, checks and counters as Maypole's own
//! ```
//!
//! Each family is a [`Db`](crate::Db) that is opened read-only. Only its opening differs
//! (`open.rs`). `import.rs` makes a database of Maypole's of one, `export.rs` one of RocksDB's of a
//! database of Maypole's.

pub(in crate::db) mod database;
pub(in crate::db) mod export;
mod import;
pub(in crate::db) mod open;
#[cfg(test)]
mod tests;

pub use database::{ColumnFamily, RocksDb};
pub use export::ExportReport;
pub use import::ImportReport;

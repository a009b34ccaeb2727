//! RocksDB's databases: read as they are, imported, and written by an export.
//!
//! ```text
//!   RocksDb                            the directory (`crate::rocksdb`), opened read-only
//!     ├─ column family ─► Db           a version of its tables, memtables of what is in logs: the
//!     └─ …                             same lookups, cursors, checks and counters as Maypole's own
//! ```
//!
//! Each family is a [`Db`](crate::Db) that is opened read-only. Only two things differ from a
//! database of Maypole's: its opening (`open.rs`), and the lookups in a tree where several tables
//! of one level may hold the same key, and the order of the tables does not tell which of them has
//! its newest version (`groups.rs`). `import.rs` turns a family into a database of Maypole's, with
//! `merge.rs` for tables that cannot stay as they are. `export/` turns a database of Maypole's into
//! one of RocksDB's.
//!
//! A directory of LevelDB is read as one of RocksDB's with one family, older tables and fewer
//! fields in its MANIFEST.

pub(in crate::db) mod database;
pub(in crate::db) mod export;
mod groups;
mod import;
#[cfg(test)]
mod leveldb_tests;
mod merge;
pub(in crate::db) mod open;
#[cfg(test)]
mod tests;

pub use database::{ColumnFamily, RocksDb};
pub use export::ExportReport;
pub use import::ImportReport;

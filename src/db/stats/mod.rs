//! The statistics of a database: as values, as a report, and in the file `STATS`.
//!
//! ```text
//!   report.rs       Stats: a value, and a report       collect.rs    gathers it
//!   published.rs    what other processes see           publish.rs    writes and reads STATS
//!   properties.rs   RocksDB's property names           format.rs     the text of STATS
//!   prometheus.rs   the text for Prometheus            keyspaces.rs  KeyspaceStats: sums of one
//! ```

pub(in crate::db) mod collect;
mod format;
pub(in crate::db) mod keyspaces;
mod prometheus;
pub(in crate::db) mod properties;
pub(in crate::db) mod publish;
pub(in crate::db) mod published;
pub(in crate::db) mod report;
pub(in crate::db) mod size;

pub use keyspaces::KeyspaceStats;
pub use published::PublishedStats;
pub use report::{DamagedTable, FileStats, HeldByCursors, LevelStats, Stats};

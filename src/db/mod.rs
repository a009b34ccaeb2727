//! The database: joins all lower layers of the crate, and adds threads and locks.
//!
//! ```text
//!   what happens          file
//!   the public API        db.rs  snapshot.rs  options.rs   iter/ (iterators, cursors)
//!   statistics            stats/  checked_text.rs (lines with a checksum)
//!   open, recover, close  open/  closing.rs
//!   read                  get.rs  iter/ (iter/marks/: what cursors jump over)
//!                         explain/ (a lookup, watched)  recording/ (lookups, written down)
//!   write                 write/  update.rs (compare_and_swap, fetch_update)
//!   transactions          transaction/ (a snapshot, own writes, validation)
//!   flush, compact        flush.rs  background/  asked.rs (what filters are asked)
//!   the whole database    maintenance/ (copy, ingest, verify, destroy)  repair/
//!   events for tracing    events.rs
//!   short calls over these  convenience.rs (len, first, last, sizes)
//!   RocksDB's databases   rocks/ (read, imported, exported)
//!   what all these share  inner/ (one tree, and what a database has once)  read_state.rs
//! ```
//!
//! Start with `inner/mod.rs`. Then follow a key: `write/mod.rs` writes it, `get.rs` finds it.
//!
//! The imports of the files form no cycle. This file imports all others. So, outside of tests, no
//! other file imports an item from here: an import names the module that defines the item, such as
//! `crate::db::iter::cursor::DbCursor`, and not `crate::db::DbCursor`.

// Rustdoc shows the methods of a type in the order of the modules. So `db` comes first and
// `convenience` last: the pages of `Db` and `Snapshot` begin with calls such as `get`, and end with
// conveniences such as `len`.
#[allow(clippy::module_inception)] // The handle is what this folder is named after.
mod db;

mod asked;
mod background;
mod checked_text;
mod closing;
mod events;
pub mod explain;
mod flush;
mod get;
mod inner;
mod iter;
mod keyspaces;
mod maintenance;
mod open;
mod options;
mod read_state;
mod recording;
mod repair;
mod rocks;
mod snapshot;
mod snapshots;
mod stats;
mod transaction;
mod tree_options;
mod update;
mod write;

mod convenience;

pub use background::FilterReport;
pub use db::Db;
pub use iter::DbIterator;
pub use iter::bounds::KeyBounds;
pub use iter::cursor::DbCursor;
pub use maintenance::{DestroyReport, VerifyReport, WarmUpReport};
pub use options::Builder;
pub use recording::LookupRecording;
pub use repair::{Loss, RepairReport};
pub use rocks::{ColumnFamily, ExportReport, ImportReport, RocksDb};
pub use snapshot::Snapshot;
pub use stats::{
    DamagedTable, FileStats, HeldByCursors, KeyspaceStats, LevelStats, PublishedStats, Stats,
};
pub use transaction::{Transaction, TransactionCursor, TransactionIterator};
pub use update::CompareAndSwapError;
pub use write::batch::{BatchOperation, WriteBatch};
pub use write::durability::Durability;
pub use write::write_stall::{WriteStall, WriteStallCause};

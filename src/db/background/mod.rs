//! The background work of the database: flushes, one at a time, and compactions.
//!
//! ```text
//!   schedule.rs ──► flushes.rs        frozen memtables become tables of level 0
//!               ──► compactions.rs    what the shape of the tree or the filter policy requires
//!   a caller    ──► manual.rs         compact_range, in parallel with all of these
//!               ──► refilter.rs       apply_filter_policy, in the same way
//!   cursors     ──► cleanups.rs       ranges with many hidden entries
//!
//!   all of them ──► install.rs        a change of the tree, durable and then visible
//!   jobs.rs, pool.rs, attempts.rs     how jobs start, wait for space and end; their threads
//!   timer.rs                          what is done at certain times
//!   idle.rs                           what is removed when the tree is idle
//! ```

pub(in crate::db) mod attempts;
pub(in crate::db) mod cleanups;
mod compactions;
mod flushes;
pub(in crate::db) mod idle;
pub(in crate::db) mod install;
pub(in crate::db) mod jobs;
mod manual;
mod pool;
pub(in crate::db) mod refilter;
pub(in crate::db) mod schedule;
pub(in crate::db) mod timer;

pub use refilter::FilterReport;

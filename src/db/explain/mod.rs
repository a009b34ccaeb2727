//! What [`Db::explain`](crate::Db::explain) and
//! [`SstReader::explain`](crate::table::SstReader::explain) return: the steps of one lookup, with
//! the result and the time of each.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let db = maypole::Db::open(dir.path())?;
//! use maypole::explain::LookupOutcome;
//!
//! db.put("tree", "maypole")?;
//! assert_eq!(db.explain("tree")?.outcome, LookupOutcome::Value);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod text;
pub(in crate::db) mod trace;
pub(in crate::db) mod watch;

pub use crate::lookup::explain::trace::{
    BlockTrace, FilterTrace, FilterVerdict, FoundTrace, IndexTrace, StepCost, TableTrace,
};
pub use trace::{FileTrace, LevelTrace, LookupCost, LookupOutcome, LookupTrace, MemtableTrace};

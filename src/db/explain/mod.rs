//! What [`Db::explain`](crate::Db::explain) returns: the way of one lookup, and the result and the
//! time of each step.
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

pub use trace::{FileTrace, LevelTrace, LookupCost, LookupOutcome, LookupTrace, MemtableTrace};

//! Point lookups: the value of one key, of many keys, and the trace of one lookup.
//!
//! ```text
//!   sources ─► memtables, newest first ─► found (value or tombstone): done          memtables
//!           ─► runs: files of level 0 newest first, then deeper levels
//!                for each: file whose range holds the key                           search
//!                          range deletion covers the key ─► the last file to search stage
//!                          filter says no ─► next run                               filter
//!                          index ─► block ─► entry                                  search
//!                          something is not in memory ─► an unfinished lookup       need
//!   under no guard: read it, go on                                                  probe, unfinished
//!
//!   many/       the same stages for many keys, one stage after the other
//!   mixed       the same stages where several files of a level may hold a key
//!   explain/    the same stages, observed
//!   written_since   the search of each table with newer entries, for whether a key was written
//! ```
//!
//! **Why the first entry is the newest.** For any one key, memtables are newer than tables, level 0
//! is newer than level 1 and so on, and level 0 is ordered by age. So the lookup stops at the first
//! entry that it may see. A tombstone ends the search, like a value.
//!
//! **Why one file a level is enough.** From level 1 on the files of a level share no user key. In a
//! tree of another engine they may share keys, and level 0 may have no order. The version of such a
//! tree is *mixed* (`Version::mixed`), and lists no runs (a run is a file of level 0, or a deeper
//! level). So the loop over the runs finds nothing, and the lookup continues in [`mixed`].
//!
//! **Range deletions.** A range deletion hides entries of its keys: in its own source (a memtable
//! or a file) the entries with a smaller sequence number, in deeper sources all entries. So the
//! search stops at the first source with a visible range deletion that covers the key. The key
//! range of a file includes its range deletions, so that the file is a candidate. A filter knows
//! nothing of range deletions, so they are checked first.
//!
//! **Reads.** While a thread holds a guard, no memory that any thread retires meanwhile is freed
//! ([`crate::sync::reclaim`]). A read of the device may take any time, so a lookup must not hold
//! its guard during a read. If it needs something that is not in memory, it becomes [`Unfinished`],
//! which keeps the version by a reference count instead. It does not keep the memtables, because
//! they are already searched. `src/db/get.rs` has the loop that runs the stages.
//!
//! **Observers.** Each stage tells an observer what it did. `get` has none, and `explain` has one that
//! records the stages, so both calls run the same lookup. A lookup that is drawn for a recording of
//! lookups has one that notes only the [`outcome`].

pub(crate) mod explain;
mod filter;
mod joint;
mod many;
mod memtables;
mod mixed;
mod need;
mod outcome;
mod probe;
mod search;
mod stage;
mod unfinished;
mod written_since;

#[cfg(test)]
pub(crate) use self::probe::search_and_read as get_in_table;
pub(crate) use self::{
    many::Lookups,
    memtables::find_in_memtables,
    outcome::{Outcome, OutcomeNote},
    search::{InTable, Walk},
    stage::{Found, Observe, Observer, Scope, Sources},
    unfinished::Unfinished,
    written_since::was_written_since,
};

//! Point lookups: the value of one key, of many keys, and the trace of one lookup.
//!
//! ```text
//!   sources ─► memtables, newest first ─► found (value or tombstone): done          memtables
//!           ─► runs: files of level 0 newest first, then deeper levels
//!                for each: file whose range holds the key                           here
//!                          range deletion covers the key ─► the last file to search found
//!                          filter says no ─► next run                               filter
//!                          index ─► block ─► entry                                  in_table
//!                          something is not in memory ─► an unfinished lookup       need
//!   under no guard: read it, go on                                                  probe, unfinished
//!
//!   many/       the same stages for many keys, one stage after the other
//!   mixed       the same stages where several files of a level may hold a key
//!   explain/    the same stages, observed
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
//! records the stages, so both calls run the same lookup.

pub(crate) mod explain;
mod filter;
mod found;
mod in_table;
mod joint;
mod many;
mod memtables;
mod mixed;
mod need;
mod observer;
mod probe;
mod scope;
pub(crate) mod sources;
mod tally;
#[cfg(test)]
mod tests;
mod unfinished;

use std::sync::Arc;

use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::sync::Guard;
use crate::table::LookupKey;
use crate::version::{Run, TableFile, Version};

use self::filter::{AfterFilter, FilterSays};
pub(crate) use self::found::Found;
use self::found::{hit_ticker, range_deletion, shows_value};
pub(crate) use self::in_table::InTable;
use self::in_table::{search_index, search_without_filter};
pub(crate) use self::many::Lookups;
#[cfg(test)]
pub(crate) use self::many::read_parts;
pub(crate) use self::memtables::find_in_memtables;
pub(crate) use self::observer::{Observe, Observer};
#[cfg(test)]
pub(crate) use self::probe::search_and_read as get_in_table;
pub(crate) use self::scope::Scope;
pub(crate) use self::sources::Sources;
pub(crate) use self::unfinished::Unfinished;

/// A run, as versions have it.
pub(crate) type FileRun = Run<Arc<TableFile>>;

/// A walk through the files that may hold a key, in the order of the runs, newest first.
pub(crate) struct Walk<'g> {
    version: &'g Version,
    runs: std::slice::Iter<'g, FileRun>,
    /// The key's head ([`Version::head`]).
    head: u64,
}

/// A file that may hold the key: its range holds the key, and its filter has not answered "no".
pub(crate) struct Candidate<'g> {
    pub run: &'g FileRun,
    file: &'g TableFile,
    /// The sequence number of the newest range deletion of the file that covers the key; 0 if there
    /// is none.
    deleted_at: SequenceNumber,
    /// What the search knows after the filter, or the number of the filter's part that is not in
    /// memory.
    after: std::result::Result<AfterFilter, usize>,
}

impl<'g> Walk<'g> {
    /// A walk through the runs from number `first` on. `None`: the key lies outside the ranges of
    /// all files.
    #[inline(always)]
    pub fn new(version: &'g Version, first: usize, key: &LookupKey<'_>) -> Option<Walk<'g>> {
        let head = version.head(key.user_key)?;
        Some(Walk { version, runs: version.runs()[first..].iter(), head })
    }

    /// Starts to fetch the filter of the deepest run. It is the largest, so its cache line is the
    /// least likely to be in the CPU's caches.
    #[inline(always)]
    pub fn prefetch(&self, key: &LookupKey<'_>, guard: &Guard) {
        if let [_, .., deepest] = self.runs.as_slice()
            && let Some(file) = deepest.file_of(self.head, key.user_key)
        {
            filter::prefetch(&file.table, [key], guard);
        }
    }

    /// The next file that may hold the key.
    #[inline(always)]
    pub fn next(&mut self, key: &LookupKey<'_>, scope: &Scope<'_>) -> Option<Candidate<'g>> {
        for run in &mut self.runs {
            let Some(file) = run.file_of(self.head, key.user_key) else {
                scope.observer.tell(|it| it.run_passed(run));
                continue;
            };
            let deleted_at = match self.version.has_range_deletions {
                true => range_deletion(file, key),
                false => 0,
            };
            scope.observer.tell(|it| it.file_reached(file, deleted_at));
            let after = match filter::query(&file.table, key, scope) {
                FilterSays::Maybe(after) => Ok(after),
                FilterSays::Absent(part) => Err(part),
                FilterSays::No => {
                    scope.observer.tell(|it| it.file_left(run, file, None));
                    if deleted_at > 0 {
                        return None;
                    }
                    continue;
                }
            };
            return Some(Candidate { run, file, deleted_at, after });
        }
        None
    }
}

impl<'g> Candidate<'g> {
    /// Searches the file, after its filter.
    #[inline(always)]
    pub fn search(&self, key: &LookupKey<'_>, scope: &Scope<'g>) -> Result<InTable<'g>> {
        let table = &*self.file.table;
        match self.after {
            Ok(after) => search_index(table, key, after, scope),
            Err(part) => search_without_filter(table, part, key, scope),
        }
    }

    /// The search has found an entry. Returns whether it shows a value.
    #[inline(always)]
    pub fn end_with(
        &self,
        found: &Found<'_>,
        key: &LookupKey<'_>,
        scope: &Scope<'_>,
    ) -> Result<bool> {
        scope.observer.tell(|it| it.file_left(self.run, self.file, Some(found)));
        scope.tickers.add(hit_ticker(self.run.level), 1);
        shows_value(&self.file.table, key, found, self.deleted_at)
    }

    /// The search has found no entry. Returns whether the walk ends here: every version of the key
    /// in a deeper file is older than the range deletion, so it is deleted too.
    #[inline(always)]
    pub fn end(&self, scope: &Scope<'_>) -> bool {
        scope.observer.tell(|it| it.file_left(self.run, self.file, None));
        self.deleted_at > 0
    }
}

//! Point lookups: the value of one key, of many keys, and the trace of one lookup.
//!
//! ```text
//!   sources ─► memtables, newest first ─► found (value or tombstone): done          memtables
//!           ─► runs: files of level 0 newest first, then deeper levels
//!                for each: file whose range holds the key                           here
//!                          range deletion covers the key ─► the last file to search found
//!                          filter says no ─► next run                               filter
//!                          index ─► block ─► entry                                  in_table
//!                          something is not in memory ─► the lookup is unfinished   need
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
//! its guard during a read. If it needs something that is not in memory, it is [`Unfinished`]: the
//! caller drops the guard, keeps the version by a reference count instead, and goes on with
//! [`Continued`]. It does not keep the memtables, because they are already searched.
//!
//! **Observers.** Each stage tells an observer what it did. The observer of `get` does nothing and
//! costs nothing. The observer of `explain` records the stages, so both calls run the same lookup.

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
pub(crate) mod sources;
mod tally;
#[cfg(test)]
mod tests;
mod unfinished;

use std::sync::Arc;

use crate::error::Result;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::Guard;
use crate::table::LookupKey;
use crate::version::{Run, TableFile, Version};

pub(crate) use self::found::Found;
use self::found::{hit_ticker, range_deletion, shows_value};
use self::in_table::InTable;
pub(crate) use self::many::Lookups;
#[cfg(test)]
pub(crate) use self::many::read_parts;
use self::memtables::find_in_memtables;
pub(crate) use self::observer::TreeObserver;
#[cfg(test)]
pub(crate) use self::probe::search_and_read as get_in_table;
pub(crate) use self::sources::Sources;
pub(crate) use self::unfinished::Unfinished;

/// What a lookup under a guard has come to.
pub(crate) enum Outcome<'g> {
    /// The key has no value that the lookup sees.
    Absent,
    InMemtable(&'g [u8]),
    InBlock(Found<'g>),
    Unfinished(Unfinished<'g>),
}

/// Looks up `key` in all sources.
pub(crate) fn find<'g>(
    sources: &'g Sources,
    key: &LookupKey<'_>,
    guard: &'g Guard,
    tickers: ThreadTickers<'_>,
) -> Result<Outcome<'g>> {
    find_with(sources, key, guard, tickers, ())
}

/// [`find`] with an observer.
#[inline(always)]
pub(crate) fn find_with<'g>(
    sources: &'g Sources,
    key: &LookupKey<'_>,
    guard: &'g Guard,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
) -> Result<Outcome<'g>> {
    observer.started(key, sources);
    if sources.has_entries_in_memory()
        && let Some(entry) = find_in_memtables(sources, key, guard, tickers, observer)?
    {
        tickers.add(Ticker::NumberKeysRead, 1);
        return Ok(entry.map_or(Outcome::Absent, Outcome::InMemtable));
    }
    tickers.count([Ticker::NumberKeysRead, Ticker::MemtableMiss]);
    let version = &*sources.version;
    let Some(head) = version.head(key.user_key) else {
        observer.all_runs_passed(version);
        return Ok(Outcome::Absent);
    };
    if let [_, .., deepest] = version.runs()
        && let Some(file) = deepest.file_of(head, key.user_key)
    {
        // The filter of the deepest run is the largest, so its cache line is the least likely to be
        // in the CPU's caches.
        filter::prefetch(&file.table, [key], guard);
    }
    let outcome = find_in_runs(version, 0, head, key, guard, tickers, observer)?;
    match outcome {
        Outcome::Absent if version.is_mixed() => Ok(Outcome::Unfinished(Unfinished::Mixed)),
        outcome => Ok(outcome),
    }
}

/// Looks up the key in the runs of `version` from number `first` on. `head`: the key's head
/// ([`Version::head`]).
#[inline(always)]
fn find_in_runs<'g>(
    version: &'g Version,
    first: usize,
    head: u64,
    key: &LookupKey<'_>,
    guard: &'g Guard,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
) -> Result<Outcome<'g>> {
    for run in &version.runs()[first..] {
        let Some(file) = run.file_of(head, key.user_key) else {
            observer.run_passed(run);
            continue;
        };
        let deleted_at = if version.has_range_deletions { range_deletion(file, key) } else { 0 };
        observer.file_reached(file, deleted_at);
        let table = &*file.table;
        match in_table::search(table, key, guard, tickers, observer.in_table())? {
            InTable::Absent => observer.file_left(run, file, None),
            InTable::Found(found) => {
                observer.file_left(run, file, Some(&found));
                tickers.add(hit_ticker(run.level), 1);
                return Ok(match shows_value(table, key, &found, deleted_at)? {
                    true => Outcome::InBlock(found),
                    false => Outcome::Absent,
                });
            }
            InTable::Needs(need, filter) => {
                return Ok(Outcome::Unfinished(Unfinished::InTable { run, need, filter }));
            }
        }
        if deleted_at > 0 {
            // Every version of the key in a deeper file is older than the range deletion, so it is
            // deleted too.
            break;
        }
    }
    Ok(Outcome::Absent)
}

/// A run, as versions have it.
type FileRun = Run<Arc<TableFile>>;

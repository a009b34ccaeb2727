//! The steps of a lookup that are functions of their own, and [`TreeObserver`], which observes all
//! steps.
//!
//! Inside a table, a [`TableObserver`] takes over. Its file, `table/lookup/observer.rs`, says why
//! calls go through the observer, and why the observer of `get` costs nothing.

use std::path::Path;
use std::sync::Arc;

use crate::db::read_state::ReadState;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, Held};
use crate::table::{Absent, Found, LookupKey, Missing, Table, TableObserver, unsupported_entry};
use crate::version::{Run, TableFile, Version};

/// Receives the steps of a lookup in their order, each after it has ended.
pub(in crate::db) trait TreeObserver: Copy {
    type InTable: TableObserver;

    /// The observer for the table that was reached.
    fn in_table(self) -> Self::InTable;

    /// Calls [`find_in_memtables`].
    fn call_find_in_memtables<'g>(
        self,
        read_state: &'g ReadState,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Option<&'g [u8]>>>;

    /// Calls [`find_and_read`].
    fn call_find_and_read(
        self,
        miss: &mut Miss,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'static>>>;

    /// The lookup has loaded its read state and its sequence number.
    #[inline(always)]
    fn started(self, _key: &LookupKey<'_>, _read_state: &ReadState) {}

    /// A memtable was searched. `newest` is the newest visible entry of the key: sequence number,
    /// kind and value. `deleted_at` is the sequence number of the newest range deletion that covers
    /// the key, or 0.
    #[inline(always)]
    fn memtable_searched(
        self,
        _memtable: &Memtable,
        _newest: Option<(SequenceNumber, u8, &[u8])>,
        _deleted_at: SequenceNumber,
    ) {
    }

    /// The key lies outside the ranges of all files.
    #[inline(always)]
    fn all_runs_passed(self, _version: &Version) {}

    /// No file of the run has a range that holds the key.
    #[inline(always)]
    fn run_passed(self, _run: &Run<Arc<TableFile>>) {}

    /// The range of `file` holds the key. For `deleted_at` see [`Self::memtable_searched`].
    #[inline(always)]
    fn file_reached(self, _file: &TableFile, _deleted_at: SequenceNumber) {}

    /// The search of `file`, a file of `run`, has ended. `found` is the entry of the key in it, if
    /// it has one.
    #[inline(always)]
    fn file_left(self, _run: &Run<Arc<TableFile>>, _file: &TableFile, _found: Option<&Found<'_>>) {}
}

impl TreeObserver for () {
    type InTable = ();

    #[inline(always)]
    fn in_table(self) {}

    #[inline(never)]
    fn call_find_in_memtables<'g>(
        self,
        read_state: &'g ReadState,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Option<&'g [u8]>>> {
        find_in_memtables(read_state, key, guard, tickers, self)
    }

    #[cold]
    #[inline(never)]
    fn call_find_and_read(
        self,
        miss: &mut Miss,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'static>>> {
        find_and_read(miss, key, tickers, self)
    }
}

/// Searches the memtables. Returns `None` if no memtable has an entry of the key or a range
/// deletion that covers it, and `Some(None)` if the key is deleted. Lookups call this function
/// through [`TreeObserver::call_find_in_memtables`].
#[inline(always)]
pub(in crate::db) fn find_in_memtables<'g>(
    read_state: &'g ReadState,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
) -> Result<Option<Option<&'g [u8]>>> {
    for memtable in read_state.memtables() {
        let deleted_at = memtable.covering(key.user_key, key.sequence, guard);
        let newest = memtable.get(key.user_key, key.sequence);
        observer.memtable_searched(memtable, newest, deleted_at);
        if let Some((sequence, kind, value)) = newest {
            tickers.add(Ticker::MemtableHit, 1);
            let is_value = kind == EntryKind::Value as u8;
            // In a memtable, entries of kinds that this build does not know come only from a log of
            // RocksDB.
            if !is_value && EntryKind::of_point(kind).is_none() && sequence >= deleted_at {
                return Err(unsupported_entry(Path::new("the log"), key.user_key, kind));
            }
            return Ok(Some((is_value && sequence >= deleted_at).then_some(value)));
        }
        if deleted_at > 0 {
            tickers.add(Ticker::MemtableHit, 1);
            return Ok(Some(None));
        }
    }
    Ok(None)
}

/// Where a lookup continues after it has met something that is not in memory.
pub(in crate::db) struct Miss {
    version: Arc<Version>,
    /// The index of the run whose file the lookup was searching.
    run: usize,
    /// What must be read before the search of this file can continue, until it is read.
    missing: Option<Missing>,
    /// See [`LookupKey::passed_filter_by`].
    passed_filter_by: bool,
}

impl Miss {
    /// `run` is a run of the version, and `file` a file of that run. `held` is passed by address,
    /// because it is in memory anyway. To pass another value of the lookup's loop by address, the
    /// loop would have to keep that value in memory instead of a register.
    #[cold]
    #[inline(never)]
    pub(super) fn new(
        held: &Held<'_, ReadState>,
        run: &Run<Arc<TableFile>>,
        file: &TableFile,
        absent: Absent,
        guard: &Guard,
    ) -> Miss {
        let version = &held.get().version;
        let number = version.runs().iter().position(|other| std::ptr::eq(other, run));
        let run = number.expect("a run of the version");
        let passed_filter_by = absent.passed_filter_by;
        let missing = Some(absent.keep(&file.table, guard));
        Miss { version: Arc::clone(version), run, missing, passed_filter_by }
    }

    /// Drops the result of the lookup. If nothing else holds its block, the cache uses the block's
    /// memory for a later block.
    pub(super) fn recycle(&self, found: Found<'static>) {
        self.version.runs()[self.run].file(0).table.recycle(found);
    }
}

/// Continues a lookup from a miss on, and takes [`Miss::missing`]. Returns the newest entry of the
/// key if it is a value. Holds no guard while it reads. Lookups call this function through
/// [`TreeObserver::call_find_and_read`].
#[inline(always)]
pub(in crate::db) fn find_and_read(
    miss: &mut Miss,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
) -> Result<Option<Found<'static>>> {
    let Miss { version, run, missing, passed_filter_by } = miss;
    let key = &LookupKey { passed_filter_by: *passed_filter_by, ..*key };
    let Some(head) = version.head(key.user_key) else { return Ok(None) };
    for run in &version.runs()[*run..] {
        let Some(file) = run.file_of(head, key.user_key) else {
            observer.run_passed(run);
            continue;
        };
        let deleted_at = match version.has_range_deletions {
            true => range_deletion(file, key),
            false => 0,
        };
        if missing.is_none() {
            observer.file_reached(file, deleted_at);
        }
        let table = &file.table;
        let found = table.get_and_read(missing.take(), key, tickers, observer.in_table())?;
        observer.file_left(run, file, found.as_ref());
        if let Some(found) = found {
            tickers.add(hit_ticker(run.level), 1);
            return Ok(shows_value(table, key, &found, deleted_at)?.then_some(found));
        }
        if deleted_at > 0 {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Looks up a key in the tables of a mixed version. Returns the newest entry of the key if it is a
/// value. In each level it searches all tables that may hold the key. The caller must hold no
/// guard.
#[cold]
#[inline(never)]
pub(super) fn find_in_mixed(
    version: &Version,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
) -> Result<Option<Found<'static>>> {
    for level in version.all_runs().chunk_by(|one, other| one.level == other.level) {
        let (mut newest, mut deleted_at) = (None::<(Found<'static>, &Table)>, 0);
        for run in level {
            let candidates = version.candidates(run, key.user_key);
            if candidates.is_empty() {
                observer.run_passed(run);
            }
            for file in candidates.map(|position| run.file(position)) {
                let deleted_here = range_deletion(file, key);
                deleted_at = deleted_at.max(deleted_here);
                observer.file_reached(file, deleted_here);
                let found = file.table.get_and_read(None, key, tickers, observer.in_table())?;
                observer.file_left(run, file, found.as_ref());
                if let Some(found) = found
                    && newest.as_ref().is_none_or(|(newest, _)| newest.sequence < found.sequence)
                {
                    newest = Some((found, &file.table));
                }
            }
        }
        if let Some((found, table)) = newest {
            tickers.add(hit_ticker(level[0].level), 1);
            return Ok(shows_value(table, key, &found, deleted_at)?.then_some(found));
        }
        if deleted_at > 0 {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The largest sequence number of those range deletions of a file that cover the key and that the
/// lookup may see; 0 if there are none.
#[inline(never)]
pub(in crate::db) fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
}

/// Whether the newest entry of a key shows a value. Returns false if the entry is a tombstone, or
/// older than the range deletion at `deleted_at` (0: none).
#[inline(always)]
pub(in crate::db) fn shows_value(
    table: &Table,
    key: &LookupKey<'_>,
    found: &Found<'_>,
    deleted_at: SequenceNumber,
) -> Result<bool> {
    if found.kind == EntryKind::Value as u8 {
        return Ok(found.sequence >= deleted_at);
    }
    // The arguments of `unknown_entry` are passed by value, because every lookup would have to keep
    // an argument that is passed by address in memory instead of registers.
    match EntryKind::of_point(found.kind) {
        None if found.sequence >= deleted_at => {
            Err(unknown_entry(table, key.for_call().user_key, found.kind))
        }
        _ => Ok(false),
    }
}

#[cold]
fn unknown_entry(table: &Table, user_key: &[u8], kind: u8) -> Error {
    unsupported_entry(table.block_file().path(), user_key, kind)
}

pub(in crate::db) fn hit_ticker(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

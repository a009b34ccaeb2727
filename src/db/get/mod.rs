//! A point lookup. The file is in the order of its steps.
//!
//! ```text
//!   read state ─► memtables, newest first ─► found (value or tombstone): done
//!              ─► candidates: files of level 0 newest first, then at most one file a level
//!                   the deepest: prefetch its filter         the largest, so the slowest to fetch
//!                   for each: range deletion covers the key ─► the last file to search
//!                             filter says no ─► next         counted: useful
//!                             index ─► block ─► entry        found: done; else a false positive
//! ```
//!
//! **Why the first entry is the newest.** For any one key, memtables are newer than tables, level 0
//! is newer than level 1 and so on, and level 0 is ordered by age. So the lookup stops at the first
//! entry that it may see. A tombstone ends the search, like a value.
//!
//! **Why one file a level is enough.** From level 1 on the files of a level share no user key. In a
//! tree of another engine they may share keys, and level 0 may have no order. The version of such a
//! tree is *mixed* (`Version::mixed`), and lists no runs (a run is a file of level 0, or a deeper
//! level). So the loop over the runs finds nothing, and the lookup continues with
//! [`steps::find_in_mixed`].
//!
//! **Range deletions.** A range deletion hides entries of its keys: in its own source (a memtable
//! or a file) the entries with a smaller sequence number, in deeper sources all entries. So the
//! search stops at the first source with a visible range deletion that covers the key. The key
//! range of a file includes its range deletions, so that the file is a candidate. A filter knows
//! nothing of range deletions, so they are checked first.
//!
//! **Misses.** While a thread holds a guard, no memory that any thread retires meanwhile is freed
//! ([`crate::sync::reclaim`]). A read of the device may take any time, so a lookup must not hold
//! its guard during a read. If it needs something that is not in memory, it drops the guard, keeps
//! the version by a reference count instead, and continues where it stopped (`find_and_read`). It
//! does not keep the memtables, because it has already searched them.
//!
//! **User code** may take any time too, so [`get_with`] calls it under no guard. Meanwhile
//! [`Guard::lend`] keeps only the block or the memtable of the value alive.
//!
//! **Observers.** Each step tells an observer what it did. The observer of `get` does nothing and
//! costs nothing. The observer of `explain` records the steps, so both calls run the same lookup.

pub(in crate::db) mod steps;

use std::sync::Arc;

use self::steps::{Miss, TreeObserver, find_in_mixed, hit_ticker, range_deletion, shows_value};
use super::inner::reading::Reading;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::{FilterSays, Found, LookupKey, Stop, TableObserver};

/// Returns the value of `key`. `snapshot` is the sequence number of a snapshot, or `None` for the
/// last visible write.
#[inline]
pub(super) fn get(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
) -> Result<Option<Slice>> {
    lookup(reading, key, snapshot, (), ToSlice)
}

#[inline]
pub(super) fn get_with<R>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    read: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>> {
    lookup(reading, key, snapshot, (), Lend(read))
}

#[inline]
pub(super) fn contains_key(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
) -> Result<bool> {
    Ok(lookup(reading, key, snapshot, (), Ignore)?.is_some())
}

/// The lookup that all calls share. Every step is reported to `observer`: `()` ignores it,
/// [`explain`](super::explain) records it. `visit` is the last to use the guard, so [`Lend`] can
/// end the guard's protection before it calls user code.
#[inline]
pub(super) fn lookup<V: Visit>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    observer: impl TreeObserver,
    visit: V,
) -> Result<Option<V::Out>> {
    let guard = pin();
    let (held, sequence) = reading.load_read_point(snapshot, &guard);
    let read_state = held.get();
    let tickers = reading.counters().on_thread(&guard);
    let key = LookupKey::new(key, sequence);
    observer.started(&key, read_state);
    // A memtable counts an entry before the entry's sequence number is published, so the result
    // `false` proves that no visible entry is in memory.
    if read_state.has_entries_in_memory()
        && let Some(entry) =
            observer.call_find_in_memtables(read_state, &key.for_call(), &guard, tickers)?
    {
        tickers.add(Ticker::NumberKeysRead, 1);
        return Ok(entry.map(|value| visit.visit(ValueRef::Memtable(value, &guard))));
    }
    tickers.count([Ticker::NumberKeysRead, Ticker::MemtableMiss]);
    let version = &*read_state.version;
    let Some(head) = version.head(key.user_key) else {
        observer.all_runs_passed(version);
        return Ok(None);
    };
    if let [_, .., deepest] = version.runs()
        && let Some(file) = deepest.file_of(head, key.user_key)
    {
        // The filter of the deepest run is the largest, so its cache line is the least likely to be
        // in the CPU's caches.
        file.table.prefetch_filter([&key], &guard);
    }
    for run in version.runs() {
        let Some(file) = run.file_of(head, key.user_key) else {
            observer.run_passed(run);
            continue;
        };
        let deleted_at = match version.has_range_deletions {
            true => range_deletion(file, &key.for_call()),
            false => 0,
        };
        observer.file_reached(file, deleted_at);
        let in_table = observer.in_table();
        let table = &*file.table;
        let found = match table.filter_says_maybe(&key, &guard, tickers, in_table) {
            FilterSays::No => Ok(None),
            FilterSays::Maybe { index_part } => {
                let key = LookupKey { index_part, ..key };
                in_table.call_get_after_filter(table, &key, &guard, tickers)
            }
            FilterSays::NotQueried { part } => {
                table.get_without_filter(part, &key.for_call(), &guard, tickers, in_table)
            }
        };
        let absent = match found {
            Ok(Some(found)) => {
                observer.file_left(run, file, Some(&found));
                tickers.add(hit_ticker(run.level), 1);
                return Ok(match shows_value(table, &key, &found, deleted_at)? {
                    true => Some(visit.visit(ValueRef::Block(&found, &guard))),
                    false => None,
                });
            }
            Ok(None) => None,
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Absent(absent)) => Some(absent),
        };
        if let Some(absent) = absent {
            let miss = Miss::new(&held, run, file, absent, &guard);
            drop(guard);
            return visit_once_read(miss, &key.for_call(), tickers, observer, visit);
        }
        observer.file_left(run, file, None);
        if deleted_at > 0 {
            // Every version of the key in a deeper file is older than the range deletion, so it is
            // deleted too.
            return Ok(None);
        }
    }
    if version.is_mixed() {
        let version = Arc::clone(&read_state.version);
        drop(guard);
        let found = find_in_mixed(&version, &key.for_call(), tickers, observer)?;
        return Ok(found.map(|found| visit.visit(ValueRef::Read(&found))));
    }
    Ok(None)
}

/// A value where it was found. A guard, or the block that was read, keeps it alive.
pub(super) enum ValueRef<'a> {
    Memtable(&'a [u8], &'a Guard),
    Block(&'a Found<'a>, &'a Guard),
    Read(&'a Found<'static>),
}

/// What a lookup does with the value that it finds. This is a trait and not a closure, because a
/// method can be `#[inline(always)]`, whereas a long closure might not be inlined. A call that is
/// not inlined would get the [`ValueRef`] by address, so every lookup would build it in memory
/// instead of registers.
pub(super) trait Visit {
    type Out;

    fn visit(self, value: ValueRef<'_>) -> Self::Out;
}

/// The visitor of a lookup that only needs to know whether the key exists.
struct Ignore;

impl Visit for Ignore {
    type Out = ();

    #[inline(always)]
    fn visit(self, _value: ValueRef<'_>) {}
}

/// Returns the value as a [`Slice`] that shares its block. A value in a memtable is copied, because
/// otherwise the whole memtable would live as long as the value.
pub(super) struct ToSlice;

impl Visit for ToSlice {
    type Out = Slice;

    #[inline(always)]
    fn visit(self, value: ValueRef<'_>) -> Slice {
        match value {
            ValueRef::Memtable(value, _) => Slice::copy_from(value),
            ValueRef::Block(found, _) => found.value_slice(),
            ValueRef::Read(found) => found.value_slice(),
        }
    }
}

/// Calls user code with the value, under no guard.
struct Lend<F>(F);

impl<R, F: FnOnce(&[u8]) -> R> Visit for Lend<F> {
    type Out = R;

    #[inline(always)]
    fn visit(self, value: ValueRef<'_>) -> R {
        let Lend(read) = self;
        let (value, guard) = match value {
            ValueRef::Memtable(value, guard) => (value, guard),
            ValueRef::Block(found, guard) => (found.value(), guard),
            ValueRef::Read(found) => return read(found.value()),
        };
        // SAFETY: a lookup is called under no guard and takes one, so this is the thread's only
        // one. After `visit` the lookup uses nothing that it reached under the guard. A memtable
        // lives at least as long as the read state of this lookup, which owns it. This read state
        // is freed by retirement, and its `Retired::part_at` finds the memtable. A block is retired
        // when the cache evicts it, or passed to `drop_at_once` when the array of cache slots that
        // it is in is dropped. In both cases `Retired::part_at` finds the block.
        unsafe { guard.lend(value, read) }
    }
}

/// Continues a lookup that needs something that is not in memory, and visits the value that it
/// finds. Not inlined, so that the code of lookups in memory stays small.
#[cold]
#[inline(never)]
fn visit_once_read<V: Visit>(
    mut miss: Miss,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
    visit: V,
) -> Result<Option<V::Out>> {
    let found = observer.call_find_and_read(&mut miss, key, tickers)?;
    Ok(found.map(|found| {
        let out = visit.visit(ValueRef::Read(&found));
        miss.recycle(found);
        out
    }))
}

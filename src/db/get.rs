//! A point lookup, top to bottom in the order of its steps.
//!
//! ```text
//!   read state ─► memtables, newest first ─► found (value or tombstone): done
//!              ─► candidates: files of level 0 newest first, then at most one file a level
//!                   the deepest: prefetch its filter         the largest, so from far away
//!                   for each: range deletion covers the key ─► the last file to ask
//!                             filter says no ─► next         counted: useful
//!                             index ─► block ─► entry        found: done; else a false positive
//! ```
//!
//! **Why the first answer is right.** Memtables are newer than tables, level 0 is newer than level
//! 1 and so on, and level 0 is ordered by age. So the first entry that the lookup may see is the
//! newest. A tombstone ends the search as a value does.
//!
//! **Why one file a level is enough.** From level 1 on the files of a level share no user key. In
//! the trees of other engines they may, and level 0 may have no order ([`Version::mixed`]). Such a
//! version has no runs, so that the lookup passes it by and comes to [`find_in_mixed`].
//!
//! **Range deletions.** A range deletion hides entries of its keys: in its own source those with a
//! smaller sequence number, in deeper sources all. So the search stops at the first source with a
//! visible range deletion that covers the key. The range of a file includes its range deletions, so
//! the file is a candidate. A filter knows nothing of range deletions, so they are checked first.
//!
//! **Misses.** A read of the device may take any time, during which the guard would keep all memory
//! that the process retires. So a lookup that needs what is not in memory drops its guard, keeps
//! the version by a count, and continues from there (`find_and_read`). It has already searched the
//! memtables, so they are not kept.
//!
//! **User code** may take any time too. [`get_with`](Inner::get_with) lends it the value
//! ([`Guard::lend`]), and with it one block or one memtable.
//!
//! **Observers.** Each step tells an observer what it did. The observer of `get` does nothing and
//! costs nothing; that of `explain` records the steps. So both run the same lookup.

use std::path::Path;
use std::sync::Arc;

use super::Inner;
use super::explain::observer::TreeObserver;
use super::read_state::ReadState;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Error, Result};
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, Held, pin};
use crate::table::{
    Absent, Found, LookupKey, Missing, Stop, Table, TableObserver, unsupported_entry,
};
use crate::version::{Run, TableFile, Version};

impl Inner {
    /// `snapshot`: the sequence number of a snapshot, `None` for the last visible write.
    #[inline]
    pub(super) fn get(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Option<Slice>> {
        self.lookup(key, snapshot, (), ToSlice)
    }

    #[inline]
    pub(super) fn get_with<R>(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.lookup(key, snapshot, (), Lend(read))
    }

    #[inline]
    pub(super) fn contains_key(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
    ) -> Result<bool> {
        Ok(self.lookup(key, snapshot, (), Ignore)?.is_some())
    }

    /// The lookup that all calls share. Every step is reported to `observer`: `()` ignores it,
    /// [`explain`](super::explain) records it. `visit` is the last to use the guard, and is not
    /// user code.
    #[inline]
    pub(super) fn lookup<V: Visit>(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
        observer: impl TreeObserver,
        visit: V,
    ) -> Result<Option<V::Out>> {
        self.check_open()?;
        let guard = pin();
        let (held, sequence) = self.load_read_point(snapshot, &guard);
        let read_state = held.get();
        let tickers = self.counters.on_thread(&guard);
        let key = LookupKey::new(key, sequence);
        observer.started(&key, read_state);
        // A memtable counts an entry before the sequence number is published: `false` is certain.
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
            // The largest filter, whose cache line is the least likely to be in the CPU's caches.
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
            let absent = match file.table.filter_says_maybe(&key, &guard, tickers, in_table) {
                Some(false) => None,
                Some(true) => {
                    let key = key.for_call();
                    match in_table.call_get_after_filter(&file.table, &key, &guard, tickers) {
                        Ok(Some(found)) => {
                            observer.file_left(run, file, Some(&found));
                            tickers.add(hit_ticker(run.level), 1);
                            return Ok(match shows_value(&file.table, &key, &found, deleted_at)? {
                                true => Some(visit.visit(ValueRef::Block(&found, &guard))),
                                false => None,
                            });
                        }
                        Ok(None) => None,
                        Err(Stop::Failed(error)) => return Err(error),
                        Err(Stop::Absent(absent)) => Some(absent),
                    }
                }
                None => Some(Absent::Filter),
            };
            if let Some(absent) = absent {
                let miss = Miss::new(&held, run, file, absent, &guard);
                drop(guard);
                return visit_once_read(miss, &key.for_call(), tickers, observer, visit);
            }
            observer.file_left(run, file, None);
            if deleted_at > 0 {
                // Every version in a deeper file is older, so it is deleted too.
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
}

/// A value where it was found. A guard, or the block that was read, keeps it alive.
pub(super) enum ValueRef<'a> {
    Memtable(&'a [u8], &'a Guard),
    Block(&'a Found<'a>, &'a Guard),
    Read(&'a Found<'static>),
}

/// What a lookup does with the value. A trait rather than a closure, so that it is inlined whatever
/// its length, because a value that is passed by address is in memory from the start.
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

/// Shares the block. Copies out of a memtable: a shared one would live as long as the value.
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
        // SAFETY: a lookup takes one guard and is called under none. It uses nothing after `visit`.
        // Memtables are freed with the last read state or flush: the read state of this lookup is
        // retired, and finds its memtable. Blocks are freed after an eviction, which retires them,
        // or with their slots, at once; both find the block.
        unsafe { guard.lend(value, read) }
    }
}

/// `None`: no memtable knows the key. `Some(None)`: it was deleted. Lookups call it through
/// [`TreeObserver::call_find_in_memtables`].
#[inline(always)]
pub(super) fn find_in_memtables<'g>(
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
            // Only a log of RocksDB's has such entries.
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

/// Where a lookup continues that has met something that is not in memory.
pub(super) struct Miss {
    version: Arc<Version>,
    /// Index of the run.
    run: usize,
    missing: Missing,
}

impl Miss {
    /// `run` is one of the version's, and `file` one of the run's. The read state is passed by
    /// address, because it is in memory anyway and the loop keeps its registers.
    #[cold]
    #[inline(never)]
    fn new(
        held: &Held<'_, ReadState>,
        run: &Run<Arc<TableFile>>,
        file: &TableFile,
        absent: Absent,
        guard: &Guard,
    ) -> Miss {
        let version = &held.get().version;
        let number = version.runs().iter().position(|other| std::ptr::eq(other, run));
        let run = number.expect("a run of the version");
        Miss { version: Arc::clone(version), run, missing: absent.keep(&file.table, guard) }
    }
}

/// Out of line, so that the code of lookups in memory stays small.
#[cold]
#[inline(never)]
fn visit_once_read<V: Visit>(
    miss: Miss,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
    visit: V,
) -> Result<Option<V::Out>> {
    let found = observer.call_find_and_read(miss, key, tickers)?;
    Ok(found.map(|found| visit.visit(ValueRef::Read(&found))))
}

/// Continues a lookup from a miss on: the newest entry of the key, if it is a value. Holds no guard
/// while it reads. Lookups call it through [`TreeObserver::call_find_and_read`].
#[cold]
pub(super) fn find_and_read(
    miss: Miss,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
) -> Result<Option<Found<'static>>> {
    let Miss { version, run, missing } = miss;
    let Some(head) = version.head(key.user_key) else { return Ok(None) };
    let mut missing = Some(missing);
    for run in &version.runs()[run..] {
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

/// A lookup in the tables of a mixed version: the newest entry of the key, if it is a value. Of the
/// tables of a level all are searched that may hold the key. Hold no guard.
#[cold]
#[inline(never)]
fn find_in_mixed(
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

/// The sequence number of the newest range deletion of a file that covers the key and that the
/// lookup may see; 0: none.
#[inline(never)]
pub(super) fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
}

/// Whether the newest entry of a key shows a value. `false`: it is a tombstone, or older than the
/// range deletion at `deleted_at` (0: none).
#[inline(always)]
pub(super) fn shows_value(
    table: &Table,
    key: &LookupKey<'_>,
    found: &Found<'_>,
    deleted_at: SequenceNumber,
) -> Result<bool> {
    if found.kind == EntryKind::Value as u8 {
        return Ok(found.sequence >= deleted_at);
    }
    // By value, because an argument that is passed by address is in memory from the start, in every
    // lookup.
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

pub(super) fn hit_ticker(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

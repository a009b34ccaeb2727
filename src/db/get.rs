//! The way of a point lookup, top to bottom in the order it happens.
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
//! **Why one file a level is enough.** From level 1 on the files of a level share no user key.
//!
//! **Range deletions.** A range deletion hides entries of its keys: in its own source those with a
//! smaller sequence number, in deeper sources all. So the search stops at the first source with a
//! visible range deletion that covers the key. The range of a file includes its range deletions, so
//! the file is a candidate. A filter knows nothing of range deletions: they are asked before it.
//!
//! **Observers.** Each step tells an observer what it did. `get` has one that hears nothing and costs
//! nothing; `explain` writes down what it hears. So there is one lookup, and it explains itself.

use std::path::Path;

use super::Inner;
use super::explain::observer::TreeObserver;
use super::read_state::ReadState;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Error, Result};
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::{Found, LookupKey, Table, TableObserver, unsupported_entry};
use crate::version::{TableFile, Version};

impl Inner {
    /// `snapshot`: the sequence number of a snapshot, `None` for the last visible write.
    #[inline]
    pub(super) fn get(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Option<Slice>> {
        self.lookup(key, snapshot, (), |value| value.to_slice())
    }

    #[inline]
    pub(super) fn get_with<R>(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.lookup(key, snapshot, (), |value| read(value.bytes()))
    }

    /// The one lookup. `observer` hears of every step: `()` of nothing, [`explain`](super::explain)
    /// of all.
    #[inline]
    pub(super) fn lookup<R>(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
        observer: impl TreeObserver,
        visit: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<Option<R>> {
        self.check_open()?;
        let guard = pin();
        let (read_state, sequence) = self.load_read_point(snapshot, &guard);
        let read_state = read_state.get();
        let tickers = self.counters.on_thread(&guard);
        let key = LookupKey::new(key, sequence);
        observer.started(&key, read_state);
        // A memtable counts an entry before the sequence number is published: `false` is certain.
        if read_state.has_entries_in_memory()
            && let Some(entry) =
                observer.call_find_in_memtables(read_state, &key.for_call(), &guard, tickers)?
        {
            tickers.add(Ticker::NumberKeysRead, 1);
            return Ok(entry.map(|value| visit(ValueRef::Memtable(value))));
        }
        tickers.count([Ticker::NumberKeysRead, Ticker::MemtableMiss]);
        find_in_tables(&read_state.version, &key, &guard, tickers, observer, |found| {
            visit(ValueRef::Block(found))
        })
    }
}

/// A value where it was found.
pub(super) enum ValueRef<'a> {
    Memtable(&'a [u8]),
    Block(&'a Found<'a>),
}

impl ValueRef<'_> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match self {
            ValueRef::Memtable(value) => value,
            ValueRef::Block(found) => found.value(),
        }
    }

    /// Shares the block. Copies out of a memtable: a shared one would live as long as the value.
    pub(super) fn to_slice(&self) -> Slice {
        match self {
            ValueRef::Memtable(value) => Slice::copy_from(value),
            ValueRef::Block(found) => found.value_slice(),
        }
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

/// Asks the tables, newest first, and visits the value if the newest entry of the key is one.
#[inline(always)]
fn find_in_tables<R>(
    version: &Version,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    observer: impl TreeObserver,
    visit: impl FnOnce(&Found<'_>) -> R,
) -> Result<Option<R>> {
    let Some(head) = version.head(key.user_key) else {
        observer.all_runs_passed(version);
        return Ok(None);
    };
    if let [_, .., deepest] = version.runs()
        && let Some(file) = deepest.file_of(head, key.user_key)
    {
        // The largest filter: its cache line is the one that comes from far away.
        file.table.prefetch_filter([key], guard);
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
        if file.table.filter_says_maybe(key, guard, tickers, observer.in_table())
            && let Some(found) = observer.in_table().call_get_after_filter(
                &file.table,
                &key.for_call(),
                guard,
                tickers,
            )?
        {
            observer.file_left(run, file, Some(&found));
            tickers.add(hit_ticker(run.level), 1);
            return Ok(match shows_value(&file.table, key, &found, deleted_at)? {
                true => Some(visit(&found)),
                false => None,
            });
        }
        observer.file_left(run, file, None);
        if deleted_at > 0 {
            // Every version in a deeper file is older, so it is deleted too.
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
    // By value: what a call takes by address lies in memory from the start, in every lookup.
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

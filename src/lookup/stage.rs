//! What the stages of a lookup share: the [`Sources`] that they search, the [`Scope`] with which they
//! run, what they have [`Found`] and what that shows, and the [`Observer`] whom they tell.
//!
//! `get` and `explain` run the same functions, which report each stage. `get` has no observer. What it
//! inlines is compiled without the reports, and in other functions a report costs one test.

use std::ops::Range;
use std::sync::Arc;

use crate::cache::slots::Lease;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Error, Result};
use crate::filter::FilterReader;
use crate::memtable::Memtable;
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::Guard;
use crate::table::block::Block;
use crate::table::filter::source::FilterAnswer;
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table, unsupported_entry};
use crate::version::{Run, TableFile, Version};

/// A run, as versions have it.
pub(crate) type FileRun = Run<Arc<TableFile>>;

/// All memtables and tables of a tree at one moment. Immutable, except that writers add entries to
/// the newest memtable. Readers ignore entries with larger sequence numbers than their own.
pub(crate) struct Sources {
    pub memtable: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    pub version: Arc<Version>,
}

impl Sources {
    /// All memtables, newest first.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> + Clone {
        std::iter::once(&self.memtable).chain(&self.frozen)
    }

    /// Whether any memtable may have entries. Frozen memtables nearly always have some. A memtable
    /// counts an entry before the entry's sequence number is published, so the result `false` proves
    /// that no visible entry is in memory.
    #[inline]
    pub fn has_entries_in_memory(&self) -> bool {
        !self.memtable.is_empty() || !self.frozen.is_empty()
    }
}

/// The guard under which stages run, where they count, and whom they tell what they did. Stages get
/// it by reference, because a reference takes one register.
pub(crate) struct Scope<'g> {
    pub guard: &'g Guard,
    pub tickers: ThreadTickers<'g>,
    pub observer: Observer<'g>,
}

impl<'g> Scope<'g> {
    /// A scope without an observer.
    pub fn new(guard: &'g Guard, tickers: ThreadTickers<'g>) -> Scope<'g> {
        Scope { guard, tickers, observer: Observer::NONE }
    }
}

/// An entry in its block.
pub(crate) struct Found<'g> {
    /// The stored kind byte, which may be one that this crate does not write.
    pub kind: u8,
    pub sequence: SequenceNumber,
    pub(super) block: Lease<'g, Block>,
    pub(super) value: Range<usize>,
}

impl Found<'_> {
    #[inline(always)]
    pub fn value(&self) -> &[u8] {
        // This is not written as an index expression, because that would compile to two calls that
        // panic, and `expect` compiles to one. With less code, the closures that read a value in a
        // lookup stay small enough to be inlined.
        self.block.bytes().get(self.value.clone()).expect("the value lies in its block")
    }

    /// The value as a slice that keeps the block alive, without a copy.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        if self.value.is_empty() {
            return Slice::empty();
        }
        Slice::share(self.block.to_arc(), self.value.clone())
    }

    pub(super) fn into_owned(self) -> Found<'static> {
        Found { block: self.block.into_owned(), ..self }
    }
}

/// The largest sequence number of those range deletions of a file that cover the key and that the
/// lookup may see; 0 if there are none.
#[inline(never)]
pub(super) fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
}

/// Whether the newest entry of a key is a live value. Returns false if the entry is a tombstone, or
/// older than the range deletion at `deleted_at` (0: none).
#[inline(always)]
pub(super) fn is_live(
    table: &Table,
    key: &LookupKey<'_>,
    found: &Found<'_>,
    deleted_at: SequenceNumber,
) -> Result<bool> {
    if found.kind == EntryKind::Value as u8 {
        return Ok(found.sequence >= deleted_at);
    }
    match EntryKind::of_point(found.kind) {
        None if found.sequence >= deleted_at => Err(unknown_entry(table, key, found.kind)),
        _ => Ok(false),
    }
}

#[cold]
fn unknown_entry(table: &Table, key: &LookupKey<'_>, kind: u8) -> Error {
    unsupported_entry(table.block_file().path(), key.user_key, kind)
}

pub(super) fn hit_ticker(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

/// The receiver of a lookup's reports, if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Observer<'o>(Option<&'o dyn Observe>);

impl<'o> Observer<'o> {
    pub const NONE: Observer<'static> = Observer(None);

    pub fn new(observer: &'o dyn Observe) -> Observer<'o> {
        Observer(Some(observer))
    }

    #[inline(always)]
    pub fn tell(self, report: impl FnOnce(&dyn Observe)) {
        if let Some(observer) = self.0 {
            report(observer);
        }
    }
}

/// Receives a report at the end of each stage, so that the time since the previous report is the
/// time of the stage.
pub(crate) trait Observe {
    /// The lookup begins.
    fn started(&self, _key: &LookupKey<'_>, _sources: &Sources) {}

    /// A memtable was searched. `newest` is the newest visible entry of the key: sequence number,
    /// kind and value. `deleted_at` is the sequence number of the newest range deletion that covers
    /// the key, or 0.
    fn memtable_searched(
        &self,
        _memtable: &Memtable,
        _newest: Option<(SequenceNumber, u8, &[u8])>,
        _deleted_at: SequenceNumber,
    ) {
    }

    /// The key lies outside the ranges of all files.
    fn all_runs_passed(&self, _version: &Version) {}

    /// No file of the run has a range that holds the key.
    fn run_passed(&self, _run: &FileRun) {}

    /// The range of `file` holds the key. For `deleted_at` see [`Self::memtable_searched`].
    fn file_reached(&self, _file: &TableFile, _deleted_at: SequenceNumber) {}

    /// The search of `file`, a file of `run`, has ended. `found` is the entry of the key in it, if
    /// it has one.
    fn file_left(&self, _run: &FileRun, _file: &TableFile, _found: Option<&Found<'_>>) {}

    /// The filter of `table`, or the filter's part for `key`, has answered: for the key, or for its
    /// prefix.
    fn filter_answered(
        &self,
        _table: &Table,
        _filter: &FilterReader,
        _key: &LookupKey<'_>,
        _is_prefix: bool,
        _answer: FilterAnswer,
    ) {
    }

    /// The filter could not be read, which counts as a "maybe".
    fn filter_failed(&self) {}

    /// The search passes the filter by: the filter is not in memory, and it is not worth a read.
    fn filter_passed_by(&self) {}

    /// The index leads to data block `block`, or to no block if `block` is past the last one.
    fn index_searched(&self, _index: &TableIndex, _block: usize) {}

    /// Data block `i` is in memory.
    fn block_reached(&self, _index: &TableIndex, _i: usize, _block: &Block) {}

    /// The block of the previous [`Self::block_reached`] was searched.
    fn block_searched(&self, _found: bool) {}
}

//! [`TreeObserver`] and [`TableObserver`]: the receivers of the stages of a lookup, in a tree and in
//! one of its tables.
//!
//! `get` and `explain` run the same generic functions, which report each stage to an observer. The
//! observer of `get` is `()`: it has no size, and its methods are empty, so the compiler removes the
//! reports. The observer of `explain` ([`super::explain`]) records the stages.
//!
//! Observers are passed by value, because a reference would take a register even if it refers to
//! `()`.

use crate::encoding::key::SequenceNumber;
use crate::filter::FilterReader;
use crate::memtable::Memtable;
use crate::table::block::Block;
use crate::table::filter::block::FilterAnswer;
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table};
use crate::version::{TableFile, Version};

use super::FileRun;
use super::found::Found;
use super::sources::Sources;

/// Receives the stages of a lookup in a tree in their order, each after it has ended.
pub(crate) trait TreeObserver: Copy {
    type InTable: TableObserver;

    /// The observer for the table that was reached.
    fn in_table(self) -> Self::InTable;

    /// The lookup begins.
    #[inline(always)]
    fn started(self, _key: &LookupKey<'_>, _sources: &Sources) {}

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
    fn run_passed(self, _run: &FileRun) {}

    /// The range of `file` holds the key. For `deleted_at` see [`Self::memtable_searched`].
    #[inline(always)]
    fn file_reached(self, _file: &TableFile, _deleted_at: SequenceNumber) {}

    /// The search of `file`, a file of `run`, has ended. `found` is the entry of the key in it, if
    /// it has one.
    #[inline(always)]
    fn file_left(self, _run: &FileRun, _file: &TableFile, _found: Option<&Found<'_>>) {}
}

/// Receives a report at the end of each stage of a search in a table, so that the time since the
/// previous report is the time of the stage.
pub(crate) trait TableObserver: Copy {
    /// The filter of `table`, or the filter's part for `key`, has answered: for the key, or for its
    /// prefix.
    #[inline(always)]
    fn filter_answered(
        self,
        _table: &Table,
        _filter: &FilterReader,
        _key: &LookupKey<'_>,
        _is_prefix: bool,
        _answer: FilterAnswer,
    ) {
    }

    /// The filter could not be read, which counts as a "maybe".
    #[inline(always)]
    fn filter_failed(self) {}

    /// The search passes the filter by: the filter is not in memory, and it is not worth a read.
    #[inline(always)]
    fn filter_passed_by(self) {}

    /// The index leads to data block `block`, or to no block if `block` is past the last one.
    #[inline(always)]
    fn index_searched(self, _index: &TableIndex, _block: usize) {}

    /// Data block `i` is in memory.
    #[inline(always)]
    fn block_reached(self, _index: &TableIndex, _i: usize, _block: &Block) {}

    /// The block of the previous [`Self::block_reached`] was searched.
    #[inline(always)]
    fn block_searched(self, _found: bool) {}
}

impl TreeObserver for () {
    type InTable = ();

    #[inline(always)]
    fn in_table(self) {}
}

impl TableObserver for () {}

//! [`Observe`]: the receiver of the stages of a lookup, and [`Observer`], which is one or none.
//!
//! `get` and `explain` run the same functions, which report each stage. `get` has no observer. What it
//! inlines is compiled without the reports, and in other functions a report costs one test.

use crate::encoding::key::SequenceNumber;
use crate::filter::FilterReader;
use crate::memtable::Memtable;
use crate::table::block::Block;
use crate::table::filter::block::FilterAnswer;
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table};
use crate::version::{TableFile, Version};

use super::found::Found;
use super::sources::{FileRun, Sources};

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

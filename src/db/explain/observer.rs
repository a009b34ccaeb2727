//! [`TreeObserver`]: watches a lookup through memtables and levels.
//!
//! Inside a table, a [`TableObserver`] takes over. Its file says why calls go through the observer,
//! and why the observer of `get` costs nothing.

use std::sync::Arc;

use crate::db::get::{Miss, find_and_read, find_in_memtables};
use crate::db::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::stats::ThreadTickers;
use crate::sync::Guard;
use crate::table::{Found, LookupKey, TableObserver};
use crate::version::{Run, TableFile, Version};

/// Is told what a lookup does, in order, each step after it has ended.
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
        miss: Miss,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'static>>>;

    /// Read state and sequence number are chosen.
    #[inline(always)]
    fn started(self, _key: &LookupKey<'_>, _read_state: &ReadState) {}

    /// A memtable was searched. `newest`: sequence number, kind and value. `deleted_at`: the newest
    /// range deletion that covers the key; 0: none.
    #[inline(always)]
    fn memtable_searched(
        self,
        _memtable: &Memtable,
        _newest: Option<(SequenceNumber, u8, &[u8])>,
        _deleted_at: SequenceNumber,
    ) {
    }

    /// The key lies outside of all files.
    #[inline(always)]
    fn all_runs_passed(self, _version: &Version) {}

    /// No file of the run has a range that holds the key.
    #[inline(always)]
    fn run_passed(self, _run: &Run<Arc<TableFile>>) {}

    /// The range of `file` holds the key. `deleted_at` as above.
    #[inline(always)]
    fn file_reached(self, _file: &TableFile, _deleted_at: SequenceNumber) {}

    /// The lookup has left a file of `run`, with an entry or without.
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
        miss: Miss,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'static>>> {
        find_and_read(miss, key, tickers, self)
    }
}

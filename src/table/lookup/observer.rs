//! [`TableObserver`]: the receiver of the steps of a lookup in a table.
//!
//! `get` and `explain` are one function, which reports each step to an observer where it happens.
//! The observer of `get` is `()`: it has no size, and its methods for steps are empty, so that
//! nothing of it is left in the machine code. The observer of `explain`,
//! [`Recorder`](super::recorder::Recorder), records the steps.
//!
//! Observers are passed by value, because a reference to `()` would still be a pointer in a
//! register.
//!
//! Some functions of a lookup are generic over the observer and not inlined. The lookup calls them
//! through a method of the observer ([`TableObserver::call_get_after_filter`]). A generic function
//! that is called directly is compiled in the crate that uses this one, where fewer functions of
//! this crate can be inlined into it. A method of `()` is compiled in this crate, with all that it
//! inlines. So the detour saves instructions.

use crate::filter::FilterReader;
use crate::stats::ThreadTickers;
use crate::sync::Guard;

use super::found::Found;
use super::key::LookupKey;
use super::stop::Stop;
use crate::table::block::Block;
use crate::table::filter::block::{FilterAnswer, TableFilter};
use crate::table::table::Table;
use crate::table::table_index::TableIndex;

/// Receives a report at the end of each step of a lookup in a table. So the time since the previous
/// report is the time of the step.
pub(crate) trait TableObserver: Copy {
    /// Calls [`Table::other_filter_says_maybe`].
    fn call_other_filter(
        self,
        table: &Table,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Option<bool>;

    /// Calls [`Table::get_after_filter`].
    fn call_get_after_filter<'g>(
        self,
        table: &'g Table,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'g>>, Stop>;

    /// The table's filter, which is not in parts, has answered for the key.
    #[inline(always)]
    fn full_filter_answered(self, _filter: &FilterReader, _key: &LookupKey<'_>, _maybe: bool) {}

    /// The filter of `table`, or the filter's part for the key, has answered. `prefix`: the key's
    /// prefix, if the filter was queried for the prefix and not for the key.
    #[inline(always)]
    fn filter_answered(
        self,
        _table: &Table,
        _filter: &TableFilter,
        _key: &LookupKey<'_>,
        _prefix: Option<&[u8]>,
        _answer: FilterAnswer,
    ) {
    }

    /// The filter could not be read, which counts as a "maybe".
    #[inline(always)]
    fn filter_failed(self) {}

    /// The filter is not in memory, and the lookup passes it by.
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

impl TableObserver for () {
    #[inline(never)]
    fn call_other_filter(
        self,
        table: &Table,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Option<bool> {
        table.other_filter_says_maybe(key, guard, tickers, self)
    }

    #[inline(never)]
    fn call_get_after_filter<'g>(
        self,
        table: &'g Table,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'g>>, Stop> {
        table.get_after_filter(key, guard, tickers, self)
    }
}

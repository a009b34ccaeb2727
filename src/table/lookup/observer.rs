//! [`TableObserver`]: the receiver of the steps of a lookup in a table.
//!
//! `get` and `explain` run one generic function, which reports each step of the lookup to an
//! observer. The observer of `get` is `()`: it has no size, and its methods for steps are empty, so
//! the compiler removes the reports. The observer of `explain`,
//! [`Recorder`](super::recorder::Recorder), records the steps.
//!
//! Observers are passed by value, because a reference would take a register even if it refers to
//! `()`.
//!
//! Some steps of a lookup are generic over the observer and must not be inlined into their caller.
//! The lookup does not call them directly, but through methods of the observer such as
//! [`TableObserver::call_get_after_filter`]. The reason is where the compiler compiles them. A
//! generic function is compiled in the program that uses this crate, where fewer functions of this
//! crate can be inlined into it. The methods of `()` are not generic, so they are compiled in this
//! crate, with all that they inline. That saves instructions.

use crate::filter::FilterReader;
use crate::stats::ThreadTickers;
use crate::sync::Guard;

use super::found::Found;
use super::key::LookupKey;
use super::says::FilterSays;
use super::stop::Stop;
use crate::table::block::Block;
use crate::table::filter::block::{FilterAnswer, TableFilter};
use crate::table::table::Table;
use crate::table::table_index::TableIndex;

/// Receives a report at the end of each step of a lookup in a table, so that the time since the
/// previous report is the time of the step.
pub(crate) trait TableObserver: Copy {
    /// Calls [`Table::other_filter_says_maybe`].
    fn call_other_filter(
        self,
        table: &Table,
        key: &LookupKey<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> FilterSays;

    /// Calls [`Table::get_after_filter`].
    fn call_get_after_filter<'g>(
        self,
        table: &'g Table,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'g>>, Stop>;

    /// A whole filter in memory has answered for the key. [`Self::filter_answered`] reports all
    /// other answers, for example those of filters in parts and those for prefixes.
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

    /// The lookup passes the filter by: the filter is not in memory, and it is not worth a read
    /// ([`super::admission`]).
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
    ) -> FilterSays {
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

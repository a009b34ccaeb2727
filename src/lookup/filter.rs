//! The first stage of a search of a table: what the filter says, of one key ([`query`]) and of many
//! ([`query_many`]).
//!
//! ```text
//! the usual filter is in memory     its answer                           few instructions, inlined
//! a part of a filter, prefixes,     its answer                           query_part
//!   or a legacy filter, in memory
//! its part is not in memory         the search needs it                  absent_part
//!                                   or passes it by: "maybe"
//! it cannot be queried              "maybe"
//! ```
//!
//! A filter that cannot be read or trusted answers "maybe" and is counted as untrusted, so it costs
//! reads but loses no key. Whether a part that is not in memory is worth a read, the filter's source
//! knows ([`crate::table::filter::source`]).
//!
//! [`FilterTally`] counts the answers, in the database's tickers and in the counters of the table's
//! file:
//!
//! ```text
//!                     whole keys               prefixes               of the file
//!   queries           -                        BloomPrefixChecked     -
//!   no                BloomUseful              BloomPrefixUseful      FilterUseful
//!   maybe             BloomFullPositive        -                      FilterFullPositive
//!     not trusted     BloomUntrusted           BloomUntrusted         FilterUntrusted
//!     and it was true BloomFullTruePositive    BloomPrefixTruePositive  FilterFullTruePositive
//! ```
//!
//! "-": there is no such counter. A filter that is passed by is not queried, so nothing is counted
//! here. The file's counters have no separate counts for prefixes: as in RocksDB, a point lookup that
//! queries the filter for the key's prefix counts there as a query for the key. Queries for ranges
//! (`table/filter/queries.rs`) are counted in the database's tickers only.

use std::num::NonZeroU32;

use crate::filter::HashKind;
use crate::stats::{FileTicker, ThreadFileTickers, ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::LookupKey;
use crate::table::Table;
use crate::table::filter::source::{FilterAnswer, FilterQuery, TableFilter};

use super::need::Need;
use super::stage::{Observer, Scope};

/// The most keys for which a filter is queried at once.
const HASHES: usize = 32;

/// The result of a query of a table's filter.
pub(super) enum Membership {
    /// The table holds no entry of the key.
    No,
    Maybe(AfterFilter),
    /// The part for the key, which is this one, is not in memory.
    Absent(usize),
}

/// What a search knows after the query of the filter.
#[derive(Clone, Copy)]
pub(super) struct AfterFilter {
    pub filter: FilterUse,
    /// The number of the index part that leads to the key, plus one, if the filter's part tells it.
    /// Four bytes, so that all of this is passed in one register.
    index_part: Option<NonZeroU32>,
}

impl AfterFilter {
    /// Nothing, because no filter was queried.
    pub const IMPOSSIBLE: AfterFilter = AfterFilter::new(FilterUse::Impossible, None);

    /// `index_part`: the part of the index that leads to the key, if the filter's part tells it.
    #[inline(always)]
    pub const fn new(filter: FilterUse, index_part: Option<usize>) -> AfterFilter {
        let index_part = match index_part {
            Some(part) => NonZeroU32::new(part as u32 + 1),
            None => None,
        };
        AfterFilter { filter, index_part }
    }

    pub fn index_part(self) -> Option<usize> {
        self.index_part.map(|part| part.get() as usize - 1)
    }
}

/// What a search has done with the filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FilterUse {
    /// The filter was queried, and answered "maybe".
    Queried,
    /// The table has no filter that can be queried for the key.
    Impossible,
    /// The filter was not queried, because it was not worth its read. The result of the search says
    /// nothing about it.
    PassedBy,
}

impl Membership {
    #[inline(always)]
    fn of(maybe: bool, index_part: impl FnOnce() -> Option<usize>) -> Membership {
        match maybe {
            true => Membership::maybe(FilterUse::Queried, index_part()),
            false => Membership::No,
        }
    }

    #[inline(always)]
    fn maybe(filter: FilterUse, index_part: Option<usize>) -> Membership {
        Membership::Maybe(AfterFilter::new(filter, index_part))
    }
}

/// What the filter of `table` says of `key`.
#[inline(always)]
pub(super) fn query(table: &Table, key: &LookupKey<'_>, scope: &Scope<'_>) -> Membership {
    if let Some(filter) = table.filter.usual(scope.guard)
        && let Some(maybe) = filter.answer_for(key.hash)
    {
        let answer = if maybe { FilterAnswer::Maybe } else { FilterAnswer::No };
        scope.observer.tell(|it| it.filter_answered(table, filter, key, false, answer));
        FilterTally::record_hit(maybe, table, scope);
        return Membership::of(maybe, || None);
    }
    query_other(table, key, scope)
}

/// [`query`] in all cases but the usual one.
#[inline(never)]
fn query_other(table: &Table, key: &LookupKey<'_>, scope: &Scope<'_>) -> Membership {
    query_part(table, table.filter.locate(key), key, scope)
}

/// [`query`] of the filter's part `part`, which can hold the key.
fn query_part(table: &Table, part: usize, key: &LookupKey<'_>, scope: &Scope<'_>) -> Membership {
    let Some(query) = table.filter.query_for(key) else {
        return Membership::maybe(FilterUse::Impossible, None);
    };
    let Some(filter) = table.filter.parts.peek(part, scope.guard) else {
        return Membership::Absent(part);
    };
    scope.tickers.add(Ticker::BlockCacheFilterHit, 1);
    let maybe = answer(table, Some(filter), key, &query, scope);
    if !maybe || table.filter.has_paid(part) {
        filter.mark_used();
    }
    Membership::of(maybe, || table.index_part_beside(part))
}

/// Whether `filter`, the filter of `table` or its part for `key`, answers "maybe". `filter` is
/// `None` if it could not be read. Counts the answer.
pub(super) fn answer(
    table: &Table,
    filter: Option<&TableFilter>,
    key: &LookupKey<'_>,
    query: &FilterQuery<'_>,
    scope: &Scope<'_>,
) -> bool {
    let answer = match filter {
        None => {
            scope.observer.tell(|it| it.filter_failed());
            FilterAnswer::Untrusted
        }
        Some(filter) => {
            let answer = filter.may_contain(&query.key);
            scope.observer.tell(|it| {
                it.filter_answered(table, filter.reader(), key, query.is_prefix, answer)
            });
            answer
        }
    };
    match query.is_prefix {
        true => FilterTally::of(answer).record_prefixes(table),
        false => FilterTally::of(answer).record(table, scope),
    }
    answer != FilterAnswer::No
}

/// What a search does about part `part` of the filter, which is not in memory: it needs the part, or
/// it passes the part by. `is_joint`: as in
/// [`should_read`](crate::table::filter::source::FilterSource::should_read).
#[cold]
#[inline(never)]
pub(super) fn absent_part(
    table: &Table,
    part: usize,
    is_joint: bool,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
) -> Result<AfterFilter, Need> {
    if table.filter.should_read(part, is_joint) {
        return Err(Need::Filter(part));
    }
    tickers.add(Ticker::BloomPassedBy, 1);
    observer.tell(|it| it.filter_passed_by());
    Ok(AfterFilter::new(FilterUse::PassedBy, table.index_part_beside(part)))
}

/// Whether part `part` of the filter, which was read for `key`, answers "maybe". `filter` is `None`
/// if it could not be read. Hold no guard.
pub(super) fn answer_once_read(
    table: &Table,
    part: usize,
    is_joint: bool,
    filter: Option<&TableFilter>,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
) -> bool {
    let query = table.filter.query_for(key).expect("the filter was needed for a query");
    let guard = pin();
    let scope = Scope { guard: &guard, tickers, observer };
    let maybe = answer(table, filter, key, &query, &scope);
    table.filter.was_read(part, is_joint, maybe);
    maybe
}

/// Starts to fetch the memory that queries of the filter for `keys` will read, if the usual filter
/// is in memory.
#[inline(always)]
pub(super) fn prefetch<'k>(
    table: &Table,
    keys: impl IntoIterator<Item = &'k LookupKey<'k>>,
    guard: &Guard,
) {
    if let Some(filter) = table.filter.usual(guard) {
        for key in keys {
            filter.prepare(key.hash);
        }
    }
}

/// [`query`] for many keys, so that the cache misses of the queries overlap. Calls `tell` with the
/// number of each key and with what the filter says of this key.
pub(super) fn query_many(
    table: &Table,
    keys: &[&LookupKey<'_>],
    scope: &Scope<'_>,
    mut tell: impl FnMut(usize, Membership),
) {
    let usual = table.filter.usual(scope.guard);
    let usual = usual.filter(|it| it.hash_kind() == HashKind::Hash64 && it.untrusted().is_none());
    for (first, keys) in (0..).step_by(HASHES).zip(keys.chunks(HASHES)) {
        let Some(filter) = usual else {
            query_parts(table, keys, scope, |i, membership| tell(first + i, membership));
            continue;
        };
        let (mut hashes, mut answers) = ([0; HASHES], [false; HASHES]);
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash;
        }
        let answers = &mut answers[..keys.len()];
        filter.may_contain_many(&hashes[..keys.len()], answers);
        let hits = keys.len() as u64;
        let maybes = answers.iter().map(|&maybe| u64::from(maybe)).sum();
        let tally = FilterTally { hits, noes: hits - maybes, maybes, untrusted: 0 };
        tally.record(table, scope);
        for (i, &maybe) in answers.iter().enumerate() {
            tell(first + i, Membership::of(maybe, || None));
        }
    }
}

/// [`query_many`] in all cases, for at most [`HASHES`] keys.
fn query_parts(
    table: &Table,
    keys: &[&LookupKey<'_>],
    scope: &Scope<'_>,
    mut tell: impl FnMut(usize, Membership),
) {
    let mut parts = [0; HASHES];
    for (part, key) in parts.iter_mut().zip(keys) {
        *part = table.filter.locate(key);
        if table.filter.holds_whole_keys()
            && let Some(filter) = table.filter.parts.peek(*part, scope.guard)
        {
            filter.reader().prepare(key.hash);
        }
    }
    for (i, (&part, key)) in parts.iter().zip(keys).enumerate() {
        tell(i, query_part(table, part, key, scope));
    }
}

/// Counts of the answers of filters.
#[derive(Clone, Copy, Default)]
struct FilterTally {
    /// Answers of filters that were in memory.
    hits: u64,
    noes: u64,
    /// Includes the answers of filters that cannot be trusted.
    maybes: u64,
    untrusted: u64,
}

impl FilterTally {
    /// The tally of one answer. Whether the filter was in memory is counted elsewhere.
    fn of(answer: FilterAnswer) -> FilterTally {
        FilterTally {
            hits: 0,
            noes: u64::from(answer == FilterAnswer::No),
            maybes: u64::from(answer != FilterAnswer::No),
            untrusted: u64::from(answer == FilterAnswer::Untrusted),
        }
    }

    /// Counts the answer for one whole key of a filter that was in memory and can be trusted.
    #[inline(always)]
    fn record_hit(maybe: bool, table: &Table, scope: &Scope<'_>) {
        let tally = FilterTally { hits: 1, ..FilterTally::default() };
        match maybe {
            true => FilterTally { maybes: 1, ..tally }.record(table, scope),
            false => FilterTally { noes: 1, ..tally }.record(table, scope),
        }
    }

    /// Counts answers for whole keys.
    #[inline(always)]
    fn record(self, table: &Table, scope: &Scope<'_>) {
        let FilterTally { hits, noes, maybes, untrusted } = self;
        let tickers = scope.tickers;
        let file = table.block_file().file_counters.on_thread(tickers, scope.guard);
        // This function is inlined into the lookup of one key. There the compiler knows the answer,
        // and so which of the counts are 0. Only the code of one arm remains, which increments only
        // the counters of that answer.
        match (noes, maybes, untrusted) {
            (1.., 0, 0) => {
                tickers.add_all([(Ticker::BlockCacheFilterHit, hits), (Ticker::BloomUseful, noes)]);
                file.add(FileTicker::FilterUseful, noes);
            }
            (0, 1.., 0) => {
                let positives = (Ticker::BloomFullPositive, maybes);
                tickers.add_all([(Ticker::BlockCacheFilterHit, hits), positives]);
                file.add(FileTicker::FilterFullPositive, maybes);
            }
            _ => {
                tickers.add_all([
                    (Ticker::BlockCacheFilterHit, hits),
                    (Ticker::BloomUseful, noes),
                    (Ticker::BloomFullPositive, maybes),
                    (Ticker::BloomUntrusted, untrusted),
                ]);
                file.add_all([
                    (FileTicker::FilterUseful, noes),
                    (FileTicker::FilterFullPositive, maybes),
                    (FileTicker::FilterUntrusted, untrusted),
                ]);
            }
        }
    }

    /// Counts answers for the prefixes of keys.
    fn record_prefixes(self, table: &Table) {
        let FilterTally { noes, maybes, untrusted, .. } = self;
        let (tickers, file) = (&table.block_file().counters, &table.block_file().file_counters);
        tickers.add(Ticker::BloomPrefixChecked, noes + maybes);
        tickers.add(Ticker::BloomPrefixUseful, noes);
        tickers.add(Ticker::BloomUntrusted, untrusted);
        file.add(FileTicker::FilterUseful, noes);
        file.add(FileTicker::FilterFullPositive, maybes);
        file.add(FileTicker::FilterUntrusted, untrusted);
    }
}

/// Counts a key that was found after the filter had answered "maybe" for the key, or for its prefix.
#[inline(always)]
pub(super) fn record_true(table: &Table, tickers: ThreadTickers<'_>, file: ThreadFileTickers<'_>) {
    let ticker = match table.filter.holds_whole_keys() {
        true => Ticker::BloomFullTruePositive,
        false => Ticker::BloomPrefixTruePositive,
    };
    tickers.add(ticker, 1);
    file.add(FileTicker::FilterFullTruePositive, 1);
}

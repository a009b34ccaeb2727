//! [`FilterTally`] counts the answers of filters, in the database's tickers and in the counters of
//! the table's file. No other module counts those of lookups.
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
//! "-": there is no such counter. A lookup that passes a filter by ([`super::filter`]) does not
//! query the filter, so nothing is counted here. The file's counters have no separate counts for
//! prefixes: as in RocksDB, a point lookup that queries the filter for the key's prefix counts
//! there as a query for the key. Queries for ranges (`table/filter/queries.rs`) are counted in the
//! database's tickers only.

use crate::stats::{FileTicker, ThreadFileTickers, ThreadTickers, Ticker};
use crate::table::Table;
use crate::table::filter::block::FilterAnswer;

use super::scope::Scope;

/// Counts of the answers of filters.
#[derive(Clone, Copy, Default)]
pub(super) struct FilterTally {
    /// Answers of filters that were in memory.
    pub hits: u64,
    pub noes: u64,
    /// Includes the answers of filters that cannot be trusted.
    pub maybes: u64,
    pub untrusted: u64,
}

impl FilterTally {
    /// The tally of one answer. Whether the filter was in memory is counted elsewhere.
    pub fn of(answer: FilterAnswer) -> FilterTally {
        FilterTally {
            hits: 0,
            noes: u64::from(answer == FilterAnswer::No),
            maybes: u64::from(answer != FilterAnswer::No),
            untrusted: u64::from(answer == FilterAnswer::Untrusted),
        }
    }

    /// Counts the answer for one whole key of a filter that was in memory and can be trusted.
    #[inline(always)]
    pub fn record_hit(maybe: bool, table: &Table, scope: &Scope<'_>) {
        let tally = FilterTally { hits: 1, ..FilterTally::default() };
        match maybe {
            true => FilterTally { maybes: 1, ..tally }.record(table, scope),
            false => FilterTally { noes: 1, ..tally }.record(table, scope),
        }
    }

    /// Counts answers for whole keys.
    #[inline(always)]
    pub fn record(self, table: &Table, scope: &Scope<'_>) {
        let FilterTally { hits, noes, maybes, untrusted } = self;
        let tickers = scope.tickers;
        let file = table.file_counters().on_thread(tickers, scope.guard);
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
    pub fn record_prefixes(self, table: &Table) {
        let FilterTally { noes, maybes, untrusted, .. } = self;
        let (tickers, file) = (table.block_file().counters(), table.file_counters());
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

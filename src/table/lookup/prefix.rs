//! Queries of a table's filter for prefixes.
//!
//! ```text
//!                        filter of whole keys   of prefixes           of both
//! point lookup           the key                the key's prefix      the key
//! range in one prefix    –                      the prefix            the prefix
//! any other range        –                      –                     –
//! ```
//!
//! "–": the filter cannot answer, which counts as "maybe". What the filter holds, and how the
//! prefixes were cut, is stated in the table's own properties. A "no" for a prefix is certain,
//! because all versions and tombstones of a key have the key's prefix: no data block of the table
//! holds an entry with that prefix.
//!
//! `prefix_says_maybe` is marked cold, because most point lookups query for whole keys.

use crate::error::Result;
use crate::stats::Ticker;
use crate::sync::Guard;

use super::key::LookupKey;
use super::observer::TableObserver;
use super::tally::{FilterTally, record_range, record_true_prefix};
use crate::table::filter::block::{FilterAnswer, PrefixFilter, TableFilter};
use crate::table::table::Table;

impl Table {
    /// Whether the table may hold an entry with a key from `lower` up to, but without, `upper`
    /// (`None`: no end). The filter is queried only if all keys of the range share one prefix.
    pub fn range_may_match(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let Some(PrefixFilter { extractor, .. }) = self.prefix_filter() else { return true };
        let Some(prefix) = extractor.prefix_of_range(lower, upper) else { return true };
        let maybe = self.filter_admits_range(prefix, lower, upper);
        record_range(self, maybe);
        maybe
    }

    /// Whether a filter that holds only prefixes answers "maybe" for the key's prefix. `Some(true)`
    /// without a query if the table has no such filter, or if the key has no prefix. `None` if the
    /// filter's part for the key, which is number `part`, is not in memory.
    #[cold]
    pub(super) fn prefix_says_maybe(
        &self,
        part: usize,
        key: &LookupKey<'_>,
        guard: &Guard,
        observer: impl TableObserver,
    ) -> Option<bool> {
        let Some(prefix) = self.prefix_to_ask_for(key) else { return Some(true) };
        let filter = self.filter.peek(part, guard)?;
        filter.mark_used();
        self.count(Ticker::BlockCacheFilterHit);
        Some(self.ask_for_prefix(Some(filter), prefix, key, observer))
    }

    /// The prefix of the key, if it has one and the filter can be queried for prefixes.
    pub(super) fn prefix_to_ask_for<'k>(&self, key: &LookupKey<'k>) -> Option<&'k [u8]> {
        self.prefix_filter()?.extractor.prefix_of(key.user_key)
    }

    /// Queries the filter for the prefix of a key, and counts the answer. `filter` is `None` if the
    /// filter cannot be read.
    pub(super) fn ask_for_prefix(
        &self,
        filter: Option<&TableFilter>,
        prefix: &[u8],
        key: &LookupKey<'_>,
        observer: impl TableObserver,
    ) -> bool {
        let answer = match filter {
            Some(filter) => {
                let answer = filter.may_contain_prefix(key, prefix);
                observer.filter_answered(self, filter, key, Some(prefix), answer);
                answer
            }
            None => {
                observer.filter_failed();
                FilterAnswer::Untrusted
            }
        };
        FilterTally::of(answer).record_prefixes(self);
        answer != FilterAnswer::No
    }

    /// Counts a true positive of a filter that holds only prefixes: the filter answered "maybe" for
    /// the key's prefix, and then the key was found.
    #[cold]
    pub(crate) fn count_prefix_true_positive(&self, key: &LookupKey<'_>) {
        if self.prefix_to_ask_for(key).is_some() {
            record_true_prefix(self);
        }
    }

    /// The key or prefix for which a lookup of the key queries the filter. `None` if the lookup
    /// cannot query the filter.
    #[inline]
    pub(super) fn filter_key_of<'k>(&self, key: &LookupKey<'k>) -> Option<LookupKey<'k>> {
        match self.whole_key_filter {
            Some(_) => Some(*key),
            None => Some(LookupKey::new(self.prefix_to_ask_for(key)?, key.sequence)),
        }
    }

    /// Like [`Table::filter_admits`], with this table's filter, which is read if it is not in
    /// memory. Hold no guard.
    pub(crate) fn own_filter_admits(&self, key: &LookupKey<'_>) -> Result<bool> {
        let extractor = self.prefix_filter().map(|filter| filter.extractor);
        let prefix = extractor.and_then(|extractor| extractor.prefix_of(key.user_key));
        let prefix = prefix.map(|prefix| LookupKey::new(prefix, key.sequence));
        let whole = self.properties().whole_key_filtering().then_some(*key);
        for filter_key in whole.into_iter().chain(prefix) {
            let filter = self.filter_part(self.filter_part_of(key))?;
            if filter.may_contain(&filter_key) == FilterAnswer::No {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether `filter` answers "maybe" for a key. `filter` is this table's filter, or its part
    /// with the key. It is queried for the key, for the key's prefix or for both, whichever it
    /// holds.
    pub(crate) fn filter_admits(&self, filter: &TableFilter, key: &LookupKey<'_>) -> bool {
        let extractor = self.prefix_filter().map(|filter| filter.extractor);
        let prefix = extractor.and_then(|extractor| extractor.prefix_of(key.user_key));
        (!self.properties().whole_key_filtering() || filter.may_contain(key) != FilterAnswer::No)
            && prefix
                .is_none_or(|prefix| filter.may_contain_prefix(key, prefix) != FilterAnswer::No)
    }
}

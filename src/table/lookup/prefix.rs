//! Asking a table's filter for prefixes.
//!
//! ```text
//!                        filter of whole keys   of prefixes           of both
//! point lookup           the key                the key's prefix      the key
//! range in one prefix    –                      the prefix            the prefix
//! any other range        –                      –                     –
//! ```
//!
//! – : nothing can be asked, which is a "maybe". The table's own properties say what its filter
//! holds and how the prefixes were cut. Versions and tombstones of a key have the key's prefix:
//! where a filter denies a prefix, the table holds no entry of any kind in the range.
//!
//! What a point lookup needs of this is marked cold: it stays out of the way of lookups by whole
//! keys, which most are.

use crate::stats::{FileTicker, Ticker};
use crate::sync::{Guard, pin};

use super::key::LookupKey;
use crate::table::filter::block::{FilterAnswer, PrefixFilter, TableFilter};
use crate::table::table::Table;

impl Table {
    /// `false`: the table holds no entry of any key from `lower` to before `upper` (`None`: to the
    /// end). Costs nothing unless all such keys share one prefix.
    pub fn range_may_match(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let Some(PrefixFilter { extractor, .. }) = self.prefix_filter() else { return true };
        let Some(prefix) = extractor.prefix_of_range(lower, upper) else { return true };
        let guard = pin();
        self.count(Ticker::BloomPrefixChecked);
        let maybe = match self.filter(&guard) {
            Ok(Some(filter)) => filter.admits_range(prefix, lower, upper),
            _ => true,
        };
        if !maybe {
            self.count(Ticker::BloomPrefixUseful);
        }
        maybe
    }

    /// The filter's answer to a lookup where it holds no whole keys. Per file, a test of a prefix
    /// counts as one of the key it was made for, as in RocksDB.
    #[cold]
    pub(crate) fn prefix_says_maybe(&self, key: &LookupKey<'_>, guard: &Guard) -> bool {
        let filter = self.prefix_filter();
        let Some(prefix) = filter.and_then(|filter| filter.extractor.prefix_of(key.user_key))
        else {
            return true;
        };
        self.count(Ticker::BloomPrefixChecked);
        let untrusted = match self.filter(guard) {
            Ok(Some(filter)) => {
                let answer = filter.may_contain_prefix(key, prefix);
                if answer == FilterAnswer::No {
                    self.count_both(Ticker::BloomPrefixUseful, FileTicker::FilterUseful);
                    return false;
                }
                answer == FilterAnswer::Untrusted
            }
            _ => true,
        };
        self.file_counters().add(FileTicker::FilterFullPositive, 1);
        if untrusted {
            self.count_both(Ticker::BloomUntrusted, FileTicker::FilterUntrusted);
        }
        true
    }

    /// Counts a key that was found past a filter without whole keys.
    #[cold]
    pub(crate) fn count_prefix_true_positive(&self, key: &LookupKey<'_>) {
        let filter = self.prefix_filter();
        if filter.is_some_and(|filter| filter.extractor.prefix_of(key.user_key).is_some()) {
            let file = FileTicker::FilterFullTruePositive;
            self.count_both(Ticker::BloomPrefixTruePositive, file);
        }
    }

    /// Whether `filter`, which is this table's, lets a key through: by itself and by its prefix, as
    /// far as it holds either.
    pub(crate) fn filter_admits(&self, filter: &TableFilter, key: &LookupKey<'_>) -> bool {
        let extractor = self.prefix_filter().map(|filter| filter.extractor);
        let prefix = extractor.and_then(|extractor| extractor.prefix_of(key.user_key));
        (!self.properties().whole_key_filtering() || filter.may_contain(key) != FilterAnswer::No)
            && prefix
                .is_none_or(|prefix| filter.may_contain_prefix(key, prefix) != FilterAnswer::No)
    }
}

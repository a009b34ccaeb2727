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

use crate::cache::Lease;
use crate::key::MAX_SEQUENCE;
use crate::stats::{FileTicker, Ticker};
use crate::sync::{Guard, pin};

use super::LookupKey;
use super::filter_block::{PreparedFilter, StoredFilter, TableFilter};
use super::prefix::PrefixExtractor;
use super::properties::TableProperties;
use super::reader::{Asked, Table};

/// A stored filter that holds prefixes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixFilter {
    pub stored: StoredFilter,
    /// How the table's writer cut them.
    pub extractor: PrefixExtractor,
}

impl PrefixFilter {
    /// `None` when the filter cannot be asked for prefixes. Partitioned ones are not: the keys of a
    /// prefix may lie in several partitions.
    pub fn new(stored: StoredFilter, properties: &TableProperties) -> Option<PrefixFilter> {
        let extractor = properties.prefix_extractor()?;
        match stored {
            StoredFilter::Full(..) => Some(PrefixFilter { stored, extractor }),
            StoredFilter::Partitioned(_) => None,
        }
    }
}

/// A filter that was asked for a prefix. `None` when it could not be read.
pub(super) type PrefixProbe<'g> = (Lease<'g, TableFilter>, PreparedFilter);

impl Table {
    /// `false`: the table holds no entry of any key from `lower` to before `upper` (`None`: to the
    /// end). Costs nothing unless all such keys share one prefix.
    pub fn range_may_match(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let Some(PrefixFilter { extractor, .. }) = self.prefix_filter() else { return true };
        let Some(prefix) = extractor.prefix_of_range(lower, upper) else { return true };
        let guard = pin();
        let probe = self.ask_for_prefix(prefix, &guard);
        self.count(Ticker::BloomPrefixChecked);
        let maybe = probe.is_none_or(|(filter, prepared)| filter.finish(prepared));
        if !maybe {
            self.count(Ticker::BloomPrefixUseful);
        }
        maybe
    }

    /// Step 1 of a lookup where the filter holds no whole keys.
    #[cold]
    pub(super) fn prepare_prefix<'g>(&'g self, key: &LookupKey<'_>, guard: &'g Guard) -> Asked<'g> {
        let filter = self.prefix_filter();
        match filter.and_then(|filter| filter.extractor.prefix_of(key.user_key)) {
            Some(prefix) => Asked::Prefix(self.ask_for_prefix(prefix, guard)),
            None => Asked::Nobody,
        }
    }

    /// Step 2. Per file, a test of a prefix counts as one of the key it was made for, as in RocksDB.
    #[cold]
    pub(super) fn prefix_says_maybe(&self, probe: Option<PrefixProbe<'_>>) -> bool {
        self.count(Ticker::BloomPrefixChecked);
        let untrusted = match probe {
            None => true,
            Some((filter, prepared)) if filter.finish(prepared) => filter.is_untrusted(prepared),
            Some(_) => {
                self.count_both(Ticker::BloomPrefixUseful, FileTicker::FilterUseful);
                return false;
            }
        };
        self.file_counters().add(FileTicker::FilterFullPositive, 1);
        if untrusted {
            self.count_both(Ticker::BloomUntrusted, FileTicker::FilterUntrusted);
        }
        true
    }

    /// After step 3, when the key was found past a filter without whole keys.
    #[cold]
    pub(super) fn count_prefix_true_positive(&self, key: &LookupKey<'_>) {
        let filter = self.prefix_filter();
        if filter.is_some_and(|filter| filter.extractor.prefix_of(key.user_key).is_some()) {
            let file = FileTicker::FilterFullTruePositive;
            self.count_both(Ticker::BloomPrefixTruePositive, file);
        }
    }

    /// Whether `filter`, which is this table's, lets a key through: by itself and by its prefix, as
    /// far as it holds either.
    pub(super) fn filter_admits(&self, filter: &TableFilter, user_key: &[u8]) -> bool {
        let admits = |what| filter.finish(filter.prepare(&LookupKey::new(what, MAX_SEQUENCE)));
        let extractor = self.prefix_filter().map(|filter| filter.extractor);
        let prefix = extractor.and_then(|extractor| extractor.prefix_of(user_key));
        (!self.properties().whole_key_filtering() || admits(user_key)) && prefix.is_none_or(admits)
    }

    fn ask_for_prefix<'g>(&'g self, prefix: &[u8], guard: &'g Guard) -> Option<PrefixProbe<'g>> {
        let filter = self.filter(guard).ok()??;
        let prepared = filter.prepare(&LookupKey::new(prefix, MAX_SEQUENCE));
        Some((filter, prepared))
    }
}

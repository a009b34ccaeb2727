//! Queries of a table's filter that are not steps of a point lookup: for ranges, for compactions,
//! and for whole tables. Lookups query it in `src/lookup/filter.rs`.

use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Result;
use crate::stats::Ticker;
use crate::sync::Guard;

use crate::encoding::key::LookupKey;
use crate::table::filter::source::{FilterAnswer, StoredFilter, TableFilter};
use crate::table::table::Table;

impl Table {
    /// Whether the table may hold an entry with a key from `lower` up to, but without, `upper`
    /// (`None`: no end). The filter is queried only if all keys of the range share one prefix.
    pub fn range_may_match(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let Some(extractor) = self.filter.extractor() else { return true };
        let Some(prefix) = extractor.prefix_of_range(lower, upper) else { return true };
        let maybe = self.filter_admits_range(prefix, lower, upper);
        self.count(Ticker::BloomPrefixChecked);
        self.block_file().counters.add(Ticker::BloomPrefixUseful, u64::from(!maybe));
        maybe
    }

    /// Whether the filter answers "maybe" for `prefix`, which all keys from `lower` up to, but
    /// without, `upper` (`None`: no end) have in common. Queries the parts for these keys, one
    /// after the other, up to the first "maybe". It reads at most two parts, because a part between
    /// the first and the last holds only keys of the range, so it answers "maybe". Hold no guard.
    fn filter_admits_range(&self, prefix: &[u8], lower: &[u8], upper: Option<&[u8]>) -> bool {
        let filter = &self.filter;
        let part_of = |bound| filter.locate(&LookupKey::new(bound, MAX_SEQUENCE));
        let last = upper.map_or(filter.parts.parts() - 1, part_of);
        let prefix = LookupKey::new(prefix, MAX_SEQUENCE);
        let mut parts = part_of(lower)..=last;
        // If `upper` is before `lower`, there may be no parts, and the answer is "no".
        parts.any(|part| match filter.part(self.block_file(), part) {
            Ok(filter) => filter.may_contain(&prefix) != FilterAnswer::No,
            Err(_) => true,
        })
    }

    /// Whether the filter holds whole keys, is in memory, and says that the table does not hold the
    /// key. `false` if the filter cannot be trusted.
    pub fn resident_filter_denies(&self, user_key: &[u8], guard: &Guard) -> bool {
        let key = LookupKey::new(user_key, MAX_SEQUENCE);
        let part = || self.filter.parts.peek(self.filter.locate(&key), guard);
        self.filter.holds_whole_keys()
            && part().is_some_and(|filter| filter.may_contain(&key) == FilterAnswer::No)
    }

    /// Like [`Table::filter_admits`], with this table's filter, which is read if it is not in
    /// memory. Hold no guard.
    pub(crate) fn own_filter_admits(&self, key: &LookupKey<'_>) -> Result<bool> {
        let filter = self.filter.part(self.block_file(), self.filter.locate(key))?;
        Ok(self.filter_admits(&filter, key))
    }

    /// Whether `filter` answers "maybe" for a key. `filter` is this table's filter, or its part
    /// with the key. It is queried for the key, for the key's prefix or for both, whichever it
    /// holds.
    pub(crate) fn filter_admits(&self, filter: &TableFilter, key: &LookupKey<'_>) -> bool {
        let prefix = self.filter.prefix_of(key);
        let prefix = prefix.map(|prefix| LookupKey::new(prefix, key.sequence));
        let whole = self.properties().whole_key_filtering().then_some(*key);
        let mut queries = whole.into_iter().chain(prefix);
        queries.all(|query| filter.may_contain(&query) != FilterAnswer::No)
    }

    /// Reads all parts of the filter without using the cache, even if lookups do not query the
    /// filter. `None`: the table has no filter of a known form.
    ///
    /// # Errors
    /// As [`FilterSource::read_all`](super::source::FilterSource::read_all).
    pub(in crate::table) fn read_filter_parts(&self) -> Result<Option<Vec<TableFilter>>> {
        let found = StoredFilter::find(self.metaindex());
        found.map(|found| self.filter.read_all(self.block_file(), found)).transpose()
    }
}

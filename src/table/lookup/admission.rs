//! Whether a lookup reads a part of a filter that is not in memory, or *passes it by*: it then
//! searches the table as if there were no filter. This is the only file that asks
//! [`crate::cache::policy`], which has the rule, about filters.
//!
//! The rule applies to filters in parts, if filters and indexes fill the cache, and if they are not
//! pinned. All other filters that a lookup needs are read. `Builder::reads_every_filter` turns the
//! rule off, for comparison.

use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::table::Table;

use super::found::Found;
use super::key::LookupKey;
use super::observer::TableObserver;
use super::stop::{AbsentPart, Stop};

impl Table {
    /// Continues a lookup if the filter's part `part`, which can hold the key, is not in memory. If
    /// the lookup passes it by, this is [`Table::get_after_filter`]. Otherwise the lookup stops, so
    /// that the part can be read without a guard.
    #[cold]
    #[inline(never)]
    pub fn get_without_filter<'g>(
        &'g self,
        part: u32,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<Option<Found<'g>>, Stop> {
        let part = part as usize;
        let is_joint = self.joint_read(part, key, guard).is_some();
        if self.reads_filter_part(part, is_joint) {
            return Err(Stop::absent(AbsentPart::Filter(part), key));
        }
        tickers.add(Ticker::BloomPassedBy, 1);
        observer.filter_passed_by();
        let index_part = self.index_part_beside(part).map(|part| part as u32);
        let unfiltered = LookupKey { passed_filter_by: true, index_part, ..*key };
        observer.call_get_after_filter(self, &unfiltered, guard, tickers)
    }

    /// Whether a lookup reads part `part` of the filter, which is not in memory. `is_joint`: whether
    /// one read would load both this part and the part of the index that the lookup needs.
    pub(super) fn reads_filter_part(&self, part: usize, is_joint: bool) -> bool {
        let applies = self.filter_top.is_some()
            && !self.pins_metadata
            && !self.reads_every_filter
            && self.cache.policy().metadata_fills();
        !applies || self.filter_credits[part].pays(is_joint)
    }

    /// Notes what part `part` of the filter has said after it was read for a lookup.
    pub(super) fn read_filter_answered(&self, part: usize, is_joint: bool, maybe: bool) {
        self.filter_credits[part].was_read(maybe, is_joint);
    }

    /// Notes that a lookup has read from the table in vain, because the table does not hold the key.
    /// `part`: the part of the filter that can hold the key.
    #[cold]
    pub fn searched_in_vain(&self, part: usize) {
        if self.filter.peek(part, &pin()).is_none() {
            self.filter_credits[part].was_missed();
        }
    }
}

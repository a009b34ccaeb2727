//! Which filters are worth a read.
//!
//! Loading a filter costs a read, and evicts something from the cache. A loaded filter saves a read
//! only if the table does not hold the key of the lookup. So a lookup at first *passes by* a filter
//! that is not in memory: it searches the table as if there were no filter. The filter's *credit*
//! counts the reads of searches in vain. A lookup loads the filter once the credit reaches the
//! price:
//!
//! ```text
//!           passed by, key absent: + 1 read              read, and says no: + 1/8 read, up to 2
//!   credit ────────────────────────► price ── a lookup ──►
//!           passed by, key present: unchanged            read, and says maybe: − price
//! ```
//!
//! Each part of a filter, and each piece of a whole filter (`table/pieces`), has a credit of its
//! own, which begins at one read. A part keeps its credit when it is evicted. So a part that was
//! queried for absent keys is read again at the next query, but a part that was queried for present
//! keys is not. If the price of a whole filter is above one read, not only a "maybe" lowers its
//! credit by the price, but a "no" too.
//!
//! If the part of the index that leads to the key is not in memory either, one read loads this part
//! and the part of the filter ([`super::joint`]). Then the price of the filter is an eighth of a
//! read, because only its bytes are added. A "no" raises a credit below one read to one read, and a
//! larger credit by an eighth. A credit of two reads means that the last keys were all absent, so
//! the filter is read without the index.
//!
//! A part in memory counts as used only until it has said "maybe" four times in a row. Then it is
//! evicted before other parts, unless it says "no" before that.
//!
//! This is the rule of the ski rental problem: rent until the rents would have bought the skis.
//! `docs/filters.md` proves what the rule costs at most. The rule applies only if metadata is not
//! pinned, and if the filters and indexes of all tables would fill most of the cache. Otherwise
//! every filter that a lookup needs is read, except one that is not worth its memory
//! ([`crate::table::worth`]). For comparison, `Builder::reads_every_filter` turns both rules off.

use crate::cache::BlockCache;
use crate::filter::PIECE_BYTES;
use crate::stats::{FileTicker, ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::credit::{Credit, READ};
use crate::table::filter::block::StoredFilter;
use crate::table::format::properties::names;
use crate::table::table::Table;

use super::found::Found;
use super::key::LookupKey;
use super::observer::TableObserver;
use super::stop::{AbsentPart, Stop};

/// A read of up to this many bytes counts as one read in the price of a whole filter.
const ONE_READ_BYTES: u64 = 128 << 10;

/// A whole filter that would take more than 1 / `MAX_SHARE` of the cache is not loaded into it.
const MAX_SHARE: u64 = 8;

/// The price of a filter that is never read.
const NO_PRICE: u32 = u32::MAX;

/// The price of a filter part that is read together with the index.
const JOINT_PRICE: u32 = 1;

/// The credit of a part that has lately been queried for absent keys only. Such a part is read
/// without the index.
const ONLY_ABSENT: u32 = 2 * READ;

/// The price of a whole filter of `bytes` stored bytes.
fn price_of_whole(bytes: u64, has_pieces: bool, cache: &BlockCache) -> u32 {
    let reads = match has_pieces {
        // The whole filter is read once, to make the pieces, and not kept.
        true => bytes.div_ceil(ONE_READ_BYTES) as u32,
        false if bytes > cache.capacity() as u64 / MAX_SHARE => return NO_PRICE,
        // The whole filter takes as much of the cache as this many pieces.
        false => bytes.div_ceil(PIECE_BYTES as u64) as u32,
    };
    reads.saturating_mul(READ)
}

impl Table {
    /// Like [`Table::get_after_filter`], if the filter has no answer because it is not in memory.
    /// Stops at the filter, unless the lookup passes it by.
    #[cold]
    #[inline(never)]
    pub fn get_without_filter<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
        observer: impl TableObserver,
    ) -> Result<Option<Found<'g>>, Stop> {
        if !self.filter_worth.is_worthless() {
            let part = self.filter_part_of(key);
            let is_parted = self.filter_top.is_some();
            // With less credit than this, the part is not even read together with the index.
            let has_credit = || self.filter_credits[part].is(JOINT_PRICE);
            if !is_parted || !self.reads_what_pays() || has_credit() {
                return Err(Stop::absent(AbsentPart::Filter(part), key));
            }
        }
        tickers.add(Ticker::BloomPassedBy, 1);
        observer.filter_passed_by();
        let key = LookupKey { passed_filter_by: true, ..*key };
        let found = observer.call_get_after_filter(self, &key, guard, tickers)?;
        if found.is_none() {
            self.searched_in_vain(&key);
        }
        Ok(found)
    }

    /// Call this when a lookup reads a data block of the table. Hold no guard.
    #[inline]
    pub fn data_is_read(&self) {
        if self.filter_worth.data_is_read(self.file_counters().of_thread(FileTicker::Reads)) {
            self.weigh_filter();
        }
    }

    /// Evicts the filter if it is not worth its memory ([`crate::table::worth`]).
    #[cold]
    #[inline(never)]
    fn weigh_filter(&self) {
        let Some(stored) = self.any_filter() else { return };
        let counts = self.file_counters().sums();
        let saved = counts.filter.useful.wrapping_add(counts.unfiltered);
        // These numbers come from the file and may be wrong.
        let number = |name| self.properties().number(name);
        let filter_bytes = number(names::FILTER_BYTES).unwrap_or(0).max(stored.handle().bytes);
        let data_bytes = number(names::DATA_BYTES).unwrap_or(self.block_file().file().len());
        let is_worthless = self.filter_worth.saved_too_little(saved, filter_bytes, data_bytes)
            && !self.pins_metadata
            && !self.reads_every_filter
            && !self.cache.metadata_fills_it()
            && !self.cache.has_room_for(filter_bytes as usize);
        self.filter_worth.set_worthless(is_worthless);
        if is_worthless {
            self.filter.evict_all();
        }
    }

    /// Whether a filter that is not in memory is read only where that pays.
    fn reads_what_pays(&self) -> bool {
        !self.pins_metadata && !self.reads_every_filter && self.cache.metadata_fills_it()
    }

    /// The number of the part or piece of the filter that a lookup should read and query for
    /// `filter_key`. Returns `None`, and counts that, if the lookup should pass the filter by.
    /// `part` is the part with the key. `is_joint`: whether the same read loads the index too. Hold
    /// no guard.
    pub(in crate::table) fn filter_part_worth_reading(
        &self,
        part: usize,
        filter_key: &LookupKey<'_>,
        is_joint: bool,
        tickers: ThreadTickers<'_>,
    ) -> Option<usize> {
        let passes_by = if self.filter_worth.is_worthless() {
            self.filter.get(part, &pin()).is_none()
        } else if self.reads_what_pays() {
            let (number, credit, price) = self.filter_account(part, filter_key);
            let price = if is_joint { JOINT_PRICE } else { price };
            let (slots, place) = self.filter_slot(number);
            let guard = pin();
            let is_resident =
                self.filter.get(part, &guard).is_some() || slots.get(place, &guard).is_some();
            !is_resident && !credit.is(price)
        } else {
            false
        };
        if passes_by {
            tickers.add(Ticker::BloomPassedBy, 1);
            return None;
        }
        // A failure here occurs again when the part is loaded, and is reported then.
        Some(self.filter_part_to_read(part, filter_key).unwrap_or(part))
    }

    /// Whether part `part` of the filter has lately answered "no" to each query.
    pub(super) fn says_only_no(&self, part: usize) -> bool {
        self.filter_credits[part].is(ONLY_ABSENT)
    }

    /// What a lookup would read of a filter: the number of the part or piece, its credit and its
    /// price.
    fn filter_account(&self, part: usize, filter_key: &LookupKey<'_>) -> (usize, &Credit, u32) {
        if let Some((number, credit)) = self.filter_piece_account(filter_key) {
            return (number, credit, READ);
        }
        let price = match self.any_filter() {
            Some(StoredFilter::Full(handle, _)) => {
                price_of_whole(handle.bytes, self.may_have_filter_pieces(), &self.cache)
            }
            _ => READ,
        };
        (part, &self.filter_credits[part], price)
    }

    /// Adjusts the credit after part `part` of the filter was read for a lookup and has answered.
    pub(in crate::table) fn read_filter_answered(
        &self,
        part: usize,
        filter_key: &LookupKey<'_>,
        is_joint: bool,
        maybe: bool,
    ) {
        let (_, credit, most) = self.filter_account(part, filter_key);
        let price = if is_joint { JOINT_PRICE } else { most };
        match maybe {
            _ if most > READ => credit.pay(price, most),
            true => credit.pay(price, READ),
            false if credit.is(READ) => credit.earn(1, ONLY_ABSENT),
            // The "no" has saved a read. The filter has cost `price`, which is at most a read.
            false => credit.earn(READ - price, READ),
        }
    }

    /// Notes that a lookup has searched the table in vain, because the table does not hold the key.
    /// If the filter is not in memory, the filter's credit grows, because the filter would have
    /// saved the search.
    #[cold]
    pub fn searched_in_vain(&self, key: &LookupKey<'_>) {
        let Some(filter_key) = self.filter_key_of(key) else { return };
        let (part, guard) = (self.filter_part_of(key), pin());
        if self.filter.get(part, &guard).is_some() {
            return;
        }
        let (number, credit, price) = self.filter_account(part, &filter_key);
        let (slots, place) = self.filter_slot(number);
        if slots.get(place, &guard).is_none() {
            credit.earn(READ, price);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The cost of a part, in reads, counted as in `docs/filters.md`. A phase lasts from one
    /// eviction of the part to the next, and says of each lookup whether its key is present.
    fn cost(phases: &[Vec<bool>]) -> u32 {
        let credit = &Credit::of(1)[0];
        let mut cost = 0;
        for phase in phases {
            let mut is_resident = false;
            for &is_there in phase {
                if is_resident {
                    continue;
                }
                if credit.is(READ) {
                    (cost, is_resident) = (cost + 1, true);
                    if is_there {
                        credit.pay(READ, READ);
                    }
                } else if !is_there {
                    cost += 1;
                    credit.earn(READ, READ);
                }
            }
        }
        cost
    }

    fn best_cost(phases: &[Vec<bool>]) -> u32 {
        phases.iter().map(|phase| u32::from(phase.iter().any(|is_there| !is_there))).sum()
    }

    /// How often a phase in which the part is queried for absent keys is followed by a phase in
    /// which it is queried for present keys only.
    fn turns(phases: &[Vec<bool>]) -> u32 {
        let used = phases.iter().filter(|phase| !phase.is_empty());
        let spares: Vec<bool> = used.map(|phase| phase.contains(&false)).collect();
        spares.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u32
    }

    #[test]
    fn a_part_costs_at_most_twice_the_best_and_one_read_a_turn() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut worst: f64 = 0.0;
        for _ in 0..20_000 {
            let present = [0.0, 0.1, 0.5, 0.9, 1.0][rng.random_range(0..5)];
            let phases: Vec<Vec<bool>> = (0..rng.random_range(1..40))
                .map(|_| {
                    let present = if rng.random_bool(0.1) { 1.0 - present } else { present };
                    (0..rng.random_range(0..6)).map(|_| rng.random_bool(present)).collect()
                })
                .collect();
            let (cost, best, turns) = (cost(&phases), best_cost(&phases), turns(&phases));
            // The last 1 is the first read, for which the initial credit pays.
            assert!(cost <= 2 * best + turns + 1, "{cost}, {best} with {turns} turns: {phases:?}");
            worst = worst.max(f64::from(cost) / f64::from(best.max(1)));
        }
        assert!(worst > 1.9, "{worst}: the bound is not tested");
        let absent_only = vec![vec![false; 3]; 100];
        assert_eq!((cost(&absent_only), best_cost(&absent_only)), (100, 100));
        assert_eq!(cost(&vec![vec![true; 3]; 100]), 1);
    }
}

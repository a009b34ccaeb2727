//! Which filters are worth a read.
//!
//! Loading a filter costs a read, and evicts something from the cache. A loaded filter saves a read
//! only if the table does not hold the key of the lookup. So a lookup may *pass by* a filter that
//! is not in memory: it searches the table as if there were no filter. The filter has a *credit*,
//! to which each read in vain adds the read that the filter would have saved. A lookup passes the
//! filter by while the credit is below the *price* of the filter, and otherwise loads the filter:
//!
//! ```text
//!           passed by, a read in vain: + 1 read          read, and says no: + 1/8 read, up to 2
//!   credit ────────────────────────► price ── a lookup ──►
//!           passed by, otherwise: unchanged              read, and says maybe: − price
//! ```
//!
//! If a search in vain finds all that it needs in memory, the filter would have saved no read, so
//! the credit stays unchanged.
//!
//! Each part of a filter has a credit of its own, which begins at one read, and a price of one read. A part keeps its credit when it is
//! evicted. So at the next query after the eviction, the part is read again if it said "no" when it
//! was read, but not if it said "maybe". The price of a whole filter may be above one read. Then a
//! "no" lowers its credit by the price, as a "maybe" does.
//!
//! If the part of the index that leads to the key is not in memory either, one read loads both this
//! part and the part of the filter ([`super::joint`]). Then the price of the filter part is an
//! eighth of a read, because the read is needed anyway and only becomes longer. A "no" raises a
//! credit below one read to one read, and a larger credit by an eighth. At a credit of two reads,
//! the keys for which the part was read lately were all absent. So the part is then read without
//! the index, which the lookup will probably not need.
//!
//! The cache keeps the parts that were used lately. Once a part in memory has said "maybe" four
//! times in a row, its queries no longer count as uses until it says "no" again. So it is evicted
//! before other parts.
//!
//! The rule supposes that a part stays in memory once it is read. If the part of the index is in
//! memory, a filter part that the cache would not keep is passed by although its credit would pay
//! for it, because its read would only replace that of a data block.
//!
//! The rule of credit and price is that of the ski rental problem: rent until the rents would have
//! bought the skis. `docs/filters.md` proves what it costs at most. It applies only if metadata is
//! not pinned, and if the filters and indexes of all tables would fill most of the cache. In a
//! larger cache another rule applies ([`crate::table::worth`]): every filter that a lookup needs is
//! read, unless it is not worth its memory. Pinned filters are all read, and stay in memory.
//! `Builder::reads_every_filter` turns both rules off, for comparison.

use crate::cache::BlockCache;
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

/// The bytes of a whole filter that count as one read in its price: those of a usual part.
const ONE_READ_BYTES: u64 = 4 << 10;

/// A whole filter that would take more than 1 / `MAX_SHARE` of the cache is not loaded into it.
const MAX_SHARE: u64 = 8;

/// The price of a filter that is never read.
const NO_PRICE: u32 = u32::MAX;

/// The price of a filter part that is read together with the index.
const JOINT_PRICE: u32 = 1;

/// The credit of a part that has said "no" each time that it was read lately. Such a part is read
/// without the index.
const ONLY_ABSENT: u32 = 2 * READ;

/// The price of a whole filter of `bytes` stored bytes.
fn price_of_whole(bytes: u64, cache: &BlockCache) -> u32 {
    match bytes > cache.capacity() as u64 / MAX_SHARE {
        true => NO_PRICE,
        // The filter takes as much of the cache as this many parts, each of which costs one read.
        false => (bytes.div_ceil(ONE_READ_BYTES) as u32).saturating_mul(READ),
    }
}

/// Adjusts the credit of a part that was read at `price` and has answered. `most`: the price of a
/// read of this part alone.
fn settle(credit: &Credit, maybe: bool, price: u32, most: u32) {
    match maybe {
        _ if most > READ => credit.pay(price, most),
        true => credit.pay(price, READ),
        false if credit.is(READ) => credit.earn(1, ONLY_ABSENT),
        // The "no" has saved a read, and reading the filter has cost `price`. The filter earns the
        // difference.
        false => credit.earn(READ - price, READ),
    }
}

impl Table {
    /// Continues a lookup if the filter was not queried, because it is not in memory or not worth
    /// its memory. If the lookup passes the filter by, this is [`Table::get_after_filter`].
    /// Otherwise the lookup stops, so that the filter can be read without a guard. `part` is the
    /// part of the filter that can hold the key.
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
        let index_part = self.index_part_beside(part).map(|part| part as u32);
        let unfiltered = LookupKey { passed_filter_by: true, index_part, ..*key };
        let is_passed_by = self.filter_worth.is_worthless()
            || self.reads_what_pays() && self.is_passed_by(part, &unfiltered, guard);
        if !is_passed_by {
            return Err(Stop::absent(AbsentPart::Filter(part), key));
        }
        tickers.add(Ticker::BloomPassedBy, 1);
        observer.filter_passed_by();
        observer.call_get_after_filter(self, &unfiltered, guard, tickers)
    }

    /// Whether it is known, where filters are read only if that pays, that a lookup passes the filter
    /// by. Then it need not stop. `part` is the part of the filter that can hold the key.
    #[inline]
    fn is_passed_by(&self, part: usize, key: &LookupKey<'_>, guard: &Guard) -> bool {
        if self.filter_key_of(key).is_none() {
            return false;
        }
        let (credit, price) = self.filter_account(part);
        let least = if self.filter_top.is_some() { JOINT_PRICE } else { price };
        !credit.is(least)
            || self.index_is_resident(part, key, guard)
                && !(credit.is(price) && self.pays_alone(part, credit))
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
        // The file may state wrong numbers, or none.
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
    #[inline]
    fn reads_what_pays(&self) -> bool {
        !self.pins_metadata && !self.reads_every_filter && self.cache.metadata_fills_it()
    }

    /// Whether a lookup should read and query part `part` of the filter, which can hold the key or
    /// its prefix. If not, the lookup should pass the filter by, and is counted as one that did.
    /// `is_joint`: whether one read would load both this part and the part of the index. Hold no
    /// guard.
    pub(in crate::table) fn is_filter_part_worth_reading(
        &self,
        part: usize,
        key: &LookupKey<'_>,
        is_joint: bool,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        let passes_by = if self.filter_worth.is_worthless() {
            self.filter.get(part, &pin()).is_none()
        } else if self.reads_what_pays() {
            let (credit, price) = self.filter_account(part);
            let price = if is_joint { JOINT_PRICE } else { price };
            let guard = pin();
            let is_resident = self.filter.get(part, &guard).is_some();
            let pays = || {
                is_joint
                    || !self.index_is_resident(part, key, &guard)
                    || self.pays_alone(part, credit)
            };
            !(is_resident || credit.is(price) && pays())
        } else {
            false
        };
        if passes_by {
            tickers.add(Ticker::BloomPassedBy, 1);
        }
        !passes_by
    }

    /// Whether the part of the index that leads to the key is in memory. `filter_part` is
    /// the part of the filter with the key.
    #[inline]
    fn index_is_resident(&self, filter_part: usize, key: &LookupKey<'_>, guard: &Guard) -> bool {
        let part = match key.index_part {
            Some(part) => part as usize,
            None => self.index_part_at(filter_part, key).min(self.index_parts() - 1),
        };
        self.index.peek(part, guard).is_some()
    }

    /// Whether a read of part `part` of the filter pays if the index is in memory. If the
    /// cache does not keep the part, this read only replaces the read of a data block, so it pays
    /// only if the answer is "no" each time.
    #[inline]
    fn pays_alone(&self, part: usize, credit: &Credit) -> bool {
        credit.is(ONLY_ABSENT)
            || self.filter_part_handle(part).is_none_or(|handle| {
                self.cache.keeps_filter_part(self.number_of(handle), handle.bytes as usize)
            })
    }

    /// Whether part `part` of the filter has answered "no" each time that it was read lately.
    pub(super) fn says_only_no(&self, part: usize) -> bool {
        self.filter_credits[part].is(ONLY_ABSENT)
    }

    /// The credit and the price of part `part` of the filter.
    #[inline]
    fn filter_account(&self, part: usize) -> (&Credit, u32) {
        let price = match self.any_filter() {
            Some(StoredFilter::Full(handle, _)) => price_of_whole(handle.bytes, &self.cache),
            _ => READ,
        };
        (&self.filter_credits[part], price)
    }

    /// Adjusts the credit after part `part` of the filter was read for a lookup and has answered.
    pub(in crate::table) fn read_filter_answered(&self, part: usize, is_joint: bool, maybe: bool) {
        let (credit, most) = self.filter_account(part);
        let price = if is_joint { JOINT_PRICE } else { most };
        if !maybe {
            self.cache.filter_missed(false);
        }
        settle(credit, maybe, price, most);
    }

    /// Notes that a lookup has read from the table in vain, because the table does not hold the key.
    /// If the filter was not in memory, its credit grows by the read that it would have saved.
    /// `part`: the part of the filter that can hold the key.
    #[cold]
    pub fn searched_in_vain(&self, part: usize, key: &LookupKey<'_>) {
        if self.filter_key_of(key).is_some() && self.filter.peek(part, &pin()).is_none() {
            let (credit, price) = self.filter_account(part);
            credit.earn(READ, price);
            self.cache.filter_missed(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The cost of a part, in eighths of a read, counted as in `docs/filters.md`. A phase lasts from
    /// one eviction of the part to the next, and says of each lookup whether its key is present.
    /// `price`: [`READ`], or [`JOINT_PRICE`] if each read of the part is joined to one of the index.
    fn cost(price: u32, phases: &[Vec<bool>]) -> u32 {
        let credit = &Credit::of(1)[0];
        let mut cost = 0;
        for phase in phases {
            let mut is_resident = false;
            for &is_there in phase {
                if is_resident {
                    continue;
                }
                if credit.is(price) {
                    (cost, is_resident) = (cost + price, true);
                    settle(credit, is_there, price, READ);
                } else if !is_there {
                    cost += READ;
                    credit.earn(READ, READ);
                }
            }
        }
        cost
    }

    /// The most that the rule may cost, in eighths of a read.
    fn bound(price: u32, phases: &[Vec<bool>]) -> u32 {
        let with_absent = phases.iter().filter(|phase| phase.contains(&false)).count() as u32;
        // The last 1 is for the first reads, for which the initial credit pays.
        2 * price * with_absent + (2 * READ - price) * (turns(phases) + 1)
    }

    /// How often a phase in which the part is queried for absent keys is followed by a phase in
    /// which it is queried for present keys only.
    fn turns(phases: &[Vec<bool>]) -> u32 {
        let used = phases.iter().filter(|phase| !phase.is_empty());
        let spares: Vec<bool> = used.map(|phase| phase.contains(&false)).collect();
        spares.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u32
    }

    #[test]
    fn a_part_costs_at_most_twice_the_best_and_a_fixed_price_a_turn() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..20_000 {
            let mut present = [0.0, 0.1, 0.5, 0.9, 1.0][rng.random_range(0..5)];
            let phases: Vec<Vec<bool>> = (0..rng.random_range(1..60))
                .map(|_| {
                    if rng.random_bool(0.1) {
                        present = 1.0 - present;
                    }
                    (0..rng.random_range(0..6)).map(|_| rng.random_bool(present)).collect()
                })
                .collect();
            for price in [READ, JOINT_PRICE] {
                let (cost, bound) = (cost(price, &phases), bound(price, &phases));
                assert!(cost <= bound, "{cost} above {bound} at {price}: {phases:?}");
            }
        }
        for price in [READ, JOINT_PRICE] {
            // The worst case: each turn finds a credit of one read, and ends with none.
            let mut turn = vec![vec![true]; (READ / price) as usize];
            turn.push(vec![false; 2]);
            let worst = vec![turn; 10].concat();
            assert_eq!(cost(price, &worst), bound(price, &worst));
            assert_eq!(cost(price, &vec![vec![true; 3]; 100]), READ, "one read in all");
            assert_eq!(cost(price, &vec![vec![false; 3]; 100]), 100 * price, "the best decision");
        }
        // A "no" after a joint read restores the credit, so that the part is never passed by.
        let mixed = vec![[vec![true], vec![false]]; 100].concat();
        assert_eq!(cost(JOINT_PRICE, &mixed), 200 * JOINT_PRICE);
    }
}

//! Operations that use the order of a [`QuotientFilter`]: listing it from front to back, making a
//! larger filter of a list, and merging two lists.
//!
//! ```text
//! doubled    quotient 101, remainder 0110    the same bits,
//!            quotient 1010, remainder 110    cut one further
//!
//! merged     a: 1·a 2·b 5·d  ┐
//!            b: 1·c 2·e 2·f  ┘ 1·a 1·c 2·b 2·e 2·f 5·d
//! ```

use super::{CONTINUATION, MARKS, OCCUPIED, QuotientFilter, SHIFTED};

impl QuotientFilter {
    /// Quotients and remainders of the cluster that starts at `start`, in order.
    pub(super) fn cluster(&self, start: usize) -> impl Iterator<Item = (usize, u32)> {
        let (mut slot, mut quotient) = (start, start);
        core::iter::from_fn(move || {
            let entry = self.slots.get(slot);
            if slot != start {
                if entry & SHIFTED == 0 {
                    // An empty slot, or the next cluster.
                    return None;
                }
                if entry & CONTINUATION == 0 {
                    quotient = self.next(quotient);
                    while !self.has(quotient, OCCUPIED) {
                        quotient = self.next(quotient);
                    }
                }
            }
            slot = self.next(slot);
            Some((quotient, entry >> 3))
        })
    }

    /// All quotients and remainders, in order. If a cluster wraps around the end of the slots, its
    /// runs that belong to the first slots come first in the list.
    pub(super) fn fingerprints(&self) -> impl Iterator<Item = (usize, u32)> {
        let around = self.cluster_start(0);
        let first = self.cluster(around).filter(move |&(quotient, _)| quotient < around);
        let starts = (0..self.slots.len()).filter(|&slot| self.slots.get(slot) & MARKS == OCCUPIED);
        let others = starts
            .flat_map(|start| self.cluster(start).filter(move |&(quotient, _)| quotient >= start));
        first.chain(others)
    }

    /// A filter of fingerprints that come in order. Each goes to its own slot or, if that is taken,
    /// to the first free slot after it. `None` when there are too many fingerprints.
    pub(super) fn from_sorted(
        slots: usize,
        remainder_bits: u32,
        sorted: impl Iterator<Item = (usize, u32)>,
    ) -> Option<QuotientFilter> {
        let mut filter = QuotientFilter::new(slots, remainder_bits);
        let (mut free, mut last) = (0, None);
        for (quotient, remainder) in sorted {
            let slot = quotient.max(free);
            if slot >= filter.slots.len() {
                // The entry wraps around to the first slots, where other entries may already be.
                filter.insert_fingerprint(quotient, remainder).ok()?;
                continue;
            }
            let continues = if last == Some(quotient) { CONTINUATION } else { 0 };
            let shifted = if slot == quotient { 0 } else { SHIFTED };
            filter.slots.set(slot, remainder << 3 | continues | shifted);
            filter.slots.set(quotient, filter.slots.get(quotient) | OCCUPIED);
            filter.len += 1;
            (free, last) = (slot + 1, Some(quotient));
        }
        (filter.len <= filter.most()).then_some(filter)
    }

    /// The same fingerprints in twice as many slots. `None` when no remainder bit would be left.
    pub fn doubled(&self) -> Option<QuotientFilter> {
        let remainder_bits = self.remainder_bits - 1;
        if remainder_bits == 0 {
            return None;
        }
        let cut_further = |(quotient, remainder): (usize, u32)| {
            let quotient = quotient << 1 | (remainder >> remainder_bits) as usize;
            (quotient, remainder & ((1 << remainder_bits) - 1))
        };
        let sorted = self.fingerprints().map(cut_further);
        QuotientFilter::from_sorted(2 * self.slots.len(), remainder_bits, sorted)
    }

    /// A filter of the keys that are in this filter or in `other`, made in one pass over both. If
    /// the new filter would be too full, both filters are doubled first. `None` when their numbers
    /// of slots or of remainder bits differ, or when no bit of the remainders is left.
    pub fn merged(&self, other: &QuotientFilter) -> Option<QuotientFilter> {
        let shape = |filter: &QuotientFilter| (filter.slots.len(), filter.remainder_bits);
        if shape(self) != shape(other) {
            return None;
        }
        if self.len + other.len > self.most() {
            return self.doubled()?.merged(&other.doubled()?);
        }
        let (mut a, mut b) = (self.fingerprints().peekable(), other.fingerprints().peekable());
        let sorted = core::iter::from_fn(|| match (a.peek(), b.peek()) {
            (Some(first), Some(second)) if first > second => b.next(),
            (None, _) => b.next(),
            _ => a.next(),
        });
        QuotientFilter::from_sorted(self.slots.len(), self.remainder_bits, sorted)
    }
}

//! The size of a bumped ribbon filter and its rate: pure functions.
//!
//! With r columns the rate is 2^-r and the size r bits a *slot*. The bound is r bits a *key*. A
//! filter is larger than the bound by its free slots, thresholds and trailer, and by the waste
//! described below: with 7 bits a key by 3 % at 10 thousand keys, and by 1.8 % at a million
//! (`docs/filters.md`).
//!
//! A size between r - 1 and r bits a slot is also possible. Then a part of layer 0 stores r - 1
//! columns, where the rate is twice as high. If a share p of all queries ends in that part, the
//! rate is `2^-r (1 + p)`. Compared with the bound this wastes `log2(1 + p) - p` bits a key: at
//! most 0.086, at p = 0.44. A whole number of columns avoids this waste.

use alloc::vec::Vec;

use super::layout::{Layout, MAX_TAGS};
use super::shape::{MAX_COLUMNS, Shape};
use crate::bloom::sizing::bloom_fpr;
use crate::family::Target;
use crate::math::{ceil, log2, powi};

/// The fewest keys worth a ribbon. With fewer, whole blocks and the trailer cost more than the
/// ribbon saves.
const MIN_KEYS: usize = 256;

/// A layer of fewer keys gets as many slots as keys, see [`Plan::slots`].
const FEW_KEYS: usize = 700;

/// The parameters that determine the layers of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// w: 32. Only filters of fewer than 5,000 keys that earlier versions wrote, and tests, have
    /// 64.
    pub width: u32,
    /// Slots of a layer for each of its keys. A value below 1 overloads the layers on purpose, so
    /// that fewer slots stay free and more keys are bumped.
    slots_per_key: f64,
    /// The share of its keys that a layer bumps, that is, cannot store and passes on to the next
    /// layer, as measured with `slots_per_key` slots for each key.
    bumped: f64,
}

impl Plan {
    /// The plan for a filter of `keys` keys; `None` if they are too few, so that a Bloom filter is
    /// built instead.
    ///
    /// The value of `slots_per_key` is not critical: slightly different ones hardly change the
    /// distance from the bound and the build time. With w = 64, a filter of more than 3 thousand
    /// keys would be up to 0.8 % smaller, but building would take twice as long.
    pub fn for_keys(keys: usize) -> Option<Plan> {
        (keys >= MIN_KEYS).then_some(Plan { width: 32, slots_per_key: 0.94, bumped: 0.066 })
    }

    /// A plan for w = 64, with which tests build such filters.
    #[cfg(test)]
    pub fn wide() -> Plan {
        Plan { width: 64, slots_per_key: 1.0, bumped: 0.02 }
    }

    /// Slots of a layer for `keys` keys; `None` if the number does not fit into 32 bits.
    ///
    /// A layer of few keys is not overloaded. Then the few keys that it bumps are usually stored as
    /// tags, whereas another layer would take at least two blocks.
    pub fn slots(self, keys: usize) -> Option<u32> {
        let slots_per_key = if keys < FEW_KEYS { 1.0 } else { self.slots_per_key };
        let blocks = ceil(keys as f64 * slots_per_key / f64::from(self.width)) as u64;
        u32::try_from(blocks.max(2) * u64::from(self.width)).ok()
    }

    /// The most keys that are stored as tags. At the usual 7 columns, this many tags take less
    /// space than another layer would.
    pub fn max_tags(self) -> usize {
        const { assert!(64 * 3 / 4 <= MAX_TAGS) };
        self.width as usize * 3 / 4
    }

    /// The expected share of its keys that a layer for `keys` keys bumps.
    fn expected_bumped(self, keys: usize) -> f64 {
        if keys < FEW_KEYS { 0.02 } else { self.bumped }
    }

    /// The slots of each expected layer, from layer 0 on, and the expected number of tags. `None`
    /// if the slots of a layer do not fit into 32 bits.
    fn expected_layers(self, keys: usize) -> Option<(Vec<u32>, usize)> {
        let (mut slots, mut left) = (Vec::new(), keys);
        while slots.is_empty() || left > self.max_tags() {
            slots.push(self.slots(left)?);
            left = (left as f64 * self.expected_bumped(left)) as usize;
        }
        Some((slots, left))
    }
}

/// Chooses the number of columns and of low blocks (blocks of layer 0 with one column fewer) with
/// which a filter of these layers reaches its target. `None` if the filter would be larger than the
/// format allows. `kept_of` tells how many of the start positions in a block layer 0 keeps. If the
/// target is a rate, there may be more low blocks if these keep less.
pub(super) fn fit(
    shape: Shape,
    slots: &[u32],
    tags: usize,
    keys: usize,
    target: Target,
    kept_of: impl Fn(u32) -> f64,
) -> Option<Layout> {
    let with = |columns, low_blocks| Layout::new(shape, columns, low_blocks, tags, slots);
    let blocks = slots[0] / shape.width;
    let with_rate = |fpr: f64| {
        let columns = ceil(-log2(fpr)).clamp(1.0, f64::from(MAX_COLUMNS)) as u32;
        let starts = f64::from(slots[0] - shape.width);
        // If all low blocks together keep this many start positions, the rate is `fpr`.
        let mut spare = (fpr * powi(2.0, columns) - 1.0) * starts;
        let fits = |&block: &u32| {
            spare -= kept_of(block);
            spare >= 0.0
        };
        // The last block has no start positions, so it is low if all others are.
        let low_blocks = (0..blocks - 1).take_while(fits).count() as u32;
        with(columns, if low_blocks == blocks - 1 { blocks } else { low_blocks })
    };
    let with_bytes = |bytes: u64| {
        let columns = (1..MAX_COLUMNS).find(|&columns| with(columns, 0).total_bytes() >= bytes);
        let columns = columns.unwrap_or(MAX_COLUMNS);
        // If every block of layer 0 is low, that is, has one column less, the later layers still
        // have all their columns. So this filter is larger than one with a column less in every
        // layer. If the target is between these two sizes, the filter gets the smaller one.
        if columns > 1 && with(columns, blocks).total_bytes() > bytes {
            return with(columns - 1, 0);
        }
        let spare_bytes = with(columns, 0).total_bytes().saturating_sub(bytes);
        // A segment has the bits of one column of a block.
        let spare_segments = spare_bytes / u64::from(shape.width / 8);
        with(columns, spare_segments.min(u64::from(blocks)) as u32)
    };
    let layout = match target {
        Target::MillibitsPerKey(millibits) => with_bytes(keys as u64 * u64::from(millibits) / 8000),
        Target::LikeBloom(millibits) => with_rate(bloom_fpr(millibits)),
        Target::Fpr(fpr) => with_rate(fpr),
    };
    (layout.total_bytes() <= u64::from(u32::MAX)).then_some(layout)
}

/// The expected filter for `keys` keys: its stored bits per key, and its false-positive rate.
/// `None` if a Bloom filter is built instead.
pub(super) fn expected(keys: usize, target: Target) -> Option<(f64, f64)> {
    let plan = Plan::for_keys(keys)?;
    let (slots, tags) = plan.expected_layers(keys)?;
    let kept_share = 1.0 - plan.expected_bumped(keys);
    let kept_of = |_| f64::from(plan.width) * kept_share;
    let layout = fit(Shape::of_width(plan.width), &slots, tags, keys, target, kept_of)?;
    let low_part = f64::from(layout.low_blocks) / f64::from(slots[0] / plan.width);
    let rate = powi(0.5, layout.columns) * (1.0 + low_part * kept_share);
    Some((layout.total_bytes() as f64 * 8.0 / keys as f64, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_near_the_bound_and_meet_the_target() {
        for (keys, over_bound) in [(10_000, 1.025), (100_000, 1.015), (1_000_000, 1.0125)] {
            let (bits, fpr) = expected(keys, Target::Fpr(1.0 / 128.0)).unwrap();
            assert!((bits / 7.0) < over_bound, "{keys}: {bits}");
            assert_eq!(fpr, 1.0 / 128.0);
            for millibits in [2500, 7000, 7100, 12_345, 20_000] {
                let target = Target::MillibitsPerKey(millibits);
                let (bits, fpr) = expected(keys, target).unwrap();
                assert!(
                    (bits * 1000.0 / f64::from(millibits) - 1.0).abs() < 0.01,
                    "{keys} {millibits}: {bits}"
                );
                // A filter that is built for this rate, not for this size, has at most 2 % more
                // bits.
                let (bits_again, fpr_again) = expected(keys, Target::Fpr(fpr)).unwrap();
                assert!((0.999..1.02).contains(&(bits_again / bits)), "{bits_again} {bits}");
                assert!((0.95..=1.0001).contains(&(fpr_again / fpr)), "{fpr_again} {fpr}");
            }
        }
    }

    #[test]
    fn too_few_and_too_many_keys_are_turned_away() {
        let target = Target::MillibitsPerKey(7000);
        assert!(expected(MIN_KEYS - 1, target).is_none());
        assert!(expected(MIN_KEYS, target).is_some());
        assert!(expected(4_000_000_000, target).is_some());
        assert!(expected(5_000_000_000, target).is_none());
        assert!(Plan::for_keys(usize::MAX).unwrap().slots(usize::MAX).is_none());
    }
}

//! How the plain version builds a filter: steps 2 to 5 of the [module above](super).

use core::ops::Range;

use super::{Row, bucket_and_class, row};
use crate::burr::build::partition::window_buckets;
use crate::burr::layout::{MAX_LAYERS, tag, tag_bytes};
use crate::burr::row::next_hash;
use crate::burr::shape::{CLASSES, Shape};
use crate::burr::sizing::{Plan, fit};
use crate::family::Target;

/// The result of inserting a row.
pub enum Inserted {
    /// The row has this slot.
    At(usize),
    /// The row follows from the existing rows.
    Redundant,
    /// The row contradicts the existing rows.
    Contradiction,
}

/// Elimination: finds a slot for `row`.
pub fn insert(slots: &mut [Option<Row>], mut row: Row) -> Inserted {
    loop {
        let Some(there) = slots[row.start] else {
            slots[row.start] = Some(row);
            return Inserted::At(row.start);
        };
        row.coefficients ^= there.coefficients;
        row.fingerprint ^= there.fingerprint;
        if row.coefficients == 0 {
            return match row.fingerprint {
                0 => Inserted::Redundant,
                _ => Inserted::Contradiction,
            };
        }
        let distance = row.coefficients.trailing_zeros();
        row.coefficients >>= distance;
        row.start += distance as usize;
    }
}

/// One layer after elimination.
pub struct Banded {
    slots: Vec<Option<Row>>,
    /// The number of classes that each bucket kept.
    thresholds: Vec<usize>,
    /// The hashes of the keys that go to the next layer.
    bumped: Vec<u64>,
}

/// Runs the elimination for the keys of one layer, class after class. A class with a contradiction
/// is bumped, and so are the classes of its bucket after it.
pub fn band(hashes: &[u64], shape: Shape, slots: u32) -> Banded {
    let starts = slots - shape.width;
    let buckets = starts.div_ceil(shape.bucket()) as usize;
    let mut classes = vec![[const { Vec::new() }; CLASSES]; buckets];
    for &hash in hashes {
        let (bucket, class) = bucket_and_class(row(hash, shape.width, starts).start, shape);
        classes[bucket][class].push(hash);
    }
    let mut banded = Banded {
        slots: vec![None; slots as usize],
        thresholds: vec![CLASSES; buckets],
        bumped: Vec::new(),
    };
    for (bucket, class) in order(buckets) {
        if class >= banded.thresholds[bucket] {
            continue;
        }
        let mut placed = Vec::new();
        for &hash in &classes[bucket][class] {
            match insert(&mut banded.slots, row(hash, shape.width, starts)) {
                Inserted::At(slot) => placed.push(slot),
                Inserted::Redundant => {}
                Inserted::Contradiction => {
                    // The rows of this class were added last, so no row of another class was
                    // reduced by them.
                    placed.iter().for_each(|&slot| banded.slots[slot] = None);
                    banded.thresholds[bucket] = class;
                    banded.bumped.extend(classes[bucket][class..].iter().flatten());
                    break;
                }
            }
        }
    }
    banded
}

/// The order in which the classes are inserted, as pairs of a bucket and a class. Any order makes a
/// correct filter. This order gives the same bytes as the fast version, which fills both halves of
/// a window (a run of buckets) concurrently: see [`banding`](crate::burr::build::banding).
fn order(buckets: usize) -> Vec<(usize, usize)> {
    let all = 0..CLASSES;
    let mut order = Vec::new();
    for first in (0..buckets).step_by(window_buckets(buckets as u32) as usize) {
        let end = buckets.min(first + window_buckets(buckets as u32) as usize);
        let mut take = |bucket: usize, classes: Range<usize>| {
            order.extend(classes.map(|class| (bucket, class)));
        };
        if end - first < 4 {
            (first..end).for_each(|bucket| take(bucket, all.clone()));
            continue;
        }
        let seam = first + (end - first) / 2;
        (first..seam - 1).for_each(|bucket| take(bucket, all.clone()));
        take(seam, 0..1);
        (seam + 1..end).for_each(|bucket| take(bucket, all.clone()));
        take(seam - 1, all.clone());
        take(seam, 1..CLASSES);
    }
    order
}

/// Back substitution: the content of each slot, bit j for column j.
pub fn solve(slots: &[Option<Row>]) -> Vec<u32> {
    let mut solution = vec![0; slots.len()];
    for (slot, row) in slots.iter().enumerate().rev() {
        if let Some(row) = row {
            let others = (1..64).filter(|i| row.coefficients >> i & 1 == 1);
            solution[slot] = others.fold(row.fingerprint, |sum, i| sum ^ solution[slot + i]);
        }
    }
    solution
}

/// The whole filter. `None` where the fast version makes none.
pub fn build(plan: Plan, keys: &[u64], target: Target) -> Option<Vec<u8>> {
    let shape = Shape::of_width(plan.width);
    let mut layers = vec![band(keys, shape, plan.slots(keys.len())?)];
    let mut left = bumped_to_next(&layers);
    while left.len() > plan.max_tags() {
        if layers.len() == MAX_LAYERS {
            return None;
        }
        layers.push(band(&left, shape, plan.slots(left.len())?));
        left = bumped_to_next(&layers);
    }
    let slots: Vec<u32> = layers.iter().map(|layer| layer.slots.len() as u32).collect();
    let threshold_of = |block: u32| layers[0].thresholds[block as usize / 2] as u8;
    let kept_of = |block| shape.kept_in_block(block, threshold_of(block)).into();
    let layout = fit(shape, &slots, left.len(), keys.len(), target, kept_of)?;

    let mut filter = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        for (block, slots) in solve(&layer.slots).chunks(shape.width as usize).enumerate() {
            let is_low = i == 0 && block < layout.low_blocks as usize;
            for column in 0..layout.columns - u32::from(is_low) {
                let bits: Vec<u8> = slots.iter().map(|slot| (slot >> column & 1) as u8).collect();
                filter.extend(bits.chunks(8).map(|bits| packed(bits, 1)));
            }
        }
    }
    for layer in &layers {
        let thresholds: Vec<u8> = layer.thresholds.iter().map(|&t| t as u8).collect();
        filter.extend(thresholds.chunks(4).map(|thresholds| packed(thresholds, 2)));
    }
    let mut tags: Vec<u32> = left.iter().map(|&hash| tag(hash, layout.columns)).collect();
    tags.sort_unstable();
    for tag in tags {
        filter.extend(&tag.to_le_bytes()[..tag_bytes(layout.columns)]);
    }
    filter.resize(layout.total_bytes() as usize, 0);
    layout.encode(&mut filter);
    Some(filter)
}

/// The hashes, in the next layer, of the keys that the last layer bumped.
fn bumped_to_next(layers: &[Banded]) -> Vec<u64> {
    layers.last().map_or(Vec::new(), |layer| layer.bumped.iter().copied().map(next_hash).collect())
}

/// Values of `bits` bits each in one byte, the first in the low bits.
fn packed(values: &[u8], bits: u32) -> u8 {
    values.iter().rev().fold(0, |byte, value| byte << bits | value)
}

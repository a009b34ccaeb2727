//! The bumped ribbon as a textbook has it: one key after the other, one slot after the other, plain
//! vectors. Read this before the fast version, which makes the same bytes. Only tests run it.
//!
//! **1. A key is an equation.** Its hash gives a start, w coefficients (the first is 1) and a
//! fingerprint. The equation says: the XOR of the slots under the ones is the fingerprint. Here are
//! a dozen keys, sorted by start, with w = 4, fingerprints of 3 bits, and 12 slots. There are two
//! buckets of four start positions, and in this drawing only two classes, of two positions each.
//!
//! ```text
//!               slot  0 1 2 3 4 5 6 7 8 9 . .
//! bucket              |  0  | |  1  |           start positions: 0 to 7
//! class               1 1 0 0 1 1 0 0           class 0 is the right end
//!
//! key a = 6           1 1 . .                   slot 0 ^ slot 1                   = 6
//!     b = 1           1 1 . 1                   slot 0 ^ slot 1 ^ slot 3          = 1
//!     c = 6             1 . . .                 slot 1                            = 6
//!     d = 5             1 . 1 1                 ...
//!     e = 1               1 1 1 .
//!     f = 6                 1 . 1 .
//!     g = 5                   1 . . .
//!     h = 2                   1 1 . 1
//!     i = 0                       1 . 1 .
//!     j = 1                       1 1 1 1
//!     k = 3                         1 1 . .
//!     l = 0                         1 1 . 1
//! ```
//!
//! **2. Elimination** ([`insert`]) gives each key a slot of its own. A row goes to its first slot. If
//! that is free, it stays. If not, the row there is added to it. That clears its first coefficient,
//! and it goes on to its next one. Key b finds slot 0 taken by a. The sum of both starts at slot 3,
//! which f has. The sum of all three starts at slot 5, and stays.
//!
//! **3. Bumping** ([`band`]). A row may be left without coefficients. If its fingerprint became 0
//! too, the equation follows from the others and needs no slot. If not, it contradicts them: here g,
//! at slot 5. Then its whole class is taken out again and goes to the next layer, with the classes
//! after it: g and h. The bucket's threshold remembers how many classes stayed: 2 in bucket 0, and 1
//! in bucket 1.
//!
//! ```text
//! after elimination                                             solved, from below
//! slot 0    1 1 . .                      = 6    key a           0
//!      1      1 . . .                    = 6        c           6
//!      2        1 1 1 .                  = 1        e           2 = 1 ^ slot 3 ^ slot 4
//!      3          1 . 1 .                = 6        f           7
//!      4            1 1 . .              = 5        d, reduced  4
//!      5              1 . . .            = 1        b, reduced  1
//!      6                1 . 1 .          = 0        i           2
//!      7                  1 . 1 .        = 1        j, reduced  1
//!      8                    1 1 . .      = 2        k, reduced  2
//!      9                                            free        0
//!     10                        1 . . .  = 3        l, reduced  3
//!     11                                            free        0
//! ```
//!
//! **4. Back substitution** ([`solve`]). Each row now has a slot of its own and otherwise only slots
//! to the right of it. So the last slot is solved first. A free slot is 0.
//!
//! **5. Storing** ([`build`]). Bit j of all slots is column j. The columns of w slots are stored
//! together, so that a query finds all it needs side by side.
//!
//! **6. Asking** ([`may_contain`]). The threshold says in which layer the key is. There the XOR of
//! its slots must be its fingerprint. An absent key's XOR is any number: it passes with probability
//! 2^-r at r columns.

use std::ops::Range;

use super::layout::{Layout, MAX_LAYERS, tag, tag_bytes};
use super::partition::window_buckets;
use super::row::next_hash;
use super::shape::{CLASSES, Shape};
use super::sizing::{Plan, fit};
use crate::filter::spec::Target;

/// One equation. Bit i of the coefficients belongs to slot `start + i`; bit 0 is set.
#[derive(Clone, Copy)]
pub struct Row {
    start: usize,
    coefficients: u64,
    fingerprint: u32,
}

/// The equation of a key in a layer of `starts` start positions.
fn row(hash: u64, width: u32, starts: u32) -> Row {
    let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
    let low = product as u64;
    Row {
        start: ((u128::from(hash) * u128::from(starts)) >> 64) as usize,
        coefficients: if width == 32 { low >> 32 } else { low } | 1,
        fingerprint: (product >> 64) as u32,
    }
}

/// The bucket of a start position, and its class there.
fn bucket_and_class(start: usize, shape: Shape) -> (usize, usize) {
    let positions = shape.bucket() as usize;
    let from_right = positions - 1 - start % positions;
    let class = match from_right as u32 {
        v if v < shape.lo => 0,
        v if v < shape.up => 1,
        _ => 2,
    };
    (start / positions, class)
}

/// What became of a row.
pub enum Inserted {
    /// It has this slot.
    At(usize),
    /// It follows from the rows that are there.
    Redundant,
    /// It contradicts them.
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
    /// How many classes each bucket kept.
    thresholds: Vec<usize>,
    /// The hashes of the keys that go to the next layer.
    bumped: Vec<u64>,
}

/// Bands the keys of one layer: class after class, and a class that contradicts is bumped.
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
                    // No row came after these, so none was reduced by them.
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

/// The order in which classes are banded. Any order makes a right filter. This one makes the bytes of
/// the fast version, which fills both halves of a window side by side: see
/// [`banding`](super::banding).
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

/// Back substitution: what each slot holds, bit j for column j.
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

/// The whole filter. `None` where the fast version makes none either.
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
    let layout = fit(shape, &slots, left.len(), keys.len(), target)?;

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

/// The keys that the last layer bumped, by the hashes they have in the next one.
fn bumped_to_next(layers: &[Banded]) -> Vec<u64> {
    layers.last().map_or(Vec::new(), |layer| layer.bumped.iter().copied().map(next_hash).collect())
}

/// Values of `bits` bits each in one byte, the first in the low bits.
fn packed(values: &[u8], bits: u32) -> u8 {
    values.iter().rev().fold(0, |byte, value| byte << bits | value)
}

/// `false` when the key was certainly not added. `filter` must be well-formed.
pub fn may_contain(filter: &[u8], mut hash: u64) -> bool {
    let layout = Layout::decode(filter).expect("a well-formed filter");
    let (shape, width) = (layout.shape, layout.shape.width);
    let (segments_at, thresholds_at) = layout.parts();
    for (i, slots) in layout.slots().iter().enumerate() {
        let row = row(hash, width, slots - width);
        let (bucket, class) = bucket_and_class(row.start, shape);
        let threshold = filter[thresholds_at[i] + bucket / 4] >> (2 * (bucket % 4)) & 3;
        if class >= usize::from(threshold) {
            hash = next_hash(hash);
            continue;
        }
        let low_blocks = if i == 0 { layout.low_blocks as usize } else { 0 };
        let bit = |slot: usize, column: usize| {
            let (block, slot) = (slot / width as usize, slot % width as usize);
            let segment = block * layout.columns as usize - block.min(low_blocks) + column;
            let byte = filter[segments_at[i] + segment * width as usize / 8 + slot / 8];
            u32::from(byte >> (slot % 8) & 1)
        };
        let is_low = row.start / (width as usize) < low_blocks;
        return (0..layout.columns as usize - usize::from(is_low)).all(|column| {
            let picked = (0..width as usize).filter(|i| row.coefficients >> i & 1 == 1);
            let sum = picked.fold(0, |sum, i| sum ^ bit(row.start + i, column));
            sum == row.fingerprint >> column & 1
        });
    }
    let bytes = tag_bytes(layout.columns);
    let tag = tag(hash, layout.columns).to_le_bytes();
    let tags = &filter[layout.tags_at() as usize..][..layout.tags * bytes];
    tags.chunks(bytes).any(|stored| stored == &tag[..bytes])
}

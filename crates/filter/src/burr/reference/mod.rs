//! The bumped ribbon in textbook form: one key after the other, one slot after the other, plain
//! vectors. Read this before the fast version, which makes the same bytes and gives the same
//! answers. This file has the query, and [`build`](mod@build) has the construction. Tests compare
//! the fast version with both. Traces are made with the query.
//!
//! **1. A key is an equation.** Its hash gives a start, w coefficients (the first is 1) and a
//! fingerprint. The XOR of the slots whose coefficients are 1 must be the fingerprint. Here are a
//! dozen keys, sorted by start, with w = 4, fingerprints of 3 bits, and 12 slots. There are two
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
//! **2. Elimination** ([`build::insert`]) gives each key a slot of its own. A row goes to its first
//! slot. If the slot is free, the row stays. If not, the row in the slot is added to the new row,
//! which clears the first coefficient, and the sum moves on to the slot of its next coefficient.
//! Key b finds slot 0 taken by a. The sum of both starts at slot 3, which f has. The sum of all
//! three starts at slot 5, and stays there.
//!
//! **3. Bumping** ([`build::band`]). A row may be left without coefficients. If its fingerprint
//! also became 0, the equation follows from the others and needs no slot. If not, it contradicts
//! them, as g does at slot 5. Then all rows of the key's class are removed again. The keys of this
//! class, here g and h, go to the next layer, and so do those of the bucket's classes after it. The
//! bucket's threshold records how many classes stayed: 2 in bucket 0, and 1 in bucket 1.
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
//! **4. Back substitution** ([`build::solve`]). Each row now has a slot of its own, and its other
//! coefficients belong to slots to the right of it. So the last slot is solved first. A free slot
//! is 0.
//!
//! **5. Storing** ([`build::build`]). Bit j of all slots is column j. The columns of w slots are
//! stored together, so that all bits that a query needs are contiguous.
//!
//! **6. Queries** ([`trace`]). The thresholds tell which layer keeps the key. In that layer the XOR
//! of the key's slots must be the key's fingerprint. An absent key's XOR is an arbitrary number, so
//! the key passes with probability 2^-r at r columns.

#[cfg(any(test, doc))]
pub(super) mod build;

use alloc::vec::Vec;
use core::ops::Range;

use super::layout::{Layout, tag, tag_bytes};
use super::row::next_hash;
use super::shape::Shape;
use crate::inspect::trace::{BumpedLayer, ProbedBit, QueryTrace};

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

/// Queries a filter for a key, layer after layer, until a layer has kept the key. Of keys that no
/// layer kept, the filter stores *tags*, bits of their hashes, so if no layer has kept this key,
/// its tag is compared with them. The error is the reason why the bytes are not a filter.
pub fn trace(filter: &[u8], mut hash: u64) -> Result<QueryTrace, &'static str> {
    let layout = Layout::decode(filter)?;
    let (shape, width) = (layout.shape, layout.shape.width);
    let (_, thresholds_at) = layout.parts();
    let mut bumped = Vec::new();
    for (i, &slots) in layout.slots().iter().enumerate() {
        let row = row(hash, width, slots - width);
        let (bucket, class) = bucket_and_class(row.start, shape);
        let threshold =
            usize::from(filter[thresholds_at[i] + bucket / 4] >> (2 * (bucket % 4)) & 3);
        if class < threshold {
            let (bytes, columns) = columns(filter, &layout, i, row);
            let (start, coefficients) = (row.start as u32, row.coefficients.into());
            return Ok(QueryTrace::Slots { bumped, start, slots, coefficients, bytes, columns });
        }
        bumped.push(BumpedLayer {
            start: row.start as u32,
            bucket: bucket as u32,
            class: class as u32,
            threshold: threshold as u32,
        });
        hash = next_hash(hash);
    }
    let bytes = tag_bytes(layout.columns);
    let tag = tag(hash, layout.columns);
    let stored = &filter[layout.tags_at() as usize..][..layout.tags * bytes];
    let found = stored.chunks(bytes).any(|stored| stored == &tag.to_le_bytes()[..bytes]);
    Ok(QueryTrace::Tags { bumped, tag, tags: layout.tags as u32, found })
}

/// Returns the range of bytes that holds the segments of a row. Also returns, for each column of
/// the block in which the row starts, the XOR of the row's slots and the bit that this XOR should
/// be.
fn columns(
    filter: &[u8],
    layout: &Layout,
    layer: usize,
    row: Row,
) -> (Range<usize>, Vec<ProbedBit>) {
    let width = layout.shape.width as usize;
    let low_blocks = if layer == 0 { layout.low_blocks as usize } else { 0 };
    let segments_at = layout.parts().0[layer];
    let segment_at = |block: usize, column: usize| {
        let segment = block * layout.columns as usize - block.min(low_blocks) + column;
        segments_at + segment * width / 8
    };
    let bit = |slot: usize, column: usize| {
        let byte = filter[segment_at(slot / width, column) + slot % width / 8];
        byte >> (slot % 8) & 1
    };
    let column = |number: usize| {
        let picked = (0..width).filter(|i| row.coefficients >> i & 1 == 1);
        let sum = picked.fold(0, |sum, i| sum ^ bit(row.start + i, number));
        let wanted = row.fingerprint >> number & 1 == 1;
        ProbedBit { number: number as u32, found: sum == 1, wanted }
    };
    let first = row.start / width;
    let in_block = layout.columns as usize - usize::from(first < low_blocks);
    // A row that starts at the first slot of a block lies in this block alone. Any other row also
    // reaches into the next block.
    let blocks = if row.start.is_multiple_of(width) { 1 } else { 2 };
    let bytes = segment_at(first, 0)..segment_at(first, in_block * blocks);
    (bytes, (0..in_block).map(column).collect())
}

/// Whether the key may have been added; `false` is certain. `filter` must be well-formed.
#[cfg(any(test, doc))]
pub fn may_contain(filter: &[u8], hash: u64) -> bool {
    trace(filter, hash).expect("a well-formed filter").is_maybe()
}

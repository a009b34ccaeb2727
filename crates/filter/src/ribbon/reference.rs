//! A query as its definition says: slot by slot, column by column. Tests compare the fast versions
//! with this one, and traces are made with it.
//!
//! ```text
//! slots         0 1 2 3 4 5 …          a slot has one bit in each column
//! picked            1 . 1 1            by the key's coefficients, from its start on
//! found             s2 ^ s4 ^ s5       wanted: the fingerprint's bit of the column
//! ```

use alloc::vec::Vec;

use super::layout::{BLOCK_SLOTS, Layout, SEGMENT_BYTES};
use super::row::{Equation, raw_seed, rehash};
use crate::family::KeyHash;
use crate::inspect::trace::{ProbedBit, QueryTrace};

/// Queries a filter for a key, or returns why the bytes are not a filter.
pub fn trace(filter: &[u8], hash: KeyHash) -> Result<QueryTrace, &'static str> {
    let (layout, seed) = Layout::parse(filter)?;
    let equation = Equation::new(rehash(hash, raw_seed(seed)), layout.starts());
    let Equation { start, coefficients, .. } = equation;
    let first = start / BLOCK_SLOTS;
    // If a row starts in the first slot of a block, all its slots are in that block. All other rows
    // continue in the next block.
    let blocks = if start % BLOCK_SLOTS == 0 { 1 } else { 2 };
    let segment = layout.first_segment(first) * SEGMENT_BYTES;
    let bytes = layout.columns_of(first) as usize * blocks * SEGMENT_BYTES;
    Ok(QueryTrace::Slots {
        bumped: Vec::new(),
        start,
        slots: layout.slots(),
        coefficients,
        bytes: segment..segment + bytes,
        columns: columns(&layout, filter, &equation),
    })
}

/// The sum of the picked slots in each column of the key's block, and the sum that is wanted.
pub(super) fn columns(layout: &Layout, segments: &[u8], equation: &Equation) -> Vec<ProbedBit> {
    let bit_of = |slot: u32, column: u32| {
        let segment = layout.first_segment(slot / BLOCK_SLOTS) + column as usize;
        let byte = segment * SEGMENT_BYTES + (slot % BLOCK_SLOTS / 8) as usize;
        segments[byte] >> (slot % 8) & 1
    };
    let column = |number| {
        let picked = (0..BLOCK_SLOTS).filter(|&i| equation.coefficients >> i & 1 == 1);
        let sum = picked.fold(0, |sum, i| sum ^ bit_of(equation.start + i, number));
        let wanted = equation.fingerprint >> number & 1 == 1;
        ProbedBit { number, found: sum == 1, wanted }
    };
    (0..layout.columns_of(equation.start / BLOCK_SLOTS)).map(column).collect()
}

//! Back substitution: from the banded rows to the bits of the filter.
//!
//! The last slot is solved first. A row's lowest coefficient belongs to its own slot, all others to
//! slots above it, which are known by then:
//!
//! ```text
//! bit of slot i  =  fingerprint of row i  ^  XOR of the known bits that row i picks
//!
//! known bits of column j, before slot i    bits of slots i+1 … i+128
//!                         after            bits of slots i   … i+127  shifted by one, new bit in bit 0
//! ```
//!
//! The solver keeps no other state than these 128 bits a column. When the first slot of a block is
//! solved, they are the column's segment of the block. An empty row leaves its slot 0: any value
//! would be correct, and RocksDB uses 0.
//!
//! This version serves every processor. The tests compare the vector versions with it.

use crate::ribbon::layout::{BLOCK_SLOTS, Layout, MAX_COLUMNS, SEGMENT_BYTES};
use crate::ribbon::row::Row;

/// Solves for all columns. `rows` has one row a slot; `segments` has `layout.segments()` segments.
#[inline(always)]
pub fn solve(rows: &[Row], layout: &Layout, segments: &mut [u8]) {
    let mut known = [0u128; MAX_COLUMNS as usize];
    for (block, rows) in rows.chunks(BLOCK_SLOTS as usize).enumerate().rev() {
        // The low blocks, which lack the highest column, are the first blocks. So they are solved
        // last, and from there on the highest column is not needed.
        let columns = layout.columns_of(block as u32) as usize;
        for row in rows.iter().rev() {
            let coefficients = row.coefficients();
            for (column, bits) in known[..columns].iter_mut().enumerate() {
                let shifted = *bits << 1;
                let bit = parity(shifted & coefficients) ^ (row.fingerprint >> column & 1);
                *bits = shifted | u128::from(bit);
            }
        }
        let first = layout.first_segment(block as u32) * SEGMENT_BYTES;
        let bytes = &mut segments[first..first + columns * SEGMENT_BYTES];
        for (segment, bits) in bytes.chunks_exact_mut(SEGMENT_BYTES).zip(&known) {
            segment.copy_from_slice(&bits.to_le_bytes());
        }
    }
}

/// 1 when an odd number of bits is set.
#[inline(always)]
pub fn parity(bits: u128) -> u32 {
    ((bits >> 64) as u64 ^ bits as u64).count_ones() & 1
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::cpu::{Isa, dispatch};
    use crate::ribbon::kernel::Kernels;

    /// Rows as banding leaves them: lowest coefficient 1, nothing beyond the last slot, some empty.
    fn random_rows(rng: &mut StdRng, slots: u32) -> Vec<Row> {
        let row = |slot: u32| {
            if rng.random_bool(0.1) {
                return Row::EMPTY;
            }
            let reach = (slots - slot).min(BLOCK_SLOTS);
            let coefficients =
                (rng.random::<u128>() | 1) << (BLOCK_SLOTS - reach) >> (BLOCK_SLOTS - reach);
            Row {
                coefficients_low: coefficients as u64,
                coefficients_high: (coefficients >> 64) as u64,
                fingerprint: rng.random(),
            }
        };
        (0..slots).map(row).collect()
    }

    #[test]
    fn the_solution_solves_and_every_version_finds_it() {
        let mut rng = StdRng::seed_from_u64(1);
        for segments in 1..=32 * 3 {
            let layout = Layout::new(3, segments).unwrap();
            let rows = random_rows(&mut rng, layout.slots());
            let mut solution = vec![0; layout.segments() * SEGMENT_BYTES];
            solve(&rows, &layout, &mut solution);
            for isa in Isa::available() {
                let mut found = vec![0xaa; solution.len()];
                dispatch!(isa, kernels => kernels.solve(&rows, &layout, &mut found));
                assert_eq!(solution, found, "{isa:?} {layout:?}");
            }

            let bit_of = |slot: u32, column: u32| {
                let segment = layout.first_segment(slot / BLOCK_SLOTS) + column as usize;
                u32::from(
                    solution[segment * SEGMENT_BYTES + (slot % 128 / 8) as usize] >> (slot % 8) & 1,
                )
            };
            for (slot, row) in (0..).zip(&rows) {
                for column in 0..layout.columns_of(slot / BLOCK_SLOTS) {
                    let picked = (0..128).filter(|&i| row.coefficients() >> i & 1 == 1);
                    let sum = picked.fold(0, |sum, i| sum ^ bit_of(slot + i, column));
                    // An empty row has no equation; its slot is 0.
                    let expected = row.fingerprint >> column & 1;
                    assert_eq!(sum, expected, "{layout:?}, slot {slot}, column {column}");
                    assert!(*row != Row::EMPTY || bit_of(slot, column) == 0);
                }
            }
        }
    }
}

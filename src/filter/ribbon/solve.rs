//! Back substitution: from the banded rows to the bits of the filter.
//!
//! The last slot is solved first. A row's lowest coefficient is its own slot, all others belong to
//! slots above it, which are known by then:
//!
//! ```text
//! bit of slot i  =  result of row i  ^  XOR of the known bits that row i picks
//!
//! window of column j before slot i    bits of slots i+1 … i+128
//!                    after            bits of slots i   … i+127       shifted by one, new bit in bit 0
//! ```
//!
//! One 128-bit window a column is all the state. At the bottom of a block the window *is* the
//! block's segment. An empty row leaves its slot 0: any value would do, and RocksDB's is 0.
//!
//! The plain version here is the oracle of the vector version.

use super::banding::Row;
use super::grid::{BLOCK_SLOTS, Grid, MAX_COLUMNS, SEGMENT_BYTES};

/// Solves for all columns. `rows` has one row a slot; `segments` has `grid.segments()` segments.
pub fn solve(rows: &[Row], grid: &Grid, segments: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = super::x86::Avx512::detect() {
        return avx512.solve(rows, grid, segments);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = super::x86::Avx2::detect() {
        return avx2.solve(rows, grid, segments);
    }
    solve_plain(rows, grid, segments);
}

/// The plain version.
#[inline(always)]
pub fn solve_plain(rows: &[Row], grid: &Grid, segments: &mut [u8]) {
    let mut windows = [0u128; MAX_COLUMNS as usize];
    for (block, rows) in rows.chunks(BLOCK_SLOTS as usize).enumerate().rev() {
        // Narrow blocks come last here: the column they lack is not needed again.
        let columns = grid.columns_of(block as u32) as usize;
        for row in rows.iter().rev() {
            let coefficients = row.coefficients();
            for (column, window) in windows[..columns].iter_mut().enumerate() {
                let shifted = *window << 1;
                let bit = parity(shifted & coefficients) ^ (row.result >> column & 1);
                *window = shifted | u128::from(bit);
            }
        }
        let first = grid.first_segment(block as u32) * SEGMENT_BYTES;
        let bytes = &mut segments[first..first + columns * SEGMENT_BYTES];
        for (segment, window) in bytes.chunks_exact_mut(SEGMENT_BYTES).zip(&windows) {
            segment.copy_from_slice(&window.to_le_bytes());
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
                result: rng.random(),
            }
        };
        (0..slots).map(row).collect()
    }

    #[test]
    fn the_solution_solves_and_every_version_finds_it() {
        let mut rng = StdRng::seed_from_u64(1);
        for segments in 1..=32 * 3 {
            let grid = Grid::new(3, segments).unwrap();
            let rows = random_rows(&mut rng, grid.slots());
            let mut plain = vec![0; grid.segments() * SEGMENT_BYTES];
            solve_plain(&rows, &grid, &mut plain);
            let mut found = vec![0xaa; plain.len()];
            solve(&rows, &grid, &mut found);
            assert_eq!(plain, found, "{grid:?}");
            #[cfg(target_arch = "x86_64")]
            if let Some(avx2) = crate::filter::ribbon::x86::Avx2::detect() {
                found.fill(0xaa);
                avx2.solve(&rows, &grid, &mut found);
                assert_eq!(plain, found, "{grid:?}");
            }

            let bit_of = |slot: u32, column: u32| {
                let segment = grid.first_segment(slot / BLOCK_SLOTS) + column as usize;
                u32::from(
                    plain[segment * SEGMENT_BYTES + (slot % 128 / 8) as usize] >> (slot % 8) & 1,
                )
            };
            for (slot, row) in (0..).zip(&rows) {
                for column in 0..grid.columns_of(slot / BLOCK_SLOTS) {
                    let picked = (0..128).filter(|&i| row.coefficients() >> i & 1 == 1);
                    let sum = picked.fold(0, |sum, i| sum ^ bit_of(slot + i, column));
                    // An empty row has no equation; its slot is 0.
                    let expected = row.result >> column & 1;
                    assert_eq!(sum, expected, "{grid:?}, slot {slot}, column {column}");
                    assert!(*row != Row::EMPTY || bit_of(slot, column) == 0);
                }
            }
        }
    }
}

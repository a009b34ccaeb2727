//! Back substitution into interleaved storage: step 3 of building. This version serves every
//! processor; the tests compare the vector versions in `x86` with it.
//!
//! A row spans w slots, and a block has w slots. The band is triangular, so the slots are solved
//! from the last to the first: a row determines its own slot from the w - 1 slots after it. Each
//! column is solved independently. Its *known* bits are those of the w slots that were solved last,
//! the newest in bit 0. Once the first slot of a block is solved, the known bits are the column's
//! segment of the block, which is what the filter stores.
//!
//! ```text
//! slot s:  known  = bits of slots s+1, s+2, ..     behind = known << 1
//!          bit of slot s = parity(behind & coefficients of s) ^ fingerprint bit of the column
//!          known  = behind | bit                   a free slot's row is zero, and so is its bit
//! ```

use alloc::vec;

use crate::burr::layout::block_segments;
use crate::burr::row::{Row, Word};

/// Solves `rows` and writes the segments of a layer to `segments`. The first `low_blocks` blocks
/// get one column fewer than `columns`.
pub fn solve<R: Row>(rows: &[R], columns: u32, low_blocks: u32, segments: &mut [u8]) {
    let width = R::Word::BITS as usize;
    let mut known = vec![R::Word::default(); columns as usize];
    for (block, rows) in rows.chunks_exact(width).enumerate().rev() {
        for (slot, row) in rows.iter().enumerate().rev() {
            let coefficients = row.coefficients(slot as u32);
            for (column, bits) in known.iter_mut().enumerate() {
                let parity = bits.push(0).and(coefficients).parity();
                *bits = bits.push(parity ^ (row.fingerprint() >> column & 1));
            }
        }
        let (at, stored) = block_segments::<R::Word>(block as u32, columns, low_blocks);
        let fields = segments[at..].chunks_exact_mut(R::Word::BYTES);
        for (field, bits) in fields.zip(&known).take(stored as usize) {
            bits.write(field);
        }
    }
}

//! The parts of a stored filter, for programs that draw it.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::{BLOCK_SLOTS, Layout};
use super::row::{Equation, raw_seed, rehash};
use crate::inspect::parts::{BandLayer, BandParts, Rows};

/// The parts of the filter in `block`; `None` if it is not a filter. A Ribbon filter has one layer,
/// which keeps all keys.
pub(super) fn parts(block: &[u8]) -> Option<BandParts> {
    let (layout, seed) = Layout::parse(block).ok()?;
    let blocks = layout.slots() / BLOCK_SLOTS;
    let low_blocks = blocks * layout.columns() - layout.segments() as u32;
    let layer = BandLayer {
        slots: layout.slots(),
        starts: layout.starts(),
        low_blocks,
        thresholds: Vec::new(),
    };
    Some(BandParts {
        width: BLOCK_SLOTS,
        columns: layout.columns(),
        layers: vec![layer],
        tags: 0,
        bucket_starts: 0,
        kept_starts: [0; 4],
        rows: Rows { parameter: raw_seed(seed), row: row_of, next: |hash| hash },
    })
}

/// Start, coefficients and all 32 fingerprint bits of a hash.
fn row_of(hash: u64, raw_seed: u32, starts: u32) -> (u32, u128, u32) {
    let Equation { start, coefficients, fingerprint } =
        Equation::new(rehash(hash, raw_seed), starts);
    (start, coefficients, fingerprint)
}

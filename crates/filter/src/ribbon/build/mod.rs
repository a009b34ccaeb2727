//! Building a Ribbon: one seed after the other is tried until the equations of all keys have a
//! common solution.
//!
//! ```text
//! hashes, seed ─► banding   1. eliminated, or a contradiction: the next seed
//!              ─► solve     2. the band becomes segments
//! ```

mod banding;
pub(super) mod solve;

use super::kernel::Kernels;
use super::{layout, row, sizing};
use crate::cpu::{Isa, dispatch};
use crate::family::Target;
use crate::hashes::HashList;
use crate::memory::LineBuf;

/// A filter of `hashes`. `None` when a Bloom filter should be built instead: the Bloom filter has a
/// lower rate at the same size or is smaller at the same rate, there are more keys than the format
/// holds, or all seeds failed.
///
/// The order of the hashes matters only by the first hash, which picks the first seed. With
/// RocksDB's own target, [`Target::LikeBloom`], the first hash also biases the rounding of the
/// size, and the same hashes in the same order give RocksDB's bytes.
pub fn build(hashes: &HashList, target: Target) -> Option<LineBuf> {
    let first_hash = hashes.first()?;
    let layout = sizing::fit(target, hashes.len(), first_hash)?;
    (0..=255u8).find_map(|attempt| {
        let seed = (first_hash as u8).wrapping_add(attempt);
        let rows = banding::band(hashes, &layout, row::raw_seed(seed))?;
        let mut block = LineBuf::zeroed(layout.stored_bytes());
        let (segments, trailer) = block.split_at_mut(layout.segments() * layout::SEGMENT_BYTES);
        dispatch!(Isa::detect(), kernels => kernels.solve(&rows, &layout, segments));
        trailer.copy_from_slice(&layout.trailer(seed));
        Some(block)
    })
}

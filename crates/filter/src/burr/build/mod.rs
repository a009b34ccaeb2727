//! Building a bumped ribbon: from the hashes of the keys to the bytes of the filter.
//!
//! ```text
//! hashes ─► partition   1. grouped by bucket and class    ┐
//!        ─► banding     2. eliminated; some are bumped    ├ once for each layer: the next one gets
//!                                                         ┘ the bumped keys, the tags get the rest
//!        ─► columns     chosen when the sizes of all layers are known
//!        ─► solve       3. the band of each layer becomes segments
//! ```

use alloc::vec::Vec;

pub(super) mod banding;
pub(super) mod partition;
pub(super) mod solve;

use super::kernel::{Kernels, Lanes};
use super::layout::{self, Layout, MAX_LAYERS};
use super::row::{self, Row, Row32, Row64, Word};
use super::sizing::{Plan, fit};
use crate::cpu::{Isa, dispatch};
use crate::family::Target;
use crate::hashes::HashList;
use crate::memory::LineBuf;
use banding::Banded;

/// The filter of `hashes`. `None` when a Bloom filter is built instead. There are three reasons:
/// too few hashes; too many for the format (more than 4 billion at 7 bits a key); or [`MAX_LAYERS`]
/// layers leave more bumped keys than may be stored as tags, which are bits of a key's hash
/// ([`Plan::max_tags`]).
pub fn build(hashes: &HashList, target: Target) -> Option<LineBuf> {
    let chunks: Vec<&[u64]> = hashes.chunks().collect();
    build_with(Isa::detect(), Plan::for_keys(hashes.len())?, &chunks, target)
}

pub(super) fn build_with(
    isa: Isa,
    plan: Plan,
    chunks: &[&[u64]],
    target: Target,
) -> Option<LineBuf> {
    match plan.width {
        32 => build_rows::<Row32>(isa, plan, chunks, target),
        _ => build_rows::<Row64>(isa, plan, chunks, target),
    }
}

fn build_rows<R: Row<Word: Lanes>>(
    isa: Isa,
    plan: Plan,
    chunks: &[&[u64]],
    target: Target,
) -> Option<LineBuf> {
    let keys = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut layers: Vec<Banded<R>> = Vec::new();
    let mut bumped = band_layer(&mut layers, plan.slots(keys)?, chunks);
    while bumped.len() > plan.max_tags() {
        if layers.len() == MAX_LAYERS {
            return None;
        }
        bumped = band_layer(&mut layers, plan.slots(bumped.len())?, &[&bumped]);
    }
    // The columns are chosen last, when the sizes of all layers are known, so that the target is
    // met.
    let slots: Vec<u32> = layers.iter().map(|layer| layer.rows.len() as u32).collect();
    let (shape, thresholds) = (R::Word::SHAPE, &layers[0].thresholds);
    let kept_of = |block| shape.kept_in_block(block, thresholds[block as usize / 2]).into();
    let layout = fit(shape, &slots, bumped.len(), keys, target, kept_of)?;
    Some(store(isa, &layout, &layers, &bumped))
}

/// Adds a layer. Returns the hashes that the bumped keys have in the next layer.
fn band_layer<R: Row>(layers: &mut Vec<Banded<R>>, slots: u32, chunks: &[&[u64]]) -> Vec<u64> {
    let mut layer = banding::band(chunks, slots);
    let mut bumped = core::mem::take(&mut layer.bumped);
    bumped.iter_mut().for_each(|hash| *hash = row::next_hash(*hash));
    layers.push(layer);
    bumped
}

/// Solves the layers and writes all parts of the filter. `left` are the hashes of the keys that no
/// layer kept.
fn store<R: Row<Word: Lanes>>(
    isa: Isa,
    layout: &Layout,
    layers: &[Banded<R>],
    left: &[u64],
) -> LineBuf {
    let mut block = LineBuf::zeroed(layout.total_bytes() as usize);
    let (segments_at, thresholds_at) = layout.parts();
    for (i, layer) in layers.iter().enumerate() {
        let low_blocks = if i == 0 { layout.low_blocks } else { 0 };
        let segments = &mut block[segments_at[i]..thresholds_at[0]];
        dispatch!(isa, kernels => {
            kernels.solve(&layer.rows, layout.columns, low_blocks, segments)
        });
        let bytes = &mut block[thresholds_at[i]..];
        for (byte, thresholds) in bytes.iter_mut().zip(layer.thresholds.chunks(4)) {
            *byte = thresholds.iter().rev().fold(0, |byte, threshold| byte << 2 | threshold);
        }
    }
    let mut tags: Vec<u32> = left.iter().map(|&hash| layout::tag(hash, layout.columns)).collect();
    tags.sort_unstable();
    let tag_bytes = layout::tag_bytes(layout.columns);
    let fields = block[layout.tags_at() as usize..].chunks_exact_mut(tag_bytes);
    for (field, tag) in fields.zip(tags) {
        field.copy_from_slice(&tag.to_le_bytes()[..tag_bytes]);
    }
    layout.encode(&mut block);
    block
}

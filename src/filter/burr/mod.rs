//! The bumped ribbon filter, `burr`: the smallest filter here, and faster than RocksDB's Ribbon.
//!
//! **The idea.** A key has a *fingerprint* of r bits. A Ribbon filter is a table in which the
//! fingerprint can be *looked up*: as the XOR of some of the w slots from the key's start position on.
//! So every key is a linear equation over two elements, and the table is the solution of the system.
//! A key that was not added finds r bits that have nothing to do with its fingerprint. They agree
//! with probability 2^-r, at r bits a *slot*. The bound is r bits a *key*, so what counts is how few
//! slots there are above the number of keys.
//!
//! ```text
//! slots           0  1  2  3  4  5  6  7  8  9 ...       one slot: r bits, one for each column
//! key a, start 1     1  .  1  1                          a row of w coefficients; the first is 1
//! key b, start 2        1  1  .  1
//! key c, start 6                    1  1  .  1
//!                fingerprint of a = slot 1 ^ slot 3 ^ slot 4
//! ```
//!
//! The equations form a band along the diagonal. A narrow band is solved fast, but where by chance
//! many keys start, the system has no solution. RocksDB's Standard128 answers with w = 128, some
//! percent of free slots, and another try with another seed. Here the keys that do not fit are
//! **bumped**: the filter has *layers*, and such keys are looked up in the next one, a tenth of the
//! size, and so on. So there may even be fewer slots than keys, few slots stay free, rows can be
//! narrow (w = 32, or 64 for few keys), and nothing is tried twice.
//!
//! ```text
//! layer 0   | bucket 0 | bucket 1 | bucket 2 | ...          a bucket: 2w start positions
//!             class 2 1    0        right end: class 0      threshold 0..3: so many classes stay
//! layer 1   | bucket 0 | ...                                the keys of classes bumped above
//! tags      [..]                                            the last few, spelled out
//! ```
//!
//! The overflow of a bucket lies in the left end of the next one. So the left end is bumped: 2 bits
//! say whether all, 0.84, 0.67 or none of a bucket stays.
//!
//! **Storage** is interleaved: the w bits of one column of w slots are a *segment*, and the r
//! segments of a block of w slots stand together. A query reads two neighbouring blocks, 2 lines in
//! most cases, and compares all columns at once. Bits a key may be a fraction: the first blocks of
//! layer 0 then have one column fewer.
//!
//! Read on in this order: `plain`, the whole filter step by step; [`shape`] and [`row`], from a hash
//! to its row; [`layout`], the bytes. Building: [`partition`] groups keys by bucket and class,
//! [`banding`] eliminates and bumps, [`solve`] turns the band into segments. Asking: [`query`], and
//! [`kernel`] and `x86` with the hot loops. [`sizing`] has the arithmetic of sizes and rates.
//!
//! What is absent: seeds, retries, sorting. The bytes do not depend on the order of the keys.
//!
//! Sources: Dillinger, Walzer, *Ribbon filter* (2021); Dillinger, Hübschle-Schneider, Sanders,
//! Walzer, *Fast succinct retrieval and approximate membership using ribbon* (SEA 2022): bumping,
//! thresholds, interleaved storage. Two things are new here: buckets are grouped, not sorted, and two
//! chains of elimination run side by side ([`banding`]).

mod anatomy;
mod banding;
mod kernel;
pub(super) mod layout;
mod partition;
mod plain;
pub(super) mod query;
mod row;
mod shape;
pub(super) mod sizing;
mod solve;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::cpu::{Isa, dispatch};
use super::hashes::HashList;
use super::spec::Target;
use crate::memory::LineBuf;
pub(super) use anatomy::{hash_after_bump, parts, row_of};
use banding::Banded;
use kernel::{Kernels, Lanes};
use layout::{Layout, MAX_LAYERS};
use row::{Row, Row32, Row64, Word};
use sizing::Plan;

/// The filter of `hashes`. `None` when they are so few that a Bloom filter serves them better, or too
/// many for the format (some 3 billion).
pub(super) fn build(hashes: &HashList, target: Target) -> Option<LineBuf> {
    let chunks: Vec<&[u64]> = hashes.chunks().collect();
    build_with(Isa::detect(), Plan::for_keys(hashes.len())?, &chunks, target)
}

fn build_with(isa: Isa, plan: Plan, chunks: &[&[u64]], target: Target) -> Option<LineBuf> {
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
    // The columns are chosen last, when the sizes of all layers are known: so the target is met.
    let slots: Vec<u32> = layers.iter().map(|layer| layer.rows.len() as u32).collect();
    let layout = sizing::fit(R::Word::SHAPE, &slots, bumped.len(), keys, target)?;
    Some(store(isa, &layout, &layers, &bumped))
}

/// Adds a layer; returns the keys it bumped, by the hashes they have in the next one.
fn band_layer<R: Row>(layers: &mut Vec<Banded<R>>, slots: u32, chunks: &[&[u64]]) -> Vec<u64> {
    let mut layer = banding::band(chunks, slots);
    let mut bumped = std::mem::take(&mut layer.bumped);
    bumped.iter_mut().for_each(|hash| *hash = row::next_hash(*hash));
    layers.push(layer);
    bumped
}

/// Solves the layers and writes all parts of the filter.
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

//! Bumped ribbon filter.
mod banding;
mod geometry;
mod kernel;
mod layout;
mod partition;
mod row;
mod sizing;
mod solve;
#[cfg(target_arch = "x86_64")]
mod x86;

use kernel::{Isa, Kernel, Task, Vector};
use layout::MAX_LAYERS;
use row::{Row, Row32, Row64, Word};

use super::{HashList, LineBuf, Target};

pub(super) use geometry::BurrGeometry;

/// The filter of `hashes`; `None` when a Bloom filter serves so few keys better, or when the keys
/// are so alike that they do not fit.
pub(super) fn build(hashes: &HashList, target: Target) -> Option<LineBuf> {
    let chunks: Vec<&[u64]> = hashes.chunks().collect();
    build_with(Kernel::detect(), &chunks, target)
}

fn build_with(kernel: Kernel, chunks: &[&[u64]], target: Target) -> Option<LineBuf> {
    let keys = chunks.iter().map(|chunk| chunk.len()).sum();
    let plan = sizing::Plan::for_keys(keys)?;
    match plan.width {
        32 => build_width::<Row32>(kernel, chunks, plan, keys, target),
        _ => build_width::<Row64>(kernel, chunks, plan, keys, target),
    }
}

fn build_width<R: Row<Word: Vector>>(
    kernel: Kernel,
    chunks: &[&[u64]],
    plan: sizing::Plan,
    keys: usize,
    target: Target,
) -> Option<LineBuf> {
    let mut layers = vec![banding::band::<R>(chunks, plan.slots(keys)?)];
    let mut left = take_bumped(&mut layers);
    while left.len() > plan.tags() {
        if layers.len() == MAX_LAYERS {
            return None;
        }
        layers.push(banding::band::<R>(&[&left], plan.slots(left.len())?));
        left = take_bumped(&mut layers);
    }
    let slots: Vec<u32> = layers.iter().map(|layer| layer.rows.len() as u32).collect();
    let layout = sizing::fit(R::Word::SHAPE, &slots, left.len(), keys, target)?;
    let mut block = LineBuf::zeroed(layout.total_bytes() as usize);
    let (segments_at, thresholds_at) = layout.parts();
    for (i, layer) in layers.iter().enumerate() {
        let low_blocks = if i == 0 { layout.low_blocks } else { 0 };
        let segments = &mut block[segments_at[i]..thresholds_at[0]];
        kernel.run(Solve { rows: &layer.rows, columns: layout.columns, low_blocks, segments });
        let bytes = &mut block[thresholds_at[i]..];
        for (byte, thresholds) in bytes.iter_mut().zip(layer.thresholds.chunks(4)) {
            *byte = thresholds.iter().rev().fold(0, |byte, threshold| byte << 2 | threshold);
        }
    }
    let tag_bytes = layout::tag_bytes(layout.columns);
    let tags = block[layout.tags_at() as usize..].chunks_exact_mut(tag_bytes);
    for (field, &hash) in tags.zip(&left) {
        field.copy_from_slice(&layout::tag(hash, layout.columns).to_le_bytes()[..tag_bytes]);
    }
    layout.encode(&mut block);
    Some(block)
}

/// The keys that the last layer bumped, under the names that they have in the next one.
fn take_bumped<R>(layers: &mut [banding::Banded<R>]) -> Vec<u64> {
    let mut hashes = layers.last_mut().map(|last| std::mem::take(&mut last.bumped)).unwrap_or_default();
    hashes.iter_mut().for_each(|hash| *hash = row::next_hash(*hash));
    hashes
}

struct Solve<'a, R> {
    rows: &'a [R],
    columns: u32,
    low_blocks: u32,
    segments: &'a mut [u8],
}

impl<R: Row<Word: Vector>> Task for Solve<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        isa.solve(self.rows, self.columns, self.low_blocks, self.segments);
    }
}

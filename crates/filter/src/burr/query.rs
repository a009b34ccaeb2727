//! The reader: [`BurrGeometry`].
//!
//! ```text
//! hash -> start s in layer 0 -> bucket -> threshold: is the key's class kept?
//!    kept      the parities of two neighbouring blocks are the fingerprint: maybe, else no
//!    bumped    the same with the next layer's hash in the next layer (1 key of 15);
//!              after the last layer: is its tag among the tags? (very few keys)
//! ```
//!
//! A bucket is a run of start positions, divided into three classes; its threshold is the number of
//! classes that the layer keeps ([`shape`](super::shape)).
//!
//! The threshold byte and the segments are fetched together, because their addresses follow from
//! the hash alone. The geometry also stores the number of start positions of layer 1. So even
//! if layer 0 bumps the key, a query reads the trailer only if layer 1 bumps the key too or does
//! not exist: to find the later layers and the tags.

use super::kernel::{Ask, Kernels, Lanes, Segments};
use super::layout::{Layer, Layout, block_segments, has_tag, stored_slots, tag_bytes};
use super::reference;
use super::row::{equation, next_hash, start};
use crate::cpu::{Isa, dispatch};
use crate::family::KeyHash;
use crate::geometry::{BATCH, Geometry};
use crate::inspect::trace::QueryTrace;
use crate::math::powi;
use crate::memory::LineBuf;

/// The numbers that a query needs: the sizes of layer 0, the position of the thresholds, and the
/// size of layer 1. Invariant: a geometry is used only with the block from whose [`Layout`] it was
/// made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurrGeometry {
    starts: u32,
    low_blocks: u32,
    thresholds_at: u32,
    /// Start positions of layer 1; 0 if there is none.
    next_starts: u32,
    columns: u8,
    /// w: 32 or 64.
    width: u8,
    isa: Isa,
}

/// The answer of a layer.
enum Answer {
    /// The layer keeps the key; `true` is "maybe", and `false` is "no".
    Here(bool),
    /// The layer bumps the key, so the next layer must be queried.
    Bumped,
}

/// Bytes of the thresholds of a layer.
#[inline(always)]
fn threshold_bytes<W: Lanes>(starts: u32) -> u32 {
    starts.div_ceil(W::SHAPE.bucket()).div_ceil(4)
}

#[cfg(test)]
impl BurrGeometry {
    pub(super) fn with_isa(self, isa: Isa) -> BurrGeometry {
        BurrGeometry { isa, ..self }
    }
}

impl BurrGeometry {
    fn first_layer(&self) -> Layer {
        Layer {
            starts: self.starts,
            low_blocks: self.low_blocks,
            segments_at: 0,
            thresholds_at: self.thresholds_at,
        }
    }

    /// The layer after `layer`. The new layer has `starts` start positions.
    #[inline(always)]
    fn layer_behind<W: Lanes>(&self, layer: Layer, starts: u32) -> Layer {
        let blocks = layer.starts / W::BITS + 1;
        let (bytes, _) = block_segments::<W>(blocks, u32::from(self.columns), layer.low_blocks);
        Layer {
            starts,
            low_blocks: 0,
            segments_at: layer.segments_at + bytes as u32,
            thresholds_at: layer.thresholds_at + threshold_bytes::<W>(layer.starts),
        }
    }

    /// The segments of the block of `start` and of the next block.
    #[inline(always)]
    fn segments<W: Lanes>(&self, layer: Layer, start: u32) -> Segments {
        let (offset, columns) =
            block_segments::<W>(start / W::BITS, u32::from(self.columns), layer.low_blocks);
        Segments { at: layer.segments_at as usize + offset, columns }
    }

    /// Starts to fetch what [`BurrGeometry::ask`] reads: the cache line of the threshold, and the
    /// first and the last cache line of the segments.
    #[inline(always)]
    fn fetch<W: Lanes>(&self, block: &LineBuf, layer: Layer, start: u32) {
        let Segments { at, columns } = self.segments::<W>(layer, start);
        block.prefetch(at);
        block.prefetch((at + 2 * columns as usize * W::BYTES).wrapping_sub(1));
        block.prefetch((layer.thresholds_at + (start >> W::SHAPE.bucket_shift()) / 4) as usize);
    }

    /// Queries one layer. `start` is the start position of `hash` in it. The answer is "maybe" if
    /// the layer has no such position, or if the block ends before the threshold of the bucket of
    /// `start`.
    #[inline(always)]
    fn ask<W: Lanes, K: Kernels>(
        &self,
        kernels: K,
        block: &[u8],
        layer: Layer,
        hash: KeyHash,
        start: u32,
    ) -> Answer {
        let shape = W::SHAPE;
        let bucket = start >> shape.bucket_shift();
        let thresholds = match block.get(layer.thresholds_at as usize + bucket as usize / 4) {
            Some(thresholds) if start < layer.starts => u32::from(*thresholds),
            _ => return Answer::Here(true),
        };
        let threshold = thresholds >> (2 * (bucket % 4)) & 3;
        let from_right = !start & (shape.bucket() - 1);
        if from_right >= shape.limits() >> (8 * threshold) & 0xff {
            return Answer::Bumped;
        }
        let (coefficients, fingerprint) = equation::<W>(hash);
        let (left, right) = coefficients.split(start % W::BITS);
        let segments = self.segments::<W>(layer, start);
        Answer::Here(kernels.matches(block, segments, left, right, fingerprint))
    }

    #[inline(always)]
    fn ask_all<W: Lanes, K: Kernels>(
        &self,
        kernels: K,
        block: &[u8],
        hash: KeyHash,
        start: u32,
    ) -> bool {
        match self.ask::<W, K>(kernels, block, self.first_layer(), hash, start) {
            Answer::Here(answer) => answer,
            Answer::Bumped => self.ask_deeper::<W, K>(kernels, block, next_hash(hash)),
        }
    }

    /// Queries layer 1, and each later layer as long as the key is bumped. If the last layer bumps
    /// the key too, queries the tags. `hash` is the key's hash for layer 1. Each later layer has a
    /// hash of its own.
    #[inline(never)]
    fn ask_deeper<W: Lanes, K: Kernels>(
        &self,
        kernels: K,
        block: &[u8],
        mut hash: KeyHash,
    ) -> bool {
        let mut layer = self.first_layer();
        let mut starts = self.next_starts;
        let mut index = 1;
        while starts != 0 {
            layer = self.layer_behind::<W>(layer, starts);
            match self.ask::<W, K>(kernels, block, layer, hash, start(hash, starts)) {
                Answer::Here(answer) => return answer,
                Answer::Bumped => hash = next_hash(hash),
            }
            index += 1;
            starts = stored_slots(block, index).map_or(0, |slots| slots - W::BITS);
        }
        let tags_at = layer.thresholds_at + threshold_bytes::<W>(layer.starts);
        has_tag(block, tags_at as usize, hash)
    }

    fn ask_many<W: Lanes, K: Kernels>(
        &self,
        kernels: K,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        let first = self.first_layer();
        let next = self.layer_behind::<W>(first, self.next_starts);
        let (mut starts, mut bumped) = ([0; BATCH], [0; BATCH]);
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            for (to, &hash) in starts.iter_mut().zip(hashes) {
                *to = start(hash, first.starts);
                self.fetch::<W>(block, first, *to);
            }
            let mut bumped_keys = 0;
            for (i, &hash) in hashes.iter().enumerate() {
                match self.ask::<W, K>(kernels, block, first, hash, starts[i]) {
                    Answer::Here(answer) => answers[i] = answer,
                    Answer::Bumped => {
                        let hash = next_hash(hash);
                        self.fetch::<W>(block, next, start(hash, next.starts));
                        bumped[bumped_keys] = i;
                        bumped_keys += 1;
                    }
                }
            }
            for &i in &bumped[..bumped_keys] {
                answers[i] = self.ask_deeper::<W, K>(kernels, block, next_hash(hashes[i]));
            }
        }
    }
}

impl Ask for BurrGeometry {
    #[inline(always)]
    fn finish_with<K: Kernels>(&self, kernels: K, block: &[u8], hash: KeyHash, start: u32) -> bool {
        match self.width {
            32 => self.ask_all::<u32, K>(kernels, block, hash, start),
            _ => self.ask_all::<u64, K>(kernels, block, hash, start),
        }
    }

    #[inline(always)]
    fn finish_many_with<K: Kernels>(
        &self,
        kernels: K,
        block: &LineBuf,
        hashes: &[KeyHash],
        answers: &mut [bool],
    ) {
        match self.width {
            32 => self.ask_many::<u32, K>(kernels, block, hashes, answers),
            _ => self.ask_many::<u64, K>(kernels, block, hashes, answers),
        }
    }
}

impl Geometry for BurrGeometry {
    fn parse(block: &LineBuf) -> Result<BurrGeometry, &'static str> {
        let layout = Layout::decode(block)?;
        let [first, rest @ ..] = layout.slots() else { return Err("no layers") };
        let width = layout.shape.width;
        Ok(BurrGeometry {
            starts: first - width,
            low_blocks: layout.low_blocks,
            thresholds_at: layout.thresholds_at() as u32,
            next_starts: rest.first().map_or(0, |slots| slots - width),
            columns: layout.columns as u8,
            width: width as u8,
            isa: Isa::detect(),
        })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let start = start(hash, self.starts);
        match self.width {
            32 => self.fetch::<u32>(block, self.first_layer(), start),
            _ => self.fetch::<u64>(block, self.first_layer(), start),
        }
        start
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, start: u32) -> bool {
        dispatch!(self.isa, kernels => kernels.finish(self, block, hash, start))
    }

    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        self.finish(block, hash, start(hash, self.starts))
    }

    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        dispatch!(self.isa, kernels => kernels.finish_many(self, block, hashes, answers));
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        reference::trace(block, hash).unwrap_or_else(QueryTrace::Untrusted)
    }

    /// The rate follows from the stored filter alone, whatever the number of keys. Of the absent
    /// keys that reach a layer, those whose start positions the layer keeps pass at its rate, and
    /// the others go on to the next layer. Keys that no layer keeps are compared with the tags, and
    /// few of them pass. Tags matter for a small filter, which has only one layer, so that some per
    /// cent of the absent keys reach them.
    fn predicted_fpr(&self, block: &LineBuf, _keys: u64) -> f64 {
        let Ok(layout) = Layout::decode(block) else { return 1.0 };
        let (shape, width) = (layout.shape, layout.shape.width);
        let rate = powi(0.5, layout.columns);
        let (mut fpr, mut reach) = (0.0, 1.0);
        for (i, (slots, at)) in layout.slots().iter().zip(layout.parts().1).enumerate() {
            let blocks = slots / width - 1;
            let low_blocks = if i == 0 { layout.low_blocks } else { 0 };
            let kept_of = |number: u32| {
                let bucket = number as usize / 2;
                let threshold = block[at + bucket / 4] >> (2 * (bucket % 4)) & 3;
                u64::from(shape.kept_in_block(number, threshold))
            };
            let kept: u64 = (0..blocks).map(kept_of).sum();
            let low: u64 = (0..blocks.min(low_blocks)).map(kept_of).sum();
            let starts = f64::from(blocks * width);
            // Where a block has one column fewer, twice as many keys pass.
            fpr += reach * rate * (kept + low) as f64 / starts;
            reach *= 1.0 - kept as f64 / starts;
        }
        let tags = layout.tags as f64 / powi(2.0, 8 * tag_bytes(layout.columns) as u32);
        (fpr + reach * tags).min(1.0)
    }
}

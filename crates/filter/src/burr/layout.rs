//! The stored form of a bumped ribbon filter, byte by byte, and the checks that a filter must pass.
//!
//! ```text
//! +--------------------+--------------------+-----+ segments: layer after layer
//! | segments, layer 0  | segments, layer 1  | ... |
//! +------------+-------+----+-----+-------+-+-----+
//! | thresholds | thresholds | ... | tags  | zeros | layer after layer; tags of the keys no layer took
//! +------------+------------+-----+-------+-------+
//! | slots: fixed32 a layer  | fixed part          | the trailer; ends the filter
//! +-------------------------+---------------------+
//!
//! segments    A layer has blocks of w slots. A segment is one column of one block: w bits,
//!             little-endian, bit i = slot i of the block. A block's segments are contiguous,
//!             column 0 first. Every block has `columns` segments, except that the first
//!             `low blocks` blocks of layer 0 have one fewer.
//! thresholds  2 bits for each bucket of 2w start positions, the first bucket in the low bits.
//! tags        `tags` values, 2 bytes each up to 12 columns, else 4: bits 16 to 31 or 0 to 31 of the
//!             hash a key has after the last layer bumped it.
//! zeros       padding until 32 bytes follow the segments.
//!
//! the fixed part, from the end of the filter
//! OFFSET  SIZE  MEANING
//!  -16     4    low blocks: blocks of layer 0 with one column fewer
//!  -12     1    number of tags
//!  -11     1    columns: 1 to 32
//!  -10     1    layers: 1 to 16
//!   -9     1    width w: 32 or 64
//!   -8     4    check: a sum over all of the trailer before it
//!   -4     3    magic: "bur"
//!   -1     1    version: 1
//! ```
//!
//! A bucket's threshold, 0 to 3, tells which part of the bucket the layer keeps
//! ([`shape`](super::shape)).
//!
//! Integers are little-endian. The trailer determines the size of every part. A reader trusts a
//! filter only if these sizes add up to the filter's size and the trailer's field `check` matches,
//! which detects damage to several fields that leaves the total size the same. `check` covers only
//! the trailer; the checksum of the table's block protects the payload.
//!
//! Invariant: a [`Layout`] describes exactly the bytes it was decoded from. All its offsets are
//! below 2^32, so that computing with them does not overflow.

use alloc::vec::Vec;

use byteorder::{ByteOrder, LittleEndian};

use super::row::{Word, mix};
use super::shape::{MAX_COLUMNS, Shape};

/// The most layers of a filter. A layer usually keeps more than nine tenths of the keys that reach
/// it, so practical filters need far fewer.
pub(super) const MAX_LAYERS: usize = 16;

/// The most tags that the format allows: their number is stored in a byte.
pub(super) const MAX_TAGS: usize = 255;

/// Bytes that must follow the segments, because a vector load may read them.
pub(super) const READABLE_BYTES: usize = 32;

const FIXED_BYTES: usize = 16;
const MAGIC_AND_VERSION: [u8; 4] = *b"bur\x01";

/// The position of one layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layer {
    /// Start positions: `slots - w`, so that a row's two blocks are always inside the layer.
    pub starts: u32,
    /// This many blocks, from the first on, have one column fewer. 0 except in layer 0.
    pub low_blocks: u32,
    /// Byte offset of the segments.
    pub segments_at: u32,
    /// Byte offset of the thresholds.
    pub thresholds_at: u32,
}

/// The content of the trailer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub shape: Shape,
    pub columns: u32,
    pub low_blocks: u32,
    pub tags: usize,
    layers: usize,
    slots: [u32; MAX_LAYERS],
}

impl Layout {
    /// The layout of a filter whose layer i has `slots[i]` slots. There are at most [`MAX_LAYERS`]
    /// layers.
    pub fn new(shape: Shape, columns: u32, low_blocks: u32, tags: usize, slots: &[u32]) -> Layout {
        let mut all = [0; MAX_LAYERS];
        all[..slots.len()].copy_from_slice(slots);
        Layout { shape, columns, low_blocks, tags, layers: slots.len(), slots: all }
    }

    /// The number of slots of every layer: a multiple of w, at least two blocks.
    pub fn slots(&self) -> &[u32] {
        &self.slots[..self.layers]
    }

    /// Bytes of the segments of a layer. `low_blocks` applies to layer 0 only.
    fn segment_bytes(&self, index: usize) -> u64 {
        let low = if index == 0 { self.low_blocks } else { 0 };
        let blocks = u64::from(self.slots[index] / self.shape.width);
        (blocks * u64::from(self.columns) - u64::from(low)) * u64::from(self.shape.width / 8)
    }

    /// Bytes of the thresholds of a layer.
    fn threshold_bytes(&self, index: usize) -> u64 {
        let starts = self.slots[index] - self.shape.width;
        u64::from(starts.div_ceil(self.shape.bucket()).div_ceil(4))
    }

    /// Byte offset of the thresholds of layer 0. It equals the number of bytes of all segments.
    pub fn thresholds_at(&self) -> u64 {
        (0..self.layers).map(|i| self.segment_bytes(i)).sum()
    }

    /// Byte offset of the tags.
    pub fn tags_at(&self) -> u64 {
        let thresholds: u64 = (0..self.layers).map(|i| self.threshold_bytes(i)).sum();
        self.thresholds_at() + thresholds
    }

    fn trailer_bytes(&self) -> u64 {
        (4 * self.layers + FIXED_BYTES) as u64
    }

    /// Bytes of the whole filter.
    pub fn total_bytes(&self) -> u64 {
        let unpadded =
            self.tags_at() + (self.tags * tag_bytes(self.columns)) as u64 + self.trailer_bytes();
        unpadded.max(self.thresholds_at() + READABLE_BYTES as u64)
    }

    /// Byte offsets of the segments of every layer, and of the thresholds of every layer.
    pub fn parts(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut segments_at, mut thresholds_at) = (0, self.thresholds_at());
        let advance = |at: &mut u64, bytes: u64| (core::mem::replace(at, *at + bytes)) as usize;
        (0..self.layers)
            .map(|i| {
                let segments = advance(&mut segments_at, self.segment_bytes(i));
                (segments, advance(&mut thresholds_at, self.threshold_bytes(i)))
            })
            .unzip()
    }

    /// Writes the trailer to the end of `filter`, which has [`Layout::total_bytes`].
    pub fn encode(&self, filter: &mut [u8]) {
        let at = filter.len() - self.trailer_bytes() as usize;
        let trailer = &mut filter[at..];
        for (field, &slots) in trailer.chunks_exact_mut(4).zip(self.slots()) {
            LittleEndian::write_u32(field, slots);
        }
        let fixed = &mut trailer[4 * self.layers..];
        LittleEndian::write_u32(fixed, self.low_blocks);
        fixed[4] = self.tags as u8;
        fixed[5] = self.columns as u8;
        fixed[6] = self.layers as u8;
        fixed[7] = self.shape.width as u8;
        fixed[12..].copy_from_slice(&MAGIC_AND_VERSION);
        let check = check(trailer);
        let end = trailer.len();
        LittleEndian::write_u32(&mut trailer[end - 8..end - 4], check);
    }

    /// Reads and checks the trailer of `filter`. The error is the reason why it is invalid.
    pub fn decode(filter: &[u8]) -> Result<Layout, &'static str> {
        if filter.len() > u32::MAX as usize {
            return Err("the filter is larger than 4 GiB");
        }
        let Some(fixed_at) = filter.len().checked_sub(FIXED_BYTES) else {
            return Err("the filter is shorter than its trailer");
        };
        let fixed = &filter[fixed_at..];
        if fixed[12..] != MAGIC_AND_VERSION {
            return Err("the magic or the version is unknown");
        }
        let layers = usize::from(fixed[6]);
        if layers == 0 || layers > MAX_LAYERS {
            return Err("the number of layers is out of range");
        }
        let Some(trailer_at) = fixed_at.checked_sub(4 * layers) else {
            return Err("the filter is shorter than its trailer");
        };
        let trailer = &filter[trailer_at..];
        if LittleEndian::read_u32(&fixed[8..]) != check(trailer) {
            return Err("the check of the trailer does not match");
        }
        let mut slots = [0; MAX_LAYERS];
        LittleEndian::read_u32_into(&trailer[..4 * layers], &mut slots[..layers]);
        let layout = Layout {
            shape: Shape::of_width(u32::from(fixed[7])),
            columns: u32::from(fixed[5]),
            low_blocks: LittleEndian::read_u32(fixed),
            tags: usize::from(fixed[4]),
            layers,
            slots,
        };
        layout.check_ranges()?;
        if layout.total_bytes() != filter.len() as u64 {
            return Err("the parts of the filter do not add up to its size");
        }
        Ok(layout)
    }

    fn check_ranges(&self) -> Result<(), &'static str> {
        let width = self.shape.width;
        if width != 32 && width != 64 {
            return Err("the width is neither 32 nor 64");
        }
        if self.columns == 0 || self.columns > MAX_COLUMNS {
            return Err("the number of columns is out of range");
        }
        if self.slots().iter().any(|&slots| slots < 2 * width || slots % width != 0) {
            return Err("a layer is no whole number of blocks, or fewer than two");
        }
        if self.low_blocks > self.slots[0] / width {
            return Err("more low blocks than blocks");
        }
        Ok(())
    }
}

/// Bytes of one tag. With few columns tags are short, because they then add little to the high
/// false-positive rate of the layers.
pub(super) fn tag_bytes(columns: u32) -> usize {
    if columns <= 12 { 2 } else { 4 }
}

/// The tag of a key that no layer kept. `hash` is the key's hash after the last layer.
pub(super) fn tag(hash: u64, columns: u32) -> u32 {
    hash as u32 >> (32 - 8 * tag_bytes(columns))
}

/// The byte offset of a block's segments, and their number, in a layer whose first `low_blocks`
/// blocks have one column fewer.
#[inline(always)]
pub(super) fn block_segments<W: Word>(block: u32, columns: u32, low_blocks: u32) -> (usize, u32) {
    let segment = block as usize * columns as usize - block.min(low_blocks) as usize;
    (segment * W::BYTES, columns - u32::from(block < low_blocks))
}

/// The number of slots of a layer, read from a filter whose trailer was decoded before; `None`
/// after the last layer.
pub(super) fn stored_slots(filter: &[u8], layer: usize) -> Option<u32> {
    let layers = usize::from(*filter.get(filter.len().checked_sub(FIXED_BYTES - 6)?)?);
    let at = filter.len().checked_sub(FIXED_BYTES + 4 * layers.checked_sub(layer)?)?;
    (layer < layers).then(|| LittleEndian::read_u32(&filter[at..]))
}

/// Whether the filter has the tag of `hash`, the key's hash after the last layer. The filter's tags
/// are at `tags_at`, and its trailer was decoded before.
pub(super) fn has_tag(filter: &[u8], tags_at: usize, hash: u64) -> bool {
    let Some(fixed) = filter.last_chunk::<FIXED_BYTES>() else { return true };
    let (tags, columns) = (usize::from(fixed[4]), u32::from(fixed[5]));
    let bytes = tag_bytes(columns);
    let Some(stored) = filter.get(tags_at..tags_at + tags * bytes) else { return true };
    let tag = tag(hash, columns);
    stored.chunks_exact(bytes).any(|stored| LittleEndian::read_uint(stored, bytes) as u32 == tag)
}

/// A checksum of every byte of the trailer before the check itself.
fn check(trailer: &[u8]) -> u32 {
    let covered = &trailer[..trailer.len() - 8];
    covered.iter().fold(0, |sum, &byte| mix(sum ^ (u64::from(byte) + 1))) as u32
}

/// Turns arbitrary bytes into a filter that [`Layout::decode`] accepts, unless a field is out of
/// range. The last bytes are taken for the fields of the trailer. The number of layers and the
/// width are brought into range, magic and check are written, and bytes are added or cut at the
/// front, so that the filter has the length that the fields state.
#[cfg(any(test, fuzzing))]
pub fn repair(filter: &mut Vec<u8>) {
    /// The size limit: larger filters are not made.
    const MAX_BYTES: u64 = 1 << 16;
    let Some(fixed_at) = filter.len().checked_sub(FIXED_BYTES) else { return };
    let fixed = &mut filter[fixed_at..];
    fixed[12..].copy_from_slice(&MAGIC_AND_VERSION);
    let (columns, layers) = (u32::from(fixed[5]), usize::from(fixed[6]) % (MAX_LAYERS + 1));
    let width = if fixed[7] & 1 == 0 { 32 } else { 64 };
    (fixed[6], fixed[7]) = (layers as u8, width as u8);
    let (tags, low_blocks) = (usize::from(fixed[4]), LittleEndian::read_u32(fixed));
    let Some(trailer_at) = fixed_at.checked_sub(4 * layers) else { return };
    let mut slots = [0; MAX_LAYERS];
    LittleEndian::read_u32_into(&filter[trailer_at..fixed_at], &mut slots[..layers]);
    let layout = Layout { shape: Shape::of_width(width), columns, low_blocks, tags, layers, slots };
    if layers > 0 && layout.check_ranges().is_ok() && layout.total_bytes() <= MAX_BYTES {
        let (wanted, have) = (layout.total_bytes() as usize, filter.len());
        let front = vec![0; wanted.saturating_sub(have)];
        filter.splice(..have.saturating_sub(wanted), front);
    }
    let end = filter.len();
    let check = check(&filter[end - FIXED_BYTES - 4 * layers..]);
    LittleEndian::write_u32(&mut filter[end - 8..end - 4], check);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Layout {
        Layout::new(Shape::of_width(32), 7, 3, 5, &[9504, 544, 64])
    }

    fn encoded(layout: &Layout) -> Vec<u8> {
        let mut filter = vec![0; layout.total_bytes() as usize];
        layout.encode(&mut filter);
        filter
    }

    #[test]
    fn a_layout_round_trips_and_its_parts_touch() {
        let layout = example();
        let filter = encoded(&layout);
        assert_eq!(Layout::decode(&filter), Ok(layout.clone()));
        let layer_1 = (297 * 7 - 3) * 4;
        let layer_2 = layer_1 + 17 * 7 * 4;
        let thresholds = layer_2 + 2 * 7 * 4;
        assert_eq!(layout.thresholds_at(), thresholds as u64);
        // The sizes of the thresholds: 9472 starts are 148 buckets, which take 37 bytes; 512 starts
        // are 8 buckets, 2 bytes; 32 starts are half a bucket, 1 byte.
        let thresholds = vec![thresholds, thresholds + 37, thresholds + 37 + 2];
        assert_eq!(layout.tags_at(), thresholds[2] as u64 + 1);
        assert_eq!(layout.parts(), (vec![0, layer_1, layer_2], thresholds));
        assert_eq!(
            (0..4).map(|i| stored_slots(&filter, i)).collect::<Vec<_>>(),
            [Some(9504), Some(544), Some(64), None]
        );
        assert_eq!(filter.len() as u64, layout.tags_at() + 5 * 2 + 3 * 4 + 16);
    }

    #[test]
    fn a_small_filter_is_padded_for_vector_loads() {
        let layout = Layout::new(Shape::of_width(32), 7, 0, 0, &[64]);
        let filter = encoded(&layout);
        assert_eq!(filter.len(), 2 * 7 * 4 + READABLE_BYTES);
        assert_eq!(Layout::decode(&filter), Ok(layout));
    }

    #[test]
    fn every_change_of_a_trailer_byte_is_seen() {
        let filter = encoded(&example());
        for at in filter.len() - 28..filter.len() {
            for change in 1..=255 {
                let mut damaged = filter.clone();
                damaged[at] ^= change;
                assert!(Layout::decode(&damaged).is_err(), "byte {at} ^ {change}");
            }
        }
    }

    #[test]
    fn every_field_out_of_range_is_refused_though_the_check_matches() {
        let with = |change: fn(&mut Layout)| {
            let mut layout = example();
            change(&mut layout);
            let size = example().total_bytes() as usize;
            let mut filter = vec![0; size];
            layout.encode(&mut filter);
            Layout::decode(&filter)
        };
        assert!(with(|_| ()).is_ok());
        assert!(with(|l| l.shape.width = 16).is_err());
        assert!(with(|l| l.shape.width = 64).is_err());
        assert!(with(|l| l.columns = 0).is_err());
        assert!(with(|l| l.columns = 6).is_err());
        assert!(with(|l| l.columns = 33).is_err());
        assert!(with(|l| l.low_blocks = 4).is_err());
        assert!(with(|l| l.low_blocks = 298).is_err());
        assert!(with(|l| l.low_blocks = u32::MAX).is_err());
        assert!(with(|l| l.tags = 6).is_err());
        assert!(with(|l| l.slots[0] = 0).is_err());
        assert!(with(|l| l.slots[1] += 1).is_err());
        assert!(with(|l| l.slots[2] = 32).is_err());
        assert!(with(|l| l.slots[2] = u32::MAX - 31).is_err());
        assert!(with(|l| l.layers = 2).is_err());
        assert!(with(|l| l.layers = 0).is_err());
    }

    #[test]
    fn every_truncation_is_refused() {
        let filter = encoded(&example());
        for len in 0..filter.len() {
            assert!(Layout::decode(&filter[..len]).is_err(), "the first {len} bytes");
            assert!(Layout::decode(&filter[filter.len() - len..]).is_err(), "the last {len} bytes");
        }
        let longer = [&[0], &filter[..]].concat();
        assert!(Layout::decode(&longer).is_err());
    }
}

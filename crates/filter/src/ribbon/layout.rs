//! The stored form of a Ribbon filter. A slot has one bit in each column, a *block* is 128 slots,
//! and a *segment* is one column of one block.
//!
//! ```text
//! OFFSET      SIZE  MEANING
//! 0           16·S  segments, each a little-endian u128: bit i belongs to slot i of its block
//! 16·S        1     0xfe, the family
//! 16·S + 1    1     seed, 0 to 255
//! 16·S + 2    3     number of blocks B, little-endian
//!
//! A block is 128 slots. Its columns are consecutive segments, lowest column first. With
//! columns = ceil(S / B), the first `low_blocks` = columns·B - S blocks lack the highest column:
//!
//!   segments  | 0 1 … c-2 | 0 1 … c-2 | 0 1 … c-2 c-1 | 0 1 … c-2 c-1 |
//!   block     | 0     low | 1     low | 2        full | 3        full |
//! ```
//!
//! So any number of segments can be stored, and bits per key can be a fraction. The number of
//! columns is not in the trailer, because it follows from S and B, and S follows from the filter's
//! length.
//!
//! Invariant of every [`Layout`]: `2 <= blocks < 2^24`, `1 <= columns <= 32` and `low_blocks <
//! blocks`. A filter from which a layout was parsed has at least [`Layout::segments`] segments.

use crate::math::powi;

/// Slots of a block: the width of the band.
pub const BLOCK_SLOTS: u32 = 128;
/// Bytes of one column of one block.
pub const SEGMENT_BYTES: usize = 16;
/// Bytes after the segments.
pub const TRAILER_BYTES: usize = 5;
/// The most columns, and bits of a fingerprint.
pub const MAX_COLUMNS: u32 = 32;
/// First byte of the trailer.
pub const MARKER: u8 = 0xfe;

/// Blocks and columns of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    blocks: u32,
    /// Columns of a full block.
    columns: u32,
    /// This many blocks, from the first on, have one column fewer.
    low_blocks: u32,
}

impl Layout {
    /// Returns `None` for fewer than 2 blocks, for more blocks than 24 bits can count, and for no
    /// segments. Segments beyond 32 columns are never read, as in RocksDB.
    pub fn new(blocks: u32, segments: usize) -> Option<Layout> {
        if !(2..1 << 24).contains(&blocks) || segments == 0 {
            return None;
        }
        let blocks_wide = blocks as usize;
        let columns = segments.div_ceil(blocks_wide);
        if columns > MAX_COLUMNS as usize {
            return Some(Layout { blocks, columns: MAX_COLUMNS, low_blocks: 0 });
        }
        let low_blocks = (columns * blocks_wide - segments) as u32;
        Some(Layout { blocks, columns: columns as u32, low_blocks })
    }

    /// The layout and the seed of a stored filter block, or why the bytes are not a filter.
    pub fn parse(filter: &[u8]) -> Result<(Layout, u8), &'static str> {
        let Some((segments, &[MARKER, seed, b0, b1, b2])) = filter.split_last_chunk() else {
            return Err("not a Ribbon filter");
        };
        if !segments.len().is_multiple_of(SEGMENT_BYTES) {
            return Err("a Ribbon filter whose length is not a number of segments");
        }
        let blocks = u32::from_le_bytes([b0, b1, b2, 0]);
        let layout = Layout::new(blocks, segments.len() / SEGMENT_BYTES)
            .ok_or("a Ribbon filter with too few blocks or segments")?;
        Ok((layout, seed))
    }

    /// The last five bytes of the filter block.
    pub fn trailer(&self, seed: u8) -> [u8; TRAILER_BYTES] {
        let [b0, b1, b2, _] = self.blocks.to_le_bytes();
        [MARKER, seed, b0, b1, b2]
    }

    pub fn slots(&self) -> u32 {
        self.blocks * BLOCK_SLOTS
    }

    /// The number of slots at which a key's 128 coefficients can start.
    pub fn starts(&self) -> u32 {
        self.slots() - (BLOCK_SLOTS - 1)
    }

    /// Columns of the widest blocks.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Columns of `block`.
    #[inline(always)]
    pub fn columns_of(&self, block: u32) -> u32 {
        self.columns - u32::from(block < self.low_blocks)
    }

    /// Number of the segment that holds column 0 of `block`.
    #[inline(always)]
    pub fn first_segment(&self, block: u32) -> usize {
        block as usize * self.columns as usize - block.min(self.low_blocks) as usize
    }

    /// Segments of all blocks together.
    pub fn segments(&self) -> usize {
        self.first_segment(self.blocks)
    }

    /// Bytes of the whole filter block, trailer included.
    pub fn stored_bytes(&self) -> usize {
        self.segments() * SEGMENT_BYTES + TRAILER_BYTES
    }

    /// The false-positive rate. A key is tested in each column of the block in which it starts, and
    /// each column halves the rate.
    pub fn predicted_fpr(&self) -> f64 {
        let low_part = f64::from(self.low_blocks * BLOCK_SLOTS) / f64::from(self.starts());
        // One column fewer doubles the rate.
        (1.0 + low_part) * powi(0.5, self.columns)
    }
}

/// For fuzzing: turns most bytes into a valid filter
/// ([`FamilyInfo::repair`](crate::info::FamilyInfo::repair)). A byte of the old trailer
/// picks a number of columns, 1 to 32. The new trailer gets the number of blocks for which the
/// segments make about that many columns.
#[cfg(any(test, fuzzing))]
pub(super) fn repair(block: &mut Vec<u8>) {
    crate::bloom::layout::repair_trailer(block, |lines, [_, seed, b0, ..]| {
        let blocks = lines * 4 / (1 + usize::from(b0) % 32);
        let [b0, b1, b2, ..] = blocks.to_le_bytes();
        [MARKER, seed, b0, b1, b2]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_tile_the_segments() {
        for blocks in [2u32, 3, 7, 100] {
            for segments in 1..=blocks as usize * 32 {
                let layout = Layout::new(blocks, segments).unwrap();
                let mut next = 0;
                for block in 0..blocks {
                    assert_eq!(layout.first_segment(block), next);
                    next += layout.columns_of(block) as usize;
                }
                assert_eq!((next, layout.segments()), (segments, segments));
            }
        }
    }

    #[test]
    fn a_trailer_round_trips() {
        let layout = Layout::new(0x010203, 0x010203 * 3 - 5).unwrap();
        let mut filter = vec![0; layout.segments() * SEGMENT_BYTES];
        filter.extend(layout.trailer(200));
        assert_eq!(Layout::parse(&filter), Ok((layout, 200)));
        assert_eq!(filter.len(), layout.stored_bytes());
    }

    #[test]
    fn whatever_does_not_fit_its_length_is_no_filter() {
        let well_formed = |segment_bytes: usize, blocks: u32| {
            let mut filter = vec![0xff; segment_bytes];
            filter.extend([MARKER, 7, blocks as u8, (blocks >> 8) as u8, (blocks >> 16) as u8]);
            filter
        };
        assert!(Layout::parse(&well_formed(64, 2)).is_ok());
        for length in 0..=6 {
            assert!(Layout::parse(&vec![0; length]).is_err());
            assert!(Layout::parse(&vec![MARKER; length]).is_err());
        }
        for segment_bytes in [0, 1, 15, 17, 63, 65] {
            assert!(Layout::parse(&well_formed(segment_bytes, 2)).is_err(), "{segment_bytes}");
        }
        for blocks in [0, 1] {
            assert!(Layout::parse(&well_formed(64, blocks)).is_err(), "{blocks} blocks");
        }
        for marker in (0..=255).filter(|&marker| marker != MARKER) {
            let mut filter = well_formed(64, 2);
            filter[64] = marker;
            assert!(Layout::parse(&filter).is_err(), "marker {marker:#x}");
        }
        // One segment for 2^24 - 1 blocks: a poor filter, but a well-formed one.
        let (sparse, _) = Layout::parse(&well_formed(16, (1 << 24) - 1)).unwrap();
        assert!(sparse.segments() == 1 && sparse.predicted_fpr() > 0.99);
        // Segments past the 32nd column are ignored.
        let (capped, _) = Layout::parse(&well_formed(16 * 100, 2)).unwrap();
        assert_eq!((capped.columns(), capped.segments()), (32, 64));
    }
}

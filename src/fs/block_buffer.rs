//! [`BlockBuffer`]: memory for whole blocks of a device, which a read past the system's cache wants.
//!
//! ```text
//!   file     │       ·      │       ·       │       ·       │      the device's blocks
//!   wanted                  ├──── range ────┤
//!   read             ├──────────────────────────────┤              whole blocks
//!   buffer   ├ slack ┤──────────────────────────────┤              an address as the file's offset
//! ```
//!
//! A file that is read through the system's cache has blocks of one byte: nothing is read besides.

/// Bytes that are used again and again, at an address which the device accepts.
#[derive(Default)]
pub(super) struct BlockBuffer(Vec<u8>);

/// A range of a file, and the blocks around it.
#[derive(Clone, Copy)]
pub(super) struct BlockRange {
    offset: u64,
    bytes: usize,
    /// A power of two.
    block_bytes: usize,
}

impl BlockRange {
    pub fn new(offset: u64, bytes: usize, block_bytes: usize) -> BlockRange {
        debug_assert!(block_bytes.is_power_of_two());
        BlockRange { offset, bytes, block_bytes }
    }

    /// Whether more is read than the range: blocks of more than one byte.
    pub fn is_in_blocks(self) -> bool {
        self.block_bytes > 1
    }

    /// Where its first block starts, in the file.
    pub fn start(self) -> u64 {
        self.offset - self.skipped() as u64
    }

    /// Bytes before the range, in its first block.
    pub fn skipped(self) -> usize {
        (self.offset % self.block_bytes as u64) as usize
    }

    /// From the start of its first block to the end of the range. The last block may be cut by the
    /// end of the file, so no read need bring more.
    pub fn needed(self) -> usize {
        self.skipped() + self.bytes
    }

    /// Where a read goes on that has brought `filled` bytes. It may end within a block: that one is
    /// read again.
    pub fn next(self, filled: usize) -> usize {
        filled - filled % self.block_bytes
    }
}

impl BlockBuffer {
    /// The memory for the blocks of `range`, with any content.
    pub fn blocks(&mut self, range: BlockRange) -> &mut [u8] {
        let bytes = range.needed().next_multiple_of(range.block_bytes);
        let with_slack = bytes + range.block_bytes - 1;
        if self.0.len() < with_slack {
            // A new one, so that nothing is copied.
            self.0 = vec![0; with_slack];
        }
        let start = self.0.as_ptr().align_offset(range.block_bytes);
        &mut self.0[start..start + bytes]
    }

    /// What a read has brought of `range`.
    pub fn wanted(&mut self, range: BlockRange) -> &[u8] {
        &self.blocks(range)[range.skipped()..range.needed()]
    }

    /// Its memory, for whoever decides whether it is kept.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

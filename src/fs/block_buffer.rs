//! [`BlockBuffer`]: memory for whole blocks of a device, for reads that bypass the system's cache.
//!
//! ```text
//!   file     │       ·      │       ·       │       ·       │      the device's blocks
//!   wanted                  ├──── range ────┤
//!   read             ├──────────────────────────────┤              whole blocks
//!   buffer   ├ slack ┤──────────────────────────────┤              at an aligned address
//! ```
//!
//! A file that is read through the system's cache counts as having blocks of one byte, so only the
//! range is read.

/// Reusable bytes at an address that the device accepts.
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

    /// Whether more than the range may be read, because blocks have more than one byte.
    pub fn is_in_blocks(self) -> bool {
        self.block_bytes > 1
    }

    /// The offset of the range's first block in the file.
    pub fn start(self) -> u64 {
        self.offset - self.skipped() as u64
    }

    /// The number of bytes before the range in its first block.
    pub fn skipped(self) -> usize {
        (self.offset % self.block_bytes as u64) as usize
    }

    /// The number of bytes from the start of the first block to the end of the range. A read that
    /// returns this many is complete, even if it returns no whole last block: the file may end
    /// within it.
    pub fn needed(self) -> usize {
        self.skipped() + self.bytes
    }

    /// The position in the buffer at which a read continues after `filled` bytes. If these bytes
    /// end within a block, the whole block is read again.
    pub fn next(self, filled: usize) -> usize {
        filled - filled % self.block_bytes
    }
}

impl BlockBuffer {
    /// The memory into which the blocks of `range` are read. Before the read, its content is
    /// arbitrary.
    pub fn blocks(&mut self, range: BlockRange) -> &mut [u8] {
        let bytes = range.needed().next_multiple_of(range.block_bytes);
        let with_slack = bytes + range.block_bytes - 1;
        if self.0.len() < with_slack {
            // A new vector, because a resized one would copy the old bytes.
            self.0 = vec![0; with_slack];
        }
        let start = self.0.as_ptr().align_offset(range.block_bytes);
        &mut self.0[start..start + bytes]
    }

    /// The bytes of `range` in the blocks that were read.
    pub fn wanted(&mut self, range: BlockRange) -> &[u8] {
        &self.blocks(range)[range.skipped()..range.needed()]
    }

    /// The size of the memory, by which callers decide whether to keep the buffer.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

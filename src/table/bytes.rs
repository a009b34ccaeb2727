//! [`BlockBytes`]: the payload of one block in memory.
//!
//! An uncompressed block is read from its file together with its trailer, by one call, and kept as
//! it was read: the payload is the front of the buffer.

use std::ops::Deref;

use crate::slice::StableBytes;

/// The payload of one block.
pub(crate) struct BlockBytes {
    buffer: Vec<u8>,
    len: usize,
}

impl BlockBytes {
    /// The first `len` bytes of `buffer`. Panics when there are fewer.
    pub fn new(buffer: Vec<u8>, len: usize) -> BlockBytes {
        assert!(len <= buffer.len());
        BlockBytes { buffer, len }
    }

    pub fn copy_from(bytes: &[u8]) -> BlockBytes {
        BlockBytes { buffer: bytes.to_vec(), len: bytes.len() }
    }

    /// Bytes of memory behind the payload.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.len()
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

//! [`BlockBytes`]: the payload of one block in memory.
//!
//! ```text
//! buffer   payload | trailer, if it was read with one | … | room
//!          ▲ a cache line starts here                      ▲ and here
//! ```
//!
//! A block that is not compressed stays in the buffer that it was read into, together with its
//! trailer: the payload is the front of the buffer. The *room* is spare memory for data derived
//! from the payload ([`super::key_heads`]). It begins at the first cache line after the payload. So
//! it may overlap the trailer, which is not needed any more once the block is checked.

use std::ops::Deref;

use crate::memory::{LINE_BYTES, LineBuf};
use crate::slice::StableBytes;

/// The payload of one block, which begins at the start of a cache line.
pub(crate) struct BlockBytes {
    buffer: LineBuf,
    len: usize,
}

// SAFETY: the buffer's allocation does not move while the buffer lives, and nothing here writes to
// the payload.
unsafe impl StableBytes for BlockBytes {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

impl BlockBytes {
    /// The first `len` bytes of `buffer`. Panics when there are fewer.
    pub fn new(buffer: LineBuf, len: usize) -> BlockBytes {
        assert!(len <= buffer.len());
        BlockBytes { buffer, len }
    }

    /// The payload, and the room after it. Writing to the room does not change the payload.
    pub fn payload_and_room(&mut self) -> (&[u8], &mut [u8]) {
        let room_start = self.room_start();
        let (front, room) = self.buffer.split_at_mut(room_start);
        (&front[..self.len], room)
    }

    /// The room after the payload.
    #[inline]
    pub fn room(&self) -> &[u8] {
        &self.buffer[self.room_start()..]
    }

    #[inline]
    fn room_start(&self) -> usize {
        self.len.next_multiple_of(LINE_BYTES).min(self.buffer.len())
    }

    #[cfg(test)]
    pub fn copy_from(bytes: &[u8]) -> BlockBytes {
        BlockBytes::new(LineBuf::copy_from(bytes), bytes.len())
    }

    /// Starts to fetch the cache line that holds byte `offset`. Any offset is allowed.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        self.buffer.prefetch(offset);
    }

    /// Bytes of memory that the payload and its room take.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.memory_bytes()
    }

    pub fn into_memory(self) -> LineBuf {
        self.buffer
    }

    /// Returns the payload in memory that has no room. Reuses the memory of this block if it is
    /// already as small as possible. Otherwise copies the payload into a buffer that `buffer`
    /// makes.
    pub fn into_exact(self, buffer: impl FnOnce(usize) -> LineBuf) -> LineBuf {
        if LineBuf::needed_bytes(self.len) == self.buffer.memory_bytes() {
            return self.buffer.reused(self.len);
        }
        let mut exact = buffer(self.len);
        exact.copy_from_slice(&self);
        exact
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

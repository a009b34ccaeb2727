//! [`ReadBuffer`]: memory that the caller passes to a read, and gets back with the bytes.
//!
//! ```text
//!   ReadBuffer ─► ReadRequest ─► the kernel, or a thread ─► done(number, Ok(ReadBuffer))
//! ```
//!
//! The reader owns the memory during the read, so no other code can free it while the kernel writes
//! to it. The bytes keep their address when the `ReadBuffer` moves, so a block is read directly
//! into the memory in which the block cache keeps it.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::memory::LineBuf;

/// Memory for the bytes of one range of a file. A read takes it empty and returns it filled.
pub struct ReadBuffer {
    memory: LineBuf,
    /// The length of the range, whose bytes are at the start of `memory`.
    bytes: usize,
}

impl ReadBuffer {
    /// Memory for a range of `bytes` bytes. It holds zeros until the range is read.
    pub fn new(bytes: usize) -> ReadBuffer {
        ReadBuffer::in_front_of(LineBuf::zeroed(bytes), bytes)
    }

    /// A buffer that uses the first `bytes` bytes of `memory`, which is at least that long.
    pub(crate) fn in_front_of(memory: LineBuf, bytes: usize) -> ReadBuffer {
        debug_assert!(bytes <= memory.len());
        ReadBuffer { memory, bytes }
    }

    /// All of the memory.
    pub(crate) fn into_memory(self) -> LineBuf {
        self.memory
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.bytes]
    }
}

impl DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.bytes]
    }
}

impl fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBuffer").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

//! [`LineBuf`]: memory in whole cache lines.
//!
//! A filter promises that one probe costs one cache line. That holds only when its 64-byte lines
//! are the processor's, so the bytes must start at a multiple of 64.
//!
//! ```text
//! |<------------- len ------------->|<-- zero bytes: at least TAIL_BYTES -->|
//! ^ address: a multiple of 64                       end: a multiple of 64 ->|
//! ```
//!
//! The memory is the global allocator's, or lent by somebody who knows a better one ([`LineLender`]).
//!
//! Invariants: the memory is aligned to 64 bytes and wholly initialised. It may be **read** up to
//! [`TAIL_BYTES`] past `len`, so a vector load that starts inside the payload stays inside memory we
//! own. Nothing here decodes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::prefetch::prefetch;

/// Bytes of a cache line, here and in RocksDB's filters.
pub(crate) const LINE_BYTES: usize = 64;

/// Bytes after the payload that may be read: one full vector register.
pub(crate) const TAIL_BYTES: usize = 64;

/// Memory that is lent to buffers.
pub(crate) trait LineLender: Send + Sync {
    /// Takes back the `bytes` bytes from `start` on.
    ///
    /// # Safety
    ///
    /// They were lent to a [`LineBuf`], and it is gone.
    unsafe fn take_back(&self, start: NonNull<u8>, bytes: usize);
}

/// Bytes that start at a cache line, with a readable tail.
pub(crate) struct LineBuf {
    start: NonNull<u8>,
    len: usize,
    /// `None`: the memory is the global allocator's.
    lender: Option<Arc<dyn LineLender>>,
}

// SAFETY: a `LineBuf` owns its bytes alone, as a `Box<[u8]>` does.
unsafe impl Send for LineBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for LineBuf {}

impl LineBuf {
    fn layout(len: usize) -> Layout {
        let bytes =
            len.checked_add(TAIL_BYTES).and_then(|n| n.checked_next_multiple_of(LINE_BYTES));
        bytes
            .and_then(|n| Layout::from_size_align(n, LINE_BYTES).ok())
            .expect("a buffer is smaller than the address space")
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> LineBuf {
        let layout = Self::layout(len);
        // SAFETY: the layout has at least TAIL_BYTES bytes, so its size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        LineBuf { start, len, lender: None }
    }

    /// A buffer in memory that `lender` takes back.
    ///
    /// # Safety
    ///
    /// `start` is a multiple of [`LINE_BYTES`], and the [`LineBuf::needed_bytes`] bytes from it on are
    /// initialised and the buffer's alone until `lender` has them back.
    pub unsafe fn lent(start: NonNull<u8>, len: usize, lender: Arc<dyn LineLender>) -> LineBuf {
        // SAFETY: within what was lent.
        unsafe { start.add(len).write_bytes(0, Self::needed_bytes(len) - len) };
        LineBuf { start, len, lender: Some(lender) }
    }

    /// Bytes of memory that a buffer of `len` bytes takes, tail included.
    pub fn needed_bytes(len: usize) -> usize {
        Self::layout(len).size()
    }

    /// A copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> LineBuf {
        let mut buffer = LineBuf::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Bytes of memory behind the buffer, tail included: what a cache charges.
    pub fn memory_bytes(&self) -> usize {
        Self::needed_bytes(self.len)
    }

    /// Starts to fetch the line that holds byte `offset`. Any offset is allowed.
    #[inline(always)]
    pub fn prefetch(&self, offset: usize) {
        prefetch(self.start.as_ptr().wrapping_add(offset));
    }
}

impl Deref for LineBuf {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` owns at least `len` initialised bytes, and nobody writes while they are
        // shared.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for LineBuf {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for LineBuf {
    fn drop(&mut self) {
        match &self.lender {
            // SAFETY: `zeroed` allocated `start` with the layout of the same length.
            None => unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) },
            // SAFETY: the lender lent it for the same length, and nobody has it any more.
            Some(lender) => unsafe { lender.take_back(self.start, self.memory_bytes()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_aligned_and_has_its_tail() {
        for len in [0, 1, 63, 64, 65, 4096, 4101] {
            let buffer = LineBuf::copy_from(&vec![7; len]);
            assert_eq!(buffer.as_ptr() as usize % LINE_BYTES, 0);
            assert_eq!(&*buffer, vec![7; len]);
            assert!(buffer.memory_bytes() >= len + TAIL_BYTES);
            // SAFETY: the test of the promise that the tail may be read.
            let tail = unsafe { std::slice::from_raw_parts(buffer.as_ptr().add(len), TAIL_BYTES) };
            assert_eq!(tail, [0; TAIL_BYTES]);
            buffer.prefetch(usize::MAX);
        }
    }
}

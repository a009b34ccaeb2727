//! [`LineBuf`]: memory in whole cache lines.
//!
//! A Bloom filter's query reads one 64-byte line of the filter. If the filter did not start at an
//! address that is a multiple of 64, each of its lines would overlap two lines of the processor's
//! cache, and a query would cost two cache misses instead of one.
//!
//! ```text
//! |<------------------ len ------------------>|<-- 0 to 63 unused bytes -->|
//! ^ address: a multiple of 64                      end: a multiple of 64 ->|
//! ```
//!
//! The memory comes from the global allocator or from a [`LineLender`].
//!
//! Invariants: the memory is aligned to 64 bytes and wholly initialised. It has at least one line.

use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::prefetch::prefetch;

/// Bytes of a cache line, as most processors have them and as RocksDB's filters assume.
pub const LINE_BYTES: usize = 64;

/// The owner of memory that a [`LineBuf`] borrows. It gets the memory back when the buffer is
/// dropped.
pub trait LineLender: Send + Sync {
    /// Takes back the memory of a dropped buffer. `buffer` no longer has a lender.
    fn take_back(&self, buffer: LineBuf);
}

/// Bytes that start at a cache line.
///
/// ```
/// use std::io::Read;
///
/// use maypole_filter::memory::{LINE_BYTES, LineBuf};
///
/// let stored = [7; 100];
/// let mut memory = LineBuf::zeroed(stored.len());
/// (&stored[..]).read_exact(&mut memory)?; // as from a file
/// assert_eq!(memory.as_ptr().addr() % LINE_BYTES, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct LineBuf {
    start: NonNull<u8>,
    len: usize,
    /// `None` if the memory is the global allocator's.
    lender: Option<Arc<dyn LineLender>>,
}

// SAFETY: a `LineBuf` owns its bytes alone, as a `Box<[u8]>` does.
unsafe impl Send for LineBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for LineBuf {}

impl LineBuf {
    #[inline]
    fn layout(len: usize) -> Layout {
        len.max(1)
            .checked_next_multiple_of(LINE_BYTES)
            .and_then(|n| Layout::from_size_align(n, LINE_BYTES).ok())
            .expect("a buffer is smaller than the address space")
    }

    /// A buffer of `len` zero bytes.
    #[inline]
    pub fn zeroed(len: usize) -> LineBuf {
        let layout = Self::layout(len);
        // SAFETY: the layout has at least one line, so its size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        LineBuf { start, len, lender: None }
    }

    /// A buffer in the lender's memory.
    ///
    /// # Safety
    ///
    /// `start` is a multiple of [`LINE_BYTES`]. From `start` on, [`LineBuf::needed_bytes`] bytes
    /// are initialised and belong to the buffer alone, until it is dropped and `lender` takes them
    /// back. The lender does not drop a buffer that it takes back, because that would free the
    /// memory, but calls [`LineBuf::into_raw`].
    #[inline]
    pub unsafe fn lent(start: NonNull<u8>, len: usize, lender: Arc<dyn LineLender>) -> LineBuf {
        LineBuf { start, len, lender: Some(lender) }
    }

    /// Turns the buffer into one of `len` bytes, in the same memory. The content is unspecified.
    ///
    /// Panics if a buffer of `len` bytes needs more or less memory.
    #[inline]
    pub fn reused(mut self, len: usize) -> LineBuf {
        assert_eq!(Self::needed_bytes(len), self.memory_bytes(), "memory of another size");
        self.len = len;
        self
    }

    /// Gives up the memory without freeing it. Returns its start and size to the caller, which then
    /// owns it.
    ///
    /// Panics if the buffer has a lender.
    #[inline]
    pub fn into_raw(self) -> (NonNull<u8>, usize) {
        assert!(self.lender.is_none(), "memory has one lender");
        let buffer = ManuallyDrop::new(self);
        (buffer.start, buffer.memory_bytes())
    }

    /// A pointer to the first byte, for callers that store values other than bytes here.
    #[doc(hidden)]
    #[inline(always)]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of memory that a buffer of `len` bytes takes.
    #[inline]
    pub fn needed_bytes(len: usize) -> usize {
        Self::layout(len).size()
    }

    /// A copy of `bytes`.
    #[inline]
    pub fn copy_from(bytes: &[u8]) -> LineBuf {
        let mut buffer = LineBuf::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Bytes of memory that the buffer takes. A cache counts them towards its capacity.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        // This cannot overflow, because `layout` checked it when the buffer was created.
        self.len.max(1).next_multiple_of(LINE_BYTES)
    }

    /// Requests that the processor load the cache line of byte `offset`. Any offset is allowed,
    /// even one past the end.
    #[inline(always)]
    pub fn prefetch(&self, offset: usize) {
        prefetch(self.start.as_ptr().wrapping_add(offset));
    }
}

impl Deref for LineBuf {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` owns at least `len` initialised bytes, which are not written while they
        // are shared.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for LineBuf {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for LineBuf {
    #[inline]
    fn drop(&mut self) {
        match self.lender.take() {
            // SAFETY: `zeroed` allocated `start` with a layout of the same size.
            None => unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) },
            Some(lender) => {
                lender.take_back(LineBuf { start: self.start, len: self.len, lender: None });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_aligned_and_takes_as_few_lines_as_it_can() {
        for (len, lines) in [(0, 1), (1, 1), (63, 1), (64, 1), (65, 2), (4096, 64), (4101, 65)] {
            let buffer = LineBuf::copy_from(&vec![7; len]);
            assert_eq!(buffer.as_ptr() as usize % LINE_BYTES, 0);
            assert_eq!(&*buffer, vec![7; len]);
            assert_eq!(buffer.memory_bytes(), lines * LINE_BYTES);
            buffer.prefetch(usize::MAX);
        }
    }

    #[test]
    fn a_buffer_is_used_again_for_any_length_of_as_many_lines() {
        let mut first = LineBuf::zeroed(4_032);
        first.fill(0xff);
        let again = first.reused(3_990).reused(4_032);
        assert_eq!(*again, [0xff; 4_032]);
    }

    #[test]
    #[should_panic(expected = "memory of another size")]
    fn a_buffer_is_not_used_again_for_more_than_it_has() {
        drop(LineBuf::zeroed(100).reused(4_000));
    }
}

//! [`RecycledBuffers`]: the memory of blocks that left, kept for those that come.
//!
//! A miss of a full cache needs memory for one block, and what it displaces frees as much. Between the
//! two a general allocator joins neighbours and parts them again, on lines that no processor cache
//! holds, and the new memory is cleared: a fifth of what the miss costs. Here it is a push and a pop.
//!
//! ```text
//! buffer ◄── the spare of that size that came last, else the global allocator
//! drop   ──► the recycled; where they are too many, the oldest goes back
//! ```
//!
//! For caches without a [`pool`](super::pool), which must get neighbours back together to give its pages
//! back.
//!
//! Invariants:
//! - A spare piece is nobody's, is initialised, and came from the global allocator.
//! - `unused_bytes` are those of all recycled, and never exceed the limit.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::{LINE_BYTES, LineBuf, LineLender, prefetch};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// See the module.
pub(super) struct RecycledBuffers {
    limit_bytes: usize,
    unused_bytes: AtomicUsize,
    /// In the order they came.
    pieces: Mutex<VecDeque<Piece>>,
}

struct Piece {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a spare piece is nobody's but the list's.
unsafe impl Send for Piece {}

impl RecycledBuffers {
    /// At most `limit_bytes` are spare at one time.
    pub fn new(limit_bytes: usize) -> Arc<RecycledBuffers> {
        let (unused_bytes, pieces) = (AtomicUsize::new(0), Mutex::new(VecDeque::new()));
        Arc::new(RecycledBuffers { limit_bytes, unused_bytes, pieces })
    }

    /// Bytes that are held for nothing.
    pub fn unused_bytes(&self) -> usize {
        self.unused_bytes.load(Ordering::Relaxed)
    }

    /// A buffer of `len` bytes, whatever they hold.
    pub fn buffer(self: &Arc<RecycledBuffers>, len: usize) -> LineBuf {
        let bytes = LineBuf::needed_bytes(len);
        let start = self.take(bytes).unwrap_or_else(|| allocate(bytes));
        // SAFETY: a spare, or new: this buffer's alone, initialised, and of the right size and place.
        unsafe { LineBuf::lent(start, len, Arc::<RecycledBuffers>::clone(self)) }
    }

    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let mut pieces = lock(&self.pieces);
        // Blocks have few different sizes, so this ends soon.
        let i = pieces.iter().rposition(|piece| piece.bytes == bytes)?;
        let piece = pieces.remove(i)?;
        self.unused_bytes.fetch_sub(bytes, Ordering::Relaxed);
        // The next buffer's tail is cleared before anything else is written.
        if let Some(next) = pieces.back() {
            let end = next.start.as_ptr().wrapping_add(next.bytes);
            prefetch(end.wrapping_sub(1));
            prefetch(end.wrapping_sub(LINE_BYTES + 1));
        }
        Some(piece.start)
    }
}

impl LineLender for RecycledBuffers {
    unsafe fn take_back(&self, start: NonNull<u8>, bytes: usize) {
        let piece = Piece { start, bytes };
        if bytes > self.limit_bytes {
            // SAFETY: `buffer` lent it, and nobody has it any more.
            return unsafe { piece.release() };
        }
        let mut pieces = lock(&self.pieces);
        while self.unused_bytes.load(Ordering::Relaxed) + bytes > self.limit_bytes
            && let Some(oldest) = pieces.pop_front()
        {
            self.unused_bytes.fetch_sub(oldest.bytes, Ordering::Relaxed);
            // SAFETY: a spare piece, which is in no list any more.
            unsafe { oldest.release() };
        }
        self.unused_bytes.fetch_add(bytes, Ordering::Relaxed);
        pieces.push_back(piece);
    }
}

impl Drop for RecycledBuffers {
    fn drop(&mut self) {
        for piece in std::mem::take(&mut *lock(&self.pieces)) {
            // SAFETY: a spare piece, which is in no list any more.
            unsafe { piece.release() };
        }
    }
}

impl Piece {
    /// # Safety
    ///
    /// [`allocate`] made it, and it is nobody's.
    unsafe fn release(self) {
        // SAFETY: by the caller's promise; the layout is that of `allocate`.
        unsafe { dealloc(self.start.as_ptr(), layout(self.bytes)) }
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, LINE_BYTES).expect("a buffer is smaller than the address space")
}

/// A new piece, of zeros.
fn allocate(bytes: usize) -> NonNull<u8> {
    let layout = layout(bytes);
    // SAFETY: a buffer needs its tail at least, so the size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn recycled() -> Arc<RecycledBuffers> {
        RecycledBuffers::new(10_000)
    }

    #[test]
    fn the_memory_of_a_dropped_buffer_is_the_next_one_of_its_size() {
        let recycled = recycled();
        let (small, large) = (recycled.buffer(100), recycled.buffer(4_000));
        let place = large.as_ptr();
        drop((large, small));
        assert_eq!(
            recycled.unused_bytes(),
            LineBuf::needed_bytes(100) + LineBuf::needed_bytes(4_000)
        );
        let mut again = recycled.buffer(4_010);
        assert_eq!((again.as_ptr(), again.len()), (place, 4_010));
        assert_eq!(recycled.unused_bytes(), LineBuf::needed_bytes(100));
        again.fill(0xff);
        // Whatever a buffer held, the tail of the next one is zeros.
        drop(again);
        let shorter = recycled.buffer(3_990);
        assert_eq!(shorter.as_ptr(), place);
        let tail_bytes = LineBuf::needed_bytes(3_990) - 3_990;
        // SAFETY: the buffer's own tail, which may be read.
        let tail = unsafe { std::slice::from_raw_parts(place.add(3_990), tail_bytes) };
        assert!(tail.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn spares_stay_within_their_limit_and_the_oldest_goes_first() {
        let recycled = recycled();
        let buffers: Vec<_> = (1..9).map(|i| recycled.buffer(i * 500)).collect();
        let places: Vec<_> = buffers.iter().map(|buffer| (buffer.as_ptr(), buffer.len())).collect();
        for buffer in buffers {
            drop(buffer);
            assert!(recycled.unused_bytes() <= 10_000);
        }
        let (place, len) = places[7];
        assert_eq!(recycled.buffer(len).as_ptr(), place);
        assert!(
            lock(&recycled.pieces)
                .iter()
                .all(|piece| piece.start.as_ptr().cast_const() != places[0].0)
        );
        drop(recycled.buffer(20_000));
        assert!(recycled.unused_bytes() <= 10_000);
    }

    #[test]
    fn a_buffer_outlives_its_cache() {
        let recycled = recycled();
        let mut buffer = recycled.buffer(100);
        drop(recycled);
        buffer.fill(7);
        assert_eq!(buffer[..], [7; 100]);
    }
}

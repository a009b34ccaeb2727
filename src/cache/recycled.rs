//! [`RecycledBuffers`]: buffers of evicted blocks, kept for the next blocks.
//!
//! A miss of a full cache needs memory for one block, and the block that it evicts frees as much. A
//! general allocator would join the freed memory with its neighbours and split it again, on lines
//! that no processor cache holds, and it would clear the new memory: a fifth of the cost of a miss.
//! Here it is a push and a pop.
//!
//! ```text
//! buffer ◄── the last unused buffer of that size, else the global allocator
//! drop   ──► the unused buffers; above the limit the oldest is freed
//! ```
//!
//! For caches without a [`pool`](super::pool). A pool must join free neighbours to give whole pages
//! back.
//!
//! Invariant: `unused_bytes` is the memory of all unused buffers, and never exceeds the limit.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::{LINE_BYTES, LineBuf, LineLender};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// See the module.
pub(super) struct RecycledBuffers {
    limit_bytes: usize,
    unused_bytes: AtomicUsize,
    /// The oldest first.
    unused: Mutex<VecDeque<Unused>>,
}

struct Unused {
    memory_bytes: usize,
    buffer: LineBuf,
}

impl RecycledBuffers {
    /// At most `limit_bytes` are unused at one time.
    pub fn new(limit_bytes: usize) -> Arc<RecycledBuffers> {
        let (unused_bytes, unused) = (AtomicUsize::new(0), Mutex::new(VecDeque::new()));
        Arc::new(RecycledBuffers { limit_bytes, unused_bytes, unused })
    }

    /// Memory of buffers that nobody uses.
    pub fn unused_bytes(&self) -> usize {
        self.unused_bytes.load(Ordering::Relaxed)
    }

    /// A buffer of `len` bytes, whatever they hold.
    pub fn buffer(self: &Arc<RecycledBuffers>, len: usize) -> LineBuf {
        let lender = Arc::<RecycledBuffers>::clone(self);
        match self.take(LineBuf::needed_bytes(len)) {
            Some(buffer) => buffer.reused(len, lender),
            None => LineBuf::zeroed(len).returned_to(lender),
        }
    }

    fn take(&self, memory_bytes: usize) -> Option<LineBuf> {
        let mut unused = lock(&self.unused);
        // Blocks have few different sizes, so this ends soon.
        let i = unused.iter().rposition(|unused| unused.memory_bytes == memory_bytes)?;
        let is_last = i + 1 == unused.len();
        let taken = if is_last { unused.pop_back()? } else { unused.remove(i)? };
        // Written under the mutex only, so a plain store will do.
        self.unused_bytes.store(self.unused_bytes() - memory_bytes, Ordering::Relaxed);
        // The tail of the next buffer is the first of it that will be written.
        if let Some(next) = unused.back() {
            next.buffer.prefetch(next.memory_bytes - 1);
            next.buffer.prefetch(next.memory_bytes.saturating_sub(LINE_BYTES + 1));
        }
        Some(taken.buffer)
    }
}

impl LineLender for RecycledBuffers {
    fn take_back(&self, buffer: LineBuf) {
        let memory_bytes = buffer.memory_bytes();
        if memory_bytes > self.limit_bytes {
            return;
        }
        let mut unused = lock(&self.unused);
        let mut unused_bytes = self.unused_bytes() + memory_bytes;
        while unused_bytes > self.limit_bytes
            && let Some(oldest) = unused.pop_front()
        {
            unused_bytes -= oldest.memory_bytes;
        }
        self.unused_bytes.store(unused_bytes, Ordering::Relaxed);
        unused.push_back(Unused { memory_bytes, buffer });
    }
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
        let address = large.as_ptr();
        drop((large, small));
        let all_bytes = LineBuf::needed_bytes(100) + LineBuf::needed_bytes(4_000);
        assert_eq!(recycled.unused_bytes(), all_bytes);
        let mut again = recycled.buffer(4_010);
        assert_eq!((again.as_ptr(), again.len()), (address, 4_010));
        assert_eq!(recycled.unused_bytes(), LineBuf::needed_bytes(100));
        again.fill(0xff);
        drop(again);
        assert_eq!(recycled.buffer(3_990).as_ptr(), address);
    }

    #[test]
    fn unused_buffers_stay_within_their_limit_and_the_oldest_goes_first() {
        let recycled = recycled();
        let buffers: Vec<_> = (1..9).map(|i| recycled.buffer(i * 500)).collect();
        let known: Vec<_> = buffers.iter().map(|buffer| (buffer.as_ptr(), buffer.len())).collect();
        for buffer in buffers {
            drop(buffer);
            assert!(recycled.unused_bytes() <= 10_000);
        }
        let (address, len) = known[7];
        assert_eq!(recycled.buffer(len).as_ptr(), address);
        let is_first = |unused: &Unused| unused.buffer.as_ptr() == known[0].0;
        assert!(!lock(&recycled.unused).iter().any(is_first));
        drop(recycled.buffer(20_000));
        assert!(recycled.unused_bytes() <= 10_000);
    }

    /// The slots of an index without blocks take no bytes: their buffer was shorter than the two lines
    /// that are fetched of the next buffer.
    #[test]
    fn buffers_without_bytes_are_kept_like_others() {
        let recycled = recycled();
        drop([recycled.buffer(0), recycled.buffer(0)]);
        let address = recycled.buffer(0).as_ptr();
        assert_eq!(recycled.buffer(0).as_ptr(), address);
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

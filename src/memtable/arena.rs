//! The memory of a skip list: allocated piece by piece, freed all at once. A *piece* is the memory
//! of one node.
//!
//! ```text
//! chunks   [ head ][ 1 KiB ][  2 KiB  ] … [ largest ][ largest ]      [ one large piece ]
//!          └─── from the allocator ─────┘ └ from large pages ┘▲
//!                                            Bump: next ──────┘
//! ```
//!
//! The first piece, the head of the list, has a chunk of its own size, so that a database of ten
//! thousand empty lists is small. Later chunks double until they reach the largest size, so that a
//! small list stays small, and a large one rarely calls the allocator. A piece that does not fit into
//! the current chunk starts the next chunk, which leaves the end of the current one unused. To limit
//! this waste, such a piece gets a chunk of its own if it is larger than a quarter of the largest
//! chunk.
//!
//! An arena that is expected to fill several large pages ([`crate::memory::large_pages`]) puts its
//! largest chunks next to each other in such pages, because a search of the list has many cache
//! misses, and each takes less time in large pages.
//!
//! Invariants: a piece never moves and is valid until the [`Arena`] is dropped; pieces are
//! disjoint; every piece is aligned to [`ALIGNMENT`]. [`Arena::allocated_bytes`] is the sum of the
//! sizes of all chunks.
//!
//! One reservation of addresses for the whole arena, without chunks, was rejected. It would have to
//! be large enough for the largest possible write batch, and a small list would take a large page.
//! With chunks, memory beyond the reserved pages comes from the allocator.
//!
//! Absent on purpose: freeing a piece. The list only grows.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::memory::large_pages::{LARGE_PAGE_BYTES, LargePages};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock, rank};

/// Every piece starts at a multiple of this many bytes.
pub(super) const ALIGNMENT: usize = size_of::<Word>();

/// The smallest chunk that several pieces share.
const FIRST_CHUNK_BYTES: usize = 1 << 10;
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Arenas that are expected to stay smaller than this use no large pages, because the unused part
/// of the last page might be a large share of the arena.
const MIN_IN_LARGE_PAGES: usize = 4 * LARGE_PAGE_BYTES;

/// Chunks are made of words, which aligns them.
type Word = u64;

/// Owns the chunks. All readers share it with the one writer, which holds the [`Bump`].
pub(super) struct Arena {
    /// Locked when a chunk is added, and by [`Arena::holds`].
    chunks: Mutex<Chunks, rank::ArenaChunks>,
    allocated_bytes: AtomicUsize,
}

#[derive(Default)]
struct Chunks {
    /// Raw pointers, because moving a box would invalidate pointers into it.
    boxes: Vec<NonNull<[MaybeUninit<Word>]>>,
    large: Option<LargePages>,
    /// Bytes of `large` that are allocated.
    large_used: usize,
}

// SAFETY: the arena itself never reads or writes what its chunks hold; it only frees them.
unsafe impl Send for Arena {}
// SAFETY: as above; the list of chunks is behind a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    pub fn new() -> Arena {
        Arena { chunks: Mutex::new(Chunks::default()), allocated_bytes: AtomicUsize::new(0) }
    }

    /// Bytes of all chunks, their unused tails included.
    pub fn allocated_bytes(&self) -> usize {
        self.allocated_bytes.load(Ordering::Relaxed)
    }

    /// Whether the address lies in one of the chunks or in the reserved large pages.
    pub fn holds(&self, address: usize) -> bool {
        let chunks = lock(&self.chunks);
        let large =
            chunks.large.as_ref().map(|large| (large.start().as_ptr().addr(), large.bytes()));
        let boxes = chunks
            .boxes
            .iter()
            .map(|chunk| (chunk.as_ptr().cast::<u8>().addr(), chunk.len() * ALIGNMENT));
        boxes.chain(large).any(|(start, bytes)| address.wrapping_sub(start) < bytes)
    }

    fn new_chunk(&self, bytes: usize) -> (*mut u8, usize) {
        let words = bytes.div_ceil(ALIGNMENT);
        let chunk = NonNull::from(Box::leak(Box::new_uninit_slice(words)));
        lock(&self.chunks).boxes.push(chunk);
        self.allocated_bytes.fetch_add(words * ALIGNMENT, Ordering::Relaxed);
        (chunk.as_ptr().cast(), words * ALIGNMENT)
    }

    /// A chunk of at least `bytes` in large pages. The first call reserves pages for `arena_bytes`.
    /// `None` if that fails, or if the rest of the pages is smaller than the chunk.
    fn new_large_chunk(&self, bytes: usize, arena_bytes: usize) -> Option<(*mut u8, usize)> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let mut chunks = lock(&self.chunks);
        let Chunks { large, large_used, .. } = &mut *chunks;
        if large.is_none() {
            *large = LargePages::reserve(arena_bytes);
        }
        let large = large.as_ref()?;
        if bytes > large.bytes() - *large_used {
            return None;
        }
        let start = large.start().as_ptr().wrapping_add(*large_used);
        *large_used += bytes;
        self.allocated_bytes.fetch_add(bytes, Ordering::Relaxed);
        Some((start, bytes))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in lock(&self.chunks).boxes.drain(..) {
            // SAFETY: the pointer came from a leaked box, and leaves the list of chunks here.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

/// Allocates the pieces of an arena, one after the other.
pub(super) struct Bump {
    next: *mut u8,
    left_bytes: usize,
    /// 0 before the first chunk.
    next_chunk_bytes: usize,
    largest_chunk_bytes: usize,
    /// Bytes to reserve in large pages; 0 for none.
    large_bytes: usize,
}

// SAFETY: a `Bump` is the only handle on the unused rest of its chunk, like a `Vec` on its memory.
unsafe impl Send for Bump {}

impl Bump {
    /// A `Bump` for an arena that is expected to grow to `arena_bytes`. The largest chunk that
    /// several pieces share has 1/64 of `arena_bytes`, but at least 1 KiB and at most 1 MiB, which
    /// bounds the unused memory.
    pub fn new(arena_bytes: usize) -> Bump {
        Bump {
            next: std::ptr::null_mut(),
            left_bytes: 0,
            next_chunk_bytes: 0,
            largest_chunk_bytes: (arena_bytes / 64).clamp(FIRST_CHUNK_BYTES, MAX_CHUNK_BYTES),
            large_bytes: if arena_bytes < MIN_IN_LARGE_PAGES { 0 } else { arena_bytes },
        }
    }

    /// Allocates `bytes` of uninitialised memory that have no other owner while `arena` lives.
    #[inline]
    pub fn allocate(&mut self, arena: &Arena, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes > self.left_bytes {
            if bytes > self.largest_chunk_bytes / 4 {
                return arena.new_chunk(bytes).0;
            }
            let chunk_bytes = match self.next_chunk_bytes {
                0 => bytes,
                next => next.max(4 * bytes),
            };
            let doubled = 2 * chunk_bytes;
            self.next_chunk_bytes = doubled.clamp(FIRST_CHUNK_BYTES, self.largest_chunk_bytes);
            (self.next, self.left_bytes) = self.new_chunk(arena, chunk_bytes);
        }
        let piece = self.next;
        self.left_bytes -= bytes;
        // SAFETY: `next` has `left_bytes` of its chunk after it, and `bytes` is no more than that.
        self.next = unsafe { piece.add(bytes) };
        piece
    }

    fn new_chunk(&mut self, arena: &Arena, bytes: usize) -> (*mut u8, usize) {
        if self.large_bytes > 0 && bytes >= self.largest_chunk_bytes {
            if let Some(chunk) = arena.new_large_chunk(bytes, self.large_bytes) {
                return chunk;
            }
            self.large_bytes = 0;
        }
        arena.new_chunk(bytes)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Fills each of many pieces of different sizes with its number, then looks for pieces that
    /// were overwritten.
    #[test]
    fn pieces_are_aligned_and_disjoint_and_the_account_is_the_sum_of_the_chunks() {
        for arena_bytes in [0, 1 << 20, 8 << 20, usize::MAX] {
            let arena = Arena::new();
            let mut bump = Bump::new(arena_bytes);
            let mut pieces = Vec::new();
            let mut asked = 0;
            for i in 0..3000usize {
                let bytes = match i % 100 {
                    0 => 5000 + i,
                    7 => 0,
                    _ => i * 31 % 600,
                };
                let piece = bump.allocate(&arena, bytes);
                assert_eq!(piece as usize % ALIGNMENT, 0);
                // SAFETY: the piece has `bytes` bytes.
                unsafe { piece.write_bytes(i as u8, bytes) };
                pieces.push((piece, bytes));
                asked += bytes;
            }
            for (i, &(piece, bytes)) in pieces.iter().enumerate() {
                // SAFETY: the piece was written above, and the arena is alive.
                let held = unsafe { std::slice::from_raw_parts(piece, bytes) };
                assert!(held.iter().all(|&byte| byte == i as u8), "piece {i} was trampled");
            }
            let chunks: usize = {
                let chunks = lock(&arena.chunks);
                assert_eq!(
                    chunks.large_used > 0,
                    cfg!(target_os = "linux") && arena_bytes == 8 << 20
                );
                chunks.boxes.iter().map(|c| c.len() * ALIGNMENT).sum::<usize>() + chunks.large_used
            };
            assert_eq!(arena.allocated_bytes(), chunks);
            assert!(asked <= chunks && chunks < 2 * asked, "{asked} asked, {chunks} allocated");
        }
    }

    #[test]
    fn what_exceeds_the_large_pages_comes_from_the_allocator() {
        let arena = Arena::new();
        let mut bump = Bump::new(MIN_IN_LARGE_PAGES);
        let pieces: Vec<_> = (0..3 * MIN_IN_LARGE_PAGES / 10_000)
            .map(|i| {
                let piece = bump.allocate(&arena, 10_000);
                // SAFETY: the piece has 10,000 bytes.
                unsafe { piece.write_bytes(i as u8, 10_000) };
                piece
            })
            .collect();
        for (i, &piece) in pieces.iter().enumerate() {
            // SAFETY: the piece was written above, and the arena is alive.
            let held = unsafe { std::slice::from_raw_parts(piece, 10_000) };
            assert!(held.iter().all(|&byte| byte == i as u8), "piece {i} was trampled");
        }
        assert!(arena.allocated_bytes() > 3 * MIN_IN_LARGE_PAGES);
    }

    #[test]
    fn an_arena_starts_small_whatever_it_may_become() {
        let arena = Arena::new();
        assert_eq!(arena.allocated_bytes(), 0);
        let mut bump = Bump::new(1 << 30);
        bump.allocate(&arena, 104);
        assert_eq!(arena.allocated_bytes(), 104);
        bump.allocate(&arena, 104);
        assert_eq!(arena.allocated_bytes(), 104 + FIRST_CHUNK_BYTES);
    }
}

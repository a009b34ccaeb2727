//! [`MissBuffers`]: where a cache miss leaves its new block, and takes the memory of evicted
//! blocks, mostly without the cache's mutex. Each miss buffer serves some of the threads.
//!
//! ```text
//!            miss buffer of some threads
//!   fresh    [ d e f · · · ]  ── all at once, under the cache's mutex ──►  rings
//!   spare    [ x y z · · · ]  ◄── values that no reader reaches ───────────  garbage
//!   buffers  [ ░ ░ ░ ]        the memory of spare values, for the next blocks
//! ```
//!
//! A miss in a full cache adds one block and evicts another. If each miss did this under the
//! cache's mutex, it would write a dozen cache lines that the previous miss has also written,
//! mostly on another processor. Moving each line from that processor costs as much as a memory
//! access. The lines of a miss buffer stay on the processors of its threads, and most misses do not
//! take the mutex.
//!
//! Rejected: a cache sharded by key, because all processors would write to every shard; and a shard
//! for each processor, because each shard would have to lend its unused capacity to the others.
//!
//! Each miss buffer also keeps the memory of evicted blocks in a list, from which the next blocks
//! take it. A general allocator would merge this memory with adjacent free memory, split it again,
//! and clear it.
//!
//! Invariants:
//! - A *fresh* value, which is new and still in a miss buffer, is in its slot, but in no ring, so
//!   it cannot be evicted. A miss buffer is emptied before the slots of its values are freed.
//! - The fresh values of a miss buffer take at most [`MissBuffers::room_bytes`]. A miss buffer is
//!   *open*, that is, takes new values, unless pinned values leave too little room. For each open
//!   miss buffer, the cache keeps `room_bytes` free.
//! - `unused_bytes` is the memory of the `spare` values and the `buffers` (see above) of one miss
//!   buffer.
//! - A miss buffer's lock is taken before the cache's mutex, never under the mutex. Data blocks may
//!   be freed under the miss buffer's lock, but no index, whose slots take the cache's mutex.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::LineBuf;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, Padded, lock, rank, thread_index};

use super::kind::BlockKind;
use super::ring::{CacheEntry, Header, prefetch_entry};

/// A value goes through a miss buffer only if at least this many values of its size fit into it.
/// With fewer, misses would take the mutex nearly as often as without a miss buffer.
const MIN_VALUES: usize = 4;

/// The fresh values of all miss buffers together take at most 1/64 of the capacity.
const MAX_SHARE: usize = 64;

const MAX_ROOM_BYTES: usize = 64 << 10;
const MAX_MISS_BUFFERS: usize = if cfg!(loom) { 2 } else { 64 };

/// The limit for the unused buffers of one miss buffer, and for its spare values, as a multiple of
/// `room_bytes`. It is above 1, because blocks have several sizes, and because a batch of lookups
/// takes many buffers at a time.
const UNUSED_PER_ROOM: usize = 4;
/// The least value of the limit of [`UNUSED_PER_ROOM`]: enough for a few blocks. Only a small cache
/// has a lower limit, so that the unused buffers of all miss buffers take at most 1/16 of the
/// capacity, and so do all spare values.
const MIN_UNUSED_BYTES: usize = 16 << 10;

/// Where metadata fills the cache, memory is better used for parts. There a miss buffer frees its
/// oldest unused buffer once this many values in a row took the newest one: they need no other.
const TAKES_OF_NEWEST: u8 = 8;

/// The size of a *portion*, in bytes. Evicted values are retired together once they exceed a
/// portion, and the garbage is collected once it exceeds a portion. A larger portion would take
/// more of the capacity, and its memory would no longer be in the processor's caches when it is
/// reused. A smaller one would be collected too often.
pub(super) fn portion_bytes(capacity_bytes: usize) -> usize {
    (capacity_bytes / 512).clamp(2 << 10, 512 << 10)
}

/// All miss buffers of a cache.
pub(super) struct MissBuffers {
    room_bytes: usize,
    /// See [`MissBuffers::most_unused_bytes`]: the limit where metadata does not fill the cache.
    usual_unused_bytes: usize,
    /// The limit where it does: 1/64 of a large capacity for all miss buffers together.
    lean_unused_bytes: usize,
    /// Whether metadata fills the cache.
    metadata_fills: AtomicBool,
    /// The miss buffers; their number is a power of two.
    each: Box<[Padded<MissBuffer>]>,
    open: AtomicUsize,
}

/// One miss buffer.
struct MissBuffer {
    state: Mutex<MissBufferState, rank::MissBuffer>,
    unused_bytes: AtomicUsize,
}

/// The state that a miss buffer's lock guards.
#[derive(Default)]
pub(super) struct MissBufferState {
    /// Whether the miss buffer takes fresh values. It opens at its first value, unless pinned
    /// values leave too little room.
    pub is_open: bool,
    pub fresh: Vec<Fresh>,
    pub fresh_bytes: usize,
    /// Evicted values that no reader can reach.
    spare: Vec<Arc<dyn CacheEntry>>,
    spare_bytes: usize,
    /// Buffers, the oldest first.
    buffers: VecDeque<LineBuf>,
    buffers_bytes: usize,
    /// How many values in a row took the newest buffer.
    takes_of_newest: u8,
}

/// A value on its way to a ring.
pub(super) struct Fresh {
    pub entry: Arc<dyn CacheEntry>,
    /// The stamp that the value's last eviction left in its slot, or 0.
    pub stamp: usize,
}

impl MissBuffers {
    pub fn new(capacity_bytes: usize) -> MissBuffers {
        let share_bytes = capacity_bytes / MAX_SHARE;
        let room_bytes = portion_bytes(capacity_bytes).min(MAX_ROOM_BYTES).min(share_bytes);
        let count = share_bytes.checked_div(room_bytes).unwrap_or(0).clamp(1, MAX_MISS_BUFFERS);
        let count = 1 << count.ilog2();
        let usual_unused_bytes =
            (UNUSED_PER_ROOM * room_bytes).max(MIN_UNUSED_BYTES).min(capacity_bytes / 16 / count);
        let lean_unused_bytes = (share_bytes / count).max(MIN_UNUSED_BYTES).min(usual_unused_bytes);
        let miss_buffer = |_| {
            let state = Mutex::new(MissBufferState::default());
            Padded(MissBuffer { state, unused_bytes: AtomicUsize::new(0) })
        };
        let each = (0..count).map(miss_buffer).collect();
        MissBuffers {
            room_bytes,
            usual_unused_bytes,
            lean_unused_bytes,
            metadata_fills: AtomicBool::new(false),
            each,
            open: AtomicUsize::new(0),
        }
    }

    /// Sets whether metadata fills the cache.
    pub fn set_metadata_fills(&self, fills: bool) {
        self.metadata_fills.store(fills, Ordering::Relaxed);
    }

    /// The limit for the unused buffers of one miss buffer, and the limit for its spare values.
    fn most_unused_bytes(&self) -> usize {
        match self.metadata_fills.load(Ordering::Relaxed) {
            true => self.lean_unused_bytes,
            false => self.usual_unused_bytes,
        }
    }

    /// The room for fresh values in one miss buffer, in bytes.
    pub fn room_bytes(&self) -> usize {
        self.room_bytes
    }

    /// The locks of all miss buffers.
    pub fn iter(&self) -> impl Iterator<Item = &Mutex<MissBufferState, rank::MissBuffer>> {
        self.each.iter().map(|miss_buffer| &miss_buffer.0.state)
    }

    /// Runs `change` on the miss buffer of this thread.
    fn with_buffer<R>(&self, change: impl FnOnce(&mut MissBufferState) -> R) -> R {
        let miss_buffer = &self.each[thread_index() & (self.each.len() - 1)].0;
        let mut state = lock(&miss_buffer.state);
        let result = change(&mut state);
        miss_buffer.unused_bytes.store(state.spare_bytes + state.buffers_bytes, Ordering::Relaxed);
        result
    }

    /// Runs `miss` on the miss buffer of this thread, and then drops up to two spare values.
    pub fn miss<R>(&self, miss: impl FnOnce(&mut MissBufferState) -> R) -> R {
        self.with_buffer(|miss_buffer| {
            let result = miss(miss_buffer);
            miss_buffer.drop_spare(self);
            result
        })
    }

    /// Moves values from `data` to the spare values of this thread's miss buffer, as many as fit.
    /// No reader can reach the values in `data`.
    pub fn take_spare(&self, data: &mut Vec<Arc<dyn CacheEntry>>) {
        self.with_buffer(|MissBufferState { spare, spare_bytes, .. }| {
            let takes = |entry: &mut Arc<dyn CacheEntry>| {
                let bytes = *spare_bytes + entry.header().charge_bytes;
                let takes = bytes <= self.most_unused_bytes();
                if takes {
                    *spare_bytes = bytes;
                }
                takes
            };
            spare.extend(data.extract_if(.., takes));
        });
    }

    /// Keeps the memory of a value for a later value. Frees the oldest kept memory if the limit is
    /// exceeded.
    pub fn keep(&self, buffer: LineBuf) {
        self.with_buffer(|miss_buffer| miss_buffer.keep(buffer, self.most_unused_bytes()));
    }

    /// Returns a buffer of `len` bytes with any content, or `None`. If no kept buffer fits, drops
    /// up to two spare values to get their buffers. If all values bypass the miss buffers, no other
    /// call drops spare values.
    pub fn take_buffer(&self, len: usize) -> Option<LineBuf> {
        self.with_buffer(|miss_buffer| {
            let frees_others = self.metadata_fills.load(Ordering::Relaxed);
            for _ in 0..2 {
                if let Some(buffer) = miss_buffer.take_buffer(len, frees_others) {
                    return Some(buffer);
                }
                miss_buffer.drop_one_spare(self);
            }
            miss_buffer.take_buffer(len, frees_others)
        })
    }

    /// Whether a value goes through a miss buffer.
    pub fn takes(&self, header: &Header) -> bool {
        header.kind == BlockKind::Data && header.charge_bytes <= self.room_bytes / MIN_VALUES
    }

    /// Opens or closes a miss buffer, under its lock.
    pub fn set_open(&self, miss_buffer: &mut MissBufferState, opens: bool) {
        match (std::mem::replace(&mut miss_buffer.is_open, opens), opens) {
            (false, true) => drop(self.open.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.open.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Bytes that are reserved for fresh values.
    pub fn reserved_bytes(&self) -> usize {
        self.open.load(Ordering::Relaxed) * self.room_bytes
    }

    /// The value of `reserved_bytes` if all miss buffers are open.
    pub fn most_reserved_bytes(&self) -> usize {
        self.each.len() * self.room_bytes
    }

    /// Memory that no block uses, in bytes.
    pub fn unused_bytes(&self) -> usize {
        self.each.iter().map(|miss_buffer| miss_buffer.0.unused_bytes.load(Ordering::Relaxed)).sum()
    }
}

impl MissBufferState {
    /// Takes a buffer for `len` bytes. `frees_others`: see [`TAKES_OF_NEWEST`].
    fn take_buffer(&mut self, len: usize, frees_others: bool) -> Option<LineBuf> {
        let memory_bytes = LineBuf::needed_bytes(len);
        // Blocks have few different sizes, so the search soon finds one that fits.
        let i = self.buffers.iter().rposition(|buffer| buffer.memory_bytes() == memory_bytes)?;
        let is_last = i + 1 == self.buffers.len();
        let taken = if is_last { self.buffers.pop_back()? } else { self.buffers.remove(i)? };
        self.buffers_bytes -= memory_bytes;
        self.takes_of_newest = if is_last { self.takes_of_newest.saturating_add(1) } else { 0 };
        if frees_others && self.takes_of_newest >= TAKES_OF_NEWEST {
            self.takes_of_newest = 0;
            self.free_oldest();
        }
        Some(taken.reused(len))
    }

    pub fn push(&mut self, entry: Arc<dyn CacheEntry>, stamp: usize) {
        entry.header().set_cached();
        self.fresh_bytes += entry.header().charge_bytes;
        self.fresh.push(Fresh { entry, stamp });
    }

    /// Takes all fresh values out of the miss buffer.
    pub fn take_fresh(&mut self) -> impl Iterator<Item = Fresh> {
        self.fresh_bytes = 0;
        self.fresh.drain(..)
    }

    /// Drops one spare value, and a second one if the others take more than half of their limit.
    /// Each miss allocates about as much memory as this call frees, so the allocator reuses the
    /// memory. If all spare values were dropped at once, they would overflow the allocator's
    /// per-thread lists, and threads would wait for its locks.
    fn drop_spare(&mut self, miss_buffers: &MissBuffers) {
        self.drop_one_spare(miss_buffers);
        if self.spare_bytes > miss_buffers.most_unused_bytes() / 2 {
            self.drop_one_spare(miss_buffers);
        }
        if let Some(next) = self.spare.last() {
            prefetch_entry(next);
        }
    }

    fn drop_one_spare(&mut self, miss_buffers: &MissBuffers) {
        // The newest value is dropped, because its memory is the likeliest to be in the processor's
        // caches.
        let Some(entry) = self.spare.pop() else { return };
        self.spare_bytes -= entry.header().charge_bytes;
        if let Some(buffer) = entry.into_buffer() {
            self.keep(buffer, miss_buffers.most_unused_bytes());
        }
    }

    fn keep(&mut self, buffer: LineBuf, most_bytes: usize) {
        if buffer.memory_bytes() > most_bytes {
            return;
        }
        self.buffers_bytes += buffer.memory_bytes();
        self.buffers.push_back(buffer);
        while self.buffers_bytes > most_bytes {
            self.free_oldest();
        }
    }

    fn free_oldest(&mut self) {
        if let Some(oldest) = self.buffers.pop_front() {
            self.buffers_bytes -= oldest.memory_bytes();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CAPACITY: usize = 32 << 20;

    #[test]
    fn the_memory_of_a_value_is_the_next_one_of_its_size() {
        let miss_buffers = MissBuffers::new(CAPACITY);
        assert!(miss_buffers.take_buffer(100).is_none());
        let (small, large) = (LineBuf::zeroed(100), LineBuf::zeroed(4_000));
        let address = large.as_ptr();
        miss_buffers.keep(large);
        miss_buffers.keep(small);
        let all_bytes = LineBuf::needed_bytes(100) + LineBuf::needed_bytes(4_000);
        assert_eq!(miss_buffers.unused_bytes(), all_bytes);
        let again = miss_buffers.take_buffer(4_010).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (address, 4_010));
        assert_eq!(miss_buffers.unused_bytes(), LineBuf::needed_bytes(100));
        assert!(miss_buffers.take_buffer(4_000).is_none());
    }

    #[test]
    fn unused_buffers_stay_within_their_limit_and_the_oldest_goes_first() {
        let miss_buffers = MissBuffers::new(CAPACITY);
        let oldest = LineBuf::zeroed(1);
        miss_buffers.keep(oldest);
        for _ in 0..2 * miss_buffers.most_unused_bytes() / 4_000 {
            miss_buffers.keep(LineBuf::zeroed(4_000));
            assert!(miss_buffers.unused_bytes() <= miss_buffers.most_unused_bytes());
        }
        assert!(miss_buffers.unused_bytes() > miss_buffers.most_unused_bytes() - 5_000);
        assert!(miss_buffers.take_buffer(1).is_none());
        miss_buffers.keep(LineBuf::zeroed(miss_buffers.most_unused_bytes() + 1));
        assert!(miss_buffers.take_buffer(4_000).is_some(), "a large one displaces no others");
    }

    /// Regression: where metadata filled a cache of 231 KiB, 14 KiB of it were unused buffers, even
    /// if all lookups read parts of one size, for which one buffer is enough.
    #[test]
    fn where_metadata_fills_the_cache_buffers_that_are_not_needed_are_freed() {
        let unused_bytes = |fills, lens: &[usize]| {
            let miss_buffers = MissBuffers::new(231 << 10);
            miss_buffers.set_metadata_fills(fills);
            for len in [2_000, 4_000, 5_000] {
                miss_buffers.keep(LineBuf::zeroed(len));
            }
            for _ in 0..20 {
                for &len in lens {
                    miss_buffers.keep(miss_buffers.take_buffer(len).unwrap());
                }
            }
            miss_buffers.unused_bytes()
        };
        let all_bytes: usize = [2_000, 4_000, 5_000].map(LineBuf::needed_bytes).iter().sum();
        assert_eq!(unused_bytes(false, &[4_000]), all_bytes);
        assert_eq!(unused_bytes(true, &[4_000]), LineBuf::needed_bytes(4_000));
        assert_eq!(unused_bytes(true, &[4_000, 2_000, 5_000]), all_bytes);
    }

    #[test]
    fn all_miss_buffers_take_a_small_share_of_any_capacity() {
        for capacity in [0, 1, 1000, 100_000, 1 << 20, 36 << 20, 64 << 20, 1 << 30, 1 << 40] {
            let miss_buffers = MissBuffers::new(capacity);
            let count = miss_buffers.each.len();
            assert!(miss_buffers.most_reserved_bytes() <= capacity / 64, "{capacity}");
            assert!(miss_buffers.most_unused_bytes() * count <= capacity / 16, "{capacity}");
            miss_buffers.set_metadata_fills(true);
            let most_bytes = (capacity / 64).max(MIN_UNUSED_BYTES * count);
            assert!(miss_buffers.most_unused_bytes() * count <= most_bytes, "{capacity}");
            assert!(count.is_power_of_two());
        }
        // A cache of a few MiB has at least four miss buffers, so that few threads share one.
        assert!(MissBuffers::new(8 << 20).each.len() >= 4);
    }
}

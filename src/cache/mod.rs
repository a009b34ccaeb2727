//! The block cache: how many bytes of blocks stay in memory, and which leave first.
//!
//! The cache does not look up anything. Readers reach a cached value through its *slot*
//! ([`slots`]). The table or index that uses the value owns the slot. The cache owns the values,
//! counts their bytes and decides which leave. It knows no blocks, files or keys.
//!
//! ```text
//!   table ── Slots [ p | · | p | p ]          a reader: guard, load p, done
//!                    │       │   │
//!   BlockCache   ring Probation ⟲ hand        data that was not used again yet: evicted first
//!                ring Protected ⟲ hand        other data: evicted next
//!                ring Metadata  ⟲ hand        evicted for other metadata, when no data is left
//!                ring Pinned                  never evicted, but charged
//!
//!   memory       pool       from 64 MiB on: large pages
//!                recycled   smaller caches: buffers of evicted blocks
//! ```
//!
//! Invariants:
//! - `usage` is the sum of the charges of all entries and of all reservations. It exceeds the
//!   capacity only if the reservations alone do; then no entry stays.
//! - A slot is written only under the mutex, together with its ring entry: a slot is full exactly
//!   while a ring owns its value.
//! - Evicted values wait in the garbage until no reader can hold them. Garbage reduces the room for
//!   blocks, so the capacity and the loads under way bound the heap.
//! - Memory comes from a [`pool`], in small caches from [`recycled`] buffers. Unused bytes there
//!   reduce the room for blocks too, except the first 1/64 of the capacity.
//! - No value is dropped or retired while the mutex is held.
//!
//! Only misses, evictions and the closing of tables take the mutex. A hit writes at most one
//! reference bit, and only if it is not set.

mod eviction;
#[cfg(all(test, loom))]
mod models;
mod pool;
mod recycled;
mod ring;
pub(crate) mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use crate::memory::LineBuf;
use crate::sync;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

use eviction::CacheState;
use pool::Pool;
use recycled::RecycledBuffers;
use ring::Entry;
pub(crate) use slots::{Lease, Resident, Slots};

/// Locks that keep two threads from loading one value. A thread holds one while it reads: so many
/// that two that load different values hardly ever meet.
const LOAD_STRIPES: usize = if cfg!(loom) { 2 } else { 1024 };

/// Beyond this nothing is evicted, and a value that does not fit is not kept. A reader that stops
/// under its guard keeps all garbage alive: it must neither let the heap grow nor empty the cache.
/// With more threads than processors the system stops one under its guard every few milliseconds.
/// The more garbage gathers until it goes on, the more memory is allocated meanwhile and freed
/// after (`docs/performance.md`, "A cache a tenth of the data").
fn most_garbage_bytes(capacity_bytes: usize) -> usize {
    // Small caches: some blocks.
    (capacity_bytes / 64).max(64 << 10).min(capacity_bytes / 8)
}

/// Evicted values are retired and collected together once they take this many bytes: a portion.
/// Large enough that collecting costs little, small enough that readers hardly notice the missing
/// room, and that memory comes back before it leaves the processor's caches.
fn portion_bytes(capacity_bytes: usize) -> usize {
    (capacity_bytes / 512).clamp(2 << 10, 512 << 10)
}

/// Garbage and unused memory up to this size do not count against the capacity. That covers two
/// portions that wait for the next lookups of other threads, one or two that the next misses drop,
/// and unused memory. A cache that evicts at every miss always has this much. Counting it would make
/// each eviction cause more evictions.
fn tolerated_bytes(capacity_bytes: usize) -> usize {
    (6 * portion_bytes(capacity_bytes)).min(capacity_bytes / 64)
}

/// Unused memory takes at most one part in so many of the room for blocks. It may come near where
/// memory that cannot be refused (open tables) has come after the pool had grown, and where blocks
/// become much larger.
const MOST_UNUSED_SHARE: usize = 2;

/// What a cached value is. Data blocks leave the cache before the others.
///
/// ```
/// use maypole::{BlockCache, BlockKind};
///
/// let cache = BlockCache::new(64 << 20);
/// assert_eq!(cache.usage_of(BlockKind::Filter).entries, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// A data block and its search structure.
    Data,
    /// A parsed index block.
    Index,
    /// A filter block.
    Filter,
}

/// Of which tables the filters and indexes are never evicted, once the first lookup has loaded
/// them.
///
/// Pinned values are charged like others. If they alone fill the cache, it keeps nothing else: data
/// blocks, and metadata that does not fit, are read again at every use.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::{Db, PinMetadata};
///
/// let db = Db::builder(dir.path()).pin_metadata(PinMetadata::Level0).open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinMetadata {
    /// Of no table. Filters and indexes leave after all data, the least used first. The best choice
    /// if the cache is smaller than all metadata.
    #[default]
    None,
    /// Of flushed tables and of level 0, which nearly every lookup asks. Lookups there keep their
    /// latency while scans or cold tables fill the cache.
    Level0,
    /// Of all tables. An absent key waits for the disk only at a false positive. Make the cache
    /// large enough for all filters and indexes, and for data besides.
    All,
}

/// How much of one kind is resident: see [`BlockCache::usage_of`].
///
/// ```
/// use maypole::{BlockCache, BlockKind, KindUsage};
///
/// let cache = BlockCache::new(1 << 20);
/// assert_eq!(cache.usage_of(BlockKind::Data), KindUsage { entries: 0, bytes: 0 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindUsage {
    /// Resident values.
    pub entries: usize,
    /// Heap bytes charged for them.
    pub bytes: usize,
}

/// A byte-bounded cache of blocks. Several databases may share one.
///
/// Each value is charged the heap bytes that it holds, bookkeeping included. Data blocks are
/// evicted before indexes and filters. A value that was used since the hand of the clock last passed
/// it gets a second chance. A new data block is on probation: it stays only if it is used again soon,
/// so that a scan does not displace what lookups use. A value that does not fit is used and not kept.
///
/// Open tables are charged too, about 3 KiB each. They cannot be refused, and leave less room for
/// blocks. If they alone exceed the capacity, every block is read again at each use.
///
/// From 64 MiB on, blocks and filters lie in pages of 2 MiB if the kernel has them (Linux): with
/// small pages a lookup misses the processor's page table too. Free memory in these pages counts
/// against the capacity.
///
/// An evicted value lives until the lookups that may use it have ended. So the heap exceeds the
/// capacity by up to 1/64, and for moments by what the last miss of each thread displaced. Give the
/// cache at least twenty times the size of the largest filter.
///
/// ```
/// # let (first, second) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// use maypole::{BlockCache, Db};
///
/// let cache = BlockCache::new(256 << 20);
/// let one = Db::builder(first.path()).block_cache(cache.clone()).open()?;
/// let other = Db::builder(second.path()).block_cache(cache.clone()).open()?;
/// assert!(cache.usage() <= cache.capacity());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockCache {
    capacity_bytes: usize,
    /// Bytes of the garbage: values that are retired and that a reader may still hold.
    garbage_bytes: AtomicUsize,
    state: Mutex<CacheState>,
    /// As many as [`LOAD_STRIPES`].
    load_stripes: Box<[Mutex<()>]>,
    memory: Memory,
}

/// Where memory for blocks comes from.
enum Memory {
    Pool(Arc<Pool>),
    Recycled(Arc<RecycledBuffers>),
}

/// Evicted values, on their way through the garbage.
struct Evicted {
    cache: Arc<BlockCache>,
    bytes: usize,
    entries: Vec<Arc<dyn Entry>>,
}

/// What leaves the cache with one miss: for [`BlockCache::retire`].
struct Leaving {
    evicted: Option<Arc<Evicted>>,
    unreachable: [Option<Arc<dyn Entry>>; 2],
}

impl Memory {
    fn new(capacity_bytes: usize) -> Memory {
        let most_spare_bytes =
            (4 * portion_bytes(capacity_bytes)).min(tolerated_bytes(capacity_bytes));
        Pool::new(capacity_bytes)
            .map_or_else(|| Memory::Recycled(RecycledBuffers::new(most_spare_bytes)), Memory::Pool)
    }
}

impl BlockCache {
    /// A cache for at most `capacity_bytes` bytes. With 0 it keeps nothing.
    pub fn new(capacity_bytes: usize) -> Arc<BlockCache> {
        Arc::new(BlockCache {
            capacity_bytes,
            garbage_bytes: AtomicUsize::new(0),
            state: Mutex::new(CacheState::new()),
            load_stripes: (0..LOAD_STRIPES).map(|_| Mutex::new(())).collect(),
            memory: Memory::new(capacity_bytes),
        })
    }

    /// The capacity in bytes, as given to [`BlockCache::new`].
    pub fn capacity(&self) -> usize {
        self.capacity_bytes
    }

    /// Bytes charged now. Never more than the capacity, unless open tables alone take more.
    pub fn usage(&self) -> usize {
        lock(&self.state).usage_bytes
    }

    /// Bytes charged now for values that are never evicted.
    pub fn pinned_usage(&self) -> usize {
        let state = lock(&self.state);
        state.pinned_bytes - state.reserved_bytes
    }

    /// Values and bytes of one kind.
    pub fn usage_of(&self, kind: BlockKind) -> KindUsage {
        lock(&self.state).by_kind[kind as usize]
    }

    /// Memory of `len` bytes, whatever they hold, for a value that is about to be cached.
    pub(crate) fn buffer(&self, len: usize) -> LineBuf {
        match &self.memory {
            Memory::Pool(pool) => pool
                .buffer(len, |bytes| self.may_take(bytes))
                .unwrap_or_else(|| LineBuf::zeroed(len)),
            Memory::Recycled(recycled) => recycled.buffer(len),
        }
    }

    /// Whether the pool may have `bytes` more. They count for as long as one block lies in them. If
    /// the pool took all of the capacity, what lies elsewhere (headers of blocks, open tables) would
    /// displace blocks, and in vain: each block that goes leaves as much unused memory.
    fn may_take(&self, bytes: usize) -> bool {
        let state = lock(&self.state);
        let evicted_bytes = state.leaving_bytes + state.unreachable_bytes;
        let beside_bytes = self.garbage_bytes.load(Ordering::Relaxed) + self.unused_bytes();
        state.usage_bytes + evicted_bytes + beside_bytes + bytes <= self.capacity_bytes
    }

    /// Memory that no block uses.
    fn unused_bytes(&self) -> usize {
        match &self.memory {
            Memory::Pool(pool) => pool.free_bytes(),
            Memory::Recycled(recycled) => recycled.unused_bytes(),
        }
    }

    fn has_much_garbage(&self) -> bool {
        self.garbage_bytes.load(Ordering::Relaxed) > most_garbage_bytes(self.capacity_bytes)
    }

    /// Charges `bytes` of memory beside the cache while the reservation lives, and evicts what they
    /// displace. Never fails: such memory is needed whatever the capacity is.
    pub(crate) fn reserve(self: &Arc<BlockCache>, bytes: usize) -> Reservation {
        let leaving = {
            let mut state = lock(&self.state);
            state.usage_bytes += bytes;
            state.pinned_bytes += bytes;
            state.reserved_bytes += bytes;
            state.evict_to(self.capacity_bytes);
            self.take_leaving(&mut state)
        };
        self.retire(leaving);
        Reservation { cache: Arc::clone(self), bytes }
    }

    /// Makes room for `entry` and takes it in; `publish` fills its slot, which had this stamp.
    /// The caller retires what leaves when it holds no lock.
    fn insert(
        self: &Arc<BlockCache>,
        entry: Arc<dyn Entry>,
        stamp: usize,
        publish: impl FnOnce(),
    ) -> Leaving {
        let may_evict = !self.has_much_garbage();
        let mut state = lock(&self.state);
        // No more than this of what is unused in the pool. To evict a block makes it more, until a
        // whole slab is empty: without an end the cache could empty itself and stay empty.
        let unused_bytes = self.unused_bytes().min(self.capacity_bytes / MOST_UNUSED_SHARE);
        let beside_bytes =
            self.garbage_bytes.load(Ordering::Relaxed) + state.unreachable_bytes + unused_bytes;
        let room_bytes = self
            .capacity_bytes
            .saturating_sub(beside_bytes.saturating_sub(tolerated_bytes(self.capacity_bytes)));
        if state.make_room(room_bytes, may_evict, &*entry) {
            state.add(entry, stamp);
            publish();
        }
        state.prefetch_next();
        self.take_leaving(&mut state)
    }

    /// Turns the evicted values into garbage, if they are a portion or hold metadata. Takes out one
    /// unreachable value, and a second one if many wait.
    fn take_leaving(self: &Arc<BlockCache>, state: &mut CacheState) -> Leaving {
        let portion_bytes = portion_bytes(self.capacity_bytes);
        let unreachable = [state.take_unreachable(0), state.take_unreachable(portion_bytes)];
        if state.leaving_bytes <= portion_bytes && !state.metadata_leaves {
            return Leaving { evicted: None, unreachable };
        }
        state.metadata_leaves = false;
        let bytes = std::mem::take(&mut state.leaving_bytes);
        let next = Vec::with_capacity(state.leaving.len());
        let entries = std::mem::replace(&mut state.leaving, next);
        self.garbage_bytes.fetch_add(bytes, Ordering::Relaxed);
        let evicted = Arc::new(Evicted { cache: Arc::clone(self), bytes, entries });
        Leaving { evicted: Some(evicted), unreachable }
    }

    /// Retires the evicted values and drops the unreachable ones. Hold no lock.
    fn retire(&self, leaving: Leaving) {
        let Leaving { evicted, unreachable } = leaving;
        drop(unreachable);
        if let Some(evicted) = evicted {
            let bytes = evicted.bytes;
            sync::retire(evicted, bytes, portion_bytes(self.capacity_bytes));
        } else if self.has_much_garbage() {
            sync::collect();
        }
    }
}

/// Bytes that are charged to a cache: see [`BlockCache::reserve`].
pub(crate) struct Reservation {
    cache: Arc<BlockCache>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = lock(&self.cache.state);
        state.usage_bytes -= self.bytes;
        state.pinned_bytes -= self.bytes;
        state.reserved_bytes -= self.bytes;
    }
}

impl Drop for Evicted {
    /// Now no reader can reach the entries. Data waits in the cache for the next misses: each drops
    /// as many as it allocates, and the allocator hands the memory from one to the other. Dropping
    /// all at once would overflow its lists of each thread, and threads would wait for its locks.
    fn drop(&mut self) {
        let most_bytes = 2 * portion_bytes(self.cache.capacity_bytes);
        lock(&self.cache.state).keep_unreachable(&mut self.entries, most_bytes);
        self.cache.garbage_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        // What is left in `entries` is dropped after the mutex: an index leads back to it.
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache")
            .field("capacity_bytes", &self.capacity_bytes)
            .field("usage_bytes", &self.usage())
            .finish()
    }
}

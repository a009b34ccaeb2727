//! The block cache: how many bytes of blocks stay in memory, and which blocks are evicted first.
//!
//! The cache does not look up anything. Readers reach a cached value through its *slot*
//! ([`slots`]). The table or index that uses the value owns the slot. The cache owns the values,
//! counts their bytes and decides which are evicted. It knows no blocks, files or keys.
//!
//! ```text
//!   table ── Slots [ p | · | p | p ]          a reader: guard, load p, done
//!                    │       │   │
//!   BlockCache   ring Probation ⟲ hand        data that was not used again yet: evicted first
//!                ring Protected ⟲ hand        other data: evicted next
//!                ring Metadata  ⟲ hand        filters and indexes: evicted when no data is left
//!                ring Pinned                  never evicted, but charged
//!
//!   list         where metadata fills the cache: a few data blocks, instead of slots for all
//!   miss_buffers one for each group of threads: new blocks on their way to a ring, and
//!                evicted blocks whose memory the next blocks take
//!   policy       what is kept, and which parts of filters are worth a read
//!   pool         from 64 MiB on: memory in large pages
//! ```
//!
//! Invariants:
//! - `usage` is the sum of the charges of all entries and of all reservations. This sum exceeds the
//!   capacity only if the charges of reservations and pinned values alone exceed it. All other
//!   values are then evicted.
//! - A slot is full exactly while a ring or a miss buffer owns its value. The slot is filled under
//!   the owner's lock, which for a ring is the cache's mutex, and is emptied under the cache's
//!   mutex.
//! - Evicted values wait in the garbage until no reader can hold them.
//! - Garbage, and unused bytes of the [`pool`] and of the [`miss_buffers`], reduce the room for
//!   blocks, except for the first `tolerated_bytes`. So the heap is bounded by the capacity, these
//!   tolerated bytes, and the values that are being loaded. [`MAX_UNUSED_SHARE`] names the
//!   exceptions.
//! - No value is retired or dropped while the cache's mutex is held.
//!
//! A hit takes no lock. It writes at most the value's count of uses, and only if the count can still
//! rise. Except in small caches and where metadata fills the cache, most misses of data blocks take
//! the lock of a miss buffer and not the mutex.

mod eviction;
mod kind;
pub(crate) mod list;
mod miss_buffers;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod policy;
mod pool;
mod ring;
pub(crate) mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use crate::memory::LineBuf;
use crate::sync;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, OwnedMemory, Process, Retired, lock, rank, try_lock};

use eviction::CacheState;
pub use kind::{BlockKind, KindUsage, PinMetadata};
use miss_buffers::{Fresh, MissBufferState, MissBuffers, portion_bytes};
use policy::{MetadataBytes, Policy};
use pool::Pool;
use ring::{CacheEntry, memory_at};

/// The number of places where threads sleep while another thread loads the value that they need.
/// Slots share these places, so a thread that is woken for another slot checks its own slot and
/// sleeps again.
const WAITING_PLACES: usize = if cfg!(loom) { 1 } else { 16 };

/// The limit for garbage above which no value is evicted for a loaded one, and a loaded value that
/// does not fit is not kept. A reader that the system suspends under its guard keeps all later
/// garbage alive, which must neither let the heap grow nor empty the cache. With more threads than
/// processors, this happens every few milliseconds. The more garbage accumulates until the reader
/// continues, the more memory is allocated meanwhile and freed afterwards
/// (`docs/measurements/small-cache.md`).
fn most_garbage_bytes(capacity_bytes: usize) -> usize {
    // In small caches, this is a few blocks: 64 KiB, or 1/8 of the capacity if that is less.
    (capacity_bytes / 64).max(64 << 10).min(capacity_bytes / 8)
}

/// Garbage and unused memory up to this size do not count against the capacity. A cache that evicts
/// at every miss always has about this much of them, and counting them would make each eviction
/// cause more evictions. The size covers two portions ([`portion_bytes`]) of garbage that wait
/// until other threads begin their next lookups, one or two portions of spare values that the next
/// misses drop, and other unused memory.
fn tolerated_bytes(capacity_bytes: usize) -> usize {
    (6 * portion_bytes(capacity_bytes)).min(capacity_bytes / 64)
}

/// Unused memory reduces the room for blocks by at most half of the capacity (see `room_bytes`).
/// Unused memory can exceed this limit if new blocks are much larger than the evicted ones, or if
/// tables, which are never rejected, are opened after the pool has grown.
const MAX_UNUSED_SHARE: usize = 2;

/// Where metadata fills the cache, the [`pool`] takes at most this share of it (numerator and
/// denominator). A part of an index takes more memory outside of the pool, compared with its bytes,
/// than a part of a filter. If the pool had grown to the size of the cache, indexes would displace
/// filters until half of the cache is empty, and it would stay empty: the memory of a displaced
/// part stays in the pool, where it cannot be used for memory outside of it.
const POOL_SHARE: (usize, usize) = (3, 4);

/// A byte-bounded cache of blocks. Several databases may share one.
///
/// Each value is charged the heap bytes that it holds, bookkeeping included. Data blocks are
/// evicted before indexes and filters in use, unless these alone would fill the cache. Eviction
/// follows the CLOCK algorithm: a value that was used since the clock's hand last passed it gets a
/// second chance. A new data block is on probation: it stays only if it is used again soon, so that
/// a scan does not displace what lookups use. A value that does not fit is used once and not kept.
///
/// Open tables are charged too, about 3 KiB each, which leaves less room for blocks. A table is
/// opened, and a filter or index that is pinned ([`PinMetadata`]) is kept, even if no room is left
/// for it. If these alone exceed the capacity, every other block is read again at each use.
///
/// From a capacity of 64 MiB on, blocks and filters are in pages of 2 MiB if the kernel has them
/// (Linux), because with small pages a lookup also misses the TLB. Free memory in these pages
/// counts against the capacity.
///
/// An evicted value stays in memory until the lookups that may use it have ended. So the heap
/// exceeds the capacity by up to 1/64 of the capacity, and briefly by what the last miss of each
/// thread evicted. Make the cache many times as large as the largest filter, because loading this
/// filter evicts as many bytes as it takes.
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
    /// A forked child uses no part of the cache, because another thread of the parent may have held
    /// any of the locks at the fork.
    process: Process,
    /// Bytes of the garbage: values that are retired and that a reader may still hold.
    garbage_bytes: AtomicUsize,
    policy: Policy,
    state: Mutex<CacheState, rank::CacheRings>,
    /// As many as [`WAITING_PLACES`].
    waiting_places: Box<[WaitingPlace]>,
    miss_buffers: MissBuffers,
    pool: Option<Arc<Pool>>,
}

/// See [`WAITING_PLACES`].
struct WaitingPlace {
    mutex: Mutex<(), rank::BlockWaits>,
    ended: Condvar,
}

impl WaitingPlace {
    fn new() -> WaitingPlace {
        WaitingPlace { mutex: Mutex::new(()), ended: Condvar::new() }
    }
}

/// Evicted values that are retired together. They are garbage until no reader can reach them.
struct Evicted {
    cache: Arc<BlockCache>,
    bytes: usize,
    entries: Vec<Arc<dyn CacheEntry>>,
}

impl BlockCache {
    /// A cache for at most `capacity_bytes` bytes. With 0 it keeps nothing but filters and indexes
    /// that are pinned ([`PinMetadata`]).
    pub fn new(capacity_bytes: usize) -> Arc<BlockCache> {
        Arc::new(BlockCache {
            capacity_bytes,
            process: Process::current(),
            garbage_bytes: AtomicUsize::new(0),
            policy: Policy::new(capacity_bytes),
            state: Mutex::new(CacheState::new()),
            waiting_places: (0..WAITING_PLACES).map(|_| WaitingPlace::new()).collect(),
            miss_buffers: MissBuffers::new(capacity_bytes),
            pool: Pool::new(capacity_bytes),
        })
    }

    /// The capacity in bytes, as given to [`BlockCache::new`].
    pub fn capacity(&self) -> usize {
        self.capacity_bytes
    }

    /// What stays in the cache.
    #[inline]
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decides which values are evicted first.
    fn weigh_metadata(&self, state: &mut CacheState) {
        let fills = self.policy.metadata_fills();
        state.set_metadata_fills(fills);
        self.miss_buffers.set_metadata_fills(fills);
    }

    /// The process in which the cache was made.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Bytes charged now. Never more than the capacity, unless open tables and pinned values alone
    /// take more. 0 in a forked child.
    pub fn usage(&self) -> usize {
        if !self.process.is_current() {
            return 0;
        }
        let usage_bytes = lock(&self.state).usage_bytes;
        usage_bytes + self.fresh_usage().bytes
    }

    /// Bytes charged now for values that are never evicted.
    pub fn pinned_usage(&self) -> usize {
        if !self.process.is_current() {
            return 0;
        }
        let state = lock(&self.state);
        state.pinned_bytes - state.reserved_bytes
    }

    /// Bytes charged now for open tables and for slots: what is neither a data block, nor an index,
    /// nor a filter. Together with [`BlockCache::usage_of`] all three kinds, this is
    /// [`BlockCache::usage`].
    pub fn tables_usage(&self) -> usize {
        match self.process.is_current() {
            true => lock(&self.state).reserved_bytes,
            false => 0,
        }
    }

    /// Values and bytes of one kind.
    pub fn usage_of(&self, kind: BlockKind) -> KindUsage {
        if !self.process.is_current() {
            return KindUsage::default();
        }
        let mut usage = lock(&self.state).by_kind[kind as usize];
        if kind == BlockKind::Data {
            let fresh = self.fresh_usage();
            usage.entries += fresh.entries;
            usage.bytes += fresh.bytes;
        }
        usage
    }

    /// The usage of the blocks in the miss buffers. Call it after reading the usage of the rings: a
    /// block that moves to a ring in between is then left out, and not counted twice.
    fn fresh_usage(&self) -> KindUsage {
        let mut usage = KindUsage::default();
        for miss_buffer in self.miss_buffers.iter() {
            let miss_buffer = lock(miss_buffer);
            usage.entries += miss_buffer.fresh.len();
            usage.bytes += miss_buffer.fresh_bytes;
        }
        usage
    }

    /// Memory of `len` bytes with any content, for a value that is about to be cached.
    pub(crate) fn buffer(&self, len: usize) -> LineBuf {
        let of_pool = || self.pool.as_ref()?.buffer(len, |more, all| self.may_take(more, all));
        self.miss_buffers.take_buffer(len).or_else(of_pool).unwrap_or_else(|| LineBuf::zeroed(len))
    }

    /// Whether the pool may grow by `bytes`, to `pool_bytes`. The pool must not take all of the
    /// capacity, because memory outside of it (headers of blocks, open tables) would then evict
    /// blocks in vain: the memory of an evicted block stays in the pool and still counts.
    fn may_take(&self, bytes: usize, pool_bytes: usize) -> bool {
        let (part, whole) = POOL_SHARE;
        if self.policy.metadata_fills() && pool_bytes / part > self.capacity_bytes / whole {
            return false;
        }
        let state = lock(&self.state);
        let other_bytes = self.garbage_bytes.load(Ordering::Relaxed) + self.unused_bytes();
        let taken_bytes =
            state.usage_bytes + state.leaving_bytes + self.miss_buffers.reserved_bytes();
        taken_bytes + other_bytes + bytes <= self.capacity_bytes
    }

    /// Memory that no block uses.
    fn unused_bytes(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.free_bytes()) + self.miss_buffers.unused_bytes()
    }

    /// The most bytes that may be charged for values in rings and for reservations, while there is
    /// no garbage and no unused memory.
    fn most_room_bytes(&self) -> usize {
        self.capacity_bytes.saturating_sub(self.miss_buffers.reserved_bytes())
    }

    /// Like `most_room_bytes`, but less by the garbage and the unused memory.
    fn room_bytes(&self) -> usize {
        // Unused memory counts only up to a limit. Each eviction adds to the unused memory of the
        // pool until a whole slab is empty, so without a limit the cache could empty itself and
        // stay empty.
        let unused_bytes = self.unused_bytes().min(self.capacity_bytes / MAX_UNUSED_SHARE);
        let other_bytes = self.garbage_bytes.load(Ordering::Relaxed) + unused_bytes;
        let counted_bytes = other_bytes.saturating_sub(tolerated_bytes(self.capacity_bytes));
        self.most_room_bytes().saturating_sub(counted_bytes)
    }

    fn has_much_garbage(&self) -> bool {
        self.garbage_bytes.load(Ordering::Relaxed) > most_garbage_bytes(self.capacity_bytes)
    }

    /// Charges `bytes` of memory outside of the cache while the reservation lives, and evicts the
    /// values that no longer fit. Never fails, because such memory is needed whatever the capacity
    /// is.
    pub(crate) fn reserve(self: &Arc<BlockCache>, bytes: usize) -> Reservation {
        let (evicted, is_crowded) = {
            let mut state = lock(&self.state);
            state.usage_bytes += bytes;
            state.pinned_bytes += bytes;
            state.reserved_bytes += bytes;
            self.weigh_metadata(&mut state);
            state.evict_to(self.most_room_bytes());
            (self.take_evicted(&mut state), state.usage_bytes > self.most_room_bytes())
        };
        self.retire(evicted);
        if is_crowded {
            self.settle_miss_buffers();
        }
        Reservation { cache: Arc::clone(self), bytes, metadata: MetadataBytes::default() }
    }

    /// Inserts `entry` and calls `publish`, which fills its slot. If there is no room, drops
    /// `entry` instead. `stamp` is the stamp that the slot had. Returns the evicted values, which
    /// the caller retires when it holds no lock.
    fn insert(
        self: &Arc<BlockCache>,
        entry: Arc<dyn CacheEntry>,
        stamp: usize,
        publish: impl FnOnce(),
    ) -> Option<Arc<Evicted>> {
        match self.miss_buffers.takes(entry.header()) && !self.has_much_garbage() {
            true => self.insert_fresh(entry, stamp, publish),
            false => self.insert_at_once(entry, stamp, publish),
        }
    }

    /// Puts `entry` into the miss buffer of this thread.
    fn insert_fresh(
        self: &Arc<BlockCache>,
        entry: Arc<dyn CacheEntry>,
        stamp: usize,
        publish: impl FnOnce(),
    ) -> Option<Arc<Evicted>> {
        self.miss_buffers.miss(|miss_buffer| {
            let bytes = miss_buffer.fresh_bytes + entry.header().charge_bytes;
            let room_bytes = self.miss_buffers.room_bytes();
            // The values of a full miss buffer move to the rings now, and those of one that is more
            // than half full if the mutex is free. A closed miss buffer needs the mutex to open.
            let state = match bytes {
                _ if !miss_buffer.is_open || bytes > room_bytes => Some(lock(&self.state)),
                _ if bytes > room_bytes / 2 => try_lock(&self.state),
                _ => None,
            };
            let evicted = state.and_then(|mut state| self.settle(miss_buffer, &mut state));
            if miss_buffer.is_open {
                publish();
                miss_buffer.push(entry, stamp);
            }
            evicted
        })
    }

    /// Makes room for `entry` and puts it into its ring.
    fn insert_at_once(
        self: &Arc<BlockCache>,
        entry: Arc<dyn CacheEntry>,
        stamp: usize,
        publish: impl FnOnce(),
    ) -> Option<Arc<Evicted>> {
        let may_evict = !self.has_much_garbage();
        let mut state = lock(&self.state);
        let room_bytes = self.room_bytes();
        self.weigh_metadata(&mut state);
        if state.make_room(room_bytes, may_evict, &*entry) {
            entry.header().set_cached();
            state.add(entry, stamp);
            publish();
        }
        self.take_evicted(&mut state)
    }

    /// Moves the fresh values of a miss buffer to their rings.
    fn settle(
        self: &Arc<BlockCache>,
        miss_buffer: &mut MissBufferState,
        state: &mut CacheState,
    ) -> Option<Arc<Evicted>> {
        let may_evict = !self.has_much_garbage();
        // A miss buffer is closed while pinned values and reservations leave too little room for
        // all miss buffers.
        let opens =
            state.pinned_bytes <= self.capacity_bytes - self.miss_buffers.most_reserved_bytes();
        self.miss_buffers.set_open(miss_buffer, opens);
        self.weigh_metadata(state);
        state.evict_to(self.most_room_bytes());
        let room_bytes = self.room_bytes();
        for Fresh { entry, stamp } in miss_buffer.take_fresh() {
            match state.make_room(room_bytes, may_evict, &*entry) {
                true => state.add(entry, stamp),
                false => state.turn_away(entry),
            }
        }
        self.take_evicted(state)
    }

    /// Moves all fresh values to their rings.
    fn settle_miss_buffers(self: &Arc<BlockCache>) {
        for miss_buffer in self.miss_buffers.iter() {
            let mut miss_buffer = lock(miss_buffer);
            if miss_buffer.fresh.is_empty() {
                continue;
            }
            let evicted = self.settle(&mut miss_buffer, &mut lock(&self.state));
            drop(miss_buffer);
            self.retire(evicted);
        }
    }

    /// Takes the evicted values out of `state`, as garbage to retire, if they exceed a portion or
    /// include metadata. Until then they wait in `state.leaving`.
    fn take_evicted(self: &Arc<BlockCache>, state: &mut CacheState) -> Option<Arc<Evicted>> {
        let is_portion = state.leaving_bytes > portion_bytes(self.capacity_bytes);
        if !is_portion && !state.metadata_leaves {
            return None;
        }
        state.metadata_leaves = false;
        let bytes = std::mem::take(&mut state.leaving_bytes);
        let next = Vec::with_capacity(state.leaving.len());
        let entries = std::mem::replace(&mut state.leaving, next);
        self.garbage_bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Arc::new(Evicted { cache: Arc::clone(self), bytes, entries }))
    }

    /// Retires the evicted values. Without any, collects the garbage if there is much of it. The
    /// caller must hold no lock, because both may run destructors.
    fn retire(&self, evicted: Option<Arc<Evicted>>) {
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
    /// See [`Reservation::expecting`].
    metadata: MetadataBytes,
}

impl Reservation {
    /// Counts these bytes of a table's filters and indexes among those of all open tables, for as
    /// long as the reservation lives.
    pub fn expecting(mut self, metadata: MetadataBytes) -> Reservation {
        self.cache.policy.add(metadata);
        self.metadata = metadata;
        self
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.cache.process.is_current() {
            return;
        }
        self.cache.policy.subtract(self.metadata);
        let mut state = lock(&self.cache.state);
        state.usage_bytes -= self.bytes;
        state.pinned_bytes -= self.bytes;
        state.reserved_bytes -= self.bytes;
    }
}

impl Retired for Evicted {
    fn memory_at(&self, address: usize) -> Option<OwnedMemory> {
        memory_at(&self.entries, address)
    }
}

impl Drop for Evicted {
    /// Runs when no reader can reach the entries any more. Data becomes spare values of this
    /// thread's miss buffer, as far as its limit allows; the rest is dropped.
    fn drop(&mut self) {
        let miss_buffers = &self.cache.miss_buffers;
        // Metadata is dropped under no lock, because dropping an index takes the cache's mutex.
        let is_metadata = |entry: &mut Arc<dyn CacheEntry>| entry.header().kind != BlockKind::Data;
        let metadata = self.entries.extract_if(.., is_metadata);
        metadata.filter_map(CacheEntry::into_buffer).for_each(|buffer| miss_buffers.keep(buffer));
        if !self.entries.is_empty() {
            miss_buffers.take_spare(&mut self.entries);
        }
        self.cache.garbage_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
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

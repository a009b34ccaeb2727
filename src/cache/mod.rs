//! The block cache: how many bytes of blocks stay in memory, and which leave first.
//!
//! It finds nothing. A cached value is reached through its *slot* ([`slots`]), which the table or
//! index that it belongs to holds; the cache only owns the values, counts their bytes and decides
//! who leaves. It knows no blocks, files or keys.
//!
//! ```text
//!   table ── Slots [ p | · | p | p ]          a reader: guard, load p, done
//!                    │       │   │
//!   BlockCache   ring Data      ⟲ hand        evicted first
//!                ring Metadata  ⟲ hand        evicted for other metadata, when no data is left
//!                ring Pinned                  never evicted, but charged
//! ```
//!
//! Invariants:
//! - Memory for blocks comes from a [`pool`], in small caches from [`spares`]. What they hold unused is
//!   missing from what may be resident, as garbage is, but for a 64th of the capacity.
//! - The charges of all entries and what is reserved sum to `usage`. It exceeds the capacity only when
//!   reservations alone do; no entry stays then.
//! - A slot is written only under the mutex, together with the ring entry it stands for: a slot is
//!   full exactly while a ring owns its value.
//! - Evicted values wait in the garbage until no reader can hold them. Their bytes are
//!   missing from what may be resident, so the heap is bounded by the capacity and loads in flight.
//! - No value is dropped and nothing is retired while the mutex is held.
//!
//! Only misses, evictions and the closing of tables take the mutex. A hit writes at most one
//! reference bit, and only when it is not set.

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

use pool::Pool;
use recycled::RecycledBuffers;
use ring::{Entry, Ring};
pub(crate) use slots::{Lease, Resident, Slots};

/// Locks that keep two threads from loading one value. More than threads that load at one time.
const LOAD_STRIPES: usize = if cfg!(loom) { 2 } else { 64 };

/// The part of the capacity that data may take from metadata. Below it a data block displaces
/// metadata that nobody asked for during a whole turn of the hand, so that the filters of cold
/// tables cannot keep all data out; above it data displaces data only.
const DATA_SHARE: usize = 8;

/// Metadata entries that one data block may look at. A block that finds no room among them stays
/// out of the cache: losing it is cheaper than losing a filter that is in use.
const METADATA_STEPS_FOR_DATA: usize = 4;

/// The part of the capacity that garbage may take. Beyond it nothing is evicted, so what does not
/// fit is not kept: a reader that is stopped under its guard keeps all garbage alive, and must
/// neither let the heap grow nor empty the cache.
const GARBAGE_SHARE: usize = 8;

/// What is evicted before it is retired and collected together: rarely enough that the barrier costs
/// nothing, soon enough that readers rarely notice the missing room.
fn garbage_limit_bytes(capacity_bytes: usize) -> usize {
    (capacity_bytes / 256).clamp(4 << 10, 1 << 20)
}

/// What left may take so much beside the capacity: a portion that waits for readers, one of spare
/// memory, and a little. That is what there always is when every miss evicts. Were it counted, each
/// eviction would take from the room of the next insertion, which then evicts more.
fn tolerated_bytes(capacity_bytes: usize) -> usize {
    (3 * garbage_limit_bytes(capacity_bytes)).min(capacity_bytes / 64)
}

/// What a cached value is, for the counts; data leaves the cache before the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// A data block and its search structure.
    Data,
    /// A parsed index block.
    Index,
    /// A filter block.
    Filter,
}

/// Which tables' filters and indexes are never evicted, once the first lookup has loaded them. They
/// are charged as if they were not pinned. Where pinned metadata alone fills the cache, nothing else is
/// kept in it: data blocks, and metadata that does not fit, are read again at every use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PinMetadata {
    /// Those of no table: they leave after all data, those that were not used for long first. The
    /// best use of a cache that is smaller than all metadata.
    #[default]
    None,
    /// Those of flushed tables and of level 0, which nearly every lookup asks. Keeps their latency
    /// even while scans or colder tables push through the cache.
    Level0,
    /// Those of all tables: an absent key never waits for the disk but for a false positive. Size the
    /// cache for all filters and indexes, and data on top.
    All,
}

/// How much of one kind is resident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindUsage {
    /// Resident values.
    pub entries: usize,
    /// Heap bytes charged for them.
    pub bytes: usize,
}

/// Who leaves first.
#[derive(Clone, Copy)]
enum Priority {
    Data,
    Metadata,
    Pinned,
}

/// A byte-bounded cache of blocks, which several databases may share.
///
/// Every value is charged the heap bytes it really holds, bookkeeping included. Data blocks are
/// evicted before indexes and filters; within either, a value that was used since the hand of the
/// clock last passed gets a second chance. A value that does not fit is used and not kept.
///
/// Open tables are charged too, about 3 KiB each, and cannot be refused: what they take is not there
/// for blocks. When they alone exceed the capacity, every block is read again at each use.
///
/// From 64 MiB on, blocks and filters lie in pages of 2 MiB where the kernel has them (Linux), since a
/// processor finds few small pages in its own table. What they have free counts against the capacity
/// too.
///
/// What was evicted lives on until the lookups that were under way have ended. So the heap exceeds the
/// capacity by up to a 64th, and for moments by what the last miss of each thread displaced: give the
/// cache at least twenty times the largest filter.
pub struct BlockCache {
    capacity_bytes: usize,
    /// Bytes of the garbage: evicted, retired, and maybe still held by a reader.
    garbage_bytes: AtomicUsize,
    state: Mutex<CacheState>,
    load_stripes: [Mutex<()>; LOAD_STRIPES],
    memory: Memory,
}

/// Where memory for blocks comes from.
enum Memory {
    Pool(Arc<Pool>),
    Recycled(Arc<RecycledBuffers>),
}

struct CacheState {
    usage_bytes: usize,
    /// Of these, what pinned entries and reservations take.
    pinned_bytes: usize,
    reserved_bytes: usize,
    by_kind: [KindUsage; 3],
    /// By [`Priority`].
    rings: [Ring; 3],
    /// Evicted data, until it is enough to be retired together.
    leaving: Vec<Arc<dyn Entry>>,
    leaving_bytes: usize,
    /// Metadata is among it and is to be retired at once: an index leads back to the cache, so the cache
    /// must not keep it.
    metadata_leaves: bool,
}

/// What was evicted, on its way through the garbage.
struct Evicted {
    cache: Arc<BlockCache>,
    bytes: usize,
    /// Only dropped.
    _entries: Vec<Arc<dyn Entry>>,
}

impl Memory {
    fn new(capacity_bytes: usize) -> Memory {
        let most_spare_bytes =
            (2 * garbage_limit_bytes(capacity_bytes)).min(tolerated_bytes(capacity_bytes));
        Pool::new(capacity_bytes)
            .map_or_else(|| Memory::Recycled(RecycledBuffers::new(most_spare_bytes)), Memory::Pool)
    }
}

impl BlockCache {
    /// A cache for at most `capacity_bytes` bytes. With 0 nothing is kept.
    pub fn new(capacity_bytes: usize) -> Arc<BlockCache> {
        Arc::new(BlockCache {
            capacity_bytes,
            garbage_bytes: AtomicUsize::new(0),
            state: Mutex::new(CacheState {
                usage_bytes: 0,
                pinned_bytes: 0,
                reserved_bytes: 0,
                by_kind: Default::default(),
                rings: Default::default(),
                leaving: Vec::new(),
                leaving_bytes: 0,
                metadata_leaves: false,
            }),
            load_stripes: std::array::from_fn(|_| Mutex::new(())),
            memory: Memory::new(capacity_bytes),
        })
    }

    /// The bound it was made with, in bytes.
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

    /// Memory of `len` bytes, whatever they hold, for what is about to be kept here.
    pub(crate) fn buffer(&self, len: usize) -> LineBuf {
        match &self.memory {
            Memory::Pool(pool) => pool.buffer(len).unwrap_or_else(|| LineBuf::zeroed(len)),
            Memory::Recycled(recycled) => recycled.buffer(len),
        }
    }

    /// Memory for blocks that none has.
    fn unused_bytes(&self) -> usize {
        match &self.memory {
            Memory::Pool(pool) => pool.free_bytes(),
            Memory::Recycled(recycled) => recycled.unused_bytes(),
        }
    }

    fn has_much_garbage(&self) -> bool {
        self.garbage_bytes.load(Ordering::Relaxed) > self.capacity_bytes / GARBAGE_SHARE
    }

    /// Charges `bytes` of memory that is held beside the cache for as long as the reservation lives,
    /// and evicts what they displace. Memory that is needed whatever the capacity is: a reservation
    /// never fails.
    pub(crate) fn reserve(self: &Arc<BlockCache>, bytes: usize) -> Reservation {
        let evicted = {
            let mut state = lock(&self.state);
            state.usage_bytes += bytes;
            state.pinned_bytes += bytes;
            state.reserved_bytes += bytes;
            state.evict_to(self.capacity_bytes, &[Priority::Data, Priority::Metadata]);
            self.take_leaving(&mut state)
        };
        self.retire(evicted);
        Reservation { cache: Arc::clone(self), bytes }
    }

    /// Makes room for `entry` and takes it in; `publish` fills its slot. Returns what was evicted,
    /// for the caller to retire when it holds no lock.
    fn insert(
        self: &Arc<BlockCache>,
        entry: Arc<dyn Entry>,
        publish: impl FnOnce(),
    ) -> Option<Arc<Evicted>> {
        let may_evict = !self.has_much_garbage();
        let mut state = lock(&self.state);
        let beside_bytes = self.garbage_bytes.load(Ordering::Relaxed) + self.unused_bytes();
        let room_bytes = self
            .capacity_bytes
            .saturating_sub(beside_bytes.saturating_sub(tolerated_bytes(self.capacity_bytes)));
        if state.make_room(room_bytes, may_evict, &*entry) {
            state.add(entry);
            publish();
        }
        state.rings[Priority::Data as usize].prefetch_next();
        self.take_leaving(&mut state)
    }

    /// Turns what was evicted into garbage, when it is enough to be worth it, or is metadata.
    fn take_leaving(self: &Arc<BlockCache>, state: &mut CacheState) -> Option<Arc<Evicted>> {
        if state.leaving_bytes <= garbage_limit_bytes(self.capacity_bytes) && !state.metadata_leaves
        {
            return None;
        }
        state.metadata_leaves = false;
        let bytes = std::mem::take(&mut state.leaving_bytes);
        let next = Vec::with_capacity(state.leaving.len());
        let entries = std::mem::replace(&mut state.leaving, next);
        self.garbage_bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Arc::new(Evicted { cache: Arc::clone(self), bytes, _entries: entries }))
    }

    /// Sends garbage on its way. Hold no lock.
    fn retire(&self, evicted: Option<Arc<Evicted>>) {
        if let Some(evicted) = evicted {
            let bytes = evicted.bytes;
            sync::retire(evicted, bytes, garbage_limit_bytes(self.capacity_bytes));
        } else if self.has_much_garbage() {
            sync::collect();
        }
    }
}

impl CacheState {
    /// Evicts until `entry` fits into `room_bytes`. `false` when it cannot.
    fn make_room(&mut self, room_bytes: usize, may_evict: bool, entry: &dyn Entry) -> bool {
        let header = entry.header();
        let Some(target_bytes) = room_bytes.checked_sub(header.charge_bytes) else { return false };
        if !may_evict || self.pinned_bytes > target_bytes {
            return self.usage_bytes <= target_bytes;
        }
        let is_data = matches!(header.priority, Priority::Data);
        let data_bytes = self.by_kind[BlockKind::Data as usize].bytes;
        if is_data && data_bytes < room_bytes / DATA_SHARE {
            let mut steps = METADATA_STEPS_FOR_DATA;
            while self.usage_bytes > target_bytes {
                let ring = &mut self.rings[Priority::Metadata as usize];
                let Some(victim) = ring.next_unused(&mut steps) else { break };
                self.evict(victim);
            }
        }
        let evictable = [Priority::Data, Priority::Metadata];
        self.evict_to(target_bytes, &evictable[..if is_data { 1 } else { 2 }]);
        self.usage_bytes <= target_bytes
    }

    /// Evicts from the rings of `priorities`, one after another, until no more than `target_bytes` are
    /// charged or they are empty.
    fn evict_to(&mut self, target_bytes: usize, priorities: &[Priority]) {
        for &priority in priorities {
            while self.usage_bytes > target_bytes {
                let Some(victim) = self.rings[priority as usize].sweep() else { break };
                self.evict(victim);
            }
        }
    }

    fn evict(&mut self, victim: Arc<dyn Entry>) {
        // SAFETY: `self` is what the mutex guards, and the victim came out of its ring just now.
        unsafe { victim.empty_slot() };
        self.uncharge(&*victim);
        let header = victim.header();
        self.metadata_leaves |= header.kind != BlockKind::Data;
        self.leaving_bytes += header.charge_bytes;
        self.leaving.push(victim);
    }

    fn add(&mut self, entry: Arc<dyn Entry>) {
        let header = entry.header();
        let kind = &mut self.by_kind[header.kind as usize];
        kind.entries += 1;
        kind.bytes += header.charge_bytes;
        self.usage_bytes += header.charge_bytes;
        if let Priority::Pinned = header.priority {
            self.pinned_bytes += header.charge_bytes;
        }
        self.rings[header.priority as usize].push(entry);
    }

    /// Takes `entry` out of its ring.
    fn remove(&mut self, entry: &dyn Entry) -> Arc<dyn Entry> {
        self.uncharge(entry);
        self.rings[entry.header().priority as usize].take(entry)
    }

    fn uncharge(&mut self, entry: &dyn Entry) {
        let header = entry.header();
        let kind = &mut self.by_kind[header.kind as usize];
        kind.entries -= 1;
        kind.bytes -= header.charge_bytes;
        self.usage_bytes -= header.charge_bytes;
        if let Priority::Pinned = header.priority {
            self.pinned_bytes -= header.charge_bytes;
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
    fn drop(&mut self) {
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

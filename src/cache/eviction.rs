//! Eviction: which values leave the cache to make room, and how many bytes the remaining values
//! take.
//!
//! ```text
//!   room is made for    by evicting
//!   data                unused metadata, a few entries, while data has less than its share;
//!                       then data
//!   metadata, a reservation                 data, then metadata
//!   data, where metadata fills the cache    the same
//!
//!               used since?  yes ┌───────────┐
//!   new data ─► probation ──────►│ protected │⟲    a second chance each time it was used
//!                   │ no         └─────┬─────┘
//!                   ▼                  ▼
//!            evicted: its slot keeps a stamp      comes back soon ─► protected, at once
//! ```
//!
//! Most blocks are used once: by a scan, or because their keys are rarely read. So a new data block
//! is on probation, in a ring that takes up to a tenth of the bytes of all data. There it is
//! evicted unless it was used again, which moves it to the protected ring. A block that returns
//! soon after its eviction is protected at once. This is S3-FIFO (Yang et al., "FIFO queues are all
//! you need for cache eviction", SOSP 2023) with three changes: one bit records use, rings replace
//! the queues, and stamps in empty slots replace the list of evicted keys.
//!
//! Where metadata fills the cache, only data blocks that were used before are cached
//! ([`super::policy`]), and they enter the protected ring at once. When the hand of this ring reaches
//! a block that was used since it entered, the block moves to the ring of the metadata, whose hand
//! treats it as it treats an index. Other blocks are evicted.
//!
//! No value is dropped here. Evicted values are collected in `leaving`, and the cache retires them
//! while it holds no lock.

use std::sync::Arc;

use super::kind::{BlockKind, KindUsage};
use super::ring::{CacheEntry, Header, MAX_METADATA_CHANCES, MAX_SECOND_CHANCES, Ring, RingName};

/// While data has less than 1/8 of the bytes that the rings may take, a new data block first
/// displaces metadata that was not used during the last turns of the hand. So the filters of cold
/// tables cannot keep all data out. When data has more than this share, a new data block displaces
/// data only, unless metadata fills the cache.
const DATA_SHARE: usize = 8;

/// For a new data block, at most this many metadata entries are examined, and the unused ones are
/// evicted. If these evictions and the eviction of data make too little room, the block stays out
/// of the cache, because losing the block is cheaper than losing a filter in use.
const METADATA_STEPS_FOR_DATA: usize = 4;

/// Data on probation takes up to 1/10 of the bytes of all data, as in the paper on S3-FIFO.
const PROBATION_SHARE: usize = 10;

/// The values in the rings, the bytes that are charged for them and for reservations, and the
/// evicted values that are not retired yet. Guarded by the cache's mutex. Values in a miss buffer
/// ([`super::miss_buffers`]) are not here.
pub(super) struct CacheState {
    pub usage_bytes: usize,
    /// The part of `usage_bytes` that pinned entries and reservations take.
    pub pinned_bytes: usize,
    pub reserved_bytes: usize,
    pub by_kind: [KindUsage; 3],
    /// The bytes of the data on probation.
    probation_bytes: usize,
    /// Indexed by [`RingName`].
    rings: [Ring; 4],
    /// The stamp that the next eviction leaves in a slot: one more than the number of data blocks
    /// evicted so far.
    stamp: usize,
    /// Evicted values, collected until there are enough bytes to retire together.
    pub leaving: Vec<Arc<dyn CacheEntry>>,
    pub leaving_bytes: usize,
    /// Whether the filters and indexes of all open tables would fill the cache if all were in
    /// memory. If so, a new data block may displace any metadata.
    metadata_fills: bool,
    /// Whether `leaving` holds metadata, which must be retired at once: an index owns a reference
    /// to the cache, so an index that stayed in `leaving` would keep the cache alive.
    pub metadata_leaves: bool,
}

impl CacheState {
    pub fn new() -> CacheState {
        CacheState {
            usage_bytes: 0,
            pinned_bytes: 0,
            reserved_bytes: 0,
            by_kind: Default::default(),
            probation_bytes: 0,
            rings: Default::default(),
            stamp: 1,
            leaving: Vec::new(),
            leaving_bytes: 0,
            metadata_fills: false,
            metadata_leaves: false,
        }
    }

    /// Sets whether filters and indexes would fill the cache. When they no longer would, the data
    /// blocks in the ring of the metadata move to the protected ring, because new data could hardly
    /// displace them from the ring of the metadata.
    pub fn set_metadata_fills(&mut self, fills: bool) {
        if self.metadata_fills && !fills {
            for _ in 0..self.rings[RingName::Metadata as usize].len() {
                let Some(entry) = self.rings[RingName::Metadata as usize].next() else { break };
                if entry.header().kind == BlockKind::Data {
                    entry.header().set_ring(RingName::Protected);
                }
                let ring = entry.header().ring();
                self.rings[ring as usize].push(entry);
            }
        }
        self.metadata_fills = fills;
    }

    /// Evicts values, if `may_evict` is set, until `entry` fits into `room_bytes` together with all
    /// that is charged. Returns whether the entry is kept: if it fits, or if it is pinned.
    pub fn make_room(
        &mut self,
        room_bytes: usize,
        may_evict: bool,
        entry: &dyn CacheEntry,
    ) -> bool {
        let header = entry.header();
        if header.ring() == RingName::Pinned {
            self.evict_to(room_bytes.saturating_sub(header.charge_bytes));
            return true;
        }
        let Some(target_bytes) = room_bytes.checked_sub(header.charge_bytes) else { return false };
        if !may_evict || self.pinned_bytes > target_bytes {
            return self.usage_bytes <= target_bytes;
        }
        let is_data = header.kind == BlockKind::Data && !self.metadata_fills;
        let data_bytes = self.by_kind[BlockKind::Data as usize].bytes;
        if is_data && data_bytes < room_bytes / DATA_SHARE {
            let mut steps = METADATA_STEPS_FOR_DATA;
            while self.usage_bytes > target_bytes {
                let ring = &mut self.rings[RingName::Metadata as usize];
                let Some(victim) = ring.next_unused(&mut steps) else { break };
                self.evict(victim);
            }
        }
        match is_data {
            true => self.evict_data_to(target_bytes),
            false => self.evict_to(target_bytes),
        }
        self.usage_bytes <= target_bytes
    }

    /// Evicts data, then metadata, until at most `target_bytes` are charged, or only pinned values
    /// and reservations are left.
    pub fn evict_to(&mut self, target_bytes: usize) {
        self.evict_data_to(target_bytes);
        while self.usage_bytes > target_bytes {
            let ring = &mut self.rings[RingName::Metadata as usize];
            let Some(victim) = ring.sweep(MAX_METADATA_CHANCES) else { break };
            self.evict(victim);
        }
    }

    fn evict_data_to(&mut self, target_bytes: usize) {
        while self.usage_bytes > target_bytes {
            let Some(victim) = self.next_data() else { break };
            self.evict(victim);
        }
    }

    /// Removes from its ring the data block to evict next.
    fn next_data(&mut self) -> Option<Arc<dyn CacheEntry>> {
        for step in 0.. {
            if !self.probation_leaves() {
                break;
            }
            let Some(entry) = self.rings[RingName::Probation as usize].next() else { break };
            if step == MAX_SECOND_CHANCES || !entry.header().take_used() {
                return Some(entry);
            }
            self.probation_bytes -= entry.header().charge_bytes;
            entry.header().set_ring(RingName::Protected);
            self.rings[RingName::Protected as usize].push(entry);
        }
        if !self.metadata_fills {
            return self.rings[RingName::Protected as usize].sweep(MAX_SECOND_CHANCES);
        }
        for step in 0.. {
            let Some(entry) = self.rings[RingName::Protected as usize].next() else {
                return self.rings[RingName::Probation as usize].next();
            };
            if step == MAX_SECOND_CHANCES || !entry.header().take_used() {
                return Some(entry);
            }
            entry.header().set_ring(RingName::Metadata);
            self.rings[RingName::Metadata as usize].push(entry);
        }
        None
    }

    /// Whether the next data block to evict is on probation.
    fn probation_leaves(&self) -> bool {
        let data_bytes = self.by_kind[BlockKind::Data as usize].bytes;
        self.probation_bytes > data_bytes / PROBATION_SHARE
            || self.rings[RingName::Protected as usize].is_empty()
    }

    fn evict(&mut self, victim: Arc<dyn CacheEntry>) {
        // SAFETY: the mutex guards `self`, and the victim came out of its ring just now.
        unsafe { victim.empty_slot(self.stamp) };
        let header = victim.header();
        self.uncharge(header);
        self.stamp += usize::from(header.kind == BlockKind::Data);
        self.metadata_leaves |= header.kind != BlockKind::Data;
        self.leaving_bytes += header.charge_bytes;
        self.leaving.push(victim);
    }

    /// Evicts a fresh value for which the rings have no room. The value is already in its slot.
    pub fn turn_away(&mut self, entry: Arc<dyn CacheEntry>) {
        self.add(Arc::clone(&entry), 0);
        self.evict_now(&*entry);
    }

    /// Evicts `entry`, which is in its ring.
    pub fn evict_now(&mut self, entry: &dyn CacheEntry) {
        let victim = self.rings[entry.header().ring() as usize].take(entry);
        self.evict(victim);
    }

    /// Adds `entry`, for which there is room. `stamp` is what the value's last eviction left in the
    /// slot, or 0.
    pub fn add(&mut self, entry: Arc<dyn CacheEntry>, stamp: usize) {
        let header = entry.header();
        let blocks = self.by_kind[BlockKind::Data as usize].entries;
        if header.ring() == RingName::Probation {
            // The block returned soon if, since its eviction, fewer other data blocks were evicted
            // than are in the cache now.
            match stamp > 0 && self.stamp.wrapping_sub(stamp) <= blocks {
                true => header.set_ring(RingName::Protected),
                false => self.probation_bytes += header.charge_bytes,
            }
        }
        let kind = &mut self.by_kind[header.kind as usize];
        kind.entries += 1;
        kind.bytes += header.charge_bytes;
        self.usage_bytes += header.charge_bytes;
        let ring = header.ring();
        if ring == RingName::Pinned {
            self.pinned_bytes += header.charge_bytes;
        }
        self.rings[ring as usize].push(entry);
    }

    /// Takes `entry` out of its ring.
    pub fn remove(&mut self, entry: &dyn CacheEntry) -> Arc<dyn CacheEntry> {
        self.uncharge(entry.header());
        self.rings[entry.header().ring() as usize].take(entry)
    }

    fn uncharge(&mut self, header: &Header) {
        let kind = &mut self.by_kind[header.kind as usize];
        kind.entries -= 1;
        kind.bytes -= header.charge_bytes;
        self.usage_bytes -= header.charge_bytes;
        match header.ring() {
            RingName::Pinned => self.pinned_bytes -= header.charge_bytes,
            RingName::Probation => self.probation_bytes -= header.charge_bytes,
            RingName::Protected | RingName::Metadata => {}
        }
    }
}

//! Eviction: what leaves the cache to make room, and the accounts of what stays.
//!
//! ```text
//!   room is made for    by evicting
//!   data                unused metadata, a few entries, while data has less than its share;
//!                       then data
//!   metadata            data, then metadata
//!   a reservation       data, then metadata
//! ```
//!
//! Nothing is dropped here: evicted values are collected in `leaving`, and the cache retires them
//! when it holds no lock.

use std::sync::Arc;

use super::ring::{Entry, Ring};
use super::{BlockKind, KindUsage};

/// Data may take up to 1/8 of the capacity from metadata: a data block then displaces metadata that
/// nobody used during a whole turn of the hand. So the filters of cold tables cannot keep all data
/// out. Above this share data displaces data only.
const DATA_SHARE: usize = 8;

/// A data block looks at this many metadata entries at most. If it finds no room among them, it stays
/// out of the cache: losing it is cheaper than losing a filter in use.
const METADATA_STEPS_FOR_DATA: usize = 4;

/// Which values leave first.
#[derive(Clone, Copy)]
pub(super) enum Priority {
    Data,
    Metadata,
    Pinned,
}

/// What the cache owns, counts and evicts. Guarded by its mutex.
#[derive(Default)]
pub(super) struct CacheState {
    pub usage_bytes: usize,
    /// The part of it that pinned entries and reservations take.
    pub pinned_bytes: usize,
    pub reserved_bytes: usize,
    pub by_kind: [KindUsage; 3],
    /// By [`Priority`].
    pub rings: [Ring; 3],
    /// Evicted data, until it is enough to be retired together.
    pub leaving: Vec<Arc<dyn Entry>>,
    pub leaving_bytes: usize,
    /// Metadata is leaving too and must be retired at once: an index leads back to the cache, so
    /// the cache must not keep it.
    pub metadata_leaves: bool,
}

impl CacheState {
    /// Evicts until `entry` fits into `room_bytes`. `false` if it does not fit.
    pub fn make_room(&mut self, room_bytes: usize, may_evict: bool, entry: &dyn Entry) -> bool {
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

    /// Evicts from the rings of `priorities`, one after the other, until at most `target_bytes` are
    /// charged or the rings are empty.
    pub fn evict_to(&mut self, target_bytes: usize, priorities: &[Priority]) {
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

    /// Takes `entry` in. There is room for it.
    pub fn add(&mut self, entry: Arc<dyn Entry>) {
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
    pub fn remove(&mut self, entry: &dyn Entry) -> Arc<dyn Entry> {
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

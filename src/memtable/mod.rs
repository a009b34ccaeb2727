//! The memtable: the newest writes, in memory and in order, until they are flushed to a table.
//!
//! ```text
//! Memtable ─┬─ points   skip list of  user key | sequence, kind  →  value
//!           ├─ ranges   range deletions, sorted for queries; replaced as a whole at each insert
//!           └─ counters
//! ```
//!
//! [`Memtable::new`] gives two handles. Any number of threads read through the [`Memtable`]; only
//! the owner of the [`MemtableWriter`] inserts, through `&mut`, so that two concurrent inserts do
//! not compile. When the writer is dropped the memtable is frozen (RocksDB: immutable): no insert
//! is possible any more.
//!
//! Readers take no lock. A reader that has loaded a sequence number, which the writer published,
//! sees every insert that the writer made before it published the number.
//!
//! Absent on purpose: applying deletions to older entries. A memtable keeps all versions of a key.
//! The reader gets one of them by a sequence number ([`Memtable::get`]), and calls
//! [`Memtable::covering`] to learn whether a range deletion hides that version.

mod arena;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod reference;
mod skiplist;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use crate::encoding::key;
use crate::encoding::key::{EntryKind, SEEK_KIND, SequenceNumber};
use crate::range_tombstones::{RangeTombstone, RangeTombstoneSets};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{ArcCell, Guard, Padded, Retired, collect, pin};
use skiplist::{SkipList, SkipListWriter};

/// Iterates over the *points* of a memtable: all entries but the range deletions. Keeps the
/// memtable's memory alive.
pub(crate) type MemtableCursor = skiplist::SkipListCursor;

/// The handle of readers. See the module.
pub(crate) struct Memtable {
    points: Arc<SkipList>,
    ranges: ArcCell<RangeTombstoneSets>,
    /// The counters change at every insert, so they are kept off the cache lines of the other
    /// fields.
    counters: Padded<Counters>,
}

/// Only the writer changes the counters. They are exact for the writer's thread. Other threads may
/// read slightly older counts until the memtable is frozen.
struct Counters {
    entries: AtomicUsize,
    /// How many of the entries delete one key.
    deletions: AtomicUsize,
    /// How many of the entries are range deletions.
    ranges: AtomicUsize,
    /// Bytes of the range deletions.
    range_bytes: AtomicUsize,
    /// [`key::MAX_SEQUENCE`] while there is no entry.
    smallest_sequence: AtomicU64,
    largest_sequence: AtomicU64,
}

impl Retired for RangeTombstoneSets {}

/// Each insert of a range deletion replaces [`Memtable::ranges`] as a whole. Whenever this many
/// replacements were made, the writer frees the replaced values that no thread reads any more.
const COLLECT_EVERY: usize = 64;

/// A memtable with this many range deletions is full. Large sets of range deletions are not merged
/// ([`RangeTombstoneSets::with`]), so without this limit a large memtable would have many sets, and
/// every lookup would query all of them.
const MANY_RANGES: usize = 1 << 15;

impl Memtable {
    /// An empty memtable that is expected to grow to `arena_bytes`, and its writer.
    pub fn new(arena_bytes: usize) -> (Arc<Memtable>, MemtableWriter) {
        let (points, point_writer) = SkipListWriter::new(arena_bytes);
        let ranges = ArcCell::new(Arc::default());
        let counters = Padded(Counters {
            entries: AtomicUsize::new(0),
            deletions: AtomicUsize::new(0),
            ranges: AtomicUsize::new(0),
            range_bytes: AtomicUsize::new(0),
            smallest_sequence: AtomicU64::new(key::MAX_SEQUENCE),
            largest_sequence: AtomicU64::new(0),
        });
        let memtable = Arc::new(Memtable { points, ranges, counters });
        let writer = MemtableWriter { memtable: Arc::clone(&memtable), points: point_writer };
        (memtable, writer)
    }

    /// The newest version of `user_key` at or below `sequence`: its sequence number, kind and
    /// value. Ignores range deletions.
    pub fn get(
        &self,
        user_key: &[u8],
        sequence: SequenceNumber,
    ) -> Option<(SequenceNumber, u8, &[u8])> {
        let (trailer, value) = self.points.get(user_key, key::pack(sequence, SEEK_KIND))?;
        Some((trailer >> 8, trailer as u8, value))
    }

    /// A cursor that is not on an entry yet. It sees entries that are inserted later.
    pub fn cursor(&self) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(&self.points))
    }

    /// The sequence number of the newest range deletion at or below `sequence` that covers
    /// `user_key`; 0 if there is none. Costs one load if the memtable has no range deletions.
    #[inline]
    pub fn covering(
        &self,
        user_key: &[u8],
        sequence: SequenceNumber,
        guard: &Guard,
    ) -> SequenceNumber {
        match self.has_ranges() {
            false => 0,
            true => self.ranges.load(guard).covering(user_key, sequence),
        }
    }

    /// Whether the memtable has range deletions. A reader whose snapshot includes a range deletion
    /// of the memtable gets `true`, because the writer counts the deletion before its sequence
    /// number is published.
    #[inline]
    pub fn has_ranges(&self) -> bool {
        self.counters.0.ranges.load(Ordering::Relaxed) > 0
    }

    /// The current range deletions, in an `Arc` that the caller may keep without a guard.
    pub fn ranges(&self) -> Arc<RangeTombstoneSets> {
        self.ranges.load_arc(&pin())
    }

    /// Bytes allocated for entries, including bytes of the skip list's arena that are not used.
    pub fn bytes(&self) -> usize {
        self.points.allocated_bytes() + self.counters.0.range_bytes.load(Ordering::Relaxed)
    }

    /// Whether the memtable should be flushed: it has `most_bytes`, or [`MANY_RANGES`] range
    /// deletions.
    #[inline]
    pub fn is_full(&self, most_bytes: usize) -> bool {
        self.bytes() >= most_bytes || self.counters.0.ranges.load(Ordering::Relaxed) >= MANY_RANGES
    }

    /// Whether the address lies in the memory where the keys and values of the points are.
    pub fn holds(&self, address: usize) -> bool {
        self.points.holds(address)
    }

    /// How many entries were inserted, range deletions included.
    #[inline]
    pub fn len(&self) -> usize {
        self.counters.0.entries.load(Ordering::Relaxed)
    }

    /// How many of the entries delete one key.
    pub fn deletions(&self) -> usize {
        self.counters.0.deletions.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest sequence number of all entries; [`key::MAX_SEQUENCE`] when there are none.
    #[inline]
    pub fn smallest_sequence(&self) -> SequenceNumber {
        self.counters.0.smallest_sequence.load(Ordering::Relaxed)
    }

    /// The largest sequence number of all entries; 0 when there are none.
    pub fn largest_sequence(&self) -> SequenceNumber {
        self.counters.0.largest_sequence.load(Ordering::Relaxed)
    }
}

/// The right to insert into one memtable. There is one per memtable, and it is not `Clone`.
pub(crate) struct MemtableWriter {
    memtable: Arc<Memtable>,
    points: SkipListWriter,
}

impl MemtableWriter {
    /// Adds an entry. For a range deletion `user_key` is the start and `value` the exclusive end.
    /// The same user key, sequence number and kind must not be inserted twice.
    ///
    /// Panics if the entry is no range deletion, and its internal key or its value has 4 GiB or
    /// more.
    pub fn insert(&mut self, user_key: &[u8], sequence: SequenceNumber, kind: u8, value: &[u8]) {
        let kind_of_entry = EntryKind::from_byte(kind);
        match kind_of_entry {
            Some(EntryKind::RangeDeletion) => self.insert_range(user_key, value, sequence),
            _ => self.points.insert(user_key, key::pack(sequence, kind), value),
        }

        // Plain loads and stores, because there is no other writer.
        let Counters { entries, deletions, smallest_sequence, largest_sequence, .. } =
            &self.memtable.counters.0;
        if matches!(kind_of_entry, Some(EntryKind::Deletion | EntryKind::SingleDeletion)) {
            deletions.store(self.memtable.deletions() + 1, Ordering::Relaxed);
        }
        entries.store(self.memtable.len() + 1, Ordering::Relaxed);
        if sequence < self.memtable.smallest_sequence() {
            smallest_sequence.store(sequence, Ordering::Relaxed);
        }
        if sequence > self.memtable.largest_sequence() {
            largest_sequence.store(sequence, Ordering::Relaxed);
        }
    }

    fn insert_range(&mut self, start: &[u8], end: &[u8], sequence: SequenceNumber) {
        let memtable = &*self.memtable;
        let new = memtable.ranges().with(RangeTombstone { start, end, sequence });
        let Counters { ranges, range_bytes, .. } = &memtable.counters.0;
        range_bytes.store(new.heap_bytes(), Ordering::Relaxed);
        memtable.ranges.replace(Arc::new(new));
        let count = ranges.load(Ordering::Relaxed) + 1;
        ranges.store(count, Ordering::Relaxed);
        if count.is_multiple_of(COLLECT_EVERY) {
            collect();
        }
    }
}

/// The writer can also read.
impl Deref for MemtableWriter {
    type Target = Memtable;

    fn deref(&self) -> &Memtable {
        &self.memtable
    }
}

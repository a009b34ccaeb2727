//! The memtable: the newest writes, in memory and in order, until they are flushed to a table.
//!
//! ```text
//! Memtable ─┬─ points   skip list of  user key | sequence, kind  →  value
//!           ├─ ranges   skip list of  start    | sequence, kind  →  end (exclusive)
//!           └─ counters
//! ```
//!
//! [`Memtable::new`] gives two handles. Any number of threads read through the [`Memtable`]; only
//! the owner of the [`MemtableWriter`] inserts, through `&mut`, so that two concurrent inserts do
//! not compile. When the writer is dropped the memtable is frozen: nobody can insert any more.
//!
//! Readers take no lock and see an insert, at the latest, when they see a sequence number that the
//! writer's thread published after it.
//!
//! Absent on purpose: what a kind means, and what a range deletion covers. All versions of a key
//! are kept; the reader chooses by sequence number.

mod arena;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod plain;
mod skiplist;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use crate::key::{self, EntryKind, SEEK_KIND, SequenceNumber};
use crate::sync::Padded;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use skiplist::{SkipList, SkipListWriter};

/// Walks the points of a memtable, not its range deletions. Keeps the memtable's memory alive.
pub(crate) type MemtableCursor = skiplist::SkipListCursor;

/// What readers hold. See the module.
pub(crate) struct Memtable {
    points: Arc<SkipList>,
    ranges: Arc<SkipList>,
    /// Written at every insert: kept off the lines that every lookup reads.
    counters: Padded<Counters>,
}

/// Written by the writer only. Exact for its thread, and for all once the memtable is frozen.
struct Counters {
    entries: AtomicUsize,
    /// [`key::MAX_SEQUENCE`] while there is no entry.
    smallest_sequence: AtomicU64,
    largest_sequence: AtomicU64,
}

/// A tombstone for the user keys from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeDeletion<'a> {
    pub start: &'a [u8],
    pub end: &'a [u8],
    pub sequence: SequenceNumber,
}

impl Memtable {
    /// An empty memtable that is expected to grow to `arena_bytes`, and the right to fill it.
    pub fn new(arena_bytes: usize) -> (Arc<Memtable>, MemtableWriter) {
        let (points, point_writer) = SkipListWriter::new(arena_bytes);
        let (ranges, range_writer) = SkipListWriter::new(arena_bytes);
        let counters = Padded(Counters {
            entries: AtomicUsize::new(0),
            smallest_sequence: AtomicU64::new(key::MAX_SEQUENCE),
            largest_sequence: AtomicU64::new(0),
        });
        let memtable = Arc::new(Memtable { points, ranges, counters });
        let writer = MemtableWriter {
            memtable: Arc::clone(&memtable),
            points: point_writer,
            ranges: range_writer,
        };
        (memtable, writer)
    }

    /// The newest version of `user_key` at or below `sequence`: its sequence number, kind and
    /// value. Range deletions are not looked at.
    pub fn get(
        &self,
        user_key: &[u8],
        sequence: SequenceNumber,
    ) -> Option<(SequenceNumber, u8, &[u8])> {
        let (trailer, value) = self.points.get(user_key, key::pack(sequence, SEEK_KIND))?;
        Some((trailer >> 8, trailer as u8, value))
    }

    /// A cursor that stands on no entry yet. It sees entries that are inserted later.
    pub fn cursor(&self) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(&self.points))
    }

    /// Every range deletion, by start key ascending, then sequence number descending. When there
    /// is none this costs one load.
    #[cfg_attr(not(test), expect(dead_code, reason = "the store has no range deletions yet"))]
    pub fn range_deletions(&self) -> impl Iterator<Item = RangeDeletion<'_>> {
        self.ranges.entries().map(|(start, end)| RangeDeletion {
            start: key::user_key(start),
            end,
            sequence: key::sequence(start),
        })
    }

    /// Bytes taken from the allocator for entries.
    pub fn bytes(&self) -> usize {
        self.points.allocated_bytes() + self.ranges.allocated_bytes()
    }

    /// How many entries were inserted, range deletions included.
    pub fn len(&self) -> usize {
        self.counters.0.entries.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest sequence number of all entries; [`key::MAX_SEQUENCE`] when there are none.
    pub fn smallest_sequence(&self) -> SequenceNumber {
        self.counters.0.smallest_sequence.load(Ordering::Relaxed)
    }

    /// The largest sequence number of all entries; 0 when there are none.
    pub fn largest_sequence(&self) -> SequenceNumber {
        self.counters.0.largest_sequence.load(Ordering::Relaxed)
    }
}

/// The right to insert into one memtable: there is one of it, and it is not `Clone`.
pub(crate) struct MemtableWriter {
    memtable: Arc<Memtable>,
    points: SkipListWriter,
    ranges: SkipListWriter,
}

impl MemtableWriter {
    /// Adds an entry. For a range deletion `user_key` is the start and `value` the exclusive end.
    /// The same user key, sequence number and kind must not be inserted twice.
    ///
    /// Panics when key or value is 4 GiB or more.
    pub fn insert(&mut self, user_key: &[u8], sequence: SequenceNumber, kind: u8, value: &[u8]) {
        let list = match EntryKind::from_byte(kind) {
            Some(EntryKind::RangeDeletion) => &mut self.ranges,
            _ => &mut self.points,
        };
        list.insert(user_key, key::pack(sequence, kind), value);

        // Plain loads and stores: nobody else writes.
        let Counters { entries, smallest_sequence, largest_sequence } = &self.memtable.counters.0;
        entries.store(self.memtable.len() + 1, Ordering::Relaxed);
        if sequence < self.memtable.smallest_sequence() {
            smallest_sequence.store(sequence, Ordering::Relaxed);
        }
        if sequence > self.memtable.largest_sequence() {
            largest_sequence.store(sequence, Ordering::Relaxed);
        }
    }
}

/// The writer reads too.
impl Deref for MemtableWriter {
    type Target = Memtable;

    fn deref(&self) -> &Memtable {
        &self.memtable
    }
}

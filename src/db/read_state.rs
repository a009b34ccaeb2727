//! What a read sees: memtables and tables ([`ReadState`]), up to a sequence number ([`ReadPoint`]).
//!
//! ```text
//!   publish ──► ReadState 7  ◄── lookups, for as long as they hold their guard
//!               ReadState 6  ◄── iterators and cursors, each with one reference count
//! ```
//!
//! **Order of loads.** A read without a snapshot loads the read state first, and the last visible
//! sequence number second. In the opposite order, a compaction between the two loads could drop a
//! version that a read at this number needs. After both loads the read checks whether its read
//! state is still the current one, and starts again if not. The reason is that an ingestion
//! replaces the read state but keeps its memtable. With the state from before an ingestion, a read
//! could see writes in this memtable that are newer than the ingested table, but not the table.
//! `Reading::load_read_point` does all this.

use std::sync::Arc;

use super::inner::status::Status;
use super::inner::tree_state::TreeState;
use super::iter::marks::Marks;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::lookup::Sources;
use crate::memtable::Memtable;
use crate::stats::Counters;
use crate::sync::{OwnedMemory, Process, Retired};

/// What readers of a tree see.
pub(crate) struct ReadState {
    pub sources: Sources,
    /// The counters of the database. A cursor holds the read state anyway, so it needs no second
    /// `Arc` to reach them.
    pub counters: Arc<Counters>,
    /// The *marks*: intervals of keys in which earlier cursors found nothing to show, so that later
    /// ones jump over them ([`crate::db::iter::marks`]). Like `counters`, they are here so that a
    /// cursor needs no second `Arc` to reach them.
    pub marks: Arc<Marks>,
}

impl ReadState {
    pub fn of(tree: &TreeState, counters: &Arc<Counters>, marks: &Arc<Marks>) -> ReadState {
        ReadState {
            sources: Sources {
                memtable: Arc::clone(&tree.memtable),
                frozen: tree.frozen.iter().rev().map(|it| Arc::clone(&it.memtable)).collect(),
                version: Arc::clone(&tree.version),
            },
            counters: Arc::clone(counters),
            marks: Arc::clone(marks),
        }
    }

    /// Keeps the files of all tables open, whatever happens to their names.
    pub fn keep_tables_open(&self) {
        for (_, file) in self.sources.version.files() {
            // A table that cannot be kept open is opened when it is read. If it is gone, that read
            // fails.
            let _ = file.table.block_file().file().keep_open();
        }
    }
}

impl Retired for ReadState {
    /// The memtable that holds the byte at `address`. It is kept while a callback still reads a
    /// value in it, although the read state itself is freed. A read state owns no other memory to
    /// keep. Blocks belong to other objects: to what the cache has evicted, and to what tables have
    /// removed from their slots.
    fn memory_at(&self, address: usize) -> Option<OwnedMemory> {
        let memtable = self.sources.memtables().find(|memtable| memtable.holds(address))?;
        let owner = Arc::<Memtable>::clone(memtable);
        Some(OwnedMemory { owner, heap_bytes: memtable.bytes() })
    }
}

/// What an iterator or a cursor sees: the entries of a read state up to a sequence number.
#[derive(Clone)]
pub(crate) struct ReadPoint {
    pub state: Arc<ReadState>,
    pub sequence: SequenceNumber,
    /// Whether the database was open when this read point was made. A cursor made before the
    /// closing continues with what it holds; one made later returns an error.
    open: bool,
    /// Whether `sequence` is that of a snapshot. A cursor of a snapshot proposes no mark
    /// ([`ReadState::marks`]), because entries that the snapshot does not see may have been written
    /// since.
    pub is_snapshot: bool,
    /// A forked child reads nothing through this read point, because another thread of the parent
    /// may have held a lock of a table or of the cache at the fork.
    process: Process,
}

impl ReadPoint {
    pub fn new(
        state: Arc<ReadState>,
        sequence: SequenceNumber,
        is_snapshot: bool,
        status: &Status,
    ) -> ReadPoint {
        let open = status.check_open().is_ok();
        ReadPoint { state, sequence, open, is_snapshot, process: status.process() }
    }

    #[inline]
    pub fn check_open(&self) -> Result<()> {
        self.process.check()?;
        if self.open { Ok(()) } else { Err(Error::Closed) }
    }

    #[inline(always)]
    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // In a forked child the state is leaked, because dropping its tables may take locks
            // that another thread of the parent held at the fork.
            std::mem::forget(Arc::clone(&self.state));
        }
    }
}

//! What a read sees: memtables and tables ([`ReadState`]), and the last write that counts
//! ([`ReadPoint`]).
//!
//! ```text
//!   publish ──► ReadState 7  ◄── lookups, for as long as they hold their guard
//!               ReadState 6  ◄── iterators and cursors, each with one count
//! ```
//!
//! Invariant: load the read state first, the sequence number after it. Then every write that the
//! number counts is in the read state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Inner;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::stats::Counters;
use crate::sync::{Process, pin};
use crate::version::Version;

/// All memtables and tables. Immutable, except that writers add entries to the newest memtable:
/// readers tell these apart by sequence number.
pub(crate) struct ReadState {
    pub memtable: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    pub version: Arc<Version>,
    /// Here, so that a cursor counts without an `Arc` of its own.
    pub counters: Arc<Counters>,
}

impl ReadState {
    /// All memtables, newest first.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> + Clone {
        std::iter::once(&self.memtable).chain(&self.frozen)
    }

    /// Whether any memtable may have entries. The frozen ones nearly always have.
    #[inline]
    pub fn has_entries_in_memory(&self) -> bool {
        !self.memtable.is_empty() || !self.frozen.is_empty()
    }
}

/// What an iterator or a cursor sees: a read state, up to a sequence number.
#[derive(Clone)]
pub(crate) struct ReadPoint {
    pub state: Arc<ReadState>,
    pub sequence: SequenceNumber,
    /// Whether the database was open when this was made. A cursor made before the closing goes on
    /// with what it holds; one made later answers an error.
    open: bool,
    /// A forked child reads nothing through it: a block may be in the hands of another thread.
    process: Process,
}

impl ReadPoint {
    /// `snapshot`: the sequence number of a snapshot, `None` for the last visible write.
    pub fn new(inner: &Inner, snapshot: Option<SequenceNumber>) -> ReadPoint {
        let state = inner.read_state.load_arc(&pin());
        let sequence = snapshot.unwrap_or_else(|| inner.visible.load(Ordering::Acquire));
        ReadPoint { state, sequence, open: inner.check_open().is_ok(), process: inner.process }
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
            // Its tables take locks when they are dropped, and delete their files.
            std::mem::forget(Arc::clone(&self.state));
        }
    }
}

//! What a read sees: memtables and tables ([`ReadState`]), and the last write that counts
//! ([`ReadPoint`]).
//!
//! ```text
//!   publish ──► ReadState 7  ◄── lookups, for as long as they hold their guard
//!               ReadState 6  ◄── iterators and cursors, each with one count
//! ```
//!
//! Invariant: load the read state first, the sequence number after it. Then every version that the
//! number needs is still there. Then check whether the read state is still the current one: an
//! ingestion replaces it without a new memtable, so the old one continues to show later writes, but
//! lacks the ingested table between them. [`Inner::load_read_point`] does all this.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Inner;
use super::iter::marks::Marks;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::stats::Counters;
use crate::sync::{Guard, Held, Part, Process, Retired, pin};
use crate::version::Version;

/// All memtables and tables. Immutable, except that writers add entries to the newest memtable:
/// readers tell these apart by sequence number.
pub(crate) struct ReadState {
    pub memtable: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    pub version: Arc<Version>,
    /// Kept here, so that a cursor counts without an `Arc` of its own.
    pub counters: Arc<Counters>,
    /// Kept here for the same reason.
    pub marks: Arc<Marks>,
}

impl ReadState {
    /// All memtables, newest first.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> + Clone {
        std::iter::once(&self.memtable).chain(&self.frozen)
    }

    /// Whether any memtable may have entries. Frozen ones nearly always have some.
    #[inline]
    pub fn has_entries_in_memory(&self) -> bool {
        !self.memtable.is_empty() || !self.frozen.is_empty()
    }
}

impl Retired for ReadState {
    /// A memtable. Blocks have other owners: the cache's rings, and the slots of the tables.
    fn part_at(&self, address: usize) -> Option<Part> {
        let memtable = self.memtables().find(|memtable| memtable.holds(address))?;
        let owner = Arc::<Memtable>::clone(memtable);
        Some(Part { owner, heap_bytes: memtable.bytes() })
    }
}

/// What an iterator or a cursor sees: a read state, up to a sequence number.
#[derive(Clone)]
pub(crate) struct ReadPoint {
    pub state: Arc<ReadState>,
    pub sequence: SequenceNumber,
    /// Whether the database was open when this was made. A cursor made before the closing continues
    /// with what it holds; one made later returns an error.
    open: bool,
    /// Whether this is a snapshot, which may be old.
    pub is_snapshot: bool,
    /// A forked child reads nothing through it, because another thread may have been using a block
    /// at the fork.
    process: Process,
}

impl ReadPoint {
    /// `snapshot`: the sequence number of a snapshot, `None` for the last visible write.
    pub fn new(inner: &Inner, snapshot: Option<SequenceNumber>) -> ReadPoint {
        let guard = pin();
        let (state, sequence) = inner.load_read_point(snapshot, &guard);
        ReadPoint {
            state: state.to_arc(),
            sequence,
            open: inner.check_open().is_ok(),
            is_snapshot: snapshot.is_some(),
            process: inner.process,
        }
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
            // Leaked, because its tables take locks and delete their files when they are dropped.
            std::mem::forget(Arc::clone(&self.state));
        }
    }
}

impl Inner {
    /// The read state, and the sequence number up to which it counts: `snapshot`, or else the last
    /// visible write.
    #[inline(always)]
    pub(super) fn load_read_point<'g>(
        &'g self,
        snapshot: Option<SequenceNumber>,
        guard: &'g Guard,
    ) -> (Held<'g, ReadState>, SequenceNumber) {
        loop {
            let state = self.read_state.load_held(guard);
            #[cfg(test)]
            tests::between_the_loads();
            // A snapshot is older than the state: every ingestion that it counts is in it.
            let Some(sequence) = snapshot else {
                let sequence = self.visible.load(Ordering::Acquire);
                match self.read_state.holds(&state) {
                    true => return (state, sequence),
                    false => continue,
                }
            };
            return (state, sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::thread;

    use crate::Db;
    use crate::fs::{Fs, MemFs};
    use crate::table::{SstWriter, TableOptions};

    type Interruption = Box<dyn FnOnce()>;

    thread_local! {
        /// What happens the next time that this thread has loaded a read state.
        static INTERRUPTION: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    }

    pub(super) fn between_the_loads() {
        let interruption = INTERRUPTION.with_borrow_mut(Option::take);
        interruption.into_iter().for_each(|interrupt| interrupt());
    }

    /// Regression: a reader had loaded the read state when a file was ingested and a later write
    /// followed. It continued with the sequence number of that write and the tables from before, so
    /// it saw the later write, which is in the memtable of both read states, but not the file
    /// before it. Now it checks whether its read state is still the current one.
    #[test]
    fn a_reader_that_an_ingestion_interrupts_sees_the_file_before_the_later_write() {
        type Read = fn(&Db) -> [bool; 2];
        let by_cursor: Read = |db| {
            let keys: Vec<_> = db.iter().map(|item| item.unwrap().0).collect();
            ["file", "later"].map(|key| keys.iter().any(|found| found == key.as_bytes()))
        };
        let by_multi_get: Read = |db| {
            let found = db.multi_get(&["file", "later"]).unwrap();
            [found[0].is_some(), found[1].is_some()]
        };
        // A lookup of one key sees the file, because the write after it is visible.
        let by_get: Read = |db| [db.get("file").unwrap().is_some(), true];
        for read in [by_cursor, by_multi_get, by_get] {
            let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
            let db = Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap();
            db.put("before", "").unwrap();
            let mut writer =
                SstWriter::create_in(Arc::clone(&fs), "/table", TableOptions::default()).unwrap();
            writer.put(b"file", b"").unwrap();
            writer.finish().unwrap();
            let other = db.clone();
            let interrupt = move || {
                let write = || {
                    other.ingest(&["/table"])?;
                    other.put("later", "")
                };
                thread::scope(|scope| scope.spawn(write).join()).unwrap().unwrap();
            };
            INTERRUPTION.set(Some(Box::new(interrupt)));
            assert_eq!(read(&db), [true, true]);
            assert!(INTERRUPTION.take().is_none(), "nothing interrupted the read");
        }
    }
}

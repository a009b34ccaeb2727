//! [`Reading`] holds what readers of a tree use: the current read state, and the last visible write.
//!
//! ```text
//!   field         lock             who changes it
//!   read_state    none: ArcCell    the thread that has changed the tree, under the tree's lock
//!   read_states   mutex            as `read_state`
//!   recorder      its own          whoever begins and ends a recording, and recorded lookups
//!   marks         its own          cursors, and the leader of the writers
//!   sequences     none: an atomic  the leader of the writers, an ingestion (sequences.rs)
//! ```
//!
//! `sequences` and `counters` are those of the database. They are here too, so that a lookup needs
//! only this value.
//!
//! Invariant: a write is in a memtable or table of the read state before its number is visible.

use std::sync::{Arc, Weak};

use super::sequences::Sequences;
use super::tree_state::TreeState;
use crate::compaction::dead;
use crate::db::iter::marks::Marks;
use crate::db::read_state::ReadState;
use crate::db::recording::recorder::LookupRecorder;
use crate::db::snapshots::SnapshotList;
use crate::encoding::key::SequenceNumber;
use crate::fs::OverlappedReader;
use crate::stats::Counters;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::time::Instant;
use crate::sync::{ArcCell, Guard, Held, Mutex, collect, lock, pin, rank};
use crate::version::{TableStore, Version};

/// See the module.
pub(crate) struct Reading {
    /// What readers see.
    read_state: ArcCell<ReadState>,
    /// Every read state that a reader may still hold, the current one last. Closing keeps their
    /// tables open.
    read_states: Mutex<Vec<ReadableState>, rank::ReadStates>,
    /// The intervals of keys in which cursors show nothing ([`crate::db::iter::marks`]).
    marks: Arc<Marks>,
    /// Reads the blocks that one `multi_get` misses, many at a time.
    overlapped: OverlappedReader,
    /// Records lookups, if the user wants that.
    pub recorder: LookupRecorder,
    /// See [`Reading::needed_snapshot`].
    needed: AtomicU64,
    /// Those of the database.
    sequences: Arc<Sequences>,
    counters: Arc<Counters>,
}

/// A read state that was the current one, or is it now.
struct ReadableState {
    state: Weak<ReadState>,
    /// When another one became current.
    replaced: Option<Instant>,
}

impl ReadableState {
    fn now(state: &Arc<ReadState>) -> ReadableState {
        ReadableState { state: Arc::downgrade(state), replaced: None }
    }
}

impl Reading {
    pub fn new(store: &TableStore, tree: &TreeState, sequences: &Arc<Sequences>) -> Reading {
        let (marks, counters) = (Arc::new(Marks::new()), Arc::clone(&store.context.counters));
        let read_state = Arc::new(ReadState::of(tree, &counters, &marks));
        Reading {
            read_states: Mutex::new(vec![ReadableState::now(&read_state)]),
            read_state: ArcCell::new(read_state),
            marks,
            overlapped: OverlappedReader::new(&store.descriptors),
            recorder: LookupRecorder::new(),
            needed: AtomicU64::new(0),
            sequences: Arc::clone(sequences),
            counters,
        }
    }

    /// The read state, and the sequence number up to which a read sees it: that of `snapshot`, or
    /// of the last visible write.
    #[inline(always)]
    pub fn load_read_point<'g>(
        &'g self,
        snapshot: Option<SequenceNumber>,
        guard: &'g Guard,
    ) -> (Held<'g, ReadState>, SequenceNumber) {
        loop {
            let state = self.read_state.load_held(guard);
            #[cfg(test)]
            tests::between_the_loads();
            // Without a snapshot, the state must still be the current one after the sequence number
            // was loaded (`db/read_state.rs` says why). With a snapshot this check is not needed:
            // the snapshot was made before the state was loaded, so the state has every ingestion
            // that the snapshot sees.
            let Some(sequence) = snapshot else {
                let sequence = self.sequences.visible();
                match self.read_state.holds(&state) {
                    true => return (state, sequence),
                    false => continue,
                }
            };
            return (state, sequence);
        }
    }

    /// The current read state.
    pub fn current(&self) -> Arc<ReadState> {
        self.read_state.load_arc(&pin())
    }

    /// Whether `state` is still the current read state. A state that was replaced never becomes the
    /// current one again, and the caller's reference keeps its address from being reused.
    pub fn is_current(&self, state: &Arc<ReadState>, guard: &Guard) -> bool {
        std::ptr::eq(self.read_state.load(guard), &**state)
    }

    /// Replaces the memtables and tables that readers see from now on.
    pub fn publish(&self, tree: &TreeState) {
        let read_state = Arc::new(ReadState::of(tree, &self.counters, &self.marks));
        let mut read_states = lock(&self.read_states);
        if let Some(current) = read_states.last_mut() {
            current.replaced = Some(Instant::now());
        }
        read_states.retain(|readable| readable.state.strong_count() > 0);
        read_states.push(ReadableState::now(&read_state));
        drop(read_states);
        self.read_state.replace(read_state);
    }

    /// The earlier read states that readers still hold, oldest first, each with the time at which
    /// another one replaced it. Hold no lock that a destructor could take.
    pub fn earlier_states(&self) -> Vec<(Arc<ReadState>, Instant)> {
        // Without this, read states that only wait for their collection would count as held.
        collect();
        let read_states = lock(&self.read_states);
        let earlier = read_states.iter().filter_map(|readable| {
            let replaced = readable.replaced?;
            Some((readable.state.upgrade()?, replaced))
        });
        earlier.collect()
    }

    pub fn snapshots(&self) -> &SnapshotList {
        &self.sequences.snapshots
    }

    /// Notes the newest snapshot that keeps something in the tables of `version` from being freed.
    pub fn note_needed_snapshot(&self, version: &Version) {
        let snapshots = self.snapshots().sequences();
        let needed = match snapshots.is_empty() {
            true => 0,
            false => {
                let files = version.files().map(|(_, file)| &file.meta);
                dead::newest_needed_snapshot(files, &snapshots)
            }
        };
        self.needed.store(needed, Ordering::Release);
        self.snapshots().note_needed(needed);
    }

    /// The largest sequence number of a snapshot that keeps something in the tables from being freed,
    /// when this was noted last; 0: no snapshot does.
    pub fn needed_snapshot(&self) -> SequenceNumber {
        self.needed.load(Ordering::Acquire)
    }

    #[inline]
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn overlapped(&self) -> &OverlappedReader {
        &self.overlapped
    }

    /// Called when the database closes. Keeps open the files of all tables that a reader still
    /// holds, because the next owner of the directory may delete their names.
    pub fn keep_tables_of_readers_open(&self) {
        let current = self.current();
        let readable = lock(&self.read_states);
        let read_states: Vec<_> =
            readable.iter().filter_map(|readable| readable.state.upgrade()).collect();
        drop(readable);
        for read_state in read_states {
            // Only a reader can hold a state that is not the current one. The current state has a
            // reader if it has more than three references, because the field `read_state` and the
            // variables `current` and `read_state` hold one reference each.
            let has_reader =
                !Arc::ptr_eq(&read_state, &current) || Arc::strong_count(&read_state) > 3;
            if has_reader {
                read_state.keep_tables_open();
            }
        }
    }

    /// The read states that a reader may hold or get.
    pub fn read_states(&self) -> Vec<Weak<ReadState>> {
        lock(&self.read_states).iter().map(|readable| Weak::clone(&readable.state)).collect()
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
        /// What happens right after this thread's next load of a read state.
        static INTERRUPTION: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    }

    pub(super) fn between_the_loads() {
        let interruption = INTERRUPTION.with_borrow_mut(Option::take);
        interruption.into_iter().for_each(|interrupt| interrupt());
    }

    /// Regression: a reader had loaded the read state when a file was ingested and a later write
    /// followed. The reader continued with the sequence number of that write and the read state
    /// from before the ingestion. So it saw the later write, which is in the memtable of both read
    /// states, but not the file, which is older. Now a reader checks whether its read state is
    /// still the current one.
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
        // A `get` of the file's key must find it, because the interruption comes before the `get`
        // loads its sequence number, which is that of the later write.
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

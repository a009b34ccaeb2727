//! [`Tree`]: what belongs to one LSM tree. A database has one tree today; another tree of the same
//! database would have another value of this type.
//!
//! ```text
//!   field            lock             who changes it
//!   options          none             nobody
//!   reading          none, mostly     see reading.rs: what readers see of the tree
//!   state            mutex            a change of the tree (catalog.rs), rotations, and jobs
//!   stalls_writers   none: an atomic  with the state
//!   cleanups         mutex            cursors, and the planning of compactions
//!   asking           mutex            jobs that write tables, and the closing
//!   rest             none: atomics    the timer
//! ```
//!
//! The memtable that takes writes is here for readers and for the flush. What writes to it belongs
//! to the tree too, but only the leader of the writers uses it
//! ([`TreeWriter`](super::writing::TreeWriter)), so it is guarded by the lock of the writers.
//!
//! A tree knows neither the directory nor the WALs nor the jobs of its database.

use std::time::Duration;

use super::reading::Reading;
use super::tree_state::TreeState;
use crate::db::background::cleanups::Cleanups;
use crate::db::options::TreeOptions;
use crate::db::write::write_stall::{Pressure, WriteStall, write_stall_for};
use crate::encoding::key::SequenceNumber;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, lock, rank};

/// See the module.
pub(crate) struct Tree {
    pub options: TreeOptions,
    pub reading: Reading,
    state: Mutex<TreeState, rank::TreeState>,
    /// Signalled whenever `state` changes, or the status of the database ([`super::status`]).
    changed: Condvar,
    /// Whether the tables stall writers. If not, a writer whose memtable is not full need not lock
    /// `state`.
    stalls_writers: AtomicBool,
    /// The ranges in which cursors passed many hidden entries.
    pub cleanups: Mutex<Cleanups, rank::Cleanups>,
    pub idle: IdleWatch,
    /// When what the tables are asked was counted.
    pub asking: Mutex<Asking, rank::Asking>,
}

pub(crate) type StateGuard<'a> = MutexGuard<'a, TreeState, rank::TreeState>;

impl Tree {
    pub fn new(options: TreeOptions, state: TreeState, reading: Reading) -> Tree {
        Tree {
            options,
            reading,
            stalls_writers: AtomicBool::new(write_stall_for(state.pressure) != WriteStall::None),
            state: Mutex::new(state),
            changed: Condvar::new(),
            cleanups: Mutex::default(),
            idle: IdleWatch::default(),
            asking: Mutex::default(),
        }
    }

    pub fn lock(&self) -> StateGuard<'_> {
        lock(&self.state)
    }

    /// Waits for the next change.
    pub fn wait<'a>(&self, state: StateGuard<'a>) -> StateGuard<'a> {
        self.changed.wait(state)
    }

    /// Like [`Tree::wait`], but no longer than `most`.
    pub fn wait_at_most<'a>(&self, state: StateGuard<'a>, most: Duration) -> StateGuard<'a> {
        self.changed.wait_timeout(state, most).0
    }

    /// Wakes the threads that wait for a change. The caller holds the lock of the state, so that a
    /// thread that has checked the state or the status, and is about to sleep, does not miss this
    /// call.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Whether the tables stall writers.
    pub fn stalls_writers(&self) -> bool {
        self.stalls_writers.load(Ordering::Acquire)
    }

    /// Shows readers and writers what `state` holds now.
    pub fn publish(&self, state: &mut TreeState) {
        self.reading.publish(state);
        state.pressure = Pressure::of_tree(&state.version, &self.options.shape, &state.unavailable);
        let stalls_writers = write_stall_for(state.pressure) != WriteStall::None;
        self.stalls_writers.store(stalls_writers, Ordering::Release);
        self.reading.note_needed_snapshot(&state.version);
        self.notify();
    }
}

/// When the asks of the tables were counted (`db/asked.rs`), in lookups since the opening.
#[derive(Default)]
pub(crate) struct Asking {
    pub counted_at: u64,
    /// When the file `ASKED` was written.
    pub written_at: u64,
}

/// What the timer knows of the tree (`background/idle.rs`).
#[derive(Default)]
pub(crate) struct IdleWatch {
    /// Whether the timer is to look at the tree soon, to see if it is idle.
    is_awaited: AtomicBool,
    /// The sequence number of the last visible write when the timer last looked at the tree.
    visible_at_look: AtomicU64,
}

impl IdleWatch {
    pub fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Sets whether the timer is to look at the tree soon. Returns the previous value.
    pub fn set_awaited(&self, is_awaited: bool) -> bool {
        self.is_awaited.swap(is_awaited, Ordering::Relaxed)
    }

    /// Called when the timer looks at the tree. Returns whether nothing was written since it last
    /// looked.
    pub fn look(&self, visible: SequenceNumber) -> bool {
        self.visible_at_look.swap(visible, Ordering::Relaxed) == visible
    }
}

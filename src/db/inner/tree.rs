//! [`Tree`]: what belongs to one LSM tree, that of one keyspace.
//!
//! ```text
//!   field            lock             who changes it
//!   options          mutex            who opens the keyspace with other options
//!   reading          none, mostly     see reading.rs: what readers see of the tree
//!   state            mutex            a change of the tree (catalog.rs), rotations, and jobs
//!   stalls_writers   none: an atomic  with the state
//!   cleanups         mutex            cursors, and the planning of compactions
//!   pops             mutex            guards no data: the running `pop_first` or `pop_last`
//!   is_dropped       none: an atomic  the call that drops the keyspace
//!   asking           mutex            jobs that write tables, and the closing
//!   left             its own          tables that are dropped
//!   rest             none: atomics    the timer
//! ```
//!
//! The memtable that takes writes is here for readers and for the flush. What writes to it belongs
//! to the tree too, but only the leader of the writers uses it
//! ([`TreeWriter`](super::writing::TreeWriter)), so it is guarded by the lock of the writers.
//!
//! A tree knows neither the directory nor the WALs nor the jobs of its database.

use std::sync::Arc;
use std::time::Duration;

use super::reading::Reading;
use super::tree_state::TreeState;
use crate::db::background::cleanups::Cleanups;
use crate::db::tree_options::TreeOptions;
use crate::db::write::write_stall::{Pressure, may_stall};
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::time::Instant;
use crate::sync::{Condvar, Mutex, MutexGuard, lock, rank};
use crate::version::{KeyspaceId, LeftTables};

/// See the module.
pub(crate) struct Tree {
    pub id: KeyspaceId,
    /// The name of the keyspace.
    pub name: Arc<[u8]>,
    options: Mutex<Arc<TreeOptions>, rank::TreeOptions>,
    pub reading: Reading,
    state: Mutex<TreeState, rank::TreeState>,
    /// Signalled whenever `state` changes, or the status of the database ([`super::status`]).
    changed: Condvar,
    /// Whether the tables or the frozen memtables may stall writers. If not, a writer need not lock
    /// `state`.
    stalls_writers: AtomicBool,
    /// The ranges in which cursors passed many hidden entries.
    pub cleanups: Mutex<Cleanups, rank::Cleanups>,
    pub idle: IdleWatch,
    /// When what the tables are asked was counted.
    pub asking: Mutex<Asking, rank::Asking>,
    /// Held by the running [`Db::pop_first`](crate::Db::pop_first) or `pop_last`.
    pub pops: Mutex<(), rank::Pops>,
    /// Until when the delayed writers must wait ([`WriteStall::Delay`](crate::WriteStall)).
    pub paid_until: Mutex<Option<Instant>, rank::PaidUntil>,
    is_dropped: AtomicBool,
    /// What was counted of the tables that the tree does not have any more.
    pub left: Arc<LeftTables>,
}

/// Without the name, because errors show it.
impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("id", &self.id).finish_non_exhaustive()
    }
}

pub(crate) type StateGuard<'a> = MutexGuard<'a, TreeState, rank::TreeState>;

impl Tree {
    pub fn new(
        id: KeyspaceId,
        name: &[u8],
        options: TreeOptions,
        state: TreeState,
        reading: Reading,
    ) -> Tree {
        Tree {
            id,
            name: name.into(),
            options: Mutex::new(Arc::new(options)),
            reading,
            stalls_writers: AtomicBool::new(may_stall(state.pressure, state.frozen.len())),
            state: Mutex::new(state),
            changed: Condvar::new(),
            cleanups: Mutex::default(),
            idle: IdleWatch::default(),
            asking: Mutex::default(),
            pops: Mutex::default(),
            paid_until: Mutex::default(),
            is_dropped: AtomicBool::new(false),
            left: Arc::new(LeftTables::new()),
        }
    }

    pub fn options(&self) -> Arc<TreeOptions> {
        Arc::clone(&lock(&self.options))
    }

    /// Sets the options for tables and memtables to come.
    pub fn set_options(&self, options: TreeOptions) {
        *lock(&self.options) = Arc::new(options);
    }

    /// Whether the keyspace was dropped. Then nothing of the tree becomes durable any more.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// Notes that the keyspace was dropped, and wakes who waits for the tree.
    pub fn mark_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
        let _state = self.lock();
        self.notify();
    }

    /// # Errors
    ///
    /// [`Error::KeyspaceDropped`].
    pub fn check_exists(&self) -> Result<()> {
        match self.is_dropped() {
            true => Err(Error::KeyspaceDropped(self.name.escape_ascii().to_string())),
            false => Ok(()),
        }
    }

    /// The smallest sequence number of all entries that are in no table, without those of `flushed`;
    /// [`MAX_SEQUENCE`](crate::encoding::key::MAX_SEQUENCE) if there are none.
    pub fn oldest_unflushed(&self, flushed: Option<&Arc<Memtable>>) -> SequenceNumber {
        let state = self.lock();
        let frozen = state.frozen.iter().map(|frozen| &frozen.memtable);
        let unflushed = frozen.filter(|it| !flushed.is_some_and(|done| Arc::ptr_eq(it, done)));
        let unflushed = unflushed.chain([&state.memtable]).map(|it| it.smallest_sequence());
        unflushed.min().expect("a tree has a memtable")
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

    /// Whether the tables or the frozen memtables may stall writers.
    pub fn stalls_writers(&self) -> bool {
        self.stalls_writers.load(Ordering::Acquire)
    }

    /// Shows readers and writers what `state` holds now.
    pub fn publish(&self, state: &mut TreeState) {
        self.reading.publish(state);
        let options = self.options();
        state.pressure = Pressure::of_tree(&state.version, &options.shape, &state.unavailable);
        let stalls_writers = may_stall(state.pressure, state.frozen.len());
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
    /// The sequence number of the last write when the timer last looked at the tree.
    last_at_look: AtomicU64,
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
    pub fn look(&self, last: SequenceNumber) -> bool {
        self.last_at_look.swap(last, Ordering::Relaxed) == last
    }
}

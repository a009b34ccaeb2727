//! [`Background`]: what jobs, the timer and closing share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::db::background::cleanups::Cleanups;
use crate::db::stats::published::Publishing;
use crate::encoding::key::SequenceNumber;
use crate::fs::FileLock;
use crate::sync::{Mutex, lock, rank};

/// See the module.
pub(crate) struct Background {
    /// Each job holds a clone of this, and closing waits until all clones are dropped.
    holds: Arc<()>,
    /// The ranges in which cursors passed many hidden entries. A thread may take this lock while it
    /// holds the state of the tree, but not the other way round.
    pub cleanups: Mutex<Cleanups, rank::Cleanups>,
    /// Whether the timer is to look at the tree soon, to see if it has come to rest
    /// (`background/rest.rs`).
    awaits_rest: AtomicBool,
    /// The sequence number of the last visible write when the timer last looked at the tree.
    visible_at_look: AtomicU64,
    /// How often the counters are published in the file `STATS`, and what was written last. `None`:
    /// they are not published.
    pub publishing: Option<Publishing>,
    /// The lock of the directory. The last field, because it must be dropped last.
    directory: Mutex<Option<Box<dyn FileLock>>, rank::Directory>,
}

impl Background {
    pub fn new(publishing: Option<Publishing>, directory: Option<Box<dyn FileLock>>) -> Background {
        Background {
            holds: Arc::default(),
            cleanups: Mutex::default(),
            awaits_rest: AtomicBool::new(false),
            visible_at_look: AtomicU64::new(0),
            publishing,
            directory: Mutex::new(directory),
        }
    }

    /// What a job holds until it has dropped its reference to the database.
    pub fn hold(&self) -> Arc<()> {
        Arc::clone(&self.holds)
    }

    /// Whether a job still holds a reference to the database.
    pub fn is_held(&self) -> bool {
        Arc::strong_count(&self.holds) > 1
    }

    pub fn awaits_rest(&self) -> bool {
        self.awaits_rest.load(Ordering::Relaxed)
    }

    /// Sets whether the timer is to look at the tree soon. Returns the previous value.
    pub fn set_awaits_rest(&self, awaits_rest: bool) -> bool {
        self.awaits_rest.swap(awaits_rest, Ordering::Relaxed)
    }

    /// Called when the timer looks at the tree. Returns whether nothing was written since it last
    /// looked.
    pub fn look(&self, visible: SequenceNumber) -> bool {
        self.visible_at_look.swap(visible, Ordering::Relaxed) == visible
    }

    pub fn release_directory(&self) {
        lock(&self.directory).take();
    }
}

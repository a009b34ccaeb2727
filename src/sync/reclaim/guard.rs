//! The [`Guard`] of a reader.

use std::marker::PhantomData;

use super::super::atomic::Ordering;
use super::super::rank;
use super::collector::this_thread;
use super::record::{MARKED_PINS, ThreadRecord};

/// Keeps everything alive that its thread reaches through [`ArcCell`](crate::sync::ArcCell) and the
/// cache's slots. It cannot be sent to another thread. A thread may hold several guards; only the
/// outermost one counts.
pub(crate) struct Guard {
    pub(super) record: &'static ThreadRecord,
    /// Makes the guard neither `Send` nor `Sync`, because the record is its thread's.
    _on_this_thread: PhantomData<*const ()>,
}

/// Starts a lookup.
#[inline]
pub(crate) fn pin() -> Guard {
    let record = this_thread();
    let depth = record.depth.load(Ordering::Relaxed);
    record.depth.store(depth + 1, Ordering::Relaxed);
    if depth == 0 {
        record.announce();
    }
    Guard { record, _on_this_thread: PhantomData }
}

impl Guard {
    /// [`thread_index`](super::thread_index) of the guard's thread.
    #[inline]
    pub fn thread_index(&self) -> usize {
        self.record.index
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        let depth = self.record.depth.load(Ordering::Relaxed) - 1;
        self.record.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.record.withdraw();
        }
    }
}

/// Call this before a step that may block for long. In debug builds, it panics if this thread holds
/// a guard.
#[inline]
pub(crate) fn assert_no_guard() {
    debug_assert_eq!(
        this_thread().depth.load(Ordering::Relaxed),
        0,
        "a guard would keep all that the process retires"
    );
}

/// Call this before the thread reads a file. Until the thread has pinned again, collections need no
/// barrier for it. Also calls [`assert_no_guard`] and [`rank::assert_may_wait`].
#[inline]
pub(crate) fn before_reading() {
    assert_no_guard();
    rank::assert_may_wait();
    let record = this_thread();
    // The next pin executes one fence, which is cheap compared with a system call, and clears the
    // mark.
    record.marked_pins.store(MARKED_PINS - 1, Ordering::Relaxed);
    record.marked.store(true, Ordering::Release);
}

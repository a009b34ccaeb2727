//! [`PerThread`]: counters with a separate row for each thread.
//!
//! A shared counter would be slow: an atomic addition is a full fence on x86, which keeps the
//! processor from starting the reads of the next lookup early, and the counter's cache line moves
//! between the cores. So each thread adds with a plain load and store, on lines that only it
//! writes. To read a counter, the rows of all threads are added up.
//!
//! ```text
//!   groups[8] ─► 8 rows, made when the first of their threads counts
//!     thread 0:  [ c0 c1 c2 … ]      a row: whole cache lines, written by one thread
//!     thread 1:  [ c0 c1 c2 … ]
//!   shared   ─► one row for all threads beyond 64, with atomic additions
//! ```
//!
//! A row belongs to a [`thread_index`], a small number that no two live threads share. When a
//! thread ends, the next thread that gets its index continues the row, so nothing is lost. A thread
//! that adds up the rows may miss the latest additions of other threads. So if two counters count
//! the same events, their sums may differ slightly.

use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_index;

/// The number of groups. `GROUPS * GROUP_ROWS` threads have rows of their own.
const GROUPS: usize = if cfg!(loom) { 1 } else { 8 };
/// The number of rows that are created together.
const GROUP_ROWS: usize = if cfg!(loom) { 2 } else { 8 };

/// Runs `count` on more threads than have rows of their own, all alive at one time. Returns how
/// many threads there were.
#[cfg(all(test, not(loom)))]
pub(super) fn on_threads_beyond_the_rows(count: impl Fn() + Sync) -> u64 {
    let threads = GROUPS * GROUP_ROWS + 8;
    let alive = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                alive.wait();
                count();
                alive.wait();
            });
        }
    });
    threads as u64
}

/// One thread's counters, on cache lines of their own.
#[repr(align(64))]
struct CounterRow<const N: usize>([AtomicU64; N]);

impl<const N: usize> CounterRow<N> {
    fn new() -> CounterRow<N> {
        CounterRow(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[cold]
    #[inline(never)]
    fn add_shared(&self, counter: usize, n: u64) {
        self.0[counter].fetch_add(n, Ordering::Relaxed);
    }
}

/// `N` counters for each thread.
pub(super) struct PerThread<const N: usize> {
    groups: [OnceLock<Box<[CounterRow<N>; GROUP_ROWS]>>; GROUPS],
    shared: OnceLock<Box<CounterRow<N>>>,
}

impl<const N: usize> PerThread<N> {
    pub fn new() -> PerThread<N> {
        PerThread { groups: [const { OnceLock::new() }; GROUPS], shared: OnceLock::new() }
    }

    #[inline]
    pub fn add(&self, counter: usize, n: u64) {
        self.row(thread_index()).add(counter, n);
    }

    /// A counter in the row of the current thread.
    pub fn of_thread(&self, counter: usize) -> u64 {
        self.row(thread_index()).row.0[counter].load(Ordering::Relaxed)
    }

    /// The row of the current thread, whose index is `thread`.
    #[inline(always)]
    pub fn row(&self, thread: usize) -> ThreadRow<'_, N> {
        match self.groups.get(thread / GROUP_ROWS).and_then(OnceLock::get) {
            Some(rows) => ThreadRow::new(&rows[thread % GROUP_ROWS], false),
            None => self.new_row(thread),
        }
    }

    /// The row of `thread`, for a caller that also adds to `other`, the row of the same thread in
    /// another `PerThread`. Either both rows are shared by several threads or neither is. So this
    /// row copies `is_shared` from `other`, and the compiled code checks it once for both rows.
    #[inline(always)]
    pub fn row_beside<const M: usize>(
        &self,
        other: ThreadRow<'_, M>,
        thread: usize,
    ) -> ThreadRow<'_, N> {
        ThreadRow::new(self.row(thread).row, other.is_shared)
    }

    /// The row of `thread`, in the two rare cases in which [`PerThread::row`] finds none. If the
    /// thread is the first one of its group that counts, this creates the group's rows. If its
    /// index is beyond all groups, its row is the shared row.
    #[cold]
    #[inline(never)]
    fn new_row(&self, thread: usize) -> ThreadRow<'_, N> {
        match self.groups.get(thread / GROUP_ROWS) {
            Some(group) => {
                let new_group = || Box::new(std::array::from_fn(|_| CounterRow::new()));
                ThreadRow::new(&group.get_or_init(new_group)[thread % GROUP_ROWS], false)
            }
            None => ThreadRow::new(self.shared.get_or_init(|| Box::new(CounterRow::new())), true),
        }
    }

    pub fn sum(&self) -> [u64; N] {
        let rows = self.groups.iter().filter_map(OnceLock::get).flat_map(|rows| rows.iter());
        let mut sum = [0u64; N];
        for row in rows.chain(self.shared.get().map(Box::as_ref)) {
            for (sum, counter) in sum.iter_mut().zip(&row.0) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        sum
    }
}

/// One thread's row, looked up once for several additions. It is not `Send`.
#[derive(Clone, Copy)]
pub(super) struct ThreadRow<'a, const N: usize> {
    row: &'a CounterRow<N>,
    is_shared: bool,
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a, const N: usize> ThreadRow<'a, N> {
    #[inline(always)]
    fn new(row: &'a CounterRow<N>, is_shared: bool) -> ThreadRow<'a, N> {
        ThreadRow { row, is_shared, _on_this_thread: PhantomData }
    }

    #[inline(always)]
    pub fn add(self, counter: usize, n: u64) {
        self.add_all([(counter, n)]);
    }

    /// Adds to several counters. Checks only once whether the row is shared.
    #[inline(always)]
    pub fn add_all<const M: usize>(self, additions: [(usize, u64); M]) {
        if self.is_shared {
            for (counter, n) in additions {
                self.row.add_shared(counter, n);
            }
            return;
        }
        for (counter, n) in additions {
            // Only this thread writes the row, so no other write happens between load and store.
            let counter = &self.row.0[counter];
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::sync::check_model;

    #[test]
    fn loom_no_addition_is_lost_with_and_without_a_row() {
        check_model(|| {
            // Four threads, rows for two.
            let counters = Arc::new(PerThread::<1>::new());
            let threads = [1, 10, 100].map(|n| {
                let counters = counters.clone();
                thread::spawn(move || counters.add(0, n))
            });
            counters.add(0, 1000);
            counters.add(0, 1000);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(counters.sum(), [2111]);
        });
    }
}

//! The identity of this process. A forked child has a copy of the memory, but none of the other
//! threads.
//!
//! ```text
//!   parent   Process 1 ── opens ──► a database of Process 1
//!              └─ fork ─► child   Process 2: the copy is of Process 1, so it is not used
//!                                 its own databases are of Process 2
//! ```
//!
//! In a child, a mutex that another thread held at the fork stays locked for ever, and open files
//! and their locks are shared with the parent. So each object with a mutex or an open file, or the
//! owner of such an object, stores the [`Process`] that created it, and checks
//! [`Process::is_current`] before it takes a lock or touches a file. State of the whole process is
//! in a [`PerProcess`], which creates another value in a child. The child leaks the parent's value.
//!
//! The C library calls [`child`] in the child before `fork` returns there (`pthread_atfork`), when
//! the child has one thread. [`child`] increments [`CURRENT`], so that [`Process::is_current`] is
//! one comparison with a word in memory. Process ids are not used because the system reuses them
//! and because reading them costs a system call.
//!
//! A child that is made by the bare system call (`clone`) or by `_Fork` is not detected, because
//! these run no handlers. Children of `vfork` and `posix_spawn` need no detection, because they
//! execute another program at once, which shares no memory.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The number of this process; 0 until the process first needs it. A child that is forked later has
/// a higher number than its parent. All accesses are relaxed: once it is set, the number changes
/// only in a child, which has one thread at that time.
static CURRENT: AtomicU64 = AtomicU64::new(0);

/// The process in which a value was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    pub fn current() -> Process {
        match CURRENT.load(Ordering::Relaxed) {
            0 => Process::first(),
            number => Process(number),
        }
    }

    #[inline(always)]
    pub fn is_current(self) -> bool {
        self.0 == CURRENT.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Error::Forked`] in any other process.
    #[inline(always)]
    pub fn check(self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    #[cold]
    fn first() -> Process {
        // If two threads get here, both register the handler. A child's number is then higher than
        // its parent's by two, which does no harm.
        watch_forks(child);
        let _ = CURRENT.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        Process(CURRENT.load(Ordering::Relaxed))
    }
}

/// Begins a run of a schedule, as the first step of a forked child.
#[cfg(shuttle)]
pub(super) fn begin_another() {
    Process::current();
    child();
}

impl Default for Process {
    fn default() -> Process {
        Process::current()
    }
}

/// Tells whether an object may be used: until it is closed, and only in the process of
/// [`OpenIn::new`]. The check costs one comparison, because a closed object has the number 0, which
/// no process has.
pub(crate) struct OpenIn(AtomicU64);

impl OpenIn {
    pub fn new(process: Process) -> OpenIn {
        OpenIn(AtomicU64::new(process.0))
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) == CURRENT.load(Ordering::Relaxed)
    }

    pub fn close(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// State of the whole process. It is created at its first use in each process, so a forked child
/// creates its own.
pub(crate) struct PerProcess<T: 'static> {
    /// Null, or a pointer to a value that is never freed.
    made: AtomicPtr<Made<T>>,
    make: fn() -> T,
}

struct Made<T> {
    process: Process,
    value: T,
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    pub const fn new(make: fn() -> T) -> PerProcess<T> {
        PerProcess { made: AtomicPtr::new(ptr::null_mut()), make }
    }

    #[inline]
    pub fn get(&'static self) -> &'static T {
        let process = Process::current();
        let found = self.made.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or it points to a value that `make` has published and that
        // is never freed.
        match unsafe { found.as_ref() } {
            Some(made) if made.process == process => &made.value,
            _ => self.make(process, found),
        }
    }

    /// Takes no lock, because a lock that another thread holds at a fork would stay locked in the
    /// child.
    #[cold]
    fn make(&'static self, process: Process, found: *mut Made<T>) -> &'static T {
        let made = Box::new(Made { process, value: (self.make)() });
        let made = Box::into_raw(made);
        let published =
            self.made.compare_exchange(found, made, Ordering::AcqRel, Ordering::Relaxed);
        if published.is_err() {
            // SAFETY: the pointer came from a box just now, and was not published.
            drop(unsafe { Box::from_raw(made) });
        }
        self.get()
    }
}

#[cfg(all(unix, not(any(miri, loom, shuttle))))]
/// Lets the C library call `in_child` in each forked child, before `fork` returns there. `in_child`
/// calls only what may be called between a fork and an exec: it neither allocates nor locks.
pub(super) fn watch_forks(in_child: extern "C" fn()) {
    use std::ffi::c_int;

    type Handler = Option<extern "C" fn()>;

    // SAFETY: this is the declaration of POSIX.
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    // SAFETY: the handler is a function of this program.
    let refused = unsafe { pthread_atfork(None, None, Some(in_child)) };
    if refused != 0 {
        // The only error in POSIX is a lack of memory.
        std::alloc::handle_alloc_error(std::alloc::Layout::new::<[usize; 4]>());
    }
}

#[cfg(not(all(unix, not(any(miri, loom, shuttle)))))]
pub(super) fn watch_forks(_: extern "C" fn()) {}

#[cfg_attr(not(all(unix, not(any(miri, loom, shuttle)))), allow(dead_code))]
extern "C" fn child() {
    CURRENT.fetch_add(1, Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_has_is_made_once() {
        static MADE: AtomicU64 = AtomicU64::new(0);
        static STATE: PerProcess<u64> =
            PerProcess::new(|| MADE.fetch_add(1, Ordering::Relaxed) / 1_000);
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let ask = || ptr::from_ref(STATE.get()).addr();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|&address| address == addresses[0]));
    }

    #[test]
    fn what_is_closed_is_open_in_no_process() {
        let open = OpenIn::new(Process::current());
        assert!(open.is_open() && Process::current().is_current());
        open.close();
        assert!(!open.is_open());
    }
}

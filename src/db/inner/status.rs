//! [`Status`]: whether the database may be used, and by which process.
//!
//! Threads that wait for the tree must notice a change of the status, which has no lock. So each
//! function that closes the database or makes it read-only wakes them
//! ([`Tree::notify`](super::tree::Tree::notify)).

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{OpenIn, Process};

/// See the module.
pub(crate) struct Status {
    /// The failure that made the database read-only.
    latched: OnceLock<Error>,
    closing: AtomicBool,
    /// The result of the closing, once it has ended.
    closed: OnceLock<Result<()>>,
    /// The process that opened the database. Any other process is a forked child. It may take no
    /// lock, because a thread of the parent may have held that lock at the fork.
    process: Process,
    /// Whether the database is open and this process may use it: it is not `closing`, and the
    /// running process is `process`. It is one machine word, so that the check costs one
    /// comparison.
    open: OpenIn,
}

impl Status {
    /// `is_read_only`: the database was opened read-only.
    pub fn new(is_read_only: bool) -> Status {
        let process = Process::current();
        let latched = OnceLock::new();
        if is_read_only {
            let _ = latched.set(Error::OpenedReadOnly);
        }
        Status {
            latched,
            closing: AtomicBool::new(false),
            closed: OnceLock::new(),
            process,
            open: OpenIn::new(process),
        }
    }

    #[inline]
    pub fn check_open(&self) -> Result<()> {
        if self.open.is_open() { Ok(()) } else { Err(self.why_not_open()) }
    }

    #[cold]
    fn why_not_open(&self) -> Error {
        self.process.check().err().unwrap_or(Error::Closed)
    }

    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.latched.get().map_or(Ok(()), |error| Err(why_not_writable(error)))
    }

    /// The failure that made the database read-only; [`Error::OpenedReadOnly`] if it was opened
    /// read-only.
    pub fn failure(&self) -> Option<&Error> {
        self.latched.get()
    }

    /// Makes the database read-only. The first failure stays the reason. Returns whether this is the
    /// first one.
    pub fn latch(&self, error: &Error) -> bool {
        self.latched.set(error.clone()).is_ok()
    }

    pub fn process(&self) -> Process {
        self.process
    }

    /// Begins to close the database. Returns whether this call is the first one.
    pub fn begin_closing(&self) -> bool {
        let is_first = !self.closing.swap(true, Ordering::AcqRel);
        if is_first {
            self.open.close();
        }
        is_first
    }

    /// The result of the closing; `None` until it has ended.
    pub fn closed(&self) -> Option<&Result<()>> {
        self.closed.get()
    }

    /// Sets the result of the closing.
    pub fn set_closed(&self, closed: Result<()>) {
        let _ = self.closed.set(closed);
    }

    /// Set when closing begins.
    pub fn closing(&self) -> &AtomicBool {
        &self.closing
    }

    /// Whether no job may start.
    pub fn is_stopping(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.latched.get().is_some()
    }
}

#[cold]
fn why_not_writable(failure: &Error) -> Error {
    match failure {
        Error::OpenedReadOnly => Error::OpenedReadOnly,
        error => Error::ReadOnly(Arc::new(error.clone())),
    }
}

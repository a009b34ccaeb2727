//! [`OverlappedReader`]: many reads in flight at one time, by a *ring* (an instance of Linux'
//! `io_uring`) or by threads.
//!
//! A device works on many reads at one time. A caller that knows which ranges it needs requests all
//! of them, and checks and decompresses each range while the others are in flight.
//!
//! ```text
//!                            read_many
//!                    ┌───────────┴────────────┐
//!   files with a descriptor             all others, and reads that the ring could not finish
//!   a kernel ring                       threads that call read_exact_at     (threads.rs)
//!   (uring.rs: io_uring, Linux)         memory: one after the other
//! ```
//!
//! * Before `read_many` returns, the calling thread calls `done` once for every request.
//! * Errors are those of `read_exact_at`. The ring has no errors of its own: a read that the ring
//!   cannot finish (because the device fails, the file ends, or the file system refuses) is
//!   repeated by `read_exact_at`, which returns the error.
//! * The reader owns the buffer of a request during the read, and then passes it to `done`. A ring
//!   takes the next request from the iterator only when it has a free place for it. So if the
//!   iterator creates the buffers, and the ring finishes all requests, only about 64 buffers exist
//!   at a time.
//! * `read_many` neither returns nor unwinds while the kernel may write to a buffer.
//! * No call waits for the ring of another call: a call that gets no ring reads by threads. The
//!   calling thread reads too, so the call ends even if the system starts no thread.
//!
//! There are no writes, cancellations or priorities. Neighbouring ranges are not joined, because
//! the caller can request neighbouring blocks as one range.

mod buffer;
mod request;
mod threads;
#[cfg(target_os = "linux")]
mod uring;
#[cfg(not(target_os = "linux"))]
#[path = "no_uring.rs"]
mod uring;

use std::fmt;
use std::sync::Arc;

use super::HeldDescriptor;
use super::descriptors::{DescriptorPool, MakeUring};
use crate::error::Result;
pub use buffer::ReadBuffer;
pub use request::ReadRequest;
use request::{Done, NumberedRequest, Reads};
use threads::Threads;
pub(super) use uring::Uring;

/// Reads many ranges of many files at one time. An open database owns one reader. Rings and threads
/// are created when they are first needed. A thread ends when it has been idle for some seconds, or
/// with the reader. The rings end with the last reader of their pool.
///
/// ```
/// use maypole::fs::{DescriptorPool, Fs, OverlappedReader, RealFs};
/// use maypole::fs::{ReadBuffer, ReadRequest, write_atomic};
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("a");
/// write_atomic(&RealFs, &path, b"some bytes of a file")?;
/// let pool = DescriptorPool::shared();
/// let file = RealFs.open_pooled(&path, &pool)?;
///
/// let reader = OverlappedReader::new(&pool);
/// let requests = [
///     ReadRequest { file: &file, offset: 0, buffer: ReadBuffer::new(4) },
///     ReadRequest { file: &file, offset: 11, buffer: ReadBuffer::new(2) },
/// ];
/// reader.read_many(&mut requests.into_iter(), &mut |n, bytes| {
///     let expected: &[u8] = if n == 0 { b"some" } else { b"of" };
///     assert_eq!(*bytes.unwrap(), *expected);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OverlappedReader {
    pool: Arc<DescriptorPool>,
    /// The function that creates a ring; `None` to use threads only.
    make_uring: Option<MakeUring>,
    threads: Threads,
}

impl OverlappedReader {
    /// A reader whose rings count as descriptors of `pool`. Readers of one pool share their rings:
    /// at most one for each eight descriptors of its capacity, and at most 32.
    pub fn new(pool: &Arc<DescriptorPool>) -> OverlappedReader {
        OverlappedReader::with(pool, Some(Uring::new))
    }

    /// A reader that never requests a ring from the kernel. Use it in sandboxes that kill a process
    /// for such a request, and for comparisons with rings.
    pub fn by_threads(pool: &Arc<DescriptorPool>) -> OverlappedReader {
        OverlappedReader::with(pool, None)
    }

    fn with(pool: &Arc<DescriptorPool>, make_uring: Option<MakeUring>) -> OverlappedReader {
        pool.add_reader();
        OverlappedReader { pool: Arc::clone(pool), make_uring, threads: Threads::default() }
    }

    /// Reads every range, many at one time, in any order. Calls `done` for each completed request,
    /// with its index in `requests`. Returns when `done` has been called for all requests. With a
    /// ring, the first two reads are already in flight while `requests` produces the third request.
    ///
    /// `done` gets the error of a request as
    /// [`read_exact_at`](crate::fs::RandomAccessFile::read_exact_at) returns it. The error does not
    /// affect the other requests. Other reads continue while `done` works. If `done`
    /// panics, the panic reaches the caller as soon as the kernel has no buffer of the call any
    /// more, and the other answers are lost.
    ///
    /// In a forked child every request gets [`Error::Forked`](crate::Error::Forked).
    ///
    /// Any number of threads may call this at one time. A single request is read by
    /// `read_exact_at`.
    pub fn read_many<'r>(
        &self,
        requests: &mut dyn Iterator<Item = ReadRequest<'r>>,
        done: &mut dyn FnMut(usize, Result<ReadBuffer>),
    ) {
        if let Err(forked) = self.threads.check_process() {
            return requests.enumerate().for_each(|(number, _)| done(number, Err(forked.clone())));
        }
        let parts = requests.enumerate();
        let mut parts =
            parts.map(|(number, request)| NumberedRequest { number, request }).peekable();
        while let Some(part) = parts.next_if(|part| !part.request.file.waits_for_device()) {
            part.read(done);
        }
        let Some(first) = parts.next() else { return };
        let Some(second) = parts.next() else { return first.read(done) };
        let mut parts = [first, second].into_iter().chain(parts);
        let mut unread = Vec::new();
        if let Some(uring) = self.make_uring.and_then(|make| self.pool.lend_uring(make)) {
            let (pool, parts) = (&*self.pool, &mut parts);
            uring.use_for(|uring| {
                uring.read_all(&mut Pass { pool, parts, unread: &mut unread, done })
            });
        }
        unread.extend(parts);
        self.threads.read_all(unread, done);
    }
}

impl Drop for OverlappedReader {
    fn drop(&mut self) {
        self.pool.remove_reader();
    }
}

impl fmt::Debug for OverlappedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverlappedReader").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// The requests of one call. A ring takes requests from `parts`, and leaves in `unread` those that
/// it did not finish.
struct Pass<'p, 'd, 'r, P> {
    pool: &'p DescriptorPool,
    parts: &'p mut P,
    unread: &'p mut Vec<NumberedRequest<'r>>,
    done: &'p mut Done<'d>,
}

impl<'r, P: Iterator<Item = NumberedRequest<'r>>> Reads<'r> for Pass<'_, '_, 'r, P> {
    fn next(
        &mut self,
        others_in_flight: bool,
    ) -> Option<(NumberedRequest<'r>, HeldDescriptor<'r>)> {
        // Each read in flight holds a descriptor. Without the check of `has_room`, one call could
        // exceed the pool's capacity by any number of descriptors.
        while !others_in_flight || self.pool.has_room() {
            let part = self.parts.next()?;
            match part.descriptor() {
                Some(descriptor) => return Some((part, descriptor)),
                None => self.unread.push(part),
            }
        }
        None
    }

    fn ended(&mut self, part: NumberedRequest<'r>, is_filled: bool) {
        match is_filled {
            true => (self.done)(part.number, Ok(part.request.buffer)),
            false => self.unread.push(part),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

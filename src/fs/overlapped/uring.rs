//! A ring of Linux' `io_uring`: reads are submitted, the kernel runs them concurrently, and they
//! complete in any order.
//!
//! ```text
//!   Reads::next ─► place 0 … 63 ─► submission queue ─► the kernel
//!                  (owns the buffer and the              │
//!                   held descriptor)                     ▼
//!   Reads::ended ◄─ place emptied ◄──────────── completion queue
//!                   └─ a short read: its rest goes in again
//! ```
//!
//! Reads are submitted two at a time, and completed reads are processed in between. Submitting
//! takes the kernel several µs for each read, so the device can work on the first reads while the
//! later ones are being submitted.
//!
//! The kernel never writes to memory that the ring does not own, for these reasons:
//!
//! * A read in flight occupies a *place*, which owns the buffer and keeps the file's descriptor
//!   open. The place is emptied only when the read has completed, or when the kernel has none of
//!   the submitted reads. In both cases the kernel no longer writes to the buffer.
//! * The places are a local variable of [`Uring::read_all`], so no caller can forget them. When
//!   they are dropped, also by a panic of `ended`, the drop waits until the kernel has none of
//!   their reads. If this wait fails, the process aborts.
//! * When `read_all` ends early, the submission queue may hold a read that the kernel has not
//!   taken. The next use of the ring would submit that read, so the ring is closed instead.

use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::time::Duration;
use std::{process, thread};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::request::{NumberedRequest, ReadRequest, Reads};
use crate::fs::HeldDescriptor;
use crate::fs::block_buffer::{BlockBuffer, BlockRange};

/// The most reads in flight at one time. This many keep a single device busy, so more would gain
/// nothing.
pub(super) const DEPTH: usize = 64;
/// Reads that are submitted together.
const TOGETHER: usize = 2;
/// The greatest size of a block buffer that the ring keeps for later reads.
const MAX_KEPT_BYTES: usize = 16 << 10;
/// A longer read is submitted in pieces, because a queue entry has 32 bits for the length.
const MAX_BYTES: usize = 1 << 30;
/// The pause before the next attempt when the kernel takes no more reads at the moment.
const PAUSE: Duration = Duration::from_micros(100);

/// A ring, with no read in flight and none in its queue.
pub(in crate::fs) struct Uring {
    ring: IoUring,
    /// Block buffers of earlier reads.
    spare: Vec<BlockBuffer>,
}

impl Uring {
    /// # Errors
    /// If the kernel has no `io_uring`, or one without the read operation (before Linux 5.6), if a
    /// sandbox forbids rings, or if memory or descriptors are short.
    pub fn new() -> io::Result<Uring> {
        // With this option (Linux 5.19) the kernel does not interrupt the caller for each
        // completion, but processes completions when the caller next enters the kernel.
        let ring = match IoUring::builder().setup_coop_taskrun().build(DEPTH as u32) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => IoUring::new(DEPTH as u32)?,
            made => made?,
        };
        // Linux 5.6 brought both this feature and the read operation. The kernel reports only the
        // feature.
        match ring.params().is_feature_rw_cur_pos() {
            true => Ok(Uring { ring, spare: Vec::new() }),
            false => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Executes the reads of `reads` until there are no more or the ring fails. Returns the ring if
    /// it is reusable.
    pub(super) fn read_all<'r>(mut self, reads: &mut impl Reads<'r>) -> Option<Uring> {
        let mut flight = Flight::new(&mut self.ring);
        loop {
            let mut begun = 0;
            while begun < TOGETHER && !flight.free.is_empty() {
                let Some((part, descriptor)) = reads.next(flight.count() > 0) else { break };
                flight.begin(InFlight::new(part, descriptor, || self.spare.pop()));
                begun += 1;
            }
            if flight.count() == 0 {
                drop(flight);
                return Some(self);
            }
            // Waits for a completion only if no further read can begin before one arrives.
            if flight.hand_over(usize::from(begun < TOGETHER)).is_err() {
                // The kernel has none of the reads, so no buffer is in use. The caller reads them
                // without the ring.
                let left = flight.places.iter_mut().filter_map(Option::take);
                left.for_each(|read| reads.ended(read.part, false));
                return None;
            }
            while let Some(read) = flight.land() {
                let (part, is_filled, blocks) = read.end();
                self.spare.extend(blocks.filter(|blocks| blocks.capacity() <= MAX_KEPT_BYTES));
                reads.ended(part, is_filled);
            }
        }
    }
}

struct InFlight<'r> {
    part: NumberedRequest<'r>,
    descriptor: HeldDescriptor<'r>,
    range: BlockRange,
    /// The memory that the kernel fills if the file is read in whole blocks. If `None`, the kernel
    /// fills the request's own buffer.
    blocks: Option<BlockBuffer>,
    /// The number of bytes that have been read, counted from the start of the range's first block.
    filled: usize,
}

impl<'r> InFlight<'r> {
    fn new(
        part: NumberedRequest<'r>,
        descriptor: HeldDescriptor<'r>,
        spare: impl FnOnce() -> Option<BlockBuffer>,
    ) -> InFlight<'r> {
        let ReadRequest { offset, buffer, .. } = &part.request;
        let range = BlockRange::new(*offset, buffer.len(), descriptor.block_bytes());
        let blocks = range.is_in_blocks().then(|| spare().unwrap_or_default());
        InFlight { part, descriptor, range, blocks, filled: 0 }
    }

    /// Ends the read, and fills the buffer of the part if all bytes were read. Returns the part,
    /// whether its buffer is filled, and the block buffer for reuse.
    fn end(self) -> (NumberedRequest<'r>, bool, Option<BlockBuffer>) {
        let InFlight { mut part, range, mut blocks, filled, .. } = self;
        let is_filled = filled >= range.needed();
        if let (true, Some(blocks)) = (is_filled, &mut blocks) {
            part.request.buffer.copy_from_slice(blocks.wanted(range));
        }
        (part, is_filled, blocks)
    }
}

struct Flight<'u, 'r> {
    ring: &'u mut IoUring,
    places: [Option<InFlight<'r>>; DEPTH],
    /// Places without a read.
    free: Vec<usize>,
}

impl<'u, 'r> Flight<'u, 'r> {
    fn new(ring: &'u mut IoUring) -> Flight<'u, 'r> {
        Flight { ring, places: [const { None }; DEPTH], free: (0..DEPTH).rev().collect() }
    }

    fn count(&self) -> usize {
        DEPTH - self.free.len()
    }

    /// The number of reads that the kernel has taken.
    fn at_the_kernel(&mut self) -> usize {
        self.count() - self.ring.submission().len()
    }

    /// Stores a read in a free place, and puts it into the submission queue.
    fn begin(&mut self, read: InFlight<'r>) {
        let place = self.free.pop().expect("the caller checked for a free place");
        self.places[place] = Some(read);
        self.submit(place);
    }

    /// Puts the read of `place`, or the rest of it, into the submission queue.
    fn submit(&mut self, place: usize) {
        let Some(read) = &mut self.places[place] else { return };
        let next = read.range.next(read.filled);
        let memory = match &mut read.blocks {
            Some(blocks) => blocks.blocks(read.range),
            None => &mut *read.part.request.buffer,
        };
        let rest = &mut memory[next..];
        let bytes = rest.len().min(MAX_BYTES) as u32;
        let descriptor = Fd(read.descriptor.descriptor().as_raw_fd());
        let entry = opcode::Read::new(descriptor, rest.as_mut_ptr(), bytes)
            .offset(read.range.start() + next as u64)
            .build()
            .user_data(place as u64);
        // SAFETY: the entry refers to `bytes` bytes of a buffer that the place owns, and to a
        // descriptor that the place keeps open. The place is emptied by the completion of this
        // entry (`land`, `drop`), or when the kernel has no entry and the ring is closed
        // (`read_all`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue is as long as there are places");
    }

    /// Submits the queue and waits for `answers` completions. Returns early after a signal, or if
    /// the kernel takes no more reads at the moment.
    ///
    /// # Errors
    /// If the kernel has none of the reads and refuses to take one.
    fn hand_over(&mut self, answers: usize) -> io::Result<()> {
        let Err(error) = self.ring.submit_and_wait(answers) else { return Ok(()) };
        // A signal interrupted the call, or a completion arrived meanwhile.
        if error.kind() == ErrorKind::Interrupted || !self.ring.completion().is_empty() {
            return Ok(());
        }
        if self.at_the_kernel() == 0 {
            return Err(error);
        }
        let full = [Errno::AGAIN, Errno::BUSY].map(Errno::raw_os_error);
        if error.raw_os_error().is_some_and(|code| full.contains(&code)) {
            // The kernel takes no more reads at the moment, but works on those that it has. The
            // caller can process their completions and then try again.
            thread::sleep(PAUSE);
            return Ok(());
        }
        eprintln!("maypole: io_uring_enter fails while the kernel writes to memory: {error}");
        process::abort()
    }

    /// Takes the next read that has ended, with all of its bytes or without, out of its place. A
    /// read that got only a part of its bytes is submitted again instead, for the rest.
    fn land(&mut self) -> Option<InFlight<'r>> {
        loop {
            let answer = self.ring.completion().next()?;
            let place = answer.user_data() as usize;
            let Some(read) = &mut self.places[place] else { continue };
            // A negative result is an error, which counts as no bytes.
            let bytes = usize::try_from(answer.result()).unwrap_or(0);
            let before = read.filled;
            read.filled = before.max(read.range.next(before) + bytes);
            if before < read.filled && read.filled < read.range.needed() {
                self.submit(place);
                continue;
            }
            self.free.push(place);
            return self.places[place].take();
        }
    }
}

impl Drop for Flight<'_, '_> {
    fn drop(&mut self) {
        while self.at_the_kernel() > 0 && self.hand_over(1).is_ok() {
            while self.land().is_some() {}
        }
    }
}

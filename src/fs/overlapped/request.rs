//! The requests of one call of [`OverlappedReader::read_many`](super::OverlappedReader::read_many),
//! and where a ring takes them from.

use std::sync::Arc;

use super::buffer::ReadBuffer;
use crate::error::Result;
use crate::fs::{HeldDescriptor, RandomAccessFile};

/// A range of a file, and the memory for it. [`OverlappedReader`](super::OverlappedReader) has an example.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The file to read.
    pub file: &'a Arc<dyn RandomAccessFile>,
    /// The start of the range, in bytes.
    pub offset: u64,
    /// The buffer that the read fills. It is as long as the range.
    pub buffer: ReadBuffer,
}

/// The callback of a call, which receives each answer: the index of the request, and its bytes or
/// an error.
pub(super) type Done<'a> = dyn FnMut(usize, Result<ReadBuffer>) + 'a;

/// A request with its index. `'r` is the duration of one call.
pub(super) struct NumberedRequest<'r> {
    pub number: usize,
    pub request: ReadRequest<'r>,
}

impl<'r> NumberedRequest<'r> {
    /// Reads the request without a ring.
    pub fn read(self, done: &mut Done<'_>) {
        let ReadRequest { file, offset, mut buffer } = self.request;
        let result = file.read_exact_at(offset, &mut buffer);
        done(self.number, result.map(|()| buffer));
    }

    /// The file's descriptor, if a ring can read the range.
    pub fn descriptor(&self) -> Option<HeldDescriptor<'r>> {
        // A ring does not read at offsets beyond the range of `i64`, because the kernel interprets
        // the offset −1 as the descriptor's current position. `read_exact_at` rejects them.
        let ReadRequest { file, offset, buffer } = &self.request;
        let end = offset.checked_add(buffer.len() as u64)?;
        let is_possible = !buffer.is_empty() && i64::try_from(end).is_ok();
        if is_possible { file.descriptor() } else { None }
    }
}

/// The source of a ring's reads, which also receives their results.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) trait Reads<'r> {
    /// The next read. `None` if no read is left, or if the pool has no room for the descriptor of
    /// another read until one in flight has ended.
    fn next(&mut self, others_in_flight: bool)
    -> Option<(NumberedRequest<'r>, HeldDescriptor<'r>)>;

    /// Receives a read that the ring has ended. If its buffer is not filled, the read is repeated
    /// without the ring.
    fn ended(&mut self, part: NumberedRequest<'r>, is_filled: bool);
}

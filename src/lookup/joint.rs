//! One read for two parts: the part of a filter that a lookup queries, and the part of the index
//! that the lookup searches after a "maybe".
//!
//! ```text
//! file     … | filter 7 | index 9 | index 10 | filter 8 | …
//!              └──────────────────┘            read where neither of the two is in memory
//! ```
//!
//! A second read costs far more than reading the bytes between the two parts, both from the page
//! cache and from a device. So if the part of the index must be read anyway, the filter costs
//! nearly nothing: a "no" ends the lookup in this table after one read, and a "maybe" costs no more
//! reads than a search without a filter. After a "no" the index part is dropped, and its checksum
//! is not checked.

use std::cell::Cell;
use std::ops::Range;

use crate::cache::slots::Lease;
use crate::error::Result;
use crate::sync::Guard;
use crate::table::filter::source::TableFilter;
use crate::table::format::file::StoredBlock;
use crate::table::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table};

/// The longest joint read, in bytes. Two parts that are further apart are read separately.
const MAX_BYTES: u64 = 16 << 10;

/// What a joint read is to read.
pub(super) struct JointRead {
    index_part: usize,
    index: BlockHandle,
    filter: BlockHandle,
    /// The range of the file that holds both parts and their trailers.
    span: Range<u64>,
}

/// A part of the index that was read together with a part of the filter. Its checksum is not
/// checked yet.
pub(super) struct IndexRead {
    part: usize,
    handle: BlockHandle,
    span: Span,
    /// Where the part and its trailer are in the span.
    place: Range<usize>,
}

thread_local! {
    /// The memory of the thread's last [`Span`], which its next span reuses. The parts are copied
    /// out of a span, so it is soon free again. To allocate its memory for each joint read would
    /// take longer than these copies.
    static LAST: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The bytes of a joint read, in memory that the thread's next joint read reuses.
struct Span(Vec<u8>);

impl Span {
    /// `len` bytes with any content.
    fn new(len: usize) -> Span {
        let mut bytes = LAST.take();
        // `resize` alone could allocate up to twice as much, and no cache is charged for it.
        bytes.reserve_exact(len.saturating_sub(bytes.len()));
        bytes.resize(len, 0);
        Span(bytes)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // `try_with` fails while the thread ends. In that case the memory is freed.
        let _ = LAST.try_with(|last| last.set(std::mem::take(&mut self.0)));
    }
}

impl JointRead {
    /// Where the block at `handle`, with its trailer, is in the bytes of the joint read.
    fn place_of(&self, handle: BlockHandle) -> Range<usize> {
        let start = (handle.offset - self.span.start) as usize;
        start..start + handle.bytes as usize + BLOCK_TRAILER_BYTES
    }
}

/// The joint read of part `part` of the filter and the part of the index that leads to the key.
/// `None` if there is no such read:
///
/// * Filter or index is not in parts, or no part of the index leads to the key.
/// * The part of the index is in memory already.
/// * The two parts are too far apart in the file ([`MAX_BYTES`]).
/// * The filter part has answered "no" each time that it was read lately, so that the part of the
///   index would probably be read in vain.
pub(super) fn joint_read(
    table: &Table,
    part: usize,
    key: &LookupKey<'_>,
    guard: &Guard,
) -> Option<JointRead> {
    let (filter, index) = (&table.filter.parts, &table.index);
    if filter.is_whole() || index.is_whole() || table.filter.only_rejects(part) {
        return None;
    }
    let beside = table.index_part_beside(part);
    let index_part = beside.unwrap_or_else(|| table.index_part_of(key.user_key, key.trailer()));
    if index_part == index.parts() || index.peek(index_part, guard).is_some() {
        return None;
    }
    let (index, filter) = (index.handle(index_part), filter.handle(part));
    let limit = table.block_file().limit();
    if !index.fits(limit) || !filter.fits(limit) {
        return None;
    }
    let end = |handle: BlockHandle| handle.offset + handle.bytes + BLOCK_TRAILER_BYTES as u64;
    let span = index.offset.min(filter.offset)..end(index).max(end(filter));
    let is_short = span.end - span.start <= MAX_BYTES;
    is_short.then_some(JointRead { index_part, index, filter, span })
}

impl JointRead {
    /// Loads part `part` of the filter, and puts the part of the index into `index_read`. If another
    /// thread has loaded the filter part meanwhile, nothing is read, and `index_read` stays as it
    /// is.
    pub fn load_filter(
        self,
        table: &Table,
        part: usize,
        index_read: &mut Option<IndexRead>,
    ) -> Result<Lease<'static, TableFilter>> {
        let file = table.block_file();
        table.filter.load_from(file, part, |_| {
            let mut span = Span::new((self.span.end - self.span.start) as usize);
            file.read_timed(self.span.start, &mut span.0)?;
            let filter = &span.0[self.place_of(self.filter)];
            let buffer = |len| table.cache().buffer(len);
            let filter = StoredBlock::copy_from(filter, self.filter, buffer);
            *index_read = Some(IndexRead {
                part: self.index_part,
                handle: self.index,
                place: self.place_of(self.index),
                span,
            });
            Ok(filter)
        })
    }
}

/// Part `part` of the index, from `read` if `read` has this part, otherwise from the cache or the
/// file. Hold no guard.
pub(super) fn index_once_read(
    table: &Table,
    part: usize,
    read: Option<IndexRead>,
) -> Result<Lease<'static, TableIndex>> {
    match read {
        Some(IndexRead { part: read, handle, span, place }) if read == part => table
            .load_index_from(part, |_| {
                let buffer = |len| table.cache().buffer(len);
                Ok(StoredBlock::copy_from(&span.0[place], handle, buffer))
            }),
        _ => table.index_part(part),
    }
}

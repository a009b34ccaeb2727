//! [`Found`]: the entry that a search of a table has found. And what an entry shows.

use std::ops::Range;

use crate::cache::slots::Lease;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Error, Result};
use crate::slice::Slice;
use crate::stats::Ticker;
use crate::table::block::Block;
use crate::table::{LookupKey, Table, unsupported_entry};
use crate::version::TableFile;

/// An entry in its block.
pub(crate) struct Found<'g> {
    /// The stored kind byte, which may be one that this crate does not write.
    pub kind: u8,
    pub sequence: SequenceNumber,
    pub(super) block: Lease<'g, Block>,
    pub(super) value: Range<usize>,
}

impl Found<'_> {
    #[inline(always)]
    pub fn value(&self) -> &[u8] {
        // This is not written as an index expression, because that would compile to two calls that
        // panic, and `expect` compiles to one. With less code, the closures that read a value in a
        // lookup stay small enough to be inlined.
        self.block.bytes().get(self.value.clone()).expect("the value lies in its block")
    }

    /// The value as a slice that keeps the block alive, without a copy.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        if self.value.is_empty() {
            return Slice::empty();
        }
        Slice::share(self.block.to_arc(), self.value.clone())
    }

    pub(super) fn into_owned(self) -> Found<'static> {
        Found { block: self.block.into_owned(), ..self }
    }
}

/// The largest sequence number of those range deletions of a file that cover the key and that the
/// lookup may see; 0 if there are none.
#[inline(never)]
pub(super) fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
}

/// Whether the newest entry of a key is a live value. Returns false if the entry is a tombstone, or
/// older than the range deletion at `deleted_at` (0: none).
#[inline(always)]
pub(super) fn is_live(
    table: &Table,
    key: &LookupKey<'_>,
    found: &Found<'_>,
    deleted_at: SequenceNumber,
) -> Result<bool> {
    if found.kind == EntryKind::Value as u8 {
        return Ok(found.sequence >= deleted_at);
    }
    match EntryKind::of_point(found.kind) {
        None if found.sequence >= deleted_at => Err(unknown_entry(table, key, found.kind)),
        _ => Ok(false),
    }
}

#[cold]
fn unknown_entry(table: &Table, key: &LookupKey<'_>, kind: u8) -> Error {
    unsupported_entry(table.block_file().path(), key.user_key, kind)
}

pub(super) fn hit_ticker(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

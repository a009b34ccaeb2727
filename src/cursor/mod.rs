//! [`Cursor`]: the trait of everything that iterates over sorted entries: memtables, blocks, tables
//! and merges of them.
//!
//! A cursor *lends*: [`Cursor::key`] and [`Cursor::value`] are valid until the cursor moves. It is
//! on an entry or on none ([`Cursor::valid`]); after an error it is on none. Keys are internal
//! keys.

pub(crate) mod merging;

use std::path::Path;

use crate::encoding::key;
use crate::error::Result;
use crate::slice::Slice;

pub(crate) trait Cursor {
    /// Whether the cursor is on an entry. While it is on none, only the seeks and
    /// [`Cursor::fetch_for_seek`] may be called.
    fn valid(&self) -> bool;

    fn seek_to_first(&mut self) -> Result<()>;

    fn seek_to_last(&mut self) -> Result<()>;

    /// Moves to the first entry at or after the internal key `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// Prefetches memory that a [`Cursor::seek`] to `target` will read. The cursor's next seek must
    /// be the one to this `target`. A caller with many cursors passes [`Fetch::Block`] to each of
    /// them, then [`Fetch::Entries`] to each, and then seeks, so that their cache misses overlap.
    fn fetch_for_seek(&mut self, _target: &[u8], _fetch: Fetch) {}

    /// Moves to the last entry **before** the internal key `target`.
    fn seek_before(&mut self, target: &[u8]) -> Result<()>;

    fn next(&mut self) -> Result<()>;

    /// Moves to the next entry, but only in the common case that the move cannot fail. In any other
    /// case the cursor stays where it is, this returns `None`, and [`Cursor::next`] must be called.
    fn step(&mut self) -> Option<Step> {
        None
    }

    fn prev(&mut self) -> Result<()>;

    /// The internal key, until the cursor moves.
    fn key(&self) -> &[u8];

    /// The value, until the cursor moves.
    fn value(&self) -> &[u8];

    /// The value as a slice to keep. If the value is in a cached block, the slice shares the block.
    fn value_slice(&self) -> Slice {
        Slice::copy_from(self.value())
    }

    /// The file that the entry is in; `None` if the entry is in memory.
    fn file(&self) -> Option<&Path> {
        None
    }
}

/// What a call of [`Cursor::fetch_for_seek`] prefetches. A seek reads these two in this order.
#[derive(Clone, Copy)]
pub(crate) enum Fetch {
    /// The header of the block that the seek will search, and the block's key heads: the first
    /// bytes of its keys, side by side.
    Block,
    /// The entries at which the search in the block will start.
    Entries,
}

/// The result of [`Cursor::step`]: what an iteration over the tree needs to know of each entry.
/// Most cursors learn `repeats` from the step itself, whereas their caller would have to copy the
/// previous key to compare it.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// Whether the entry has the same user key as the previous one.
    pub repeats: bool,
    /// The trailer of the entry's internal key: its sequence number and its kind.
    pub trailer: u64,
}

/// Calls [`Cursor::next`], and returns whether the user key is the same as before
/// ([`Step::repeats`]). `scratch` receives a copy of the previous user key.
#[inline(never)]
pub(crate) fn next_by_copy<C: Cursor>(cursor: &mut C, scratch: &mut Vec<u8>) -> Result<bool> {
    scratch.clear();
    scratch.extend_from_slice(key::user_key(cursor.key()));
    cursor.next()?;
    Ok(cursor.valid() && key::user_key(cursor.key()) == scratch)
}

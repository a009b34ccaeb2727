//! [`Cursor`]: the one way to walk sorted entries. Memtables, blocks, tables and merges of them
//! have it.
//!
//! A cursor *lends*: [`Cursor::key`] and [`Cursor::value`] are valid until it moves. It stands on
//! an entry or on none ([`Cursor::valid`]); after an error on none. Keys are internal keys.

pub(crate) mod merging;

use std::path::Path;

use crate::encoding::key;
use crate::error::Result;
use crate::slice::Slice;

pub(crate) trait Cursor {
    /// Whether the cursor stands on an entry. All methods but the seeks need that.
    fn valid(&self) -> bool;

    fn seek_to_first(&mut self) -> Result<()>;

    fn seek_to_last(&mut self) -> Result<()>;

    /// To the first entry at or after the internal key `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// Prefetches what [`Cursor::seek`] to the same target will read; that seek must come next.
    /// With many cursors, all are asked for one part before the next part, so that their trips to
    /// memory overlap.
    fn fetch_for_seek(&mut self, _target: &[u8], _fetch: Fetch) {}

    /// To the last entry **before** the internal key `target`.
    fn seek_before(&mut self, target: &[u8]) -> Result<()>;

    fn next(&mut self) -> Result<()>;

    /// The common case of [`Cursor::next`], which cannot fail. `None`: the cursor did not move, and
    /// `next` must be called.
    fn step(&mut self) -> Option<Step> {
        None
    }

    fn prev(&mut self) -> Result<()>;

    /// The internal key, until the cursor moves.
    fn key(&self) -> &[u8];

    /// The value, until the cursor moves.
    fn value(&self) -> &[u8];

    /// The value, to keep: shares the cached block where there is one.
    fn value_slice(&self) -> Slice {
        Slice::copy_from(self.value())
    }

    /// The file that the entry is in; `None` where it is in memory.
    fn file(&self) -> Option<&Path> {
        None
    }
}

/// The trips to memory of a seek, in this order.
#[derive(Clone, Copy)]
pub(crate) enum Fetch {
    /// What is known of the block.
    Block,
    /// The entries in it.
    Entries,
}

/// What [`Cursor::step`] came to. A walk of the tree needs this at every entry, and most cursors
/// know it without a copy of the key before.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// Whether the entry has the same user key as the one before.
    pub repeats: bool,
    /// The trailer of its key.
    pub trailer: u64,
}

/// [`Cursor::next`], answering what [`Step::repeats`] says. `scratch` is any buffer.
#[inline(never)]
pub(crate) fn next_by_copy<C: Cursor>(cursor: &mut C, scratch: &mut Vec<u8>) -> Result<bool> {
    scratch.clear();
    scratch.extend_from_slice(key::user_key(cursor.key()));
    cursor.next()?;
    Ok(cursor.valid() && key::user_key(cursor.key()) == scratch)
}

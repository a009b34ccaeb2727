//! The one way to walk sorted entries, at every level of the store: a memtable, a block, a table,
//! a merge of many of them.
//!
//! A cursor *lends*: [`Cursor::key`] and [`Cursor::value`] are valid until it moves. It stands on
//! an entry or on none ([`Cursor::valid`]). Keys are internal keys. After an error a cursor stands
//! on no entry.

pub(crate) mod merging;

use crate::encoding::key;
use crate::error::Result;
use crate::slice::Slice;

pub(crate) trait Cursor {
    /// Whether the cursor stands on an entry. Everything below needs that, but the seeks.
    fn valid(&self) -> bool;

    fn seek_to_first(&mut self) -> Result<()>;

    fn seek_to_last(&mut self) -> Result<()>;

    /// To the first entry at or after the internal key `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// Starts to fetch what [`Cursor::seek`] to the same target will read, which must come next.
    /// Who seeks with many cursors asks all of them for each part in turn, so that their trips to
    /// memory overlap.
    fn fetch_for_seek(&mut self, _target: &[u8], _fetch: Fetch) {}

    /// To the last entry **before** the internal key `target`.
    fn seek_before(&mut self, target: &[u8]) -> Result<()>;

    fn next(&mut self) -> Result<()>;

    /// The common case of [`Cursor::next`], without a way to fail. `None`: it did not move, `next`
    /// has to.
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
}

/// The trips to memory of a seek, each after the one before.
#[derive(Clone, Copy)]
pub(crate) enum Fetch {
    /// What is known of the block.
    Block,
    /// The entries in it.
    Entries,
}

/// What [`Cursor::step`] came to. Who walks a tree asks this of every entry, and most cursors can
/// tell without a copy of the key they leave.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// Whether it is another version of the user key the cursor left.
    pub repeats: bool,
    /// The trailer of its key.
    pub trailer: u64,
}

/// [`Cursor::next`] for those that ask [`Step::repeats`]. `scratch` is any buffer.
#[inline(never)]
pub(crate) fn next_by_copy<C: Cursor>(cursor: &mut C, scratch: &mut Vec<u8>) -> Result<bool> {
    scratch.clear();
    scratch.extend_from_slice(key::user_key(cursor.key()));
    cursor.next()?;
    Ok(cursor.valid() && key::user_key(cursor.key()) == scratch)
}

//! [`PinnedBlock`]: a block that a cursor keeps, together with the address of its entries.
//!
//! A cursor keeps its block alive by an `Arc` ([`BlockPin`]). The block of a lookup is kept alive
//! by the lookup's guard (`sync/reclaim/mod.rs`), and the block of a returned value by its `Slice`
//! (`slice.rs`).
//!
//! Every step of a scan reads the entries. Their address is kept, because finding it through the
//! handle would take three loads and two checks in each step.
//!
//! Invariant: `entries` is `block.entries()`, and stays so while the `PinnedBlock` lives
//! ([`PinsBlock`]).

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::cache::slots::Resident;
use crate::slice::StableBytes;

use super::Block;

/// A handle that leads to one block for its whole life.
///
/// # Safety
///
/// `deref` must always return the same block, unchanged, wherever the handle is moved, and must
/// return it for as long as the handle lives.
pub(crate) unsafe trait PinsBlock: Deref<Target = Block> {}

// SAFETY: a shared reference leads to one block, which cannot change or move meanwhile.
unsafe impl PinsBlock for &Block {}

/// A block that a table's cursor keeps alive: a block of the cache, or one of the cursor's own.
pub(crate) enum BlockPin {
    Cached(Arc<Resident<Block>>),
    Private(Arc<Block>),
}

impl Deref for BlockPin {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            BlockPin::Cached(block) => block,
            BlockPin::Private(block) => block,
        }
    }
}

// SAFETY: either `Arc` leads to one block and keeps it alive; nothing changes a shared block.
unsafe impl PinsBlock for BlockPin {}

/// A handle of a block, and the address of the block's entries: see the module.
pub(crate) struct PinnedBlock<B> {
    entries: NonNull<[u8]>,
    block: B,
}

// SAFETY: `entries` is a shared view of the block that `block` leads to, and blocks are `Sync`.
unsafe impl<B: Send> Send for PinnedBlock<B> {}
// SAFETY: as for `Send`.
unsafe impl<B: Sync> Sync for PinnedBlock<B> {}

impl<B: PinsBlock> PinnedBlock<B> {
    pub fn new(block: B) -> PinnedBlock<B> {
        // `StableBytes` promises that these bytes do not move, so their address stays valid.
        let entries = &block.stable_bytes()[..block.entries().len()];
        PinnedBlock { entries: NonNull::from(entries), block }
    }

    #[inline(always)]
    pub fn entries(&self) -> &[u8] {
        // SAFETY: the block lives because its handle `self.block` does, and `entries` is the
        // address of this block's entries (`PinsBlock`). The block's bytes have neither moved nor
        // changed (`StableBytes`).
        unsafe { self.entries.as_ref() }
    }

    pub fn handle(&self) -> &B {
        &self.block
    }

    pub fn into_handle(self) -> B {
        self.block
    }
}

impl<B: PinsBlock> Deref for PinnedBlock<B> {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

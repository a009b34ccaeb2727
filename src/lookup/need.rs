//! [`Need`]: what a search needs next, and that is not in memory.
//!
//! Under a [`Guard`] nothing is read from files, because a read may take long, and meanwhile the
//! guard would keep all retired memory of the process from being freed. So a search that needs
//! something ends with a `Need`, which owns what the search must keep until then.

use crate::cache::slots::Lease;
use crate::sync::Guard;
use crate::table::format::footer::BlockHandle;
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table};

/// See the module.
pub(crate) enum Need {
    /// The number of the filter's part that can hold the key.
    Filter(usize),
    /// The number of a part of the index.
    Index(usize),
    Block(NeededBlock),
}

/// A data block that is not in memory, and the index that leads to it.
pub(crate) struct NeededBlock {
    pub index: Lease<'static, TableIndex>,
    /// The block's number in its part of the index.
    pub block: usize,
}

impl NeededBlock {
    /// The data block to which `index` leads for the key. `index` is the whole index, or the part
    /// of it with the key. `None` if no block can hold the key.
    pub fn of(index: Lease<'static, TableIndex>, key: &LookupKey<'_>) -> Option<NeededBlock> {
        let block = index.index.find(key.user_key, key.trailer());
        (block < index.index.len()).then_some(NeededBlock { index, block })
    }

    /// The number of the block's part of the index, and the block's number in that part.
    pub fn number(&self) -> (usize, usize) {
        (self.index.part, self.block)
    }

    pub fn handle(&self) -> BlockHandle {
        self.index.index.handle(self.block)
    }
}

impl Need {
    /// Block `block` of the index part `index`. `owner`: what keeps the index part alive with which
    /// the search began, if it is not the guard ([`BlockPosition`](super::search::BlockPosition)).
    /// If the part was evicted meanwhile, it is needed instead. The search then goes on from this part,
    /// and may count again what it has already done in it. This happens at most once, because from
    /// then on the search owns the part.
    #[cold]
    #[inline(never)]
    pub fn block(
        table: &Table,
        owner: Option<&Lease<'static, TableIndex>>,
        index: &TableIndex,
        block: usize,
        guard: &Guard,
    ) -> Need {
        let owned = owner.filter(|owner| owner.part == index.part).map(Lease::share);
        let lease = owned.or_else(|| Some(table.index.get(index.part, guard)?.share()));
        match lease {
            Some(index) => Need::Block(NeededBlock { index, block }),
            None => Need::Index(index.part),
        }
    }
}

//! [`TableIndex`]: an index, or a part of it, as the cache holds it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::cache::slots::{Cached, Lease, Resident, Slots};
use crate::cache::{BlockCache, BlockKind, Reservation};
use crate::encoding::bytes::cold_path;
use crate::memory::LineBuf;
use crate::sync::Guard;
use crate::table::block::Block;
use crate::table::index::Index;

/// An index, or one part of it, and the slots of the data blocks that it leads to.
pub(crate) struct TableIndex {
    pub index: Index,
    pub blocks: BlockSlots,
    /// The number of this part; 0 if the index is whole. Pieces of a whole index are numbered from
    /// 1 on.
    pub part: usize,
    /// The numbers of all parts, or of all pieces if this is a piece.
    pub parts: Range<usize>,
    /// Whether the cache is to keep this part. If not, it keeps no data block of the part either,
    /// because the slots of the blocks are dropped with the part.
    pub is_kept: bool,
}

impl Cached for TableIndex {
    type Ahead = ();

    fn into_buffer(self) -> Option<LineBuf> {
        self.index.into_memory()
    }
}

/// The slots of the data blocks of an index.
///
/// The slots take a large share of the memory of an index part. If filters and indexes compete for
/// the cache, the cache keeps few data blocks, so most of these slots would stay empty. In this
/// case the slots of a part are allocated late: when the first of its blocks is kept.
pub(crate) enum BlockSlots {
    /// Slots that exist from the start.
    Early(Slots<Block>),
    Late(OnceLock<Box<LateSlots>>),
}

pub(crate) struct LateSlots {
    slots: Slots<Block>,
    _reserved: Reservation,
}

impl BlockSlots {
    /// The slots of `blocks` blocks, allocated late if `late` is set.
    pub fn new(cache: &Arc<BlockCache>, blocks: usize, late: bool) -> BlockSlots {
        match late {
            true => BlockSlots::Late(OnceLock::new()),
            false => BlockSlots::Early(Slots::new(cache, blocks, BlockKind::Data, false)),
        }
    }

    /// Heap bytes of the slots that exist from the start.
    pub fn heap_bytes(&self) -> usize {
        match self {
            BlockSlots::Early(slots) => slots.heap_bytes(),
            BlockSlots::Late(_) => 0,
        }
    }

    /// The slots, for a caller that loads a block. `blocks`: the number of data blocks that the
    /// index or part leads to. Allocates the slots if they are to be allocated late and do not
    /// exist yet.
    pub fn to_load(&self, cache: &Arc<BlockCache>, blocks: usize) -> &Slots<Block> {
        let late = match self {
            BlockSlots::Early(slots) => return slots,
            BlockSlots::Late(late) => late,
        };
        let late = late.get_or_init(|| {
            let slots = Slots::new(cache, blocks, BlockKind::Data, false);
            let heap_bytes = size_of::<LateSlots>() + slots.heap_bytes();
            Box::new(LateSlots { slots, _reserved: cache.reserve(heap_bytes) })
        });
        &late.slots
    }

    /// The slots. `None`: they are to be allocated late, and do not exist yet.
    #[inline(always)]
    fn allocated(&self) -> Option<&Slots<Block>> {
        match self {
            BlockSlots::Early(slots) => Some(slots),
            BlockSlots::Late(late) => cold_path(|| late.get().map(|late| &late.slots)),
        }
    }

    /// See [`Slots::get`].
    #[inline]
    pub fn get<'g>(&'g self, i: usize, guard: &'g Guard) -> Option<Lease<'g, Block>> {
        self.allocated()?.get(i, guard)
    }

    /// See [`Slots::borrow`].
    #[inline]
    pub fn borrow<'g>(&'g self, i: usize, guard: &'g Guard) -> Option<&'g Resident<Block>> {
        self.allocated()?.borrow(i, guard)
    }

    /// Like [`Slots::prefetch`], but does nothing for slots that are allocated late.
    #[inline(always)]
    pub fn prefetch<const COUNT: usize>(&self, first: usize) {
        if let BlockSlots::Early(slots) = self {
            slots.prefetch::<COUNT>(first);
        }
    }

    /// See [`Slots::prefetch_resident`].
    #[inline]
    pub fn prefetch_resident(&self, i: usize) {
        if let Some(slots) = self.allocated() {
            slots.prefetch_resident(i);
        }
    }
}

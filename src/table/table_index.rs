//! [`TableIndex`]: an index, or a part of it, as the cache holds it.

use std::sync::{Arc, OnceLock};

use crate::cache::list::ResidentList;
use crate::cache::policy::Keeping;
use crate::cache::slots::{Cached, Lease, Resident, Slots};
use crate::cache::{BlockCache, BlockKind, Reservation};
use crate::encoding::bytes::cold_path;
use crate::error::Result;
use crate::memory::LineBuf;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Guard, pin};
use crate::table::block::Block;
use crate::table::index::Index;

/// An index, or one part of it, and those of its data blocks that are in memory.
pub(crate) struct TableIndex {
    pub index: Index,
    pub blocks: ResidentBlocks,
    /// The number of this part; 0 if the index is whole.
    pub part: usize,
    /// How many parts the index has; 1 if it is whole.
    pub parts: usize,
    /// Whether the cache keeps this part, or has kept it. If not, it keeps no data block of the part
    /// either, because the blocks leave the cache with the part.
    pub is_kept: AtomicBool,
}

impl Cached for TableIndex {
    type Ahead = ();
    type Link = ();

    fn into_buffer(self) -> Option<LineBuf> {
        self.index.into_memory()
    }
}

/// The data blocks of an index that are in memory.
///
/// Slots take a large share of the memory of an index part. If filters and indexes compete for the
/// cache, the cache keeps few data blocks, so most slots would stay empty. In this case the blocks
/// are in a list. A long list is slow to search, so once it has [`MAX_LISTED`] blocks, slots are
/// allocated for those that follow.
pub(crate) enum ResidentBlocks {
    Slots(Slots<Block>),
    List { list: ResidentList<Block>, more: OnceLock<Box<MoreSlots>> },
}

/// The number of blocks in a list from which on slots are allocated. They take as much memory as
/// about half a block.
const MAX_LISTED: usize = 4;

pub(crate) struct MoreSlots {
    slots: Slots<Block>,
    _reserved: Reservation,
}

impl ResidentBlocks {
    /// For an index that leads to `blocks` blocks. `few`: the cache is expected to keep few of them.
    pub fn new(cache: &Arc<BlockCache>, blocks: usize, few: bool) -> ResidentBlocks {
        match few {
            true => ResidentBlocks::List { list: ResidentList::new(cache), more: OnceLock::new() },
            false => ResidentBlocks::Slots(Slots::new(cache, blocks, BlockKind::Data, false)),
        }
    }

    /// Heap bytes of the slots that exist from the start.
    pub fn heap_bytes(&self) -> usize {
        match self {
            ResidentBlocks::Slots(slots) => slots.heap_bytes(),
            ResidentBlocks::List { .. } => 0,
        }
    }

    /// Loads block `i` as [`Slots::load`] and [`ResidentList::load`] do. `blocks`: the number of
    /// data blocks that the index leads to.
    #[inline(always)]
    pub fn load(
        &self,
        cache: &Arc<BlockCache>,
        blocks: usize,
        i: usize,
        keeping: Keeping,
        read: impl FnOnce() -> Result<(Block, usize)>,
    ) -> Result<Lease<'static, Block>> {
        let (list, more) = match self {
            ResidentBlocks::Slots(slots) => return slots.load(i, keeping, read),
            ResidentBlocks::List { list, more } => (list, more),
        };
        if more.get().is_none() && list.len(&pin()) < MAX_LISTED {
            return list.load(i as u32, keeping, read);
        }
        let more = more.get_or_init(|| {
            let slots = Slots::new(cache, blocks, BlockKind::Data, false);
            let heap_bytes = size_of::<MoreSlots>() + slots.heap_bytes();
            Box::new(MoreSlots { slots, _reserved: cache.reserve(heap_bytes) })
        });
        more.slots.load(i, keeping, read)
    }

    /// Block `i`, if it is in memory. Counts its use.
    #[inline]
    pub fn get<'g>(&'g self, i: usize, guard: &'g Guard) -> Option<Lease<'g, Block>> {
        match self {
            ResidentBlocks::Slots(slots) => slots.get(i, guard),
            ResidentBlocks::List { list, more } => cold_path(|| match list.get(i as u32, guard) {
                None => more.get()?.slots.get(i, guard),
                found => found,
            }),
        }
    }

    /// Like [`ResidentBlocks::get`], but returns a plain reference.
    #[inline]
    pub fn borrow<'g>(&'g self, i: usize, guard: &'g Guard) -> Option<&'g Resident<Block>> {
        match self {
            ResidentBlocks::Slots(slots) => slots.borrow(i, guard),
            ResidentBlocks::List { list, more } => {
                cold_path(|| match list.borrow(i as u32, guard) {
                    None => more.get()?.slots.borrow(i, guard),
                    found => found,
                })
            }
        }
    }

    /// Like [`Slots::prefetch`], but does nothing for a list.
    #[inline(always)]
    pub fn prefetch<const COUNT: usize>(&self, first: usize) {
        if let ResidentBlocks::Slots(slots) = self {
            slots.prefetch::<COUNT>(first);
        }
    }

    /// Like [`Slots::prefetch_resident`], but does nothing for a list.
    #[inline]
    pub fn prefetch_resident(&self, i: usize) {
        if let ResidentBlocks::Slots(slots) = self {
            slots.prefetch_resident(i);
        }
    }
}

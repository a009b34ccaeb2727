//! Reads the data blocks that lookups need and that are not in memory, many at the same time.
//!
//! ```text
//!   wanted     a 3   a 4   b 9          sorted by table and block, each once
//!   reads      [a 3  a 4]  [b 9]        neighbours in one file by one read
//!   blocks     a 3   a 4   b 9          checked, uncompressed, in the cache
//! ```
//!
//! The blocks need not all be known at the start: the first reads begin while the caller searches
//! for more.
//!
//! No lock and no guard is held while the device reads. Two calls that need one block at the same
//! time both read it, and the cache nearly always keeps one of the copies. If one call waited for
//! the other, the second read would be saved, but two calls with the same blocks in opposite order
//! would deadlock.

use std::cell::RefCell;
use std::iter;
use std::ops::Range;

use crate::cache::slots::Lease;
use crate::error::{Error, Result};
use crate::fs::{OverlappedReader, ReadBuffer, ReadRequest};
use crate::memory::LineBuf;
use crate::table::block::Block;
use crate::table::format::file::StoredBlock;
use crate::table::{LookupKey, Table};

use crate::lookup::need::NeededBlock;
use crate::lookup::search::BlockPosition;

/// Adjacent blocks of up to this many bytes together are read by one read. Longer rows of blocks
/// are divided between reads that the device serves at the same time.
const MAX_JOINED_BYTES: u64 = 128 << 10;

/// The data blocks of one batch, each of which is read once.
#[derive(Default)]
pub(super) struct BlockBatch<'t> {
    blocks: Vec<WantedBlock<'t>>,
}

struct WantedBlock<'t> {
    table: &'t Table,
    absent: NeededBlock,
    /// The block, once it was read.
    block: Option<Lease<'static, Block>>,
}

impl<'t> BlockBatch<'t> {
    /// Adds a block, unless it was added before. Returns its place in the batch.
    pub fn want(&mut self, table: &'t Table, absent: NeededBlock) -> usize {
        let is_same = |wanted: &WantedBlock<'_>| {
            std::ptr::eq(wanted.table, table) && wanted.absent.number() == absent.number()
        };
        self.blocks.iter().rposition(is_same).unwrap_or_else(|| {
            self.blocks.push(WantedBlock { table, absent, block: None });
            self.blocks.len() - 1
        })
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The table of the batch's block `place`, and the position from which a lookup continues after
    /// this block was read.
    pub fn position<'g>(
        &'g self,
        place: usize,
        key: &LookupKey<'_>,
    ) -> (&'t Table, BlockPosition<'g>) {
        let WantedBlock { table, absent, block } = &self.blocks[place];
        let block = block.as_ref().expect("the block was read");
        let known = Some((block.share(), block.search_start(key.user_key)));
        let (index, block) = (&absent.index, absent.block);
        (table, BlockPosition { index, owner: Some(index), block, known })
    }
}

/// Reads blocks that were not in the cache a moment ago, and caches them. Each call of `want_more`
/// adds blocks to the batch, ordered by table and by number, or returns `false` if no more blocks
/// are needed. `want_more` is called again while the blocks that it has added are being read. Hold
/// no guard.
///
/// # Errors
/// The error of `want_more`, or that of the first block that cannot be read.
pub(super) fn read_blocks<'t>(
    reader: &OverlappedReader,
    mut want_more: impl FnMut(&mut BlockBatch<'t>) -> Result<bool>,
) -> Result<BlockBatch<'t>> {
    let reads = RefCell::new(Reads::default());
    let mut requests = iter::from_fn(|| reads.borrow_mut().next(&mut want_more)).fuse();
    // Each block is checked and cached while the others are being read.
    reader.read_many(&mut requests, &mut |n, read| reads.borrow_mut().load(n, read));
    let Reads { wanted, failed, .. } = reads.into_inner();
    failed.map_or(Ok(wanted), Err)
}

/// The blocks that were read, are being read, and are still to be read.
#[derive(Default)]
struct Reads<'t> {
    wanted: BlockBatch<'t>,
    /// The pieces into which the blocks of `wanted` were cut, in the same order.
    pieces: Vec<Piece>,
    /// The number of pieces that are being read or were read.
    begun: usize,
    failed: Option<Error>,
}

/// One read: a block, or adjacent blocks of one file.
struct Piece {
    /// The places of the blocks in the batch.
    blocks: Range<usize>,
    bytes: usize,
}

impl<'t> Reads<'t> {
    /// The request for the next [`Piece`]. `None`: there are no more pieces to read.
    fn next(
        &mut self,
        want_more: &mut impl FnMut(&mut BlockBatch<'t>) -> Result<bool>,
    ) -> Option<ReadRequest<'t>> {
        if self.failed.is_some() {
            return None;
        }
        while self.begun == self.pieces.len() {
            let before = self.wanted.len();
            let added = want_more(&mut self.wanted);
            match added.and_then(|any| self.cut(before).map(|()| any)) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
        let piece = self.pieces.get(self.begun)?;
        self.begun += 1;
        Some(piece.request(&self.wanted.blocks[piece.blocks.clone()]))
    }

    /// Cuts the blocks from `first` on into pieces. Adjacent blocks of one table share a piece, as
    /// long as they have at most [`MAX_JOINED_BYTES`] together.
    fn cut(&mut self, mut first: usize) -> Result<()> {
        let mut joined_bytes = 0;
        let neighbours = self.wanted.blocks[first..].chunk_by(|before, next| {
            let is_one_table = std::ptr::eq(before.table, next.table);
            let (before, handle) = (before.absent.handle(), next.absent.handle());
            let adjoins = is_one_table && before.is_followed_by(handle);
            let with_before = joined_bytes + before.bytes;
            let joins = adjoins && with_before + handle.bytes <= MAX_JOINED_BYTES;
            joined_bytes = if joins { with_before } else { 0 };
            joins
        });
        for blocks in neighbours {
            let mut bytes = 0;
            for WantedBlock { table, absent, .. } in blocks {
                let stored_bytes = table.block_file().stored_bytes(absent.handle())?;
                bytes = offset_in_piece(blocks, absent) + stored_bytes;
            }
            self.pieces.push(Piece { blocks: first..first + blocks.len(), bytes });
            first += blocks.len();
        }
        Ok(())
    }

    /// Checks the blocks of a piece and caches them.
    fn load(&mut self, piece: usize, read: Result<ReadBuffer>) {
        if self.failed.is_none() {
            let blocks = &mut self.wanted.blocks[self.pieces[piece].blocks.clone()];
            self.failed = read.and_then(|read| load(blocks, read)).err();
        }
    }
}

impl Piece {
    /// The request for this piece. A single block is read into the memory where it will be cached.
    fn request<'t>(&self, blocks: &[WantedBlock<'t>]) -> ReadRequest<'t> {
        let WantedBlock { table, absent, .. } = &blocks[0];
        let memory = match blocks.len() {
            1 => table.data_buffer(self.bytes),
            _ => LineBuf::zeroed(self.bytes),
        };
        let file = table.block_file();
        file.count_read(self.bytes);
        let buffer = ReadBuffer::in_front_of(memory, self.bytes);
        ReadRequest { file: file.file(), offset: absent.handle().offset, buffer }
    }
}

/// Where `block` starts in the bytes of the piece that has these blocks.
fn offset_in_piece(blocks: &[WantedBlock<'_>], block: &NeededBlock) -> usize {
    (block.handle().offset - blocks[0].absent.handle().offset) as usize
}

/// Checks the blocks of one piece, and caches them. `read` has the piece's bytes.
fn load(blocks: &mut [WantedBlock<'_>], read: ReadBuffer) -> Result<()> {
    let load = |table: &Table, absent: &NeededBlock, stored| {
        table.load_block(&absent.index, absent.block, || Ok(stored)).map(Some)
    };
    if let [WantedBlock { table, absent, block }] = blocks {
        *block = load(table, absent, StoredBlock::new(read.into_memory(), absent.handle()))?;
        return Ok(());
    }
    for i in 0..blocks.len() {
        let WantedBlock { table, absent, .. } = &blocks[i];
        let handle = absent.handle();
        let stored_bytes = table.block_file().stored_bytes(handle)?;
        let bytes = &read[offset_in_piece(blocks, absent)..][..stored_bytes];
        let stored = StoredBlock::copy_from(bytes, handle, |len| table.data_buffer(len));
        blocks[i].block = load(table, absent, stored)?;
    }
    Ok(())
}

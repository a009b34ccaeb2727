//! Data blocks that lookups need and that are not in memory: read at one time.
//!
//! ```text
//!   wanted     a 3   a 4   b 9          sorted by table and block, each once
//!   reads      [a 3  a 4]  [b 9]        neighbours in one file by one read
//!   blocks     a 3   a 4   b 9          checked, uncompressed, in the cache
//! ```
//!
//! Nothing is locked and no guard is held while the device works. Two calls that want one block at
//! the same time both read it, and the cache keeps one of the two. Waiting for each other would
//! save this read, and two calls with the same blocks in opposite order would wait for ever.

use crate::cache::Lease;
use crate::error::Result;
use crate::fs::{OverlappedReader, ReadRequest};
use crate::memory::LineBuf;
use crate::sync::Guard;
use crate::table::block::Block;
use crate::table::format::file::StoredBlock;
use crate::table::format::footer::BlockHandle;
use crate::table::table::{Table, TableIndex};

use super::BlockPosition;
use super::key::LookupKey;

/// Neighbours are joined up to this many bytes. Then a longer read costs more than another one.
const MOST_JOINED_BYTES: u64 = 128 << 10;

/// A data block that was not in memory.
pub(crate) struct AbsentBlock {
    index: Lease<'static, TableIndex>,
    block: usize,
}

impl AbsentBlock {
    /// Its number in its table.
    pub fn number(&self) -> usize {
        self.block
    }

    fn handle(&self) -> BlockHandle {
        self.index.index.handle(self.block)
    }

    /// Where a lookup goes on once the block was read.
    pub fn position<'g>(
        &'g self,
        block: &Lease<'static, Block>,
        key: &LookupKey<'_>,
    ) -> BlockPosition<'g> {
        let start = block.search_start(key.user_key);
        BlockPosition { index: &self.index, block: self.block, known: Some((block.share(), start)) }
    }
}

impl BlockPosition<'_> {
    /// After [`BlockPosition::find_entry`]: the block, if that did not find it in memory.
    #[inline]
    pub fn absent_block(&self, table: &Table, guard: &Guard) -> Option<AbsentBlock> {
        let is_absent = self.known.is_none() && self.block < self.index.blocks.len();
        if is_absent { self.keep_absent_block(table, guard) } else { None }
    }

    /// `None` if the index has left the cache by now.
    #[cold]
    fn keep_absent_block(&self, table: &Table, guard: &Guard) -> Option<AbsentBlock> {
        let index = table.index.get(0, guard)?.share();
        Some(AbsentBlock { index, block: self.block })
    }
}

/// A piece of a file, and the blocks that fill it.
struct Piece<'w> {
    blocks: &'w [(&'w Table, &'w AbsentBlock)],
    /// The piece is the front of it.
    buffer: LineBuf,
    bytes: usize,
}

/// Reads blocks through the cache, which had none of them a moment ago. Their order is that of
/// their tables and numbers, without repetition. Hold no guard.
///
/// # Errors
/// The first error of a block.
pub(crate) fn read_together(
    wanted: &[(&Table, &AbsentBlock)],
    reader: &OverlappedReader,
) -> Result<Vec<Lease<'static, Block>>> {
    let mut joined_bytes = 0;
    let neighbours = wanted.chunk_by(|(table, before), (next_table, block)| {
        let (before, handle) = (before.handle(), block.handle());
        let adjoins = std::ptr::eq(*table, *next_table) && before.is_followed_by(handle);
        let with_before = joined_bytes + before.bytes;
        let joins = adjoins && with_before + handle.bytes <= MOST_JOINED_BYTES;
        joined_bytes = if joins { with_before } else { 0 };
        joins
    });
    let mut pieces = Vec::with_capacity(wanted.len());
    for blocks in neighbours {
        let (table, first) = blocks[0];
        let mut bytes = 0;
        for (table, block) in blocks {
            let start = (block.handle().offset - first.handle().offset) as usize;
            bytes = start + table.block_file().stored_bytes(block.handle())?;
        }
        let buffer = match blocks.len() {
            1 => table.data_buffer(bytes),
            _ => LineBuf::zeroed(bytes),
        };
        table.block_file().count_read(bytes);
        pieces.push((first.handle().offset, Piece { blocks, buffer, bytes }));
    }
    let mut failed = Ok(());
    let mut requests: Vec<_> = pieces
        .iter_mut()
        .map(|(offset, piece)| ReadRequest {
            file: piece.blocks[0].0.block_file().file(),
            offset: *offset,
            buffer: &mut piece.buffer[..piece.bytes],
        })
        .collect();
    reader.read_many(&mut requests, &mut |_, read| {
        if let (Err(error), Ok(())) = (read, &failed) {
            failed = Err(error);
        }
    });
    failed?;
    let mut found = Vec::with_capacity(wanted.len());
    for (_, piece) in pieces {
        piece.load(&mut found)?;
    }
    Ok(found)
}

impl Piece<'_> {
    /// Checks the blocks and takes them into the cache.
    fn load(self, found: &mut Vec<Lease<'static, Block>>) -> Result<()> {
        let mut load = |table: &Table, absent: &AbsentBlock, stored| {
            found.push(table.load_block(&absent.index, absent.block, || Ok(stored))?);
            Ok(())
        };
        if let [(table, absent)] = self.blocks {
            return load(table, absent, StoredBlock::new(self.buffer, absent.handle()));
        }
        let first = self.blocks[0].1.handle();
        for (table, absent) in self.blocks {
            let handle = absent.handle();
            let start = (handle.offset - first.offset) as usize;
            let bytes = &self.buffer[start..][..table.block_file().stored_bytes(handle)?];
            let stored = StoredBlock::copy_from(bytes, handle, |len| table.data_buffer(len));
            load(table, absent, stored)?;
        }
        Ok(())
    }
}

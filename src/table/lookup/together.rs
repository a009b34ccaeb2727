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
use crate::fs::{OverlappedReader, ReadBuffer, ReadRequest};
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

/// Blocks of one file that are read by one read.
struct Piece<'w> {
    blocks: &'w [(&'w Table, &'w AbsentBlock)],
    /// The number of the first one, in what is wanted.
    first: usize,
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
    let pieces = pieces(wanted)?;
    let mut found: Vec<Option<Lease<'static, Block>>> = wanted.iter().map(|_| None).collect();
    let mut result = Ok(());
    // Each block is checked and taken into the cache while the others are on their way.
    reader.read_many(&mut pieces.iter().map(Piece::request), &mut |n, read| {
        if result.is_ok() {
            result = read.and_then(|read| pieces[n].load(read, &mut found[pieces[n].first..]));
        }
    });
    result?;
    Ok(found.into_iter().map(|block| block.expect("each piece was answered")).collect())
}

/// Neighbours together, as far as one read is better than two.
fn pieces<'w>(wanted: &'w [(&'w Table, &'w AbsentBlock)]) -> Result<Vec<Piece<'w>>> {
    let mut joined_bytes = 0;
    let neighbours = wanted.chunk_by(|(table, before), (next_table, block)| {
        let (before, handle) = (before.handle(), block.handle());
        let adjoins = std::ptr::eq(*table, *next_table) && before.is_followed_by(handle);
        let with_before = joined_bytes + before.bytes;
        let joins = adjoins && with_before + handle.bytes <= MOST_JOINED_BYTES;
        joined_bytes = if joins { with_before } else { 0 };
        joins
    });
    let mut first = 0;
    let piece = |blocks: &'w [(&Table, &AbsentBlock)]| {
        let mut piece = Piece { blocks, first, bytes: 0 };
        first += blocks.len();
        for (table, block) in blocks {
            let stored_bytes = table.block_file().stored_bytes(block.handle())?;
            piece.bytes = piece.start_of(block) + stored_bytes;
        }
        Ok(piece)
    };
    neighbours.map(piece).collect()
}

impl<'w> Piece<'w> {
    fn offset(&self) -> u64 {
        self.blocks[0].1.handle().offset
    }

    /// Where the block starts in the piece.
    fn start_of(&self, block: &AbsentBlock) -> usize {
        (block.handle().offset - self.offset()) as usize
    }

    /// A single block is read to where the cache will have it.
    fn request(&self) -> ReadRequest<'w> {
        let table = self.blocks[0].0;
        let memory = match self.blocks.len() {
            1 => table.data_buffer(self.bytes),
            _ => LineBuf::zeroed(self.bytes),
        };
        table.block_file().count_read(self.bytes);
        let buffer = ReadBuffer::in_front_of(memory, self.bytes);
        ReadRequest { file: table.block_file().file(), offset: self.offset(), buffer }
    }

    /// Checks the blocks and takes them into the cache. `read` is what the request asked for.
    fn load(&self, read: ReadBuffer, found: &mut [Option<Lease<'static, Block>>]) -> Result<()> {
        let load = |(table, absent): &(&Table, &AbsentBlock), stored| {
            table.load_block(&absent.index, absent.block, || Ok(stored)).map(Some)
        };
        if let [block] = self.blocks {
            found[0] = load(block, StoredBlock::new(read.into_memory(), block.1.handle()))?;
            return Ok(());
        }
        for (block, found) in self.blocks.iter().zip(found) {
            let (table, handle) = (block.0, block.1.handle());
            let stored_bytes = table.block_file().stored_bytes(handle)?;
            let bytes = &read[self.start_of(block.1)..][..stored_bytes];
            let stored = StoredBlock::copy_from(bytes, handle, |len| table.data_buffer(len));
            *found = load(block, stored)?;
        }
        Ok(())
    }
}

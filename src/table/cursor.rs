//! [`TableCursor`]: walks a table both ways.
//!
//! It keeps the index and one data block alive for itself, so it needs no guard between its calls,
//! and a file that is deleted meanwhile stays readable.

use std::ops::Deref;
use std::sync::Arc;

use crate::cache::Resident;
use crate::cursor::{Cursor, Step};
use crate::error::{Damage, Result};
use crate::key;
use crate::slice::Slice;
use crate::sync::pin;

use super::block::{Block, BlockCursor};
use super::file::StoredBlock;
use super::reader::{Table, TableIndex};

/// How a cursor gets its blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanOptions {
    /// Whether blocks that are read enter the cache. Off for compactions, which would evict what
    /// lookups use.
    pub fill_cache: bool,
    /// Bytes to read at once when blocks follow each other in the file; 0: each block alone. A
    /// scan that fills the cache may end soon: its reads begin small, double up to this, and end
    /// before a block that is in memory.
    pub read_ahead_bytes: usize,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions { fill_cache: true, read_ahead_bytes: 0 }
    }
}

/// The first read of a scan that fills the cache, when it has come to its second block in a row.
const FIRST_READ_AHEAD_BYTES: u64 = 8 << 10;

/// A block that a cursor keeps.
enum HeldBlock {
    Shared(Arc<Resident<Block>>),
    Private(Arc<Block>),
}

impl Deref for HeldBlock {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            HeldBlock::Shared(block) => block,
            HeldBlock::Private(block) => block,
        }
    }
}

/// See [`Cursor`] for its contract.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    options: ScanOptions,
    /// `None` until first used.
    index: Option<Arc<Resident<TableIndex>>>,
    /// Which block `block` is.
    i: usize,
    block: Option<BlockCursor<HeldBlock>>,
    /// Bytes of the file that were read ahead, from this offset on.
    ahead: (u64, Vec<u8>),
    /// Bytes of the next read ahead.
    next_ahead_bytes: u64,
}

impl TableCursor {
    /// Stands on no entry. Reads nothing yet.
    pub fn new(table: Arc<Table>, options: ScanOptions) -> TableCursor {
        TableCursor {
            table,
            options,
            index: None,
            i: 0,
            block: None,
            ahead: (0, Vec::new()),
            next_ahead_bytes: 0,
        }
    }

    fn index(&mut self) -> Result<Arc<Resident<TableIndex>>> {
        if self.index.is_none() {
            self.index = Some(self.table.index(&pin())?.to_arc());
        }
        match &self.index {
            Some(index) => Ok(Arc::clone(index)),
            None => unreachable!("it was filled above"),
        }
    }

    /// Makes block `i` the current one, its cursor on no entry. After a failure there is none.
    fn open_block(&mut self, index: &TableIndex, i: usize) -> Result<()> {
        let last = self.block.take();
        let held = self.hold_block(index, i)?;
        self.i = i;
        self.block = Some(match last {
            Some(mut cursor) => {
                cursor.enter(held);
                cursor
            }
            None => BlockCursor::new(held, self.table.overlay()),
        });
        Ok(())
    }

    fn hold_block(&mut self, index: &TableIndex, i: usize) -> Result<HeldBlock> {
        if let Some(lease) = self.table.resident_block(index, i, &pin()) {
            return Ok(HeldBlock::Shared(lease.to_arc()));
        }
        let table = Arc::clone(&self.table);
        if self.options.fill_cache {
            let lease = table.load_block(index, i, || self.fetch(index, i))?;
            Ok(HeldBlock::Shared(lease.to_arc()))
        } else {
            Ok(HeldBlock::Private(Arc::new(table.decode_block(self.fetch(index, i)?)?)))
        }
    }

    /// The stored bytes of block `i`: from what was read ahead, or from the file.
    fn fetch(&mut self, index: &TableIndex, i: usize) -> Result<StoredBlock> {
        let file = self.table.block_file();
        let handle = index.index.handle(i);
        let Some(end) = handle.end().filter(|&end| end <= file.limit()) else {
            return file.read_stored(handle);
        };
        let (ahead_start, ahead) = &mut self.ahead;
        let follows = i == self.i + 1;
        let is_ahead = *ahead_start <= handle.offset && end <= *ahead_start + ahead.len() as u64;
        if !is_ahead {
            let ScanOptions { fill_cache, read_ahead_bytes } = self.options;
            let wanted = match fill_cache {
                true => self.next_ahead_bytes.min(read_ahead_bytes as u64),
                false => read_ahead_bytes as u64,
            };
            if !follows || end - handle.offset >= wanted {
                self.next_ahead_bytes = FIRST_READ_AHEAD_BYTES;
                return file.read_stored(handle);
            }
            self.next_ahead_bytes = 2 * wanted;
            // To the end of the last block that is wanted, not in memory, and within reach.
            let (guard, reach) = (pin(), file.limit().min(handle.offset.saturating_add(wanted)));
            let read_end = (i + 1..index.index.len())
                .take_while(|&later| !fill_cache || index.blocks.get(later, &guard).is_none())
                .map_while(|later| index.index.handle(later).end())
                .take_while(|&later_end| later_end <= reach)
                .fold(end, u64::max);
            ahead.resize((read_end - handle.offset) as usize, 0);
            *ahead_start = handle.offset;
            if let Err(error) = file.read_bytes(handle.offset, ahead) {
                ahead.clear();
                return Err(error);
            }
        }
        let start = (handle.offset - *ahead_start) as usize;
        let bytes = (end - handle.offset) as usize;
        Ok(StoredBlock::copy_from(&ahead[start..start + bytes], handle))
    }

    /// Runs one step of the current block's cursor. After a failure there is no current block.
    fn step_block(
        &mut self,
        step: impl FnOnce(&mut BlockCursor<HeldBlock>) -> Result<(), Damage>,
    ) -> Result<()> {
        let Some(block) = &mut self.block else { return Ok(()) };
        if let Err(damage) = step(block) {
            self.block = None;
            let index = self.index()?;
            return Err(self.table.block_file().damaged(damage, index.index.handle(self.i)));
        }
        Ok(())
    }

    #[inline]
    fn in_block(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    /// While the current block has no more entries: to the first entry of the next one.
    fn skip_forward(&mut self) -> Result<()> {
        let index = self.index()?;
        while self.block.is_some() && !self.in_block() {
            if self.i + 1 >= index.index.len() {
                self.block = None;
                return Ok(());
            }
            self.open_block(&index, self.i + 1)?;
            self.step_block(BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    /// While the current block has no earlier entries: to the last entry of the one before.
    fn skip_backward(&mut self) -> Result<()> {
        let index = self.index()?;
        while self.block.is_some() && !self.in_block() {
            if self.i == 0 {
                self.block = None;
                return Ok(());
            }
            self.open_block(&index, self.i - 1)?;
            self.step_block(BlockCursor::seek_to_last)?;
        }
        Ok(())
    }

    #[inline]
    fn current(&self) -> &BlockCursor<HeldBlock> {
        self.block.as_ref().expect("the cursor stands on an entry")
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.in_block()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let index = self.index()?;
        if index.index.len() == 0 {
            return Ok(());
        }
        self.open_block(&index, 0)?;
        self.step_block(BlockCursor::seek_to_first)?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let index = self.index()?;
        let Some(last) = index.index.len().checked_sub(1) else { return Ok(()) };
        self.open_block(&index, last)?;
        self.step_block(BlockCursor::seek_to_last)?;
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let index = self.index()?;
        let i = index.index.find(key::user_key(target), key::trailer(target));
        if i == index.index.len() {
            self.block = None;
            return Ok(());
        }
        self.open_block(&index, i)?;
        self.step_block(|block| block.seek(target))?;
        self.skip_forward()
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        let index = self.index()?;
        let i = index.index.find(key::user_key(target), key::trailer(target));
        if i == index.index.len() {
            return self.seek_to_last();
        }
        self.open_block(&index, i)?;
        self.step_block(|block| block.seek_before(target))?;
        self.skip_backward()
    }

    fn next(&mut self) -> Result<()> {
        self.step_block(BlockCursor::next)?;
        if self.in_block() { Ok(()) } else { self.skip_forward() }
    }

    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        self.block.as_mut()?.step()
    }

    fn prev(&mut self) -> Result<()> {
        self.step_block(BlockCursor::prev)?;
        if self.in_block() { Ok(()) } else { self.skip_backward() }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }

    #[inline]
    fn value_slice(&self) -> Slice {
        let (cursor, range) = (self.current(), self.current().value_range());
        match cursor.block() {
            _ if range.is_empty() => Slice::empty(),
            HeldBlock::Shared(block) => Slice::share(Arc::clone(block), range),
            HeldBlock::Private(block) => Slice::share(Arc::clone(block), range),
        }
    }
}

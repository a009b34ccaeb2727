//! [`TableCursor`]: walks a table both ways.
//!
//! It keeps the index and one data block alive for itself, so it needs no guard between its calls,
//! and a file that is deleted meanwhile stays readable.

use std::sync::Arc;

use crate::cache::Resident;
use crate::cursor::{Cursor, Fetch, Step};
use crate::encoding::key;
use crate::error::{Damage, Result};
use crate::memory::{LINE_BYTES, LineBuf};
use crate::slice::Slice;
use crate::sync::pin;

use super::block::SeekStart;
use super::block::cursor::BlockCursor;
use super::block::pinned::BlockPin;
use super::format::file::{Buffer, StoredBlock};
use super::table::{Table, TableIndex};

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

/// How far a cursor looks ahead in memory: at first, since few entries may be wanted, and at most.
const FIRST_LOOK_BYTES: usize = 512;
const MOST_LOOK_BYTES: usize = 2 << 10;

/// See [`Cursor`] for its contract.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    options: ScanOptions,
    /// `None` until first used.
    index: Option<Arc<Resident<TableIndex>>>,
    /// Which block `block` is.
    i: usize,
    block: Option<BlockCursor<BlockPin>>,
    /// Bytes of the file that were read ahead, from this offset on.
    ahead: (u64, Vec<u8>),
    /// Bytes of the next read ahead.
    next_ahead_bytes: u64,
    look: LookAhead,
    /// What [`Cursor::fetch_for_seek`] found out: the block that the seek goes to, and what that
    /// says of the user key.
    sought: Option<(usize, Option<SeekStart>)>,
}

/// What a cursor that steps has on its way from memory. Offsets in the current block; those past
/// its end go on in the next one.
#[derive(Default)]
struct LookAhead {
    /// Where the steps stop, to look again.
    pause_at: usize,
    /// To here everything has been asked for.
    fetched: usize,
    /// How far to look the next time.
    bytes: usize,
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
            look: LookAhead::default(),
            sought: None,
        }
    }

    /// Lends the index out of the cursor, so that the rest of the cursor can change.
    fn with_index<R>(
        &mut self,
        run: impl FnOnce(&mut Self, &TableIndex) -> Result<R>,
    ) -> Result<R> {
        let index = match self.index.take() {
            Some(index) => index,
            None => self.table.index(&pin())?.to_arc(),
        };
        let result = run(self, &index);
        self.index = Some(index);
        result
    }

    /// Makes block `i` the current one, its cursor on no entry. After a failure there is none.
    fn open_block(&mut self, index: &TableIndex, i: usize) -> Result<()> {
        self.sought = None;
        let last = self.block.take();
        let pinned = self.pin_block(index, i)?;
        self.i = i;
        self.block = Some(match last {
            Some(mut cursor) => {
                cursor.enter(pinned);
                cursor
            }
            None => BlockCursor::new(pinned, self.table.overlay()),
        });
        Ok(())
    }

    fn pin_block(&mut self, index: &TableIndex, i: usize) -> Result<BlockPin> {
        if let Some(lease) = self.table.resident_block(index, i, &pin()) {
            return Ok(BlockPin::Cached(lease.to_arc()));
        }
        let table = Arc::clone(&self.table);
        if self.options.fill_cache {
            let lease =
                table.load_block(index, i, || self.fetch(index, i, |len| table.buffer(len)))?;
            Ok(BlockPin::Cached(lease.to_arc()))
        } else {
            let stored = self.fetch(index, i, LineBuf::zeroed)?;
            let block = table.decode_block(index, i, stored, LineBuf::zeroed)?;
            Ok(BlockPin::Private(Arc::new(block)))
        }
    }

    /// The stored bytes of block `i`: from what was read ahead, or from the file.
    fn fetch(&mut self, index: &TableIndex, i: usize, buffer: impl Buffer) -> Result<StoredBlock> {
        let file = self.table.block_file();
        let handle = index.index.handle(i);
        let Some(end) = handle.end().filter(|&end| end <= file.limit()) else {
            return file.read_stored(handle, buffer);
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
                return file.read_stored(handle, buffer);
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
        Ok(StoredBlock::copy_from(&ahead[start..start + bytes], handle, buffer))
    }

    /// Runs one step of the current block's cursor. After a failure there is no current block.
    fn step_block(
        &mut self,
        index: &TableIndex,
        step: impl FnOnce(&mut BlockCursor<BlockPin>) -> Result<(), Damage>,
    ) -> Result<()> {
        let Some(block) = &mut self.block else { return Ok(()) };
        step(block).map_err(|damage| {
            self.block = None;
            self.table.block_file().damaged(damage, index.index.handle(self.i))
        })
    }

    /// To block `i`, and there where `place` puts its cursor.
    fn enter(
        &mut self,
        index: &TableIndex,
        i: usize,
        place: impl FnOnce(&mut BlockCursor<BlockPin>) -> Result<(), Damage>,
    ) -> Result<()> {
        self.open_block(index, i)?;
        self.step_block(index, place)
    }

    #[inline]
    fn in_block(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    /// Prepares for steps from where the block's cursor stands now.
    fn look_from_here(&mut self) {
        self.look = LookAhead { pause_at: 0, fetched: 0, bytes: FIRST_LOOK_BYTES };
    }

    /// Starts to fetch what the next steps will read, and sets when to do so again.
    fn look_ahead(&mut self, index: &TableIndex) {
        let Some(block) = &self.block else { return };
        let LookAhead { fetched, bytes, .. } = self.look;
        let (position, end, next) = (block.position(), block.entries_bytes(), self.i + 1);
        let (from, mut to) = (fetched.max(position), position + bytes);
        for offset in (from..to.min(end)).step_by(LINE_BYTES) {
            block.block().prefetch(offset);
        }
        if to + MOST_LOOK_BYTES > end && next < index.index.len() {
            if from == position || from + MOST_LOOK_BYTES <= end {
                // First where the bytes of the next block are, and later those.
                index.blocks.prefetch_resident(next);
                to = to.min(end);
            } else if to > end {
                let guard = pin();
                if let Some(next) = index.blocks.borrow(next, &guard) {
                    for offset in (from.max(end) - end..to - end).step_by(LINE_BYTES) {
                        next.prefetch(offset);
                    }
                }
            }
        }
        let pause_at = position + bytes / 2;
        self.look = LookAhead { pause_at, fetched: to, bytes: (2 * bytes).min(MOST_LOOK_BYTES) };
    }

    /// The steps that are not within one block, or come to the end of what is on its way.
    #[inline(never)]
    fn step_further(&mut self) -> Option<Step> {
        let index = self.index.take()?;
        let step = self.step_further_in(&index);
        self.index = Some(index);
        step
    }

    fn step_further_in(&mut self, index: &TableIndex) -> Option<Step> {
        if self.block.as_ref()?.position() >= self.look.pause_at {
            self.look_ahead(index);
        }
        let block = self.block.as_mut()?;
        if let Some(step) = block.step() {
            return Some(step);
        }
        // To the next block, if that is in memory.
        let (end, next) = (block.entries_bytes(), self.i + 1);
        if block.position() != end || next >= index.index.len() {
            return None;
        }
        let pinned = BlockPin::Cached(self.table.resident_block(index, next, &pin())?.to_arc());
        let step = block.step_into(pinned).ok()?;
        self.i = next;
        self.look.fetched = self.look.fetched.saturating_sub(end);
        self.look.pause_at = self.look.pause_at.saturating_sub(end);
        Some(step)
    }

    /// While the current block has no more entries: to the first entry of the next one.
    fn skip_forward(&mut self, index: &TableIndex) -> Result<()> {
        while self.block.is_some() && !self.in_block() {
            if self.i + 1 >= index.index.len() {
                self.block = None;
                return Ok(());
            }
            self.enter(index, self.i + 1, BlockCursor::seek_to_first)?;
        }
        self.look_from_here();
        Ok(())
    }

    /// While the current block has no earlier entries: to the last entry of the one before.
    fn skip_backward(&mut self, index: &TableIndex) -> Result<()> {
        while self.block.is_some() && !self.in_block() {
            if self.i == 0 {
                self.block = None;
                return Ok(());
            }
            self.enter(index, self.i - 1, BlockCursor::seek_to_last)?;
        }
        Ok(())
    }

    /// The block that an internal key belongs into, and past the last one the number of blocks.
    fn find(index: &TableIndex, target: &[u8]) -> usize {
        index.index.find(key::user_key(target), key::trailer(target))
    }

    #[inline]
    fn current(&self) -> &BlockCursor<BlockPin> {
        self.block.as_ref().expect("the cursor stands on an entry")
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.in_block()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.with_index(|this, index| {
            if index.index.len() == 0 {
                return Ok(());
            }
            this.enter(index, 0, BlockCursor::seek_to_first)?;
            this.skip_forward(index)
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.with_index(|this, index| {
            let Some(last) = index.index.len().checked_sub(1) else { return Ok(()) };
            this.enter(index, last, BlockCursor::seek_to_last)?;
            this.skip_backward(index)
        })
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.with_index(|this, index| {
            let sought = this.sought.take();
            let (i, start) = sought.unwrap_or_else(|| (Self::find(index, target), None));
            if i == index.index.len() {
                this.block = None;
                return Ok(());
            }
            this.enter(index, i, |block| match start {
                Some(start) => block.seek_from(start, key::user_key(target), key::trailer(target)),
                None => block.seek(target),
            })?;
            this.skip_forward(index)
        })
    }

    fn fetch_for_seek(&mut self, target: &[u8], fetch: Fetch) {
        let guard = pin();
        if self.index.is_none() {
            self.index = self.table.resident_index(&guard).map(|index| index.to_arc());
        }
        let Some(index) = &self.index else { return };
        match (fetch, &mut self.sought) {
            (Fetch::Block, sought) => {
                let i = Self::find(index, target);
                if i < index.index.len() {
                    index.blocks.prefetch_resident(i);
                }
                *sought = Some((i, None));
            }
            (Fetch::Entries, Some((i, start))) if *i < index.index.len() => {
                let block = index.blocks.borrow(*i, &guard);
                *start = block.map(|block| block.start_seek(key::user_key(target)));
            }
            _ => {}
        }
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        self.with_index(|this, index| {
            let i = Self::find(index, target).min(index.index.len().saturating_sub(1));
            if i == index.index.len() {
                return Ok(());
            }
            this.enter(index, i, |block| block.seek_before(target))?;
            this.skip_backward(index)
        })
    }

    fn next(&mut self) -> Result<()> {
        self.with_index(|this, index| {
            this.step_block(index, BlockCursor::next)?;
            if this.in_block() { Ok(()) } else { this.skip_forward(index) }
        })
    }

    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        let block = self.block.as_mut()?;
        if block.position() < self.look.pause_at
            && let Some(step) = block.step_short()
        {
            return Some(step);
        }
        self.step_further()
    }

    fn prev(&mut self) -> Result<()> {
        self.with_index(|this, index| {
            this.step_block(index, BlockCursor::prev)?;
            if this.in_block() { Ok(()) } else { this.skip_backward(index) }
        })
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
            BlockPin::Cached(block) => Slice::share(Arc::clone(block), range),
            BlockPin::Private(block) => Slice::share(Arc::clone(block), range),
        }
    }
}

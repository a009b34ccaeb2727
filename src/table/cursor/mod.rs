//! [`TableCursor`]: walks a table both ways.
//!
//! A cursor keeps the table, the index or one part of it, and one data block alive. So it needs no
//! guard between its calls, and a file that is deleted meanwhile stays readable.

pub(crate) mod read_ahead;

use std::sync::Arc;

use crate::cache::slots::Resident;
use crate::cursor::{Cursor, Fetch, Step};
use crate::encoding::key;
use crate::error::{Damage, Result};
use crate::memory::{LINE_BYTES, LineBuf};
use crate::slice::Slice;
use crate::sync::pin;

use super::block::SeekStart;
use super::block::cursor::BlockCursor;
use super::block::pinned::BlockPin;
use super::table::Table;
use super::table_index::TableIndex;

/// How many bytes of resident blocks a cursor prefetches into the processor's cache at a time. The
/// first prefetch after a seek is short, because the scan may need few entries. Each later prefetch
/// is twice as long as the one before, up to the maximum.
const FIRST_LOOK_BYTES: usize = 512;
const MAX_LOOK_BYTES: usize = 2 << 10;

use read_ahead::{Direction, ReadAhead, ScanOptions, ScanSource};

/// See [`Cursor`] for its contract.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    options: ScanOptions,
    /// The index, or the part of it that was used last. `None` until one is needed.
    index: Option<Arc<Resident<TableIndex>>>,
    /// `i` is the number of `block` in its part of the index, and `part` is the number of that
    /// part.
    i: usize,
    part: usize,
    block: Option<BlockCursor<BlockPin>>,
    ahead: ReadAhead,
    /// The direction of a scan that came from another file and has read no block of this one yet.
    entered: Option<Direction>,
    look: LookAhead,
    /// Set by [`Cursor::fetch_for_seek`].
    sought: Option<Sought>,
}

/// What [`Cursor::fetch_for_seek`] has found out for the seek that follows.
struct Sought {
    /// The number of the index part, and that of the block in this part.
    part: usize,
    block: usize,
    /// Where in the block the seek starts.
    start: Option<SeekStart>,
}

/// What a stepping cursor has prefetched. Offsets count from the start of the current block and
/// continue into the next block.
#[derive(Default)]
struct LookAhead {
    /// Where the steps stop to prefetch again.
    pause_at: usize,
    /// Everything before this offset is prefetched.
    fetched: usize,
    /// How many bytes the next prefetch looks ahead.
    bytes: usize,
}

impl TableCursor {
    /// A cursor on no entry. Reads nothing yet.
    pub fn new(table: Arc<Table>, options: ScanOptions) -> TableCursor {
        TableCursor {
            table,
            options,
            index: None,
            i: 0,
            part: 0,
            block: None,
            ahead: ReadAhead::default(),
            entered: None,
            look: LookAhead::default(),
            sought: None,
        }
    }

    /// Whether blocks that are read from now on enter the cache.
    pub fn set_fill_cache(&mut self, fill_cache: bool) {
        self.options.fill_cache = fill_cache;
    }

    /// The cursor for the next table, after a scan has walked off the end of this one. The new
    /// cursor keeps the size of the reads and the read-ahead buffer.
    pub fn into_next(mut self, table: Arc<Table>) -> TableCursor {
        let entered = self.ahead.enter_next_file();
        TableCursor { ahead: self.ahead, entered, ..TableCursor::new(table, self.options) }
    }

    /// Calls `run` with part `part` of the index, taken out of the cursor so that `run` can change
    /// the cursor.
    fn with_index<R>(
        &mut self,
        part: usize,
        run: impl FnOnce(&mut Self, &TableIndex) -> Result<R>,
    ) -> Result<R> {
        let index = match self.index.take() {
            Some(index) if index.part == part => index,
            _ => self.table.index_part(part)?.to_arc(),
        };
        let result = run(self, &index);
        self.index = Some(index);
        result
    }

    /// While the current block has no more entries in `direction`, moves on to the next part of the
    /// index.
    fn go_to_parts(&mut self, direction: Direction) -> Result<()> {
        while self.block.is_some() && !self.in_block() {
            let part = match direction {
                Direction::Forward => self.part + 1,
                Direction::Backward => self.part - 1,
            };
            self.go_to_end_of(part, direction)?;
        }
        Ok(())
    }

    /// Moves to the entry at which a walk in `direction` enters a part.
    fn go_to_end_of(&mut self, part: usize, direction: Direction) -> Result<()> {
        self.with_index(part, |this, index| {
            let Some(last) = index.index.len().checked_sub(1) else {
                this.block = None;
                return Ok(());
            };
            let i = if direction == Direction::Forward { 0 } else { last };
            this.enter_end(index, i, direction)?;
            this.skip(index, direction)
        })
    }

    /// Makes block `i` the current block. The caller must then move the block's cursor. After a
    /// failure there is no current block.
    fn open_block(&mut self, index: &TableIndex, i: usize) -> Result<()> {
        self.sought = None;
        // A seek of a scan often stays in the current block. If that block is not in the cache,
        // opening it again would read the file again.
        if self.block.is_some() && (index.part, i) == (self.part, self.i) {
            return Ok(());
        }
        let last = self.block.take();
        let direction = match &last {
            None => self.entered.take(),
            Some(_) if index.part != self.part => self.direction_into(index, i),
            Some(_) if i == self.i + 1 => Some(Direction::Forward),
            Some(_) if i + 1 == self.i => Some(Direction::Backward),
            Some(_) => None,
        };
        let pinned = self.pin_block(index, i, direction)?;
        (self.part, self.i) = (index.part, i);
        self.block = Some(match last {
            Some(mut cursor) => {
                cursor.enter(pinned);
                cursor
            }
            None => BlockCursor::new(pinned, self.table.global_sequence()),
        });
        Ok(())
    }

    /// The direction of a scan from the current block to block `i` of another part. `None` if the
    /// blocks are not neighbours.
    fn direction_into(&self, index: &TableIndex, i: usize) -> Option<Direction> {
        // The cursor may have walked from one part into the next, or a seek may have jumped there.
        // Both count as a walk, because a jump that is mistaken for a walk costs only one longer
        // read.
        match i {
            0 if index.part == self.part + 1 => Some(Direction::Forward),
            _ if i + 1 == index.index.len() && index.part + 1 == self.part && self.i == 0 => {
                Some(Direction::Backward)
            }
            _ => None,
        }
    }

    fn pin_block(
        &mut self,
        index: &TableIndex,
        i: usize,
        direction: Option<Direction>,
    ) -> Result<BlockPin> {
        if let Some(lease) = self.table.resident_block(index, i, &pin()) {
            return Ok(BlockPin::Cached(lease.to_arc()));
        }
        let (table, goes_on) = (&*self.table, self.options.goes_on);
        let source = ScanSource {
            file: table.block_file(),
            index: &index.index,
            options: &self.options,
            is_resident: |i| !goes_on && index.blocks.get(i, &pin()).is_some(),
        };
        if self.options.fill_cache {
            let lease = table.load_block(index, i, || {
                self.ahead.fetch(&source, i, direction, |len| table.data_buffer(len))
            })?;
            Ok(BlockPin::Cached(lease.to_arc()))
        } else {
            let stored = self.ahead.fetch(&source, i, direction, LineBuf::zeroed)?;
            let block = table.decode_block(index, i, stored, LineBuf::zeroed)?;
            Ok(BlockPin::Private(Arc::new(block)))
        }
    }

    /// Calls `step`, which moves the current block's cursor. After a failure there is no current
    /// block.
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

    /// Makes block `i` the current one, and moves the block's cursor by `position`.
    fn enter(
        &mut self,
        index: &TableIndex,
        i: usize,
        position: impl FnOnce(&mut BlockCursor<BlockPin>) -> Result<(), Damage>,
    ) -> Result<()> {
        self.open_block(index, i)?;
        self.step_block(index, position)
    }

    #[inline]
    fn in_block(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    /// Restarts the look-ahead at the position of the block's cursor.
    fn look_from_here(&mut self) {
        self.look = LookAhead { pause_at: 0, fetched: 0, bytes: FIRST_LOOK_BYTES };
    }

    /// Prefetches what the next steps will read, and sets where the steps stop to prefetch again.
    fn look_ahead(&mut self, index: &TableIndex) {
        let Some(block) = &self.block else { return };
        let LookAhead { fetched, bytes, .. } = self.look;
        let (position, end, next) = (block.position(), block.entries_bytes(), self.i + 1);
        let (from, mut to) = (fetched.max(position), position + bytes);
        for offset in (from..to.min(end)).step_by(LINE_BYTES) {
            block.block().prefetch(offset);
        }
        if to + MAX_LOOK_BYTES > end && next < index.index.len() {
            if from == position || from + MAX_LOOK_BYTES <= end {
                // The address of the next block's entries is in the block's header. This call
                // prefetches the header, so that a later call can prefetch the entries.
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
        self.look = LookAhead { pause_at, fetched: to, bytes: (2 * bytes).min(MAX_LOOK_BYTES) };
    }

    /// [`Cursor::step`] in the rare cases: it must prefetch, the next entry has an uncommon form,
    /// or the next entry is in the next block.
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
        // Moves to the next block if it is in memory.
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

    /// Enters block `i` at the entry where a walk in `direction` enters it.
    fn enter_end(&mut self, index: &TableIndex, i: usize, direction: Direction) -> Result<()> {
        self.enter(index, i, |block| match direction {
            Direction::Forward => block.seek_to_first(),
            Direction::Backward => block.seek_to_last(),
        })
    }

    /// While the current block has no more entries in `direction`, enters the next block in that
    /// direction. Stops at the end of a part. If no part follows in that direction, there is then
    /// no current block.
    fn skip(&mut self, index: &TableIndex, direction: Direction) -> Result<()> {
        while self.block.is_some() && !self.in_block() {
            let (next, is_last_part) = match direction {
                Direction::Forward => (self.i + 1, index.part + 1 == index.parts),
                // Before block 0 the number wraps around, so it is not the number of a block.
                Direction::Backward => (self.i.wrapping_sub(1), index.part == 0),
            };
            if next >= index.index.len() {
                if is_last_part {
                    self.block = None;
                }
                return Ok(());
            }
            self.enter_end(index, next, direction)?;
        }
        if direction == Direction::Forward {
            self.look_from_here();
        }
        Ok(())
    }

    /// Moves to the next entry in `direction`.
    #[inline(always)]
    fn walk(&mut self, direction: Direction) -> Result<()> {
        self.with_index(self.part, |this, index| {
            this.step_block(index, |block| match direction {
                Direction::Forward => block.next(),
                Direction::Backward => block.prev(),
            })?;
            if this.in_block() { Ok(()) } else { this.skip(index, direction) }
        })?;
        self.go_to_parts(direction)
    }

    /// The block that can hold an internal key; the number of blocks if none can.
    fn find(index: &TableIndex, target: &[u8]) -> usize {
        index.index.find(key::user_key(target), key::trailer(target))
    }

    /// The part of the index that can lead to an internal key; the last part if none can.
    fn find_part(&self, target: &[u8]) -> usize {
        self.table.index.locate_near(key::user_key(target), key::trailer(target))
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
        self.go_to_end_of(0, Direction::Forward)?;
        self.go_to_parts(Direction::Forward)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go_to_end_of(self.table.index.parts() - 1, Direction::Backward)?;
        self.go_to_parts(Direction::Backward)
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let sought = self.sought.take();
        let part = self.find_part(target);
        self.with_index(part, |this, index| {
            let sought = sought.filter(|sought| sought.part == index.part);
            let (i, start) = match sought {
                Some(sought) => (sought.block, sought.start),
                None => (Self::find(index, target), None),
            };
            if i == index.index.len() {
                this.block = None;
                return Ok(());
            }
            this.enter(index, i, |block| match start {
                Some(start) => block.seek_from(start, key::user_key(target), key::trailer(target)),
                None => block.seek(target),
            })?;
            this.skip(index, Direction::Forward)
        })?;
        self.go_to_parts(Direction::Forward)
    }

    fn fetch_for_seek(&mut self, target: &[u8], fetch: Fetch) {
        let guard = pin();
        if let Fetch::Block = fetch {
            let part = self.find_part(target);
            if self.index.as_ref().is_none_or(|index| index.part != part) {
                self.sought = None;
                let index = self.table.resident_index(part, &guard);
                self.index = index.map(|index| index.to_arc());
            }
        }
        let Some(index) = &self.index else { return };
        match (fetch, &mut self.sought) {
            (Fetch::Block, sought) => {
                let i = Self::find(index, target);
                if i < index.index.len() {
                    index.blocks.prefetch_resident(i);
                }
                *sought = Some(Sought { part: index.part, block: i, start: None });
            }
            (Fetch::Entries, Some(sought)) if sought.block < index.index.len() => {
                let block = index.blocks.borrow(sought.block, &guard);
                sought.start = block.map(|block| block.start_seek(key::user_key(target)));
            }
            _ => {}
        }
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        let part = self.find_part(target);
        self.with_index(part, |this, index| {
            let i = Self::find(index, target).min(index.index.len().saturating_sub(1));
            if i == index.index.len() {
                return Ok(());
            }
            this.enter(index, i, |block| block.seek_before(target))?;
            this.skip(index, Direction::Backward)
        })?;
        self.go_to_parts(Direction::Backward)
    }

    fn next(&mut self) -> Result<()> {
        self.walk(Direction::Forward)
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
        self.walk(Direction::Backward)
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

//! Step 12: cursors, which walk the entries of a block, of a table and of the memtable in order.
//!
//! ```text
//! TableCursor    index   A B C D        a BlockCursor over the index
//!                          │
//!                data    … k l m …      a BlockCursor over the data block that the index is at
//! ```

use std::io;

use super::step04_block::{Block, Entries, KeyValue};
use super::step05_table::{Blocks, Kind, Table, is_before};
use super::step07_memtable::Memtable;
use crate::given::Handle;

/// A place in a sorted sequence of entries: at one of them, or behind the last. A new cursor is
/// behind the last, until `seek` is called.
pub trait Cursor {
    /// Goes to the first entry that is not before the place of a user key and a sequence number.
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()>;

    /// Goes to the next entry. The cursor must be at one.
    fn next(&mut self) -> io::Result<()>;

    /// The entry that the cursor is at: internal key and value. `None`: behind the last.
    fn entry(&self) -> Option<&KeyValue>;
}

/// A cursor over a block.
pub struct BlockCursor {
    block: Block,
    /// The entries behind `current`.
    rest: Entries,
    current: Option<KeyValue>,
}

impl BlockCursor {
    pub fn new(block: Block) -> BlockCursor {
        BlockCursor { rest: block.entries(), block, current: None }
    }
}

impl Cursor for BlockCursor {
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()> {
        let is_before = |key: &[u8]| is_before(key, user_key, sequence);
        // yours: as in step 4, but `rest` and `current` stay where the search ends
        let (mut low, mut high) = (0, self.block.restarts);
        while high - low > 1 {
            let middle = (low + high) / 2;
            match self.block.entries_from(middle)?.next().transpose()? {
                Some((key, _)) if is_before(&key) => low = middle,
                _ => high = middle,
            }
        }
        self.rest = self.block.entries_from(low)?;
        self.next()?;
        while self.entry().is_some_and(|(key, _)| is_before(key)) {
            self.next()?;
        }
        Ok(())
        // end
    }

    fn next(&mut self) -> io::Result<()> {
        // yours: one line
        self.current = self.rest.next().transpose()?;
        Ok(())
        // end
    }

    fn entry(&self) -> Option<&KeyValue> {
        self.current.as_ref()
    }
}

/// A cursor over a table. It holds its index and one data block.
pub struct TableCursor<'a> {
    table: &'a Table,
    blocks: &'a dyn Blocks,
    /// `None` until the first `seek`.
    index: Option<BlockCursor>,
    /// The data block of the entry that the index is at. `None`: behind the last.
    data: Option<BlockCursor>,
}

impl<'a> TableCursor<'a> {
    pub fn new(table: &'a Table, blocks: &'a dyn Blocks) -> TableCursor<'a> {
        TableCursor { table, blocks, index: None, data: None }
    }

    /// Makes `data` a cursor over the block that the index is at, which is at no entry yet.
    fn load(&mut self) -> io::Result<()> {
        // yours: the handle is the value in the index; behind the last entry there is no data
        self.data = None;
        if let Some((_, handle)) = self.index.as_ref().and_then(|index| index.entry()) {
            let handle = Handle::take(&mut &handle[..])?;
            let block = Block::new(self.blocks.block(self.table, handle, Kind::Data)?)?;
            self.data = Some(BlockCursor::new(block));
        }
        Ok(())
        // end
    }
}

impl Cursor for TableCursor<'_> {
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()> {
        if self.index.is_none() {
            let index = self.blocks.block(self.table, self.table.index, Kind::Index)?;
            self.index = Some(BlockCursor::new(Block::new(index)?));
        }
        // yours: seek in the index, load the block, seek in it
        if let Some(index) = &mut self.index {
            index.seek(user_key, sequence)?;
        }
        self.load()?;
        match &mut self.data {
            Some(data) => data.seek(user_key, sequence),
            None => Ok(()),
        }
        // end
    }

    fn next(&mut self) -> io::Result<()> {
        // yours: the next entry of the block; at its end the first one of the next block
        if let Some(data) = &mut self.data {
            data.next()?;
            if data.entry().is_some() {
                return Ok(());
            }
        }
        if let Some(index) = &mut self.index {
            index.next()?;
        }
        self.load()?;
        self.data.as_mut().map_or(Ok(()), |data| data.next())
        // end
    }

    fn entry(&self) -> Option<&KeyValue> {
        self.data.as_ref()?.entry()
    }
}

/// A cursor over a memtable.
pub struct MemtableCursor<'a> {
    memtable: &'a Memtable,
    rest: Box<dyn Iterator<Item = KeyValue> + 'a>,
    current: Option<KeyValue>,
}

impl<'a> MemtableCursor<'a> {
    pub fn new(memtable: &'a Memtable) -> MemtableCursor<'a> {
        MemtableCursor { memtable, rest: Box::new(std::iter::empty()), current: None }
    }
}

impl Cursor for MemtableCursor<'_> {
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()> {
        self.rest = self.memtable.entries_from(user_key, sequence);
        self.next()
    }

    fn next(&mut self) -> io::Result<()> {
        self.current = self.rest.next();
        Ok(())
    }

    fn entry(&self) -> Option<&KeyValue> {
        self.current.as_ref()
    }
}

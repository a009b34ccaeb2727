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
        todo!("as in step 4, but `rest` and `current` stay where the search ends")
    }

    fn next(&mut self) -> io::Result<()> {
        todo!("one line")
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
        todo!("the handle is the value in the index; behind the last entry there is no data")
    }
}

impl Cursor for TableCursor<'_> {
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()> {
        if self.index.is_none() {
            let index = self.blocks.block(self.table, self.table.index, Kind::Index)?;
            self.index = Some(BlockCursor::new(Block::new(index)?));
        }
        todo!("seek in the index, load the block, seek in it")
    }

    fn next(&mut self) -> io::Result<()> {
        todo!("the next entry of the block; at its end the first one of the next block")
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

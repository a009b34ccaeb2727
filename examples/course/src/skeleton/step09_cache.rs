//! Step 9: a block cache. Filters are loaded through it, as data is, and are evicted last.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use super::step05_table::{Blocks, Kind, Table};
use crate::given::Handle;

struct Cached {
    bytes: Rc<[u8]>,
    kind: Kind,
    /// The time of the last use. A later use has a larger number.
    used: u64,
}

/// A block is known by the number of its table and its offset there.
type Name = (u64, u64);

/// Blocks in memory, up to a number of bytes.
pub struct Cache {
    capacity: usize,
    blocks: RefCell<HashMap<Name, Cached>>,
    clock: Cell<u64>,
    pub hits: Cell<u64>,
    pub misses: Cell<u64>,
}

impl Cache {
    pub fn new(capacity: usize) -> Cache {
        Cache {
            capacity,
            blocks: RefCell::default(),
            clock: Cell::new(0),
            hits: Cell::new(0),
            misses: Cell::new(0),
        }
    }

    /// Bytes of all blocks in the cache.
    pub fn used(&self) -> usize {
        self.blocks.borrow().values().map(|block| block.bytes.len()).sum()
    }

    /// Removes the data block that was not used for the longest time. If there is no data block,
    /// removes the filter or index that was not used for the longest time. Returns `false` if the
    /// cache is empty.
    fn evict(&self) -> bool {
        todo!("the smallest by (is it no data?, time of the last use)")
    }
}

impl Blocks for Cache {
    fn block(&self, table: &Table, handle: Handle, kind: Kind) -> io::Result<Rc<[u8]>> {
        let used = self.clock.get() + 1;
        self.clock.set(used);
        let name = (table.number, handle.offset);
        todo!("a hit: count it, note the use. A miss: count it, read, make room, keep the block")
    }
}

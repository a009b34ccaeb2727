//! Step 4: a block of sorted entries. An entry shares a prefix with the key before it, and stores
//! only the rest of its own key.
//!
//! ```text
//! block   entry | entry | … | fixed32 offset of each restart point | fixed32 number of them
//! entry   varint shared | varint own | varint value bytes | own bytes of the key | value
//! ```
//!
//! At a *restart point* an entry shares nothing. A search can start there, because the entry stores
//! its whole key.

use std::io;
use std::rc::Rc;

use crate::given::{damaged, fixed32, put_varint, take, take_varint};

/// The number of entries from one restart point to the next, in data blocks.
pub const RESTART_INTERVAL: usize = 16;

/// Writes a block. Keys come in ascending order.
pub struct BlockBuilder {
    interval: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    entries: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Every `interval`-th entry is a restart point, from the first on.
    pub fn new(interval: usize) -> BlockBuilder {
        BlockBuilder {
            interval,
            bytes: Vec::new(),
            restarts: Vec::new(),
            entries: 0,
            last_key: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The size of the block in bytes, if it were finished now.
    pub fn size(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len().max(1) + 4
    }

    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        todo!("the prefix that the last key shares, but nothing at a restart point; then the entry")
    }

    /// The whole block. The builder is empty afterwards.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut done = std::mem::replace(self, BlockBuilder::new(self.interval));
        if done.restarts.is_empty() {
            done.restarts.push(0);
        }
        for restart in &done.restarts {
            done.bytes.extend(restart.to_le_bytes());
        }
        done.bytes.extend((done.restarts.len() as u32).to_le_bytes());
        done.bytes
    }
}

/// A stored block.
pub struct Block {
    bytes: Rc<[u8]>,
    /// The offset at which the entries end and the restart points begin.
    entries_end: usize,
    pub restarts: usize,
}

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

impl Block {
    pub fn new(bytes: Rc<[u8]>) -> io::Result<Block> {
        let restarts = fixed32(&bytes, bytes.len().saturating_sub(4))? as usize;
        let entries_end = (bytes.len() - 4).checked_sub(4 * restarts);
        let entries_end = entries_end.filter(|_| restarts > 0);
        let entries_end = entries_end.ok_or_else(|| damaged("restart points of a block"))?;
        Ok(Block { bytes, entries_end, restarts })
    }

    /// All entries.
    pub fn entries(&self) -> Entries {
        Entries { bytes: Rc::clone(&self.bytes), at: 0, end: self.entries_end, key: Vec::new() }
    }

    /// The entries from restart point number `restart` on.
    pub fn entries_from(&self, restart: usize) -> io::Result<Entries> {
        let at = fixed32(&self.bytes, self.entries_end + 4 * restart)? as usize;
        Ok(Entries { at, ..self.entries() })
    }

    /// The first entry whose key is not before the sought place, or `None`. `is_before` says
    /// whether a key is before this place. It must be true for all keys up to some entry, and false
    /// for all keys after that entry.
    pub fn seek(&self, is_before: impl Fn(&[u8]) -> bool) -> io::Result<Option<KeyValue>> {
        todo!("by halving, the last restart point whose key is before; from there entry by entry")
    }
}

/// Walks the entries of a block.
pub struct Entries {
    bytes: Rc<[u8]>,
    /// Offset of the next entry.
    at: usize,
    end: usize,
    /// The key of the entry that was read last.
    key: Vec<u8>,
}

impl Entries {
    /// Reads the entry at `at`. Then `self.key` is its key, and `self.at` is where the next entry
    /// begins.
    fn read(&mut self) -> io::Result<KeyValue> {
        let bytes = self.bytes.get(self.at..self.end);
        let mut rest = bytes.ok_or_else(|| damaged("a restart point behind the entries"))?;
        todo!("three varints, then the key's own bytes and the value; set `self.key`, `self.at`")
    }
}

impl Iterator for Entries {
    type Item = io::Result<KeyValue>;

    fn next(&mut self) -> Option<io::Result<KeyValue>> {
        if self.at == self.end {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.at = self.end;
        }
        Some(read)
    }
}

//! [`ReadAhead`]: the bytes of the blocks that a scan comes to next, by fewer and larger reads.

use crate::error::Result;
use crate::sync::pin;
use crate::table::format::file::{Buffer, StoredBlock};
use crate::table::table::{Table, TableIndex};

/// How a cursor gets its blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanOptions {
    /// Whether blocks that are read enter the cache. Off for compactions, which would evict what
    /// lookups use.
    pub fill_cache: bool,
    /// Bytes to read at once when blocks follow each other in the file; 0: each block alone. A
    /// scan that fills the cache may end soon: its reads start small, double up to this, and end
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

/// Bytes of the file that were read before they were asked for.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// The offset of the first of them.
    start: u64,
    bytes: Vec<u8>,
    /// Bytes of the next read.
    next_bytes: u64,
}

impl ReadAhead {
    /// The stored bytes of block `i`: from what was read ahead, or from the file. `follows`: the
    /// scan comes from the block before.
    pub fn fetch(
        &mut self,
        table: &Table,
        options: ScanOptions,
        index: &TableIndex,
        i: usize,
        follows: bool,
        buffer: impl Buffer,
    ) -> Result<StoredBlock> {
        let file = table.block_file();
        let handle = index.index.handle(i);
        let Some(end) = handle.end().filter(|&end| end <= file.limit()) else {
            return file.read_stored(handle, buffer);
        };
        let is_ahead = self.start <= handle.offset && end <= self.start + self.bytes.len() as u64;
        if !is_ahead {
            let ScanOptions { fill_cache, read_ahead_bytes } = options;
            let wanted = match fill_cache {
                true => self.next_bytes.min(read_ahead_bytes as u64),
                false => read_ahead_bytes as u64,
            };
            if !follows || end - handle.offset >= wanted {
                self.next_bytes = FIRST_READ_AHEAD_BYTES;
                return file.read_stored(handle, buffer);
            }
            self.next_bytes = 2 * wanted;
            // To the end of the last block that is wanted, not in memory, and within reach.
            let (guard, reach) = (pin(), file.limit().min(handle.offset.saturating_add(wanted)));
            let read_end = (i + 1..index.index.len())
                .take_while(|&later| !fill_cache || index.blocks.get(later, &guard).is_none())
                .map_while(|later| index.index.handle(later).end())
                .take_while(|&later_end| later_end <= reach)
                .fold(end, u64::max);
            self.bytes.resize((read_end - handle.offset) as usize, 0);
            self.start = handle.offset;
            if let Err(error) = file.read_bytes(handle.offset, &mut self.bytes) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let start = (handle.offset - self.start) as usize;
        let bytes = (end - handle.offset) as usize;
        Ok(StoredBlock::copy_from(&self.bytes[start..start + bytes], handle, buffer))
    }
}

//! [`ReadAhead`]: reads the blocks that a scan comes to next, by fewer and larger reads.
//!
//! ```text
//!   blocks    │ i │i+1│i+2│i+3│i+4│i+5│i+6│ …              up to the last block within the bounds
//!   reads     │one│ 8 KiB │    16 KiB     │ 32 KiB, 64 KiB, …, 1 MiB, 1 MiB, …
//! ```
//!
//! * A scan may end at any entry. So the first block is read alone, and each later read is twice as
//!   large as the one before, up to a limit. A scan therefore reads at most about twice what it
//!   uses. A scan that bypasses the cache is expected to continue to its bounds, so its read-ahead
//!   has full size from the start.
//! * Nothing is read past the scan's bounds. A read includes a few blocks that are in memory
//!   already, because one longer read costs less than two, and because the operating system
//!   mistakes reads with gaps between them for random reads. A read ends before a long row of
//!   blocks that are in memory, unless the scan is expected to continue.
//! * Backward scans read ahead too, because Linux does not read ahead in that direction.
//! * A read for several blocks may fail because of a block that is not needed yet. Then the wanted
//!   block is read alone, so that a scan returns all entries before the damage, and the error names
//!   the damaged block.
//!
//! On purpose, a scan does not ask the operating system to fetch the next bytes while the current
//! ones are decoded (`posix_fadvise`, `POSIX_FADV_WILLNEED`). A scan with such requests took 1.6
//! times the processor time, and was faster only on a device with little read-ahead of its own
//! (`docs/measurements/device.md`).

use std::ops::Range;
use std::sync::Arc;

use crate::encoding::key::{MAX_SEQUENCE, SEEK_KIND, pack};
use crate::error::Result;
use crate::memory::LineBuf;
use crate::table::format::file::{BlockFile, Buffer, StoredBlock};
use crate::table::format::footer::BlockHandle;
use crate::table::index::Index;

/// The most bytes of one read of a scan. A device gets requests of this size even if the operating
/// system reads ahead less (Linux by default 128 KiB).
const MAX_READ_BYTES: usize = 1 << 20;

/// The most read-ahead bytes that the runs of one scan hold together, if the scan has at most 512
/// runs.
const MAX_SCAN_BYTES: usize = 8 << 20;

/// The most read-ahead bytes that the runs of one compaction hold together, if it has at most 128
/// runs. The limit is low because several compactions may run at a time, and no budget counts their
/// memory.
const MAX_COMPACTION_BYTES: usize = 2 << 20;

/// The fewest read-ahead bytes of one run, however many runs a scan or compaction has.
const MIN_SHARE_BYTES: usize = 16 << 10;

/// Bytes of the first read-ahead of a scan that may end soon. Read-ahead begins at the second
/// block.
const FIRST_READ_AHEAD_BYTES: u64 = 8 << 10;

/// A read includes adjacent blocks that are in memory if they have at most this many bytes
/// together.
const MAX_RESIDENT_BYTES: u64 = 32 << 10;

/// How a cursor gets its blocks.
#[derive(Debug, Clone)]
pub(crate) struct ScanOptions {
    /// Whether blocks that are read enter the cache. Off for compactions, whose blocks would evict
    /// those that lookups use.
    pub fill_cache: bool,
    /// Whether the scan is expected to continue to its bounds, so that read-ahead has its full size
    /// from the start.
    pub goes_on: bool,
    /// Bytes to read at once when the scan moves between adjacent blocks; with 0, each block is
    /// read alone. The reads of a scan that may end soon start small and double up to this size.
    pub read_ahead_bytes: usize,
    /// The range of the user keys that the scan may visit.
    pub bounds: ScanBounds,
}

impl ScanOptions {
    /// The options for each of `runs` runs that are scanned together. A scan that does not fill the
    /// cache is expected to continue to its bounds.
    pub fn for_runs(runs: usize, fill_cache: bool, bounds: ScanBounds) -> ScanOptions {
        let read_ahead_bytes = share_of(MAX_SCAN_BYTES, runs);
        ScanOptions { fill_cache, goes_on: !fill_cache, read_ahead_bytes, bounds }
    }

    /// The options for each of `runs` runs that a compaction merges.
    pub fn for_compaction(runs: usize, bounds: ScanBounds) -> ScanOptions {
        let read_ahead_bytes = share_of(MAX_COMPACTION_BYTES, runs);
        ScanOptions { fill_cache: false, goes_on: true, read_ahead_bytes, bounds }
    }
}

fn share_of(most_bytes: usize, runs: usize) -> usize {
    (most_bytes / runs.max(1)).clamp(MIN_SHARE_BYTES, MAX_READ_BYTES)
}

/// The first user key of a range, and the first user key after it. `None`: no bound.
pub(crate) type ScanBounds = (Option<Arc<[u8]>>, Option<Arc<[u8]>>);

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions { fill_cache: true, goes_on: false, read_ahead_bytes: 0, bounds: (None, None) }
    }
}

/// Reads all data blocks of a table in order, without the cache.
pub(crate) struct WholeScan<'a> {
    file: &'a BlockFile,
    index: &'a Index,
    options: ScanOptions,
    ahead: ReadAhead,
}

impl<'a> WholeScan<'a> {
    pub fn new(file: &'a BlockFile, index: &'a Index) -> WholeScan<'a> {
        let options = ScanOptions::for_runs(1, false, (None, None));
        WholeScan { file, index, options, ahead: ReadAhead::default() }
    }

    /// Block `i` as it is stored, **not** checked. The next call must be for block `i + 1`.
    pub fn read_stored(&mut self, i: usize) -> Result<StoredBlock> {
        let (file, index, options) = (self.file, self.index, &self.options);
        let source = ScanSource { file, index, options, is_resident: |_| false };
        self.ahead.fetch(&source, i, Some(Direction::Forward), LineBuf::zeroed)
    }
}

/// The direction from a block to its neighbor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// What a scan reads from, and its options.
pub(crate) struct ScanSource<'a, R: Fn(usize) -> bool> {
    pub file: &'a BlockFile,
    pub index: &'a Index,
    pub options: &'a ScanOptions,
    /// Whether a read of several blocks may leave this block out, because the block is in memory.
    pub is_resident: R,
}

/// Bytes of the file that were read before the scan needed them.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// Where the bytes start in the file.
    start: u64,
    /// How many of `bytes` are valid.
    filled: usize,
    bytes: Vec<u8>,
    /// `None` if the block that was read last is not a neighbor of the one before, as after a seek.
    direction: Option<Direction>,
    /// Bytes of the next read.
    next_bytes: u64,
}

impl ReadAhead {
    /// Returns the stored bytes of block `i`, from what was read ahead or from the file.
    /// `direction` is the direction of the scan if the scan comes from a neighbor of the block,
    /// otherwise `None`.
    pub fn fetch<R: Fn(usize) -> bool>(
        &mut self,
        source: &ScanSource<R>,
        i: usize,
        direction: Option<Direction>,
        buffer: impl Buffer,
    ) -> Result<StoredBlock> {
        let handle = source.index.handle(i);
        if let Some(stored) = self.held(handle) {
            return Ok(StoredBlock::copy_from(stored, handle, buffer));
        }
        let goes_on = match (self.direction, direction) {
            (Some(before), Some(now)) => before == now,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !goes_on {
            self.restart();
        }
        self.direction = direction;
        if goes_on && let Some(stored) = self.read(source, i) {
            return Ok(StoredBlock::copy_from(stored, handle, buffer));
        }
        source.file.read_stored(handle, buffer)
    }

    /// Empties the buffer for the next file of the scan, and keeps the size of the next read.
    /// Returns the scan's direction.
    pub fn enter_next_file(&mut self) -> Option<Direction> {
        self.filled = 0;
        self.direction
    }

    fn restart(&mut self) {
        *self = ReadAhead { bytes: std::mem::take(&mut self.bytes), ..ReadAhead::default() };
    }

    /// The bytes of a block with its trailer, if they were read ahead.
    fn held(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = handle.offset.checked_sub(self.start)?;
        let end = handle.end()?.checked_sub(self.start)?;
        self.bytes[..self.filled].get(start as usize..usize::try_from(end).ok()?)
    }

    /// Reads block `i` and the blocks that the scan comes to next. Returns the bytes of block `i`,
    /// or `None` if the caller must read that block alone.
    fn read<R: Fn(usize) -> bool>(&mut self, source: &ScanSource<R>, i: usize) -> Option<&[u8]> {
        let handle = source.index.handle(i);
        let most = source.options.read_ahead_bytes as u64;
        let wanted = match source.options.goes_on {
            true => most,
            false => self.next_bytes.max(FIRST_READ_AHEAD_BYTES).min(most),
        };
        // If block `i` is larger than `wanted`, the next read has twice the size of the block.
        self.next_bytes = 2 * wanted.max(handle.bytes);
        let blocks = self.neighbours(source, i, wanted);
        if blocks.len() > 1 {
            self.fill(source.file, source.bytes_of(&blocks))?;
        }
        self.held(handle)
    }

    /// Block `i` and the blocks that follow in the scan's direction, within the scan's bounds and
    /// up to `most_bytes` bytes of the file. The range ends before a row of adjacent blocks that
    /// are in memory and together have more than [`MAX_RESIDENT_BYTES`]. The last block is not in
    /// memory, unless it is block `i`.
    fn neighbours<R: Fn(usize) -> bool>(
        &self,
        source: &ScanSource<R>,
        i: usize,
        most_bytes: u64,
    ) -> Range<usize> {
        let limits = source.blocks_in_bounds(i);
        let backward = self.direction == Some(Direction::Backward);
        let at = |distance| if backward { i - distance } else { i + distance };
        let between = |a: usize, b: usize| at(a).min(at(b))..at(a).max(at(b)) + 1;
        let length = |from, to| {
            let bytes = source.bytes_of(&between(from, to));
            bytes.end - bytes.start
        };
        let mut last = 0;
        for next in 1..=if backward { i - limits.start } else { limits.end - 1 - i } {
            match (source.is_resident)(at(next)) {
                _ if length(0, next) > most_bytes => break,
                true if length(last + 1, next) > MAX_RESIDENT_BYTES => break,
                true => {}
                false => last = next,
            }
        }
        between(0, last)
    }

    /// Fills the buffer with the range `bytes` of the file, by one read. `None` if that read fails.
    fn fill(&mut self, file: &BlockFile, bytes: Range<u64>) -> Option<()> {
        self.filled = 0;
        let length = usize::try_from(bytes.end - bytes.start).ok()?;
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        match file.read_bytes(bytes.start, &mut self.bytes[..length]) {
            Ok(_) => (self.start, self.filled) = (bytes.start, length),
            Err(_) => self.restart(),
        }
        (self.filled > 0).then_some(())
    }
}

impl<R: Fn(usize) -> bool> ScanSource<'_, R> {
    /// The range of the file that holds these blocks. There must be at least one.
    fn bytes_of(&self, blocks: &Range<usize>) -> Range<u64> {
        // The end never overflows, because an index has only blocks within the file.
        let end = self.index.handle(blocks.end - 1).end().unwrap_or(u64::MAX);
        self.index.handle(blocks.start).offset..end
    }

    /// The blocks that may hold keys within the scan's bounds, and block `i` in any case.
    fn blocks_in_bounds(&self, i: usize) -> Range<usize> {
        let (lower, upper) = &self.options.bounds;
        let find = |key: &Arc<[u8]>| self.index.find(key, pack(MAX_SEQUENCE, SEEK_KIND));
        let start = lower.as_ref().map_or(0, find);
        let end = upper.as_ref().map_or(self.index.len(), |key| find(key) + 1);
        start.min(i)..end.clamp(i + 1, self.index.len())
    }
}

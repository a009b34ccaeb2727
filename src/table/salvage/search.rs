//! Finds the blocks of a table whose index or footer is lost, by their checksums.
//!
//! Blocks follow each other from the first byte of the file on. A block starts where the previous
//! block ended, or after the padding that follows that block. It ends at the first length whose
//! checksum is right. A block that cannot be read has no known end, so any byte after its start may
//! be the start of the next block: there is a *hole*. In a hole the search tests only likely block
//! sizes ([`LIKELY_BLOCKS`]), and only a limited number of bytes ([`MAX_HOLE_BYTES`]).
//!
//! A hole is searched twice. The first pass tests only *likely* blocks: of a compression type that
//! a block before the hole has, or uncompressed with a sound tail. This is little work, unless the
//! blocks are compressed. The second pass tests everything in front of the block that the first
//! pass found, because blocks may differ in type, and a filter has no tail. All holes of a table
//! together may cost a limited amount of work ([`HOLES_BYTES`]), and a second pass may cost half of
//! what is left of it. Where the work ends, the search keeps the blocks that it has found.
//!
//! The lengths at one start are tested in one pass over the bytes ([`RunningChecksum`]).

use std::path::Path;
use std::sync::Arc;

use crate::error::{Damage, Error, Result};
use crate::fs::RandomAccessFile;
use crate::stats::Counters;
use crate::table::block::Block;
use crate::table::format::checksum::{ChecksumKind, RunningChecksum};
use crate::table::format::file::BlockFile;
use crate::table::format::footer::{
    BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer, WRITTEN_VERSION,
};
use crate::table::format::padding::padding_to_page;
use crate::table::open::{PROPERTIES_BLOCK, RANGE_DEL_BLOCK, find_block, read_metaindex};

/// The longest block that the search finds. In a hole the limit is smaller.
const MAX_BLOCK_BYTES: usize = 1 << 20;
/// In a hole, the search tests blocks of up to this many times the size of the largest block found
/// so far.
const LIKELY_BLOCKS: usize = 2;
/// In a hole, the search tests blocks of up to this size even if [`LIKELY_BLOCKS`] gives a smaller
/// limit.
const MIN_SEARCHED_BYTES: usize = 8 << 10;
/// The search ends in a hole that is longer than this.
const MAX_HOLE_BYTES: usize = 128 << 10;
/// The most bytes that the search hashes in all holes of a table. At some 10 GB/s this takes about
/// seven seconds. It is enough to test everything in a hole of 16 KiB, and all blocks of a known
/// compression type in a hole of 64 KiB.
const HOLES_BYTES: u64 = 64 << 30;
/// A checksum that is computed counts as this many hashed bytes: to finish it takes some 100 ns.
const FINISH_BYTES: usize = 1024;
/// The shortest block has one restart point, and the number of restart points.
const MIN_BLOCK_BYTES: usize = 8;
/// The compression type of ZSTD, which is the largest of RocksDB's own compression types.
const MAX_COMPRESSION_TYPE: u8 = 7;
/// How many bytes of the file are read at once.
const WINDOW_BYTES: usize = 4 * MAX_BLOCK_BYTES;

/// Turns damage into `None`, and keeps other errors.
pub(super) fn damage_to_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Corruption { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a footer for a table of this crate whose own footer cannot be read. Also returns all
/// blocks that the search finds in the file.
pub(super) fn find_footer(
    file: &Arc<dyn RandomAccessFile>,
    counters: &Arc<Counters>,
) -> Result<(Footer, Vec<BlockHandle>)> {
    let mut footer = Footer {
        format_version: WRITTEN_VERSION,
        checksum: ChecksumKind::Xxh3,
        checksum_context_base: 0,
        metaindex: BlockHandle::default(),
        index: None,
    };
    let blocks = find_blocks(&**file, &footer, file.len())?;
    for &candidate in blocks.iter().rev() {
        footer.metaindex = candidate;
        let opened = BlockFile::with_footer(Arc::clone(file), Arc::clone(counters), footer);
        let Some(names) = damage_to_none(read_metaindex(&opened, candidate))? else { continue };
        let points_to_blocks = names.iter().all(|(_, handle)| blocks.contains(handle));
        if let (true, Some(properties)) = (points_to_blocks, find_block(&names, PROPERTIES_BLOCK)) {
            // The index is directly in front of the block of range deletions or, if there is none,
            // in front of the properties.
            let behind = find_block(&names, RANGE_DEL_BLOCK).unwrap_or(properties);
            let next = blocks.iter().position(|&it| it == behind);
            footer.index = next.and_then(|next| blocks.get(next.checked_sub(1)?)).copied();
            return Ok((footer, blocks));
        }
    }
    let damage = Damage::new(0, "a footer, or a metaindex in front of it", "neither");
    Err(damage.in_file(file.path(), file.len().saturating_sub(FOOTER_BYTES as u64)))
}

/// Finds the blocks that follow each other from the file's first byte on, up to `end`.
pub(super) fn find_blocks(
    file: &dyn RandomAccessFile,
    footer: &Footer,
    end: u64,
) -> Result<Vec<BlockHandle>> {
    if footer.checksum == ChecksumKind::None {
        return Err(no_checksums(file.path()));
    }
    Search::new(file, footer, end).blocks()
}

/// The part of the file that was read last.
struct Window<'a> {
    file: &'a dyn RandomAccessFile,
    /// Nothing behind this offset is read.
    end: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The `wanted` bytes from `offset` on, or less at the end.
    fn read(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let wanted = (wanted as u64).min(self.end - offset);
        if offset < self.offset || offset + wanted > self.offset + self.bytes.len() as u64 {
            self.bytes.resize((WINDOW_BYTES as u64).min(self.end - offset) as usize, 0);
            self.offset = offset;
            self.file.read_exact_at(offset, &mut self.bytes)?;
        }
        let start = (offset - self.offset) as usize;
        Ok(&self.bytes[start..start + wanted as usize])
    }
}

/// A place where the payload of a block may end.
#[derive(Clone, Copy)]
struct BlockEnd {
    /// The place, which is that of the compression type.
    at: usize,
    /// Where the entries end, if the block must be one of entries.
    entries_end: Option<usize>,
}

impl BlockEnd {
    /// The place `at` in `bytes`, if the byte there is a compression type.
    fn any(bytes: &[u8], at: usize) -> Option<BlockEnd> {
        (bytes[at] <= MAX_COMPRESSION_TYPE).then_some(BlockEnd { at, entries_end: None })
    }

    /// Like [`BlockEnd::any`], for a likely block. `known`: whether a compressed block before the
    /// hole has the type.
    fn likely(self, bytes: &[u8], known: &[bool]) -> Option<BlockEnd> {
        match bytes[self.at] {
            0 => {
                let entries_end = Some(Block::entries_end_before(&bytes[..self.at])?);
                Some(BlockEnd { entries_end, ..self })
            }
            compression => known[usize::from(compression)].then_some(self),
        }
    }

    /// Whether a block that ends here may start at `start`. The first entry of a block shares no
    /// bytes with a key before it, so its first byte is 0.
    fn may_start_at(&self, start: usize, bytes: &[u8]) -> bool {
        self.entries_end.is_none_or(|end| start == end || (start < end && bytes[start] == 0))
    }
}

struct Search<'a> {
    footer: &'a Footer,
    window: Window<'a>,
    /// The bytes of the largest block found so far.
    largest: usize,
    /// The compression types of the blocks found so far.
    known: [bool; MAX_COMPRESSION_TYPE as usize + 1],
    /// How many bytes may still be hashed in holes.
    allowance: u64,
}

impl<'a> Search<'a> {
    fn new(file: &'a dyn RandomAccessFile, footer: &'a Footer, end: u64) -> Search<'a> {
        Search {
            footer,
            window: Window { file, end, offset: 0, bytes: Vec::new() },
            largest: MIN_SEARCHED_BYTES / LIKELY_BLOCKS,
            known: [false; MAX_COMPRESSION_TYPE as usize + 1],
            allowance: HOLES_BYTES,
        }
    }

    fn blocks(&mut self) -> Result<Vec<BlockHandle>> {
        let mut blocks = Vec::new();
        let mut offset = 0;
        while offset < self.window.end {
            let next = match self.block_at(offset)? {
                None => self.block_in_hole(offset + 1)?,
                next => next,
            };
            let Some(handle) = next else { break };
            blocks.push(handle);
            self.learn(handle)?;
            offset = handle.end().unwrap_or(self.window.end);
        }
        Ok(blocks)
    }

    /// Takes note of the size and the compression type of a block.
    fn learn(&mut self, handle: BlockHandle) -> Result<()> {
        self.largest = self.largest.max(handle.bytes as usize);
        let compression = self.window.read(handle.offset + handle.bytes, 1)?[0];
        self.known[usize::from(compression)] = true;
        Ok(())
    }

    /// The block at `offset`, or after the padding there.
    fn block_at(&mut self, offset: u64) -> Result<Option<BlockHandle>> {
        let bytes = self.window.read(offset, MAX_BLOCK_BYTES + BLOCK_TRAILER_BYTES)?;
        let starts = Starts { footer: self.footer, bytes, offset };
        let places = || 0..bytes.len().saturating_sub(BLOCK_TRAILER_BYTES - 1);
        let ends = || places().filter_map(|at| BlockEnd::any(bytes, at));
        // One start is little work even if nothing is found, so it is not limited.
        let mut unlimited = u64::MAX;
        Ok(starts.block(0, ends, &mut unlimited))
    }

    /// The first block that starts at `offset` or later in a hole. See the head of this file for
    /// the two passes.
    fn block_in_hole(&mut self, offset: u64) -> Result<Option<BlockHandle>> {
        if offset >= self.window.end {
            return Ok(None);
        }
        let most = (LIKELY_BLOCKS * self.largest).min(MAX_BLOCK_BYTES);
        let wanted = MAX_HOLE_BYTES + most + BLOCK_TRAILER_BYTES;
        let bytes = self.window.read(offset, wanted)?;
        let starts = Starts { footer: self.footer, bytes, offset };
        let places = 0..bytes.len().saturating_sub(BLOCK_TRAILER_BYTES - 1);
        let any: Vec<_> = places.filter_map(|at| BlockEnd::any(bytes, at)).collect();
        let likely =
            any.iter().filter_map(|end| end.likely(bytes, &self.known)).collect::<Vec<_>>();

        let count = bytes.len().min(MAX_HOLE_BYTES + 1);
        let found = starts.first_block(count, most, &likely, &mut self.allowance);
        let before = found.map_or(count, |handle| count.min((handle.offset - offset) as usize));
        let mut share = self.allowance / 2;
        self.allowance -= share;
        let other = starts.first_block(before, most, &any, &mut share);
        self.allowance += share;
        Ok(other.or(found))
    }
}

/// Bytes of the file in which blocks may start anywhere.
struct Starts<'a> {
    footer: &'a Footer,
    bytes: &'a [u8],
    /// Of the first byte in the file.
    offset: u64,
}

impl Starts<'_> {
    /// The block with the first of the first `count` starts. It has at most `most` bytes, and ends
    /// at one of `ends`. `None` also if the hashed bytes exceed the allowance.
    fn first_block(
        &self,
        count: usize,
        most: usize,
        ends: &[BlockEnd],
        allowance: &mut u64,
    ) -> Option<BlockHandle> {
        for start in 0..count {
            if *allowance == 0 {
                break;
            }
            let near = || {
                let from = ends.partition_point(|end| end.at < start + MIN_BLOCK_BYTES);
                ends[from..].iter().copied().take_while(|end| end.at <= start + most)
            };
            let found = self.block(start, near, allowance);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The block at `start`, or after the padding there.
    fn block<I: Iterator<Item = BlockEnd>>(
        &self,
        start: usize,
        ends: impl Fn() -> I,
        allowance: &mut u64,
    ) -> Option<BlockHandle> {
        let padding = padding_to_page(self.offset + start as u64);
        let is_padded = !padding.is_empty() && self.bytes[start..].starts_with(padding);
        let behind_padding = match is_padded {
            true => self.shortest(start + padding.len(), ends(), allowance),
            false => None,
        };
        behind_padding.or_else(|| self.shortest(start, ends(), allowance))
    }

    /// The shortest block from `start` on whose checksum is right.
    fn shortest(
        &self,
        start: usize,
        ends: impl Iterator<Item = BlockEnd>,
        allowance: &mut u64,
    ) -> Option<BlockHandle> {
        let offset = self.offset + start as u64;
        let ends = ends
            .filter(|end| end.at >= start + MIN_BLOCK_BYTES && end.may_start_at(start, self.bytes));
        // The state of the checksum, which most starts do not need, and how far it has come.
        let mut running = None;
        let mut hashed = start;
        for end in ends {
            let cost = (end.at - hashed + FINISH_BYTES) as u64;
            if *allowance < cost {
                *allowance = 0;
                return None;
            }
            *allowance -= cost;
            let running = running.get_or_insert_with(|| RunningChecksum::new(self.footer.checksum));
            running.write(&self.bytes[hashed..end.at]);
            hashed = end.at;
            let [compression, stored @ ..] = *self.bytes[end.at..].first_chunk::<5>()?;
            let computed = self.footer.checksum_of_running(running, compression, offset);
            if computed == u32::from_le_bytes(stored) {
                return Some(BlockHandle { offset, bytes: (end.at - start) as u64 });
            }
        }
        None
    }
}

#[cold]
fn no_checksums(file: &Path) -> Error {
    Damage::new(0, "an index, as the blocks have no checksums to find them by", "none")
        .in_file(file, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;
    use crate::fs::{Fs, MemFs};
    use crate::table::{Compression, Dialect, TableBuilder, TableOptions};

    /// `bytes` bytes that cannot be compressed.
    fn noise(bytes: usize, seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    /// `bytes` bytes that can be compressed to less than half.
    fn text(bytes: usize, seed: u64) -> Vec<u8> {
        noise(bytes / 4, seed).escape_ascii().collect::<Vec<_>>()[..bytes / 2].repeat(2)
    }

    /// A table with each value in a data block of its own, and its data blocks.
    fn table(values: &[Vec<u8>], compression: Compression) -> (Vec<u8>, Vec<BlockHandle>) {
        let (fs, path) = (MemFs::new(), Path::new("t.sst"));
        let options = TableOptions { block_bytes: 1, compression, ..TableOptions::default() };
        let dialect = Dialect::Database { file_number: 7 };
        let mut builder = TableBuilder::new(fs.create(path).unwrap(), options, dialect).unwrap();
        for (i, value) in values.iter().enumerate() {
            let key = internal_key(format!("{i:04}").as_bytes(), 1, 1);
            builder.add(&key, value).unwrap();
        }
        builder.finish().unwrap();
        let bytes = fs.read(path).unwrap();
        let mut blocks = find_blocks(&*file(&bytes), &FOOTER, bytes.len() as u64).unwrap();
        blocks.truncate(values.len());
        (bytes, blocks)
    }

    fn file(bytes: &[u8]) -> Arc<dyn RandomAccessFile> {
        let (fs, path) = (MemFs::new(), Path::new("copy.sst"));
        let mut file = fs.create(path).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
        fs.open(path).unwrap()
    }

    const FOOTER: Footer = Footer {
        format_version: WRITTEN_VERSION,
        checksum: ChecksumKind::Xxh3,
        checksum_context_base: 0,
        metaindex: BlockHandle { offset: 0, bytes: 0 },
        index: None,
    };

    /// The data blocks that the search finds if `lost` is damaged and `allowance` bytes may be
    /// hashed in holes, and how many of these are left.
    fn search(
        bytes: &[u8],
        blocks: &[BlockHandle],
        lost: usize,
        allowance: u64,
    ) -> (Vec<BlockHandle>, u64) {
        let mut damaged = bytes.to_vec();
        damaged[(blocks[lost].offset + blocks[lost].bytes / 2) as usize] ^= 1;
        let file = file(&damaged);
        let end = blocks.last().unwrap().end().unwrap();
        let mut search = Search { allowance, ..Search::new(&*file, &FOOTER, end) };
        (search.blocks().unwrap(), search.allowance)
    }

    fn all_but(blocks: &[BlockHandle], lost: usize) -> Vec<BlockHandle> {
        [&blocks[..lost], &blocks[lost + 1..]].concat()
    }

    /// Two wrong bits, one in the index and one in a data block, once kept a repair busy for hours
    /// if values were large: it hashed the bytes of every possible block anew. Now it hashes
    /// little to find a block whose tail is sound.
    #[test]
    #[ignore = "takes seconds; .ci/run runs it"]
    fn blocks_of_large_values_are_searched_by_their_tails() {
        let allowance = 512 << 20;
        for (value_bytes, is_longest) in [(100_000, false), (250_000, true)] {
            let values: Vec<_> = (0..10).map(|i| noise(value_bytes, i)).collect();
            let (bytes, blocks) = table(&values, Compression::None);
            assert_eq!(blocks.len(), 10);
            let (found, left) = search(&bytes, &blocks, 4, allowance);
            // A hole of 250 KB is longer than the search goes.
            let expected = if is_longest { blocks[..4].to_vec() } else { all_but(&blocks, 4) };
            assert_eq!(found, expected, "{value_bytes}");
            // The second pass takes half of what the first one leaves. The first one hashes some
            // 100 KB from each byte on that is 0, which is less than half of all.
            assert!(left > allowance / 4, "{value_bytes}: {left}");
        }
    }

    #[test]
    fn the_work_in_holes_is_limited_and_what_was_found_before_is_kept() {
        let values: Vec<_> = (0..10).map(|i| text(4000, i)).collect();
        let (bytes, blocks) = table(&values, Compression::Lz4);
        assert!(blocks.iter().all(|block| (1000..3000).contains(&block.bytes)), "{blocks:?}");
        let (found, left) = search(&bytes, &blocks, 4, 1 << 30);
        assert_eq!(found, all_but(&blocks, 4));
        assert!(left > 1 << 28, "{left}");
        let (found, left) = search(&bytes, &blocks, 4, 1 << 20);
        assert_eq!(found, blocks[..4]);
        assert_eq!(left, 0);
    }

    /// The blocks in front of the hole say nothing about the compression type of the next one.
    #[test]
    fn a_block_of_a_new_compression_type_is_found_behind_a_hole() {
        let values = [noise(3000, 1), noise(3000, 2), text(3000, 3), noise(3000, 4)];
        let (bytes, blocks) = table(&values, Compression::Lz4);
        let types = blocks.iter().map(|it| bytes[(it.offset + it.bytes) as usize]);
        assert_eq!(types.collect::<Vec<_>>(), [0, 0, 4, 0]);
        let (found, _) = search(&bytes, &blocks, 1, HOLES_BYTES);
        assert_eq!(found, all_but(&blocks, 1));
    }
}

//! Finds the blocks of a table whose index or footer is lost, by their checksums.
//!
//! Blocks follow each other from the first byte of the file on. A block starts where the previous
//! block ended, or after the padding that follows that block. It ends at the first length whose
//! checksum is right. A block that cannot be read has no known end, so any byte after its start may
//! be the start of the next block: there is a *hole*. In a hole the search tests only likely block
//! sizes ([`LIKELY_BLOCKS`]), and only a limited number of bytes ([`MAX_HOLE_BYTES`]).

use std::path::Path;
use std::sync::Arc;

use crate::error::{Damage, Error, Result};
use crate::fs::RandomAccessFile;
use crate::stats::Counters;
use crate::table::format::checksum::ChecksumKind;
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
const MAX_HOLE_BYTES: u64 = 128 << 10;

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
    let mut blocks = Vec::new();
    let (mut offset, mut largest) = (0u64, MIN_SEARCHED_BYTES / LIKELY_BLOCKS);
    // Where the current hole starts.
    let mut hole: Option<u64> = None;
    let mut window: (u64, Vec<u8>) = (0, Vec::new());
    while offset < end {
        let most = match hole {
            None => MAX_BLOCK_BYTES,
            Some(_) => (LIKELY_BLOCKS * largest).min(MAX_BLOCK_BYTES),
        };
        let wanted = ((most + BLOCK_TRAILER_BYTES) as u64).min(end - offset);
        if offset < window.0 || offset + wanted > window.0 + window.1.len() as u64 {
            let bytes = (4 * MAX_BLOCK_BYTES as u64).min(end - offset);
            window = (offset, vec![0; bytes as usize]);
            file.read_exact_at(offset, &mut window.1)?;
        }
        let start = (offset - window.0) as usize;
        let bytes = &window.1[start..start + wanted as usize];
        let padding = padding_to_page(offset);
        let behind_padding = match bytes.strip_prefix(padding) {
            Some(bytes) if !padding.is_empty() => {
                block_at(bytes, offset + padding.len() as u64, footer)
            }
            _ => None,
        };
        match behind_padding.or_else(|| block_at(bytes, offset, footer)) {
            Some(handle) => {
                largest = largest.max(handle.bytes as usize);
                blocks.push(handle);
                hole = None;
                offset = handle.end().unwrap_or(end);
            }
            None => {
                if offset - *hole.get_or_insert(offset) > MAX_HOLE_BYTES {
                    break;
                }
                offset += 1;
            }
        }
    }
    Ok(blocks)
}

/// The compression type of ZSTD, which is the largest of RocksDB's own compression types.
const MAX_COMPRESSION_TYPE: u8 = 7;

/// The block that starts with these bytes: the shortest one whose checksum is right.
fn block_at(bytes: &[u8], offset: u64, footer: &Footer) -> Option<BlockHandle> {
    let most = bytes.len().checked_sub(BLOCK_TRAILER_BYTES)?;
    // The shortest block has 8 bytes: one restart point, and the number of restart points.
    (8..=most).find_map(|length| {
        // For most lengths no checksum is computed, because the byte after the block, which would
        // be its compression type, is none of RocksDB's types.
        if bytes[length] > MAX_COMPRESSION_TYPE {
            return None;
        }
        let stored = bytes[length + 1..].first_chunk().copied().map(u32::from_le_bytes)?;
        let computed = footer.block_checksum(&bytes[..=length], offset);
        (stored == computed).then_some(BlockHandle { offset, bytes: length as u64 })
    })
}

#[cold]
fn no_checksums(file: &Path) -> Error {
    Damage::new(0, "an index, as the blocks have no checksums to find them by", "none")
        .in_file(file, 0)
}

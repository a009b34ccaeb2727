//! Pieces of an index that is stored as one block. Each piece can be read without the others, which
//! [`crate::table::pieces`] does if the cache is too small for the whole index.
//!
//! ```text
//! stored   | entry | entry | … | entry | … | entry | restart points | trailer |
//! pieces   |  piece 0, 4 KiB   |  piece 1  | …     |
//! top      for each piece its last separator, and where in the file the piece is
//! ```
//!
//! An index can be cut if each entry is a restart point, as in this crate's tables and in RocksDB's
//! with the default `index_block_restart_interval`. In memory a piece is a block of its own: the
//! entries as they are stored, followed by their restart points.

use crc32c::crc32c;

use super::{Index, IndexParser, StoredEntries, StoredEntry, decode_whole, usual_entry};
use crate::encoding::bytes::{Prefix, common_prefix_len};
use crate::error::Damage;
use crate::filter::PIECE_BYTES;
use crate::memory::LineBuf;
use crate::table::block::Block;
use crate::table::block::bytes::BlockBytes;
use crate::table::format::footer::BlockHandle;
use crate::table::format::properties::IndexForm;

/// A whole index or filter with fewer stored bytes is never loaded in pieces (`table/pieces`).
pub(in crate::table) const MIN_BYTES: u64 = 3 * PIECE_BYTES as u64;

/// Most index entries take at least this many bytes.
const USUAL_ENTRY_BYTES: usize = 12;

/// Bytes that a restart point takes. The count of the restart points, which is stored after the
/// last of them, takes as many.
const RESTART_BYTES: usize = 4;

/// Cuts a stored index, which is at `handle`, into pieces of up to `piece_bytes` bytes. A piece may
/// be larger, because an entry or a row of entries with equal separators is not cut. Returns the
/// top, which lists the pieces, and the checksum of each piece. `None` if the index cannot be cut
/// or is damaged.
pub(in crate::table) fn top_of_pieces(
    block: Block,
    handle: BlockHandle,
    form: IndexForm,
    limit: u64,
    piece_bytes: usize,
) -> Option<(Index, Box<[u32]>)> {
    let stored = StoredEntries { block, form };
    stored.check(limit, false)?;
    let mut top = IndexParser::new(form, limit);
    let (mut start, mut sums) = (0, Vec::new());
    let mut end_piece = |last: &StoredEntry<'_>| {
        let separator = &stored.block.entries()[last.key.start..last.key.end];
        let bytes = (last.end - start) as u64;
        let piece = BlockHandle { offset: handle.offset + start as u64, bytes };
        sums.push(crc32c(&stored.block.entries()[start..last.end]));
        start = last.end;
        top.push(separator, piece).ok()
    };
    let mut piece_start = 0;
    for next in 1..stored.block.restart_count() {
        let (last, next) = (stored.entry(next - 1), stored.entry(next));
        // Equal separators stay in one piece, because a search of the top for a separator leads
        // only to the first piece that ends with it.
        let differs =
            (last.key.user_key, last.key.trailer) != (next.key.user_key, next.key.trailer);
        if differs && next.end - piece_start > piece_bytes {
            end_piece(&last)?;
            piece_start = last.end;
        }
    }
    end_piece(&stored.entry(stored.block.restart_count() - 1))?;
    Some((top.finish(LineBuf::zeroed), sums.into()))
}

/// Where each entry starts of those in the first `bytes` bytes of `piece`. An error if one is
/// malformed.
pub(super) fn starts(
    piece: &[u8],
    bytes: usize,
    form: IndexForm,
    limit: u64,
) -> Result<Vec<[u8; 4]>, Damage> {
    let mut starts = Vec::with_capacity(bytes / USUAL_ENTRY_BYTES);
    let mut at = match form.user_keys && form.delta_values {
        true => take_usual(piece, bytes, &mut starts),
        false => 0,
    };
    while at < bytes {
        let entry = decode_whole(&piece[..bytes], form, at);
        let Some(entry) = entry.filter(|entry| entry.handle.fits(limit)) else {
            return Err(Damage::new(at, "an index entry with a whole key", "none"));
        };
        starts.push((at as u32).to_le_bytes());
        at = entry.end;
    }
    Ok(starts)
}

/// Adds the starts of the entries before the first one that is not a [`usual_entry`], or before the
/// last one. Returns where this entry starts. A lookup that reads a piece waits for this loop, which
/// takes fewer than half of the instructions of that of [`starts`].
///
/// Offsets are not compared with the limit: they were found to ascend when the pieces were made, and
/// [`starts`] checks the last one.
#[inline(never)]
fn take_usual(piece: &[u8], bytes: usize, starts: &mut Vec<[u8; 4]>) -> usize {
    let mut at = 0;
    while let Some(entry) = usual_entry(piece, at)
        && entry.end < bytes
        && entry.handle.bytes < u64::from(u32::MAX)
    {
        starts.push((at as u32).to_le_bytes());
        at = entry.end;
    }
    at
}

impl Index {
    /// Makes an index of a piece: of the first `bytes` bytes of `piece`, whose checksum is right.
    /// The order of the entries was checked when the pieces were made. The restart points are
    /// written after the entries. If `piece` is too small for them, `buffer` makes the memory for a
    /// copy with room for them. The index has no heads (8 bytes of each separator, which speed up a
    /// search): its stored entries are searched.
    pub(in crate::table) fn of_piece(
        mut piece: LineBuf,
        bytes: usize,
        form: IndexForm,
        limit: u64,
        buffer: impl FnOnce(usize) -> LineBuf,
    ) -> Result<Index, Damage> {
        let starts = starts(&piece, bytes, form, limit)?;
        let block_bytes = bytes + RESTART_BYTES * (starts.len() + 1);
        if piece.len() < block_bytes {
            let mut larger = buffer(block_bytes);
            larger[..bytes].copy_from_slice(&piece[..bytes]);
            piece = larger;
        }
        let (restarts, count) =
            piece[bytes..block_bytes].split_at_mut(RESTART_BYTES * starts.len());
        restarts.copy_from_slice(starts.as_flattened());
        count.copy_from_slice(&(starts.len() as u32).to_le_bytes());
        let block = Block::new(BlockBytes::new(piece, block_bytes))?;
        let stored = StoredEntries { block, form };
        let last = stored.block.restart_count() - 1;
        let (first, last) = (stored.key(0).user_key, stored.key(last).user_key);
        let common_prefix = Prefix::new(&first[..common_prefix_len(first, last)]);
        Ok(Index::of_stored(stored, common_prefix, None))
    }
}

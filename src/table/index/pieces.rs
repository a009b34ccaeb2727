//! Pieces of an index that is stored as one block. Each piece can be read without the others.
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

use super::{Index, IndexParser, StoredEntries, StoredEntry, decode_whole};
use crate::encoding::key::TRAILER_BYTES;
use crate::error::Damage;
use crate::filter::PIECE_BYTES;
use crate::memory::LineBuf;
use crate::table::block::Block;
use crate::table::block::bytes::BlockBytes;
use crate::table::format::footer::BlockHandle;
use crate::table::format::properties::IndexForm;

/// A whole index or filter with fewer stored bytes is never loaded in pieces (`table/pieces`).
pub(in crate::table) const MIN_BYTES: u64 = 3 * PIECE_BYTES as u64;

/// Bytes of one restart point, and of the number of restart points after them.
const RESTART_BYTES: usize = 4;

/// Cuts a stored index into pieces of up to `piece_bytes` bytes; a single entry, or a row of
/// entries with equal separators, may be larger. Returns the top of the pieces, and the checksum of
/// each piece. `handle` says where the index is. `None` if the index cannot be cut or is damaged.
pub(in crate::table) fn top_of_pieces(
    block: Block,
    handle: BlockHandle,
    form: IndexForm,
    limit: u64,
    piece_bytes: usize,
) -> Option<(Index, Box<[u32]>)> {
    let stored = StoredEntries { block, form };
    stored.check(limit)?;
    let mut top = IndexParser::new(form, limit);
    let (mut start, mut sums) = (0, Vec::new());
    let mut end_piece = |last: &StoredEntry<'_>| {
        let trailer_bytes = if form.user_keys { 0 } else { TRAILER_BYTES };
        let separator_end = last.key_start + last.user_key.len() + trailer_bytes;
        let separator = &stored.block.entries()[last.key_start..separator_end];
        let bytes = (last.end - start) as u64;
        let piece = BlockHandle { offset: handle.offset + start as u64, bytes };
        sums.push(crc32c(&stored.block.entries()[start..last.end]));
        start = last.end;
        top.push(separator, piece).ok()
    };
    let mut piece_start = 0;
    for next in 1..stored.block.restart_count() {
        let (last, next) = (stored.entry(next - 1), stored.entry(next));
        // Equal separators stay in one piece, because a search of the top finds only the first one.
        let differs = (last.user_key, last.trailer) != (next.user_key, next.trailer);
        if differs && next.end - piece_start > piece_bytes {
            end_piece(&last)?;
            piece_start = last.end;
        }
    }
    end_piece(&stored.entry(stored.block.restart_count() - 1))?;
    Some((top.finish(LineBuf::zeroed), sums.into()))
}

impl Index {
    /// Parses the first `bytes` bytes of `piece`. `buffer` makes the memory of the heads and, if
    /// `piece` has no room for the restart points, a larger block.
    pub(in crate::table) fn of_piece(
        mut piece: LineBuf,
        bytes: usize,
        form: IndexForm,
        limit: u64,
        buffer: impl Fn(usize) -> LineBuf,
    ) -> Result<Index, Damage> {
        let (mut starts, mut at) = (Vec::new(), 0);
        while at < bytes {
            let Some(entry) = decode_whole(&piece[..bytes], form, at) else {
                return Err(Damage::new(at, "an index entry with a whole key", "none"));
            };
            starts.push(at as u32);
            at = entry.end;
        }
        let block_bytes = bytes + RESTART_BYTES * (starts.len() + 1);
        if piece.len() < block_bytes {
            let mut larger = buffer(block_bytes);
            larger[..bytes].copy_from_slice(&piece[..bytes]);
            piece = larger;
        }
        let count = starts.len() as u32;
        let restarts = piece[bytes..block_bytes].chunks_exact_mut(RESTART_BYTES);
        for (place, number) in restarts.zip(starts.into_iter().chain([count])) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let block = Block::new(BlockBytes::new(piece, block_bytes))?;
        Index::of_block(block, form, limit, buffer)
    }
}

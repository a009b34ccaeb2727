//! Pieces of filters and indexes that are stored whole, for a cache that would not keep them whole.
//!
//! ```text
//! file      … | whole filter, one block | whole index, one block | …
//! once      each is read and checked; a checksum for each piece, and the index's top, are kept
//! memory    Table ─┬─ filter pieces [slot | slot | …] ─► TableFilter   each piece is loaded and
//!                  └─ index pieces  [slot | slot | …] ─► TableIndex    evicted separately
//! ```
//!
//! In a large tree that Maypole writes, filters and indexes are in parts ([`super::parts`]). Tables
//! of RocksDB, and tables that Maypole wrote while the tree was smaller or the cache larger, have
//! whole filters and indexes. Once the filters and indexes of all tables would fill most of the
//! cache, a lookup loads only the piece of about 4 KiB that it needs of a whole filter or index.
//! The *top* of an index in pieces is an index that leads to the pieces. For lookups, a whole
//! filter or index counts as one stored part, with the number 0, and its pieces have the numbers
//! from 1 on.
//!
//! Some filters and indexes have no pieces and are read whole: small ones, an index that is
//! compressed or whose entries share prefixes, and a filter in which a key's bits are in several
//! cache lines (`filter::pieces`).
//!
//! Invariants: the top and the checksums that the table keeps were made from a block whose own
//! checksum was right, and they do not change. If a piece is read again and does not have the
//! checksum that was kept of it, it is damaged: a lookup in a piece of the index fails, and a piece
//! of the filter answers "maybe" to its keys.

pub(super) mod kept;

use std::ops::Range;

use self::kept::{IndexPieces, WholeFilterPieces};
use crate::cache::BlockKind;
use crate::cache::slots::{Lease, Resident, Slots};
use crate::error::{Damage, Error, Result};
use crate::filter::{FilterReader, PIECE_BYTES};
use crate::memory::LineBuf;
use crate::sync::{Guard, pin};

use super::block::Block;
use super::credit::Credit;
use super::filter::block::{StoredFilter, TableFilter};
use super::format::file::{Buffer, StoredBlock};
use super::format::footer::BlockHandle;
use super::index::Index;
use super::index::pieces::{MIN_BYTES, top_of_pieces};
use super::lookup::key::LookupKey;
use super::table::Table;
use super::table_index::TableIndex;

/// Checks that a piece still has the checksum `sum` that it had when the whole block was checked.
fn check_piece(sum: u32, piece: &[u8]) -> Result<(), Damage> {
    let found = crc32c::crc32c(piece);
    if found == sum {
        return Ok(());
    }
    let expected = format_args!("a piece with the CRC-32C {sum:#010x}");
    Err(Damage::new(0, expected, format_args!("{found:#010x}")))
}

impl Table {
    /// Whether the whole filter or index at `handle` is to be loaded in pieces.
    fn wants_pieces(&self, handle: BlockHandle) -> bool {
        !self.pins_metadata && handle.bytes >= MIN_BYTES && self.cache.metadata_fills_it()
    }

    /// The number of piece `piece` of the index. Pieces are numbered after the stored parts.
    fn index_number(&self, piece: usize) -> usize {
        self.index.len() + piece
    }

    /// The slots of the stored parts of the index, or of its pieces, and the place of `part` in
    /// them.
    #[inline]
    pub(super) fn index_slot(&self, part: usize) -> (&Slots<TableIndex>, usize) {
        match (part.checked_sub(self.index.len()), self.pieces.index()) {
            (Some(piece), Some(pieces)) => (&pieces.slots, piece),
            _ => (&self.index, part),
        }
    }

    /// The slots of the stored parts of the filter, or of its pieces, and the place of `part` in
    /// them.
    pub(super) fn filter_slot(&self, part: usize) -> (&Slots<TableFilter>, usize) {
        match (part.checked_sub(self.filter.len()), self.pieces.filter()) {
            (Some(piece), Some(pieces)) => (&pieces.slots, piece),
            _ => (&self.filter, part),
        }
    }

    /// The numbers of all parts if `part` is a part, or of all pieces if it is a piece.
    pub(super) fn index_numbers(&self, part: usize) -> Range<usize> {
        let (slots, place) = self.index_slot(part);
        part - place..part - place + slots.len()
    }

    /// The number of the piece of the filter that `filter_key` belongs to, and the piece's credit,
    /// which decides whether a lookup reads the piece ([`super::lookup::admission`]). `None`: the
    /// filter has no pieces yet, or cannot have any.
    #[inline]
    pub(super) fn filter_piece_account(
        &self,
        filter_key: &LookupKey<'_>,
    ) -> Option<(usize, &Credit)> {
        let pieces = self.pieces.filter()?;
        let piece = pieces.piece_of(filter_key);
        Some((self.filter.len() + piece, &pieces.credits[piece]))
    }

    /// `false` if it is known that the filter cannot be cut into pieces.
    pub(super) fn may_have_filter_pieces(&self) -> bool {
        self.has_family_with_pieces && self.pieces.filter.get().is_none_or(Option::is_some)
    }

    /// The number of the piece that holds `filter_key`, and how many pieces there are. `None`:
    /// `filter` is no piece.
    pub(super) fn filter_piece(
        &self,
        filter: &FilterReader,
        filter_key: &LookupKey<'_>,
    ) -> Option<(usize, usize)> {
        let pieces = self.pieces.filter().filter(|_| filter.is_piece())?;
        Some((pieces.piece_of(filter_key), pieces.slots.len()))
    }

    /// The piece of the index that leads to a key, if that piece is in memory.
    #[cold]
    #[inline(never)]
    pub(super) fn index_piece_with_key<'g>(
        &'g self,
        key: &LookupKey<'_>,
        guard: &'g Guard,
    ) -> Option<&'g TableIndex> {
        let pieces = self.pieces.index()?;
        let known = key.index_part.and_then(|part| (part as usize).checked_sub(self.index.len()));
        let piece = known.unwrap_or_else(|| pieces.piece_of(key.user_key, key.trailer()));
        let index = pieces.slots.borrow(piece, guard)?;
        Some(index)
    }

    /// The piece of the filter for `filter_key`, if it is in memory.
    #[cold]
    #[inline(never)]
    pub(super) fn filter_piece_with_key<'g>(
        &'g self,
        filter_key: &LookupKey<'_>,
        guard: &'g Guard,
    ) -> Option<&'g Resident<TableFilter>> {
        let pieces = self.pieces.filter()?;
        pieces.slots.peek(pieces.piece_of(filter_key), guard)
    }

    /// The number of the part of the index to read for a key. If the index is whole and the cache
    /// would not keep it, this is the number of a piece. If no part or piece leads to the key,
    /// returns the last one. Hold no guard, because making pieces reads the file.
    pub fn index_part_to_read(&self, user_key: &[u8], trailer: u64) -> Result<usize> {
        if self.index_top.is_none() && self.index.get(0, &pin()).is_none() {
            self.index_pieces()?;
        }
        Ok(self.index_part_in_memory(user_key, trailer))
    }

    /// The part of the index to read for a lookup that needs `part`, which is not in memory.
    /// Returns a piece if `part` is a whole index that the cache would not keep. Hold no guard.
    pub fn index_part_in_place_of(&self, part: usize, key: &LookupKey<'_>) -> Result<usize> {
        match part {
            // If the index is in parts, this finds part 0 again.
            0 => self.index_part_to_read(key.user_key, key.trailer()),
            _ => Ok(part),
        }
    }

    /// The number of the part or piece of the index that leads to a key. If none does, returns the
    /// last one. Reads nothing: for a whole index that is in memory or has no pieces yet, the
    /// result is 0.
    pub fn index_part_in_memory(&self, user_key: &[u8], trailer: u64) -> usize {
        if self.index_top.is_some() {
            return self.index_part_of(user_key, trailer).min(self.index_parts() - 1);
        }
        match self.pieces.index() {
            Some(pieces) if self.index.get(0, &pin()).is_none() => {
                self.index_number(pieces.piece_of(user_key, trailer))
            }
            _ => 0,
        }
    }

    /// The number of the part or piece of the filter to read for `filter_key`. `part` is the stored
    /// part with the key. Hold no guard, because making pieces reads the file.
    pub fn filter_part_to_read(&self, part: usize, filter_key: &LookupKey<'_>) -> Result<usize> {
        if self.filter_top.is_some() || self.filter.get(0, &pin()).is_some() {
            return Ok(part);
        }
        let pieces = self.filter_pieces()?;
        Ok(pieces.map_or(part, |pieces| self.filter.len() + pieces.piece_of(filter_key)))
    }

    /// The numbers of the parts of the index, or of its pieces, in the order of their keys. Hold no
    /// guard.
    pub fn index_ends(&self) -> Result<Range<usize>> {
        let first = self.index_part_to_read(&[], u64::MAX)?;
        Ok(self.index_numbers(first))
    }

    /// The pieces of the index. Makes them if the index is whole and the cache would not keep it.
    /// `None`: the index has no pieces.
    fn index_pieces(&self) -> Result<Option<&IndexPieces>> {
        if self.index_top.is_some() || !self.wants_pieces(self.index_handle) {
            return Ok(self.pieces.index());
        }
        self.pieces.get_or_make(&self.pieces.index, || self.make_index_pieces())
    }

    /// The pieces of the filter. Makes them if the filter is whole and the cache would not keep it.
    /// `None`: the filter has no pieces.
    fn filter_pieces(&self) -> Result<Option<&WholeFilterPieces>> {
        match self.any_filter() {
            Some(stored @ StoredFilter::Full(handle, _)) if self.wants_pieces(handle) => {
                self.pieces.get_or_make(&self.pieces.filter, || self.make_filter_pieces(stored))
            }
            _ => Ok(self.pieces.filter()),
        }
    }

    /// Reads and checks the whole index, and cuts it into pieces. `None`: it cannot be cut, or is
    /// damaged.
    #[cold]
    fn make_index_pieces(&self) -> Result<Option<IndexPieces>> {
        let Some(stored) = self.read_uncompressed(self.index_handle)? else { return Ok(None) };
        let (form, limit) = (self.index_form(), self.block_file().limit());
        let handle = stored.handle();
        let Ok(block) = Block::new(self.block_file().uncompress_metadata(stored)?) else {
            return Ok(None);
        };
        let Some((top, sums)) = top_of_pieces(block, handle, form, limit, PIECE_BYTES) else {
            return Ok(None);
        };
        let slots = Slots::new(&self.cache, top.len(), BlockKind::Index, false);
        let heap_bytes =
            size_of::<IndexPieces>() + top.heap_bytes() + size_of_val(&*sums) + slots.heap_bytes();
        let _reserved = self.cache.reserve(heap_bytes);
        Ok(Some(IndexPieces { top, sums, slots, _reserved }))
    }

    /// Reads and checks the whole filter, and cuts it into pieces. `None`: it cannot be cut, or is
    /// damaged.
    #[cold]
    fn make_filter_pieces(&self, filter: StoredFilter) -> Result<Option<WholeFilterPieces>> {
        let Some(stored) = self.read_uncompressed(filter.handle())? else { return Ok(None) };
        let bytes = self.block_file().uncompress_metadata(stored)?.into_exact(LineBuf::zeroed);
        let whole = FilterReader::open(bytes, filter.encoding());
        let Some(geometry) = whole.pieces() else { return Ok(None) };
        let pieces = whole.bytes()[..geometry.bytes()].chunks(PIECE_BYTES);
        let sums: Box<[u32]> = pieces.map(crc32c::crc32c).collect();
        let slots = Slots::new(&self.cache, sums.len(), BlockKind::Filter, false);
        let credits = Credit::of(sums.len());
        let heap_bytes = size_of::<WholeFilterPieces>()
            + size_of_val(&*sums)
            + slots.heap_bytes()
            + size_of_val(&*credits);
        let _reserved = self.cache.reserve(heap_bytes);
        let handle = filter.handle();
        Ok(Some(WholeFilterPieces { geometry, handle, sums, slots, credits, _reserved }))
    }

    /// Reads and checks a block of the metadata. `None`: the block is compressed or damaged.
    fn read_uncompressed(&self, handle: BlockHandle) -> Result<Option<StoredBlock>> {
        let file = self.block_file();
        let stored = file.read_stored(handle, LineBuf::zeroed)?;
        match file.check(&stored) {
            Err(Error::Corruption { .. }) => Ok(None),
            checked => checked.map(|()| (stored.compression_type() == 0).then_some(stored)),
        }
    }

    pub(super) fn index_piece_handle(&self, part: usize) -> Option<BlockHandle> {
        let piece = part.checked_sub(self.index.len())?;
        Some(self.pieces.index()?.top.handle(piece))
    }

    pub(super) fn filter_piece_handle(&self, part: usize) -> Option<BlockHandle> {
        let piece = part.checked_sub(self.filter.len())?;
        Some(self.pieces.filter()?.handle(piece))
    }

    /// Reads a piece of the index without using the cache. `fetch` reads the piece and the five
    /// bytes after it, as if the piece were a block with a trailer.
    pub(super) fn read_index_piece(
        &self,
        pieces: &IndexPieces,
        piece: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
        buffer: impl Buffer,
    ) -> Result<Index> {
        let (file, handle) = (self.block_file(), pieces.top.handle(piece));
        let stored = fetch(handle)?;
        let parse = || {
            check_piece(pieces.sums[piece], stored.payload())?;
            let (bytes, form) = (handle.bytes as usize, self.index_form());
            Index::of_piece(stored.into_buffer(), bytes, form, file.limit(), buffer)
        };
        parse().map_err(|damage| file.damaged(damage, handle))
    }

    /// Reads a piece of the filter, as [`Self::read_index_piece`] does of the index.
    pub(super) fn read_filter_piece(
        &self,
        pieces: &WholeFilterPieces,
        piece: usize,
        fetch: impl FnOnce(BlockHandle) -> Result<StoredBlock>,
        buffer: impl Buffer,
    ) -> Result<TableFilter> {
        let handle = pieces.handle(piece);
        let stored = fetch(handle)?;
        check_piece(pieces.sums[piece], stored.payload())
            .map_err(|damage| self.block_file().damaged(damage, handle))?;
        let bytes = stored.into_payload().into_exact(buffer);
        Ok(TableFilter::of_piece(pieces.geometry.open(piece, bytes)))
    }

    /// The part of the filter to query for `filter_key`: stored part `part`, or a piece if the
    /// cache would not keep the whole filter. Hold no guard.
    pub(super) fn filter_for(
        &self,
        part: usize,
        filter_key: &LookupKey<'_>,
    ) -> Result<Lease<'static, TableFilter>> {
        self.filter_part(self.filter_part_to_read(part, filter_key)?)
    }
}

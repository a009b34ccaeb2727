//! [`Pieces`]: what a table keeps in memory of a whole filter and a whole index that are read in
//! pieces ([`super`]). It says where the pieces are in the file, and what their checksums are. The
//! pieces themselves are in the cache.

use std::sync::OnceLock;

use crate::cache::Reservation;
use crate::cache::slots::Slots;
use crate::error::Result;
use crate::filter::{FilterPieces, PIECE_BYTES};
use crate::sync::{Mutex, lock, rank};
use crate::table::credit::Credit;
use crate::table::filter::block::{TableFilter, hash_of_kind};
use crate::table::format::footer::BlockHandle;
use crate::table::index::Index;
use crate::table::lookup::key::LookupKey;
use crate::table::table_index::TableIndex;

/// See the module. `index` and `filter` are empty until a lookup needs pieces. From then on they
/// describe the pieces, or contain `None` if the index or the filter cannot be cut.
#[derive(Default)]
pub(in crate::table) struct Pieces {
    /// Locked while pieces are made from the file.
    pub making: Mutex<(), rank::PieceMaking>,
    pub index: OnceLock<Option<Box<IndexPieces>>>,
    pub filter: OnceLock<Option<Box<WholeFilterPieces>>>,
}

/// What is kept of a whole index: the top, which is an index that leads to the pieces, the CRC-32C
/// checksum of each piece, and the slots through which the pieces are found in the cache.
pub(in crate::table) struct IndexPieces {
    pub top: Index,
    pub sums: Box<[u32]>,
    pub slots: Slots<TableIndex>,
    pub _reserved: Reservation,
}

/// What is kept of a whole filter: which piece a hash belongs to, and for each piece its CRC-32C
/// checksum, its slot in the cache, and its credit, which decides whether a lookup reads the piece
/// ([`crate::table::lookup::admission`]).
pub(in crate::table) struct WholeFilterPieces {
    pub geometry: FilterPieces,
    /// Where the whole filter is in the file.
    pub handle: BlockHandle,
    pub sums: Box<[u32]>,
    pub slots: Slots<TableFilter>,
    pub credits: Box<[Credit]>,
    pub _reserved: Reservation,
}

impl IndexPieces {
    /// The piece that leads to a key; the last piece if none does.
    pub fn piece_of(&self, user_key: &[u8], trailer: u64) -> usize {
        self.top.find(user_key, trailer).min(self.top.len() - 1)
    }
}

impl WholeFilterPieces {
    pub fn piece_of(&self, filter_key: &LookupKey<'_>) -> usize {
        self.geometry.piece_of(hash_of_kind(self.geometry.hash_kind(), filter_key))
    }

    pub fn handle(&self, piece: usize) -> BlockHandle {
        let start = piece * PIECE_BYTES;
        let bytes = PIECE_BYTES.min(self.geometry.bytes() - start) as u64;
        BlockHandle { offset: self.handle.offset + start as u64, bytes }
    }
}

impl Pieces {
    #[inline]
    pub fn index(&self) -> Option<&IndexPieces> {
        self.index.get()?.as_deref()
    }

    #[inline]
    pub fn filter(&self) -> Option<&WholeFilterPieces> {
        self.filter.get()?.as_deref()
    }

    /// Returns the content of `cell`, made by `make` if the cell is empty. After an error the cell
    /// is still empty.
    pub fn get_or_make<'a, T>(
        &self,
        cell: &'a OnceLock<Option<Box<T>>>,
        make: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<&'a T>> {
        if cell.get().is_none() {
            let _making = lock(&self.making);
            if cell.get().is_none() {
                let made = make()?.map(Box::new);
                cell.get_or_init(|| made);
            }
        }
        Ok(cell.get().and_then(Option::as_deref))
    }
}

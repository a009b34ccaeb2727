//! Pieces of a filter that keeps all bits of a key in one line. A piece can be read and queried
//! without the others, so a lookup need not load the whole filter.
//!
//! ```text
//! stored   | line | line | … | line | … | line | … | trailer |     a key probes one line
//! pieces   |   piece 0, 4 KiB   |   piece 1    | … |
//! kept                                             | geometry |
//! ```
//!
//! Both Bloom families have such lines, and a piece consists of whole lines. In the other families
//! a query reads several places of the filter. In a ribbon these are two neighbouring blocks of
//! slots. In a bumped ribbon a query also reads a threshold, which tells whether the layer keeps
//! the key, and sometimes another layer. In a fuse filter the places are three slots far apart.
//! Filters of those families are read whole.
//!
//! A piece that is queried for a key of another piece says "maybe".

use super::bloom::query::BloomGeometry;
use super::family::{HashKind, KeyHash};
use super::legacy::LegacyGeometry;
use super::lined::{Lined, PIECE_BYTES, Piece};
use super::reader::{AnyGeometry, FilterReader};
use crate::memory::LineBuf;

/// The geometry of a whole filter, which is the part that stays in memory when the pieces are read
/// one by one.
#[derive(Clone, Copy)]
pub struct FilterPieces(Whole);

#[derive(Clone, Copy)]
enum Whole {
    Bloom(BloomGeometry),
    Legacy(LegacyGeometry),
}

/// Evaluates `$value` with `$whole` bound to the geometry of the filter's family.
macro_rules! of_whole {
    ($pieces:expr, $whole:ident => $value:expr) => {
        match &$pieces.0 {
            Whole::Bloom($whole) => $value,
            Whole::Legacy($whole) => $value,
        }
    };
}

impl FilterPieces {
    fn of(geometry: &AnyGeometry) -> Option<FilterPieces> {
        match *geometry {
            AnyGeometry::Bloom(whole) => Some(FilterPieces(Whole::Bloom(whole))),
            AnyGeometry::LegacyBloom(whole) => Some(FilterPieces(Whole::Legacy(whole))),
            _ => None,
        }
    }

    /// The hash that the filter takes.
    pub fn hash_kind(&self) -> HashKind {
        match self.0 {
            Whole::Bloom(_) => HashKind::Hash64,
            Whole::Legacy(_) => HashKind::LegacyHash32,
        }
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> usize {
        of_whole!(self, whole => whole.lines() as usize * whole.line_bytes())
    }

    /// The number of the piece that contains the line of a key.
    pub fn piece_of(&self, hash: KeyHash) -> usize {
        of_whole!(self, whole => whole.line_of(hash) as usize * whole.line_bytes() / PIECE_BYTES)
    }

    /// Opens the piece with number `piece`, whose bytes are `block`.
    pub fn open(&self, piece: usize, block: LineBuf) -> FilterReader {
        let geometry = match self.0 {
            Whole::Bloom(whole) => AnyGeometry::BloomPiece(Piece::new(whole, piece)),
            Whole::Legacy(whole) => AnyGeometry::LegacyPiece(Piece::new(whole, piece)),
        };
        FilterReader::of_piece(geometry, block)
    }
}

impl FilterReader {
    /// The part of the filter that stays in memory when its pieces are read one by one. `None` if
    /// the bits of a key are not all in one line, and for a piece or an untrusted filter.
    #[doc(hidden)]
    pub fn pieces(&self) -> Option<FilterPieces> {
        FilterPieces::of(self.geometry())
    }
}

#[cfg(test)]
mod tests;

//! Pieces of a filter in which a key has one line: they can be read and asked one by one.
//!
//! ```text
//! stored   | line | line | … | line | … | line | … | trailer |     a key probes one line
//! pieces   |   piece 0, 4 KiB   |   piece 1    | … |
//! kept                                             | geometry |
//! ```
//!
//! Both kinds of Bloom filters have such lines, and a piece has whole lines. In the other families
//! a key reads several places: a ribbon two neighbouring blocks of segments, a bumped ribbon also
//! its metadata and sometimes another layer, a fuse filter three segments. They are read whole.
//!
//! A piece that is asked for a key of another piece says "maybe".

use super::bloom::query::BloomGeometry;
use super::family::{HashKind, KeyHash};
use super::geometry::Geometry;
use super::inspect::trace::QueryTrace;
use super::legacy::LegacyGeometry;
use super::reader::{AnyGeometry, FilterReader};
use crate::memory::LineBuf;

/// Bytes of a piece; the last one may be smaller. A multiple of every line.
pub(crate) const PIECE_BYTES: usize = 4096;

/// A family in which a key has one line. Lines begin where the block begins.
pub(super) trait Lined: Geometry {
    /// How many lines there are.
    fn lines(&self) -> u32;

    /// A divisor of [`PIECE_BYTES`].
    fn line_bytes(&self) -> usize;

    /// The line of a key.
    fn line_of(&self, hash: KeyHash) -> u32;

    /// [`Geometry::trace`], of the line with this number. `None`: it has not the size of a line.
    fn trace_line(&self, line: &[u8], number: u32, hash: KeyHash) -> Option<QueryTrace>;
}

/// The geometry of a piece: that of the whole filter, and where the piece lies in it.
#[derive(Clone, Copy)]
pub(super) struct Piece<G> {
    pub whole: G,
    first_line: u32,
}

impl<G: Lined> Geometry for Piece<G> {
    fn parse(_block: &LineBuf) -> Result<Piece<G>, &'static str> {
        Err("a piece of a filter, which does not say what it is")
    }

    /// The line, from the piece's first one on. Of a key of another piece it is past the last one.
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let line = self.whole.line_of(hash).wrapping_sub(self.first_line);
        block.prefetch((line as usize).wrapping_mul(self.whole.line_bytes()));
        line
    }

    fn finish(&self, block: &LineBuf, hash: KeyHash, line: u32) -> bool {
        self.whole.finish(block, hash, line)
    }

    fn predicted_fpr(&self, block: &LineBuf, keys: u64) -> f64 {
        self.whole.predicted_fpr(block, keys)
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        let line_bytes = self.whole.line_bytes();
        let line = self.whole.line_of(hash).wrapping_sub(self.first_line) as usize;
        let lines = block.chunks_exact(line_bytes).nth(line);
        lines
            .and_then(|bytes| self.whole.trace_line(bytes, line as u32 + self.first_line, hash))
            .unwrap_or(QueryTrace::Untrusted("the key is not in this piece"))
    }
}

/// What is kept of a filter whose pieces are read by themselves.
#[derive(Clone, Copy)]
pub(crate) struct FilterPieces(Whole);

#[derive(Clone, Copy)]
enum Whole {
    Bloom(BloomGeometry),
    Legacy(LegacyGeometry),
}

/// Evaluates `$value` with `$whole` bound to the geometry of whichever family it is.
macro_rules! of_whole {
    ($pieces:expr, $whole:ident => $value:expr) => {
        match &$pieces.0 {
            Whole::Bloom($whole) => $value,
            Whole::Legacy($whole) => $value,
        }
    };
}

impl FilterPieces {
    pub(super) fn of(geometry: &AnyGeometry) -> Option<FilterPieces> {
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

    /// The piece with the line of a key.
    pub fn piece_of(&self, hash: KeyHash) -> usize {
        of_whole!(self, whole => whole.line_of(hash) as usize * whole.line_bytes() / PIECE_BYTES)
    }

    /// Opens a piece, which is `block`.
    pub fn open(&self, piece: usize, block: LineBuf) -> FilterReader {
        let geometry = match self.0 {
            Whole::Bloom(whole) => AnyGeometry::BloomPiece(Piece::new(whole, piece)),
            Whole::Legacy(whole) => AnyGeometry::LegacyPiece(Piece::new(whole, piece)),
        };
        FilterReader::of_piece(geometry, block)
    }
}

impl<G: Lined> Piece<G> {
    fn new(whole: G, piece: usize) -> Piece<G> {
        Piece { first_line: (piece * (PIECE_BYTES / whole.line_bytes())) as u32, whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::hash::{LEGACY_BLOOM_SEED, hash32, hash64};
    use crate::filter::{FilterBuilder, FilterEncoding, FilterSpec};

    fn pieces_of(whole: &FilterReader) -> Vec<FilterReader> {
        let pieces = whole.pieces().unwrap();
        let lines = &whole.bytes()[..pieces.bytes()];
        let chunks = lines.chunks(PIECE_BYTES).enumerate();
        chunks.map(|(i, chunk)| pieces.open(i, LineBuf::copy_from(chunk))).collect()
    }

    /// Every key gets the same answer, and the same trace, from the piece with its line. All other
    /// pieces say maybe.
    fn hold_against(whole: &FilterReader, hashes: impl Iterator<Item = KeyHash>) {
        let (kept, pieces) = (whole.pieces().unwrap(), pieces_of(whole));
        assert!(pieces.len() > 2);
        let mut noes = 0;
        for hash in hashes {
            let piece = kept.piece_of(hash);
            let expected = whole.may_contain(hash);
            noes += u32::from(!expected);
            assert_eq!(pieces[piece].may_contain(hash), expected);
            assert_eq!(pieces[piece].finish(pieces[piece].prepare(hash)), expected);
            let mut together = [false];
            pieces[piece].may_contain_many(&[hash], &mut together);
            assert_eq!(together[0], expected);
            assert_eq!(pieces[piece].trace(hash), whole.trace(hash));
            for (i, other) in pieces.iter().enumerate().filter(|(i, _)| *i != piece) {
                assert!(other.may_contain(hash), "piece {i} for a key of piece {piece}");
                assert!(matches!(other.trace(hash), QueryTrace::Untrusted(_)));
            }
        }
        assert!(noes > 500, "{noes}");
        for piece in &pieces {
            assert!(piece.is_piece() && !whole.is_piece());
            assert_eq!((piece.family(), piece.probes()), (whole.family(), whole.probes()));
            assert_eq!(piece.hash_kind(), whole.hash_kind());
            assert_eq!(piece.predicted_fpr(9_000), whole.predicted_fpr(9_000));
            assert!(piece.fill().is_some_and(|fill| (0.3..0.7).contains(&fill)));
        }
    }

    #[test]
    fn a_piece_answers_for_its_keys_as_the_whole_filter_does() {
        for bits in [8.0, 10.0, 15.5] {
            let mut builder = FilterBuilder::new(FilterSpec::bloom(bits).unwrap());
            (0u32..9_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
            let whole = builder.finish().unwrap().into_reader();
            hold_against(&whole, (8_000u32..10_000).map(|i| hash64(&i.to_le_bytes())));
        }
    }

    #[test]
    fn a_piece_of_a_legacy_filter_does_too() {
        for line_bytes in [64usize, 128] {
            let lines = (9_000 * 10 / 8 / line_bytes) | 1;
            let mut block = vec![0u8; lines * line_bytes];
            let hash = |i: u32| u64::from(hash32(&i.to_le_bytes(), LEGACY_BLOOM_SEED));
            for i in 0..9_000 {
                let (mut x, line) = (hash(i) as u32, hash(i) as usize % lines);
                let step = x.rotate_right(17);
                for _ in 0..6 {
                    let bit = x as usize % (line_bytes * 8);
                    block[line * line_bytes + bit / 8] |= 1 << (bit % 8);
                    x = x.wrapping_add(step);
                }
            }
            block.push(6);
            block.extend((lines as u32).to_le_bytes());
            let whole = FilterReader::from_bytes(&block, FilterEncoding::RocksDb);
            assert!(whole.untrusted().is_none());
            hold_against(&whole, (8_000..10_000).map(hash));
        }
    }

    #[test]
    fn families_whose_keys_have_several_lines_have_no_pieces() {
        for spec in ["ribbon(7)", "burr(7)", "fuse(9)"] {
            let mut builder = FilterBuilder::new(spec.parse().unwrap());
            (0u32..9_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
            assert!(builder.finish().unwrap().into_reader().pieces().is_none(), "{spec}");
        }
        assert!(FilterReader::from_bytes(b"none", FilterEncoding::RocksDb).pieces().is_none());
    }
}

//! [`Lined`]: filters that keep all bits of a key in one line, which has 64 bytes in most filters.
//! And [`Piece`]: a run of whole lines of such a filter, which is read and queried without the rest
//! ([`super::pieces`]).

use super::family::KeyHash;
use super::geometry::Geometry;
use super::inspect::trace::QueryTrace;
use crate::memory::LineBuf;

/// Bytes of a piece: a multiple of every line size. The last piece may be smaller.
pub const PIECE_BYTES: usize = 4096;

/// A family that keeps all bits of a key in one line. The first line begins at the block's start.
pub(super) trait Lined {
    /// How many lines there are.
    fn lines(&self) -> u32;

    /// Bits that a key sets.
    fn probes(&self) -> u32;

    /// Bytes of a line: a divisor of [`PIECE_BYTES`].
    fn line_bytes(&self) -> usize;

    /// The line of a key.
    fn line_of(&self, hash: KeyHash) -> u32;

    /// Does the work of [`Geometry::trace`] on line `number`, whose bytes are `line`. `None` if
    /// `line` does not have the length of the filter's lines.
    fn trace_line(&self, line: &[u8], number: u32, hash: KeyHash) -> Option<QueryTrace>;
}

/// The [`Geometry`] of a piece: the parameters of the whole filter, and the position of the piece
/// in it.
#[derive(Clone, Copy)]
pub(super) struct Piece<G> {
    pub whole: G,
    first_line: u32,
}

impl<G: Geometry + Lined> Geometry for Piece<G> {
    fn parse(_block: &LineBuf) -> Result<Piece<G>, &'static str> {
        Err("a piece of a filter, which does not say what it is")
    }

    /// Returns the number of the key's line, counted from the piece's first line. For a key of
    /// another piece, this number is past the end of the piece, and then [`Geometry::finish`]
    /// answers "maybe".
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

impl<G: Lined> Piece<G> {
    pub(super) fn new(whole: G, piece: usize) -> Piece<G> {
        Piece { first_line: (piece * (PIECE_BYTES / whole.line_bytes())) as u32, whole }
    }
}

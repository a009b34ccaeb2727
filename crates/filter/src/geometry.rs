//! [`Geometry`]: the contract of a family's reader.

use super::family::KeyHash;
use super::inspect::trace::QueryTrace;
use crate::memory::LineBuf;

/// The parameters of a stored filter. They are read from the end of its block and checked against
/// the block's length. A geometry holds no pointer to the block: every call takes the block as an
/// argument. So a geometry has at most 20 bytes, and all that a query needs of a reader, the
/// geometry and the block's address, fits into half a cache line.
///
/// A successful `parse` has checked everything that the other calls rely on.
pub(super) trait Geometry: Copy {
    /// Reads the geometry of the filter in `block`, or returns in a few words why the block cannot
    /// be trusted. `block` may hold any bytes. The function neither allocates nor panics.
    fn parse(block: &LineBuf) -> Result<Self, &'static str>;

    /// Starts to fetch the cache lines that [`Geometry::finish`] will read. (For a few keys, such
    /// as the bumped keys of a bumped ribbon, `finish` reads further lines.) Returns the key's
    /// position: the number of a line or of a slot, depending on the family.
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32;

    /// Whether a key with this hash may have been added; `false` is certain. `position` should be
    /// the value that `prepare` returned for the same block and hash. With any other value the
    /// function stays memory-safe, does not panic, and may return anything.
    fn finish(&self, block: &LineBuf, hash: KeyHash, position: u32) -> bool;

    /// Answers a query in one call, as [`Geometry::prepare`] and [`Geometry::finish`] do in two.
    /// For a caller that waits for this one answer.
    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        self.finish(block, hash, self.prepare(block, hash))
    }

    /// Queries many hashes, with many cache misses in flight. Both slices have the same length.
    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut positions = [0; BATCH];
            for (position, &hash) in positions.iter_mut().zip(hashes) {
                *position = self.prepare(block, hash);
            }
            for ((answer, &hash), &position) in answers.iter_mut().zip(hashes).zip(&positions) {
                *answer = self.finish(block, hash, position);
            }
        }
    }

    /// The expected false-positive rate when the filter holds `keys` keys.
    fn predicted_fpr(&self, block: &LineBuf, keys: u64) -> f64;

    /// Computes the answer bit by bit, as the family's definition says, and returns the steps.
    /// Slow.
    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace;
}

/// The number of queries that are prepared before the first one is finished: more than the cache
/// misses that a core keeps in flight.
pub(super) const BATCH: usize = 32;

//! The filter block: a small structure, one for each table, that answers "is this key absent?".
//!
//! A point lookup in an LSM tree asks several tables, and most of them do not hold the key. A filter
//! answers for a table without reading it: **no** is certain and saves the read; **maybe** is wrong
//! for a few keys in a hundred, the *false-positive rate* ε. Smaller ε costs more bits a key, at
//! least `log2(1/ε)` of them. The families here, all fed the same 64-bit hash of the user key:
//!
//! ```text
//! family  bits a key at 1 %   how it answers                                  format
//! bloom         9.9           k bits of one cache line, all set?              RocksDB's
//! ribbon        7.0           is a xor of 128 slots the key's fingerprint?    RocksDB's
//! burr          6.8           the same, 32 or 64 slots; the few keys that     Maypole's own
//!                             do not fit are bumped to a smaller layer
//! ```
//!
//! The way through: a [`FilterSpec`] says what is wanted; a [`FilterBuilder`] takes the hashes of a
//! table's keys and turns them into a [`FilterBlock`]; a [`FilterReader`] is opened over the stored
//! bytes and asked, in two steps when many filters are asked at once: [`FilterReader::prepare`]
//! starts the trip to memory, [`FilterReader::finish`] answers.
//!
//! ```
//! use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};
//! use maypole::hash64;
//!
//! let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
//! builder.add(hash64(b"apple"));
//! builder.add(hash64(b"pear"));
//! let block = builder.finish().expect("two keys make a filter");
//!
//! let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
//! assert!(filter.may_contain(hash64(b"apple")));
//! assert!(!filter.may_contain(hash64(b"quince")));
//! # Ok::<(), maypole::filter::SpecError>(())
//! ```
//!
//! Trust. A filter must never hide a key that is there. After a build every hash is asked before
//! the block is handed out. Stored bytes are input: a reader over bytes that are not exactly what
//! their format says answers "maybe" to everything and says why ([`FilterReader::untrusted`]).
//!
//! What is absent: keys, prefixes, levels, files, counters. The filter sees hashes and bytes; it
//! imports nothing of the crate.
//!
//! A family is a folder with two things: a builder, `build(&HashList, …) -> Option<LineBuf>` (the
//! whole block; `None` when it cannot serve these keys), and a `Geometry`, its reader. It is named in
//! `Family`, in `builder::build`, and in `reader`: a variant of `Shape` with its lines in `dispatch!`,
//! `Shape::parse` and `family`. Its limits are in `spec::limits`.

mod bloom;
mod builder;
mod burr;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod hashes;
mod legacy;
mod reader;
mod ribbon;
pub mod sizing;
mod spec;
#[cfg(test)]
mod tests;
#[cfg(feature = "textbook")]
pub mod textbook;

use std::fmt;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicBool, Ordering};

use crate::memory::LineBuf;
use hashes::HashList;
use spec::Target;

pub use builder::{FilterBlock, FilterBuilder};
pub use reader::{FilterReader, Probe};
pub use spec::{FilterSpec, SpecError};

/// The 64-bit hash of a user key ([`crate::hash64`]). Only legacy filters are fed another:
/// [`FilterReader::hash_kind`] tells.
pub type KeyHash = u64;

/// A construction of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// RocksDB's Bloom filter of tables before format version 5. Read, never written.
    LegacyBloom,
    /// RocksDB's Bloom filter.
    Bloom,
    /// RocksDB's Ribbon filter, Standard128.
    Ribbon,
    /// Maypole's bumped ribbon.
    Burr,
}

impl Family {
    /// The name that specs and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Family::LegacyBloom => "legacy_bloom",
            Family::Bloom => "bloom",
            Family::Ribbon => "ribbon",
            Family::Burr => "burr",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the bytes of a filter block are to be read: a table stores the two under different names,
/// and within RocksDB's the block's last bytes tell the families apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterEncoding {
    /// `fullfilter.rocksdb.BuiltinBloomFilter`: Bloom, Ribbon and legacy Bloom.
    RocksDb,
    /// Maypole's bumped ribbon, under a name that RocksDB does not know and passes over.
    BumpedRibbon,
}

/// What a filter is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// [`crate::hash64`] of the user key.
    Hash64,
    /// LevelDB's 32-bit hash of the user key, widened with zeros.
    LegacyHash32,
}

/// Set by [`forbid_avx512`].
#[cfg(target_arch = "x86_64")]
static AVX512_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Builders and readers made from now on use AVX2 at most: to measure what a processor without
/// AVX-512 would do.
#[doc(hidden)]
pub fn forbid_avx512() {
    #[cfg(target_arch = "x86_64")]
    AVX512_FORBIDDEN.store(true, Ordering::Relaxed);
}

/// Whether AVX-512 may be used, if it is there.
#[cfg(target_arch = "x86_64")]
fn avx512_allowed() -> bool {
    !AVX512_FORBIDDEN.load(Ordering::Relaxed)
}

/// The contract of a family's reader: the few numbers of a stored filter, read from its block's end
/// and checked against its length. The block itself is passed to every call, so that a geometry
/// stays small (at most 20 bytes: a reader's hot part fits half a cache line).
///
/// A `parse` that succeeds has checked everything that the other calls rely on.
trait Geometry: Copy {
    /// Reads the shape of the filter in `block`, or says in a few words why it cannot be trusted.
    /// `block` is any bytes at all; nothing is allocated, nothing panics.
    fn parse(block: &LineBuf) -> Result<Self, &'static str>;

    /// Starts to fetch every line that [`Geometry::finish`] will need, and returns where they are
    /// (a line or slot number: what the family likes).
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32;

    /// The answer: `false` only when no key with this hash was added. `place` should be what
    /// `prepare` returned for the same block and hash; with any other it must stay memory-safe and
    /// not panic, and may answer anything.
    fn finish(&self, block: &LineBuf, hash: KeyHash, place: u32) -> bool;

    /// Both steps at once: the latency of one query.
    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        self.finish(block, hash, self.prepare(block, hash))
    }

    /// Answers for many hashes, keeping many trips to memory under way. Both slices have the same
    /// length.
    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut places = [0; BATCH];
            for (place, &hash) in places.iter_mut().zip(hashes) {
                *place = self.prepare(block, hash);
            }
            for ((answer, &hash), &place) in answers.iter_mut().zip(hashes).zip(&places) {
                *answer = self.finish(block, hash, place);
            }
        }
    }

    /// The false-positive rate to expect when the filter holds `keys` keys.
    fn predicted_fpr(&self, block: &LineBuf, keys: u64) -> f64;
}

/// Queries prepared before the first is finished: more than the misses a core keeps in flight.
const BATCH: usize = 32;

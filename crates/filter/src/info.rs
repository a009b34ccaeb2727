//! [`FamilyInfo`]: what the rest of the crate needs to know about a family. Each family defines
//! one.
//!
//! Code outside the families' folders reaches a family through the table in `families.rs`; only a
//! few files name a family. Queries do not use the table, because calls through its function
//! pointers could not be inlined. For queries, the enum `AnyGeometry` in `reader.rs` has a variant
//! for each family.

use super::family::{Family, FilterEncoding, Target};
use super::hashes::HashList;
use super::inspect::parts::BandParts;
use crate::memory::LineBuf;

/// The description of one family.
pub(crate) struct FamilyInfo {
    pub family: Family,
    /// The name in specs and reports.
    pub name: &'static str,
    /// `None` for a family that is only read.
    pub limits: Option<Limits>,
    pub encoding: FilterEncoding,
    /// The name of the block in a table's metaindex. It belongs to the encoding: families that
    /// share the encoding share the name.
    pub metaindex_name: &'static str,
    /// The value of a table's property `rocksdb.filter.policy`.
    pub policy_name: &'static str,
    /// Builds the whole block. `None` when the family does not suit these keys: a Bloom filter for
    /// the same target is built instead.
    pub build: fn(&HashList, Target) -> Option<LineBuf>,
    /// The stored bits a key and the false-positive rate of a filter of this many keys. `None`
    /// where a Bloom filter would be built instead.
    pub expected: fn(usize, Target) -> Option<(f64, f64)>,
    /// The stored bits a key that a filter of very many keys takes for this false-positive rate.
    pub bits_for_rate: fn(f64) -> f64,
    /// The parts of a stored ribbon filter. `None` for every other block.
    pub inspect: fn(&[u8]) -> Option<BandParts>,
    /// Turns most bytes into a filter that its reader accepts, so that a fuzzer gets past the check
    /// of the trailer: gives the block a valid length, and derives the fields of a valid trailer
    /// from the old trailer.
    #[cfg(any(test, fuzzing))]
    pub repair: fn(&mut Vec<u8>),
}

/// The limits of a family that is written.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The most stored bits a key.
    pub most_bits: f64,
    /// The lowest false-positive rate.
    pub lowest_rate: f64,
    /// Stored bits a key for a rate of about 1 %: the default of reports.
    pub default_bits: f64,
}

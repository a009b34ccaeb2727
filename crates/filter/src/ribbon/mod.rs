//! RocksDB's Ribbon filter ("Standard128 Ribbon"), bit for bit. At the same false-positive rate it
//! is 30 % smaller than RocksDB's Bloom filter.
//!
//! A key covers 128 neighbouring slots, of which its hash picks about half. A slot holds a few
//! bits, one per column. The XOR of the picked slots' bits must be the key's fingerprint, in every
//! column:
//!
//! ```text
//!                slots    0 1 2 3 4 5 6 7 8 9 …
//! picks of key a            1 0 1 1               XOR of slots 1, 3, 4 = fingerprint of a
//! picks of key b                1 1 0 1           XOR of slots 3, 4, 6 = fingerprint of b
//!                               ╲ a band, 128 wide, along the diagonal: the ribbon
//! ```
//!
//! This is a system of linear equations over GF(2), one per key and column. It is solved when the
//! table is written ([`build`](mod@build)), by elimination (banding) and back substitution. The XOR
//! of an absent key's slots is arbitrary, so each column halves the false-positive rate. Few more
//! slots than keys are needed, so a column costs 1.03 to 1.07 bits a key; a textbook Bloom filter
//! needs 1.44 bits to halve the rate.
//!
//! A key's equation is computed from its hash and a *seed*, which all keys of a filter share. With
//! the sizes in [`sizing`], one seed in twenty makes equations that contradict each other. Then the
//! build starts again with another seed. The format has 256 seeds. If all of them fail, a Bloom
//! filter is built instead.
//!
//! Reading order: [`row`], from a hash to its equation; [`layout`], the bytes;
//! [`build`](mod@build); [`reference`](mod@reference), a query step by step; [`query`], the reader;
//! [`kernel`] and `x86`, the hot loops. The bumped ribbon ([`burr`](super::burr)) follows the same
//! idea, but where equations contradict each other, it moves keys to a smaller filter. The module
//! `burr::reference` shows step by step how a ribbon is built.
//!
//! Paper: Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021,
//! arXiv 2103.02515. Format and construction: RocksDB's `util/ribbon_impl.h` and
//! `table/block_based/filter_policy.cc`.

mod build;
mod inspect;
mod kernel;
pub(super) mod layout;
pub(super) mod query;
mod reference;
mod row;
mod sizing;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::bloom::layout::METAINDEX_NAME;
use super::family::{Family, FilterEncoding};
use super::info::{FamilyInfo, Limits};
use crate::math::log2;

pub(super) const INFO: FamilyInfo = FamilyInfo {
    family: Family::Ribbon,
    name: "ribbon",
    // Each column halves the rate, and there are 32 columns at most.
    limits: Some(Limits { most_bits: 32.0, lowest_rate: 2.4e-10, default_bits: 7.0 }),
    encoding: FilterEncoding::RocksDb,
    metaindex_name: METAINDEX_NAME,
    policy_name: "ribbonfilter",
    build: build::build,
    expected: sizing::expected,
    bits_for_rate: |rate| -1.05 * log2(rate),
    inspect: inspect::parts,
    #[cfg(any(test, fuzzing))]
    repair: layout::repair,
};

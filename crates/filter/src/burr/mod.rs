//! The bumped ribbon filter, `burr`: from 10 thousand keys on the smallest filter here, and faster
//! than RocksDB's Ribbon.
//!
//! **The idea.** A key has a *fingerprint* of r bits. A Ribbon filter is a table of slots of r
//! bits, in which the fingerprint can be *looked up*: it is the XOR of some of the w slots from the
//! key's start position on. So every key is a linear equation over the field of two elements, and
//! the table is a solution of the system. For a key that was not added, the XOR is unrelated to the
//! fingerprint, and equals it with probability 2^-r. This rate costs r bits a *slot*. The lower
//! bound is r bits a *key*, so the aim is to need few slots more than there are keys.
//!
//! ```text
//! slots           0  1  2  3  4  5  6  7  8  9 ...       one slot: r bits, one for each column
//! key a, start 1     1  .  1  1                          a row of w coefficients; the first is 1
//! key b, start 2        1  1  .  1
//! key c, start 6                    1  1  .  1
//!                fingerprint of a = slot 1 ^ slot 3 ^ slot 4
//! ```
//!
//! The equations form a band along the diagonal. A narrow band is solved fast, but the system has
//! no solution if by chance too many keys start near each other. RocksDB's Standard128 therefore
//! uses w = 128, a few per cent of free slots, and another seed if the first fails. Here the filter
//! has *layers*. Keys that do not fit into a layer are **bumped**: they are looked up in the next
//! layer, which has less than a tenth of the size. So a layer may even have fewer slots than keys,
//! few slots stay free, rows can be narrow (w = 32), and no step is repeated with another seed.
//!
//! ```text
//! layer 0   | bucket 0 | bucket 1 | bucket 2 | ...          a bucket: 2w start positions
//!             class 2 1    0        right end: class 0      threshold 0..3: the classes that stay
//! layer 1   | bucket 0 | ...                                the keys of classes bumped above
//! tags      [..]                                            the last few, stored as tags
//! ```
//!
//! The start positions of a bucket are divided into three *classes*. The keys of a class are kept
//! or bumped together. The rows of a bucket overflow into the left end of the next one, so keys are
//! bumped from the left end of a bucket. For each bucket, 2 bits, its *threshold*, state which
//! share of its start positions is kept: all, 0.84, 0.67 or none (with w = 32).
//!
//! **Storage** is interleaved: the w bits of one column of w slots are a *segment*, and the r
//! segments of a block of w slots are contiguous. A query reads two neighbouring blocks, usually
//! two cache lines, and compares all columns at once. The number of bits a key need not be whole,
//! because the first blocks of layer 0 may have one column fewer.
//!
//! Reading order: `reference`, the whole filter step by step; [`shape`] and [`row`], from a hash to
//! its row; [`layout`], the bytes; [`build`](mod@build), step by step. For queries: [`query`], and
//! [`kernel`] and `x86` with the hot loops. [`sizing`] has the arithmetic of sizes and rates.
//!
//! Absent on purpose: seeds, retries, sorted keys. The bytes do not depend on the order of the
//! keys.
//!
//! Sources: Dillinger, Walzer, *Ribbon filter* (2021); Dillinger, Hübschle-Schneider, Sanders,
//! Walzer, *Fast succinct retrieval and approximate membership using ribbon* (SEA 2022): bumping,
//! thresholds, interleaved storage. Two things are new here: keys are grouped, not sorted, and two
//! chains of elimination are interleaved ([`build::banding`]).

mod build;
mod inspect;
mod kernel;
pub(super) mod layout;
pub(super) mod query;
mod reference;
mod row;
mod shape;
pub(super) mod sizing;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::family::{Family, FilterEncoding};
use super::info::{FamilyInfo, Limits};
use crate::math::log2;

pub(super) const INFO: FamilyInfo = FamilyInfo {
    family: Family::Burr,
    name: "burr",
    // Each column halves the rate, and there are 32 columns at most.
    limits: Some(Limits { most_bits: 32.0, lowest_rate: 2.4e-10, default_bits: 7.0 }),
    encoding: FilterEncoding::BumpedRibbon,
    metaindex_name: "fullfilter.maypole.BumpedRibbon",
    policy_name: "maypole.burr",
    build: build::build,
    expected: sizing::expected,
    bits_for_rate: |rate| -1.02 * log2(rate),
    inspect: inspect::parts,
    #[cfg(any(test, fuzzing))]
    repair: layout::repair,
};

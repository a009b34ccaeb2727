//! The binary fuse filter, `fuse`: each key has three slots, nearly always in three cache lines.
//!
//! **The idea.** The filter is one array of slots of r bits. A key has a fingerprint of r bits and
//! three slots, and the array is filled so that the exclusive or of the three slots is the
//! fingerprint. For a key that was not added the exclusive or is unrelated to the key's
//! fingerprint, so it equals the fingerprint with probability 2^-r, exactly.
//!
//! ```text
//! segments    |   0   |   1   |   2   |   3   |   4   |      each 2^k slots
//! key a           x       x       x                          slot 0 is picked by the hash as a whole,
//! key b                   x       x       x                  the others in the next two segments
//! key c               x       x      x                       fingerprint = x ^ x ^ x
//! ```
//!
//! **How it is filled** ([`build`](mod@build)). If a slot belongs to only one key, it can be set
//! last: whatever the key's other slots become, this slot can make the exclusive or equal to the
//! key's fingerprint. So the key is *taken out*, which may leave other slots with one key only, and
//! so on. If all keys are taken out this way, the slots are set in the opposite order. If some keys
//! are left, the build starts again with the next seed, which picks other slots.
//!
//! If a key's three slots could be anywhere in the array, the array would need 1.23 slots a key.
//! Here a key's slots are in neighbouring segments. The slots at both ends of the array have fewer
//! keys (in segment 0, for example, only those whose first slot is there), so taking out starts at
//! the ends and moves inward. Therefore a filter of ten million keys needs only 1.125 slots a key.
//! A small filter has few segments and gains less: with ten thousand keys it needs about 1.25 slots
//! a key ([`sizing`]).
//!
//! Absent on purpose: fractions of a bit, and layers. A slot has 4 to 16 whole bits. If the
//! requested size is between those of two slot widths, the smaller width is taken; if the requested
//! rate is between those of two widths, the larger one. A key that cannot be taken out is not moved
//! to a second layer: the filter has all keys, or it is not made.
//!
//! Reading order: [`layout`], the bytes and a key's slots; `reference`, the whole filter step by
//! step; [`sizing`]; [`build`](mod@build); [`query`], the reader.
//!
//! Source: Graf, Lemire, *Binary fuse filters: fast and smaller than xor filters* (ACM Journal of
//! Experimental Algorithmics 27, 2022). Maypole differs from it in two points. The first slot
//! follows from the key's hash alone, not from the seed. So for every seed, the keys in the order
//! of their hashes are also in the order of their first slots. And keys are taken out in the order
//! of a queue, which starts with all slots that only one key has, from the lowest to the highest.

mod build;
mod layout;
pub(super) mod query;
mod reference;
mod sizing;
#[cfg(test)]
mod tests;

use super::family::{Family, FilterEncoding};
use super::info::{FamilyInfo, Limits};

pub(super) const INFO: FamilyInfo = FamilyInfo {
    family: Family::Fuse,
    name: "fuse",
    limits: Some(Limits { most_bits: 32.0, lowest_rate: sizing::LOWEST_RATE, default_bits: 9.0 }),
    encoding: FilterEncoding::BinaryFuse,
    metaindex_name: "fullfilter.maypole.BinaryFuse",
    policy_name: "maypole.fuse",
    build: build::build,
    expected: sizing::expected,
    bits_for_rate: sizing::bits_for_rate,
    inspect: |_| None,
    #[cfg(any(test, fuzzing))]
    repair: layout::repair,
};

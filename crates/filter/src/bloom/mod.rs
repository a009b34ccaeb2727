//! RocksDB's Bloom filter ("FastLocalBloom"), bit for bit.
//!
//! A key sets `k` bits, all within one 64-byte line, so that a query touches one cache line. The
//! low half of the key's hash picks the line, the high half picks the bits.
//!
//! ```text
//! hash   | high 32 bits               | low 32 bits |
//!          bit 0, bit 1, ... bit k-1    line
//!
//! line 0     ................................         one line: 64 bytes, 512 bits
//! line 1     ....1.........1......1....1....1         a key sets k bits of its line;
//! line 2     ................................         a query tests whether all of them are set
//! ```
//!
//! A key uses one line, because a large filter does not fit into the processor's caches, so each
//! further line would cost a cache miss. The price is more bits than a textbook Bloom filter takes
//! for the same false-positive rate: 3 % more at a rate of 1 %, 8 % more at 0.1 % ([`sizing`]).
//!
//! Reading order: `reference`, the filter as its definition says; [`layout`], the bytes;
//! [`kernel`], the bits of a key and the hot loops, also in `x86` and `neon`; [`query`], the reader.
//!
//! Format: RocksDB's `util/bloom_impl.h` (`FastLocalBloomImpl`) and
//! `table/block_based/filter_policy.cc`.

mod kernel;
pub(super) mod layout;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(super) mod query;
mod reference;
pub(super) mod sizing;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::cpu::{Isa, dispatch};
use super::family::{Family, FilterEncoding};
use super::hashes::HashList;
use super::info::{FamilyInfo, Limits};
use crate::memory::LineBuf;
use kernel::Kernels;

pub(super) const INFO: FamilyInfo = FamilyInfo {
    family: Family::Bloom,
    name: "bloom",
    limits: Some(Limits { most_bits: 100.0, lowest_rate: 1e-9, default_bits: 10.0 }),
    encoding: FilterEncoding::RocksDb,
    metaindex_name: layout::METAINDEX_NAME,
    policy_name: layout::POLICY_NAME,
    build: |hashes, target| Some(build(hashes, target.bloom_millibits())),
    expected: |keys, target| {
        let millibits = target.bloom_millibits();
        let bytes = sizing::bloom_bytes(keys, millibits) + layout::TRAILER_BYTES;
        Some((bytes as f64 * 8.0 / keys as f64, sizing::bloom_fpr(millibits)))
    },
    bits_for_rate: sizing::bloom_bits_for_rate,
    inspect: |_| None,
    #[cfg(any(test, fuzzing))]
    repair: layout::repair,
};

/// Builds the block of a filter with `millibits_per_key / 1000` bits for each of `hashes`. There
/// must be at least one hash.
pub(super) fn build(hashes: &HashList, millibits_per_key: u32) -> LineBuf {
    build_with(Isa::detect(), hashes, millibits_per_key)
}

fn build_with(isa: Isa, hashes: &HashList, millibits_per_key: u32) -> LineBuf {
    let payload_bytes = sizing::bloom_bytes(hashes.len(), millibits_per_key);
    let probes = sizing::bloom_probes(millibits_per_key) as u8;
    let mut block = LineBuf::zeroed(payload_bytes + layout::TRAILER_BYTES);
    let (lines, trailer) = block.as_chunks_mut();
    for chunk in hashes.chunks() {
        dispatch!(isa, kernels => kernels.add(lines, chunk, probes));
    }
    trailer.copy_from_slice(&layout::trailer(probes));
    block
}

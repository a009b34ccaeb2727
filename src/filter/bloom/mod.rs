//! RocksDB's Bloom filter ("FastLocalBloom"), bit for bit.
//!
//! A key sets `k` bits, all within one 64-byte line, so that a query touches one cache line. The low
//! half of the key's hash picks the line, the high half picks the bits.
//!
//! ```text
//! hash   | high 32 bits               | low 32 bits |
//!          bit 0, bit 1, ... bit k-1    line
//!
//! line 0     ................................         one line: 64 bytes, 512 bits
//! line 1     ....1.........1......1....1....1         a key sets k bits of its line;
//! line 2     ................................         a query asks whether all of them are set
//! ```
//!
//! Why one line: a filter is larger than the caches, so each line touched costs a trip to memory.
//! The price is 3 to 8 % more bits for the same rate ([`sizing`]).
//!
//! Read on in this order: `plain`, the filter as its definition says; [`layout`], the bytes;
//! [`probes`], the bits of a key; [`kernel`] and `x86`, the hot loops; [`query`], the reader.
//!
//! Format: RocksDB's `util/bloom_impl.h` (`FastLocalBloomImpl`) and
//! `table/block_based/filter_policy.cc`.

mod kernel;
pub(super) mod layout;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
mod probes;
pub(super) mod query;
pub(super) mod sizing;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::cpu::{Isa, dispatch};
use super::hashes::HashList;
use crate::memory::LineBuf;
use kernel::Kernels;

/// A filter of `millibits_per_key / 1000` bits for each of `hashes`, of which there is at least one.
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

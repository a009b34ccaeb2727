//! The stored form of a Bloom filter.
//!
//! ```text
//! OFFSET    SIZE  MEANING
//! 0         len   lines of 64 bytes; bit b of a line is bit b & 7 of its byte b >> 3
//! len       1     0xff: not a legacy filter
//! len + 1   1     0: the kind described here
//! len + 2   1     bits 5..7: log2(line bytes) - 6, must be 0; bits 0..4: k, 1 to 30
//! len + 3   2     0, reserved
//! ```
//!
//! `k` is the number of *probes*: the bits that each key sets in one line. *Legacy* filters are
//! those of tables of format version 4 and older.

use crate::memory::LINE_BYTES;

/// The name in a table's metaindex under which RocksDB stores a filter of any of its families, if
/// the filter is not partitioned.
pub const METAINDEX_NAME: &str = "fullfilter.rocksdb.BuiltinBloomFilter";

/// RocksDB's name for its Bloom filters, legacy ones included, in the property
/// `rocksdb.filter.policy`.
pub const POLICY_NAME: &str = "bloomfilter";

/// The first byte of the trailer of a Bloom filter that is not legacy.
pub const MARKER: u8 = 0xff;

/// Bytes of the trailer, which follows the bits in every filter of RocksDB.
pub const TRAILER_BYTES: usize = 5;

/// The most probes that a stored filter may have.
pub(super) const MAX_PROBES: usize = 30;

/// One cache line of the filter.
pub(super) type Line = [u8; LINE_BYTES];

/// The last bytes of a filter whose keys set `probes` bits each.
pub(super) fn trailer(probes: u8) -> [u8; TRAILER_BYTES] {
    [MARKER, 0, probes, 0, 0]
}

/// Returns the number of lines of a stored filter, at least 1, and the number of probes, 1 to
/// [`MAX_PROBES`]; or the reason why the bytes are not a filter.
pub(super) fn parse(block: &[u8]) -> Result<(u32, u8), &'static str> {
    let (lines, &[_, kind, packed, reserved_0, reserved_1]) = block.as_chunks::<LINE_BYTES>()
    else {
        return Err("a Bloom filter whose length is not a number of lines");
    };
    let probes = packed & 0x1f;
    if kind != 0 {
        return Err("a Bloom filter of an unknown kind");
    }
    if packed >> 5 != 0 {
        return Err("a Bloom filter whose lines are not 64 bytes");
    }
    if !(1..=MAX_PROBES as u8).contains(&probes) {
        return Err("a Bloom filter with an impossible number of probes");
    }
    if reserved_0 != 0 || reserved_1 != 0 {
        return Err("a Bloom filter with unknown extensions");
    }
    if lines.is_empty() {
        return Err("a Bloom filter without lines");
    }
    let lines =
        u32::try_from(lines.len()).map_err(|_| "a Bloom filter larger than its format allows")?;
    Ok((lines, probes))
}

/// See [`FamilyInfo::repair`](crate::info::FamilyInfo::repair).
#[cfg(any(test, fuzzing))]
pub(super) fn repair(block: &mut Vec<u8>) {
    repair_trailer(block, |_, trailer| [MARKER, 0, trailer[2] % 31, 0, 0]);
}

/// For fuzzing: takes the last five bytes off `block`, cuts the rest to whole lines, and appends
/// the trailer that `trailer_of` computes from the number of lines and the five bytes. The function
/// serves all families with RocksDB's encoding.
#[cfg(any(test, fuzzing))]
pub fn repair_trailer(
    block: &mut Vec<u8>,
    trailer_of: impl Fn(usize, [u8; TRAILER_BYTES]) -> [u8; TRAILER_BYTES],
) {
    let Some((payload, &trailer)) = block.split_last_chunk() else { return };
    let lines = payload.len() / LINE_BYTES;
    block.truncate(lines * LINE_BYTES);
    block.extend(trailer_of(lines, trailer));
}

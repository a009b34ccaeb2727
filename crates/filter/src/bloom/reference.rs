//! The Bloom filter as its definition says: the version to read first. Tests compare the fast
//! versions with this one, which shares no arithmetic with them. Traces of queries are also made by
//! this version.
//!
//! A key sets `probes` bits of its line. A query of a present key finds them all set. At 10 bits a
//! key, the line of an absent key holds about 50 other keys; the absent key passes if these keys
//! happen to have set all of its bits.

use super::layout::Line;
use crate::family::KeyHash;
use crate::inspect::trace::{ProbedBit, QueryTrace};
use crate::memory::LINE_BYTES;

/// The line of a key: the low half of its hash, scaled to the number of lines.
fn line_of(hash: KeyHash, lines: usize) -> usize {
    (((hash & 0xffff_ffff) * lines as u64) >> 32) as usize
}

/// Which bits of its line a key sets: their numbers, computed from the high half of its hash.
fn bits_of(hash: KeyHash, probes: u8) -> impl Iterator<Item = u32> {
    let first = (hash >> 32) as u32;
    let next = |x: &u32| Some(x.wrapping_mul(0x9e37_79b9));
    core::iter::successors(Some(first), next).take(probes.into()).map(|x| x >> 23)
}

/// Adds a key.
#[cfg(any(test, doc))]
pub fn add(lines: &mut [Line], hash: KeyHash, probes: u8) {
    let line = &mut lines[line_of(hash, lines.len())];
    for bit in bits_of(hash, probes) {
        line[(bit / 8) as usize] |= 1 << (bit % 8);
    }
}

/// Queries a key, and returns the key's line and the bits that the key probes. There must be at
/// least one line.
pub fn trace(lines: &[Line], hash: KeyHash, probes: u8) -> QueryTrace {
    let number = line_of(hash, lines.len());
    let line = &lines[number];
    let found = |bit: u32| line[(bit / 8) as usize] & 1 << (bit % 8) != 0;
    let probed = |bit| ProbedBit { number: bit, found: found(bit), wanted: true };
    QueryTrace::Line {
        line: number as u32,
        lines: lines.len() as u32,
        line_bytes: LINE_BYTES as u32,
        bits: bits_of(hash, probes).map(probed).collect(),
    }
}

/// Whether the key may have been added; `false` is certain.
#[cfg(any(test, doc))]
pub fn may_contain(lines: &[Line], hash: KeyHash, probes: u8) -> bool {
    trace(lines, hash, probes).is_maybe()
}

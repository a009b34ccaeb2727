//! The Bloom filter as its definition says: the version to read first, and the oracle of the fast
//! ones. Only tests run it. It shares no arithmetic with them.
//!
//! A key sets `probes` bits of its line. A query of a present key finds them all set. An absent key
//! shares its line with some 50 others; it passes when they happen to have set all of its bits.

use super::layout::Line;
use crate::filter::family::KeyHash;

/// The line of a key: the low half of its hash, scaled to the number of lines.
fn line_of(hash: KeyHash, lines: usize) -> usize {
    (((hash & 0xffff_ffff) * lines as u64) >> 32) as usize
}

/// Adds a key.
pub fn add(lines: &mut [Line], hash: KeyHash, probes: u8) {
    let line = &mut lines[line_of(hash, lines.len())];
    let mut x = (hash >> 32) as u32;
    for _ in 0..probes {
        let bit = x >> 23;
        line[(bit / 8) as usize] |= 1 << (bit % 8);
        x = x.wrapping_mul(0x9e37_79b9);
    }
}

/// `false` when the key was certainly not added.
pub fn may_contain(lines: &[Line], hash: KeyHash, probes: u8) -> bool {
    let line = &lines[line_of(hash, lines.len())];
    let mut x = (hash >> 32) as u32;
    for _ in 0..probes {
        let bit = x >> 23;
        if line[(bit / 8) as usize] & 1 << (bit % 8) == 0 {
            return false;
        }
        x = x.wrapping_mul(0x9e37_79b9);
    }
    true
}

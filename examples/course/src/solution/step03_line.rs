//! Step 3: all bits of a key in one cache line. This is RocksDB's Bloom filter, bit for bit.
//!
//! ```text
//! hash    high 32 bits: which bits       low 32 bits: which line
//! block   line 0 | line 1 | … | ff 00 k 00 00
//! ```

use maypole::filter::sizing::bloom_probes;

/// Bytes of a line.
pub const LINE: usize = 64;

/// 2^32 divided by the golden ratio. The bits of a key come from products of the high half of its
/// hash with powers of this number.
const GOLDEN: u32 = 0x9e37_79b9;

/// The line of a key, below `lines`.
pub fn line_of(hash: u64, lines: u32) -> u32 {
    // yours: the low half of the hash times `lines`, as 64 bits; of that the high half
    ((u64::from(hash as u32) * u64::from(lines)) >> 32) as u32
    // end
}

/// The `k` bits of a key in its line, each below 512.
pub fn bits_of(hash: u64, k: u32) -> Vec<u32> {
    // yours: x is the high half of the hash; a bit is the top 9 bits of x; then x times GOLDEN
    let mut x = (hash >> 32) as u32;
    let mut bits = Vec::new();
    for _ in 0..k {
        bits.push(x >> 23);
        x = x.wrapping_mul(GOLDEN);
    }
    bits
    // end
}

/// The filter block of the keys with these hashes.
pub fn build(hashes: &[u64], bits_per_key: f64) -> Vec<u8> {
    let lines = (hashes.len() as f64 * bits_per_key / 512.0).ceil().max(1.0) as u32;
    // RocksDB's choice of `k`: a little less than the best `k` of step 1, because more bits of each
    // key would fill the crowded lines even more.
    let k = bloom_probes((bits_per_key * 1000.0) as u32);
    let mut block = vec![0; LINE * lines as usize];
    // yours: set each key's bits in its line (bit b: byte b / 8, bit b % 8); then ff 00 k 00 00
    for &hash in hashes {
        let line = LINE * line_of(hash, lines) as usize;
        for bit in bits_of(hash, k) {
            block[line + (bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    block.extend([0xff, 0, k as u8, 0, 0]);
    block
    // end
}

/// Whether the filter `block` may contain the key with this hash.
///
/// A block that [`build`] cannot have written is not trusted: the answer is `true` for every key.
pub fn may_contain(block: &[u8], hash: u64) -> bool {
    // yours: split off the trailer and check all of it; then all bits of the key must be set
    let Some((lines, &[0xff, 0, k @ 1..=30, 0, 0])) = block.split_last_chunk() else {
        return true;
    };
    if lines.is_empty() || lines.len() % LINE != 0 {
        return true;
    }
    let line = LINE * line_of(hash, (lines.len() / LINE) as u32) as usize;
    let is_set = |bit: u32| lines[line + (bit / 8) as usize] >> (bit % 8) & 1 == 1;
    bits_of(hash, k.into()).into_iter().all(is_set)
    // end
}

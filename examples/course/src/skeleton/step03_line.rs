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
    todo!("the low half of the hash times `lines`, as 64 bits; of that the high half")
}

/// The `k` bits of a key in its line, each below 512.
pub fn bits_of(hash: u64, k: u32) -> Vec<u32> {
    todo!("x is the high half of the hash; a bit is the top 9 bits of x; then x times GOLDEN")
}

/// The filter block of the keys with these hashes.
pub fn build(hashes: &[u64], bits_per_key: f64) -> Vec<u8> {
    let lines = (hashes.len() as f64 * bits_per_key / 512.0).ceil().max(1.0) as u32;
    // RocksDB's choice of `k`: a little less than the best `k` of step 1, because more bits of each
    // key would fill the crowded lines even more.
    let k = bloom_probes((bits_per_key * 1000.0) as u32);
    let mut block = vec![0; LINE * lines as usize];
    todo!("set each key's bits in its line (bit b: byte b / 8, bit b % 8); then ff 00 k 00 00")
}

/// Whether the filter `block` may contain the key with this hash.
///
/// A block that [`build`] cannot have written is not trusted: the answer is `true` for every key.
pub fn may_contain(block: &[u8], hash: u64) -> bool {
    todo!("split off the trailer and check all of it; then all bits of the key must be set")
}

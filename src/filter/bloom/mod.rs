//! RocksDB's Bloom filter ("FastLocalBloom"), bit for bit.
//!
//! A key sets `k` bits, all within one 64-byte line, so that a probe touches one cache line. The low
//! half of its hash picks the line, the high half the bits: multiplied by the golden ratio again and
//! again, its top 9 bits name the next of 512.
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
//! Invariant of [`BloomGeometry`]: `64 * lines` bytes of the block are lines.
//!
//! Why one line: a filter is larger than the caches, so every line touched costs a trip to memory;
//! the price is 3 to 8 % more bits for the same rate (`sizing`). Format: table format, section 3.

use super::hashes::HashList;
use super::lines::{LINE_BYTES, LineBuf};
use super::{Geometry, KeyHash, sizing};

/// Marks the filters that are not legacy.
pub(super) const MARKER: u8 = 0xff;

/// Bytes after the lines, in every filter of RocksDB's.
pub(super) const TRAILER_BYTES: usize = 5;

/// The golden ratio as a fraction of 2^32.
const GOLDEN: u32 = 0x9e37_79b9;

/// The line of a key: its hash's low half, scaled to `lines` (Lemire's multiply-shift).
#[inline(always)]
fn line_of(hash: KeyHash, lines: u32) -> u32 {
    ((u64::from(hash as u32) * u64::from(lines)) >> 32) as u32
}

/// What the bits of a key are drawn from.
#[inline(always)]
fn bit_seed(hash: KeyHash) -> u32 {
    (hash >> 32) as u32
}

/// A filter of `millibits_per_key / 1000` bits for each of `hashes`, of which there is at least one.
pub(super) fn build(hashes: &HashList, millibits_per_key: u32) -> LineBuf {
    let payload_bytes = sizing::bloom_bytes(hashes.len(), millibits_per_key);
    let probes = sizing::bloom_probes(millibits_per_key);
    let lines = (payload_bytes / LINE_BYTES) as u32;
    let mut block = LineBuf::zeroed(payload_bytes + TRAILER_BYTES);
    for hash in hashes.iter() {
        let at = line_of(hash, lines) as usize * LINE_BYTES;
        let line = &mut block[at..at + LINE_BYTES];
        let mut x = bit_seed(hash);
        for _ in 0..probes {
            let bit = x >> 23;
            line[(bit >> 3) as usize] |= 1 << (bit & 7);
            x = x.wrapping_mul(GOLDEN);
        }
    }
    block[payload_bytes..].copy_from_slice(&[MARKER, 0, probes as u8, 0, 0]);
    block
}

/// A Bloom filter's shape.
#[derive(Clone, Copy)]
pub(super) struct BloomGeometry {
    lines: u32,
    probes: u8,
}

impl BloomGeometry {
    pub fn probes(&self) -> u32 {
        u32::from(self.probes)
    }

    fn payload<'a>(&self, block: &'a LineBuf) -> &'a [u8] {
        &block[..self.lines as usize * LINE_BYTES]
    }

    /// The part of all bits that is set.
    pub fn fill(&self, block: &LineBuf) -> f64 {
        let ones: u64 = self.payload(block).iter().map(|byte| u64::from(byte.count_ones())).sum();
        ones as f64 / (self.lines as f64 * 8.0 * LINE_BYTES as f64)
    }
}

impl Geometry for BloomGeometry {
    fn parse(block: &LineBuf) -> Result<BloomGeometry, &'static str> {
        let Some((payload, &[_, kind, packed, reserved_0, reserved_1])) =
            block.split_last_chunk::<TRAILER_BYTES>()
        else {
            return Err("shorter than a filter's trailer");
        };
        let probes = packed & 0x1f;
        if kind != 0 {
            return Err("a Bloom filter of an unknown kind");
        }
        if packed >> 5 != 0 {
            return Err("a Bloom filter whose lines are not 64 bytes");
        }
        if !(1..=30).contains(&probes) {
            return Err("a Bloom filter with an impossible number of probes");
        }
        if reserved_0 != 0 || reserved_1 != 0 {
            return Err("a Bloom filter with unknown extensions");
        }
        if payload.is_empty() || !payload.len().is_multiple_of(LINE_BYTES) {
            return Err("a Bloom filter whose length is not a number of lines");
        }
        let lines = u32::try_from(payload.len() / LINE_BYTES)
            .map_err(|_| "a Bloom filter larger than its format allows")?;
        Ok(BloomGeometry { lines, probes })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let line = line_of(hash, self.lines);
        block.prefetch(line as usize * LINE_BYTES);
        line
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, line: u32) -> bool {
        let payload = self.payload(block);
        let at = line as usize * LINE_BYTES;
        let Some(line) = payload.get(at..at + LINE_BYTES) else {
            return true;
        };
        let mut x = bit_seed(hash);
        (0..self.probes).all(|_| {
            let bit = x >> 23;
            x = x.wrapping_mul(GOLDEN);
            line[(bit >> 3) as usize] & (1 << (bit & 7)) != 0
        })
    }

    fn predicted_fpr(&self, _block: &LineBuf, keys: u64) -> f64 {
        sizing::cache_line_bloom_fpr(keys as f64 / f64::from(self.lines), self.probes())
    }
}

//! The Bloom filter of tables before format version 5: read, never written.
//!
//! A key's 32-bit hash picks its line and the first of its `k` bits there. The rotated hash is the
//! step from each bit to the next. RocksDB replaced this filter, because in a table of many keys
//! different keys too often have the same 32-bit hash: at 40 million keys, this adds 1 % false
//! positives.
//!
//! ```text
//! OFFSET   SIZE  MEANING
//! 0        len   lines, each a power of two bytes: 64 on most machines, 128 on some
//! len      1     k, the bits that a key sets: 1 to 127; in newer filters this byte is 0xfe or 0xff
//! len + 1  4     number of lines
//! ```
//!
//! Invariant of [`LegacyGeometry`]: `lines << log2_line_bytes` is `len`, the number of bytes before
//! `k`.
//!
//! Format: RocksDB's `util/bloom_impl.h` (`LegacyLocalityBloomImpl`).

use core::ops::RangeInclusive;

#[cfg(any(test, fuzzing))]
use super::bloom::layout::repair_trailer;
use super::bloom::layout::{METAINDEX_NAME, POLICY_NAME, TRAILER_BYTES};
use super::bloom::sizing::{bloom_bits_for_rate, cache_line_bloom_fpr};
use super::family::{Family, FilterEncoding, KeyHash};
use super::geometry::Geometry;
use super::info::FamilyInfo;
use super::inspect::trace::{ProbedBit, QueryTrace};
use crate::memory::LineBuf;

/// The accepted sizes of a line, in bytes. RocksDB took the cache line of the machine that wrote
/// the filter.
const LINE_BYTES: RangeInclusive<usize> = 16..=1024;

pub(super) const INFO: FamilyInfo = FamilyInfo {
    family: Family::LegacyBloom,
    name: "legacy_bloom",
    limits: None,
    encoding: FilterEncoding::RocksDb,
    metaindex_name: METAINDEX_NAME,
    policy_name: POLICY_NAME,
    build: |_, _| None,
    expected: |_, _| None,
    bits_for_rate: bloom_bits_for_rate,
    inspect: |_| None,
    #[cfg(any(test, fuzzing))]
    repair: |block| {
        repair_trailer(block, |lines, [probes, ..]| {
            let [a, b, c, d] = (lines as u32).to_le_bytes();
            [probes % 0x80, a, b, c, d]
        });
    },
};

/// The parameters of a legacy Bloom filter.
#[derive(Clone, Copy)]
pub(super) struct LegacyGeometry {
    lines: u32,
    log2_line_bytes: u8,
    probes: u8,
}

impl LegacyGeometry {
    /// Bits that a key sets.
    pub fn probes(&self) -> u32 {
        self.probes.into()
    }

    /// Bytes of a line.
    pub fn line_bytes(&self) -> usize {
        1 << self.log2_line_bytes
    }

    fn line_of(&self, hash: KeyHash) -> u32 {
        hash as u32 % self.lines
    }

    fn payload_bytes(&self) -> usize {
        (self.lines as usize) << self.log2_line_bytes
    }

    /// The lines in `block`.
    fn payload<'a>(&self, block: &'a LineBuf) -> &'a [u8] {
        &block[..block.len().min(self.payload_bytes())]
    }

    /// The bits of a hash in its line.
    #[inline(always)]
    fn bits(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<> {
        let mask = (8usize << self.log2_line_bytes) - 1;
        let (first, step) = (hash as u32, (hash as u32).rotate_right(17));
        (0..u32::from(self.probes))
            .map(move |i| first.wrapping_add(step.wrapping_mul(i)) as usize & mask)
    }
}

impl Geometry for LegacyGeometry {
    fn parse(block: &LineBuf) -> Result<LegacyGeometry, &'static str> {
        let Some((payload, &[probes, l0, l1, l2, l3])) = block.split_last_chunk::<TRAILER_BYTES>()
        else {
            return Err("shorter than a filter's trailer");
        };
        let lines = u32::from_le_bytes([l0, l1, l2, l3]);
        if !(1..=127).contains(&probes) {
            return Err("a legacy Bloom filter with an impossible number of probes");
        }
        if lines == 0 || payload.is_empty() || !payload.len().is_multiple_of(lines as usize) {
            return Err("a legacy Bloom filter whose length is not a number of lines");
        }
        let line_bytes = payload.len() / lines as usize;
        if !line_bytes.is_power_of_two() || !LINE_BYTES.contains(&line_bytes) {
            return Err("a legacy Bloom filter whose lines are no cache lines");
        }
        Ok(LegacyGeometry { lines, log2_line_bytes: line_bytes.trailing_zeros() as u8, probes })
    }

    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let line = self.line_of(hash);
        block.prefetch((line as usize) << self.log2_line_bytes);
        line
    }

    fn finish(&self, block: &LineBuf, hash: KeyHash, line: u32) -> bool {
        let line_bytes = self.line_bytes();
        let at = (line as usize) << self.log2_line_bytes;
        let Some(line) = self.payload(block).get(at..at + line_bytes) else {
            return true;
        };
        self.bits(hash).all(|bit| line[bit >> 3] & (1 << (bit & 7)) != 0)
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        let number = self.line_of(hash);
        let line = &self.payload(block)[number as usize * self.line_bytes()..][..self.line_bytes()];
        let found = |bit: usize| line[bit / 8] >> (bit % 8) & 1 == 1;
        let probed = |bit| ProbedBit { number: bit as u32, found: found(bit), wanted: true };
        QueryTrace::Line {
            line: number,
            lines: self.lines,
            line_bytes: line.len() as u32,
            bits: self.bits(hash).map(probed).collect(),
        }
    }

    fn predicted_fpr(&self, _block: &LineBuf, keys: u64) -> f64 {
        let bits_per_key = self.payload_bytes() as f64 * 8.0 / keys.max(1) as f64;
        // The formula is for lines of 64 bytes. Other lines are rare, and the estimate is close
        // enough for them.
        let keys_per_line = 512.0 / bits_per_key;
        let collisions = keys as f64 / 4_294_967_296.0;
        (cache_line_bloom_fpr(keys_per_line, self.probes()) + collisions).min(1.0)
    }
}

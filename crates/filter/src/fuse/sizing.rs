//! The number of slots of a binary fuse filter, and of bits per slot: pure functions.
//!
//! *How many slots?* Segments must be long enough that taking out keys rarely stalls. They must
//! also be short enough that there are many of them: then taking out moves from the two ends of the
//! array inward, segment by segment, which makes the filter smaller than one whose keys pick three
//! slots anywhere. The formulas are those of the paper ([`fuse`](super)), which found them by
//! experiment. With n keys a segment has `4.8 * n^0.58` slots, rounded down to a power of two, and
//! the array has these sizes:
//!
//! ```text
//! keys          1,000   10,000   100,000   1 million   10 million
//! slots a key    1.38     1.25      1.18       1.13         1.125      plus rounding to
//!                                                                      segments
//! ```
//!
//! *How many bits?* A requested size gets the widest fingerprint, of 4 to 16 bits, whose array fits
//! into it. A requested rate gets the narrowest fingerprint that reaches it.
//!
//! The number of slots of a segment is a power of two, so the length of the array changes in steps.
//! The formulas use the logarithm of the number of keys. The standard library computes it, and the
//! last digit may differ between systems. Where that digit decides between two steps, two systems
//! build arrays of different length.

use super::layout::{BITS, Layout, MAX_LOG2_SLOTS, MIN_LOG2_SLOTS};
use crate::bloom::layout::TRAILER_BYTES as BLOOM_TRAILER_BYTES;
use crate::bloom::sizing::{bloom_bits_for_rate, bloom_bytes, bloom_fpr, bloom_millibits_for_fpr};
use crate::family::Target;
use crate::math::{ceil, ln, log2, powi, round};

/// The rate of the widest fingerprint, 2^-16.
pub const LOWEST_RATE: f64 = 1.0 / 65_536.0;

/// Slots a key in a very large filter; smaller filters have more.
const SLOTS_PER_KEY: f64 = 1.125;

/// The array for `keys` distinct keys, at least one, with the narrowest slots; the callers replace
/// this width. `None` if the slots cannot be counted in 32 bits.
fn array(keys: usize) -> Option<Layout> {
    let keys = keys as f64;
    // `max(2.0)` avoids a division by the logarithm of 1, which is 0: any array is large enough for
    // one key.
    let log2_slots = (ln(keys) / ln(3.33) + 2.25) as u32;
    let log2_slots = log2_slots.clamp(MIN_LOG2_SLOTS, MAX_LOG2_SLOTS);
    let slots_per_key = (0.875 + 0.25 * ln(1e6) / ln(keys.max(2.0))).max(SLOTS_PER_KEY);
    let slots = round(keys * slots_per_key) as u64;
    let all_segments = slots.div_ceil(1 << log2_slots).max(3);
    let segments = u32::try_from(all_segments - 2).ok()?;
    let layout = Layout { segments, log2_slots, bits: *BITS.start() };
    (layout.slots() <= u64::from(u32::MAX)).then_some(layout)
}

/// The fewest bits of a fingerprint with which at most the share `rate` of absent keys passes. The
/// result is limited to [`BITS`].
fn bits_of_rate(rate: f64) -> u32 {
    ceil(-log2(rate)).clamp(f64::from(*BITS.start()), f64::from(*BITS.end())) as u32
}

/// The layout for `keys` added hashes, of which `distinct`, at least one, are different. `None` if
/// a Bloom filter should be built instead: the requested size is too small for every width, the
/// filter of the requested rate would be larger than a Bloom filter, or there are too many keys for
/// the format.
pub fn fit(target: Target, keys: usize, distinct: usize) -> Option<Layout> {
    let array = array(distinct)?;
    let of_bits = |bits| Layout { bits, ..array };
    let layout = match target {
        Target::MillibitsPerKey(millibits) => {
            let bytes = keys as u64 * u64::from(millibits) / 8000;
            let mut widest_first = BITS.rev().map(of_bits);
            widest_first.find(|layout| layout.total_bytes() <= bytes)?
        }
        Target::Fpr(rate) => of_rate(of_bits, rate, keys)?,
        Target::LikeBloom(millibits) => of_rate(of_bits, bloom_fpr(millibits), keys)?,
    };
    (layout.total_bytes() <= u64::from(u32::MAX)).then_some(layout)
}

fn of_rate(of_bits: impl Fn(u32) -> Layout, rate: f64, keys: usize) -> Option<Layout> {
    let layout = of_bits(bits_of_rate(rate));
    let bloom = bloom_bytes(keys, bloom_millibits_for_fpr(rate)) + BLOOM_TRAILER_BYTES;
    (layout.total_bytes() <= bloom as u64).then_some(layout)
}

/// The stored bits a key and the rate of a filter of this many distinct keys. `None` if a Bloom
/// filter would be built instead.
pub fn expected(keys: usize, target: Target) -> Option<(f64, f64)> {
    let layout = fit(target, keys, keys)?;
    Some((layout.total_bytes() as f64 * 8.0 / keys as f64, rate(layout.bits)))
}

/// The share of absent keys whose slots happen to give their fingerprint.
pub fn rate(bits: u32) -> f64 {
    powi(0.5, bits)
}

/// The bits a key with which a filter of about a million keys has this rate. If a Bloom filter
/// needs fewer, it is built instead, so its bits are returned.
pub fn bits_for_rate(rate: f64) -> f64 {
    let fuse = 1.13 * f64::from(bits_of_rate(rate));
    fuse.min(bloom_bits_for_rate(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_fingerprint_that_fits_is_taken() {
        let million = 1_000_000;
        let bits_of = |millibits| {
            fit(Target::MillibitsPerKey(millibits), million, million).map(|layout| layout.bits)
        };
        for (bits, expected) in [(4, 4), (8, 8), (12, 12), (16, 16)] {
            let bytes = Layout { bits, ..array(million).unwrap() }.total_bytes();
            let millibits = (bytes * 8000).div_ceil(million as u64) as u32;
            assert_eq!(bits_of(millibits), Some(expected));
            assert_eq!(bits_of(millibits - 1), (bits > 4).then(|| expected - 1));
        }
        assert_eq!(bits_of(9_100), Some(8));
        assert_eq!(bits_of(13_700), Some(12));
        assert_eq!(bits_of(18_200), Some(16));
        assert_eq!(bits_of(32_000), Some(16));
    }

    #[test]
    fn a_rate_gets_the_narrowest_fingerprint_that_reaches_it() {
        let bits_of = |rate| fit(Target::Fpr(rate), 100_000, 100_000).map(|layout| layout.bits);
        assert_eq!(bits_of(0.01), Some(7));
        assert_eq!(bits_of(1.0 / 128.0), Some(7));
        assert_eq!(bits_of(1.0 / 129.0), Some(8));
        assert_eq!(bits_of(LOWEST_RATE), Some(16));
        // A slot has at least four bits, so for this rate a Bloom filter is smaller.
        assert_eq!(bits_of(0.3), None);
        let few = fit(Target::MillibitsPerKey(9000), 10, 10);
        assert!(few.is_none(), "the trailer alone takes more");
        assert!(fit(Target::Fpr(0.01), 5_000_000_000, 5_000_000_000).is_none(), "so many keys");
    }
}

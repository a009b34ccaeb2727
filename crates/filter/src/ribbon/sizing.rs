//! The size of a Standard128 Ribbon: its slots, its blocks of 128 slots, and its segments, each of
//! which is one column of one block. Pure functions.
//!
//! *How many slots?* A little more than one per key. With more keys, more slots a key are needed,
//! because the chance that the band is overloaded somewhere grows with its length: 1.03 slots a key
//! at ten thousand keys, 1.05 at a million, 1.07 at a hundred million. [`slots_for`] has RocksDB's
//! table, made so that one seed in twenty fails (`util/ribbon_config.cc`).
//!
//! *How many columns?* One for each halving of the false-positive rate. [`fit`] meets a target in
//! stored bits (7 bits a key give a rate of 1 %), a target rate, or RocksDB's target, which is the
//! rate of a Bloom filter of a given number of bits. With RocksDB's target the filter must be as
//! long as RocksDB's, to the byte. So this file keeps RocksDB's order of floating-point operations
//! and, for this target, biases rounding by the hash of the first key, as RocksDB does.
//!
//! A layout has at least 256 slots. For few keys that is wasteful, and a Bloom filter is built
//! instead.

use super::layout::{BLOCK_SLOTS, Layout, MAX_COLUMNS, SEGMENT_BYTES, TRAILER_BYTES};
use crate::bloom::sizing::{bloom_bytes, bloom_fpr, rocksdb_bloom_fpr};
use crate::family::Target;
use crate::math::{log2, powi, round};

/// With more keys than this, a Bloom filter is made.
pub const MAX_KEYS: usize = 950_000_000;

/// From this many slots on, a ribbon is built without comparing it with a Bloom filter.
const SMALL_SLOTS: u32 = 1024;

/// The number of keys at which one seed in twenty fails with 2^i slots, for i = 8 to 17 (measured
/// by RocksDB's authors).
const KEYS_AT_POWER_OF_TWO: [f64; 10] =
    [248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126506.0];

/// The number of keys for 2^`log2_slots` slots; 0 below the table's range.
fn keys_at(log2_slots: u32) -> f64 {
    match log2_slots {
        0..8 => 0.0,
        8..18 => KEYS_AT_POWER_OF_TWO[log2_slots as usize - 8],
        // Beyond the table, each doubling takes 0.0038 slots a key more.
        _ => {
            let slots_per_key =
                131072.0 / 126506.0 - 17.0 * 0.0038 + 0.0038 * f64::from(log2_slots);
            (1u64 << log2_slots) as f64 / slots_per_key
        }
    }
}

/// RocksDB's number of slots for `keys` keys (1 to [`MAX_KEYS`]): a multiple of 128, at least 256.
pub fn slots_for(keys: usize) -> u32 {
    debug_assert!((1..=MAX_KEYS).contains(&keys));
    let keys = keys as f64;
    let nearest = (log2(keys) + 0.5) as u32;
    if keys_at(nearest) == 0.0 {
        return 2 * BLOCK_SLOTS;
    }
    // Interpolates between two powers of two: 2^exponent slots take `few` keys, and twice as many
    // slots take `many` keys.
    let exponent = if keys < keys_at(nearest) { nearest - 1 } else { nearest };
    let (few, many) = (keys_at(exponent), keys_at(exponent + 1));
    let power = (1u64 << exponent) as f64;
    let slots = (keys - few) / (many - few) * power + power + 0.999_999_999;
    (slots as u32).next_multiple_of(BLOCK_SLOTS).max(2 * BLOCK_SLOTS)
}

/// The layout for `keys` keys, the first of which has hash `first_hash`; `None` when a Bloom filter
/// meets the target better, or there are more keys than a layout can hold.
pub fn fit(target: Target, keys: usize, first_hash: u64) -> Option<Layout> {
    if !(1..=MAX_KEYS).contains(&keys) {
        return None;
    }
    let blocks = slots_for(keys) / BLOCK_SLOTS;
    let segments = match target {
        Target::MillibitsPerKey(millibits) => segments_for_size(blocks, keys, millibits),
        Target::LikeBloom(millibits) => {
            let one_in = 1.0 / rocksdb_bloom_fpr(millibits);
            segments_for_rate(blocks, one_in, (first_hash >> 32) as u32)
        }
        // This target is Maypole's own, so rounding need not be biased as in RocksDB. With bias 0
        // the rate is never above the requested one.
        Target::Fpr(fpr) => segments_for_rate(blocks, 1.0 / fpr, 0),
    };
    let layout = Layout::new(blocks, segments)?;
    (layout.slots() >= SMALL_SLOTS || !bloom_is_better(target, keys, &layout)).then_some(layout)
}

/// The expected filter for `keys` keys: its stored bits per key, and its false-positive rate.
/// `None` if a Bloom filter is built instead.
pub fn expected(keys: usize, target: Target) -> Option<(f64, f64)> {
    let layout = fit(target, keys, 0)?;
    Some((layout.stored_bytes() as f64 * 8.0 / keys as f64, layout.predicted_fpr()))
}

fn bloom_is_better(target: Target, keys: usize, layout: &Layout) -> bool {
    let millibits = target.bloom_millibits();
    match target {
        // At the same size, the filter with the lower rate is better.
        Target::MillibitsPerKey(_) => bloom_fpr(millibits) <= layout.predicted_fpr(),
        // At the same rate, the smaller filter is better: RocksDB's rule.
        Target::LikeBloom(_) | Target::Fpr(_) => {
            bloom_bytes(keys, millibits) + TRAILER_BYTES < layout.stored_bytes()
        }
    }
}

/// The number of segments of a filter with `millibits / 1000` bits a key, trailer included. It is
/// rounded, so the stored size differs from the requested one by at most half a segment, unless the
/// requested size is less than one segment or more than 32 columns.
fn segments_for_size(blocks: u32, keys: usize, millibits: u32) -> usize {
    let bytes = keys as f64 * f64::from(millibits) / 8000.0 - TRAILER_BYTES as f64;
    let segments = round(bytes / SEGMENT_BYTES as f64);
    // The cast of a negative number gives 0.
    (segments as usize).clamp(1, (blocks * MAX_COLUMNS) as usize)
}

/// The number of segments with which one of `one_in` absent keys passes. For a rate between two
/// powers of two, some blocks have one column fewer than the others (`layout.rs`), which saves one
/// segment for each of these blocks. The number of these blocks is rounded down. Like RocksDB, the
/// function first adds `bias / 2^32` of a slot to their slots, so that sometimes one more segment
/// is saved.
fn segments_for_rate(blocks: u32, one_in: f64, bias: u32) -> usize {
    if one_in <= 1.0 {
        return 1;
    }
    if one_in > f64::from(u32::MAX) {
        return (blocks * MAX_COLUMNS) as usize;
    }
    let fewer_columns = (one_in as u32).ilog2();
    let low_rate = powi(0.5, fewer_columns);
    let full_rate = low_rate / 2.0;
    let low_part = (1.0 / one_in - full_rate) / (low_rate - full_rate);
    let bias = (f64::from(bias) + 0.5) / (1u64 << 32) as f64;
    let starts = f64::from(blocks * BLOCK_SLOTS - (BLOCK_SLOTS - 1));
    let low_blocks = ((low_part * starts + bias) / f64::from(BLOCK_SLOTS)) as u32;
    (blocks * (fewer_columns + 1) - low_blocks) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_grow_with_the_keys_and_never_run_out_of_blocks() {
        assert_eq!([1, 182, 248, 249, 499, 500].map(slots_for), [256, 256, 256, 384, 512, 640]);
        let mut before = 0;
        for keys in (0..207).map(|i| 1.1f64.powi(i) as usize) {
            let slots = slots_for(keys);
            assert!(slots >= before && slots.is_multiple_of(128), "{keys} keys");
            assert!(f64::from(slots) < keys as f64 * 1.09 + 256.0, "{keys} keys: {slots} slots");
            before = slots;
        }
        assert!(slots_for(MAX_KEYS) / 128 < 1 << 24);
        assert_eq!(fit(Target::MillibitsPerKey(7000), MAX_KEYS + 1, 0), None);
    }

    #[test]
    fn bits_asked_for_are_bits_stored() {
        for keys in [10_000, 12_345, 100_000, 10_000_000, MAX_KEYS] {
            for millibits in [1000, 1500, 4000, 6999, 7000, 12_345, 25_000, 32_000] {
                let layout = fit(Target::MillibitsPerKey(millibits), keys, 0).unwrap();
                let stored = layout.stored_bytes() as f64 * 8000.0 / keys as f64;
                let ratio = stored / f64::from(millibits);
                assert!((0.99..1.01).contains(&ratio), "{millibits}, {keys} keys: {stored}");
            }
        }
    }

    #[test]
    fn a_rate_asked_for_is_met_and_hardly_bettered() {
        for keys in [10_000, 100_000, 1_000_000] {
            for fpr in [0.9, 0.3, 0.01, 1.0 / 128.0, 1e-3, 1e-6, 2.4e-10] {
                let found = fit(Target::Fpr(fpr), keys, 0).unwrap().predicted_fpr();
                assert!((0.96..=1.000001).contains(&(found / fpr)), "{fpr}, {keys} keys: {found}");
            }
        }
    }

    #[test]
    fn for_few_keys_a_bloom_filter_is_better() {
        for keys in [1, 10, 100] {
            for target in
                [Target::MillibitsPerKey(7000), Target::LikeBloom(10_000), Target::Fpr(0.01)]
            {
                assert_eq!(fit(target, keys, 0), None, "{keys} keys, {target:?}");
            }
        }
        for keys in [240, 1000, 5000] {
            for target in
                [Target::MillibitsPerKey(7000), Target::LikeBloom(10_000), Target::Fpr(0.01)]
            {
                assert!(fit(target, keys, 0).is_some(), "{keys} keys, {target:?}");
            }
        }
    }

    #[test]
    fn the_first_hash_is_now_and_then_worth_a_segment() {
        let segments =
            |keys, first_hash| fit(Target::LikeBloom(10_000), keys, first_hash).unwrap().segments();
        let saved: Vec<usize> =
            (5000..10_000).map(|keys| segments(keys, 0) - segments(keys, u64::MAX)).collect();
        assert!(saved.iter().all(|&saved| saved <= 1));
        // The bias adds at most one slot to the slots with one column fewer. A block has 128 slots,
        // so about 1 in 128 of these filters saves a segment.
        let share = saved.iter().sum::<usize>() as f64 / saved.len() as f64;
        assert!((0.0..1.0 / 32.0).contains(&share) && share > 0.0, "{share}");
    }
}

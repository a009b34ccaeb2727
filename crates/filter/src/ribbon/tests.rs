//! The family as a whole: it makes RocksDB's bytes for every branch of RocksDB's construction.

use super::*;
use crate::bloom;
use crate::family::Target;
use crate::hash64;
use crate::hashes::HashList;

/// Filters that RocksDB wrote: `keys,key bytes,bits per key,block bytes,hash of the block`.
///
/// Made by RocksDB 7.8.3's `db_bench --benchmarks=fillseq,flush`, with an options file that names
/// the filter policy `ribbonfilter:BITS:-1`. Each line gives the length of a table's filter block
/// and the block's [`hash64`]. The formula for the number of slots changes at every entry of
/// `KEYS_AT_POWER_OF_TWO`. For every interval between two entries there is a filter with the
/// largest number of keys in the interval, and for most intervals also one with the smallest. Some
/// filters need a second seed, and small ones became Bloom filters.
const WRITTEN_BY_ROCKSDB: &str = include_str!("../../tests/data/rocksdb-filters/ribbon-sizes.csv");

/// The `i`-th key of `db_bench`: the number, big-endian, padded with the digit zero.
fn sequential_hashes(keys: u64, key_bytes: usize) -> HashList {
    let mut key = vec![b'0'; key_bytes];
    let hash = |i: u64| {
        key[..8].copy_from_slice(&i.to_be_bytes());
        hash64(&key)
    };
    (0..keys).map(hash).collect()
}

#[test]
fn every_filter_is_rocksdbs_byte_for_byte() {
    let (mut ribbons, mut blooms, mut second_seeds) = (0, 0, 0);
    for line in WRITTEN_BY_ROCKSDB.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [keys, key_bytes, bits, block_bytes, block_hash] = fields[..] else { panic!("{line}") };
        let hashes = sequential_hashes(keys.parse().unwrap(), key_bytes.parse().unwrap());
        let millibits = (bits.parse::<f64>().unwrap() * 1000.0).round() as u32;
        let block = match build::build(&hashes, Target::LikeBloom(millibits)) {
            Some(block) => {
                let (_, seed) = layout::Layout::parse(&block).unwrap();
                ribbons += 1;
                second_seeds += u32::from(seed != hashes.first().unwrap() as u8);
                block
            }
            None => {
                blooms += 1;
                bloom::build(&hashes, millibits)
            }
        };
        assert_eq!(block.len().to_string(), block_bytes, "{line}");
        assert_eq!(format!("{:016x}", hash64(&block)), block_hash, "{line}");
    }
    assert_eq!((ribbons, blooms, second_seeds), (97, 8, 3));
}

#[test]
fn the_order_of_all_keys_but_the_first_does_not_matter() {
    let hashes: Vec<u64> = sequential_hashes(3000, 16).iter().collect();
    let target = Target::MillibitsPerKey(7000);
    let expected = build::build(&hashes.iter().copied().collect(), target).unwrap();
    for turn in [1, 7, 1000] {
        let mut turned = hashes.clone();
        turned[1..].rotate_left(turn);
        assert_eq!(*build::build(&turned.into_iter().collect(), target).unwrap(), *expected);
    }
}

#[test]
fn keys_that_crowd_under_every_seed_are_left_to_a_bloom_filter() {
    // `row::rehash` changes the lower half of a hash by the seed, and multiplies the result by a
    // constant, whose lower half is `multiplier`. These hashes are equal in the lower half. Their
    // upper halves are small numbers times the inverse of `multiplier`, so the upper halves of the
    // products are the small numbers plus one number that is the same for all hashes. Therefore
    // under every seed all keys start in a few neighbouring slots. (If they all started in one
    // slot, no equations would contradict each other, because the bits of a fingerprint are bits of
    // the coefficients.)
    let multiplier = 0x236a_3a0du32;
    let inverse = (0..5).fold(multiplier, |inverse: u32, _| {
        inverse.wrapping_mul(2u32.wrapping_sub(multiplier.wrapping_mul(inverse)))
    });
    let crowded = (0..4000u32).map(|i| u64::from((i << 10).wrapping_mul(inverse)) << 32);
    assert!(build::build(&crowded.collect(), Target::MillibitsPerKey(7000)).is_none());
}

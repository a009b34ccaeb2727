//! The fuzz targets, one function for each fuzzer `filter_*` of the repository's `fuzz`. The input
//! is either a filter block, or the keys from which a filter is built.
//!
//! This module is compiled only for fuzzing and for tests.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Family, FilterBuilder, FilterReader, FilterSpec};

/// Returns `count` hashes to query, derived from `seed`.
fn hashes(seed: [u8; 8], count: usize) -> Vec<u64> {
    let mut hash = u64::from_le_bytes(seed);
    let next = || {
        hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x55;
        hash
    };
    core::iter::repeat_with(next).take(count).collect()
}

/// Queries a filter block of `family` for 100 hashes. The first eight bytes of `data` give the
/// hashes, and the rest is the block. If the first byte is even, `FamilyInfo::repair` first makes
/// the block's trailer valid, so that the reader accepts most blocks. A filter that the reader does
/// not accept must say maybe to every query.
pub fn filter(family: Family, data: &[u8]) {
    let Some((&seed, block)) = data.split_first_chunk() else { return };
    let mut block = block.to_vec();
    if seed[0] & 1 == 0 {
        (family.info().repair)(&mut block);
    }
    let reader = FilterReader::from_bytes(&block, family.info().encoding);
    let answers = ask_every_way(&reader, &hashes(seed, 100));
    assert!(reader.untrusted().is_none() || answers.iter().all(|&maybe| maybe));
    let rate = reader.predicted_fpr(1 + block.len() as u64);
    assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
    assert!(reader.fill().is_none_or(|fill| (0.0..=1.0).contains(&fill)));
}

/// Queries the filter for every hash, by each function of the reader that answers queries. Panics
/// if their results differ.
fn ask_every_way(reader: &FilterReader, hashes: &[u64]) -> Vec<bool> {
    let one_by_one: Vec<bool> = hashes.iter().map(|&hash| reader.may_contain(hash)).collect();
    let in_steps: Vec<bool> =
        hashes.iter().map(|&hash| reader.finish(reader.prepare(hash))).collect();
    let mut together = vec![false; hashes.len()];
    reader.may_contain_many(hashes, &mut together);
    assert!(one_by_one == in_steps && one_by_one == together, "the ways to ask disagree");
    let traced = hashes.iter().map(|&hash| reader.trace(hash).is_maybe());
    assert!(traced.eq(one_by_one.iter().copied()), "a trace disagrees");
    one_by_one
}

/// Builds a filter and queries it for every key that was added. The first four bytes of `data` give
/// the family, the bits a key, and how many keys are generated. Every four bytes after them are one
/// more key.
pub fn filter_round_trip(data: &[u8]) {
    let Some((&[family, bits, more, less], keys)) = data.split_first_chunk() else { return };
    let mut families = Family::written().cycle();
    let family = families.nth(family.into()).expect("some family is written");
    let bits = 1.0 + f64::from(bits) / 10.0;
    let Ok(spec) = FilterSpec::fpr(0.5f64.powf(bits / 1.44).clamp(1e-6, 0.9), family) else {
        return;
    };
    let mut set: Vec<u64> = keys
        .as_chunks::<4>()
        .0
        .iter()
        .map(|key| u64::from(u32::from_le_bytes(*key)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let more_keys = usize::from(u16::from_le_bytes([more, less]) & 0x3ff);
    set.extend(hashes([family as u8, more, less, 0, 0, 0, 0, 1], more_keys));
    let mut builder = FilterBuilder::new(spec).verify(false);
    // Every third key is added with the key before it as its prefix.
    for (i, &hash) in set.iter().enumerate() {
        match i % 3 {
            2 => builder.add_pair(hash, set[i - 1]),
            _ => builder.add(hash),
        }
    }
    if let Some(built) = builder.finish() {
        let reader = FilterReader::from_bytes(built.bytes(), built.encoding());
        assert_eq!(reader.untrusted(), None, "{spec} of {} keys", set.len());
        assert!(ask_every_way(&reader, &set).iter().all(|&maybe| maybe), "{spec} hides a key");
    }
}

#[cfg(test)]
mod tests;

//! A ribbon with bumping that holds the dozen keys of `ribbon.rs` in eleven slots, and the sizes of
//! the library's filters with bumping and without.
//!
//! A *bucket* is the keys whose start positions are in the same short range. If an equation of a
//! bucket contradicts others of the bucket or of the buckets before it, the whole bucket is
//! *bumped*: its keys go to another ribbon, the next *layer*. The last few keys would be stored as
//! *tags*, some bits of their hashes.

use std::fmt::Write;

use maypole::filter::{FilterBuilder, FilterSpec, sizing};

use super::keys::key_hash;
use super::ribbon::{KEYS, Outcome, WIDTH, add, draw, picked, row, solve};

/// The number of start positions in a bucket. (A bucket of the library's filters may also be bumped
/// in part.)
const BUCKET: u32 = 2;

pub fn bumped() -> String {
    let mut out = String::new();
    let mut left: Vec<&str> = KEYS.to_vec();
    let mut layer = 0;
    while left.len() > 2 {
        let slots = (left.len() as u32 - 1).max(WIDTH);
        let seed = layer;
        writeln!(out, "layer {layer}: {} keys, {slots} slots", left.len()).unwrap();
        let mut band = vec![None; slots as usize];
        let (mut kept, mut bumped) = (Vec::new(), Vec::new());
        // Rows that find no free slot in their bucket move into the left end of the next bucket, so
        // buckets are handled from left to right.
        for bucket in 0..(slots - WIDTH + 1).div_ceil(BUCKET) {
            let of_bucket = |key: &&&str| row(key, slots, seed).start / BUCKET == bucket;
            let keys: Vec<&str> = left.iter().filter(of_bucket).copied().collect();
            let mut trial = band.clone();
            let fails = keys.iter().any(|key| {
                matches!(add(&mut trial, row(key, slots, seed)), Outcome::Contradiction)
            });
            for key in &keys {
                let drawn = draw(&row(key, slots, seed), slots);
                let fate = if fails { "bumped" } else { "stays" };
                writeln!(out, "  bucket {bucket}  {key:<5} {drawn:<11}  {fate}").unwrap();
            }
            if fails {
                bumped.extend(keys);
            } else {
                band = trial;
                kept.extend(keys);
            }
        }
        let solution = solve(&band);
        for key in kept {
            let row = row(key, slots, seed);
            assert_eq!(picked(&solution, &row), row.fingerprint);
        }
        if bumped.len() == left.len() {
            break;
        }
        left = bumped;
        layer += 1;
    }
    writeln!(out, "spelled out as tags: {left:?}").unwrap();
    out
}

pub fn sizes() -> String {
    let mut out = String::from("keys      family   bits/key   predicted   ÷ bound\n");
    for keys in [200, 1_000, 10_000, 100_000] {
        for spec in ["bloom(10)", "ribbon(7)", "burr(7)"] {
            let mut builder = FilterBuilder::new(spec.parse::<FilterSpec>().unwrap());
            (0..keys).for_each(|i| builder.add(key_hash("present", i)));
            let block = builder.finish().unwrap();
            let bound = sizing::lower_bound_bits_per_key(block.predicted_fpr());
            writeln!(
                out,
                "{keys:<9} {:<8} {:>8.3} {:>9.3} % {:>9.3}",
                block.family().name(),
                block.bits_per_key(),
                block.predicted_fpr() * 100.0,
                block.bits_per_key() / bound,
            )
            .unwrap();
        }
    }
    out
}

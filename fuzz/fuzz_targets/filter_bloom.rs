//! Any bytes, queried as a Bloom filter.

#![no_main]

use maypole_filter::Family;

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole_filter::fuzzing::filter(Family::Bloom, data));

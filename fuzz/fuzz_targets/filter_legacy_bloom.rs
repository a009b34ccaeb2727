//! Any bytes, queried as a Bloom filter in the format of RocksDB's tables below format_version 5.

#![no_main]

use maypole_filter::Family;

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole_filter::fuzzing::filter(Family::LegacyBloom, data));

//! Any bytes, queried as a Bloom filter of old tables.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter_legacy_bloom(data));

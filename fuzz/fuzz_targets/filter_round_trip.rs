//! Builds a filter from any set of keys. A query for each key must return "maybe".

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole_filter::fuzzing::filter_round_trip(data));

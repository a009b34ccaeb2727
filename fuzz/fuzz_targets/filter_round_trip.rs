//! Any set of keys, built into a filter and queried.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter_round_trip(data));

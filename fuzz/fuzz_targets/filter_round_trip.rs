//! Any set of keys, from which a filter is built. It must answer "maybe" to a query for each key.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter_round_trip(data));

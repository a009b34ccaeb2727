//! Any bytes, queried as a bumped ribbon filter.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter_burr(data));

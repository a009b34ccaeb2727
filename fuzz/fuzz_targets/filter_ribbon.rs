//! Any bytes, queried as a ribbon filter.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter_ribbon(data));

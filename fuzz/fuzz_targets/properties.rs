//! Any bytes, read as a table's properties.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::properties(data));

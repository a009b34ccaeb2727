//! Any bytes, parsed and searched as an index block.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::index(data));

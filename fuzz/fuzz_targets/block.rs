//! Any bytes, walked and searched as a data block.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::block(data));

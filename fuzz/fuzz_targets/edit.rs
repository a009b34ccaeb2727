//! Any bytes, read as a change of the tree in the MANIFEST.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::edit(data));

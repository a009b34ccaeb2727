//! Any bytes, opened as the MANIFEST of a database.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::manifest(data));

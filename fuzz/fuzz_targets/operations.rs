//! Any operations, against a `BTreeMap`, with reopenings.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::operations(data));

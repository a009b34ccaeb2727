//! Any bytes, decoded as the end of a table.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::footer(data));

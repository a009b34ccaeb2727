//! Any bytes, opened as the WAL of a database.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::wal(data));

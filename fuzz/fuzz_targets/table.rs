//! Any bytes, read as a table. The fixtures are good seeds:
//! `cargo +nightly fuzz run table fuzz/corpus/table tests/fixtures/rocksdb`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::table(data));

//! Any bytes, read as a table. The fixtures are good seeds too: `tests/fixtures/rocksdb`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::table(data));

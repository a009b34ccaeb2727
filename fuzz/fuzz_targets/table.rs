//! Any bytes, read as a table. In addition to `fuzz/seeds/table`, `tests/fixtures/rocksdb` has good
//! seeds.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::table(data));

//! Any bytes, opened as the MANIFEST of a RocksDB database.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::rocksdb_manifest(data));

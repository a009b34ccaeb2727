//! Any operations on a database, which is reopened now and then and compared with a `BTreeMap`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::operations(data));

//! Any bytes, queried as a binary fuse filter.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter_fuse(data));

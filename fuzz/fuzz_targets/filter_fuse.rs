//! Any bytes, queried as a binary fuse filter.

#![no_main]

use maypole::filter::Family;

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::filter(Family::Fuse, data));
